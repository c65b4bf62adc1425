//! Processes that are no jobs use cores: jobs get fewer slots, and are told why.

use std::process::{Child, Command};

use pinfold_proto::JobState;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::wait::eventually;

const WAIT: &str = "until [ -e go ]; do sleep 0.05; done";

/// A process that is nobody's job and keeps a PU busy.
struct Busy(Child);

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_slots_are_left_to_other_processes(kind: Kind) {
    let host = Host::with(kind, &["host.cpus=0", "slots.factor=2", "host.other_load=on"]);
    let first = host.submit(&[], WAIT);
    // However busy the host is, one job runs.
    host.until(first, JobState::Running);
    let busy = Command::new("taskset").args(["-c", "0", "/bin/sh", "-c", "while :; do :; done"]).spawn();
    let _busy = Busy(busy.expect("util-linux has it"));
    eventually("a slot is left to the other process", || {
        let load = host.status(&[]).other_load;
        match load {
            Some(load) if load.slots_withheld == 1 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    let second = host.submit(&[], WAIT);
    assert_eq!(host.job(second).state, JobState::Queued);
    let why = host.pinfold(["why", &second.to_string()]).out;
    assert!(why.contains("used by processes that are no jobs"), "{why}");
    let shown = host.pinfold(["status"]).out;
    assert!(shown.contains("1 slot is left to them"), "{shown}");
    // Where it does not count, the slot is free.
    host.succeeds(["config", "set", "host.other_load=off"]);
    host.until(second, JobState::Running);
    assert_eq!(host.status(&[]).other_load, None);
    host.make("go");
    host.until_exit_code(first, 0);
    host.until_exit_code(second, 0);
}

fn rootless() {
    Kind::Rootless.check(free_slots_are_left_to_other_processes);
}

tests! {
    Once: rootless;
}
