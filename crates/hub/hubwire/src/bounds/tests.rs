//! Each figure by itself: within its range it is taken, outside of it refused by its name.

use pinfold_proto::view::{ReportView, StatusView};

use super::*;

fn head() -> Head {
    let text = r#"{"version":1,"job":7,"name":"align","command":["align"],"user":"ann","project":null,"state":"exited",
        "class":"primary","priority":10,"cpus":null,"submitted_s":1.0,"started_s":1.0,"ended_s":1.0,"exit_code":0,
        "signal":null,"reason":null,"timeout_s":1.0,"cpu_limit_s":1.0,"begin_s":1.0,"array_id":1,"array_index":1,
        "resources":[{"name":"gpu","count":1}],"queued_s":1.0,"wall_s":1.0,"suspended_s":0.0,"cpu_user_s":1.0,
        "cpu_system_s":1.0,"claim_bytes":1,"input_bytes":1,"limit_bytes":1,"memory_peak_bytes":1,"memory_mean_bytes":1,
        "cache_peak_bytes":1,"swap_peak_bytes":0,"virtual_peak_bytes":1,"io_read_bytes":0,"io_write_bytes":0,
        "processes_total":1,"processes_peak":1,"threads_peak":1,"samples":1,
        "numa":[{"node":0,"local":true,"memory_bytes":1,"memory_mean_bytes":1,"memory_peak_bytes":1}],"numa_local":1.0,
        "files_left_out":1,"threads_left_out":1,"memory_peak_kernel_bytes":1,"cpu_stalled_s":1.0,"memory_stalled_s":1.0,
        "memory_full_stalled_s":1.0,"io_stalled_s":1.0,"io_full_stalled_s":1.0,"anonymous_peak_bytes":1,
        "shared_peak_bytes":1,"mapped_peak_bytes":1,"io_read_calls":1,"io_write_calls":1,"faults_minor":1,
        "faults_major":1,"switches_voluntary":1,"switches_forced":1,"waited_s":1.0}"#;
    let report: ReportView = serde_json::from_str(text).unwrap();
    let act = Act { time_s: 1.0, action: "start".into(), reason: "because".into() };
    Head { report, acts: vec![act] }
}

fn live() -> Live {
    let text = r#"{"version":1,"host":"h","mode":"v2","slots":{"cores":1,"factor":1.0,"total":1,"used":1,"waiting":1},
        "memory":{"budget_bytes":1,"held_bytes":1,"swap_held_bytes":1,"pressure_full_avg10":1.0},
        "projects":[{"project":"p","users":null,"cores_guaranteed":1,"cores_used":1,"cores_borrowed":1,"cores_owed":1,
        "memory_guaranteed_bytes":1,"memory_used_bytes":1,"memory_borrowed_bytes":1,"memory_owed_bytes":1,
        "jobs_started":1,"jobs_waiting":1}],"resources":[{"resource":"gpu","total":1,"used":1,"jobs":[]}],
        "other_load":{"cores":1.0,"slots_withheld":1,"memory_bytes":1},
        "neighbours":{"users":1,"cores":1,"host_cores":1,"memory_bytes":1,"host_memory_bytes":1,
        "others_slots_wanted":1,"others_cores_held":1,"others_memory_held_bytes":1},"at_s":1.0,
        "reading":{"time_s":1.0,"span_s":1.0,"cpu_busy":1.0,"memory_used_bytes":1,"swap_used_bytes":1,"cpu_stalled":1.0,
        "memory_stalled":1.0,"memory_full_stalled":1.0,"io_stalled":1.0,"io_full_stalled":1.0,
        "temperature_celsius":1.0,"frequency_mhz":1.0},
        "jobs":[{"job":1,"name":"x","user":"ann","project":null,"state":"running","class":"primary","priority":1,
        "cpus":null,"memory_bytes":1,"swap_bytes":1,"pids":[],"cpu_s":1.0,"seen_s":1.0,"cpu_cores":1.0,
        "submitted_s":1.0,"started_s":1.0,"ended_s":1.0,"exit_code":null,"signal":null,"reason":null,"timeout_s":1.0,
        "cpu_limit_s":1.0,"begin_s":1.0,"array_id":1,"resources":[{"name":"gpu","count":1}],
        "place":{"lies":"compact","domains":1,"runs_compact":1,"runs_spread":1,"settled":true,"gain":1.0,
        "gain_low":1.0,"gain_high":1.0},
        "own_nodes":{"nodes":"0","foreign_before":1.0,"foreign_after":1.0,"kept":true,"found":"x"}}]}"#;
    let status: StatusView = serde_json::from_str(text).unwrap();
    let spool = SpoolFigures { bundles: 1, bytes: 1, max_bytes: 1, jobs_waiting: 1, refused: 1 };
    Live {
        version: 1,
        boot: "b".into(),
        sent_us: 1,
        status,
        spool,
        map: None,
        topology: None,
        asked: Vec::new(),
    }
}

fn series() -> Columns {
    Columns {
        time_s: vec![1.0],
        cpu_cores: vec![1.0],
        memory_bytes: vec![1],
        cache_bytes: vec![Some(1)],
        swap_bytes: vec![1],
        io_read_bytes: vec![1],
        io_write_bytes: vec![1],
        processes: vec![1],
        threads: vec![1],
        state: vec![pinfold_proto::JobState::Running],
    }
}

/// Makes each figure in turn what it cannot be, which is told by its name; and brought into its range, it is taken.
#[track_caller]
fn check_each<T>(
    make: impl Fn() -> T,
    each: impl Fn(&mut T, See<'_>),
    check: impl Fn(&mut T) -> Result<(), OutOfRange>,
) -> Vec<&'static str> {
    let mut names = Vec::new();
    each(&mut make(), &mut |name, _, figure| {
        assert!(figure.value().is_some(), "{name} is set in the test");
        names.push(name);
    });
    assert_eq!(check(&mut make()), Ok(()));
    for (at, name) in names.iter().enumerate() {
        for wrong in [f64::NAN, -1e18, 1.7e308, f64::INFINITY] {
            let mut changed = make();
            let (mut count, mut is_changed) = (0, false);
            each(&mut changed, &mut |_, kind, figure| {
                if count == at {
                    figure.set(wrong);
                    // A whole number can be neither, and a short one is within some ranges whatever it is.
                    let (least, most) = kind.range();
                    is_changed = figure.value().is_some_and(|value| !(least..=most).contains(&value));
                }
                count += 1;
            });
            let found = check(&mut changed);
            assert_eq!(found.as_ref().err().map(|found| found.name), is_changed.then_some(*name), "{wrong}");
            bring_within(|see| each(&mut changed, see));
            assert_eq!(check(&mut changed), Ok(()), "{name} of {wrong}");
        }
    }
    names
}

#[test]
fn each_figure_has_a_range() {
    let of_job = check_each(head, |head, see| each_of_head(head, see), check_head);
    let of_series = check_each(series, |series, see| each_of_series(series, see), check_series);
    let of_host = check_each(live, |live, see| each_of_live(live, see), check_live);
    assert!(
        of_job.contains(&"wall_s")
            && of_job.contains(&"acts.time_s")
            && of_job.contains(&"numa.memory_bytes")
    );
    assert_eq!((of_job.len(), of_series.len(), of_host.len()), (54, 9, 72));
}

#[test]
fn a_figure_is_told_by_its_name() {
    let said = |change: fn(&mut ReportView)| {
        let mut changed = head();
        change(&mut changed.report);
        check_head(&mut changed).unwrap_err().to_string()
    };
    let told = said(|report| report.wall_s = Some(1.7e308));
    assert!(
        told.starts_with("wall_s is 1.7e308, and no host has less than 0 or more than 631152000"),
        "{told}"
    );
    let told = said(|report| report.ended_s = Some(253_370_764_800.0));
    assert!(told.starts_with("ended_s is 253370764800, "), "the year 9999: {told}");
    let told = said(|report| report.memory_peak_bytes = u64::MAX);
    assert!(told.starts_with("memory_peak_bytes is 1.8446744073709552e19, "), "{told}");
    let told = said(|report| report.suspended_s = -0.5);
    assert!(told.starts_with("suspended_s is -0.5, "), "{told}");
}

#[test]
fn requests_of_users_are_clamped() {
    let mut wish = head();
    (wish.report.claim_bytes, wish.report.timeout_s) = (Some(u64::MAX), Some(1.8e13));
    wish.report.begin_s = Some(253_370_764_800.0);
    bound_head(&mut wish);
    assert_eq!((wish.report.claim_bytes, wish.report.timeout_s), (Some(1 << 50), Some(631_152_000.0)));
    assert_eq!(check_head(&mut wish), Ok(()));
}
