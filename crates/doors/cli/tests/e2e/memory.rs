//! Memory: jobs wait for it, are frozen for want of it, and all of them end well.

use pinfold_proto::JobState;
use pinfold_proto::view::{BatchView, WhyView};

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::process::{Done, Running};
use crate::wait::{eventually, no_rescue};

tests! {
    Each: growth_stops_the_younger_and_both_end, the_daemon_dies_while_one_stands_still;
    Best: what_is_claimed_is_waited_for, switched_off_nothing_is_frozen,
        one_larger_than_the_budget_runs_alone, who_allows_it_begins_anew,
        a_checkpoint_is_written_before_a_job_is_ended, without_its_checkpoint_a_job_only_stands_still,
        one_in_the_foreground_begins_anew, a_line_of_a_batch_begins_anew, what_ended_well_is_learned_from;
}

/// Two slots on any host, and this much memory.
fn host(kind: Kind, budget: &str) -> Host {
    Host::with(kind, &["slots.factor=2", "host.cpus=0", &format!("host.memory={budget}")])
}

/// A script that grows by `step` MiB `steps` times, a quarter of a second apart, and holds it all until the file `go`
/// is there. Tail keeps what it reads until the end, for it waits for a line that does not come.
fn grower(steps: u32, step_mib: u32, go: &str) -> String {
    format!(
        "(i=0; while [ $i -lt {steps} ]; do head -c {step_mib}M /dev/zero; sleep 0.25; i=$((i+1)); done; : >grown-$$; \
         until [ -e {go} ]; do sleep 0.05; done) | tail -n 1 | wc -c >size-$PINFOLD_JOB_ID"
    )
}

/// What the first and the second of two jobs come to hold, in MiB.
const FIRST_MIB: u64 = 250;
const SECOND_MIB: u64 = 200;

/// One that holds this much memory when it makes a file `grown-JOB`, and ends once the file `go` is there.
fn holder(mib: u64) -> String {
    let steps = u32::try_from(mib / 50).expect("a few");
    grower(steps, 50, "go").replace("grown-$$", "grown-$PINFOLD_JOB_ID")
}

/// A host without swap, where two jobs hold what they want.
fn host_without_swap(kind: Kind) -> Host {
    Host::with(kind, &["slots.factor=2", "host.cpus=0", "host.memory=800MiB", "host.swap=0"])
}

/// Both hold theirs, then the host has less memory. (They could grow faster than the daemon notices on a busy machine;
/// the budget is the kernel's bound as well, and at that one it would kill.)
fn memory_falls_short(host: &Host, first: u64, second: u64) {
    host.until_made(&format!("grown-{first}"));
    host.until_made(&format!("grown-{second}"));
    host.succeeds(["config", "set", "host.memory=400MiB"]);
}

fn why(host: &Host, job: u64) -> WhyView {
    let said = host.pinfold(["why", &job.to_string(), "--json"]);
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

/// It ended well, with all that it had held.
#[track_caller]
fn is_whole(host: &Host, job: u64, mib: u64) {
    host.until_exit_code(job, 0);
    assert_eq!(host.wrote(&format!("size-{job}")).trim(), (mib << 20).to_string());
}

fn what_is_claimed_is_waited_for(kind: Kind) {
    let _frozen = no_rescue();
    let host = host(kind, "600MiB");
    let first = host.submit(&["--mem", "400MiB"], "until [ -e go ]; do sleep 0.05; done");
    host.until(first, JobState::Running);
    let second = host.submit(&["--mem", "300MiB"], "exit 0");
    let told = why(&host, second);
    assert_eq!(told.state, JobState::Queued);
    assert!(told.cause.contains("300 MiB of memory and 200 MiB are left"), "{told:?}");
    // What is small enough goes past it.
    let third = host.submit(&["--mem", "100MiB"], "exit 3");
    host.until_exit_code(third, 3);
    assert_eq!(host.job(second).state, JobState::Queued);
    // What changes with the budget is told by both at once.
    host.succeeds(["config", "set", "host.memory=640MiB"]);
    let told = why(&host, second);
    assert!(told.cause.contains("300 MiB of memory and 240 MiB are left"), "{told:?}");
    assert_eq!(host.status(&[]).memory.budget_bytes, 640 << 20);
    host.make("go");
    host.until_exit_code(second, 0);
}

fn growth_stops_the_younger_and_both_end(kind: Kind) {
    let _frozen = no_rescue();
    let host = host(kind, "500MiB");
    let first = host.submit(&["--name", "one"], &grower(6, 50, "go"));
    let second = host.submit(&["--name", "two"], &grower(6, 50, "go"));
    host.until(second, JobState::Frozen);
    assert_eq!(host.job(first).state, JobState::Running);
    let told = why(&host, second);
    assert!(told.cause.contains("memory ran short, and job 1 goes before it"), "{told:?}");
    assert!(
        told.decisions.iter().any(|one| one.action == "freeze" && one.reason.contains("memory runs short"))
    );
    // Who knows nothing of what it needs waits as well.
    let third = host.submit(&["--name", "three"], "exit 0");
    assert!(why(&host, third).cause.contains("memory"), "{:?}", why(&host, third));
    host.make("go");
    is_whole(&host, first, 300);
    is_whole(&host, second, 300);
    host.until_exit_code(third, 0);
    let report = host.report(second);
    assert!(report.suspended_s > 0.0 && report.suspended_s < report.wall_s.expect("it ran"), "{report:?}");
}

fn what_ended_well_is_learned_from(kind: Kind) {
    let _frozen = no_rescue();
    let mut host = host(kind, "500MiB");
    host.make("go");
    let first = host.submit(&["--name", "same"], &grower(5, 60, "go"));
    is_whole(&host, first, 300);
    // A daemon learns from those before it, too.
    host.crash();
    host.start_daemon();
    std::fs::remove_file(host.work("go")).expect("the file was made");
    let second = host.submit(&["--name", "same"], &grower(5, 60, "go"));
    host.until(second, JobState::Running);
    let third = host.submit(&["--name", "same"], &grower(5, 60, "go"));
    let told = why(&host, third);
    assert!(told.state == JobState::Queued && told.cause.contains("expected to need"), "{told:?}");
    host.make("go");
    is_whole(&host, second, 300);
    is_whole(&host, third, 300);
    assert!(host.report(third).suspended_s < 0.001, "{:?}", host.report(third));
}

/// Without swap, a suspended job holds what the token holder needs.
fn who_allows_it_begins_anew(kind: Kind) {
    let _frozen = no_rescue();
    let host = host_without_swap(kind);
    let first = host.submit(&["--name", "one"], &holder(FIRST_MIB));
    host.until(first, JobState::Running);
    let second = host.submit(&["--name", "two", "--requeue"], &holder(SECOND_MIB));
    memory_falls_short(&host, first, second);
    host.until(second, JobState::Queued);
    assert_eq!(host.job(first).state, JobState::Running);
    let told = why(&host, second);
    let ended = |one: &pinfold_proto::view::DecisionView| one.action == "end it and requeue it";
    let decision = told.decisions.iter().find(|one| ended(one)).unwrap_or_else(|| panic!("{told:?}"));
    assert!(decision.reason.contains("in no other way"), "{decision:?}");
    assert!(host.job(second).pids.is_empty(), "{:?}", host.job(second));
    // It knows now what it needs, and waits for it.
    host.make("go");
    is_whole(&host, first, FIRST_MIB);
    is_whole(&host, second, SECOND_MIB);
    let (one, two) = (host.report(first), host.report(second));
    assert_eq!((one.requeues, two.requeues), (0, 1), "{two:?}");
    assert!(two.suspended_s <= two.wall_s.expect("it ran"), "{two:?}");
}

/// The decision of this sort that `why` tells of a job, once there is one.
fn decision(host: &Host, job: u64, action: &str, reason: &str) -> String {
    eventually(&format!("job {job}: {action}, {reason}"), || {
        let told = why(host, job);
        let found = told.decisions.iter().find(|one| one.action == action && one.reason.contains(reason));
        found.map(|one| one.reason.clone()).ok_or_else(|| format!("{told:?}"))
    })
}

/// A host without swap where the second job, which can write a checkpoint, has come to hold 150 MiB, and then the first
/// is expected to need what the second holds.
fn checkpoint_wanted(kind: Kind, options: &[&str], before: &str) -> (Host, u64, u64) {
    let host = Host::with(kind, &["slots.factor=2", "host.cpus=0", "host.memory=500MiB", "host.swap=0"]);
    let first = host.submit(&["--name", "one"], "until [ -e go ]; do sleep 0.05; done");
    host.until(first, JobState::Running);
    let grows = format!("{before}{}", grower(3, 50, "go").replace("grown-$$", "grown"));
    let second = host.submit(&[&["--name", "two"], options].concat(), &grows);
    host.until_made("grown");
    let set = host.pinfold(["set", &first.to_string(), "--mem", "400MiB"]);
    assert_eq!(set.code, Some(0), "{set:?}");
    (host, first, second)
}

/// Without swap, a frozen one that can write down what it has done is asked to, ended, and goes on from there.
fn a_checkpoint_is_written_before_a_job_is_ended(kind: Kind) {
    let _frozen = no_rescue();
    // Its other processes come and go.
    let hook = r#"echo "$PINFOLD_JOB $PINFOLD_PIDS" >asked; kill -0 "$PINFOLD_PID""#;
    let before = "echo ${PINFOLD_CHECKPOINTS:-0} >>parts; ";
    let (host, first, second) = checkpoint_wanted(kind, &["--checkpoint", hook], before);
    decision(&host, second, "write a checkpoint", "in no other way");
    decision(&host, second, "end it and requeue it", "its checkpoint is written");
    host.until(second, JobState::Queued);
    assert_eq!(host.job(first).state, JobState::Running);
    let asked = host.wrote("asked");
    let mut words = asked.split_whitespace();
    assert_eq!(words.next(), Some(second.to_string().as_str()), "{asked}");
    assert!(words.clone().count() > 1 && words.all(|pid| pid.parse::<u32>().is_ok()), "{asked}");
    host.make("go");
    host.until_exit_code(first, 0);
    is_whole(&host, second, 150);
    assert_eq!(host.wrote("parts"), "0\n1\n");
    let two = host.report(second);
    assert_eq!((two.requeues, two.checkpoints), (0, 1), "{two:?}");
}

/// One whose checkpoint command fails, or takes too long, is not ended: it stays frozen, and goes on when it can.
fn without_its_checkpoint_a_job_only_stands_still(kind: Kind) {
    let _frozen = no_rescue();
    let rows = [("exit 3", "60s", "exit code 3"), ("sleep 60", "200ms", "longer than 0.2 s")];
    for (hook, limit, why) in rows {
        let options = ["--checkpoint", hook, "--checkpoint-time", limit];
        let (host, first, second) = checkpoint_wanted(kind, &options, "");
        let reason = decision(&host, second, "freeze", "only suspended");
        assert!(reason.contains(why), "{reason}");
        host.until(second, JobState::Frozen);
        host.make("go");
        host.until_exit_code(first, 0);
        is_whole(&host, second, 150);
        let two = host.report(second);
        assert_eq!((two.requeues, two.checkpoints), (0, 0), "{two:?}");
    }
}

/// The second job, of [`holder`], is ended for the first once memory falls short, and begins anew when the file `go` is
/// made. Gives its number, and how the command ended that had asked for it.
fn begins_anew_behind_a_large_one(host: &Host, ask_for_second: impl FnOnce() -> Running) -> (u64, Done) {
    let first = host.submit(&["--name", "one"], &holder(FIRST_MIB));
    host.until(first, JobState::Running);
    let asked = ask_for_second();
    let second = first + 1;
    memory_falls_short(host, first, second);
    host.until(second, JobState::Queued);
    assert!(host.job(second).pids.is_empty(), "{:?}", host.job(second));
    host.make("go");
    is_whole(host, first, FIRST_MIB);
    let done = asked.wait();
    is_whole(host, second, SECOND_MIB);
    let (one, two) = (host.report(first), host.report(second));
    assert_eq!((one.requeues, two.requeues), (0, 1), "{two:?}");
    (second, done)
}

fn one_in_the_foreground_begins_anew(kind: Kind) {
    let _frozen = no_rescue();
    let host = host_without_swap(kind);
    let script = holder(SECOND_MIB);
    let words = ["--no-autostart", "run", "--name", "two", "--requeue", "--", "/bin/sh", "-c", &script];
    let (_, done) = begins_anew_behind_a_large_one(&host, || host.start(words));
    // Its status is that of the run that came to its end, not of the one that was killed.
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(
        done.err.contains("in no other way") && done.err.contains("it is requeued and runs again later"),
        "{done:?}"
    );
}

fn a_line_of_a_batch_begins_anew(kind: Kind) {
    let _frozen = no_rescue();
    let host = host_without_swap(kind);
    std::fs::write(host.work("lines"), holder(SECOND_MIB) + "\n").expect("a file");
    let words = ["--no-autostart", "batch", "--name", "two", "--requeue", "--json", "lines"];
    let (second, done) = begins_anew_behind_a_large_one(&host, || host.start(words));
    assert_eq!(done.code, Some(0), "{done:?}");
    let view: BatchView = serde_json::from_str(&done.out).expect("one JSON object");
    let told: Vec<_> =
        view.results.iter().map(|result| (result.job, result.exit_code, result.signal)).collect();
    assert_eq!(told, [(Some(second), Some(0), None)], "{view:?}");
}

fn switched_off_nothing_is_frozen(kind: Kind) {
    let _frozen = no_rescue();
    let host = host(kind, "500MiB");
    let first = host.submit(&["--name", "one"], &grower(5, 60, "go"));
    let second = host.submit(&["--name", "two"], &grower(5, 60, "go"));
    host.until(second, JobState::Frozen);
    let set = host.pinfold(["config", "set", "memory.governor=off", "host.memory="]);
    assert_eq!(set.code, Some(0), "{set:?}");
    host.until(second, JobState::Running);
    host.make("go");
    is_whole(&host, first, 300);
    is_whole(&host, second, 300);
}

fn one_larger_than_the_budget_runs_alone(kind: Kind) {
    let _frozen = no_rescue();
    let host = host(kind, "300MiB");
    let first = host.submit(&["--mem", "2GiB"], "until [ -e go ]; do sleep 0.05; done");
    host.until(first, JobState::Running);
    let second = host.submit(&["--mem", "1MiB"], "exit 0");
    let told = why(&host, second);
    assert!(told.state == JobState::Queued && told.cause.contains("memory"), "{told:?}");
    host.make("go");
    host.until_exit_code(second, 0);
}

fn the_daemon_dies_while_one_stands_still(kind: Kind) {
    let _frozen = no_rescue();
    let mut host = host(kind, "500MiB");
    let first = host.submit(&["--name", "one"], &grower(6, 50, "go"));
    let second = host.submit(&["--name", "two"], &grower(6, 50, "go"));
    host.until(second, JobState::Frozen);
    // It is made when the job starts, and written when it ends.
    let size = |host: &Host, job: u64| {
        std::fs::read_to_string(host.work(&format!("size-{job}"))).unwrap_or_default()
    };
    let ends = |host: &Host, job: u64| {
        eventually("the job ends without a daemon", || match size(host, job) {
            none if none.is_empty() => Err(none),
            size => Ok(size),
        })
    };
    // There is no room for both, and nobody stops the other again: the first is over before the guard lets it go on.
    host.hold_daemon();
    host.make("go");
    ends(&host, first);
    assert_eq!(size(&host, second), "", "it is frozen");
    host.crash();
    ends(&host, second);
    host.start_daemon();
    is_whole(&host, first, 300);
    is_whole(&host, second, 300);
}
