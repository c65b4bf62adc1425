//! Reads the command line of this process.
//!
//! Absent here: which commands and options there are.

use std::ffi::OsString;

use clap::{ArgMatches, Args, FromArgMatches as _};

use crate::args::{Cli, Command, Reach};
use crate::help;
use crate::hub::Elsewhere;

impl Cli {
    /// Reads the command line of this process.
    ///
    /// The whole tree of commands takes most of a millisecond to build, and every `pinfold run` and `submit` would wait
    /// for it. So those are read by their own options alone; whatever is odd about one, or asks for help, is read again
    /// with all.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let words: Vec<OsString> = std::env::args_os().collect();
        let alone = match words.get(1).and_then(|word| word.to_str()) {
            Some("run") => Self::read_alone(&words[1..], |run| Command::Run(Box::new(run))),
            Some("submit") => Self::read_alone(&words[1..], Command::Submit),
            _ => None,
        };
        alone.map_or_else(|| Self::read_all(&words), Ok)
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

    /// Reads the words of one command, its name before them.
    fn read_alone<Own: Args>(words: &[OsString], command: impl FnOnce(Own) -> Command) -> Option<Self> {
        let bare = clap::Command::new("pinfold").disable_help_flag(true);
        let matches = Own::augment_args(Reach::augment_args(bare)).try_get_matches_from(words).ok()?;
        let reach = Reach::from_arg_matches(&matches).ok()?;
        let own = Own::from_arg_matches(&matches).ok()?;
        let mut command = command(own);
        command.note_typed(&matches);
        Some(Self { reach, elsewhere: Elsewhere::HERE, command })
    }
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
