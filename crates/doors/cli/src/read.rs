//! Reads the command line of this process.
//!
//! Absent here: which commands and options there are.

use std::ffi::OsString;

use clap::{ArgMatches, Args, FromArgMatches as _};

use crate::args::{Cli, Command, Reach};
use crate::batch;
use crate::help;
use crate::hub::Elsewhere;

impl Cli {
    /// Reads the command line of this process.
    ///
    /// The whole tree of commands takes two milliseconds to build, and every `pinfold run` and `submit`, and each look
    /// of a waiting script, would take that long. So these commands are read by their own options alone; unusual words,
    /// or a call for help, are read again with all options.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let words = with_options_ended(std::env::args_os().collect());
        Self::read_quickly(&words).map_or_else(|| Self::read_all(&words), Ok)
    }

    fn read_quickly(words: &[OsString]) -> Option<Self> {
        let at = command_at(words)?;
        let own: Vec<&OsString> =
            words[at..=at].iter().chain(&words[1..at]).chain(&words[at + 1..]).collect();
        match words[at].to_str()? {
            "run" => Self::read_alone(&own, |run| Command::Run(Box::new(run))),
            "submit" => Self::read_alone(&own, |submit| Command::Submit(Box::new(submit))),
            "status" => Self::read_alone(&own, Command::Status),
            "wait" => Self::read_alone(&own, Command::Wait),
            _ => None,
        }
    }

    fn read_all(words: &[OsString]) -> Result<Self, clap::Error> {
        let mut tree = help::tree_for(words);
        let matches = tree.try_get_matches_from_mut(words)?;
        let mut cli = Self::from_arg_matches(&matches).map_err(|error| error.format(&mut tree))?;
        if let Some((_, matches)) = matches.subcommand() {
            cli.command.note_typed(matches);
        }
        Ok(cli)
    }

    /// Reads the words of a command, its name before them.
    fn read_alone<Own: Args>(words: &[&OsString], command: impl FnOnce(Own) -> Command) -> Option<Self> {
        let bare = clap::Command::new("pinfold").disable_help_flag(true);
        let matches = Own::augment_args(Reach::augment_args(bare)).try_get_matches_from(words).ok()?;
        let reach = Reach::from_arg_matches(&matches).ok()?;
        let own = Own::from_arg_matches(&matches).ok()?;
        let mut command = command(own);
        command.note_typed(&matches);
        Some(Self { reach, elsewhere: Elsewhere::HERE, command })
    }
}

/// Where the command's name is: after options that say how the daemon is reached. `None`: other options come first.
fn command_at(words: &[OsString]) -> Option<usize> {
    let mut at = 1;
    loop {
        match words.get(at)?.to_str()? {
            "--no-autostart" | "--utc" => at += 1,
            "--socket" => at += 2,
            word if word.starts_with("--socket=") => at += 1,
            word if word.starts_with('-') => return None,
            _ => return Some(at),
        }
    }
}

/// The name of the command in these words.
pub(crate) fn command_name(words: &[OsString]) -> Option<String> {
    command_at(words).and_then(|at| words[at].to_str()).map(str::to_owned)
}

/// The words with the options of `batch` ended where its arguments begin.
fn with_options_ended(mut words: Vec<OsString>) -> Vec<OsString> {
    if let Some(at) = command_at(&words).filter(|&at| words[at] == "batch") {
        batch::end_options(&mut words, at + 1);
    }
    words
}

impl Command {
    /// Notes which options of a job were typed, where that makes a difference.
    fn note_typed(&mut self, matches: &ArgMatches) {
        match self {
            Self::Run(args) => args.options.note_typed(matches),
            Self::Make(args) => args.run.options.note_typed(matches),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    /// A command line that is read quickly is read as by the whole tree.
    #[test]
    fn the_quick_way_reads_the_same() {
        for line in [
            "pinfold run true",
            "pinfold --no-autostart run -- true --no-autostart",
            "pinfold --socket /a/b run --priority 3 -- --socket",
            "pinfold --socket=/a/b --no-autostart submit --name x true",
            "pinfold run --socket /a/b --no-autostart sh -c true",
            "pinfold --no-autostart status --json",
            "pinfold --utc status 17 --all",
            "pinfold wait 17 18",
        ] {
            let quick = Cli::read_quickly(&words(line)).unwrap_or_else(|| panic!("{line}: not quick"));
            let whole = Cli::read_all(&words(line)).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(format!("{quick:?}"), format!("{whole:?}"), "{line}");
        }
    }

    /// Whatever they look like.
    #[test]
    fn what_is_behind_a_separator_is_an_argument() {
        let check = |line: &str, want: &str| {
            let cli = Cli::read_all(&with_options_ended(words(line)));
            let cli = cli.unwrap_or_else(|error| panic!("{line}: {error}"));
            let Command::Batch(args) = &cli.command else { panic!("{line}: {cli:?}") };
            assert_eq!(args.words, words(want), "{line}");
            assert_eq!((args.dry_run, args.json.is_some(), args.quiet), (false, false, true), "{line}");
        };
        for separator in [":::", "::::", ":::+", "::::+"] {
            let arguments = format!("{separator} --json=x.txt --dry-run b -n 2 -1 -- --help");
            check(&format!("pinfold batch -q cat {arguments}"), &format!("cat {arguments}"));
            check(&format!("pinfold --socket /a batch cat -q {arguments}"), &format!("cat {arguments}"));
            check(&format!("pinfold batch -q -a list {arguments}"), &arguments);
            check(&format!("pinfold batch -q -- cat -n {arguments}"), &format!("cat -n {arguments}"));
        }
        check("pinfold batch list -q", "list");
        check("pinfold batch -q --colsep ::: cat :::: list", "cat :::: list");
        check("pinfold batch -q -C ::: cat ::: --json=x", "cat ::: --json=x");
        let run = words("pinfold run echo ::: -a");
        assert_eq!(with_options_ended(run.clone()), run, "another command's own words");
    }

    /// What is wrong, or asks for help, or means another host, is left to the whole tree.
    #[test]
    fn what_is_odd_is_left_to_the_whole_tree() {
        for line in [
            "pinfold",
            "pinfold --socket",
            "pinfold --socket /a/b",
            "pinfold --help",
            "pinfold run --help",
            "pinfold run --priorty 3 true",
            "pinfold run",
            "pinfold --host a status",
            "pinfold status --host a",
            "pinfold --socket /a --socket /b run true",
            "pinfold statsu",
        ] {
            assert!(Cli::read_quickly(&words(line)).is_none(), "{line}");
        }
    }
}
