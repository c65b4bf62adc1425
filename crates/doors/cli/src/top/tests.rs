use serde_json::json;

use super::*;

struct Script(Vec<&'static [u64]>);

impl Told for Script {
    fn status(&mut self, _: Option<u64>) -> Result<StatusView, Failure> {
        let job = |(place, job): (usize, &u64)| {
            serde_json::from_value(json!({
                "job": job, "name": "n", "user": "u", "project": null, "state": "running", "class": "primary",
                "priority": 10, "cpus": null, "memory_bytes": 1000 - place, "swap_bytes": null, "pids": [],
                "submitted_s": 1.0, "started_s": 2.0, "ended_s": null, "exit_code": null, "signal": null,
                "reason": null,
            }))
            .expect("a job's view")
        };
        Ok(StatusView { jobs: self.0.remove(0).iter().enumerate().map(job).collect(), ..nothing() })
    }

    fn map(&mut self) -> Result<MapView, Failure> {
        unreachable!("told from elsewhere")
    }

    fn job(&mut self, _: u64) -> Result<Option<ReportView>, Failure> {
        Ok(None)
    }

    fn control(&mut self, _: u64, _: Verb) -> Result<Option<String>, Failure> {
        Ok(None)
    }

    fn is_here(&self) -> bool {
        false
    }
}

#[test]
fn the_mark_stays_on_its_job_and_goes_to_the_next_at_its_end() {
    let script: [(&[u64], u64); 5] =
        [(&[1, 2, 3], 2), (&[2, 3, 1], 2), (&[3, 1, 2], 2), (&[3, 1], 1), (&[1, 4], 1)];
    let told = Script(script.iter().map(|(jobs, _)| *jobs).collect());
    let mut watch = Watch::new(Box::new(told), Duration::from_secs(1), None);
    (watch.screen.sort, watch.screen.width, watch.screen.height) = (Sort::Memory, 100, 30);
    for (at, (jobs, want)) in script.into_iter().enumerate() {
        watch.look().unwrap_or_else(|_| panic!("a script"));
        watch.lines().unwrap_or_else(|_| panic!("a script"));
        if at == 0 {
            let _ = watch.typed(Key::Down);
        }
        let act = watch.wished('x').expect("a job is marked");
        assert_eq!(act.job, want, "{jobs:?}");
    }
}
