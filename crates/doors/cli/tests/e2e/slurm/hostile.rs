//! Odd input, a daemon that is away, another Slurm on the search path.

use pinfold_proto::JobState;

use super::{call, said, script, shell, until, wrap};
use crate::host::Host;
use crate::kind::{Kind, tests};

fn a_long_script_and_odd_names() {
    let host = Host::with(Kind::Rootless, &["slots.factor=4"]);
    let text = format!(
        "#!/bin/sh\n{}echo end\n",
        "# a line of comment that says nothing at all\n".repeat(10 << 20 >> 6)
    );
    script(&host, "löng scri\u{301}pt.sh", &text);
    let name = "naïve 'name' \"with\" \u{1f600}\tand $HOME | more";
    let text =
        said(&host, &["sbatch", "--parsable", "-J", name, "-o", "o %x-%j.txt", "löng scri\u{301}pt.sh"]);
    let job = text.trim();
    until(&host, job, "COMPLETED");
    assert_eq!(host.wrote(&format!("o {name}-{job}.txt")), "end\n");
    // What would part lines or columns of a table does not.
    let shown = said(&host, &["sacct", "-X", "-n", "-P", "-o", "JobID,State,JobName", "-j", job]);
    assert_eq!(shown.lines().count(), 1, "{shown}");
    assert!(shown.contains("naïve 'name'") && !shown.contains('\t'), "{shown}");
    let found = said(&host, &["squeue", "-h", "-t", "all", "-o", "%i", "-n", name]);
    assert_eq!(found, format!("{job}\n"));
    let line = wrap(&host, &["-J", "a\nb"], "true");
    assert_eq!(said(&host, &["squeue", "-h", "-t", "all", "-o", "%j", "-j", &line.to_string()]), "a?b\n");
}

/// Slurm's accounting shows `0:53`, and each command that describes the job names the file and the stream.
fn files_that_cannot_be_opened_are_named() {
    let host = Host::with(Kind::Rootless, &["slots.factor=4"]);
    let jobs = [
        (wrap(&host, &["-o", "missing/%j.out"], "true"), "Could not open stdout file missing/"),
        (wrap(&host, &["-o", "o", "-e", "missing/e"], "true"), "Could not open stderr file missing/e"),
        (wrap(&host, &["-i", "absent", "-o", "p"], "true"), "Could not open stdin file absent"),
    ];
    for (job, cause) in jobs {
        let job = job.to_string();
        until(&host, &job, "FAILED");
        assert_eq!(said(&host, &["sacct", "-X", "-n", "-P", "-o", "ExitCode", "-j", &job]), "0:53\n");
        assert!(said(&host, &["scontrol", "show", "job", &job]).contains(cause));
        for verb in ["why", "report"] {
            assert!(host.pinfold([verb, &job]).out.contains(cause), "{verb}");
        }
    }
}

/// An engine that asks while no daemon is there is told so, in the words at which it tries again.
fn a_daemon_that_is_away() {
    let mut host = Host::new(Kind::Rootless);
    let job = wrap(&host, &[], "exec sleep 1000").to_string();
    host.stop();
    // A private daemon cannot be started either: its program is not where it would be looked for.
    let alone = host.path("alone");
    std::fs::create_dir(&alone).expect("a directory");
    for name in ["pinfold", "pinfold-slurm"] {
        crate::host::copy_program(&host.programs().join(name), &alone);
    }
    for (words, text) in [
        (&["squeue", "-h"][..], "slurm_load_jobs error: Unable to contact slurm controller"),
        (&["squeue", "-j", &job], "slurm_load_jobs error: Unable to contact slurm controller"),
        (&["sacct", "-X"], "Unable to contact slurm controller"),
        (&["scontrol", "show", "job"], "slurm_load_jobs error: Unable to contact slurm controller"),
        (&["scancel", &job], "Unable to contact slurm controller"),
        (&["sinfo"], "Unable to contact slurm controller"),
        (&["sbatch", "--wrap", "true"], "Batch job submission failed: Unable to contact slurm controller"),
    ] {
        let mut command = host.command(alone.join("pinfold-slurm"));
        command.args(words).env("PATH", &alone);
        let done = host.spawn(command).wait();
        assert!(
            done.code == Some(1) && done.out.is_empty() && done.err.contains(text),
            "{words:?}: {done:?}"
        );
    }
    host.start_daemon();
    until(&host, &job, "RUNNING");
    assert_eq!(said(&host, &["squeue", "-h", "-o", "%i"]), format!("{job}\n"));
}

/// Neither these commands nor a job's script call what another Slurm put on the search path.
fn another_slurm_on_the_same_path() {
    let host = Host::with(Kind::Rootless, &["slots.factor=4"]);
    std::fs::create_dir(host.work("real")).expect("a directory");
    for name in ["sbatch", "srun", "squeue", "sacct", "scancel", "pinfold", "pinfold-slurm"] {
        script(&host, &format!("real/{name}"), "#!/bin/sh\necho $0 >>called\nexit 99\n");
    }
    let program = host.programs().join("pinfold");
    let line = format!(
        "export PATH=$PWD/real:$PATH; {} slurm -- sbatch --wait -o out.txt --wrap 'command -v srun; srun echo here'",
        program.display()
    );
    let done = host.shell(&line);
    assert_eq!(done.code, Some(0), "{done:?}");
    let wrote = host.wrote("out.txt");
    assert!(wrote.lines().last() == Some("here") && !wrote.contains("/real/"), "{wrote}");
    assert_eq!(host.wrote("called"), "", "nothing of the other was called");
    let dir = shell(&host, "pinfold slurm --dir").out;
    let names: Vec<String> = std::fs::read_dir(dir.trim())
        .expect("a directory")
        .flatten()
        .map(|it| it.file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names.len(), 10, "{names:?}");
    // A job of these commands is no job of the other's.
    let job = wrap(&host, &[], "pinfold submit -o /dev/null -e /dev/null -- true");
    until(&host, &job.to_string(), "COMPLETED");
    assert_eq!(call(&host, &["squeue", "-h", "-t", "all"]).code, Some(0));
}

/// Others who can write above a job's directory could exchange its script between the submission and the start.
fn a_script_that_others_could_exchange() {
    use std::os::unix::fs::PermissionsExt as _;
    let host = Host::with(Kind::Rootless, &["slots.factor=4"]);
    let above = host.work("above");
    let mode = |mode| {
        std::fs::set_permissions(&above, std::fs::Permissions::from_mode(mode)).expect("a mode");
    };
    let submit = || {
        let mut command = host.command(host.programs().join("pinfold-slurm"));
        command.args(["sbatch", "--parsable", "-H", "-o", "out.txt", "--wrap", "echo ran"]);
        command.env("PINFOLD_SLURM_DIR", above.join("slurm")).stdin(std::process::Stdio::null());
        host.spawn(command).wait()
    };
    std::fs::create_dir(&above).expect("a directory");
    mode(0o700);
    let job = submit().out.trim().to_owned();
    mode(0o777);
    let done = submit();
    assert!(
        done.code == Some(1)
            && done.err.contains("above can be written by others")
            && done.err.contains("set PINFOLD_SLURM_DIR"),
        "{done:?}"
    );
    assert_eq!(said(&host, &["scontrol", "release", &job]), "");
    until(&host, &job, "FAILED");
    assert_eq!(said(&host, &["sacct", "-X", "-n", "-P", "-o", "ExitCode", "-j", &job]), "53:0\n");
    assert!(!host.work("out.txt").exists(), "its script was not executed");
}

/// What is so already is no failure, and the other jobs have their turn; no text or figure of a user's does harm.
fn odd_names_figures_and_verbs() {
    let host = Host::with(Kind::Rootless, &["slots.factor=4"]);
    let [one, two] = ["\u{202e}a\u{2028}b", "two"].map(|name| wrap(&host, &["-J", name], "exec sleep 1000"));
    // What waits cannot be suspended.
    for job in [one, two] {
        host.until(job, JobState::Running);
    }
    let three = wrap(&host, &["-H"], "exec sleep 1000");
    let [one, two, three] = [one, two, three].map(|job| job.to_string());
    let done = call(&host, &["scontrol", "hold", &three, &format!("{three},{three}")]);
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (Some(0), "", ""));
    let done = call(&host, &["scontrol", "release", &three, &three]);
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (Some(0), "", ""));
    assert_eq!(said(&host, &["scontrol", "suspend", &two]), "");
    assert_eq!(said(&host, &["scontrol", "suspend", &two, &one]), "");
    let shown = said(&host, &["scontrol", "show", "job", &one]);
    assert!(shown.contains("JobName=?a?b"), "{shown}");
    for words in [
        &["squeue", "-o", "%99999999999i"][..],
        &["squeue", "-O", "JobID:2000000000"],
        &["sacct", "-o", "JobID%-999999999999999"],
        &["sinfo", "-o", "%2000000000n"],
    ] {
        let done = call(&host, words);
        assert!(done.code == Some(1) && done.err.contains("a number from 0 to 4096"), "{words:?}: {done:?}");
    }
    for (option, text) in [
        (
            "--mem-per-cpu=9999999T",
            "Invalid --mem-per-cpu specification: 9999999T: a number with K, M, G or T",
        ),
        ("-t99999999999-23:59:59", "Invalid --time specification: 99999999999-23:59:59: minutes, M:S"),
    ] {
        let done = call(&host, &["sbatch", option, "--wrap", "true"]);
        assert!(done.code == Some(1) && done.err.contains(text), "{done:?}");
    }
    let done = call(&host, &["sbatch", "-n2", "--mem-per-cpu=5000000T", "--wrap", "true"]);
    assert!(done.code == Some(1) && done.err.contains("2 CPUs need 8388608T or more"), "{done:?}");
}

/// As many members as an array may have.
fn ten_thousand_members() {
    let host = Host::with(Kind::Rootless, &["slots.queue_depth=100000"]);
    let array = wrap(&host, &["-H", "-a", "0-9999"], "true").to_string();
    assert_eq!(said(&host, &["squeue", "-h", "-o", "%i|%t"]), format!("{array}_[0-9999]|PD\n"));
    assert_eq!(said(&host, &["squeue", "-h", "-r", "-o", "%i"]).lines().count(), 10_000);
    assert_eq!(said(&host, &["scancel", &array]), "");
    assert_eq!(said(&host, &["squeue", "-h"]), "");
    let done = call(&host, &["sbatch", "-a", "0-10000", "--wrap", "true"]);
    assert!(done.code == Some(1) && done.err.contains("Invalid job array specification"), "{done:?}");
}

tests! {
    Once: a_long_script_and_odd_names, files_that_cannot_be_opened_are_named, a_daemon_that_is_away,
        another_slurm_on_the_same_path, a_script_that_others_could_exchange, odd_names_figures_and_verbs,
        ten_thousand_members;
}
