//! The tree of commands as it is read and shown: which options a short help has, which commands stand below `admin`.
//!
//! The first screen has the most used commands in groups, `pinfold --help-all` has all commands. The commands that start
//! jobs have some sixty options: `--help` shows the six most used options, `--help-all` all options in groups. Absent
//! here: the names and meanings of options; they stand beside their commands.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command, CommandFactory as _};

use crate::args::{AdminCommand, Cli};
use crate::manual::{EXAMPLES, examples};

/// The option that shows all options.
const HELP_ALL: &str = "help-all";

/// The commands with a short help, and the options in it, by the names of their fields.
const SHORT: [(&str, [&str; 6]); 4] = [
    ("run", ["name", "priority", "cores", "mem", "timeout", "after"]),
    ("submit", ["cores", "mem", "timeout", "after", "array", "output"]),
    ("batch", ["mem", "jobs", "output", "joblog", "resume", "retries"]),
    ("make", ["name", "priority", "mem", "timeout", "jobs", "jobserver"]),
];

/// The commands on the first screen, in groups. The names of all others stand below them.
const GROUPS: [(&str, &[&str]); 3] = [
    ("Run", &["run", "submit", "batch", "make", "retry", "again"]),
    ("Look", &["status", "why", "log", "report", "top", "plot"]),
    ("Change", &["wait", "cancel", "suspend", "resume", "hold", "release", "set"]),
];

/// The whole tree, with every option shown: the source of parsing, manual pages and completions.
pub(crate) fn tree() -> Command {
    let whole = SHORT.iter().fold(Cli::command(), |tree, (name, _)| tree.mut_subcommand(name, with_helps));
    let whole = whole.arg(help_option(HELP_ALL, "Print help with all commands"));
    let whole = with_rules(whole);
    // Commands below `admin`; the spelling without `admin` goes on being read.
    AdminCommand::names()
        .into_iter()
        .fold(whole, |tree, name| tree.mut_subcommand(name, |command| command.hide(true)))
}

/// Rules for the options of all commands. A negative number behind an option is the option's value, so that the message
/// names the option and its range; help shows no values of the environment.
fn with_rules(command: Command) -> Command {
    let named = |arg: Arg| match !arg.is_positional() && arg.get_action().takes_values() {
        true => arg.allow_negative_numbers(true).hide_env_values(true),
        false => arg.hide_env_values(true),
    };
    command.mut_args(named).mut_subcommands(with_rules)
}

/// Both helps are in the compact form: the long form has five lines an option.
fn with_helps(command: Command) -> Command {
    let bare = command.disable_help_flag(true).mut_args(|arg| match arg.is_positional() {
        true => arg.help_heading(None),
        false => arg,
    });
    bare.arg(help_option("help", "Print help").short('h'))
        .arg(help_option(HELP_ALL, "Print help with all options, in groups"))
}

fn help_option(id: &'static str, text: &'static str) -> Arg {
    Arg::new(id).long(id).action(ArgAction::HelpShort).help(text).help_heading(None).display_order(1000)
}

/// The tree that reads this command line: as [`tree`], with short helps unless all options are asked for.
pub(crate) fn tree_for(words: &[OsString]) -> Command {
    let tree = EXAMPLES
        .iter()
        .filter(|(name, _)| !name.contains(' '))
        .fold(tree(), |tree, (name, _)| tree.mut_subcommand(name, |command| with_examples(command, name)));
    if words.iter().any(|word| word.to_str() == Some("--help-all")) {
        return tree;
    }
    let screen = first_screen(&tree);
    SHORT.iter().fold(tree.override_help(screen), |tree, (name, kept)| {
        tree.mut_subcommand(name, |command| shortened(command, kept))
    })
}

/// The most used commands with their meanings, and the names of all others.
fn first_screen(tree: &Command) -> String {
    let about = |command: &Command| command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("{}\n\nUsage: pinfold COMMAND [OPTIONS]\n", about(tree));
    for (group, names) in GROUPS {
        text += &format!("\n{group}:\n");
        for command in names.iter().filter_map(|name| tree.find_subcommand(name)) {
            text += &format!("  {:<9}{}\n", command.get_name(), about(command));
        }
    }
    let is_first = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let shown = tree.get_subcommands().filter(|command| !command.is_hide_set());
    let others: Vec<&str> = shown.map(Command::get_name).filter(|name| !is_first(name)).collect();
    text += "\nMore:";
    for names in others.chunks(8) {
        text += &format!("\n  {}", names.join(", "));
    }
    text + "\n\n`pinfold COMMAND --help` shows the options of a command and examples, `pinfold --help-all`\n\
            all commands, the options of all commands and the exit codes.\n"
}

/// The help of a command with its examples at the end.
fn with_examples(command: Command, name: &str) -> Command {
    let examples = examples(name).map(|(example, meaning)| format!("\n  {example}\n      {meaning}"));
    let notes = command.get_after_help().map(|notes| format!("{notes}\n\n")).unwrap_or_default();
    let text = examples.fold(format!("{notes}Examples:"), |text, example| text + &example);
    command.after_help(text)
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
    fn the_first_screen_has_few_lines_and_names_every_command() {
        for words in [&["pinfold"][..], &["pinfold", "-h"], &["pinfold", "--help"], &["pinfold", "help"]] {
            let text = help(words);
            assert!(text.lines().count() <= 40, "{} lines: {text}", text.lines().count());
            let long = text.lines().find(|line| line.chars().count() > 90);
            assert_eq!(long, None, "a line is too long for a terminal");
            let tree = tree();
            let shown = tree.get_subcommands().filter(|command| !command.is_hide_set());
            for name in shown.map(Command::get_name) {
                let listed =
                    text.split(|end: char| end.is_whitespace() || end == ',').any(|word| word == name);
                assert!(listed, "{name}: {text}");
            }
            assert!(text.contains("pinfold --help-all"), "{text}");
        }
        let grouped = GROUPS.iter().flat_map(|(_, names)| names.iter());
        let unknown: Vec<_> = grouped.filter(|name| tree().find_subcommand(name).is_none()).collect();
        assert_eq!(unknown, Vec::<&&str>::new());
        let all = help(&["pinfold", "--help-all"]);
        assert!(all.contains("--no-autostart") && all.contains("Exit codes:"), "{all}");
    }

    #[test]
    fn a_help_ends_with_examples() {
        for (command, examples) in EXAMPLES.iter().filter(|(command, _)| !command.contains(' ')) {
            let texts = [help(&["pinfold", command, "--help"]), help(&["pinfold", "help", command])];
            for (text, (example, _)) in
                texts.iter().flat_map(|text| examples.iter().map(move |of| (text, of)))
            {
                assert!(text.contains(example), "{command}: {example}\n{text}");
            }
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
        let text = help(&["pinfold", "--help-all"]);
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

    /// The commands with options that are numbers, and the ranges of the numbers.
    #[test]
    fn a_wrong_number_is_answered_with_option_value_and_range() {
        let options = [
            ("run --priority V x", "1 to 16"),
            ("run --cores V x", "1 to 65536"),
            ("submit --priority V x", "1 to 16"),
            ("batch --retries V x", "1 to 4294967295"),
            ("make --jobs V x", "1 to "),
            ("set 1 --priority V", "1 to 16"),
            ("set-aside a --cores V", "1 to 65536"),
            ("adopt --pid V", "1 to 4294967295"),
            ("report --last V", "1 to 4294967295"),
            ("plot --last V", "1 to 4294967295"),
            ("export --format csv --last V", "1 to 4294967295"),
            ("status --limit V", "0 to "),
            ("layout --hosts V", "0 to "),
            ("sim --swf x --hosts V", "1 to 1000000"),
            ("sim --swf x --cores V", "1 to 4294967295"),
            ("sim --swf x --repeat V", "1 to 10000"),
            ("sim --swf x --seed V", "0 to "),
            ("sim calibrate --seconds V", "3 to 3600"),
        ];
        for (line, range) in options {
            let option = line.split(' ').rev().find(|word| word.starts_with("--")).expect("an option");
            for bad in ["q", "-1", "1e3", "99999999999999999999999"] {
                let words = std::iter::once("pinfold").chain(line.split(' '));
                let words = words.map(|word| if word == "V" { bad } else { word });
                let told = tree().try_get_matches_from(words).expect_err(line).to_string();
                for part in [option, &format!("`{bad}` is not a whole number from {range}")] {
                    assert!(told.contains(part), "{line}, {bad}: {part}\n{told}");
                }
            }
            let empty = std::iter::once("pinfold")
                .chain(line.split(' ').map(|word| if word == "V" { "" } else { word }));
            let told = tree().try_get_matches_from(empty).expect_err(line).to_string();
            assert!(told.contains(option) && !told.contains("digit"), "{line}: {told}");
        }
    }

    /// No option of any command has a number that is read without a range.
    #[test]
    fn no_option_reads_numbers_without_a_range() {
        fn bare(command: &Command, found: &mut Vec<String>) {
            for arg in command.get_arguments() {
                let parser = format!("{:?}", arg.get_value_parser());
                if ["u8", "u16", "u32", "u64", "usize", "i32", "i64", "f64"]
                    .iter()
                    .any(|of| parser.contains(&format!("<{of}>")))
                {
                    found.push(format!("{} {}: {parser}", command.get_name(), arg.get_id()));
                }
            }
            command.get_subcommands().for_each(|below| bare(below, found));
        }
        let mut found = Vec::new();
        bare(&tree(), &mut found);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn words_that_are_mistyped_get_a_suggestion() {
        let said = |words: &[&str]| tree().try_get_matches_from(words).expect_err("a mistake").to_string();
        assert!(said(&["pinfold", "statsu"]).contains("'status'"));
        assert!(said(&["pinfold", "run", "--priorty", "3", "true"]).contains("'--priority'"));
    }
}
