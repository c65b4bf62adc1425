//! Changing jobs and the configuration.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode as ProcessExit;
use std::time::Duration;

use clap::{Args, Subcommand};
use pinfold_proto::config::{self, Config};
use pinfold_proto::quantity::{parse_duration, parse_size, whole};
use pinfold_proto::view::ReportView;
use pinfold_proto::wire::{ConfigValue, Reply, Request, Verb};
use pinfold_proto::{End, ExitCode, JobClass, TimeoutSignal};
use pinfold_sys::paths;
use pinfold_sys::site::{self, SiteError};

use crate::input;
use crate::job;
use crate::job::begin::{BeginAt, begin};
use crate::job::timeout::timeout_signal;
use crate::names::members;
use crate::operate;
use crate::pick::Pick;
use crate::print::{print_json, print_text, say};
use crate::run::TIMED_OUT;
use pinfold_client::{Client, Dial, Failure, unexpected};

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    pub pick: Pick,
    /// The signal, by name or number; a suspended job hears it at once, and is not suspended any more [default:
    /// TERM, and KILL 10 s later]
    #[arg(short, long, value_name = "SIGNAL")]
    pub signal: Option<String>,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("changed").required(true).multiple(true).args(["priority", "primary", "backfill", "any_class", "mem", "timeout", "timeout_signal", "cpu_limit", "begin", "comment"])))]
pub(crate) struct SetArgs {
    #[command(flatten)]
    pub pick: Pick,
    /// Priority of the job, 1 (lowest) to 16 (highest)
    #[arg(long, visible_alias = "rank", value_name = "N",
          value_parser = whole::<u8>(1..=16))]
    pub priority: Option<u8>,
    /// Run the job on cores of its own; if no core is free, on the cores of a job of lower priority
    #[arg(long, conflicts_with = "backfill")]
    pub primary: bool,
    /// Run the job only in CPU time that other jobs leave
    #[arg(long)]
    pub backfill: bool,
    /// Run the job on cores of its own if some are free, else in CPU time that other jobs leave
    #[arg(long, conflicts_with_all = ["primary", "backfill"])]
    pub any_class: bool,
    /// Expected memory
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub mem: Option<u64>,
    /// Longest run time, frozen time not counted; 0: no limit
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// Signal to send before the timeout, and how long before, as in USR1@1m
    #[arg(long, value_name = "SIG@DURATION", value_parser = timeout_signal)]
    pub timeout_signal: Option<TimeoutSignal>,
    /// Longest CPU time of all processes of the job together; 0: no limit
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub cpu_limit: Option<Duration>,
    /// Earliest start; now: as soon as possible
    #[arg(long, value_name = "TIME|+DURATION", value_parser = begin)]
    pub begin: Option<BeginAt>,
    /// Remark on the job; an empty text removes the remark
    #[arg(long, value_name = "TEXT")]
    pub comment: Option<String>,
}

impl SetArgs {
    /// The changes, in order.
    pub(crate) fn verbs(&self) -> Vec<Verb> {
        let limit = |limit: Duration| Some(job::microseconds(limit)).filter(|&us| us > 0);
        [
            self.comment.clone().map(Verb::Comment),
            self.priority.map(Verb::Priority),
            self.primary.then_some(Verb::Class(Some(JobClass::Primary))),
            self.backfill.then_some(Verb::Class(Some(JobClass::Backfill))),
            self.any_class.then_some(Verb::Class(None)),
            self.mem.map(Verb::Memory),
            self.timeout.map(limit).map(Verb::Timeout),
            self.cpu_limit.map(limit).map(Verb::CpuLimit),
            self.timeout_signal.map(|signal| Verb::TimeoutSignal(Some(signal))),
            self.begin.map(|at| Verb::Begin(Some(at.0))),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub verb: ConfigVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Show every key, or one
    Get {
        /// The key
        key: Option<String>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Change keys of the running daemon, all or none
    Set {
        /// Keys and values
        #[arg(required = true, value_name = "KEY=VALUE")]
        changes: Vec<String>,
    },
    /// Write the live values into the daemon's configuration file, or into FILE; comments stay
    Save {
        /// Another file than the daemon's own
        file: Option<PathBuf>,
    },
    /// Show who changed which key, from what to what
    History {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Check a configuration file
    Check {
        /// The file
        file: PathBuf,
    },
    /// Print the default configuration, with comments
    Default,
}

/// Applies the verbs to each job. All are tried; the first failure is the command's.
pub(crate) fn each(dial: &Dial, pick: &Pick, verbs: &[Verb]) -> Result<(), Failure> {
    let mut client = dial.connect()?;
    let mut first = None;
    let mut jobs = pick.not_over(&mut client)?;
    if matches!(verbs, [Verb::Cancel { .. }]) {
        // Waiting jobs have higher numbers: none of them is to start in place of a job that ends.
        jobs.reverse();
    }
    let each_verb = |&job: &u64| verbs.iter().map(move |verb| (job, verb));
    for (job, verb) in jobs.iter().flat_map(each_verb) {
        match change(&mut client, job, verb.clone()) {
            Ok(note) => note.iter().for_each(|note| say(note)),
            Err(failure) if first.is_none() => first = Some(failure),
            Err(failure) => say(&failure.message),
        }
    }
    first.map_or(Ok(()), Err)
}

/// Changes a job; gives a remark of the daemon's about that.
pub(crate) fn change(client: &mut Client, job: u64, verb: Verb) -> Result<Option<String>, Failure> {
    match client.ask(&Request::Control { job, verb })? {
        Reply::Done => Ok(None),
        Reply::Noted { note } => Ok(Some(note)),
        other => Err(unexpected(&other)),
    }
}

/// Ends jobs.
pub(crate) fn cancel(dial: &Dial, args: &CancelArgs) -> Result<(), Failure> {
    let signal = match &args.signal {
        // The daemon's gentle way: TERM, and KILL after a while.
        None => 0,
        Some(text) => pinfold_sys::signals::number(text)
            .ok_or_else(|| Failure::new(ExitCode::Usage, format!("--signal: there is no signal `{text}`")))?,
    };
    each(dial, &args.pick, &[Verb::Cancel { signal }])
}

/// Waits until jobs are over; ends as the last named job did, of an array, as in Slurm, with the highest status.
pub(crate) fn wait(dial: &Dial, pick: &Pick) -> Result<ProcessExit, Failure> {
    let mut client = dial.connect()?;
    // Of several members the worst counts.
    let (jobs, last) = if pick.is_named() {
        let named = members(&mut client, &pick.jobs)?;
        let last = named.last().map_or(0, |members| members.jobs.len());
        (named.iter().flat_map(|members| &members.jobs).map(|member| member.job).collect(), last)
    } else {
        let jobs = pick.not_over(&mut client)?;
        let count = jobs.len();
        (jobs, count)
    };
    let reports = answer!(client.ask(&Request::Wait { jobs })?, Report)?;
    let last = &reports[reports.len().saturating_sub(last)..];
    Ok(ProcessExit::from(last.iter().map(status_of).max().unwrap_or(0)))
}

/// The exit status of a job: its own, 128+N, or a failure where the job never ran or is not known.
fn status_of(report: &ReportView) -> u8 {
    if report.end.is_some_and(End::is_limit) {
        return TIMED_OUT;
    }
    let code = match (report.exit_code, report.signal, report.started_s) {
        (Some(code), ..) => code & 0xff,
        (None, Some(signal), _) => (128 + signal) & 0xff,
        (None, None, None) => i32::from(ExitCode::Refused.code()),
        (None, None, Some(_)) => i32::from(ExitCode::Failed.code()),
    };
    u8::try_from(code).unwrap_or(1)
}

/// `pinfold config`.
pub(crate) fn config(dial: &Dial, verb: ConfigVerb) -> Result<(), Failure> {
    match verb {
        ConfigVerb::Get { key, json } => get(dial, key.as_deref(), json),
        ConfigVerb::Set { changes } => set(dial, changes),
        ConfigVerb::Save { file } => operate::save(dial, file.as_deref()),
        ConfigVerb::History { json } => operate::history(dial, json),
        ConfigVerb::Check { file } => check(&file),
        ConfigVerb::Default => print_text(|out| write!(out, "{}", config::default_file())),
    }
}

/// Keys that name programs, without which no job starts.
const HOOKS: [&str; 2] = ["modules.site", "modules.wrap"];

/// Warns of hooks that cannot be called now, as far as this user can see. They may come later.
fn warn_of_hooks(config: &Config) {
    for (key, programs) in HOOKS.into_iter().zip([&config.modules_site, &config.modules_wrap]) {
        for program in programs {
            match site::trusted(Path::new(program)) {
                Err(SiteError::Failed { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {}
                Err(error) => {
                    let why = Failure::doing("no job starts until this is mended", &error);
                    say(&format!("warning: {key}: {why}"));
                }
                Ok(_) => {}
            }
        }
    }
}

/// Sets keys, and reports unchanged values and how long the others last.
fn set(dial: &Dial, changes: Vec<String>) -> Result<(), Failure> {
    if let [key, value, ..] = &changes[..]
        && !key.contains('=')
        && !value.contains('=')
    {
        let text = format!("`{key}` is not KEY=VALUE; is `{key}={value}` meant?");
        return Err(Failure::new(ExitCode::Usage, text));
    }
    let mut client = dial.connect()?;
    let keys: Vec<String> =
        changes.iter().filter_map(|change| Some(change.split_once('=')?.0.trim().to_owned())).collect();
    let mut values = |request: &Request| answer!(client.ask(request)?, Config);
    let before = values(&Request::ConfigGet)?;
    let after = values(&Request::ConfigSet { changes })?;
    let file = client.welcome.state.join(paths::SETTINGS);
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    for ConfigValue { key, value, .. } in after.iter().filter(|value| keys.contains(&value.key)) {
        let shown = if value.is_empty() { "unset" } else { value };
        if before.iter().any(|old| (&old.key, &old.value) == (key, value)) {
            say(&format!("{key}: unchanged, it is {shown} already"));
        } else if kept.lines().any(|line| line.split_once('=').is_some_and(|(name, _)| name == key)) {
            say(&format!("{key} is {shown}; kept in {}", file.display()));
        } else {
            say(&format!("{key} is {shown} until the daemon ends; `pinfold config save` keeps it"));
        }
    }
    for value in after.iter().filter(|value| HOOKS.contains(&&*value.key) && keys.contains(&value.key)) {
        // The daemon has accepted the values.
        if let Ok((config, _)) = Config::default().with_changes([&*format!("{}={}", value.key, value.value)])
        {
            warn_of_hooks(&config);
        }
    }
    /// Keys with values that can be more than the host has.
    const BOUNDED: [&str; 2] = ["host.memory", "host.cpus"];
    let set: Vec<&&str> = BOUNDED.iter().filter(|&&bounded| keys.iter().any(|key| key == bounded)).collect();
    if set.is_empty() {
        return Ok(());
    }
    let view = answer!(client.ask(&Request::Status { jobs: Vec::new(), all: false, at_us: None })?, Status)?;
    let is_about = |warning: &&String| set.iter().any(|key| warning.contains(&format!("`{key}`")));
    view.warnings.iter().filter(is_about).for_each(|warning| say(&format!("warning: {warning}")));
    Ok(())
}

fn get(dial: &Dial, key: Option<&str>, json: bool) -> Result<(), Failure> {
    let mut client = dial.connect()?;
    let values = answer!(client.ask(&Request::ConfigGet)?, Config)?;
    let shown: Vec<&ConfigValue> =
        values.iter().filter(|value| key.is_none_or(|key| value.key == key)).collect();
    if let Some(key) = key.filter(|_| shown.is_empty()) {
        let hint = Some(config::hint(key)).filter(|hint| !hint.is_empty());
        let hint = hint.unwrap_or_else(|| "; `pinfold config get` shows all".to_owned());
        let text = format!("there is no key `{key}`{hint}");
        return Err(Failure::new(ExitCode::Usage, text));
    }
    if json {
        return print_json(&serde_json::json!({ "version": 1, "keys": shown }));
    }
    print_text(|out| {
        for value in shown {
            let text = if value.value.is_empty() { "(unset)" } else { &value.value };
            match key {
                Some(_) => writeln!(out, "{text}")?,
                None => writeln!(out, "{:<22} {:<14} {}", value.key, text, value.origin)?,
            }
        }
        Ok(())
    })
}

fn check(file: &Path) -> Result<(), Failure> {
    let text = File::open(file).and_then(|file| input::text(file, input::BY_HAND_MAX)).map_err(|error| {
        Failure::new(ExitCode::Failed, format!("failed to read {}: {error}", file.display()))
    })?;
    match Config::default().with_file(&text) {
        Ok((config, set)) => {
            let keys = if set.len() == 1 { "key" } else { "keys" };
            say(&format!("{}: good, sets {} {keys}", file.display(), set.len()));
            warn_of_hooks(&config);
            Ok(())
        }
        Err(error) => Err(Failure::new(ExitCode::Usage, format!("{}: {error}", file.display()))),
    }
}
