//! Changing jobs: suspend and resume, hold and release, cancel, priorities, and the limits of the queue.

use std::time::{Duration, Instant};

use pinfold_proto::{JobClass, JobState};
use pinfold_testkit::ignore;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::times::until_frozen;
use crate::wait::{eventually, no_rescue, within};

tests! {
    Each: suspended_it_stands_still, cancelled, cancelled_while_suspended, a_running_job_changes_its_class,
        jobs_get_cores_of_their_own, a_limit_on_memory, a_program_killed_for_the_hosts_memory;
    Best: suspended_in_the_foreground, cancelled_at_once, alone_on_the_host, preempted_unless_it_may_not_be,
        primaries_are_protected, cancelled_while_it_waits, held_and_released, the_order_of_starts,
        the_queue_is_full, waited_too_long, no_slots, own_jobs_give_way_at_once, jobs_that_are_not_there,
        words_that_change_nothing_say_so, more_than_the_machine_has;
}

/// One slot, so that what runs next is what the queue says.
const ONE_SLOT: &[&str] = &["slots.factor=1", "host.cpus=0"];

const WAIT: &str = "until [ -e go ]; do sleep 0.05; done";

fn control(host: &Host, arguments: &[&str], code: i32) -> String {
    let done = host.pinfold(arguments);
    assert_eq!(done.code, Some(code), "{arguments:?}: {done:?}");
    done.err
}

fn cpu_s(host: &Host, job: u64) -> f64 {
    let report = host.report(job);
    report.cpu_user_s + report.cpu_system_s
}

fn suspended_it_stands_still(kind: Kind) {
    let _frozen = no_rescue();
    let host = Host::with(kind, &["profile.interval=100ms"]);
    let job = host.submit(&[], "echo run >started; while :; do :; done");
    host.until_made("started");
    eventually("it uses the processor", || if cpu_s(&host, job) > 0.1 { Ok(()) } else { Err("not yet") });
    control(&host, &["suspend", "1"], 0);
    host.until(job, JobState::Frozen);
    // The freezer stops a running thread at its next way out of the kernel: two equal readings, some time apart.
    let mut last = (cpu_s(&host, job), Instant::now());
    eventually("its processor time does not grow", || {
        let now = cpu_s(&host, job);
        if now > last.0 {
            last = (now, Instant::now());
        }
        if last.1.elapsed() > Duration::from_millis(300) { Ok(()) } else { Err(now) }
    });
    control(&host, &["resume", "1"], 0);
    host.until(job, JobState::Running);
    eventually("it goes on", || if cpu_s(&host, job) > last.0 + 0.05 { Ok(()) } else { Err(last.0) });
    control(&host, &["cancel", "--signal", "KILL", "1"], 0);
    host.until(job, JobState::Exited);
    let report = host.report(job);
    assert!(report.suspended_s >= 0.3, "{report:?}");
    assert!(report.suspended_s < report.wall_s.expect("it ran"), "{report:?}");
    assert_eq!(report.signal, Some(9));
}

/// `run` waits through it, and the command ends as if nothing had been.
fn suspended_in_the_foreground(kind: Kind) {
    let _frozen = no_rescue();
    let host = Host::new(kind);
    let mut running = host.start(["run", "--", "/bin/sh", "-c", &format!(": >started; {WAIT}; exit 6")]);
    host.until_made("started");
    control(&host, &["suspend", "1"], 0);
    until_frozen(&host, 1);
    host.make("go");
    assert!(within(Duration::from_millis(300), || (!running.runs()).then_some(())).is_none(), "it is frozen");
    control(&host, &["resume", "1"], 0);
    running.wait().ended_with(6);
}

fn cancelled(kind: Kind) {
    let host = Host::new(kind);
    let gentle = host.submit(&[], "trap 'exit 9' TERM; : >gentle; while :; do sleep 0.05; done");
    let deaf = host.submit(&[], "trap '' TERM; : >deaf; while :; do sleep 0.05; done");
    host.until_made("gentle");
    host.until_made("deaf");
    let asked = Instant::now();
    control(&host, &["cancel", "1", "2"], 0);
    assert_eq!(host.until(gentle, JobState::Exited).exit_code, Some(9));
    let view = host.until(deaf, JobState::Exited);
    assert_eq!(view.signal, Some(9));
    assert!(asked.elapsed() >= Duration::from_secs(9), "it had its 10 s, not {:?}", asked.elapsed());
    assert!(view.reason.as_ref().is_some_and(|reason| reason.contains("10 s")), "{view:?}");
}

fn cancelled_at_once(kind: Kind) {
    let host = Host::new(kind);
    let job = host.submit(&[], "trap '' TERM; (trap '' TERM; sleep 1000) & : >ready; wait; sleep 1000");
    host.until_made("ready");
    control(&host, &["cancel", "--signal", "KILL", "1"], 0);
    let view = host.until(job, JobState::Exited);
    assert_eq!(view.signal, Some(9));
    assert!(
        !view.reason.as_ref().is_some_and(|reason| reason.contains("10 s")),
        "not after a delay: {view:?}"
    );
    let other = host.submit(&[], "trap 'exit 3' USR2; : >other; while :; do sleep 0.05; done");
    host.until_made("other");
    control(&host, &["cancel", "-s", "SIGUSR2", "2"], 0);
    assert_eq!(host.until(other, JobState::Exited).exit_code, Some(3));
    let said = control(&host, &["cancel", "-s", "NONSENSE", "2"], 2);
    assert!(said.contains("NONSENSE"), "{said}");
}

fn cancelled_while_it_waits(kind: Kind) {
    let host = Host::with(kind, ONE_SLOT);
    host.submit(&[], WAIT);
    host.until(1, JobState::Running);
    let waiting = host.start(["run", "--", "/bin/sh", "-c", "echo never >never"]);
    host.until(2, JobState::Queued);
    control(&host, &["cancel", "2"], 0);
    let done = waiting.wait();
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.err.contains("job 2"), "{done:?}");
    let view = host.job(2);
    assert_eq!((view.state, view.started_s), (JobState::Exited, None));
    assert!(!host.work("never").exists());
}

/// A frozen job hears no signal: it is thawed to hear the one that ends it.
fn cancelled_while_suspended(kind: Kind) {
    let _frozen = no_rescue();
    let host = Host::new(kind);
    let job = host.submit(&[], "trap 'exit 9' TERM; : >ready; while :; do sleep 0.05; done");
    host.until_made("ready");
    control(&host, &["suspend", "1"], 0);
    host.until(job, JobState::Frozen);
    control(&host, &["cancel", "1"], 0);
    assert_eq!(host.until(job, JobState::Exited).exit_code, Some(9));
    let job = host.submit(&[], ": >again; sleep 1000");
    host.until_made("again");
    control(&host, &["suspend", "2"], 0);
    host.until(job, JobState::Frozen);
    control(&host, &["cancel", "--signal", "KILL", "2"], 0);
    assert_eq!(host.until(job, JobState::Exited).signal, Some(9));
}

fn held_and_released(kind: Kind) {
    let host = Host::with(kind, ONE_SLOT);
    let job = host.submit(&["--hold"], "exit 4");
    assert_eq!(host.job(job).state, JobState::Held);
    // One that is held is in nobody's way.
    host.succeeds(["run", "true"]);
    assert_eq!(host.job(job).state, JobState::Held);
    control(&host, &["release", "1"], 0);
    assert_eq!(host.until(job, JobState::Exited).exit_code, Some(4));
    host.submit(&[], WAIT);
    let waiting = host.submit(&[], "true");
    assert_eq!(host.job(waiting).state, JobState::Queued);
    control(&host, &["hold", &waiting.to_string()], 0);
    assert_eq!(host.job(waiting).state, JobState::Held);
    host.make("go");
    host.until(3, JobState::Exited);
    assert_eq!(host.job(waiting).state, JobState::Held);
    control(&host, &["release", &waiting.to_string()], 0);
    host.until(waiting, JobState::Exited);
}

fn the_order_of_starts(kind: Kind) {
    let host = Host::with(kind, ONE_SLOT);
    host.submit(&[], WAIT);
    host.until(1, JobState::Running);
    for (name, priority) in [("a", "3"), ("b", "10"), ("c", "7"), ("d", "10"), ("e", "2")] {
        host.submit(&["--priority", priority], &format!("echo {name} >>order"));
    }
    // The least becomes the second.
    control(&host, &["set", "6", "--priority", "9"], 0);
    assert_eq!(host.job(6).priority, 9);
    host.make("go");
    (2..=6).for_each(|job| drop(host.until(job, JobState::Exited)));
    assert_eq!(host.wrote("order").split_whitespace().collect::<String>(), "bdeca");
    control(&host, &["set", "6", "--priority", "17"], 2);
    control(&host, &["set", "6"], 2);
}

fn a_running_job_changes_its_class(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=2", "host.cpus=0"]);
    let is = |job: u64, class: JobClass| {
        eventually(&format!("job {job} is {class:?}"), || {
            let view = host.job(job);
            if view.class == class { Ok(()) } else { Err(format!("{view:?}")) }
        });
    };
    let first = host.submit(&[], WAIT);
    is(first, JobClass::Primary);
    host.until(first, JobState::Running);
    let second = host.submit(&[], WAIT);
    host.until(second, JobState::Running);
    is(second, JobClass::Backfill);
    control(&host, &["set", &first.to_string(), "--backfill"], 0);
    is(first, JobClass::Backfill);
    is(second, JobClass::Primary);
    // It takes the core of one of lower priority, and no other's.
    control(&host, &["set", &first.to_string(), "--primary"], 0);
    is(first, JobClass::Backfill);
    control(&host, &["set", &first.to_string(), "--priority", "12"], 0);
    is(first, JobClass::Primary);
    is(second, JobClass::Backfill);
    // Back to what a job asks for that says nothing: a core of its own only where one is free.
    control(&host, &["set", &first.to_string(), "--priority", "10", "--backfill"], 0);
    is(first, JobClass::Backfill);
    is(second, JobClass::Primary);
    let why = || host.succeeds(["why", &first.to_string()]).out;
    assert!(why().contains("it asked to be a backfiller"), "{}", why());
    control(&host, &["set", &first.to_string(), "--any-class"], 0);
    assert!(why().contains("no home core is free"), "{}", why());
    assert_eq!(host.job(first).class, JobClass::Backfill);
    control(&host, &["cancel", &second.to_string()], 0);
    is(first, JobClass::Primary);
    let waits = host.submit(&["--hold", "--backfill"], "true");
    assert_eq!(host.job(waits).class, JobClass::Backfill);
    control(&host, &["set", &waits.to_string(), "--any-class"], 0);
    assert_eq!(host.job(waits).class, JobClass::Primary);
    control(&host, &["cancel", &waits.to_string()], 0);
    let third = host.submit(&["--exclusive"], "true");
    control(&host, &["set", &third.to_string(), "--backfill"], 5);
    control(&host, &["set", &third.to_string(), "--any-class"], 5);
    control(&host, &["set", &first.to_string(), "--any-class", "--primary"], 2);
    control(&host, &["set", &first.to_string(), "--backfill", "--primary"], 2);
    host.make("go");
    host.until(third, JobState::Exited);
}

fn the_queue_is_full(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0", "slots.queue_depth=2"]);
    host.submit(&[], WAIT);
    host.until(1, JobState::Running);
    host.submit(&[], "true");
    host.submit(&[], "true");
    let done = host.pinfold(["submit", "true"]);
    assert_eq!(done.code, Some(5), "{done:?}");
    let done = host.pinfold(["run", "true"]);
    assert_eq!(done.code, Some(5), "{done:?}");
    assert!(done.err.contains("full") || done.err.contains("queue"), "{done:?}");
    // A batch waits for room instead.
    std::fs::write(host.work("lines"), "true\ntrue\ntrue\n").expect("a file");
    let batch = host.start(["batch", "--json", "lines"]);
    host.make("go");
    let done = batch.wait();
    assert_eq!(done.code, Some(0), "{done:?}");
}

fn waited_too_long(kind: Kind) {
    let host = Host::with(kind, ONE_SLOT);
    host.submit(&[], WAIT);
    host.until(1, JobState::Running);
    let done = host.pinfold(["run", "--ttl", "200ms", "--", "/bin/sh", "-c", "echo never >never"]);
    assert_eq!(done.code, Some(5), "{done:?}");
    let view = host.job(2);
    assert_eq!((view.state, view.started_s), (JobState::Exited, None));
    assert!(!host.work("never").exists());
    // The host's own rule, for all that ask for none.
    control(&host, &["config", "set", "slots.queue_ttl=200ms"], 0);
    let job = host.submit(&[], "true");
    assert_eq!(host.until(job, JobState::Exited).started_s, None);
    assert_eq!(host.pinfold(["wait", &job.to_string()]).code, Some(5));
}

fn alone_on_the_host(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1"]);
    let before = host.submit(&["--no-suspend"], WAIT);
    host.until(before, JobState::Running);
    let alone = host.submit(&["--exclusive"], ": >alone; until [ -e over ]; do sleep 0.05; done");
    let after = host.submit(&[], "true");
    assert_eq!(host.job(alone).state, JobState::Queued, "it waits for those that may not be frozen");
    host.make("go");
    let view = host.until(alone, JobState::Running);
    assert_eq!(view.class, JobClass::Exclusive);
    host.until_made("alone");
    let status = host.status(&[]);
    assert_eq!(status.slots.used, status.slots.total, "it takes every slot");
    assert_eq!(host.job(after).state, JobState::Queued);
    host.make("over");
    host.until(alone, JobState::Exited);
    host.until(after, JobState::Exited);
}

/// `--now`: one priority above the highest of the user's own jobs, so that the lowest of them gives its slot.
fn own_jobs_give_way_at_once(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let long = host.submit(&[], WAIT);
    host.until(long, JobState::Running);
    host.pinfold(["run", "--now", "--", "true"]).ended_with(0);
    let job = host.pinfold(["submit", "--now", "--", "true"]).out.trim().parse().expect("a number");
    assert_eq!(host.report(host.until(job, JobState::Exited).job).priority, 11);
    host.submit(&["--priority", "16", "--hold"], "true");
    let refused = host.pinfold(["run", "--now", "--", "true"]);
    assert!(refused.code == Some(5) && refused.err.contains("has priority 16, the highest"), "{refused:?}");
    host.make("go");
    host.until(long, JobState::Exited);
}

fn no_slots(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=0"]);
    assert_eq!(host.status(&[]).slots.total, 0);
    let job = host.submit(&[], "exit 3");
    assert_eq!(host.job(job).state, JobState::Queued);
    control(&host, &["config", "set", "slots.factor=1"], 0);
    assert_eq!(host.until(job, JobState::Exited).exit_code, Some(3));
    // The other way round: what runs goes on, at the least the oldest of it.
    let job = host.submit(&[], &format!("{WAIT}; exit 8"));
    host.until(job, JobState::Running);
    control(&host, &["config", "set", "slots.factor=0"], 0);
    host.make("go");
    assert_eq!(host.until(job, JobState::Exited).exit_code, Some(8));
}

fn jobs_get_cores_of_their_own(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1"]);
    let cores = host.status(&[]).slots.cores;
    if cores < 2 {
        ignore!("one core only");
    }
    let script = format!("grep Cpus_allowed_list /proc/self/status >allowed-$PINFOLD_JOB_ID; {WAIT}");
    let jobs = [host.submit(&[], &script), host.submit(&[], &script)];
    let cpus = jobs.map(|job| host.until(job, JobState::Running).cpus.expect("it is bound"));
    assert_ne!(cpus[0], cpus[1]);
    for (job, cpus) in jobs.iter().zip(&cpus) {
        let file = format!("allowed-{job}");
        let allowed = eventually("it says where it may run", || {
            let text = host.wrote(&file);
            text.split_whitespace().nth(1).map(str::to_owned).ok_or(text)
        });
        assert_eq!(&allowed, cpus, "the kernel says the same");
    }
    host.make("go");
    jobs.iter().for_each(|&job| drop(host.until(job, JobState::Exited)));
}

fn jobs_that_are_not_there(kind: Kind) {
    let host = Host::new(kind);
    host.succeeds(["run", "true"]);
    host.until(1, JobState::Exited);
    for verb in ["suspend", "resume", "hold", "release", "cancel"] {
        assert!(control(&host, &[verb, "999"], 1).contains("no job 999"), "{verb}");
        assert!(control(&host, &[verb, "1"], 1).contains("over"), "{verb}");
    }
    for arguments in [["status", "999"], ["why", "999"], ["report", "999"]] {
        assert!(control(&host, &arguments, 1).contains("no job 999"), "{arguments:?}");
    }
    assert!(control(&host, &["suspend", "seven"], 1).contains("no job `seven`"));
    control(&host, &["suspend", "7x"], 2);
    control(&host, &["suspend"], 2);
}

/// Nothing is silently left as it was: what is so already is told, what cannot be is refused.
fn words_that_change_nothing_say_so(kind: Kind) {
    let host = Host::with(kind, ONE_SLOT);
    let job = host.submit(&[], WAIT);
    host.until(job, JobState::Running);
    assert!(control(&host, &["hold", "1"], 5).contains("pinfold suspend 1"));
    assert!(control(&host, &["resume", "1"], 0).contains("runs already"));
    assert!(control(&host, &["release", "1"], 0).contains("has started already"));
    let waits = host.submit(&[], "exit 3").to_string();
    assert!(control(&host, &["resume", &waits], 0).contains("waits in the queue"));
    assert!(control(&host, &["suspend", &waits], 0).contains("held now"));
    assert_eq!(host.job(2).state, JobState::Held);
    assert!(control(&host, &["suspend", &waits], 0).contains("held already"));
    assert!(control(&host, &["hold", &waits], 0).contains("held already"));
    assert_eq!(control(&host, &["release", &waits], 0), "");
    assert_eq!(control(&host, &["suspend", "1"], 0), "");
    assert!(control(&host, &["suspend", "1"], 0).contains("suspended already"));
    assert!(control(&host, &["release", "1"], 5).contains("pinfold resume 1"));
    assert_eq!(control(&host, &["resume", "1"], 0), "");
    host.make("go");
    host.until_exit_code(job, 0);
    host.until_exit_code(2, 3);
}

fn more_than_the_machine_has(kind: Kind) {
    let host = Host::with(kind, &["host.cpus=0,4000-4007"]);
    let beyond =
        |text: &str| text.contains("`host.cpus` is 0,4000-4007") && text.contains("no 4000-4007 here");
    assert!(
        host.status(&[]).warnings.iter().any(|warning| beyond(warning)),
        "{:?}",
        host.status(&[]).warnings
    );
    assert!(beyond(&control(&host, &["config", "set", "host.cpus=0,4000-4007", "slots.factor=2"], 0)));
    assert!(control(&host, &["run", "--mem", "9000TiB", "true"], 5).contains("cannot run here"));
    let job = host.submit(&["--hold"], "true").to_string();
    assert!(control(&host, &["set", &job, "--mem", "9000TiB"], 5).contains("cannot run here"));
    assert_eq!(control(&host, &["set", &job, "--mem", "1MiB"], 0), "");
}

/// By default a job of higher priority takes the slot of a lower one, unless that may never be frozen.
fn preempted_unless_it_may_not_be(kind: Kind) {
    let _frozen = no_rescue();
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let script = |name: &str| format!("until [ -e {name} ]; do sleep 0.05; done");
    let gives_way = host.submit(&[], &script("one"));
    host.until(gives_way, JobState::Running);
    let takes = host.submit(&["--priority", "12"], &script("two"));
    host.until(takes, JobState::Running);
    let frozen = host.until(gives_way, JobState::Frozen);
    assert!(frozen.reason.as_ref().is_some_and(|reason| reason.contains("job 2")), "{frozen:?}");
    host.make("one");
    host.make("two");
    for job in [takes, gives_way] {
        assert_eq!(host.until(job, JobState::Exited).exit_code, Some(0));
    }
    assert!(host.report(gives_way).suspended_s > 0.0);
    let stays = host.submit(&["--no-suspend"], &script("three"));
    host.until(stays, JobState::Running);
    let waits = host.submit(&["--priority", "12"], "true");
    let why = host.pinfold(["why", "4"]);
    assert!(why.out.starts_with("job 4 is queued: "), "{why:?}");
    assert_eq!(host.job(stays).state, JobState::Running, "it may not be frozen");
    host.make("three");
    assert_eq!(host.until(waits, JobState::Exited).exit_code, Some(0));
    assert!(host.report(stays).suspended_s <= 0.0, "it was never suspended");
}

/// A buffer of 110 MiB under a limit of 32: where the host can bound memory it never holds more, be it that the rest
/// goes to swap or that the kernel ends the job.
fn a_limit_on_memory(kind: Kind) {
    const MIB: u64 = 1 << 20;
    let host = Host::with(kind, &["profile.interval=100ms"]);
    // More than what is asked for below: a peak of the kernel's may be told a little low.
    let fill = ["dd", "if=/dev/zero", "of=/dev/null", "bs=110M", "count=2"];
    let done = host.pinfold(["run", "--mem-limit", "32MiB", "--"].into_iter().chain(fill));
    // A busy daemon has its end on record later than the command returns.
    host.until(1, JobState::Exited);
    let report = host.report(1);
    if kind == Kind::Groups {
        assert!(report.memory_peak_bytes <= 33 * MIB, "{report:?}");
        let status = host.pinfold(["status", "--all", "--json", "1"]).out;
        let killed = done.code == Some(137) && status.contains("killed part of it for memory");
        assert!(killed || done.code == Some(0), "{done:?} {status}");
    } else {
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(report.memory_peak_bytes >= 100 * MIB, "nothing bounds it here: {report:?}");
    }
    let done = host.pinfold(["run", "--mem-limit", "512MiB", "--"].into_iter().chain(fill));
    assert_eq!(done.code, Some(0), "below its limit: {done:?}");
    host.until(2, JobState::Exited);
    assert!(
        host.report(2).memory_peak_bytes >= 100 * MIB,
        "nor is the next job under the limit of the first"
    );
}

/// The kernel kills a program of a script that goes on, for the host's memory rather than for a limit of the job's own:
/// the reason tells of it, whatever the script's exit code is.
fn a_program_killed_for_the_hosts_memory(kind: Kind) {
    let host = Host::with(kind, &["host.memory=96MiB"]);
    let script = "dd if=/dev/zero of=/dev/null bs=160M count=2 && exit 0; exit 3";
    let done = host.pinfold(["run", "--", "sh", "-c", script]);
    host.until(1, JobState::Exited);
    let status = host.pinfold(["status", "--all", "--json", "1"]).out;
    let told = status.contains("killed part of it for memory");
    // Where there is swap, or nothing bounds it, it is not killed.
    assert!(matches!((done.code, told), (Some(3), true) | (Some(0), false)), "{done:?} {status}");
}

/// As much of the core as there is is kept free, so that what else the host does makes no difference.
fn primaries_are_protected(kind: Kind) {
    let _frozen = no_rescue();
    let host = Host::with(kind, &["slots.factor=2", "host.cpus=0", "cpu.protect=1"]);
    let first = host.submit(&[], WAIT);
    assert_eq!(host.until(first, JobState::Running).class, JobClass::Primary);
    let second = host.submit(&[], WAIT);
    assert_eq!(host.job(second).state, JobState::Queued);
    let why = host.pinfold(["why", &second.to_string()]);
    assert!(why.out.contains("backfillers allowed") && why.out.contains("`cpu.protect`"), "{why:?}");
    control(&host, &["config", "set", "cpu.protect=0"], 0);
    assert_eq!(host.until(second, JobState::Running).class, JobClass::Backfill);
    control(&host, &["config", "set", "cpu.protect=1"], 0);
    host.until(second, JobState::Frozen);
    let why = host.pinfold(["why", &second.to_string()]);
    assert!(why.out.contains("primaries are protected"), "{why:?}");
    assert_eq!(host.job(first).state, JobState::Running);
    control(&host, &["config", "set", "cpu.protect=0"], 0);
    host.until(second, JobState::Running);
    host.make("go");
    host.until_exit_code(first, 0);
    host.until_exit_code(second, 0);
    let wrong = control(&host, &["config", "set", "cpu.protect=1.5"], 2);
    assert!(wrong.contains("`cpu.protect` is 1.5, and a number from 0 to 1 is wanted"), "{wrong}");
}
