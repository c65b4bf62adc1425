//! `pinfold retry` and `pinfold again`: jobs are submitted once more, as they were submitted the first time: with the
//! command, options, directory, environment, umask and limits that the daemon keeps. Of jobs of `run` and `batch` it has the
//! command, the directory and the main options; they get the environment of the caller.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::process::{Command, ExitCode as ProcessExit};

use clap::Args;
use clap::builder::Resettable;
use clap::parser::ValueSource;
use pinfold_client::{Client, Dial, Failure};
use pinfold_proto::array::{called, show_indexes};
use pinfold_proto::start::{Start, StartOf};
use pinfold_proto::view::ReportView;
use pinfold_proto::wire::{Request, Select};
use pinfold_proto::{ExitCode, JobClass};
use pinfold_sys::spawn::{self, Environment};

use crate::help;
use crate::job::{COMMAND_KEPT_BYTES, JobOptions};
use crate::names::{self, JobRef};
use crate::print::say;
use crate::show::{Filter, LOOKED_AT, reports};
use crate::successor;

#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    /// Failed jobs; of an array, a range or several jobs only the failed jobs. A job of `run` or of a batch that waited gets
    /// the environment and limits of this command
    #[arg(value_name = "JOB", required_unless_present = "failed")]
    pub jobs: Vec<JobRef>,
    /// All your jobs that failed, among the last 1000, and were not submitted again since then
    #[arg(long, conflicts_with = "jobs")]
    pub failed: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AgainArgs {
    /// The job, or an array; a job of `run` or of a batch that waited gets the environment and limits of this command
    #[arg(value_name = "JOB")]
    pub job: JobRef,
    /// Options of `pinfold submit`, in place of the same options of the job
    #[arg(value_name = "SUBMIT OPTION", trailing_var_arg = true, allow_hyphen_values = true)]
    pub options: Vec<OsString>,
}

/// `pinfold retry`.
pub(crate) fn retry(dial: &Dial, args: &RetryArgs) -> Result<ProcessExit, Failure> {
    let mut client = dial.connect()?;
    let found = match args.failed {
        true => latest(reports(&mut client, Select::Last(LOOKED_AT))?),
        false => named(&mut client, &args.jobs)?,
    };
    let failed = Filter { failed: true, ..Filter::default() }.apply(found)?;
    if failed.is_empty() {
        let text = "none of these jobs is over and failed; `pinfold again JOB` submits any job once more";
        return Err(Failure::new(ExitCode::Failed, text));
    }
    submit(dial, client, failed, &[])
}

/// `pinfold again`.
pub(crate) fn again(dial: &Dial, args: &AgainArgs) -> Result<ProcessExit, Failure> {
    let mut client = dial.connect()?;
    let reports = named(&mut client, std::slice::from_ref(&args.job))?;
    submit(dial, client, reports, &args.options)
}

fn named(client: &mut Client, jobs: &[JobRef]) -> Result<Vec<ReportView>, Failure> {
    let select = names::jobs(client, jobs).map(Select::Jobs)?;
    reports(client, select)
}

/// Of jobs with the same command in the same directory, the last: it may be a retry of earlier jobs.
fn latest(reports: Vec<ReportView>) -> Vec<ReportView> {
    let key = |report: &ReportView| (report.command.clone(), report.directory.clone(), report.array_index);
    let last: BTreeMap<_, _> = reports.into_iter().map(|report| (key(&report), report)).collect();
    let by_number: BTreeMap<u64, ReportView> =
        last.into_values().map(|report| (report.job, report)).collect();
    by_number.into_values().collect()
}

/// Submits jobs once more, members of an array with the same command as an array; prints their numbers. Ends with the
/// first status that is not 0.
fn submit(
    dial: &Dial,
    mut client: Client,
    reports: Vec<ReportView>,
    options: &[OsString],
) -> Result<ProcessExit, Failure> {
    let mut groups: Vec<(ReportView, Vec<u32>)> = Vec::new();
    for report in reports {
        let is_alike = |(first, _): &&mut (ReportView, Vec<u32>)| {
            report.array_id.is_some()
                && (first.array_id, &first.command) == (report.array_id, &report.command)
        };
        let index = report.array_index;
        match groups.iter_mut().find(is_alike) {
            Some((_, indexes)) => indexes.extend(index),
            None => groups.push((report, index.into_iter().collect())),
        }
    }
    if let [(report, indexes)] = &groups[..] {
        return Err(become_submit(dial, &mut client, report, indexes, options)?);
    }
    drop(client);
    let mut worst = ProcessExit::SUCCESS;
    // Each by a process of its own, which becomes `pinfold submit`.
    for (report, indexes) in groups {
        let job = match report.array_id {
            Some(array) => format!("{array}_[{}]", show_indexes(&indexes)),
            None => report.job.to_string(),
        };
        let failed = |error| Failure::doing("pinfold again", &error);
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.arg("--socket").arg(dial.socket()).args(["again", &job]).args(options);
        let code = command.status().map_err(failed)?.code().and_then(|code| u8::try_from(code).ok());
        worst = code.filter(|&code| code != 0).map_or(worst, ProcessExit::from);
    }
    Ok(worst)
}

/// Becomes the `pinfold submit` of a job, or of these members of an array; comes back only with why that cannot be.
fn become_submit(
    dial: &Dial,
    client: &mut Client,
    report: &ReportView,
    indexes: &[u32],
    options: &[OsString],
) -> Result<Failure, Failure> {
    let kept = answer!(client.ask(&Request::StartOf { job: report.job })?, Starts)?.pop();
    let (before, command) = of_job(report, indexes, kept.as_ref().map(|kept| &kept.start))?;
    let socket = std::path::absolute(dial.socket()).unwrap_or_else(|_| dial.socket().to_owned());
    let mut words = ["pinfold", "submit", "--socket"].map(OsString::from).to_vec();
    words.push(socket.into());
    words.extend(with_options(before, options)?);
    words.push("--".into());
    words.extend(command);
    let program = match kept {
        Some(StartOf { uid, start, .. }) => successor::take_on(&start, uid, words, [])?,
        None => {
            say(
                "`pinfold submit` did not start that job: it gets the environment and limits of this command",
            );
            let failed = |error| Failure::doing(&report.directory, &error);
            std::env::set_current_dir(&report.directory).map_err(failed)?;
            successor::own_program(words, &Environment::inherited(&[]))?
        }
    };
    Ok(Failure::new(ExitCode::NotExecutable, spawn::become_now(&program)))
}

/// Options by the names of their fields, as words of a command line.
type Options = Vec<(String, String)>;

/// The options and the command of a job, or of these members of an array: as it was submitted, else as its report has them.
/// The line of a list has the list's options of jobs.
fn of_job(
    report: &ReportView,
    indexes: &[u32],
    start: Option<&Start>,
) -> Result<(Options, Vec<OsString>), Failure> {
    let Some(start) = start else { return Ok((of_report(report, indexes), whole_command(report)?)) };
    let Line { mut options, mut command, .. } = Line::read(start.words.iter().map(OsString::from))
        .map_err(|error| Failure::doing("the command line of the job", &error))?;
    let of_array = options.iter().find(|(id, _)| id == "array");
    let at_most = of_array.and_then(|(_, word)| word.get(word.find('%')?..)).unwrap_or_default().to_owned();
    if command.is_empty() {
        let of_jobs = JobOptions::augment_args(clap::Command::new(""));
        options.retain(|(id, _)| of_jobs.get_arguments().any(|arg| arg.get_id() == id));
        command = whole_command(report)?;
    }
    options.retain(|(id, _)| !["array", "json", "stay", "socket", "no_autostart"].contains(&id.as_str()));
    if !indexes.is_empty() {
        options.push(("array".to_owned(), format!("--array={}{at_most}", show_indexes(indexes))));
    }
    Ok((options, command))
}

/// A command line of `submit` or `batch`.
struct Line {
    options: Options,
    /// The command; of a batch none.
    command: Vec<OsString>,
    tree: clap::Command,
}

impl Line {
    /// Reads it without the options that stand in the environment.
    fn read(words: impl Iterator<Item = OsString>) -> Result<Self, clap::Error> {
        let bare = |command: clap::Command| command.mut_args(|arg| arg.env(Resettable::Reset));
        let mut tree = help::tree().mut_subcommands(bare);
        let matches = tree.try_get_matches_from_mut(words)?;
        let (name, matches) = matches.subcommand().expect("no line is read without a command");
        let tree = tree.find_subcommand(name).expect("the command was read").clone();
        let is_typed = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let mut options = Vec::new();
        for arg in tree.get_arguments().filter(|arg| is_typed(arg.get_id().as_str())) {
            let (id, Some(long)) = (arg.get_id().as_str(), arg.get_long()) else { continue };
            let each = matches.get_raw_occurrences(id).into_iter().flatten();
            options.extend(each.map(|mut values| match values.next() {
                Some(value) if arg.get_action().takes_values() => {
                    (id.to_owned(), format!("--{long}={}", value.to_string_lossy()))
                }
                _ => (id.to_owned(), format!("--{long}")),
            }));
        }
        let command = (name == "submit").then(|| matches.get_raw("command")).flatten();
        let command = command.into_iter().flatten().map(OsStr::to_owned).collect();
        Ok(Self { options, command, tree })
    }

    /// Whether this line has an option, or an option that excludes it.
    fn replaces(&self, id: &str) -> bool {
        let arg = |id: &str| self.tree.get_arguments().find(|arg| arg.get_id() == id);
        let excludes = |one: &str, other: &str| {
            arg(one).is_some_and(|arg| {
                self.tree.get_arg_conflicts_with(arg).iter().any(|arg| arg.get_id() == other)
            })
        };
        self.options.iter().any(|(own, _)| own == id || excludes(own, id) || excludes(id, own))
    }
}

/// These options with the caller's options, which replace options of the same name and options that they exclude.
fn with_options(before: Options, options: &[OsString]) -> Result<Vec<OsString>, Failure> {
    let words = ["pinfold", "submit"].map(OsString::from).into_iter().chain(options.iter().cloned());
    let given =
        Line::read(words.chain(["--", "command"].map(OsString::from))).unwrap_or_else(|error| error.exit());
    if given.command.len() > 1 {
        let text =
            "`pinfold again` takes options behind the job, and no command; `pinfold submit` takes both";
        return Err(Failure::new(ExitCode::Usage, text));
    }
    let before = before.into_iter().filter(|(id, _)| !given.replaces(id)).map(|(_, word)| word.into());
    Ok(before.chain(options.iter().cloned()).collect())
}

/// The command as the report has it; refused if the report has only a part.
fn whole_command(report: &ReportView) -> Result<Vec<OsString>, Failure> {
    let bytes: usize = report.command.iter().map(|word| word.len().max(8)).sum();
    let is_cut = bytes >= COMMAND_KEPT_BYTES && report.command.iter().any(|word| word.ends_with("..."));
    let is_text = report.command.iter().all(|word| !word.contains(char::REPLACEMENT_CHARACTER));
    if !is_cut && is_text && !report.directory.is_empty() {
        return Ok(report.command.iter().map(OsString::from).collect());
    }
    let name = called(report.job, report.array_id, report.array_index);
    let text = format!(
        "the command of job {name} was too long, or no text, and is not known whole; submit it again by `pinfold submit`"
    );
    Err(Failure::new(ExitCode::Failed, text))
}

/// The options of a job of `run` or `batch`, as far as its report has them.
fn of_report(report: &ReportView, indexes: &[u32]) -> Options {
    let bytes = |bytes: u64| format!("{bytes}B");
    let duration = |seconds: f64| format!("{}ms", (seconds * 1000.0).ceil());
    let resource = |one: &pinfold_proto::Resource| format!("{}={}", one.name, one.count);
    let resources = report.resources.iter().map(resource).collect::<Vec<String>>().join(",");
    let valued = [
        ("name", Some(report.name.clone())),
        ("project", report.project.clone()),
        ("priority", Some(report.priority.to_string())),
        ("cores", Some(report.cores.to_string()).filter(|cores| cores != "1")),
        ("mem", report.claim_bytes.map(bytes)),
        ("mem_limit", report.limit_bytes.map(bytes)),
        ("timeout", report.timeout_s.map(duration)),
        ("cpu_limit", report.cpu_limit_s.map(duration)),
        ("resource", Some(resources).filter(|text| !text.is_empty())),
        ("comment", report.comment.clone()),
        ("array", Some(show_indexes(indexes)).filter(|text| !text.is_empty())),
    ];
    let word = |(id, value): (&str, Option<String>)| {
        Some((id.to_owned(), format!("--{}={}", id.replace('_', "-"), value?)))
    };
    // A job that asked for another class may have become best-effort meanwhile.
    let exclusive =
        (report.class == JobClass::Exclusive).then(|| ("exclusive".to_owned(), "--exclusive".to_owned()));
    valued.into_iter().filter_map(word).chain(exclusive).collect()
}

#[cfg(test)]
mod tests {
    use pinfold_proto::JobSpec;
    use pinfold_proto::row::JobRow;

    use super::*;

    fn report(job: u64, command: &str, exit_code: i32) -> ReportView {
        let row = JobRow::asked_for(job, 0, String::new(), JobSpec { cores: 1, ..JobSpec::default() }, 0);
        let mut report = pinfold_profile::report::report_view(&row, None, 0);
        (report.job, report.command, report.exit_code) = (job, vec![command.to_owned()], Some(exit_code));
        report
    }

    #[test]
    fn only_the_last_job_of_a_command_counts() {
        let jobs = vec![report(1, "a", 1), report(2, "b", 1), report(3, "a", 0), report(4, "c", 2)];
        let last: Vec<u64> = latest(jobs).iter().map(|report| report.job).collect();
        assert_eq!(last, [2, 3, 4]);
    }

    /// The options and the command by which a job is submitted again, with these options.
    fn again(submitted: &str, indexes: &[u32], options: &str) -> Result<String, Failure> {
        let texts = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let start = Start { words: texts(submitted), ..Start::default() };
        let job = ReportView { directory: "/".to_owned(), ..report(1, "line", 1) };
        let (before, command) = of_job(&job, indexes, Some(&start))?;
        let options: Vec<OsString> = texts(options).into_iter().map(OsString::from).collect();
        let words = with_options(before, &options)?;
        Ok(words.into_iter().chain(command).collect::<Vec<_>>().join(" ".as_ref()).into_string().unwrap())
    }

    #[test]
    fn a_job_is_submitted_again_with_its_options() {
        let submitted = "pinfold --socket x --utc submit -n 2 -m cyclic --primary --after ok:3 --json --mem=1G -- sh -c --mem";
        let all = "--after=ok:3 --distribution=cyclic --mem=1G --ntasks=2 --primary --utc";
        let sorted = |text: String| {
            let (options, command) = text.split_once(" sh ").expect("a command");
            let mut words: Vec<&str> = options.split(' ').collect();
            words.sort_unstable();
            (words.join(" "), command.to_owned())
        };
        assert_eq!(sorted(again(submitted, &[], "").unwrap()), (all.to_owned(), "-c --mem".to_owned()));
        // An option replaces the same option, and options that it excludes.
        let (options, _) = sorted(again(submitted, &[], "--mem 2G --backfill").unwrap());
        assert_eq!(options, "--after=ok:3 --backfill --distribution=cyclic --mem --ntasks=2 --utc 2G");
        let array = again("pinfold submit --array 0-9%2 x", &[3, 4], "").unwrap();
        assert_eq!(array, "--array=3-4%2 x");
        // A line of a list has the options for jobs, and its own command.
        let list = "pinfold batch --detach --output dir -j 2 --timeout 1h list";
        assert_eq!(again(list, &[7], "").unwrap(), "--timeout=1h --array=7 line");
        assert!(again(submitted, &[], "--mem 2G -- other").unwrap_err().message.contains("no command"));
    }

    #[test]
    fn a_job_without_a_start_has_the_options_of_its_report() {
        let mut job = report(1, "a", 1);
        (job.name, job.priority, job.claim_bytes, job.timeout_s) =
            ("n".to_owned(), 9, Some(1 << 20), Some(1.5));
        let words = |options: &[&str]| {
            let options: Vec<OsString> = options.iter().map(OsString::from).collect();
            let words = with_options(of_report(&job, &[3, 4]), &options).unwrap();
            words.join(" ".as_ref()).into_string().unwrap()
        };
        let all = "--name=n --priority=9 --mem=1048576B --timeout=1500ms --array=3-4";
        assert_eq!(words(&[]), all);
        let replaced = "--name=n --priority=9 --array=3-4 --mem 4G --timeout=2s";
        assert_eq!(words(&["--mem", "4G", "--timeout=2s"]), replaced);
    }

    #[test]
    fn a_command_that_is_not_whole_is_refused() {
        let mut job = report(1, "a", 1);
        job.directory = "/".to_owned();
        assert!(whole_command(&job).is_ok());
        assert!(whole_command(&ReportView { command: vec!["\u{fffd}".to_owned()], ..job.clone() }).is_err());
        let long = "x".repeat(COMMAND_KEPT_BYTES) + "...";
        assert!(whole_command(&ReportView { command: vec![long], ..job }).is_err());
    }
}
