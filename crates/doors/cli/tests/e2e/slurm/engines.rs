//! The calls of each engine, and what it reads of the answers.

use pinfold_proto::JobState;

use super::{call, said, script, shell, until, wrap};
use crate::host::Host;
use crate::kind::{Kind, tests};

fn host() -> Host {
    Host::with(Kind::Rootless, &["slots.factor=4"])
}

/// An engine that hears of a failure alone hands the job over again.
fn a_number_that_cannot_be_told() {
    let host = host();
    for (job, out) in [(1, ">/dev/full"), (2, ">&-")] {
        let done = shell(&host, &format!("sbatch --parsable -o /dev/null --wrap true {out}"));
        assert_eq!(done.code, Some(1), "{out}: {done:?}");
        let want =
            format!("sbatch: error: job {job} was accepted, but standard output did not take its number: ");
        assert!(done.err.contains(&want), "{out}: {done:?}");
        until(&host, &job.to_string(), "COMPLETED");
    }
    let done = host.shell("pinfold slurm --dir >/dev/full");
    assert!(done.code == Some(1) && done.err.starts_with("pinfold: standard output: No space"), "{done:?}");
}

fn nextflow() {
    let host = host();
    script(
        &host,
        ".command.run",
        "#!/bin/bash\n#SBATCH -J nf-hello_(1)\n#SBATCH -o .command.log\n#SBATCH --no-requeue\n\
         #SBATCH --signal B:USR2@30\n#SBATCH -c 1\n#SBATCH -t 00:10:00\n#SBATCH --mem 100M\n\
         echo $SLURM_JOB_NAME; echo 0 >.exitcode\n",
    );
    let done = shell(&host, "sbatch .command.run 2>&1");
    assert_eq!(done.out, "Submitted batch job 1\n", "{done:?}");
    let queue = |id: &str, state: &str| {
        let text = shell(&host, "squeue --noheader -o '%i %t' -t all -u $(id -un)").out;
        assert!(text.lines().any(|line| line == format!("{id} {state}")), "{text}");
    };
    until(&host, "1", "COMPLETED");
    queue("1", "CD");
    assert_eq!(host.wrote(".command.log"), "nf-hello_(1)\n");
    let two = wrap(&host, &[], "exec sleep 1000");
    host.until(two, JobState::Running);
    queue("2", "R");
    assert_eq!(said(&host, &["scancel", "2", "1"]), "");
    until(&host, "2", "CANCELLED");
    queue("2", "CA");
}

fn snakemake() {
    let host = host();
    let submit = "cd / && sbatch --parsable --job-name 3e5d-4f --output '/tmp/../tmp/%j.none' --export=ALL --comment rule_x -A 'acc' \
                  -p cpu -t 10 --mem 100 --ntasks=1 --cpus-per-task=1 -D \"$OLDPWD\" -o \"$OLDPWD/%j.log\" --wrap=\"echo 'a b'; exit 2\"";
    assert_eq!(shell(&host, submit).out, "1\n");
    until(&host, "1", "FAILED");
    assert_eq!(host.wrote("1.log"), "a b\n");
    let status = "sacct -X --parsable2 --clusters all --noheader --format=JobIdRaw,State --starttime \
                  $(date -d '-1 day' +%Y-%m-%dT%H:%M) --endtime now --name 3e5d-4f";
    assert_eq!(shell(&host, status).out, "1|FAILED\n");
    let queue = "squeue --format='%i|%T' --states=all --noheader --name 3e5d-4f";
    assert_eq!(shell(&host, queue).out, "1|FAILED\n");
    assert_eq!(shell(&host, "sinfo -h -o %P").out, "pinfold*\n");
    let config = said(&host, &["scontrol", "show", "config"]);
    assert!(
        config.lines().any(|line| line.starts_with("MinJobAge ") && line.ends_with(" = 300 sec")),
        "{config}"
    );
    // Engines make arrays of one member less.
    assert!(
        config.lines().any(|line| line.starts_with("MaxArraySize ") && line.ends_with(" = 10001")),
        "{config}"
    );
    let report = said(
        &host,
        &[
            "sacct",
            "--name=3e5d-4f",
            "--parsable2",
            "--noheader",
            "--format=JobID,JobName,Comment,NNodes,NCPUS,ReqMem,TotalCPU,Elapsed,MaxRSS",
        ],
    );
    let lines: Vec<&str> = report.lines().collect();
    assert!(lines[0].starts_with("1|3e5d-4f|rule_x|1|1|100M|") && lines[0].ends_with('|'), "{report}");
    assert!(lines[1].starts_with("1.batch|batch||1|1||"), "{report}");
    // Its guess of an account, which is made without a shell.
    let done = call(&host, &["sacct", "-nu", "root", "-o", "Account%256", "|", "tail", "-1"]);
    assert_eq!((done.code, done.out.as_str()), (Some(1), ""), "{done:?}");
    assert_eq!(said(&host, &["sacctmgr", "-n", "-s", "list", "user", "root", "format=account%256"]), "");
    assert_eq!(said(&host, &["sshare", "-U", "--format", "Account%256", "--noheader"]), "");
    // Why a step failed, of which it asks for the first ten: that job had none, and the next has one.
    let why = |step: &str| {
        let text = said(&host, &["sacct", "-j", step, "--format=Reason%30", "--noheader"]);
        text.trim().to_owned()
    };
    assert_eq!(why("1.0"), "");
    let done =
        call(&host, &["sbatch", "--parsable", "--wait", "-o", "/dev/null", "--wrap=srun -n1 sh -c 'exit 3'"]);
    let job = done.out.trim();
    assert_eq!(
        (why(&format!("{job}.0")).as_str(), why(&format!("{job}.1")).as_str()),
        ("NonZeroExitCode", "")
    );
}

fn parsl_and_psij() {
    let host = host();
    script(
        &host,
        "p.submit",
        "#!/bin/bash\n\n#SBATCH --job-name=parsl.block-0\n#SBATCH --output=p.stdout\n#SBATCH --error=p.stderr\n\
         #SBATCH --nodes=1\n#SBATCH --time=10\n#SBATCH --ntasks-per-node=1\n#SBATCH --mem=1g\n#SBATCH --cpus-per-task=1\n\
         echo out; echo err >&2; srun --ntasks 1 -l bash -c 'echo in $SLURM_NODEID'\n",
    );
    assert_eq!(said(&host, &["sbatch", "p.submit"]), "Submitted batch job 1\n");
    assert_eq!(call(&host, &["sacct", "-X"]).code, Some(0));
    until(&host, "1", "COMPLETED");
    let text = said(&host, &["sacct", "-X", "--noheader", "--format=jobid,state%20", "--job", "1,4711"]);
    assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["1", "COMPLETED"]);
    assert_eq!([host.wrote("p.stdout"), host.wrote("p.stderr")], ["out\n0: in 0\n", "err\n"]);
    let text = said(&host, &["squeue", "--noheader", "--format=%i %t", "--job", "1,4711", "-t", "all"]);
    assert_eq!(text, "1 CD\n");
    let text = said(&host, &["squeue", "-O", "JobArrayID,StateCompact,Reason", "-t", "all", "--me"]);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows, [["JOBID", "ST", "REASON"], ["1", "CD", "None"]]);
    assert_eq!(said(&host, &["squeue", "--me", "-o", "%i", "-h", "-r", "-t", "all"]), "1\n");
    assert_eq!(said(&host, &["scancel", "-Q", "1"]), "");
    let text = shell(&host, "SLURM_JOB_NODELIST=h[1-2],x scontrol show hostnames").out;
    assert_eq!(text, "h1\nh2\nx\n");
}

fn submitit_and_dask() {
    let host = host();
    script(
        &host,
        "s.sh",
        "#!/bin/bash\n\n# Parameters\n#SBATCH --array=0-1%2\n#SBATCH --cpus-per-task=1\n#SBATCH --error=%A_%a_log.err\n\
         #SBATCH --job-name=submitit\n#SBATCH --mem=1GB\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=1\n\
         #SBATCH --open-mode=append\n#SBATCH --output=%A_%a_log.out\n#SBATCH --signal=USR2@90\n#SBATCH --time=60\n\
         #SBATCH --wckey=submitit\n\nexport X=1\n\
         srun --unbuffered --output %A_%a_%t_log.out --error %A_%a_%t_log.err sh -c 'echo $SLURM_ARRAY_TASK_ID'\n",
    );
    assert_eq!(said(&host, &["sbatch", "s.sh"]), "Submitted batch job 1\n");
    until(&host, "1", "COMPLETED");
    let node = said(&host, &["sinfo", "-h", "-o", "%N"]);
    let text = said(&host, &["sacct", "-o", "JobID,State,NodeList", "--parsable2", "-j", "1", "-j", "1"]);
    let rows: Vec<&str> = text.lines().filter(|line| !line.contains('.')).collect();
    let row = |index: u32| format!("1_{index}|COMPLETED|{}", node.trim());
    assert_eq!(rows, ["JobID|State|NodeList", &row(0), &row(1)]);
    assert_eq!(host.wrote("1_1_0_log.out"), "1\n");
    // dask removes the script as soon as it is handed over.
    let done = shell(
        &host,
        "printf '#!/usr/bin/env bash\\n\\n#SBATCH -J dask-worker\\n#SBATCH -n 1\\n#SBATCH --cpus-per-task=1\\n#SBATCH --mem=2G\\n\
         #SBATCH -t 00:30:00\\n\\necho $SLURM_JOB_NAME >dask\\n' >d.sh && sbatch d.sh && rm d.sh",
    );
    let job = done.out.trim().rsplit(' ').next().unwrap_or_default().to_owned();
    until(&host, &job, "COMPLETED");
    assert_eq!(host.wrote("dask"), "dask-worker\n");
}

fn toil_and_miniwdl() {
    let host = host();
    let done = shell(
        &host,
        "sbatch -J toil_job_1 --signal=B:INT@30 --export=ALL,K=V,L=w --mem=100 --cpus-per-task=1 --time=0:600 -o t.out -e t.err \
         \"--wrap=exec sh -c 'echo \\$K\\$L'\"",
    );
    assert_eq!(done.out, "Submitted batch job 1\n", "{done:?}");
    until(&host, "1", "COMPLETED");
    assert_eq!(host.wrote("t.out"), "Vw\n");
    let shown = said(&host, &["scontrol", "show", "job", "1"]);
    assert!(shown.contains("JobId=1 ") && shown.contains("TimeLimit=00:10:00"), "{shown}");
    let shown = said(&host, &["scontrol", "show", "job"]);
    assert!(shown.contains("JobState=COMPLETED") && shown.ends_with("\n\n"), "{shown}");
    let text = said(
        &host,
        &[
            "sacct",
            "-n",
            "-j",
            "1",
            "--format",
            "JobIDRaw,State,ExitCode",
            "-P",
            "-S",
            "1970-01-01T00:00",
            "-E",
            "now",
        ],
    );
    assert_eq!(text.lines().next(), Some("1|COMPLETED|0:0"));
    for line in said(&host, &["sinfo", "-a", "-o", "%P %G %l %p %c %m"]).lines() {
        assert_eq!(line.split_whitespace().count(), 6, "{line}");
    }
    let two = wrap(&host, &[], "exec sleep 1000");
    host.until(two, JobState::Running);
    let text = said(&host, &["squeue", "-h", "--format", "%i %t %M"]);
    assert!(text.starts_with(&format!("{two} R 0:")), "{text}");
    script(&host, "m.sh", "#!/bin/sh\nexit $1\n");
    let wait = [
        "sbatch",
        "--wait",
        "--parsable",
        "--job-name",
        "x",
        "--ntasks",
        "1",
        "--cpus-per-task",
        "1",
        "--mem",
        "10M",
        "--time",
        "5",
        "m.sh",
        "7",
    ];
    assert_eq!(call(&host, &wait).code, Some(7));
}

fn aiida_qtoolkit_pysqa_and_r() {
    let host = host();
    let job = wrap(&host, &["-J", "a job", "-t", "5", "-D", "."], ": >ready; exec sleep 1000");
    host.until_made("ready");
    let format = "%i^^^%t^^^%r^^^%u^^^%D^^^%C^^^%P^^^%l^^^%j";
    let jobs = format!("--jobs={job},{job}");
    let text =
        shell(&host, &format!("SLURM_TIME_FORMAT=standard squeue --noheader -o '{format}' {jobs}")).out;
    let user = shell(&host, "id -un").out;
    assert_eq!(text, format!("{job}^^^R^^^None^^^{}^^^1^^^1^^^pinfold^^^5:00^^^a job\n", user.trim()));
    let names = said(&host, &["sacct", "--helpformat"]);
    let all: Vec<&str> = names.split_whitespace().collect();
    assert!(all.contains(&"JobIDRaw") && all.len() > 90, "{names}");
    let every = said(
        &host,
        &["sacct", &format!("--format={}", all.join(",")), "--parsable", "--jobs", &job.to_string()],
    );
    assert_eq!(every.lines().next().map(|line| line.matches('|').count()), Some(all.len()));
    let text = said(&host, &["squeue", "--format", "%A|%u|%t|%.15j|%Z", "--noheader"]);
    assert_eq!(
        text,
        format!("{job}|{}|R|          a job|{}\n", user.trim(), host.path("work").join(".").display())
    );
    let text = shell(&host, "squeue --user= --states=R,S,CG --noheader --format=%i -r").out;
    assert_eq!(text, "", "an empty user has no jobs");
    let done = call(&host, &["scancel", "-v", &job.to_string()]);
    assert!(done.err.contains(&format!("Terminating job {job}")), "{done:?}");
    until(&host, &job.to_string(), "CANCELLED");
}

fn ondemand_cromwell_batchspawner_and_reframe() {
    let host = host();
    let done = shell(
        &host,
        "printf '#!/bin/sh\\n: >ready; exec sleep 1000\\n' | sbatch --parsable -M pinfold -o /dev/null",
    );
    assert_eq!(done.out, "1\n", "{done:?}");
    host.until_made("ready");
    let text = said(
        &host,
        &[
            "squeue",
            "--all",
            "--states=all",
            "--noconvert",
            "-h",
            "-O",
            "Account:\u{1f},JobID:\u{1f},StateCompact:\u{1f},NumNodes:\u{1f}",
        ],
    );
    assert_eq!(text, "(null)\u{1f}1\u{1f}R\u{1f}1\u{1f}\n");
    let text = said(
        &host,
        &["sacct", "-P", "--delimiter", "\u{1f}", "-n", "--units", "G", "-X", "-o", "JobID,State,ReqTRES"],
    );
    assert_eq!(text, "1\u{1f}RUNNING\u{1f}cpu=1,node=1,billing=1\n");
    assert_eq!(said(&host, &["sinfo", "-aho", "%F/%C"]).matches('/').count(), 7);
    let node = said(&host, &["sinfo", "-h", "-o", "%N"]);
    assert_eq!(said(&host, &["squeue", "-h", "-j", "1", "-o", "%T %B"]), format!("RUNNING {node}"));
    assert_eq!(call(&host, &["squeue", "-j", "1"]).code, Some(0), "alive");
    for what in ["nodes", "partitions"] {
        let text = said(&host, &["scontrol", "-a", "show", "-o", what]);
        assert!(
            text.lines().count() == 1 && text.split_whitespace().all(|word| word.contains('=')),
            "{text}"
        );
    }
    let clusters = said(&host, &["squeue", "-M", "pinfold", "-h", "-o", "%i"]);
    assert_eq!(clusters, "CLUSTER: pinfold\n1\n");
    assert_eq!(said(&host, &["scancel", "1"]), "");
    until(&host, "1", "CANCELLED");
    let text = said(
        &host,
        &[
            "sacct",
            "-S",
            "2020-01-01",
            "-P",
            "-j",
            "1",
            "-o",
            "jobid,state,exitcode,end,nodelist",
            "-n",
            "-X",
        ],
    );
    assert!(text.starts_with("1|CANCELLED|0:15|20"), "{text}");
}

tests! {
    Once: a_number_that_cannot_be_told, nextflow, snakemake, parsl_and_psij, submitit_and_dask,
        toil_and_miniwdl, aiida_qtoolkit_pysqa_and_r, ondemand_cromwell_batchspawner_and_reframe;
}
