//! Lines that need no shell: plain words, the first of them a program. The shell would only look the program up and
//! execute it, at the cost of its own start, so that is done here instead, as by make(1) with plain recipes.
//!
//! Absent here: any reading of quotes, variables, patterns, redirections. A line with a character that some shell
//! gives a meaning to goes to the shell as it is.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use pinfold_client::Failure;
use pinfold_sys::spawn::resolve;

use super::index;
use super::lines::Lines;
use super::sink::Sink;
use super::slots::Slots;
use crate::job::JobOptions;
use crate::launch::LaunchPlan;

/// First words that shells execute themselves or that are part of their language (dash, bash, mksh): a program of the
/// same name may differ.
const SHELL_WORDS: &str = ". : alias bg bind break builtin caller case cat cd chdir command compgen complete compopt continue \
    coproc declare dirs disown do done echo elif else enable esac eval exec exit export false fc fg fi \
    for function getopts global hash help history if in integer jobs kill let local logout mapfile mknod \
    popd print printf pushd pwd read readarray readonly realpath rename return select set shift shopt \
    sleep source suspend test then time times trap true type typeset ulimit umask unalias unset until \
    wait whence while whoami";

/// The characters of plain words.
fn plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-./:,+@%=".contains(&byte)
}

/// The words of a line that means the same without a shell.
fn words(line: &OsStr) -> Option<Vec<OsString>> {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let words: Vec<&[u8]> = line.as_bytes().split(blank).filter(|word| !word.is_empty()).collect();
    // A first word with `=` is an assignment to a variable.
    let first = words.first().filter(|first| !first.contains(&b'='))?;
    let shells = SHELL_WORDS.split(' ').any(|word| word.as_bytes() == *first);
    let all_plain = words.iter().all(|word| word.iter().copied().all(plain));
    (all_plain && !shells).then(|| words.into_iter().map(|word| OsString::from_vec(word.to_vec())).collect())
}

/// How lines are run without a shell.
pub(super) struct Direct {
    search: Option<OsString>,
    /// Whether the shell may give words a meaning of its own that is not known here.
    own_words: bool,
}

impl Direct {
    /// For lines of this shell in this process's environment. `SHELL_WORDS` has the builtins of bash and dash; other
    /// shells have more of them, or read files of the user's first.
    pub(super) fn of_shell(shell: &Path) -> Self {
        let changes_bash = |(name, _): (OsString, OsString)| {
            name.as_bytes().starts_with(b"BASH_FUNC_")
                || ["BASH_ENV", "SHELLOPTS", "BASHOPTS"].iter().any(|changing| name == *changing)
        };
        let real = shell.canonicalize().ok();
        let own_words = match real.as_deref().and_then(Path::file_name).and_then(OsStr::to_str) {
            Some("dash") => false,
            Some("bash") => std::env::vars_os().any(changes_bash),
            _ => true,
        };
        Self { search: std::env::var_os("PATH"), own_words }
    }

    /// The program and the words of a line that needs no shell. `None`: the line needs a shell, if only to report that
    /// the program is missing.
    pub(super) fn program(&self, line: &OsStr) -> Option<(PathBuf, Vec<OsString>)> {
        let words = words(line).filter(|_| !self.own_words)?;
        // Without PATH a shell has a PATH of its own.
        let search = self.search.as_deref()?;
        Some((resolve(&words[0], Some(search)).ok()?, words))
    }
}

/// How a line is started: by a shell, unless the shell would only execute it.
pub(super) fn plan_of(
    options: &JobOptions,
    lines: &Rc<RefCell<Lines>>,
    sink: &Sink,
    slots: &Rc<RefCell<Slots>>,
) -> Result<LaunchPlan, Failure> {
    let (of_ticket, direct) = (lines.clone(), Direct::of_shell(&lines.borrow().shell));
    let slots = slots.clone();
    let command = Box::new(move |ticket| {
        of_ticket.borrow().program(&direct, index(ticket), || slots.borrow_mut().of(ticket))
    });
    let mut plan = LaunchPlan::of_many(options, command)?;
    plan.outputs = sink.streams(lines);
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_without_a_shell() {
        let check = |line: &str, want: &[&str]| {
            let want = want.iter().map(OsString::from).collect::<Vec<_>>();
            assert_eq!(words(OsStr::new(line)), Some(want), "{line}");
        };
        check("/bin/true", &["/bin/true"]);
        check("bowtie  -p 2\t--threads=4 reads,1.fq", &["bowtie", "-p", "2", "--threads=4", "reads,1.fq"]);
        check("./a.out user@host:x +50%", &["./a.out", "user@host:x", "+50%"]);
    }

    #[test]
    fn lines_for_the_shell() {
        let lines = [
            "",
            " ",
            "true",
            "exit 3",
            "cd /tmp",
            "K=31 velveth",
            "a;b",
            "a&",
            "a | b",
            "a >b",
            "a <b",
            "$HOME/x",
            "~/x",
            "ls *",
            "ls ?",
            "[ a ]",
            "a 'b'",
            "a \"b\"",
            "a \\b",
            "`a`",
            "a #b",
            "! a",
            "{ a",
            "a {b,c}",
            "(a)",
            "a^b",
            "a\nb",
            "a\u{e9}",
            "a\rb",
        ];
        for line in lines {
            assert_eq!(words(OsStr::new(line)), None, "{line:?}");
        }
        assert!(SHELL_WORDS.split(' ').is_sorted(), "one can see at a glance whether a word is there");
    }

    #[test]
    fn what_is_not_there_is_the_shells_to_tell() {
        let direct = Direct { search: Some("/bin".into()), own_words: false };
        assert_eq!(direct.program(OsStr::new("no-such-program-here")), None);
        assert_eq!(direct.program(OsStr::new("/bin")), None, "a directory");
        let (path, words) = direct.program(OsStr::new("ls -l")).expect("ls is everywhere");
        assert_eq!((path, words.len()), (PathBuf::from("/bin/ls"), 2));
        assert_eq!(Direct { own_words: true, ..direct }.program(OsStr::new("ls -l")), None);
    }

    proptest! {
        /// What the shell makes of such words is just these words.
        #[test]
        fn the_shell_agrees(line in "[a-z_./:,+@%= \t-]{1,40}") {
            if let Some(words) = words(OsStr::new(&line)) {
                let shown = std::process::Command::new("/bin/sh")
                    .args(["-c", &format!("printf '%s\\n' {line}")])
                    .output()
                    .expect("a shell");
                let want: Vec<u8> = words.iter().flat_map(|word| [word.as_bytes(), b"\n"].concat()).collect();
                prop_assert_eq!(shown.stdout, want);
            }
        }
    }
}
