//! A profile of Snakemake: resources by rule, which override the rule's own.

use super::{Consent, File, Need, head, one};

/// Names of rules follow Python.
pub(super) fn may_name(name: &str) -> bool {
    name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        && name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
}

pub(super) fn profile(needs: &[&Need<'_>], consent: Consent) -> Vec<File> {
    let mut text =
        "# Written by `pinfold advise --format snakemake`: snakemake --profile DIRECTORY\n".to_owned();
    let needs: Vec<&&Need<'_>> =
        needs.iter().filter(|need| consent == Consent::Report || !need.is_kept).collect();
    // At least a single key: Snakemake refuses an empty profile and an empty map.
    let retries = u8::from(consent == Consent::Lower);
    text.push_str(&format!("retries: {retries}\n"));
    text.push_str(if needs.is_empty() { "# no rule's needs are known\n" } else { "set-resources:\n" });
    for need in needs {
        text.push_str(&format!("  # {}\n  \"{}\":\n", head(need), need.class));
        match consent {
            Consent::Report | Consent::Fill => {
                text.push_str(&format!("    mem_mb: {}\n", megabytes(need.memory_mib)));
            }
            Consent::Lower => {
                let asked = need.requested_mib.unwrap_or(need.memory_mib * 2);
                text.push_str(&format!(
                    "    mem_mb: \"{} if attempt == 1 else {}\"\n",
                    megabytes(need.memory_mib.min(asked)),
                    megabytes(asked)
                ));
            }
        }
        if let Some(minutes) = need.wall_min.filter(|_| consent == Consent::Report) {
            text.push_str(&format!("    runtime: {minutes}\n"));
        }
    }
    one("config.yaml", text)
}

/// Its megabytes are of 10^6 bytes; rounded up.
fn megabytes(mib: u64) -> u64 {
    mib.saturating_mul(1 << 20).div_ceil(1_000_000)
}
