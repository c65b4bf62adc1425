//! The files that are installed as hooks, as texts: scripts and sources with the paths of this host in them.

use crate::manager::Manager;

/// Where things are on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The directory of the hooks.
    pub dir: String,
    /// The program `pinfold`.
    pub pinfold: String,
    /// The daemon's socket, where it is not the usual one.
    pub socket: Option<String>,
    /// Jobs wait for a daemon that is away, instead of running unmanaged.
    pub waits_for_daemon: bool,
}

/// A file of a hook's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// Its name in the directory of hooks.
    pub name: &'static str,
    /// Its text.
    pub text: String,
    /// Whether it is executed.
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
        ],
        Manager::Pbs => vec![text("pinfold_hook.py", include_str!("hooks/pinfold_hook.py"))],
        Manager::Generic => vec![starter()],
    }
}

/// The file that a source is built into, and the words of the compiler's command line behind its own.
#[must_use]
pub fn built(manager: Manager) -> Option<(&'static str, &'static str)> {
    (manager == Manager::Slurm).then_some(("pinfold_spank.c", "pinfold_spank.so"))
}

/// A template with the words of command lines in it, quoted for its language.
fn filled(template: &str, place: &Place) -> String {
    let pinfold = pinfold_words(place);
    let mut enter = pinfold.clone();
    enter.extend(["wlm", "enter"].map(str::to_owned));
    if place.waits_for_daemon {
        enter.extend(["--down", "wait"].map(str::to_owned));
    }
    template
        // What several hooks do alike.
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

/// Words as a shell reads them.
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
}
