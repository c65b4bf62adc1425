//! Restrictions of a process beyond the rights of its user: resource limits, and irreversible restrictions (namespaces,
//! no new privileges, filters of system calls). Reads only. Absent here: the consequences.

use crate::procfs::{Proc, ProcError};

/// A limit: its name as in `getrlimit(2)` in small letters, without `RLIMIT_`, soft and hard; `None`: there is none.
pub type NamedLimit = (String, Option<u64>, Option<u64>);

/// The kernel's names of limits in `/proc/PID/limits`.
const NAMES: [(&str, &str); 16] = [
    ("Max cpu time", "cpu"),
    ("Max file size", "fsize"),
    ("Max data size", "data"),
    ("Max stack size", "stack"),
    ("Max core file size", "core"),
    ("Max resident set", "rss"),
    ("Max processes", "nproc"),
    ("Max open files", "nofile"),
    ("Max locked memory", "memlock"),
    ("Max address space", "as"),
    ("Max file locks", "locks"),
    ("Max pending signals", "sigpending"),
    ("Max msgqueue size", "msgqueue"),
    ("Max nice priority", "nice"),
    ("Max realtime priority", "rtprio"),
    ("Max realtime timeout", "rttime"),
];

/// Namespaces that bound a process's view and rights.
const NAMESPACES: [&str; 4] = ["user", "pid", "net", "ipc"];

/// All limits of a process; `None`: it is gone, or the kernel lists fewer.
///
/// # Errors
/// When the file is there and cannot be read.
pub fn limits(proc: &Proc, pid: u32) -> Result<Option<Vec<NamedLimit>>, ProcError> {
    Ok(proc.text(&format!("{pid}/limits"))?.as_deref().and_then(parse_limits))
}

fn parse_limits(text: &str) -> Option<Vec<NamedLimit>> {
    let one = |(title, name): &(&str, &str)| {
        let rest = text.lines().find_map(|line| line.strip_prefix(title))?;
        let mut words = rest.split_ascii_whitespace().map(|word| match word {
            "unlimited" => Some(None),
            number => number.parse::<u64>().ok().map(Some),
        });
        Some(((*name).to_owned(), words.next()??, words.next()??))
    };
    NAMES.iter().map(one).collect()
}

/// The kernel's adjustment of a process's score when it kills for memory; 0 if unreadable.
#[must_use]
pub fn oom_score_adj(proc: &Proc, pid: u32) -> i32 {
    let text = proc.text(&format!("{pid}/oom_score_adj")).ok().flatten().unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// The reason for which a process may do less than its user may, if a process started anew by this process would lack
/// the restriction; `None`: no restriction would be lost.
#[must_use]
pub fn beyond_its_user(proc: &Proc, pid: u32) -> Option<String> {
    let Ok(Some(status)) = proc.text(&format!("{pid}/status")) else { return Some("it is gone".to_owned()) };
    if let Some(why) = held_by(&status) {
        return Some(why.to_owned());
    }
    let differs = |name: &&&str| {
        let link = |whose: &str| proc.link(&format!("{whose}/ns/{name}"));
        // A kernel without this namespace has no process in it.
        link("self").is_some_and(|own| link(&pid.to_string()) != Some(own))
    };
    NAMESPACES.iter().find(differs).map(|name| format!("it is in another {name} namespace"))
}

/// Parses `/proc/PID/status` (proc(5)).
fn held_by(status: &str) -> Option<&'static str> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let set = |name: &str| field(name).is_some_and(|value| value != "0");
    match () {
        () if set("NoNewPrivs:") => Some("it gave up new privileges"),
        () if set("Seccomp:") => Some("its system calls are filtered"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_limits_of_this_process() {
        let proc = Proc::open(Path::new("/proc")).unwrap();
        let limits = limits(&proc, std::process::id()).unwrap().expect("all of them");
        assert_eq!(limits.len(), NAMES.len());
        let own = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        assert!(limits.contains(&("nofile".to_owned(), own.current, own.maximum)), "{limits:?}");
        assert_eq!(beyond_its_user(&proc, u32::MAX).as_deref(), Some("it is gone"));
    }

    #[test]
    fn less_than_all_limits_is_none() {
        assert_eq!(parse_limits("Max cpu time   unlimited   unlimited   seconds\n"), None);
        assert_eq!(parse_limits(""), None);
    }

    #[test]
    fn irreversible_restrictions_are_found() {
        assert_eq!(held_by("NoNewPrivs:\t0\nSeccomp:\t0\n"), None);
        assert!(held_by("NoNewPrivs:\t1\nSeccomp:\t0\n").is_some());
        assert!(held_by("NoNewPrivs:\t0\nSeccomp:\t2\n").is_some());
    }
}
