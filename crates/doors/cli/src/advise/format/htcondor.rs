//! Lines of a submit description, and JOB_TRANSFORMs of the schedd.
//!
//! A job is of a class if its batch name is the class's, or else if its program's is. A request is an expression there:
//! the lowered value for the first start, and the original request from the second on.

use super::{Consent, File, Need, head, one};

/// Names that strings of the configuration can carry: a `$` would be taken for a macro, before any quoting.
pub(super) fn may_name(name: &str) -> bool {
    super::is_text(name) && !name.is_empty() && !name.contains('$')
}

pub(super) fn lines(needs: &[&Need<'_>]) -> Vec<File> {
    let mut text = String::new();
    for need in needs {
        text.push_str(&format!("# {}\nrequest_memory = {}MB\n", head(need), need.memory_mib));
        if need.cores > 1 {
            text.push_str(&format!("request_cpus = {}\n", need.cores));
        }
    }
    one("submit.txt", text)
}

pub(super) fn transforms(needs: &[&Need<'_>], consent: Consent) -> Vec<File> {
    let needs: Vec<&&Need<'_>> =
        needs.iter().filter(|need| consent == Consent::Fill || !need.is_kept).collect();
    let mut text = "# JOB_TRANSFORMs of the schedd, written by `pinfold advise --format htcondor`.\n\
                    # A job that was held for want of memory starts again with what was asked for if it is released,\n\
                    # as by periodic_release = HoldReasonCode == 34 && NumJobStarts < 3.\n"
        .to_owned();
    for (number, need) in needs.iter().enumerate() {
        let mib = need.memory_mib;
        text.push_str(&format!(
            "\n# {}\nJOB_TRANSFORM_NAMES = $(JOB_TRANSFORM_NAMES) pinfold_{number}\n\
             JOB_TRANSFORM_pinfold_{number} @=end\n   \
             REQUIREMENTS {} && {}\n",
            head(need).replace('$', "?"),
            of(need),
            match consent {
                // A job without a request gets memory by its image or its use so far.
                Consent::Fill | Consent::Report => UNASKED,
                Consent::Lower => CONSENTS,
            }
        ));
        match consent {
            Consent::Fill | Consent::Report => text.push_str(&format!("   SET RequestMemory {mib}\n")),
            Consent::Lower => text.push_str(&format!(
                "   COPY RequestMemory PinfoldAsked\n   \
                 SET RequestMemory ifThenElse((NumJobStarts ?: 0) > 0, PinfoldAsked, min({{ PinfoldAsked, {mib} }}))\n"
            )),
        }
        text.push_str("@end\n");
    }
    one("99-pinfold.conf", text)
}

const UNASKED: &str =
    r#"(RequestMemory =?= undefined || regexp("MemoryUsage|ImageSize", unparse(RequestMemory)))"#;
/// Lowered only where the submit description has `+PinfoldLower = true`.
const CONSENTS: &str = "(PinfoldLower =?= true)";

/// The condition that a job is of the class.
fn of(need: &Need<'_>) -> String {
    let (owner, class) = (string(need.user), string(need.class));
    let program = string(&format!("(^|/){}$", pattern(need.class)).replace('$', "\\z"));
    format!(
        "Owner =?= {owner} && (JobBatchName =?= {class} || (JobBatchName =?= undefined && regexp({program}, Cmd)))"
    )
}

/// A string of a ClassAd.
fn string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}

/// A pattern that only the text itself matches.
fn pattern(text: &str) -> String {
    text.chars().fold(String::new(), |mut all, letter| {
        if letter.is_ascii() && !letter.is_ascii_alphanumeric() && letter != '_' {
            all.push('\\');
        }
        all.push(letter);
        all
    })
}
