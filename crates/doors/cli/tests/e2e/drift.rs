//! Another program writes to the kernel's files of a job: that is noticed, set back, and told.

use std::fs;
use std::path::PathBuf;

use pinfold_proto::JobState;
use pinfold_proto::view::{AuditView, WhyView};
use pinfold_testkit::ignore;
use rustix::process::Signal;

use crate::host::{Host, send, status_field};
use crate::kind::{Kind, tests};
use crate::wait::{eventually, no_rescue};

tests! {
    Best: what_another_program_changes_is_set_back, a_backfiller_is_no_backfiller_while_it_stands_still;
}

/// A file of the job's groups, in whichever hierarchy has it.
fn file_of_job(host: &Host, names: &[&str]) -> Result<PathBuf, String> {
    let groups = host.job_groups();
    let files = names.iter().flat_map(|name| groups.iter().map(move |group| group.join(name)));
    files.into_iter().find(|file| file.exists()).ok_or_else(|| format!("none of {names:?} in {groups:?}"))
}

fn read(file: &PathBuf) -> String {
    fs::read_to_string(file).expect("a file of the job's group").trim().to_owned()
}

/// Does this while the daemon is stopped.
fn held(host: &Host, change: impl FnOnce()) {
    host.hold_daemon();
    let state = || status_field(host.daemon_pid(), "State").unwrap_or_default();
    eventually("the daemon is stopped", || if state().starts_with('T') { Ok(()) } else { Err(state()) });
    change();
    send(host.daemon_pid(), Signal::CONT);
}

fn what_another_program_changes_is_set_back(kind: Kind) {
    if kind != Kind::Groups {
        ignore!("without control groups a job has no files that another program could write to");
    }
    let _frozen = no_rescue();
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let job = host.submit(&["--mem-limit", "256MiB"], "until [ -e go ]; do sleep 0.05; done; exit 3");
    host.until(job, JobState::Running);
    for (names, other) in [
        (&["memory.max", "memory.limit_in_bytes"][..], (512u64 << 20).to_string()),
        (&["cpu.weight", "cpu.shares"][..], "77".to_owned()),
        (&["freezer.state", "cgroup.freeze"][..], "1".to_owned()),
    ] {
        // The unified hierarchy has the job's group only once it has run for a moment.
        let file = eventually("the job has the file", || file_of_job(&host, names));
        let before = read(&file);
        let other = if file.ends_with("freezer.state") { "FROZEN".to_owned() } else { other };
        // A daemon that runs may set it back before it is read.
        held(&host, || {
            fs::write(&file, &other).expect("root may write it");
            assert_ne!(read(&file), before, "{file:?}");
        });
        eventually("it is set back", || match read(&file) {
            now if now == before => Ok(()),
            now => Err(format!("{file:?}: {now}")),
        });
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        eventually("it is told", || {
            let said = host.pinfold(["why", &job.to_string(), "--json"]);
            let view: WhyView = serde_json::from_str(&said.out).map_err(|error| error.to_string())?;
            let told = view.decisions.iter().find(|one| one.action == format!("restore {name}"));
            match told {
                Some(told) if told.reason.contains("another program changed it from") => Ok(()),
                _ => Err(format!("{view:?}")),
            }
        });
    }
    let said = host.pinfold(["audit", "--verify", "--json"]);
    let view: AuditView = serde_json::from_str(&said.out).expect("one JSON object");
    assert_eq!(view.intact, Some(true));
    let records = view.records.iter().filter(|record| record.action == "drift");
    assert_eq!(records.clone().count(), 3, "{view:?}");
    assert!(records.into_iter().all(|record| record.detail.starts_with(&format!("job {job}: "))), "{view:?}");
    host.make("go");
    host.until_exit_code(job, 3);
}

/// Its threads have to run for a moment to come to a standstill, and would wait for that behind all that computes.
fn a_backfiller_is_no_backfiller_while_it_stands_still(kind: Kind) {
    let _frozen = no_rescue();
    let host = Host::with(kind, &["slots.factor=2", "host.cpus=0"]);
    let waits = "until [ -e go ]; do sleep 0.05; done";
    let first = host.submit(&[], waits);
    host.until(first, JobState::Running);
    let second = host.submit(&[], waits);
    host.until(second, JobState::Running);
    let file = format!("job-{second}/cpu.idle");
    let Some(file) = host.groups().into_iter().map(|group| group.join(&file)).find(|file| file.exists())
    else {
        ignore!("jobs have no groups of the processor here")
    };
    let becomes = |wanted: &str| {
        eventually("its class", || if read(&file) == wanted { Ok(()) } else { Err(read(&file)) });
    };
    becomes("1");
    assert!(host.pinfold(["suspend", &second.to_string()]).code == Some(0));
    becomes("0");
    assert!(host.pinfold(["resume", &second.to_string()]).code == Some(0));
    becomes("1");
    host.make("go");
    host.until_exit_code(second, 0);
}
