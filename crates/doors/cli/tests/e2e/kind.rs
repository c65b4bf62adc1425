//! Under which rights a test runs: the same expectations hold in each.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The user and group of one who may do nothing (`nobody` of most systems; any number without rights will do).
const NOBODY: u32 = 65534;

/// Under which rights a host's daemon and commands run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As this user, with the best containment that the host offers.
    Groups,
    /// As this user, without any control group.
    Rootless,
    /// As a user who may do nothing.
    Nobody,
}

impl Kind {
    /// Runs a test under these rights, or says why that is skipped.
    pub(crate) fn check(self, test: fn(Self)) {
        match self.missing() {
            None => test(self),
            Some(why) => println!("skipped: {why}"),
        }
    }

    /// The same of a test that holds under all rights alike, where each kind is asked for.
    pub(crate) fn check_too(self, test: fn(Self)) {
        if std::env::var_os("PINFOLD_ALL_RIGHTS").is_some_and(|set| !set.is_empty()) {
            self.check(test);
        } else {
            println!(
                "skipped: it is the same under all rights; with PINFOLD_ALL_RIGHTS=1 it runs under each"
            );
        }
    }

    /// Why a test cannot run under these rights here.
    pub(crate) fn missing(self) -> Option<String> {
        let root = rustix::process::geteuid().is_root();
        match self {
            Self::Groups => {
                let facts = pinfold_sys::mode::probe(&pinfold_sys::mode::Roots::default());
                match pinfold_sys::mode::decide(&facts, None) {
                    Ok(plan) if plan.mode == pinfold_sys::mode::Mode::Rootless => Some(format!(
                        "no control groups here: {}; the tests of `rootless` are these",
                        plan.why
                    )),
                    Ok(_) => None,
                    Err(error) => Some(error.to_string()),
                }
            }
            Self::Rootless => None,
            Self::Nobody if root => None,
            Self::Nobody => {
                Some("only root can become another user; the tests of `rootless` are these".to_owned())
            }
        }
    }

    /// As this user, as well contained as can be here.
    pub(crate) fn best() -> Self {
        if Self::Groups.missing().is_none() { Self::Groups } else { Self::Rootless }
    }

    /// Options of a daemon of this kind.
    pub(crate) fn daemon_options(self) -> &'static [&'static str] {
        match self {
            Self::Groups => &[],
            Self::Rootless | Self::Nobody => &["--mode", "rootless"],
        }
    }

    /// Whether it is another user than the one who runs the tests.
    pub(crate) fn is_other_user(self) -> bool {
        self == Self::Nobody
    }

    /// Lets a command run as this kind's user.
    pub(crate) fn become_user(self, command: &mut Command) {
        if self == Self::Nobody {
            become_nobody(command);
        }
    }

    /// Gives a file to this kind's user.
    pub(crate) fn give(self, path: &Path) {
        if self == Self::Nobody {
            std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).expect("root gives files away");
        }
    }
}

/// Lets a command run as a user who may do nothing. Supplementary groups go with the change of user.
pub(crate) fn become_nobody(command: &mut Command) {
    command.uid(NOBODY).gid(NOBODY).env("HOME", "/nonexistent");
}

/// A program that root starts in a control group as a user who may do nothing. A group that hands controllers down takes no
/// process itself: where a daemon runs, its own group below is the place.
pub(crate) fn enter_as_nobody(group: &Path, program: &Path) -> Command {
    let script = format!(
        "group=$(ls -d \"$0/pinfold-daemon\" 2>/dev/null || echo \"$0\"); echo $$ >\"$group/cgroup.procs\" && exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups \"$@\""
    );
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &script]).arg(group).arg(program).env("HOME", "/nonexistent");
    command
}

/// Gives a control group to the user who may do nothing, as a service manager delegates one.
pub(crate) fn delegate(group: &Path) -> std::io::Result<()> {
    for path in [group.to_owned(), group.join("cgroup.procs"), group.join("cgroup.subtree_control")] {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY))?;
    }
    Ok(())
}

/// Makes a test of each function, once for each kind of rights: rights, or how processes are held together, make a
/// difference there.
macro_rules! each_kind {
    ($($test:ident),+ $(,)?) => {
        mod groups { $( #[test] fn $test() { crate::kind::Kind::Groups.check(super::$test); } )+ }
        mod rootless { $( #[test] fn $test() { crate::kind::Kind::Rootless.check(super::$test); } )+ }
        mod nobody { $( #[test] fn $test() { crate::kind::Kind::Nobody.check(super::$test); } )+ }
    };
}
pub(crate) use each_kind;

/// Makes a test of each function under the best rights that this host gives: what it looks at is decided, kept or shown
/// in the same way under all. The other kinds have their turn where `PINFOLD_ALL_RIGHTS` is set.
macro_rules! any_kind {
    ($($test:ident),+ $(,)?) => {
        mod any {
            $( #[test] fn $test() { crate::kind::Kind::best().check(super::$test); } )+
            mod rootless {
                $( #[test] fn $test() { crate::kind::Kind::Rootless.check_too(super::super::$test); } )+
            }
            mod nobody {
                $( #[test] fn $test() { crate::kind::Kind::Nobody.check_too(super::super::$test); } )+
            }
        }
    };
}
pub(crate) use any_kind;
