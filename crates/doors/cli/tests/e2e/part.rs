//! A command that is started within a job: what is run is a part of that job, by the daemon's word.

use pinfold_proto::JobState;
use pinfold_proto::wire::{Reply, Request};

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::wire::Wire;

tests! {
    Best: without_the_variables_of_the_job, variables_of_a_job_that_is_over,
        variables_of_a_job_that_it_is_not_in, options_within_a_job,
        jobs_lend_their_slots_to_jobs_of_their_own, what_is_submitted_is_a_job_of_its_own;
}

/// Runs `pinfold run` within a job that holds the only slot, and says so if a second job comes of it.
const ONE_SLOT: [&str; 2] = ["slots.factor=1", "host.cpus=0"];

fn without_the_variables_of_the_job(kind: Kind) {
    let host = Host::with(kind, &ONE_SLOT);
    let script = "env -u PINFOLD_JOB_ID -u PINFOLD_INSTANCE pinfold run -- /bin/sh -c 'exit 6'; exit $?";
    for command in [
        &["/bin/sh", "-c", script][..],
        // It is the job's first process itself.
        &[
            "env",
            "-u",
            "PINFOLD_JOB_ID",
            "-u",
            "PINFOLD_INSTANCE",
            "pinfold",
            "run",
            "--",
            "/bin/sh",
            "-c",
            "exit 6",
        ],
    ] {
        let done = host.pinfold([&["run", "--"], command].concat());
        assert_eq!(done.code, Some(6), "{done:?}");
    }
    let done = host.pinfold(["status", "--all", "--json"]);
    let view: pinfold_proto::view::StatusView = serde_json::from_str(&done.out).expect("status is JSON");
    assert_eq!(view.jobs.iter().map(|job| job.job).collect::<Vec<_>>(), [1, 2], "{done:?}");
}

fn variables_of_a_job_that_is_over(kind: Kind) {
    let host = Host::new(kind);
    host.succeeds(["run", "--", "true"]);
    // A busy daemon has its end on record later than the command returns.
    host.until(1, JobState::Exited);
    let stale = format!("export PINFOLD_JOB_ID=1 PINFOLD_INSTANCE={}", host.instance());
    let done = host
        .shell(&format!("{stale}; pinfold run --timeout 600s -- /bin/sh -c 'echo $PINFOLD_JOB_ID; exit 5'"));
    assert_eq!((done.code, done.out.as_str()), (Some(5), "2\n"), "{done:?}");
    assert_eq!(host.job(2).exit_code, Some(5));
}

fn variables_of_a_job_that_it_is_not_in(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=4"]);
    let job = host.submit(&[], "while ! [ -e go ]; do sleep 0.05; done");
    host.until(job, JobState::Running);
    let claimed = format!("export PINFOLD_JOB_ID={job} PINFOLD_INSTANCE={}", host.instance());
    let done = host.shell(&format!("{claimed}; pinfold run -- /bin/sh -c 'echo $PINFOLD_JOB_ID'"));
    assert_eq!((done.code, done.out.trim()), (Some(0), (job + 1).to_string().as_str()), "{done:?}");
    // Whoever asks is told of itself alone.
    let mut wire = Wire::greeted(&host);
    wire.send(&Request::Part);
    assert_eq!(wire.hear(), Some(Reply::Part { job: None }));
    host.make("go");
    host.until(job, JobState::Exited);
}

fn options_within_a_job(kind: Kind) {
    let host = Host::with(kind, &ONE_SLOT);
    let within = |options: &[&str], around: &[&str]| {
        host.pinfold(
            [&["run"], around, &["--", "pinfold", "run"], options, &["--", "/bin/sh", "-c", "exit 4"]]
                .concat(),
        )
    };
    for (option, way) in [("--timeout", "`timeout DURATION COMMAND`"), ("--cpu-limit", "`ulimit -t SECONDS`")]
    {
        let done = within(&[option, "10m"], &[]);
        assert!(done.code == Some(5) && done.err.contains(option) && done.err.contains(way), "{done:?}");
    }
    let done = within(&["--cores", "1", "--mem", "1MiB"], &[]);
    assert_eq!(done.code, Some(4), "{done:?}");
    assert!(done.err.contains("warning: --cores, --mem without effect"), "{done:?}");
    let done = within(&["--cores", "1", "--strict"], &[]);
    assert!(done.code == Some(5) && done.err.contains("(--strict)"), "{done:?}");
    // What stands in the environment was meant for the job around.
    let done = host.shell(
        "export PINFOLD_TIMEOUT=10m PINFOLD_CORES=1; pinfold run -- pinfold run -- /bin/sh -c 'exit 4'",
    );
    assert_eq!((done.code, done.err.as_str()), (Some(4), ""), "{done:?}");
}

/// With one slot: a line of a batch within a job, and a further job within that line.
fn jobs_lend_their_slots_to_jobs_of_their_own(kind: Kind) {
    let host = Host::with(kind, &ONE_SLOT);
    let line = "pinfold wait $(pinfold submit -o /dev/null -e /dev/null -- touch ran)";
    let script = format!("echo '{line}' | pinfold batch --quiet --strict -");
    let done = host.pinfold(["run", "--", "/bin/sh", "-c", &script]);
    assert!(done.code == Some(0) && !done.err.contains("warning"), "{done:?}");
    assert!(host.work("ran").exists());
}

fn what_is_submitted_is_a_job_of_its_own(kind: Kind) {
    let host = Host::with(kind, &ONE_SLOT);
    let done =
        host.pinfold(["run", "--", "pinfold", "submit", "-o", "/dev/null", "-e", "/dev/null", "--", "true"]);
    assert_eq!((done.code, done.out.as_str()), (Some(0), "2\n"), "{done:?}");
    assert_eq!(host.until(2, JobState::Exited).exit_code, Some(0));
}
