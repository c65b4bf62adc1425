//! Slurm's commands: the calls that engines make, word for word, and the answers that they read.

use pinfold_proto::JobState;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::process::Done;
use crate::wait::{eventually, no_rescue};

pub(crate) mod choices;
pub(crate) mod engines;
pub(crate) mod hostile;
pub(crate) mod labels;
pub(crate) mod stay;
pub(crate) mod step_signals;

tests! {
    Best: a_script_and_its_surroundings, what_the_host_froze_runs, jobs_of_ones_own_are_ended;
    Once: arrays, steps, signals, time_limits, conditions_and_changes,
        a_job_outlives_the_session_of_its_submission, requeued_jobs, what_is_refused,
        no_daemon_is_started_unasked;
}

/// One of the commands, with these words, until it ends.
fn call(host: &Host, words: &[&str]) -> Done {
    let mut command = host.command(host.programs().join("pinfold-slurm"));
    command.args(words).stdin(std::process::Stdio::null());
    host.spawn(command).wait()
}

/// What a command says that must succeed.
#[track_caller]
fn said(host: &Host, words: &[&str]) -> String {
    let done = call(host, words);
    assert_eq!(done.code, Some(0), "{words:?}: {done:?}");
    done.out
}

/// A shell script that finds the commands, until it ends.
fn shell(host: &Host, script: &str) -> Done {
    host.shell(&format!("PATH=$(pinfold slurm --dir):$PATH; {script}"))
}

/// Writes a batch script.
fn script(host: &Host, name: &str, text: &str) {
    pinfold_testkit::executable(&host.work(name), text);
}

/// Hands a command line over; gives the job's number.
#[track_caller]
fn wrap(host: &Host, options: &[&str], command: &str) -> u64 {
    let text =
        said(host, &[&["sbatch", "--parsable", "-o", "/dev/null"], options, &["--wrap", command]].concat());
    text.trim().parse().unwrap_or_else(|_| panic!("{text:?} is the bare number"))
}

/// Waits until sacct shows this state.
fn until(host: &Host, job: &str, state: &str) {
    eventually(&format!("job {job} is {state}"), || {
        let text = call(host, &["sacct", "-X", "-n", "-P", "-o", "State", "-j", job]).out;
        if text.lines().all(|line| line == state) && !text.is_empty() { Ok(()) } else { Err(text) }
    });
}

fn a_script_and_its_surroundings(kind: Kind) {
    let host = Host::new(kind);
    let text = "#!/bin/sh\n#SBATCH -J 'two words'\n#SBATCH --cpus-per-task 1 --mem=10M -p long -A acc\n\
                echo \"args $# $2\"; env | grep ^SLURM | sort; echo err >&2; srun -n1 sh -c 'echo step $SLURM_STEP_ID'\n\
                rm -f script\nexit 3\n#SBATCH -J late\n";
    script(&host, "script", text);
    let done = call(&host, &["sbatch", "script", "a", "b c"]);
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (Some(0), "Submitted batch job 1\n", ""));
    until(&host, "1", "FAILED");
    let wrote = host.wrote("slurm-1.out");
    let node = said(&host, &["sinfo", "-h", "-o", "%N"]);
    for line in [
        "args 2 b c",
        "SLURM_JOB_ID=1",
        "SLURM_JOBID=1",
        "SLURM_JOB_NAME=two words",
        "SLURM_JOB_PARTITION=long",
        "SLURM_JOB_ACCOUNT=acc",
        "SLURM_CPUS_PER_TASK=1",
        "SLURM_CPUS_ON_NODE=1",
        "SLURM_NTASKS=1",
        "SLURM_MEM_PER_NODE=10",
        "SLURM_JOB_NUM_NODES=1",
        "SLURM_PROCID=0",
        "SLURM_CLUSTER_NAME=pinfold",
        "SLURM_RESTART_COUNT=0",
        &format!("SLURM_JOB_NODELIST={}", node.trim()),
        &format!("SLURM_SUBMIT_DIR={}", host.path("work").display()),
        "err",
        "step 0",
    ] {
        assert!(wrote.lines().any(|it| it == line), "{line}: {wrote}");
    }
    let rows = said(
        &host,
        &["sacct", "-P", "-n", "-j", "1", "-o", "JobID,JobName,State,ExitCode,Partition,Account"],
    );
    assert_eq!(
        rows,
        "1|two words|FAILED|3:0|long|acc\n1.batch|batch|FAILED|3:0||acc\n1.0|sh|COMPLETED|0:0||acc\n"
    );
    // A step by its name is that step alone, and one that was never there is none.
    let of = |names: &str| said(&host, &["sacct", "-P", "-n", "-j", names, "-o", "JobID,State"]);
    assert_eq!(of("1.0"), "1.0|COMPLETED\n");
    assert_eq!(of("1.batch,1.0"), "1.batch|FAILED\n1.0|COMPLETED\n");
    assert_eq!(of("1.7"), "");
    assert_eq!(of("1.0,1").lines().count(), 3);
    let text = said(&host, &["scontrol", "show", "job", "-o", "1"]);
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.iter().all(|word| word.contains('=')), "{text}");
    assert!(
        text.contains("JobState=FAILED Reason=NonZeroExitCode") && text.contains("ExitCode=3:0"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1);
}

/// A job that the host froze is running to an engine; one that its user suspended too, unless that is asked for.
fn what_the_host_froze_runs(kind: Kind) {
    let _frozen = no_rescue();
    let host = Host::new(kind);
    let job = wrap(&host, &[], ": >ready; exec sleep 1000");
    host.until_made("ready");
    host.succeeds(["suspend", &job.to_string()]);
    host.until(job, JobState::Frozen);
    let number = job.to_string();
    assert_eq!(said(&host, &["squeue", "-h", "-o", "%i %t", "-j", &number]), format!("{job} R\n"));
    assert_eq!(said(&host, &["sacct", "-X", "-n", "-P", "-o", "State", "-j", &number]), "RUNNING\n");
    let shown = said(&host, &["scontrol", "show", "job", &number]);
    assert!(shown.contains("JobState=RUNNING"), "{shown}");
    let mut command = host.command(host.programs().join("pinfold-slurm"));
    command.args(["squeue", "-h", "-o", "%T"]).env("PINFOLD_SLURM_SUSPENDED", "1");
    assert_eq!(host.spawn(command).wait().out, "SUSPENDED\n");
    assert_eq!(said(&host, &["scancel", &number]), "");
    until(&host, &number, "CANCELLED");
}

fn jobs_of_ones_own_are_ended(kind: Kind) {
    let host = Host::new(kind);
    let other = host.submit(&[], "exec sleep 1000");
    let [one, two] = ["keep", "go"].map(|name| wrap(&host, &["-J", name], "exec sleep 1000"));
    let done = call(&host, &["scancel", "-v", "--name", "go", "--me"]);
    assert_eq!((done.code, done.err), (Some(0), format!("scancel: Terminating job {two}\n")));
    until(&host, &two.to_string(), "CANCELLED");
    // What is over or unknown is no failure, and is told with -v alone.
    for (options, words) in [(&["scancel"][..], ""), (&["scancel", "-v"], "Invalid job id specified")] {
        let done = call(&host, &[options, &[&two.to_string(), "4711"]].concat());
        assert!(done.code == Some(0) && done.err.contains(words), "{done:?}");
    }
    assert_eq!(call(&host, &["scancel"]).code, Some(1));
    let left = said(&host, &["squeue", "-h", "-o", "%A", "--me"]);
    assert_eq!(left, format!("{other}\n{one}\n"));
    let user = said(&host, &["squeue", "-h", "-o", "%u", "-j", &one.to_string()]);
    assert_eq!(said(&host, &["scancel", "-u", user.trim()]), "");
    until(&host, &one.to_string(), "CANCELLED");
    host.until(other, JobState::Exited);
    assert_eq!(said(&host, &["squeue", "-h"]), "");
}

/// Arrays: members in one row while they wait, variables, patterns, single members, `--wait`.
fn arrays() {
    let host = Host::with(Kind::Rootless, &["slots.factor=1"]);
    let blocker = wrap(&host, &["--exclusive"], "until [ -e go ]; do sleep 0.05; done");
    host.until(blocker, JobState::Running);
    script(
        &host,
        "a.sh",
        "#!/bin/sh\n#SBATCH --array=2-8:3%2 -o out-%A_%a.txt\necho $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID \
         $SLURM_ARRAY_TASK_MIN $SLURM_ARRAY_TASK_MAX $SLURM_ARRAY_TASK_STEP $SLURM_ARRAY_TASK_COUNT\n\
         exit $SLURM_ARRAY_TASK_ID\n",
    );
    let array = said(&host, &["sbatch", "--parsable", "a.sh"]);
    let array = array.trim();
    assert_eq!(said(&host, &["squeue", "-h", "-o", "%i %t", "-j", array]), format!("{array}_[2,5,8%2] PD\n"));
    let each = said(&host, &["squeue", "-h", "-r", "-o", "%i", "-j", array]);
    assert_eq!(each, format!("{array}_2\n{array}_5\n{array}_8\n"));
    assert_eq!(said(&host, &["scancel", &format!("{array}_5")]), "");
    host.make("go");
    until(&host, &format!("{array}_8"), "FAILED");
    until(&host, &format!("{array}_2"), "FAILED");
    assert_eq!(host.wrote(&format!("out-{array}_8.txt")), format!("{array} 8 2 8 3 3\n"));
    let rows = said(&host, &["sacct", "-X", "-n", "-P", "-o", "JobID,State,ExitCode", "-j", array]);
    assert_eq!(rows, format!("{array}_2|FAILED|2:0\n{array}_5|CANCELLED|0:0\n{array}_8|FAILED|8:0\n"));
    let done = call(&host, &["sbatch", "--wait", "a.sh"]);
    assert_eq!(done.code, Some(8), "the highest of all members: {done:?}");
}

/// `srun`: several tasks, labels, files, statuses; outside of a job one in the foreground.
fn steps() {
    let host = Host::with(Kind::Rootless, &["slots.factor=4"]);
    let done = call(
        &host,
        &["srun", "sh", "-c", "echo $SLURM_PROCID $SLURM_NTASKS $SLURM_STEP_ID $SLURM_JOB_ID; exit 5"],
    );
    assert_eq!((done.code, done.out.as_str()), (Some(5), "0 1 0 1\n"), "{done:?}");
    assert!(done.err.contains("task 0: Exited with exit code 5"), "{done:?}");
    let cores = said(&host, &["sinfo", "-h", "-o", "%c"]).trim().parse::<u32>().expect("cores");
    if cores >= 2 {
        let done = call(&host, &["srun", "-n2", "-l", "sh", "-c", "echo $SLURM_LOCALID"]);
        let mut lines: Vec<&str> = done.out.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["0: 0", "1: 1"], "{done:?}");
        let done =
            call(&host, &["srun", "-n2", "-l", "--cpu-bind=cores", "sh", "-c", "echo $SLURM_PROCID; exit 3"]);
        let mut lines: Vec<&str> = done.out.lines().collect();
        lines.sort_unstable();
        assert_eq!((done.code, lines), (Some(3), vec!["0: 0", "1: 1"]), "{done:?}");
        let done = call(
            &host,
            &["srun", "-n2", "-o", "t-%t", "-e", "all", "sh", "-c", "echo $SLURM_PROCID; echo e >&2"],
        );
        assert_eq!(done.code, Some(0), "{done:?}");
        assert_eq!([host.wrote("t-0"), host.wrote("t-1"), host.wrote("all")], ["0\n", "1\n", "e\ne\n"]);
    }
    let done = shell(
        &host,
        "sbatch -o s.txt --wait --wrap 'srun -n 99 true; echo $?; srun --cpu-bind=q -n1 --cpus-per-task=1 true; echo $?'",
    );
    assert_eq!(done.code, Some(0), "{done:?}");
    let wrote = host.wrote("s.txt");
    assert!(wrote.contains("More processors requested than permitted"), "{wrote}");
    assert!(wrote.lines().any(|line| line == "1") && wrote.lines().last() == Some("0"), "{wrote}");
    let done = call(&host, &["srun", "--jobid=4711", "true"]);
    assert!(done.code == Some(1) && done.err.contains("call srun in the script of job 4711"), "{done:?}");
    let done = call(&host, &["salloc", "-J", "shell", "sh", "-c", "echo $SLURM_JOB_NAME $SLURM_NNODES"]);
    assert_eq!((done.code, done.out.as_str()), (Some(0), "shell 1\n"), "{done:?}");
    assert!(done.err.contains("salloc: Granted job allocation "), "{done:?}");
}

/// A signal reaches the steps and not the shell, with `--batch` the shell alone.
fn signals() {
    let host = Host::new(Kind::Rootless);
    script(
        &host,
        "s.sh",
        "#!/bin/sh\ntrap 'echo shell >>got' USR1\n\
         srun sh -c 'trap \"echo step >>got; exit 0\" USR2; : >ready; while :; do sleep 0.05; done'\n\
         : >second; until [ -e go ]; do sleep 0.05; done\n",
    );
    let job = said(&host, &["sbatch", "--parsable", "s.sh"]);
    let job = job.trim();
    host.until_made("ready");
    assert_eq!(said(&host, &["scancel", "--signal", "USR2", job]), "");
    host.until_made("second");
    assert_eq!(host.wrote("got"), "step\n");
    assert_eq!(said(&host, &["scancel", "-b", "-s", "SIGUSR1", job]), "");
    eventually("the shell got it", || {
        if host.wrote("got") == "step\nshell\n" { Ok(()) } else { Err(host.wrote("got")) }
    });
    host.make("go");
    until(&host, job, "COMPLETED");
}

/// At the time limit a job ends, and before that its shell or its steps hear of it.
fn time_limits() {
    let host = Host::with(Kind::Rootless, &["slots.factor=4"]);
    // The shell's own words on how its child ended at the limit are not what is asked here. A busy machine may take
    // seconds until the trap is set, and until it is heard.
    script(
        &host,
        "t.sh",
        "#!/bin/sh\n#SBATCH -t 0:30 --signal=B:USR1@10 -o t.txt\nexec 2>/dev/null\ntrap 'echo shell' USR1\n\
         sh -c 'trap \"echo child\" USR1; for i in $(seq 600); do sleep 0.1; done' &\nwait; wait\n",
    );
    let job = said(&host, &["sbatch", "--parsable", "t.sh"]);
    until(&host, job.trim(), "TIMEOUT");
    assert_eq!(host.wrote("t.txt"), "shell\n");
    script(
        &host,
        "s.sh",
        "#!/bin/sh\n#SBATCH -t 10 --signal=USR2@600 -o s.txt\n\
         srun sh -c 'trap \"echo step; exit 0\" USR2; for i in $(seq 600); do sleep 0.1; done'\n",
    );
    let job = said(&host, &["sbatch", "--parsable", "-t", "1:00", "--signal=USR2@40", "s.sh"]);
    until(&host, job.trim(), "COMPLETED");
    assert_eq!(host.wrote("s.txt"), "step\n");
    let shown = said(&host, &["sacct", "-X", "-n", "-P", "-o", "Timelimit", "-j", job.trim()]);
    assert_eq!(shown, "00:01:00\n");
}

/// Jobs after others, held ones, labels that change.
fn conditions_and_changes() {
    let host = Host::with(Kind::Rootless, &["slots.factor=4"]);
    let first = wrap(&host, &["-H", "--comment", "rule_x"], "true");
    let number = first.to_string();
    let after = wrap(&host, &["-d", &format!("afterany:{first}")], "true");
    let waits = said(&host, &["squeue", "-h", "-o", "%i|%t|%r", "-j", &format!("{first},{after}")]);
    assert_eq!(waits, format!("{first}|PD|JobHeldUser\n{after}|PD|Dependency\n"));
    let never = wrap(&host, &["-d", &format!("afternotok:{first}")], "true");
    let later = wrap(&host, &["--begin", "now+1hour"], "true").to_string();
    assert_eq!(said(&host, &["squeue", "-h", "-o", "%r", "-j", &later]), "BeginTime\n");
    assert_eq!(said(&host, &["squeue", "-h", "-o", "%k", "-j", &number]), "rule_x\n");
    assert_eq!(
        said(&host, &["scontrol", "update", &format!("JobId={first}"), "Comment=another one", "Partition=p"]),
        ""
    );
    assert_eq!(said(&host, &["squeue", "-h", "-o", "%k|%P", "-p", "p"]), "another one|p\n");
    assert_eq!(said(&host, &["scontrol", "release", &number]), "");
    until(&host, &after.to_string(), "COMPLETED");
    until(&host, &never.to_string(), "CANCELLED");
    let why = said(&host, &["sacct", "-X", "-n", "-P", "-o", "Reason", "-j", &never.to_string()]);
    assert_eq!(why, "DependencyNeverSatisfied\n");
    assert_eq!(said(&host, &["scancel", &later]), "");
    // One that waits for all of its name waits for no resources.
    let alike = wrap(&host, &["-H", "-J", "alike"], "true");
    let next = wrap(&host, &["-J", "alike", "-d", "singleton"], "true");
    assert_eq!(said(&host, &["squeue", "-h", "-o", "%r", "-j", &next.to_string()]), "Dependency\n");
    // A cancelled job is not ok, whatever its script exits with.
    let heeds = wrap(&host, &[], "trap 'exit 0' TERM; : >heeds; while :; do sleep 0.05; done");
    let ok = wrap(&host, &["-d", &format!("afterok:{heeds}")], "true");
    host.until_made("heeds");
    assert_eq!(said(&host, &["scancel", &heeds.to_string(), &alike.to_string()]), "");
    until(&host, &heeds.to_string(), "CANCELLED");
    until(&host, &ok.to_string(), "CANCELLED");
    let why = said(&host, &["sacct", "-X", "-n", "-P", "-o", "Reason", "-j", &ok.to_string()]);
    assert_eq!(why, "DependencyNeverSatisfied\n");
    until(&host, &next.to_string(), "COMPLETED");
    let done = call(&host, &["sbatch", "-d", &format!("afterok:{heeds}"), "--wrap", "true"]);
    assert!(done.code == Some(1) && done.err.contains("Job dependency problem"), "{done:?}");
    let done = call(&host, &["sbatch", "-d", "afterok:4711", "--wrap", "true"]);
    assert_eq!((done.code, done.out.as_str()), (Some(1), ""), "{done:?}");
    assert!(
        done.err.starts_with("sbatch: error: Batch job submission failed: Job dependency problem"),
        "{done:?}"
    );
}

/// A job does not depend on the terminal that it was submitted from.
fn a_job_outlives_the_session_of_its_submission() {
    let host = Host::with(Kind::Rootless, &["slots.factor=4"]);
    let wait = "until [ -e go ]; do sleep 0.05; done";
    // What a terminal does to its processes as it is closed.
    let within = format!("sbatch --parsable -o /dev/null --wrap '{wait}' >number && kill -HUP 0");
    let done = shell(&host, &format!("setsid -w sh -c \"{within}\""));
    assert_ne!(done.code, Some(0), "{done:?}");
    let job = host.wrote("number");
    host.until(job.trim().parse().expect("a number"), JobState::Running);
    host.make("go");
    until(&host, job.trim(), "COMPLETED");
}

/// `scontrol requeue`: from within, as submitit does it, and from outside; held; what cannot be.
fn requeued_jobs() {
    let host = Host::with(Kind::Rootless, &["slots.factor=4"]);
    script(
        &host,
        "again.sh",
        "#!/bin/sh\n#SBATCH -o again.txt --open-mode=append\necho \"run $SLURM_RESTART_COUNT\"\n\
         [ $SLURM_RESTART_COUNT = 0 ] && { scontrol requeue $SLURM_JOB_ID; sleep 1000; }\n\
         [ $SLURM_RESTART_COUNT = 1 ] && { : >ready; sleep 1000; }\nexit 0\n",
    );
    let done = shell(&host, "sbatch --parsable again.sh");
    let job = done.out.trim().to_owned();
    host.until_made("ready");
    assert_eq!(said(&host, &["scontrol", "requeuehold", &job]), "");
    eventually("it is held", || {
        let text = call(&host, &["squeue", "-h", "-o", "%t %r", "-j", &job]).out;
        if text == "PD JobHeldUser\n" { Ok(()) } else { Err(text) }
    });
    let done = call(&host, &["scontrol", "requeue", &job]);
    assert!(done.code == Some(1) && done.err.contains("Job is pending execution"), "{done:?}");
    assert_eq!(said(&host, &["scontrol", "release", &job]), "");
    until(&host, &job, "COMPLETED");
    assert_eq!(host.wrote("again.txt"), "run 0\nrun 1\nrun 2\n");
    let shown = said(&host, &["scontrol", "show", "job", &job]);
    assert!(shown.contains("Requeue=1 Restarts=2"), "{shown}");
    let done = call(&host, &["scontrol", "requeue", &job]);
    assert!(done.code == Some(1) && done.err.contains("completed"), "{done:?}");
    let never = wrap(&host, &["--no-requeue"], ": >never; exec sleep 1000").to_string();
    host.until_made("never");
    let done = call(&host, &["scontrol", "requeue", &never]);
    assert!(done.code == Some(1) && done.err.contains("disabled"), "{done:?}");
    assert_eq!(
        said(&host, &["scontrol", "update", &format!("JobId={never}"), "Requeue=1", "Priority=3"]),
        ""
    );
    assert_eq!(said(&host, &["squeue", "-h", "-o", "%Q", "-j", &never]), "3\n");
    assert_eq!(said(&host, &["scancel", &never]), "");
}

/// What is not there is refused, with nothing on standard output.
fn what_is_refused() {
    let host = Host::new(Kind::Rootless);
    let refused = |words: &[&str], text: &str| {
        let done = call(&host, words);
        assert!(
            done.code == Some(1) && done.out.is_empty() && done.err.contains(text),
            "{words:?}: {done:?}"
        );
    };
    assert_eq!(said(&host, &["scontrol", "show", "job"]), "No jobs in the system\n");
    refused(&["sbatch", "-N", "2", "--wrap", "true"], "Requested node configuration is not available");
    refused(
        &["sbatch", "-c", "4000", "--wrap", "true"],
        "Batch job submission failed: Requested node configuration",
    );
    refused(&["sbatch", "--gres=gpu:1", "--wrap", "true"], "Invalid generic resource (gres) specification");
    refused(
        &["sbatch", "--nonsense"],
        "unrecognized option '--nonsense'\nTry \"sbatch --help\" for more information",
    );
    refused(&["sbatch", "missing.sh"], "sbatch: error: Unable to open file missing.sh");
    script(&host, "none.sh", "echo\n");
    refused(&["sbatch", "none.sh"], "This does not look like a batch script.");
    refused(&["squeue", "-j", "4711"], "slurm_load_jobs error: Invalid job id specified");
    refused(&["sacct", "-o", "nonsense"], "Invalid field requested: \"nonsense\"");
    refused(&["srun", "a", ":", "b"], "heterogeneous jobs are not supported");
    assert_eq!(said(&host, &["squeue", "-j", "4711,4712", "-h"]), "");
    assert_eq!(said(&host, &["sacct", "-j", "4711", "-n"]), "");
    let job = wrap(&host, &["-D", "/", "--export=NONE"], "pwd; env");
    until(&host, &job.to_string(), "COMPLETED");
}

/// What may not start a daemon passes that on to the commands below it.
fn no_daemon_is_started_unasked() {
    let host = Host::new(Kind::Rootless);
    let mut command = host.command(host.programs().join("pinfold"));
    let socket = host.work("none.sock");
    command.args(["--no-autostart", "slurm", "--", "squeue"]).env("PINFOLD_SOCKET", &socket);
    let done = host.spawn(command).wait();
    assert!(done.code != Some(0) && !done.err.is_empty(), "{done:?}");
    assert!(!socket.exists(), "{done:?}");
}
