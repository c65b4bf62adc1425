//! Figures for a monitoring system: served where the configuration says, while jobs run, and not otherwise.

use std::io::{Read, Write};
use std::net::TcpStream;

use pinfold_proto::JobState;
use pinfold_testkit::free_address;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::wait::eventually;

tests! {
    Best: scraped, projects_are_scraped;
}

/// The body of the answer to `GET /metrics`.
pub(crate) fn scrape(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(crate::wait::PATIENCE)).expect("a limit");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    Some(body.to_owned())
}

/// The value of a series by its whole name, labels included.
pub(crate) fn value(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.rsplit_once(' ').is_some_and(|(name, _)| name == series))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

fn projects_are_scraped(kind: Kind) {
    let address = free_address();
    let served = format!("profile.metrics={address}");
    let host = Host::with(kind, &["host.cpus=0", "slots.factor=2", "projects.web.cores=1", served.as_str()]);
    let waits = "until [ -e go ]; do sleep 0.05; done";
    let job = host.submit(&["--project", "web"], waits);
    host.until(job, JobState::Running);
    let other = host.submit(&[], waits);
    host.until(other, JobState::Running);
    let text = eventually("both are told of", || {
        let text = scrape(&address).ok_or("no answer")?;
        let of = |project: &str| {
            value(&text, &format!("pinfold_project_jobs{{project=\"{project}\",started=\"yes\"}}"))
        };
        if of("web") == Some(1.0) && of("") == Some(1.0) { Ok(text) } else { Err("not yet") }
    });
    let of =
        |name: &str, project: &str| value(&text, &format!("pinfold_project_{name}{{project=\"{project}\"}}"));
    assert_eq!((of("cores_guaranteed", "web"), of("cores_used", "web")), (Some(1.0), Some(1.0)), "{text}");
    assert_eq!((of("cores_borrowed", "web"), of("cores_owed", "web")), (Some(0.0), Some(0.0)), "{text}");
    assert_eq!(of("memory_guaranteed_bytes", "web"), None, "it has no memory of its own: {text}");
    assert_eq!(of("cores_used", ""), Some(0.0), "the other runs as a backfiller: {text}");
    assert_eq!(value(&text, "pinfold_projects_left_out"), Some(0.0), "{text}");
    host.make("go");
    host.until(job, JobState::Exited);
    host.until(other, JobState::Exited);
}

fn scraped(kind: Kind) {
    let host = Host::new(kind);
    let address = free_address();
    assert_eq!(scrape(&address), None, "nothing is served unless it is asked for");
    // A daemon of one's own is one's own to set; where that is not so, the test has no operator.
    let set = host.pinfold(["config", "set", &format!("profile.metrics={address}")]);
    assert_eq!(set.code, Some(0), "{set:?}");
    let job = host.submit(&["--name", "a \"quoted\\ name"], "until [ -e go ]; do sleep 0.05; done");
    host.until(job, JobState::Running);
    let running = eventually("the job is told of", || {
        let text = scrape(&address).ok_or("no answer")?;
        if text.contains("pinfold_job_info") { Ok(text) } else { Err("no job") }
    });
    assert!(running.ends_with("# EOF\n"), "{running}");
    assert_eq!(value(&running, "pinfold_jobs{state=\"running\"}"), Some(1.0), "{running}");
    assert!(value(&running, &format!("pinfold_job_memory_bytes{{job=\"{job}\"}}")).is_some(), "{running}");
    let turns = value(&running, "pinfold_loop_turn_seconds_count").expect("turns");
    assert!(turns >= 1.0, "{running}");
    assert!(value(&running, "pinfold_loop_turn_seconds_bucket{le=\"+Inf\"}") == Some(turns), "{running}");
    assert!(value(&running, "pinfold_loop_turn_longest_seconds{since=\"start\"}") > Some(0.0), "{running}");
    assert!(running.contains("name=\"a \\\"quoted\\\\ name\""), "{running}");
    for line in running.lines().filter(|line| !line.starts_with('#')) {
        let number = line.rsplit_once(' ').map(|(_, value)| value.parse::<f64>());
        assert!(matches!(number, Some(Ok(_))) && line.starts_with("pinfold_"), "{line}");
    }
    let taken = host.pinfold(["config", "set", "profile.metrics=192.0.2.1:1"]);
    assert_eq!(taken.code, Some(2), "{taken:?}");
    assert!(taken.err.contains("profile.metrics"), "{taken:?}");
    assert!(scrape(&address).is_some(), "what was served is served");
    // Two addresses of one port: the one is let go of for the other.
    let port = address.rsplit_once(':').expect("a port").1;
    host.succeeds(["config", "set", &format!("profile.metrics=0.0.0.0:{port}")]);
    assert!(scrape(&address).is_some(), "all of the host's addresses are served");
    host.succeeds(["config", "set", "profile.metrics_jobs=0"]);
    host.make("go");
    host.until(job, JobState::Exited);
    eventually("the job is counted, and no longer told of", || {
        let text = scrape(&address).ok_or("no answer")?;
        let counted = value(&text, "pinfold_jobs_ended_total{how=\"succeeded\"}") == Some(1.0);
        if counted && !text.contains("pinfold_job_info{") { Ok(()) } else { Err("not yet") }
    });
    host.succeeds(["config", "set", "profile.metrics=off"]);
    eventually("the address is given up", || if scrape(&address).is_none() { Ok(()) } else { Err("served") });
}
