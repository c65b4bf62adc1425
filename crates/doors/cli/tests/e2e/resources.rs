//! Countable resources: waited for, handed out by number, held to the end, and known again after a crash.

use std::fs;
use std::process::Stdio;

use pinfold_proto::JobState;
use pinfold_proto::view::JobView;

use crate::host::{Host, has, said};
use crate::kind::{Kind, tests};
use crate::wait::{eventually, looked_at, no_rescue};

tests! {
    Best: gpus_are_handed_out_by_number, gpus_that_no_driver_tells_of_are_handed_out_by_number,
        a_gpu_with_another_number_is_not_handed_out_twice, an_adopted_process_keeps_its_gpu,
        lines_of_a_batch_take_turns;
}

/// Tells which GPUs it has, and waits for a file.
const SCRIPT: &str = "echo $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER >has-$PINFOLD_JOB_ID; \
                      until [ -e go-$PINFOLD_JOB_ID ]; do sleep 0.05; done";

/// A host with two GPUs, as NVIDIA's driver shows them, and a licence for two.
fn host(kind: Kind) -> Host {
    let settings = ["slots.factor=4", "host.cpus=0", "resources.licence.fluent=2"];
    let mut host = Host::without_daemon(kind, &settings);
    for address in ["0000:01:00.0", "0000:02:00.0"] {
        plug_in(&host, address);
    }
    host.start_daemon();
    host
}

fn plug_in(host: &Host, address: &str) {
    let dir = host.path("gpus/proc/driver/nvidia/gpus").join(address);
    fs::create_dir_all(&dir).expect("a directory of the test's own");
    fs::write(dir.join("information"), "Model: \t NVIDIA L4\nGPU Excluded:\t No\n")
        .expect("it is the test's own");
}

/// An operator counts GPUs that are not found, over a restart and with a job that is suspended.
fn gpus_that_no_driver_tells_of_are_handed_out_by_number(kind: Kind) {
    let script = SCRIPT.replace("$CUDA_DEVICE_ORDER", "$ROCR_VISIBLE_DEVICES");
    let mut host = Host::with(kind, &["slots.factor=4", "host.cpus=0", "resources.gpu=2"]);
    let one = host.submit(&["--resource", "gpu=1"], &script);
    assert_eq!(numbers(&host.until(one, JobState::Running)), [0]);
    assert_eq!(said(&host, &["suspend", &one.to_string()], 0), "");
    host.crash();
    host.start_daemon();
    let two = host.submit(&["--resource", "gpu=1"], &script);
    assert_eq!(numbers(&host.until(two, JobState::Running)), [1], "the suspended one has the other");
    let three = host.submit(&["--resource", "gpu=1"], &script);
    assert_eq!(said(&host, &["resume", &one.to_string()], 0), "");
    for (job, number) in [(one, 0), (two, 1), (three, 0)] {
        assert_eq!(numbers(&host.until(job, JobState::Running)), [number]);
        host.make(&format!("go-{job}"));
        host.until_exit_code(job, 0);
        let has = fs::read_to_string(host.work(&format!("has-{job}"))).expect("what the job wrote");
        assert_eq!(has, format!("{number} {number}\n"));
    }
}

/// The daemon is started again, and a GPU with a lower address is there meanwhile: what was number 0 is number 1.
fn a_gpu_with_another_number_is_not_handed_out_twice(kind: Kind) {
    let mut host = host(kind);
    let one = host.submit(&["--resource", "gpu=1"], SCRIPT);
    assert_eq!(numbers(&host.until(one, JobState::Running)), [0]);
    host.crash();
    plug_in(&host, "0000:00:10.0");
    host.start_daemon();
    host.until(one, JobState::Running);
    let two = host.submit(&["--resource", "gpu=2"], SCRIPT);
    assert_eq!(numbers(&host.until(two, JobState::Running)), [0, 2]);
    assert_eq!(numbers(&host.job(one)), [0], "as it knows it itself");
    has(&said(&host, &["map"], 0), &format!("gpu 1: job {one}; NVIDIA L4 at 0000:01:00.0"));
    for job in [one, two] {
        host.make(&format!("go-{job}"));
        host.until_exit_code(job, 0);
    }
}

/// While it cannot be read which GPU it has, its job waits, and gets none by guess.
fn an_adopted_process_keeps_its_gpu(kind: Kind) {
    let host = host(kind);
    let mut command = host.command("/bin/sh");
    command
        .args(["-c", "until [ -e go ]; do sleep 0.05; done"])
        .env("CUDA_VISIBLE_DEVICES", "1")
        .stdin(Stdio::null());
    let running = host.spawn(command);
    fs::write(host.path("gpus/late"), "").expect("a file of the test's own");
    let pid = running.pid().to_string();
    let done = looked_at(|| host.pinfold(["--no-autostart", "adopt", "--pid", &pid, "--resource", "gpu=1"]));
    assert_eq!(done.code, Some(0), "{done:?}");
    let job = done.out.trim().parse().expect("the job's number");
    eventually("it is said why it waits", || {
        let view = host.job(job);
        let reason = view.reason.clone().unwrap_or_default();
        let waits = view.state == JobState::Queued && reason.contains("which GPUs its processes use");
        if waits && numbers(&view).is_empty() { Ok(()) } else { Err(format!("{view:?}")) }
    });
    fs::remove_file(host.path("gpus/late")).expect("it is there");
    assert_eq!(numbers(&host.until(job, JobState::Running)), [1]);
    let other = host.submit(&["--resource", "gpu=1"], SCRIPT);
    assert_eq!(numbers(&host.until(other, JobState::Running)), [0]);
    host.make(&format!("go-{other}"));
    host.until_exit_code(other, 0);
    host.make("go");
    running.wait();
    host.until(job, JobState::Exited);
}

fn numbers(view: &JobView) -> Vec<u32> {
    view.resources.iter().find(|one| one.name == "gpu").map(|one| one.numbers.clone()).unwrap_or_default()
}

fn gpus_are_handed_out_by_number(kind: Kind) {
    let _frozen = no_rescue();
    let mut host = host(kind);
    has(&said(&host, &["run", "--resource", "gpu=3", "--", "true"], 5), "this host has 2 of it");
    has(&said(&host, &["run", "--resource", "tape=1", "--", "true"], 5), "it has gpu, licence.fluent");
    has(&said(&host, &["run", "--resource", "gpu=0", "--", "true"], 2), "gpu=0: a whole number from 1");
    let one = host.submit(&["--resource", "gpu=1,licence.fluent=1"], SCRIPT);
    let two = host.submit(&["--resource", "gpu"], SCRIPT);
    let waits = host.submit(&["--resource", "gpu=1"], SCRIPT);
    let other = host.submit(&[], SCRIPT);
    assert_eq!(numbers(&host.until(one, JobState::Running)), [0]);
    assert_eq!(numbers(&host.until(two, JobState::Running)), [1]);
    host.until(other, JobState::Running);
    // A suspended job keeps what it has.
    said(&host, &["suspend", &one.to_string()], 0);
    host.until(one, JobState::Frozen);
    assert_eq!(host.job(waits).state, JobState::Queued);
    let why = said(&host, &["why", &waits.to_string()], 0);
    has(
        &why,
        &format!(
            "it asks for 1 of the resource gpu, of which 0 of 2 are free; jobs {one} and {two} hold the rest"
        ),
    );
    has(&said(&host, &["why", &one.to_string()], 0), "gpu=1 (number 0), licence.fluent=1");
    has(&said(&host, &["status"], 0), "gpu 2 of 2, licence.fluent 1 of 2");
    has(&said(&host, &["map"], 0), &format!("gpu 1: job {two}; NVIDIA L4 at 0000:02:00.0"));
    has(&said(&host, &["doctor"], 0), "2 of nvidia (NVIDIA L4) as the resource gpu");
    // The daemon that comes after knows who has which, and who waits.
    host.crash();
    host.start_daemon();
    host.until(one, JobState::Frozen);
    host.until(two, JobState::Running);
    assert_eq!(host.job(waits).state, JobState::Queued);
    assert_eq!((numbers(&host.job(one)), numbers(&host.job(two))), (vec![0], vec![1]));
    said(&host, &["cancel", &one.to_string()], 0);
    assert_eq!(numbers(&host.until(waits, JobState::Running)), [0]);
    for job in [two, waits, other] {
        host.make(&format!("go-{job}"));
    }
    for job in [two, waits, other] {
        host.until_exit_code(job, 0);
    }
    assert_eq!(host.wrote(&format!("has-{two}")), "1 PCI_BUS_ID\n");
    assert_eq!(host.wrote(&format!("has-{waits}")), "0 PCI_BUS_ID\n");
    assert_eq!(host.wrote(&format!("has-{other}")), "\n", "who asks for none is told nothing");
    has(&said(&host, &["status"], 0), "gpu 0 of 2, licence.fluent 0 of 2");
    has(&said(&host, &["report", &waits.to_string()], 0), "gpu=1 (number 0)");
}

fn lines_of_a_batch_take_turns(kind: Kind) {
    let host = host(kind);
    said(&host, &["config", "set", "resources.licence.fluent=1"], 0);
    let line = "mkdir busy || exit 9; sleep 0.02; rmdir busy\n";
    fs::write(host.work("lines"), line.repeat(6)).expect("a file of the test's own");
    said(&host, &["batch", "--resource", "licence.fluent=1", "lines"], 0);
    let refused = said(&host, &["batch", "--resource", "licence.fluent=2", "lines"], 1);
    has(&refused, "this host has 1 of it");
}
