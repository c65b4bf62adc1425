//! Which jobs, steps and formats are meant by what is said: nothing else is ended, shown or changed.

use std::time::{Duration, Instant};

use pinfold_proto::JobState;

use super::{call, said, script, shell, until, wrap};
use crate::host::Host;
use crate::kind::{Kind, tests};

fn host() -> Host {
    Host::with(Kind::Rootless, &["slots.factor=4"])
}

/// A name is one name, a host is a filter, what cannot be chosen by is refused, and who asks to be asked is asked.
fn only_jobs_that_were_meant_are_ended() {
    let host = host();
    let [both, one] = ["a,b", "a"].map(|name| wrap(&host, &["-J", name], "exec sleep 1000"));
    host.until(both, JobState::Running);
    host.until(one, JobState::Running);
    let [both, one] = [both, one].map(|job| job.to_string());
    let waits = wrap(&host, &["-H", "-J", "waits"], "true").to_string();
    assert_eq!(said(&host, &["scancel", "--name", "a,b"]), "");
    until(&host, &both, "CANCELLED");
    assert_eq!(said(&host, &["scancel", "--me", "-w", "elsewhere"]), "");
    for option in ["--wckey=x", "--sibling=x"] {
        let done = call(&host, &["scancel", option, "--me"]);
        assert!(done.code == Some(1) && done.err.contains("not supported"), "{done:?}");
    }
    let mut command = host.command(host.programs().join("pinfold-slurm"));
    command.args(["scancel", "--me"]).env("SCANCEL_NAME", "other").env("SCANCEL_BATCH", "false");
    assert_eq!(host.spawn(command).wait().code, Some(0));
    let shown = |format: &str| said(&host, &["squeue", "-h", "-o", format]);
    assert_eq!(shown("%i %t"), format!("{one} R\n{waits} PD\n"));
    let done = shell(&host, &format!("printf 'n\\nwhat\\ny\\n' | scancel -i {one} {waits}"));
    let asks = |job: &str, name: &str| format!("Cancel job_id={job} name={name} partition=pinfold [y/n]? ");
    assert_eq!(done.out, asks(&waits, "waits") + &asks(&one, "a").repeat(2), "{done:?}");
    until(&host, &one, "CANCELLED");
    // What waits uses no host.
    assert_eq!(said(&host, &["scancel", "-w", "localhost"]), "");
    assert_eq!(shown("%i %t"), format!("{waits} PD\n"));
    assert_eq!(said(&host, &["scancel", "-t", "PD", "-q", "normal"]), "");
    assert_eq!(shown("%i"), "");
}

/// A step that is cancelled ends; its job goes on.
fn steps_are_ended_alone() {
    let host = host();
    script(
        &host,
        "s.sh",
        "#!/bin/sh\nsrun sh -c 'trap \"echo ended >>got; exit 0\" TERM; : >one; while :; do sleep 0.05; done' &\n\
         until [ -e one ]; do sleep 0.05; done\nsrun sh -c ': >two; until [ -e go ]; do sleep 0.05; done' &\n\
         wait; echo over >>got\n",
    );
    let job = said(&host, &["sbatch", "--parsable", "-o", "/dev/null", "s.sh"]);
    let job = job.trim();
    host.until_made("two");
    let done = call(&host, &["scancel", &format!("{job}.7")]);
    assert!(done.code == Some(1) && done.err.contains(&format!("{job}.7: Invalid job step")), "{done:?}");
    let done = call(&host, &["scancel", "-v", &format!("{job}.0")]);
    assert_eq!((done.code, done.err), (Some(0), format!("scancel: Terminating step {job}.0\n")));
    crate::wait::eventually("the step ended", || match host.wrote("got").as_str() {
        "ended\n" => Ok(()),
        other => Err(other.to_owned()),
    });
    assert_eq!(said(&host, &["squeue", "-h", "-o", "%i %t"]), format!("{job} R\n"));
    host.make("go");
    until(&host, job, "COMPLETED");
    assert_eq!(host.wrote("got"), "ended\nover\n");
    // The one step of a job in the foreground is signalled like others.
    let mut command = host.command(host.programs().join("pinfold-slurm"));
    command.args(["srun", "-J", "fore", "sh", "-c"]);
    command.arg("trap 'echo heard; exit 4' USR2; : >fore; while :; do sleep 0.05; done");
    let running = host.spawn(command);
    host.until_made("fore");
    let job = said(&host, &["squeue", "-h", "-o", "%i", "-n", "fore"]);
    assert_eq!(said(&host, &["scancel", "--signal=USR2", job.trim()]), "");
    let done = running.wait();
    assert_eq!((done.code, done.out.as_str()), (Some(4), "heard\n"), "{done:?}");
}

/// A step that does not end when it is cancelled is killed with all that it started; its job goes on.
fn steps_that_do_not_end_are_killed() {
    let host = host();
    script(
        &host,
        "s.sh",
        "#!/bin/sh\nsrun sh -c 'trap \"\" TERM; sh -c \": >deaf; while :; do sleep 0.05; done\" &\n\
         while :; do sleep 0.05; done'\necho $? >got\n",
    );
    let job = said(&host, &["sbatch", "--parsable", "-o", "/dev/null", "s.sh"]);
    host.until_made("deaf");
    let asked = Instant::now();
    assert_eq!(said(&host, &["scancel", &format!("{}.0", job.trim())]), "");
    until(&host, job.trim(), "COMPLETED");
    assert_eq!(host.wrote("got"), "137\n");
    assert!(asked.elapsed() >= Duration::from_secs(10), "{:?}", asked.elapsed());
}

/// States in which no job is here, fields of old, words that begin an entity, limits that are added to.
fn what_is_shown_and_changed() {
    let host = host();
    let job = wrap(&host, &["-t", "30"], ": >ready; exec sleep 1000").to_string();
    host.until_made("ready");
    assert_eq!(said(&host, &["squeue", "-h", "-t", "CG,PR"]), "");
    assert_eq!(said(&host, &["squeue", "-h", "-o", "%i|%b", "--users=root,nobody,1000", "-t", "CG"]), "");
    assert_eq!(said(&host, &["squeue", "-h", "-o", "%i|%b"]), format!("{job}|N/A\n"));
    let waits = wrap(&host, &["-H"], "true").to_string();
    assert_eq!(said(&host, &["squeue", "-h", "-o", "%i", "-w", "localhost"]), format!("{job}\n"));
    for words in [["jobid", &job], [&format!("jobid={job}"), "-o"], [&format!("job={job}"), "-d"]] {
        let shown = said(&host, &["scontrol", "show", words[0], words[1]]);
        assert!(shown.starts_with(&format!("JobId={job} ")), "{words:?}: {shown}");
    }
    let limit = || said(&host, &["squeue", "-h", "-o", "%l", "-j", &job]);
    for (change, want) in
        [("TimeLimit+=30", "1:00:00\n"), ("TimeLimit=+1", "1:01:00\n"), ("timelimit-=31", "30:00\n")]
    {
        assert_eq!(said(&host, &["scontrol", "update", &format!("jobID={job}"), change]), "");
        assert_eq!(limit(), want, "{change}");
    }
    let all = said(&host, &["sacct", "-X", "-P", "-n", "-j", &job, "-o", "ALL"]);
    assert!(all.matches('|').count() > 80, "{all}");
    assert_eq!(said(&host, &["sacct", "-X", "-n", "-j", &job, "-N", "elsewhere"]), "");
    assert_eq!(said(&host, &["sacct", "-X", "-n", "-q", "none"]), "");
    // A time of day is today's: it is over, or a moment away.
    assert!(said(&host, &["sacct", "-X", "-n", "-S", "00:00"]).contains(&job));
    assert_eq!(said(&host, &["scontrol", "release", "JobName=wrap"]), "");
    until(&host, &waits, "COMPLETED");
    assert_eq!(said(&host, &["scancel", &job]), "");
}

/// Values with quotes, the directory of a step, the cores of a job that has the host for itself.
fn what_jobs_and_steps_are_given() {
    let host = host();
    let wait = |options: &[&str], wrap: &str| {
        let done = call(&host, &[&["sbatch", "--wait", "-o", "out"], options, &["--wrap", wrap]].concat());
        assert_eq!(done.code, Some(0), "{done:?}");
        host.wrote("out")
    };
    let export = r#"--export=ALL,J={"a":1},Q='x, y',M=don't"#;
    assert_eq!(wait(&[export], r#"printf '%s\n' "$J" "$M" "$Q""#), "{\"a\":1}\ndon't\nx, y\n");
    let cores = said(&host, &["sinfo", "-h", "-o", "%c"]);
    assert_eq!(wait(&["--exclusive"], "echo $SLURM_CPUS_ON_NODE"), cores);
    assert_eq!(wait(&["--mem=0", "--gres=gpu:0"], "echo $SLURM_JOB_CPUS_PER_NODE"), cores);
    std::fs::create_dir(host.work("below")).expect("a directory");
    let below = format!("{}\n", host.work("below").display());
    assert_eq!(wait(&[], "srun -D below pwd"), below);
    let done = call(&host, &["srun", "-D", "below", "pwd"]);
    assert_eq!((done.code, done.out), (Some(0), below), "{:?}", done.err);
    let said = wait(&[], "srun -D missing pwd 2>&1; :");
    assert!(said.contains("Unable to chdir to missing"), "{said}");
}

/// A script that ends well when it is told to end did not complete, and who waits for it hears that.
fn what_did_not_complete_is_no_success() {
    let host = host();
    let stays = "trap 'exit 0' TERM; : >$SLURM_JOB_NAME; while :; do sleep 0.05; done";
    let start = |options: &[&str]| {
        let mut command = host.command(host.programs().join("pinfold-slurm"));
        command.args(["sbatch", "--wait", "--parsable", "-o", "/dev/null"]).args(options);
        command.args(["--wrap", stays]);
        host.spawn(command)
    };
    let limited = start(&["-J", "limited", "-t", "0:01"]).wait();
    assert_eq!(limited.code, Some(1), "{limited:?}");
    until(&host, limited.out.trim(), "TIMEOUT");
    let cancelled = start(&["-J", "cancelled"]);
    host.until_made("cancelled");
    assert_eq!(said(&host, &["scancel", "--name", "cancelled"]), "");
    let cancelled = cancelled.wait();
    assert_eq!(cancelled.code, Some(1), "{cancelled:?}");
    until(&host, cancelled.out.trim(), "CANCELLED");
}

tests! {
    Once: only_jobs_that_were_meant_are_ended, steps_are_ended_alone, steps_that_do_not_end_are_killed,
        what_is_shown_and_changed, what_jobs_and_steps_are_given, what_did_not_complete_is_no_success;
}
