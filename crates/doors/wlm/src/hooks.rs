//! The hook files to install, as texts: scripts and sources with this host's paths.

use crate::manager::Manager;

/// Paths and choices of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The directory of the hooks.
    pub dir: String,
    /// The program `pinfold`.
    pub pinfold: String,
    /// The daemon's socket, if not the default.
    pub socket: Option<String>,
    /// Whether jobs wait for an absent daemon, instead of running unmanaged.
    pub waits_for_daemon: bool,
}

/// A file of a hook's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// Its name in the directory of hooks.
    pub name: &'static str,
    /// Its text.
    pub text: String,
    /// Whether the file is executable.
    pub executable: bool,
}

/// The files of a manager's hooks.
#[must_use]
pub fn hooks(manager: Manager, place: &Place) -> Vec<Hook> {
    let script = |name, template: &str| Hook { name, text: filled(template, place), executable: true };
    let text = |name, template: &str| Hook { name, text: filled(template, place), executable: false };
    let starter = || script("pinfold-starter.sh", include_str!("hooks/pinfold-starter.sh"));
    match manager {
        Manager::Slurm => vec![text("pinfold_spank.c", include_str!("hooks/pinfold_spank.c"))],
        Manager::GridEngine => vec![
            starter(),
            script("pinfold-suspend.sh", include_str!("hooks/pinfold-suspend.sh")),
            script("pinfold-resume.sh", include_str!("hooks/pinfold-resume.sh")),
            script("pinfold-terminate.sh", include_str!("hooks/pinfold-terminate.sh")),
            script("pinfold-epilog.sh", include_str!("hooks/pinfold-epilog.sh")),
            script("pinfold-jsv.sh", include_str!("hooks/pinfold-jsv.sh")),
            script("pinfold-load.sh", include_str!("hooks/pinfold-load.sh")),
        ],
        Manager::Htcondor => vec![
            script("pinfold-wrapper.sh", include_str!("hooks/pinfold-wrapper.sh")),
            script("pinfold-cron.sh", include_str!("hooks/pinfold-cron.sh")),
            script("pinfold-learned.sh", include_str!("hooks/pinfold-learned.sh")),
        ],
        Manager::Pbs => vec![text("pinfold_hook.py", include_str!("hooks/pinfold_hook.py"))],
        Manager::Generic => vec![starter()],
    }
}

/// The source file to compile, and the further arguments of the compiler.
#[must_use]
pub fn built(manager: Manager) -> Option<(&'static str, &'static str)> {
    (manager == Manager::Slurm).then_some(("pinfold_spank.c", "pinfold_spank.so"))
}

/// Fills command lines into a template, quoted for its language.
fn filled(template: &str, place: &Place) -> String {
    let pinfold = pinfold_words(place);
    let mut enter = pinfold.clone();
    enter.extend(["wlm", "enter"].map(str::to_owned));
    if place.waits_for_daemon {
        enter.extend(["--down", "wait"].map(str::to_owned));
    }
    template
        // Parts common to several hooks.
        .replace("@ASK@", include_str!("hooks/ask.sh").trim_end())
        .replace("@NAME@", include_str!("hooks/name.sh").trim_end())
        .replace("@PINFOLD_LIST@", &python_list(&pinfold))
        .replace("@ENTER_LIST@", &python_list(&enter))
        .replace("@PINFOLD@", &shell_words(&pinfold))
        .replace("@ENTER@", &shell_words(&enter))
}

fn pinfold_words(place: &Place) -> Vec<String> {
    let mut words = vec![place.pinfold.clone(), "--no-autostart".to_owned()];
    if let Some(socket) = &place.socket {
        words.extend(["--socket".to_owned(), socket.clone()]);
    }
    words
}

/// Words quoted for a shell.
fn shell_words(words: &[String]) -> String {
    let quoted = words.iter().map(|word| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-:=,+@".contains(&byte);
        match !word.is_empty() && word.bytes().all(plain) {
            true => word.clone(),
            false => format!("'{}'", word.replace('\'', r"'\''")),
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Words as a list of Python's.
fn python_list(words: &[String]) -> String {
    let quoted = words.iter().map(|word| {
        let escaped: String =
            word.chars().flat_map(|c| escaped_for_python(c).chars().collect::<Vec<_>>()).collect();
        format!("\"{escaped}\"")
    });
    format!("[{}]", quoted.collect::<Vec<_>>().join(", "))
}

fn escaped_for_python(c: char) -> String {
    match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\U{:08x}", u32::from(c)),
        c => c.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(pinfold: &str, socket: Option<&str>, waits_for_daemon: bool) -> Place {
        let socket = socket.map(str::to_owned);
        Place { dir: "/hooks".to_owned(), pinfold: pinfold.to_owned(), socket, waits_for_daemon }
    }

    #[test]
    fn every_hook_is_filled_in() {
        for manager in Manager::ALL {
            let all = hooks(manager, &place("/usr/bin/pinfold", None, false));
            assert!(!all.is_empty(), "{manager}");
            for hook in all {
                for mark in ["@PINFOLD", "@ENTER", "@ASK@", "@NAME@"] {
                    assert!(!hook.text.contains(mark), "{}: {mark}", hook.name);
                }
                assert_eq!(hook.executable, hook.text.starts_with("#!"), "{}", hook.name);
            }
        }
    }

    #[test]
    fn paths_are_quoted() {
        let odd = place("/opt/it's here/pinfold", Some("/run/a b.sock"), true);
        let of = |manager: Manager| hooks(manager, &odd).remove(0).text;
        let enter =
            r"'/opt/it'\''s here/pinfold' --no-autostart --socket '/run/a b.sock' wlm enter --down wait";
        assert!(of(Manager::Generic).contains(enter), "{}", of(Manager::Generic));
        let list = r#"["/opt/it's here/pinfold", "--no-autostart", "--socket", "/run/a b.sock"]"#;
        assert!(of(Manager::Pbs).contains(list));
        assert_eq!(python_list(&["a\"\\\n".to_owned()]), "[\"a\\\"\\\\\\U0000000a\"]");
    }

    /// What the verifier of Grid Engine answers if Grid Engine tells it these lines of a job, and then of one that asks
    /// nothing.
    fn verified(lines: &str) -> String {
        use std::io::{BufRead as _, BufReader, Read as _, Write as _};
        use std::process::{Command, Stdio};
        let all = hooks(Manager::GridEngine, &place("/usr/bin/pinfold", None, false));
        let text = all.into_iter().find(|hook| hook.name == "pinfold-jsv.sh").unwrap().text;
        let mut command = Command::new("bash");
        command.args(["-c", &text]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut to = child.stdin.take().unwrap();
        let mut from = BufReader::new(child.stdout.take().unwrap());
        // Grid Engine sends no more before it has the answer; a value, with all that is in it, is one write of its.
        let mut ask = |told: &str, ends: &str| {
            to.write_all(told.as_bytes()).unwrap();
            let mut said = String::new();
            loop {
                let begin = said.len();
                assert_ne!(from.read_line(&mut said).unwrap(), 0, "it ended: {lines}");
                if said[begin..].starts_with(ends) {
                    return said;
                }
            }
        };
        assert_eq!(ask("START\n", "STARTED"), "STARTED\n", "{lines}");
        let job = format!("PARAM VERSION 1.0\nPARAM CMDARG0 a\nQUIT\n{lines}PARAM N job\nBEGIN\n");
        let said = ask(&job, "RESULT");
        // Whatever was told, each job has one answer.
        assert_eq!(ask("START\n", "STARTED"), "STARTED\n", "{lines}");
        assert_eq!(ask("PARAM N next\nBEGIN\n", "RESULT"), "RESULT STATE ACCEPT\n", "{lines}");
        to.write_all(b"QUIT\n").unwrap();
        drop(to);
        let mut rest = String::new();
        from.read_to_string(&mut rest).unwrap();
        assert_eq!((rest.as_str(), child.wait().unwrap().success()), ("", true), "{lines}");
        said.trim_end().replace('\n', "; ")
    }

    /// Text behind a line break in another value is no line of the protocol.
    #[test]
    fn other_values_have_no_say() {
        let asks = "PARAM ac pinfold_priority=3\n";
        let good = "ENV ADD PINFOLD_ASK_PRIORITY 3; RESULT STATE CORRECT";
        for text in [
            "BEGIN",
            "BEGIN\nSTART",
            "BEGIN\nSTART\nPARAM ac x=1\nBEGIN\nSTART",
            "BEGIN\nQUIT",
            "START",
            "QUIT",
        ] {
            let told = verified(&format!("{asks}PARAM A x\n{text}\nPARAM b y\n"));
            assert!(told == good || told.starts_with("RESULT STATE REJECT"), "{text}: {told}");
            let told = verified(&format!("PARAM ac x=1\n{text}\n"));
            assert_eq!(told, "RESULT STATE ACCEPT", "{text}");
        }
    }

    #[test]
    fn requests_of_grid_engine_jobs_are_verified() {
        let good = "ENV ADD PINFOLD_ASK_PRIORITY 3; ENV ADD PINFOLD_ASK_CLASS backfill; RESULT STATE CORRECT";
        assert_eq!(verified("PARAM ac pinfold_priority=3,other=x,pinfold_class=backfill\n"), good);
        for nothing in ["", "PARAM ac other=1\n", "PARAM ac other=1\nPARAM b y\n", "PARAM ac other=a\nb\n"] {
            assert_eq!(verified(nothing), "RESULT STATE ACCEPT", "{nothing}");
        }
        for value in ["", " 1", "1 ", "1\t2", "1\r", "1\x1b[2J", "1\x7f", "\u{661}", "-1", "$(id)", "1;id"] {
            let said = verified(&format!("PARAM ac pinfold_priority={value}\n"));
            assert!(said.starts_with("RESULT STATE REJECT pinfold: -ac takes "), "{value:?}: {said}");
        }
    }

    #[test]
    fn a_line_break_is_refused_whatever_follows_it() {
        let refused = "RESULT STATE REJECT pinfold: a line break in the text of -ac";
        for line in [
            "",
            "2",
            "ENV ADD LD_PRELOAD x",
            "BEGIN",
            "START",
            "QUIT",
            "PARAM ac other=1",
            "RESULT STATE ACCEPT",
        ] {
            for told in [format!("pinfold_priority=1\n{line}"), format!("other=1,pinfold_mem=1\nx\n{line}")] {
                assert_eq!(verified(&format!("PARAM ac {told}\n")), refused, "{told}");
            }
        }
        assert_eq!(verified("PARAM ac other=1\npinfold_mem=1\n"), refused);
    }
}
