//! The options of `pinfold batch`, with the names that GNU parallel has for them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use pinfold_proto::quantity::{parse_duration, whole};

use super::at_once::AtOnce;
use super::inputs::Columns;
use crate::job::JobOptions;

#[derive(Debug, Clone, Default, Args)]
// These letters mean other things in GNU parallel.
#[command(mut_args(|arg| match arg.get_id().as_str() {
    "ntasks" | "nodes" | "extra_node_info" | "distribution" => arg.short(None),
    _ => arg,
}))]
pub(crate) struct BatchArgs {
    /// Most lines that run at once: N, or the number of processors for jobs plus N (+N), minus N (-N) or times N% [default: 0,
    /// the number of slots of the host]
    #[arg(
        short,
        long,
        short_alias = 'P',
        alias = "max-procs",
        value_name = "N|+N|-N|N%",
        allow_hyphen_values = true
    )]
    pub jobs: Option<AtOnce>,
    /// Shortest time between the starts of two lines
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub delay: Option<Duration>,
    /// Print the results as a JSON object on standard output or into FILE; the output of the lines goes to --output, else
    /// to standard error
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub json: Option<Option<PathBuf>>,
    /// Write the output of each line into the files DIR/LINE.out and DIR/LINE.err
    #[arg(long, value_name = "DIR", conflicts_with_all = ["tag", "ungroup"])]
    pub output: Option<PathBuf>,
    /// Write the outputs to DIR/1/ARGUMENT/stdout and DIR/1/ARGUMENT/stderr, with 2 and so on for more arguments below
    #[arg(long, alias = "res", value_name = "DIR", conflicts_with_all = ["tag", "ungroup", "output"])]
    pub results: Option<PathBuf>,
    /// Put the argument (or the command) and a tab before each line of output
    #[arg(long, conflicts_with = "ungroup")]
    pub tag: bool,
    /// Let the lines write as they run; without this option the output of a line is printed as a whole at its end
    #[arg(short, long)]
    pub ungroup: bool,
    /// Print the outputs in the order of the lines
    #[arg(short, long, conflicts_with_all = ["ungroup", "output"])]
    pub keep_order: bool,
    /// Write a line into FILE for each that ends, in GNU parallel's columns; +FILE keeps what is there
    #[arg(long, alias = "jl", value_name = "FILE")]
    pub joblog: Option<PathBuf>,
    /// Skip the lines that have run according to the job log
    #[arg(long, requires = "joblog")]
    pub resume: bool,
    /// Skip the lines that succeeded according to the job log
    #[arg(long, requires = "joblog")]
    pub resume_failed: bool,
    /// Most runs of a line that fails
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true,
          value_parser = whole::<u32>(1..=u32::MAX))]
    pub retries: u32,
    /// Stop after N failed lines: soon starts no more lines, now also ends the lines that run
    #[arg(long, alias = "halt-on-error", value_name = "now|soon,fail=N")]
    pub halt: Option<Halt>,
    /// Tell a command or URL when the list has ended: the JSON of `batch --json` (with --detach of `report --json`) on the command's standard input, or by POST
    #[arg(long, value_name = "COMMAND|URL")]
    pub notify: Option<String>,
    /// Return at once and print one number, that of an array whose members are the lines, with their numbers as
    /// indexes; output goes to the files of `submit`, or to --output
    #[arg(long)]
    pub detach: bool,
    /// Print the commands and run none
    #[arg(long, alias = "dryrun")]
    pub dry_run: bool,
    /// Show no progress, and no table if all lines end well
    #[arg(short, long, alias = "silent")]
    pub quiet: bool,
    /// Read the whole list first, and show the progress and the time that is left, also where that is no terminal
    #[arg(long, aliases = ["bar", "progress"], conflicts_with = "quiet")]
    pub eta: bool,
    /// Put the arguments in a random order
    #[arg(long, conflicts_with = "in_order")]
    pub shuf: bool,
    /// Begin the lines in the order of the file; otherwise, when jobs of each one's class were run before, the
    /// longest first
    #[arg(long)]
    pub in_order: bool,
    /// Take the arguments of COMMAND from this file, one a line; may be given again for {2} and so on; - for standard input
    #[arg(short, long, value_name = "FILE")]
    pub arg_file: Vec<PathBuf>,
    /// What separates the columns of an argument, a regular expression: {1} is the first column, without the blanks
    /// around it
    #[arg(short = 'C', long, value_name = "REGEXP")]
    pub colsep: Option<Columns>,
    /// The first line of a list has names: {NAME} is the argument of that list or column
    #[arg(long, value_name = ":", value_parser = [":"])]
    pub header: Option<String>,
    /// Put N arguments of the list into each command, {1} to {N}; with 0 run it once for each, without it
    #[arg(
        short = 'n',
        short_alias = 'N',
        long,
        alias = "max-replace-args",
        value_name = "N",
        conflicts_with = "colsep"
    )]
    pub max_args: Option<usize>,
    /// Put as many arguments of the list into each command as it can have, in as many commands as run at once
    #[arg(short = 'm', long, conflicts_with_all = ["colsep", "max_args"])]
    pub many: bool,
    /// As -m, and repeat the word around {} for each argument, as -n does
    #[arg(short = 'X', long, conflicts_with_all = ["colsep", "max_args", "many"])]
    pub context: bool,
    /// Leave out arguments that are blank
    #[arg(short = 'r', long)]
    pub no_run_if_empty: bool,
    /// Lines of lists end with NUL
    #[arg(short = '0', long)]
    pub null: bool,
    /// The shell that runs the lines [default: the shell that called, else $SHELL, else /bin/sh] [env: PINFOLD_SHELL=]
    #[arg(long, value_name = "PATH")]
    pub shell: Option<PathBuf>,
    #[command(flatten)]
    pub options: JobOptions,
    /// A list of shell commands: a file with a command a line, or - for standard input. Blank lines and lines that begin with #
    /// are skipped; lines of a pipe start as they come. Or, with :::, -a or a pipe, one COMMAND that runs once for each
    /// argument. In COMMAND {} is the argument, {.} the argument without its ending, {/} without its directory, {//} its
    /// directory and {#} its number; with several ::: {1} is the argument of the first list. Arguments of several ::: are
    /// combined in every way; arguments behind :::+ belong one by one to the list before. :::: takes arguments from files.
    /// Without COMMAND the arguments are the commands
    #[arg(value_name = "FILE|-|COMMAND [::: ARG]")]
    pub words: Vec<OsString>,
}

impl BatchArgs {
    /// Whether the whole list is read before a line runs.
    pub(crate) fn needs_all(&self) -> bool {
        let first = self.detach || self.dry_run || self.resume || self.resume_failed;
        first || self.eta || self.shuf || self.takes_many()
    }

    /// The job log, and whether lines are added to it. As with GNU parallel they are to `+FILE`.
    pub(crate) fn log(&self) -> Option<(&Path, bool)> {
        let named = self.joblog.as_deref()?;
        let added = named.to_str().and_then(|name| name.strip_prefix('+')).map(Path::new);
        Some((added.unwrap_or(named), added.is_some() || self.resume || self.resume_failed))
    }

    /// The byte that ends lines of lists.
    pub(crate) fn ending(&self) -> u8 {
        if self.null { 0 } else { b'\n' }
    }

    /// Whether commands have as many arguments as they can.
    pub(crate) fn takes_many(&self) -> bool {
        self.many || self.context
    }

    /// Whether an option controls how arguments make commands.
    pub(crate) fn is_of_arguments(&self) -> bool {
        let given =
            [self.colsep.is_some(), self.header.is_some(), self.max_args.is_some(), self.results.is_some()];
        self.takes_many() || self.shuf || given.contains(&true)
    }
}

/// When a batch gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Halt {
    /// Whether running lines are ended.
    pub now: bool,
    /// After how many failures.
    pub failures: u32,
}

impl std::str::FromStr for Halt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self { now: false, failures: u32::MAX });
        }
        let wanted = || format!("`{text}` is not now,fail=N, soon,fail=N or never");
        let (when, after) = text.split_once(',').ok_or_else(wanted)?;
        let now = match when {
            "now" => true,
            "soon" => false,
            _ => return Err(wanted()),
        };
        let count = after.strip_prefix("fail=").and_then(|count| count.parse().ok());
        let failures = count.filter(|&count| count > 0).ok_or_else(wanted)?;
        Ok(Self { now, failures })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halts() {
        let check = |text: &str, want: Option<(bool, u32)>| {
            let got = text.parse::<Halt>().ok().map(|halt| (halt.now, halt.failures));
            assert_eq!(got, want, "{text}");
        };
        check("now,fail=1", Some((true, 1)));
        check("soon,fail=3", Some((false, 3)));
        check("never", Some((false, u32::MAX)));
        for bad in ["", "now", "now,fail", "now,fail=0", "later,fail=1", "now,fail=-1", "now,fail=10%"] {
            check(bad, None);
        }
    }
}
