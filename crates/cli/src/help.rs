//! The tree of commands as it is read and shown: which options a short help has, which commands stand below `admin`.
//!
//! The commands that start jobs have some sixty options. `--help` shows the six that most jobs need, `--help-all` every
//! one, in groups. Absent here: what an option is called and means; that stands beside its command.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command, CommandFactory as _};

use crate::args::{AdminCommand, Cli};

/// The option that shows all options.
const HELP_ALL: &str = "help-all";

/// The commands with a short help, and the options in it, by the names of their fields.
const SHORT: [(&str, [&str; 6]); 4] = [
    ("run", ["name", "priority", "cores", "mem", "timeout", "after"]),
    ("submit", ["cores", "mem", "timeout", "after", "array", "output"]),
    ("batch", ["mem", "jobs", "output", "joblog", "resume", "retries"]),
    ("make", ["name", "priority", "mem", "timeout", "jobs", "jobserver"]),
];

/// The whole tree, with every option shown: what is read, and what manual pages and completions are made of.
pub(crate) fn tree() -> Command {
    let whole = SHORT.iter().fold(Cli::command(), |tree, (name, _)| tree.mut_subcommand(name, with_helps));
    // They stand below `admin`; the spelling without it goes on being read.
    AdminCommand::names()
        .into_iter()
        .fold(whole, |tree, name| tree.mut_subcommand(name, |command| command.hide(true)))
}

/// Both helps are of the compact form: the other has five lines an option.
fn with_helps(command: Command) -> Command {
    let help = |id: &'static str, text: &'static str| {
        Arg::new(id).long(id).action(ArgAction::HelpShort).help(text).help_heading(None).display_order(1000)
    };
    let bare = command.disable_help_flag(true).mut_args(|arg| match arg.is_positional() {
        true => arg.help_heading(None),
        false => arg,
    });
    bare.arg(help("help", "Print help").short('h'))
        .arg(help(HELP_ALL, "Print help with all options, in groups"))
}

/// The tree that reads this command line: the same, with short helps unless all options are asked for.
pub(crate) fn tree_for(words: &[OsString]) -> Command {
    if words.iter().any(|word| word.to_str() == Some("--help-all")) {
        return tree();
    }
    SHORT
        .iter()
        .fold(tree(), |tree, (name, kept)| tree.mut_subcommand(name, |command| shortened(command, kept)))
}

fn shortened(command: Command, kept: &[&str]) -> Command {
    command.mut_args(|arg| {
        let id = arg.get_id().as_str();
        match arg.is_positional() || id == "help" || id == HELP_ALL || kept.contains(&id) {
            // Six options need no groups.
            true => arg.help_heading(None),
            false => arg.hide(true),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(words: &[&str]) -> String {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        tree_for(&words).try_get_matches_from(&words).expect_err("help is no command").to_string()
    }

    #[test]
    fn the_tree_holds_together() {
        tree().debug_assert();
    }

    #[test]
    fn a_short_help_has_six_options_and_says_where_the_others_are() {
        for (name, kept) in SHORT {
            let text = help(&["pinfold", name, "--help"]);
            for field in kept {
                let option = format!("--{}", field.replace('_', "-"));
                assert!(text.contains(&option), "{name}: {option}\n{text}");
            }
            assert!(text.contains("--help-all") && !text.contains("--no-suspend"), "{name}: {text}");
            // The program's own (socket, autostart, host), help, and the six.
            let options = text.lines().filter(|line| line.trim_start().starts_with('-')).count();
            assert!(options <= 12, "{name} has {options}: {text}");
        }
    }

    #[test]
    fn a_whole_help_has_every_option_in_groups() {
        let text = help(&["pinfold", "run", "--help-all"]);
        for heading in ["Importance:", "Cores:", "Memory and disk:", "When it runs:", "Layout options"] {
            assert!(text.contains(heading), "{heading}\n{text}");
        }
        assert!(text.contains("--no-suspend") && text.contains("--cpu-bind"), "{text}");
    }

    #[test]
    fn rarely_used_commands_stand_below_admin_and_are_read_without_it() {
        let text = help(&["pinfold", "--help"]);
        let listed = |name: &str| text.lines().any(|line| line.trim_start().starts_with(&format!("{name} ")));
        assert!(listed("admin") && listed("run") && listed("config"), "{text}");
        let admin = help(&["pinfold", "admin", "--help"]);
        for name in AdminCommand::names() {
            assert!(!listed(&name), "{name}: {text}");
            assert!(admin.contains(&name), "{name}: {admin}");
        }
        for words in [&["pinfold", "drain"][..], &["pinfold", "admin", "drain"]] {
            assert!(tree().try_get_matches_from(words).is_ok(), "{words:?}");
        }
    }

    #[test]
    fn words_that_are_mistyped_get_a_suggestion() {
        let said = |words: &[&str]| tree().try_get_matches_from(words).expect_err("a mistake").to_string();
        assert!(said(&["pinfold", "statsu"]).contains("'status'"));
        assert!(said(&["pinfold", "run", "--priorty", "3", "true"]).contains("'--priority'"));
    }
}
