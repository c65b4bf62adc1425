//! `#SBATCH` lines, and a job_submit.lua that fills in or lowers jobs' requests by a flat table.
//!
//! The plugin runs under slurmctld's locks, one call at a time: it reads files, at most once a minute, and never calls
//! out. A failure in the plugin leaves the job as it is.

use super::{Consent, File, Need, TABLE, head, one, script, table};

pub(super) fn lines(needs: &[&Need<'_>]) -> Vec<File> {
    let mut text = String::new();
    for need in needs {
        text.push_str(&format!("# {}\n#SBATCH --mem={}M\n", head(need), need.memory_mib));
        if let Some(minutes) = need.wall_min {
            text.push_str(&format!("#SBATCH --time={minutes}\n"));
        }
        if need.cores > 1 {
            text.push_str(&format!("#SBATCH --cpus-per-task={}\n", need.cores));
        }
    }
    one("sbatch.txt", text)
}

pub(super) fn files(needs: &[&Need<'_>], consent: Consent) -> Vec<File> {
    let lua = script(include_str!("job_submit.lua"), consent);
    let mut files = vec![
        File { name: "job_submit.lua", text: lua, runs: false },
        File { name: TABLE, text: table(needs), runs: false },
    ];
    if consent == Consent::Lower {
        let epilog = include_str!("slurm_epilog.sh").to_owned();
        files.push(File { name: "pinfold-epilog.sh", text: epilog, runs: true });
    }
    files
}
