//! What the host as a whole did, read while a job runs.

use pinfold_proto::JobState;
use pinfold_proto::host::HostView;

use crate::host::Host;
use crate::kind::{Kind, each_kind};
use crate::wait::eventually;

each_kind!(while_a_job_runs);

fn view(host: &Host, since: &str) -> HostView {
    let done = host.pinfold(["host", "--json", "--since", since]);
    assert_eq!(done.code, Some(0), "{done:?}");
    serde_json::from_str(&done.out).expect("one JSON object")
}

fn while_a_job_runs(kind: Kind) {
    let host = Host::with(kind, &["profile.interval=50ms"]);
    assert_eq!(view(&host, "1h").samples, [], "nothing ran");
    let none = host.pinfold(["host"]);
    assert!(none.out.contains("while jobs run"), "{none:?}");
    let job = host.submit(&[], "until [ -e go ]; do sleep 0.02; done");
    let told = eventually("the host was read", || {
        let told = view(&host, "1h");
        if told.samples.is_empty() { Err(format!("{told:?}")) } else { Ok(told) }
    });
    let first = told.samples[0];
    assert!(told.pus > 0 && (1..told.memory_bytes).contains(&first.memory_used_bytes), "{told:?}");
    assert_eq!((first.span_s, first.cpu_busy), (None, None), "there is none before it: {told:?}");
    assert!(first.time_s >= host.job(job).submitted_s, "{told:?}");
    let text = host.pinfold(["host", "--since", "1d"]);
    assert!(text.out.contains("PUS BUSY") && text.out.contains(" reading"), "{text:?}");
    assert_eq!(view(&host, "2100-01-01").samples, [], "nothing since then");
    let wrong = host.pinfold(["host", "--since", "2100-02-30"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("--since"), "{wrong:?}");
    host.make("go");
    host.until(job, JobState::Exited);
}
