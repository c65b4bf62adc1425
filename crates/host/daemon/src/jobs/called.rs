//! What people call the jobs that a text names: a member of an array is `12_3`. Its own number is another, and that of the
//! first member is the array's too: `pinfold suspend 12` is for all members.
//!
//! The scheduler knows numbers only. Absent: what a reference of the user's means ([`super::arrays`]).

use pinfold_proto::row::JobRow;

/// What a member of an array is called; `None`: the job is no member, and goes by its number.
pub(crate) fn member(row: &JobRow) -> Option<String> {
    let place = row.spec.array?;
    place.array.map(|array| format!("{array}_{}", place.index))
}

/// A text in which each job that has such a name goes by it: in `job 12`, in `jobs 12, 13 and 14`, and behind the first word
/// of a command of pinfold's in backticks.
pub(crate) fn by_name(text: &str, name: impl Fn(u64) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
        let (digits, after) = from.split_at(end);
        let is_job = out.ends_with("job ") || is_in_command(&out) || is_in_list(&out, after);
        let named = is_job.then(|| digits.parse().ok().and_then(&name)).flatten();
        out.push_str(named.as_deref().unwrap_or(digits));
        rest = after;
    }
    out + rest
}

/// Whether what follows this is the job of a command in backticks: `pinfold suspend 12`.
fn is_in_command(before: &str) -> bool {
    let Some((_, command)) = before.rsplit_once('`') else { return false };
    command.starts_with("pinfold ") && command.ends_with(' ') && command.split_whitespace().count() == 2
}

/// Whether a number between these is one of a list: `jobs 12, 13 and 14`; not that of `and 14 others`.
fn is_in_list(before: &str, after: &str) -> bool {
    let Some((_, list)) = before.rsplit_once("jobs ") else { return false };
    let list = if after.starts_with(" other") { list } else { list.trim_end_matches(" and ") };
    list.chars().all(|c| c.is_ascii_digit() || "_, ".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> String {
        by_name(text, |job| {
            [(12, "12_0"), (13, "12_1")].iter().find(|one| one.0 == job).map(|one| one.1.into())
        })
    }

    #[test]
    fn members_go_by_their_names() {
        for (text, want) in [
            ("a slot: job 12 must end", "a slot: job 12_0 must end"),
            ("job 11 or job 13 must end", "job 11 or job 12_1 must end"),
            ("job 12 and 13 others", "job 12_0 and 13 others"),
            ("jobs 12 and 13 must end", "jobs 12_0 and 12_1 must end"),
            ("jobs 11, 12, 13 and 14 must end", "jobs 11, 12_0, 12_1 and 14 must end"),
            ("jobs 12, 13 and 13 others", "jobs 12_0, 12_1 and 13 others"),
            ("its end, or `pinfold suspend 12`", "its end, or `pinfold suspend 12_0`"),
            ("`pinfold set 12 --priority 13`", "`pinfold set 12_0 --priority 13`"),
            ("it takes 12 slots, and 13 of 13 jobs wait", "it takes 12 slots, and 13 of 13 jobs wait"),
            ("no number", "no number"),
            ("", ""),
        ] {
            assert_eq!(named(text), want);
        }
    }
}
