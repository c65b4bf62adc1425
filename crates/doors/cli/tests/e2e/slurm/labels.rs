//! What is known of a job in Slurm's words alone, where `sbatch` was ended before it had that written down.

use super::{call, said, until};
use crate::host::Host;
use crate::kind::{Kind, tests};

tests! {
    Best: a_job_writes_down_what_sbatch_could_not;
}

/// Its number is told by then, so that the job is there. Here the journal cannot be written at that moment.
fn a_job_writes_down_what_sbatch_could_not(kind: Kind) {
    let host = Host::new(kind);
    let named = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let journal = format!("jobs-{}.jsonl", host.instance().chars().map(named).collect::<String>());
    let journal = format!("{}/pinfold/slurm/{journal}", host.work(".state").display());
    host.shell(&format!("umask 077; mkdir -p '{journal}'")).ended_with(0);
    let options = ["--parsable", "-H", "-A", "acc", "-o", "/dev/null", "--wrap", "true"];
    let done = call(&host, &[&["sbatch", "-p", "long", "-a", "1-2"], &options[..]].concat());
    assert_eq!((done.code, done.out.as_str()), (Some(0), "1\n"), "{done:?}");
    assert!(done.err.contains("what was said of job 1 could not be kept"), "{done:?}");
    host.shell(&format!("rmdir '{journal}'")).ended_with(0);
    // What was written down once is not once more.
    let other = said(&host, &[&["sbatch", "-p", "other"], &options[..]].concat());
    host.succeeds(["release", "1"]);
    host.succeeds(["release", other.trim()]);
    until(&host, "1", "COMPLETED");
    until(&host, other.trim(), "COMPLETED");
    let fields = ["sacct", "-X", "-n", "-P", "-o", "JobID,Partition,Account", "-j", "1"];
    assert_eq!(said(&host, &fields), "1_1|long|acc\n1_2|long|acc\n");
    let lines = host.shell(&format!("grep -c '\"partition\":\"other\"' '{journal}'"));
    assert_eq!(lines.out, "1\n", "{lines:?}");
}
