//! A configuration of Nextflow: memory by process, which overrides the process's own.

use super::{Consent, File, Need, head, one};

/// Names of processes, with their workflows' names before them; no pattern of a selector.
pub(super) fn may_name(name: &str) -> bool {
    let is_word = |word: &str| {
        word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
            && word.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
    };
    name.split(':').all(is_word)
}

pub(super) fn config(needs: &[&Need<'_>], consent: Consent) -> Vec<File> {
    let mut text = "// Written by `pinfold advise --format nextflow`: nextflow run -c pinfold.config\n\
                    process {\n"
        .to_owned();
    for need in needs.iter().filter(|need| consent == Consent::Report || !need.is_kept) {
        text.push_str(&format!("    // {}\n    withName: '{}' {{\n", head(need), need.class));
        match consent {
            Consent::Report | Consent::Fill => {
                text.push_str(&format!("        memory = {}.MB\n", need.memory_mib));
            }
            Consent::Lower => {
                let asked = need.requested_mib.unwrap_or(need.memory_mib * 2);
                text.push_str(&format!(
                    "        memory = {{ task.attempt == 1 ? {}.MB : {}.MB }}\n        \
                     errorStrategy = {{ task.exitStatus in 130..145 ? 'retry' : 'terminate' }}\n        \
                     maxRetries = 1\n",
                    need.memory_mib.min(asked),
                    asked
                ));
            }
        }
        if let Some(minutes) = need.wall_min.filter(|_| consent == Consent::Report) {
            text.push_str(&format!("        time = {minutes}.min\n"));
        }
        text.push_str("    }\n");
    }
    text.push_str("}\n");
    one("pinfold.config", text)
}
