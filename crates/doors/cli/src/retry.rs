//! `pinfold retry` and `pinfold again`: jobs that are over are submitted once more, by `pinfold submit`, with the command,
//! directory and options that the daemon has of them. The environment is the caller's.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::{Command, ExitCode as ProcessExit};

use clap::Args;
use pinfold_client::{Client, Dial, Failure};
use pinfold_proto::array::{called, show_indexes};
use pinfold_proto::view::ReportView;
use pinfold_proto::wire::Select;
use pinfold_proto::{ExitCode, JobClass};

use crate::job::COMMAND_KEPT_BYTES;
use crate::names::{self, JobRef};
use crate::show::{Filter, LOOKED_AT, reports};

#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    /// Failed jobs; of an array, a range or several jobs only those that failed
    #[arg(value_name = "JOB", required_unless_present = "failed")]
    pub jobs: Vec<JobRef>,
    /// All your jobs that failed, among the last 1000, and were not submitted again since then
    #[arg(long, conflicts_with = "jobs")]
    pub failed: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AgainArgs {
    /// The job, or an array
    #[arg(value_name = "JOB")]
    pub job: JobRef,
    /// Options of `pinfold submit`, in place of those of the job
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
    submit(dial, failed, &[])
}

/// `pinfold again`.
pub(crate) fn again(dial: &Dial, args: &AgainArgs) -> Result<ProcessExit, Failure> {
    let mut client = dial.connect()?;
    let reports = named(&mut client, std::slice::from_ref(&args.job))?;
    submit(dial, reports, &args.options)
}

fn named(client: &mut Client, jobs: &[JobRef]) -> Result<Vec<ReportView>, Failure> {
    let select = names::jobs(client, jobs).map(Select::Jobs)?;
    reports(client, select)
}

/// Of jobs with the same command in the same directory, the last: it may be a retry of those before.
fn latest(reports: Vec<ReportView>) -> Vec<ReportView> {
    let key = |report: &ReportView| (report.command.clone(), report.directory.clone(), report.array_index);
    let last: BTreeMap<_, _> = reports.into_iter().map(|report| (key(&report), report)).collect();
    let by_number: BTreeMap<u64, ReportView> =
        last.into_values().map(|report| (report.job, report)).collect();
    by_number.into_values().collect()
}

/// Submits jobs once more, members of one array with one command as an array; prints their numbers. Ends with the first
/// status that is not 0.
fn submit(dial: &Dial, reports: Vec<ReportView>, options: &[OsString]) -> Result<ProcessExit, Failure> {
    let mut groups: Vec<(ReportView, Vec<u32>)> = Vec::new();
    for report in reports {
        let is_alike = |(first, _): &&mut (ReportView, Vec<u32>)| {
            report.array_id.is_some()
                && (first.array_id, &first.command) == (report.array_id, &report.command)
        };
        match groups.iter_mut().find(is_alike) {
            Some((_, indexes)) => indexes.extend(report.array_index),
            None => {
                let indexes = report.array_index.into_iter().collect();
                groups.push((report, indexes));
            }
        }
    }
    let mut worst = ProcessExit::SUCCESS;
    for (report, indexes) in groups {
        check(&report)?;
        let failed = |error| Failure::doing("pinfold submit", &error);
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.arg("--socket").arg(dial.socket()).arg("submit").args(words(&report, &indexes, options));
        command.arg("--").args(&report.command).current_dir(&report.directory);
        let status = command.status().map_err(|error| Failure::doing(&report.directory, &error))?;
        if let Some(code) = status.code().and_then(|code| u8::try_from(code).ok()).filter(|&code| code != 0) {
            worst = ProcessExit::from(code);
        }
    }
    Ok(worst)
}

/// Refuses a job whose command the daemon does not have whole.
fn check(report: &ReportView) -> Result<(), Failure> {
    let bytes: usize = report.command.iter().map(|word| word.len().max(8)).sum();
    let is_cut = bytes >= COMMAND_KEPT_BYTES && report.command.iter().any(|word| word.ends_with("..."));
    let is_text = report.command.iter().all(|word| !word.contains(char::REPLACEMENT_CHARACTER));
    if !is_cut && is_text && !report.directory.is_empty() {
        return Ok(());
    }
    let name = called(report.job, report.array_id, report.array_index);
    let text = format!(
        "the command of job {name} was too long, or no text, and is not known whole; submit it again by `pinfold submit`"
    );
    Err(Failure::new(ExitCode::Failed, text))
}

/// The options of a job as those of `pinfold submit`; the caller's, which stand behind, replace those of one name.
fn words(report: &ReportView, indexes: &[u32], options: &[OsString]) -> Vec<OsString> {
    let is_given = |option: &str| {
        let text = |word: &OsString| word.to_string_lossy().into_owned();
        options.iter().map(text).any(|word| word.split('=').next() == Some(option))
    };
    let bytes = |bytes: u64| format!("{bytes}B");
    let duration = |seconds: f64| format!("{}ms", (seconds * 1000.0).ceil());
    let resource = |one: &pinfold_proto::Resource| format!("{}={}", one.name, one.count);
    let resources = report.resources.iter().map(resource).collect::<Vec<String>>().join(",");
    let valued = [
        ("--name", Some(report.name.clone())),
        ("--project", report.project.clone()),
        ("--priority", Some(report.priority.to_string())),
        ("--cores", Some(report.cores.to_string()).filter(|cores| cores != "1")),
        ("--mem", report.claim_bytes.map(bytes)),
        ("--mem-limit", report.limit_bytes.map(bytes)),
        ("--timeout", report.timeout_s.map(duration)),
        ("--cpu-limit", report.cpu_limit_s.map(duration)),
        ("--resource", Some(resources).filter(|text| !text.is_empty())),
        ("--comment", report.comment.clone()),
        ("--array", Some(show_indexes(indexes)).filter(|text| !text.is_empty())),
    ];
    let valued = valued.into_iter().filter(|(option, _)| !is_given(option));
    let mut words: Vec<OsString> =
        valued.filter_map(|(option, value)| Some(format!("{option}={}", value?).into())).collect();
    // A job that asked for neither may have become best-effort meanwhile.
    if report.class == JobClass::Exclusive
        && !["--primary", "--backfill", "--exclusive"].into_iter().any(is_given)
    {
        words.push("--exclusive".into());
    }
    words.extend(options.iter().cloned());
    words
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

    #[test]
    fn given_options_replace_those_of_the_job() {
        let mut job = report(1, "a", 1);
        (job.name, job.priority, job.claim_bytes, job.timeout_s) =
            ("n".to_owned(), 9, Some(1 << 20), Some(1.5));
        let words = |options: &[&str]| {
            let options: Vec<OsString> = options.iter().map(OsString::from).collect();
            words(&job, &[3, 4], &options).join(" ".as_ref()).into_string().unwrap()
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
        assert!(check(&job).is_ok());
        assert!(check(&ReportView { command: vec!["\u{fffd}".to_owned()], ..job.clone() }).is_err());
        let long = "x".repeat(COMMAND_KEPT_BYTES) + "...";
        assert!(check(&ReportView { command: vec![long], ..job }).is_err());
    }
}
