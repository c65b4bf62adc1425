//! `#$` lines, and a JSV script that fills in or lowers jobs' requests by a flat table.
//!
//! Sites differ in the resource that stands for memory: most have `mem_free`; the script names it once, at its top.
//! Resources are by slot there.

use super::{Consent, File, Need, TABLE, head, one, script, table};

pub(super) fn lines(needs: &[&Need<'_>]) -> Vec<File> {
    let mut text = String::new();
    for need in needs {
        let by_slot = need.memory_mib.div_ceil(u64::from(need.cores.max(1)));
        text.push_str(&format!("# {}\n#$ -l mem_free={by_slot}M\n", head(need)));
        if let Some(minutes) = need.wall_min {
            text.push_str(&format!("#$ -l h_rt={}\n", minutes * 60));
        }
        if need.cores > 1 {
            text.push_str(&format!("# and {} slots of a parallel environment\n", need.cores));
        }
    }
    one("qsub.txt", text)
}

pub(super) fn files(needs: &[&Need<'_>], consent: Consent) -> Vec<File> {
    let jsv = script(include_str!("pinfold_jsv.sh"), consent);
    let mut files = vec![
        File { name: "pinfold-jsv.sh", text: jsv, runs: true },
        File { name: TABLE, text: table(needs), runs: false },
    ];
    if consent == Consent::Lower {
        let epilog = include_str!("gridengine_epilog.sh").to_owned();
        files.push(File { name: "pinfold-epilog.sh", text: epilog, runs: true });
    }
    files
}
