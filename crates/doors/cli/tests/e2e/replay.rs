//! What the daemon told its scheduler is recorded, and played again by `pinfold replay`.

use pinfold_proto::JobState;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::wait::eventually;

tests! {
    Best: what_was_decided_is_decided_again, what_is_no_file_is_not_waited_for;
}

/// What `replay --json` says.
fn replayed(host: &Host, options: &[&str]) -> serde_json::Value {
    let events = host.state().join("events").display().to_string();
    let mut args = vec!["replay", events.as_str(), "--json"];
    args.extend(options);
    let done = host.pinfold(args);
    assert_eq!(done.code, Some(0), "{done:?}");
    serde_json::from_str(&done.out).expect("one JSON object")
}

/// The recording says that the job waited then, and for what.
fn queued_then(host: &Host, job: u64, at: &str) {
    let events = host.state().join("events").display().to_string();
    let done = host.pinfold(["replay", &events, "--at", at, "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let view: serde_json::Value = serde_json::from_str(&done.out).expect("one JSON object");
    let found = view["jobs"].as_array().and_then(|jobs| jobs.iter().find(|found| found["job"] == job));
    let found = found.unwrap_or_else(|| panic!("job {job} is not in {view}"));
    assert_eq!(found["state"], "queued", "{view}");
    assert!(found["cause"].as_str().is_some_and(|cause| cause.contains("slot")), "{view}");
}

fn what_was_decided_is_decided_again(kind: Kind) {
    let mut host = Host::with(kind, &["record.events=1MiB", "slots.factor=1", "host.cpus=0"]);
    let first = host.submit(&[], "until [ -e go ]; do sleep 0.05; done");
    host.until(first, JobState::Running);
    let second = host.submit(&["--priority", "3"], "exit 0");
    host.until(second, JobState::Queued);
    // The loop hands steps over; a thread writes them within a second or so.
    eventually("the second job is in the recording", || {
        let done = host.pinfold([
            "replay",
            &host.state().join("events").display().to_string(),
            "--at",
            "0s",
            "--json",
        ]);
        let view: serde_json::Value = serde_json::from_str(&done.out).map_err(|_| done.err.clone())?;
        let jobs = view["jobs"].as_array().cloned().unwrap_or_default();
        let states: Vec<_> = jobs.iter().map(|job| (job["job"].as_u64(), job["state"].as_str())).collect();
        let wanted = [(Some(first), Some("running")), (Some(second), Some("queued"))];
        if states == wanted { Ok(()) } else { Err(format!("{states:?}")) }
    });
    let then_s = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs_f64();
    // A crash leaves a file without an end; the next daemon begins another.
    host.crash();
    host.start_daemon();
    host.make("go");
    host.until_exit_code(first, 0);
    host.until_exit_code(second, 0);
    // On one core with a slot the second waits for the first, as it did: the simulation begins with this host's settings.
    let done = host.pinfold(["sim", "--since", "1h", "--json"]);
    assert!(done.code == Some(0) && done.err.contains("host.cpus=\"0\" slots.factor=1"), "{done:?}");
    let view: serde_json::Value = serde_json::from_str(&done.out).expect("one JSON object");
    assert!(view["runs"][0]["mean_wait_s"].as_f64() > Some(0.0), "{view}");
    // The store knows that it waited; the recording knows for what.
    let at = format!("@{then_s:.6}");
    let waited = host.pinfold(["why", &second.to_string(), "--at", &at, "--json"]);
    let waited: serde_json::Value = serde_json::from_str(&waited.out).expect("one JSON object");
    assert_eq!(waited["state"], "queued", "{waited}");
    queued_then(&host, second, &at);
    assert_eq!(host.stop(), Some(0));
    // Where the store has forgotten the job, the recording still knows it.
    for file in std::fs::read_dir(host.state()).expect("the state").flatten() {
        if file.file_name().to_string_lossy().starts_with("pinfold.db") {
            std::fs::remove_file(file.path()).expect("the store is removed");
        }
    }
    host.start_daemon();
    queued_then(&host, second, &at);
    let gone = host.pinfold(["why", &second.to_string()]);
    assert!(gone.code == Some(1) && gone.err.contains("there is no job"), "{gone:?}");
    let never = host.pinfold(["why", "99", "--at", &at]);
    assert!(never.code == Some(1) && never.err.contains("there is no job 99"), "{never:?}");
    let events = host.state().join("events").display().to_string();
    let early = host.pinfold(["replay", &events, "--at", "@1000000000"]);
    assert!(early.code == Some(1) && early.err.contains("nothing is known of that moment"), "{early:?}");
    assert_eq!(host.stop(), Some(0));
    let all = replayed(&host, &[]);
    assert_eq!(all["files"], 3, "{all}");
    assert_eq!((&all["differs"], &all["cut"]), (&serde_json::Value::Null, &false.into()), "{all}");
    assert!(all["decisions"].as_u64() >= Some(2), "{all}");
    let after = host.pinfold(["replay", &events, "--at", "0s"]);
    assert!(after.code == Some(0) && after.out.contains("no job waited or ran then"), "{after:?}");
    let about = replayed(&host, &["--until", &format!("job={second}")]);
    assert_eq!(about["about"][0]["action"], "start", "{about}");
    let none = host.pinfold(["replay", "--until", "job=99", &events]);
    assert_eq!(none.code, Some(1), "{none:?}");
    let copy = host.path("copy.events").display().to_string();
    let one = host.state().join("events/00000001.events").display().to_string();
    host.succeeds(["replay", "--mask", &copy, &one]);
    host.succeeds(["replay", &copy]);
    let again = host.pinfold(["replay", "--mask", &copy, &one]);
    assert!(again.code == Some(1) && again.err.contains("copy.events"), "{again:?}");
}

fn what_is_no_file_is_not_waited_for(kind: Kind) {
    let host = Host::new(kind);
    let fifo = host.work("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .expect("a FIFO");
    kind.give(&fifo);
    for (file, what) in [("fifo", "it is a FIFO"), ("/dev/zero", "it is a device")] {
        for options in [&[][..], &["--mask", "copy"]] {
            let done = host.pinfold([&["replay", file], options].concat());
            assert!(done.code == Some(1) && done.err.contains(what), "{done:?}");
        }
    }
    assert!(!host.work("copy").exists());
}
