//! Completion of the command line: a shell's script asks this program, and it asks the daemon, which knows the jobs.
//!
//! Absent here: commands and options, which `clap_complete` has from the tree. No daemon is started for a completion,
//! and a slow daemon completes nothing.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use pinfold_client::{Client, Dial, Failure};
use pinfold_proto::ExitCode;
use pinfold_proto::config::KEYS;
use pinfold_proto::view::{JobView, ReportView};
use pinfold_proto::wire::{Reply, Request, Select};
use pinfold_sys::signals;

use crate::help;
use crate::print::print_text;
use crate::show::reports;

/// Where a shell's script says that it wants words completed, and which shell it is.
const ASKED: &str = "PINFOLD_COMPLETE";

/// How long a daemon may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The question for the host and its jobs.
const ALL: Request = Request::Status { jobs: Vec::new(), all: false, at_us: None };

/// How many jobs that are over are offered.
const OVER: u32 = 20;

/// `pinfold completions`: the script that a shell reads.
pub(crate) fn script(shell: clap_complete::Shell) -> Result<(), Failure> {
    let name = shell.to_string();
    let shells = Shells::builtins();
    let completer = shells.completer(&name).ok_or_else(|| {
        Failure::new(ExitCode::Usage, format!("there are no completions for the shell `{name}`"))
    })?;
    let mut text = Vec::new();
    completer
        .write_registration(ASKED, "pinfold", "pinfold", "pinfold", &mut text)
        .map_err(|error| Failure::doing("failed to write completions", &error))?;
    print_text(|out| out.write_all(&text))
}

/// Answers a shell's script, if a script started this process.
pub(crate) fn answered() -> Result<bool, clap::Error> {
    if std::env::var_os(ASKED).is_none() {
        return Ok(false);
    }
    CompleteEnv::with_factory(|| completing(help::tree()))
        .var(ASKED)
        .bin("pinfold")
        .completer("pinfold")
        .try_complete(std::env::args_os(), std::env::current_dir().ok().as_deref())
}

/// The tree, with completers for the options' values.
fn completing(command: Command) -> Command {
    let name = command.get_name().to_owned();
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let command = command.mut_args(|arg| match values_of(&name, &arg) {
        Some(values) => arg.add(ArgValueCompleter::new(values)),
        None => arg,
    });
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, completing))
}

type Values = fn(&OsStr) -> Vec<CompletionCandidate>;

fn values_of(command: &str, arg: &Arg) -> Option<Values> {
    let value = arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
    Some(match (command, arg.get_id().as_str(), value) {
        (_, "after", _) => jobs_in_list,
        (_, _, "JOB") => jobs,
        ("set-aside", "name", _) | (_, _, "SET") => sets,
        (_, _, "KEY=VALUE") => keys_and_values,
        ("get", "key", _) => keys,
        (_, _, "SIGNAL") => signal_names,
        (_, "project", _) => projects,
        _ => return None,
    })
}

/// The daemon that the previous words name, or the usual daemon.
fn client() -> Option<Client> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let at = words.iter().rposition(|word| word == "--socket");
    let socket = at.and_then(|at| words.get(at + 1)).map(PathBuf::from);
    Dial::new(socket.as_deref(), true).connect_within(ANSWER_WITHIN)
}

fn living(client: &mut Client) -> Vec<JobView> {
    match client.ask(&ALL) {
        Ok(Reply::Status(view)) => view.jobs,
        _ => Vec::new(),
    }
}

/// The words that may complete the typed prefix, each with its description.
fn beginning(current: &OsStr, words: impl IntoIterator<Item = (String, String)>) -> Vec<CompletionCandidate> {
    let typed = current.to_string_lossy();
    let offered = words.into_iter().filter(|(word, _)| word.starts_with(&*typed) && is_plain(word));
    offered.map(|(word, help)| CompletionCandidate::new(word).help(Some(help.into()))).collect()
}

/// Whether a shell takes a word as it stands: people choose names, and a completed name must not be a command of its
/// own.
fn is_plain(word: &str) -> bool {
    word.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '=' | ':' | ',' | '/'))
}

fn jobs(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(mut client) = client() else { return Vec::new() };
    let living = living(&mut client);
    let over = reports(&mut client, Select::Last(OVER)).unwrap_or_default();
    beginning(current, job_words(&living, &over))
}

/// Numbers, of arrays as well, and names that mean a single job.
fn job_words(living: &[JobView], over: &[ReportView]) -> Vec<(String, String)> {
    let state = |job: &JobView| format!("{} {:?}", job.name, job.state).to_lowercase();
    let mut all: Vec<(u64, Option<u64>, &str, String)> =
        living.iter().rev().map(|job| (job.job, job.array_id, job.name.as_str(), state(job))).collect();
    for report in over.iter().rev().filter(|report| living.iter().all(|job| job.job != report.job)) {
        all.push((report.job, report.array_id, &report.name, format!("{} over", report.name)));
    }
    let once = |name: &str| all.iter().filter(|(_, _, other, _)| *other == name).count() == 1;
    let names = all.iter().filter(|(_, _, name, _)| once(name)).map(|(job, _, name, _)| {
        // A name that begins like a number is not read as a name.
        ((*name).to_owned(), format!("job {job}"))
    });
    let names = names.filter(|(name, _)| name.starts_with(|c: char| !c.is_ascii_digit() && c != '-'));
    let mut arrays: Vec<u64> = all.iter().filter_map(|(_, array, ..)| *array).collect();
    arrays.dedup();
    let arrays = arrays.into_iter().map(|array| (array.to_string(), "array".to_owned()));
    let numbers = all.iter().map(|(job, _, _, what)| (job.to_string(), what.clone()));
    let mut words: Vec<(String, String)> = Vec::new();
    for (word, what) in arrays.chain(numbers).chain(names) {
        if words.iter().all(|(known, _)| *known != word) {
            words.push((word, what));
        }
    }
    words
}

/// The last of a list, behind `ok:`, `failed:` or `any:`.
fn jobs_in_list(current: &OsStr) -> Vec<CompletionCandidate> {
    let typed = current.to_string_lossy();
    let (before, last) = typed.split_at(typed.rfind([',', ':']).map_or(0, |at| at + 1));
    let found = jobs(OsStr::new(last));
    let kinds =
        ["ok:", "failed:", "any:"].into_iter().filter(|kind| before.is_empty() && kind.starts_with(last));
    let kinds = kinds.map(CompletionCandidate::new);
    kinds.chain(found.into_iter().map(|job| job.add_prefix(before))).collect()
}

fn sets(current: &OsStr) -> Vec<CompletionCandidate> {
    let asked = client().map(|mut client| client.ask(&Request::Sets));
    let Some(Ok(Reply::Sets(view))) = asked else { return Vec::new() };
    beginning(current, view.sets.into_iter().map(|set| (set.set, format!("PUs {}", set.cpus))))
}

fn projects(current: &OsStr) -> Vec<CompletionCandidate> {
    let asked = client().map(|mut client| client.ask(&ALL));
    let Some(Ok(Reply::Status(view))) = asked else { return Vec::new() };
    let names = view.projects.into_iter().filter_map(|project| project.project);
    beginning(current, names.map(|name| (name, String::new())))
}

fn keys(current: &OsStr) -> Vec<CompletionCandidate> {
    beginning(current, KEYS.iter().map(|key| (key.name.to_owned(), key.meaning.to_owned())))
}

/// A key with its `=`; behind that, the default.
fn keys_and_values(current: &OsStr) -> Vec<CompletionCandidate> {
    let typed = current.to_string_lossy();
    let words = KEYS.iter().map(|key| match typed.contains('=') {
        true => (format!("{}={}", key.name, key.default.trim_matches('"')), "the default".to_owned()),
        false => (format!("{}=", key.name), key.meaning.to_owned()),
    });
    beginning(current, words)
}

fn signal_names(current: &OsStr) -> Vec<CompletionCandidate> {
    beginning(current, (1..32).filter_map(signals::name).map(|name| (name.to_owned(), String::new())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(values: Values, typed: &str) -> Vec<String> {
        let candidates = values(OsStr::new(typed));
        candidates.iter().map(|candidate| candidate.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn what_can_be_completed_is_found_in_the_tree() {
        let tree = completing(help::tree());
        let args = |command: &Command| {
            command.get_arguments().filter(|arg| arg.get::<ArgValueCompleter>().is_some()).count()
        };
        for (name, wanted) in [("cancel", 1), ("run", 3), ("set-aside", 1), ("why", 1), ("log", 1)] {
            let command = tree.find_subcommand(name).expect("it is a command");
            assert!(args(command) >= wanted, "{name}: {}", args(command));
        }
        tree.debug_assert();
    }

    #[test]
    fn keys_signals_and_beginnings() {
        assert_eq!(offered(keys, "slots.f"), ["slots.factor"]);
        assert_eq!(offered(keys_and_values, "slots.f"), ["slots.factor="]);
        let [value] = &offered(keys_and_values, "slots.factor=")[..] else { panic!("one default") };
        assert!(value.len() > "slots.factor=".len(), "{value}");
        assert!(offered(signal_names, "US").iter().all(|name| name.starts_with("USR")));
    }

    #[test]
    fn a_name_that_a_shell_would_execute_is_not_offered() {
        let words = |word: &str| beginning(OsStr::new(""), [(word.to_owned(), String::new())]).len();
        for bad in ["a;reboot", "$(x)", "a b", "`x`", "a\nb", "'", "*"] {
            assert_eq!(words(bad), 0, "{bad}");
        }
        assert_eq!(words("align-2.1_x"), 1);
    }
}
