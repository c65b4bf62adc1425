//! Under which rights a test runs: the same expectations hold in each.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use pinfold_testkit::ignore;

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
    /// Runs a test under these rights, or has it ignored.
    pub(crate) fn check(self, test: fn(Self)) {
        self.or_ignored();
        test(self);
    }

    /// Ends a test as ignored where these rights cannot be had.
    pub(crate) fn or_ignored(self) {
        if let Some(why) = self.missing() {
            ignore!("{why}");
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

    /// As a user without rights.
    pub(crate) fn user() -> Self {
        if Self::Nobody.missing().is_none() { Self::Nobody } else { Self::Rootless }
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

/// How often, and under which rights, a test runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Run {
    /// Under each kind of rights. The kernel's containment is asked: limits, freezes, kills, adoption, groups, accounting by
    /// group. Each kind does that by other means.
    Each(fn(Kind)),
    /// Once, with the best containment here. A decision of the daemon or the command is asked, which is the same in all.
    Best(fn(Kind)),
    /// Once, as a user without rights: private daemons, and files that such a user may not write.
    User(fn(Kind)),
    /// Once: the test chooses its rights itself, or needs none.
    Once(fn()),
}

/// A test of the list in its module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Test {
    pub(crate) module: &'static str,
    pub(crate) name: &'static str,
    pub(crate) run: Run,
}

type Trial = (String, Box<dyn FnOnce() + Send>);

impl Test {
    /// What the runner makes of it. With `PINFOLD_ALL_RIGHTS` all kinds of rights have their turn in each test.
    pub(crate) fn trials(self) -> Vec<Trial> {
        let module = self.module.split_once("::").map_or("", |(_, module)| module);
        let trial = |place: &str, test: Box<dyn FnOnce() + Send>| -> Trial {
            (format!("{module}{place}::{}", self.name), test)
        };
        let each = |test: fn(Kind)| {
            [("::groups", Kind::Groups), ("::rootless", Kind::Rootless), ("::nobody", Kind::Nobody)]
                .map(|(place, kind)| trial(place, Box::new(move || kind.check(test))))
                .into()
        };
        match self.run {
            Run::Once(test) => vec![trial("", Box::new(test))],
            Run::Each(test) => each(test),
            Run::Best(test) | Run::User(test)
                if std::env::var_os("PINFOLD_ALL_RIGHTS").is_some_and(|set| !set.is_empty()) =>
            {
                each(test)
            }
            Run::Best(test) => vec![trial("::any", Box::new(move || Kind::best().check(test)))],
            Run::User(test) => vec![trial("::any", Box::new(move || Kind::user().check(test)))],
        }
    }
}

/// The tests of a module, by how they run: `tests! { Each: one, two; Once: three; }`.
macro_rules! tests {
    ($($run:ident: $($test:ident),+;)+) => {
        pub(crate) const TESTS: &[crate::kind::Test] = &[$($(crate::kind::Test {
            module: module_path!(),
            name: stringify!($test),
            run: crate::kind::Run::$run($test),
        }),+),+];
    };
}
pub(crate) use tests;
