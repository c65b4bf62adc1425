//! `pinfold run` with the options that a class should have, to paste into a shell.

use super::{File, Need, head, one};

pub(super) fn lines(needs: &[&Need<'_>]) -> Vec<File> {
    let mut text = String::new();
    for need in needs {
        let cores = if need.cores > 1 { format!(" --cores {}", need.cores) } else { String::new() };
        let time = need.wall_min.map_or(String::new(), |minutes| format!(" --time {minutes}m"));
        text.push_str(&format!(
            "# {}\npinfold run --name {} --mem {}MiB{cores}{time} -- COMMAND\n",
            head(need),
            quoted(need.class),
            need.memory_mib
        ));
    }
    one("pinfold.sh", text)
}

/// A word of a shell that is taken as it is.
fn quoted(name: &str) -> String {
    format!("'{}'", name.replace('\'', r"'\''"))
}
