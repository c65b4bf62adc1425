//! Expands `%j` and other patterns in names of output files.

use crate::jobs::Job;

/// The values of the patterns.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meant<'a> {
    pub job: u64,
    /// The array's number; without an array the job's own.
    pub array: u64,
    pub index: Option<u32>,
    pub user: &'a str,
    pub name: &'a str,
    pub host: &'a str,
    pub task: u32,
    pub step: Option<u32>,
}

/// Expands `%A %a %b %J %j %N %n %s %t %u %x`, with digits before the letter for leading zeros, and `%%` as `%`. A
/// backslash in the name disables expansion.
pub(crate) fn expand(pattern: &str, meant: &Meant<'_>) -> String {
    if pattern.contains('\\') {
        return pattern.replace('\\', "");
    }
    let mut out = String::new();
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut digits = String::new();
        while let Some(digit) = rest.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        let width = digits.parse::<usize>().unwrap_or(0).min(10);
        let number = |number: u64| format!("{number:0width$}");
        let text = match rest.next() {
            Some('A') => number(meant.array),
            // As in Slurm, for a job outside of an array.
            Some('a') => meant.index.map_or_else(|| "4294967294".to_owned(), |index| number(index.into())),
            Some('b') => number(u64::from(meant.index.unwrap_or(u32::MAX - 1) % 10)),
            Some('j') => number(meant.job),
            Some('J') => match meant.step {
                Some(step) => format!("{}.{step}", meant.job),
                None => number(meant.job),
            },
            // The short host name, as in Slurm.
            Some('N') => meant.host.split('.').next().unwrap_or_default().to_owned(),
            Some('n') => number(0),
            Some('s') => meant.step.map_or_else(|| "batch".to_owned(), |step| number(step.into())),
            Some('t') => number(meant.task.into()),
            Some('u') => meant.user.to_owned(),
            // A name is a name, and no path.
            Some('x') => meant.name.replace('/', "_"),
            Some('%') => "%".to_owned(),
            Some(other) => format!("%{digits}{other}"),
            None => format!("%{digits}"),
        };
        out.push_str(&text);
    }
    out
}

/// A job's file, absolute.
pub(crate) fn of_job(pattern: &str, job: &Job, host: &str) -> String {
    if pattern.is_empty() {
        return String::new();
    }
    let meant = Meant {
        job: job.job,
        array: job.array(),
        index: job.member.map(|(_, index)| index),
        user: &job.user,
        name: &job.name,
        host,
        ..Meant::default()
    };
    let name = expand(pattern, &meant);
    if name.starts_with('/') { name } else { format!("{}/{name}", job.label.directory) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files() {
        let meant = Meant {
            job: 15,
            array: 12,
            index: Some(3),
            user: "ann",
            name: "a/b c",
            host: "h1.site",
            task: 2,
            step: None,
        };
        let check = |pattern: &str, want: &str| assert_eq!(expand(pattern, &meant), want, "{pattern}");
        check("slurm-%A_%a.out", "slurm-12_3.out");
        check("%5j.%u.%N.log", "00015.ann.h1.log");
        check("%x-%n-%t-%J", "a_b c-0-2-15");
        check("100%%-%q-%", "100%-%q-%");
        check("%b/%2b", "3/03");
        check("\\%j", "%j");
        check("%99999999999999999999j", "15");
        let step = Meant { step: Some(4), ..meant };
        assert_eq!(expand("%J-%s", &step), "15.4-4");
    }
}
