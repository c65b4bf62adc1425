//! Processes that a daemon cannot move into its delegated group.
//!
//! The kernel lets a user move a process only if the user may write to `cgroup.procs` of the common ancestor of both groups
//! (cgroup-v2, "Delegation Containment"). So a user's session of logind, which belongs to root, is out of reach for a
//! daemon in a scope of the user's service manager. Owner of state: none. Absent here: the consequences.

use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::Plan;
use crate::cgroup::{Generation, own_group};
use crate::procfs::Proc;

/// A process that cannot be taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outside {
    /// The group of the process, as the kernel names it.
    pub group: String,
    /// The group that was delegated.
    pub delegated: PathBuf,
}

/// Whether this process is out of reach for the groups of a plan; `None`: it is not, or that is unknown.
#[must_use]
pub fn outside(plan: &Plan, proc: &Proc, pid: u32) -> Option<Outside> {
    let tree = plan.tree().filter(|_| plan.is_delegated())?;
    let text = proc.text(&format!("{pid}/cgroup")).ok().flatten()?;
    let group = own_group(&text, Generation::V2, "")?;
    let shared = tree.mount.join(shared_part(&tree.base, &group));
    // A process of another view of the hierarchy names groups that are none here.
    if !tree.mount.join(group.trim_start_matches('/')).is_dir() {
        return None;
    }
    let may_write = rustix::fs::access(shared.join("cgroup.procs"), Access::WRITE_OK).is_ok();
    (!may_write).then(|| Outside { group, delegated: tree.base_path() })
}

/// The nearest common ancestor of two groups; relative to the top.
fn shared_part(one: &str, other: &str) -> PathBuf {
    let parts = |path| Path::new(path).components().filter(|part| *part != std::path::Component::RootDir);
    let both = parts(one).collect::<Vec<_>>().into_iter().zip(parts(other).collect::<Vec<_>>());
    both.take_while(|(one, other)| one == other).map(|(part, _)| part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_two_groups_meet() {
        let check = |one: &str, other: &str, want: &str| {
            assert_eq!(shared_part(one, other), Path::new(want), "{one} and {other}");
        };
        let service = "user.slice/user-7.slice/user@7.service";
        check(
            &format!("{service}/app.slice/run-1.scope"),
            &format!("/{service}/app.slice/term.scope"),
            &format!("{service}/app.slice"),
        );
        check(
            &format!("{service}/app.slice/run-1.scope"),
            "/user.slice/user-7.slice/session-3.scope",
            "user.slice/user-7.slice",
        );
        check("box", "/box/pinfold-daemon", "box");
        check("box", "/", "");
        check("box", "/boxes", "");
    }
}
