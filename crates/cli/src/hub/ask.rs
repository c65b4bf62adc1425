//! `pinfold --host NAME status|report|why`: other hosts, through the hub, for whoever holds a reader's token.

use clap::Args;
use pinfold_hubwire::bundle::HostReport;
use pinfold_hubwire::client::HubClient;
use pinfold_hubwire::settings::Settings;
use pinfold_profile::report;
use pinfold_proto::ExitCode;
use pinfold_proto::array::JobName;
use pinfold_proto::view::{ReportView, StatusView};
use serde::Deserialize;
use serde_json::{Value, json};

use super::reader_file;
use crate::args::Command;
use crate::failure::Failure;
use crate::names::JobRef;
use crate::run::say;
use crate::show::{GroupBy, ReportArgs, StatusArgs, WhyArgs, colours, moment, print_json, print_text, width};

/// Which hosts, other than this one.
#[derive(Debug, Args)]
pub(crate) struct Elsewhere {
    /// Ask about this host, through the hub (status, report, why)
    #[arg(id = "hub_host", long = "host", value_name = "NAME", conflicts_with = "all_hosts")]
    host: Option<String>,
    /// Ask about all hosts of the hub (status, report)
    #[arg(long)]
    all_hosts: bool,
}

impl Elsewhere {
    /// No host but this one.
    pub(crate) const HERE: Self = Self { host: None, all_hosts: false };

    /// Whether another host is meant.
    pub(crate) fn is_meant(&self) -> bool {
        self.host.is_some() || self.all_hosts
    }
}

/// A command about other hosts.
pub(crate) fn ask(which: &Elsewhere, command: &Command) -> Result<(), Failure> {
    match command {
        Command::Status(args) => status(which, args),
        Command::Report(args) => reports(which, args),
        Command::Why(args) => why(which, args),
        _ => Err(Failure::new(ExitCode::Usage, "--host and --all-hosts go with status, report and why")),
    }
}

fn reader() -> Result<HubClient, Failure> {
    let file = reader_file()?;
    let none = "no hub is known: `pinfold hub reader URL --token TOKEN`, with a token of `pinfold-hub token --reader NAME`";
    let settings = Settings::load(&file)?.ok_or_else(|| Failure::new(ExitCode::Usage, none))?;
    Ok(settings.client()?)
}

/// A value as it stands in an address.
fn encoded(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    value
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[derive(Debug, Deserialize)]
struct Hosts {
    hosts: Vec<Host>,
}

#[derive(Debug, Deserialize)]
struct Host {
    of: HostOf,
    status: Option<StatusView>,
}

#[derive(Debug, Deserialize)]
struct HostOf {
    host: String,
    here: bool,
    seen_s: Option<f64>,
}

fn status(which: &Elsewhere, args: &StatusArgs) -> Result<(), Failure> {
    if args.all {
        let text =
            "--all: the hub tells of all users' jobs that are not over; `report` tells of those that are";
        return Err(Failure::new(ExitCode::Usage, text));
    }
    let query = which.host.as_ref().map(|host| format!("?host={}", encoded(host))).unwrap_or_default();
    let answer: Hosts = reader()?.get(&format!("/api/v1/status{query}"))?;
    for host in answer.hosts {
        let seen = host.of.seen_s.map(report::date_utc);
        if !host.of.here {
            let since = seen.map_or("not heard yet".to_owned(), |seen| format!("last heard at {seen}"));
            say(&format!("{} is away: {since}", host.of.host));
        }
        let Some(mut view) = host.status else { continue };
        if !args.jobs.is_empty() {
            view.jobs.retain(|job| {
                args.jobs.iter().any(|name| match name {
                    JobRef::Number(name) => name.job == job.job || Some(name.job) == job.array_id,
                    JobRef::Named(name) => *name == job.name,
                    JobRef::External(name) => job.external.as_deref() == Some(name.as_str()),
                })
            });
        }
        let since_us = args.since.as_deref().map(|when| moment("--since", when)).transpose()?;
        let since_s = since_us.map_or(0.0, pinfold_proto::view::seconds);
        view.jobs.retain(|job| job.submitted_s >= since_s);
        view.jobs = args.filter.apply(std::mem::take(&mut view.jobs))?;
        if args.json {
            print_json(&view)?;
        } else if !args.filter.columns.is_empty() {
            let table = args.filter.table(&view.jobs)?;
            print_text(|out| write!(out, "host {}\n{table}", report::plain(&view.host)))?;
        } else {
            print_text(|out| {
                report::write_status(&view, width(), colours(), out)?;
                if which.all_hosts { writeln!(out) } else { Ok(()) }
            })?;
        }
    }
    Ok(())
}

#[derive(Debug, Deserialize)]
struct Reports {
    cut: bool,
    reports: Vec<HostReport>,
}

fn reports(which: &Elsewhere, args: &ReportArgs) -> Result<(), Failure> {
    if args.processes || args.threads || args.files || args.csv {
        let text = "the hub keeps no lists of processes, threads and files; its page has tables as CSV";
        return Err(Failure::new(ExitCode::Usage, text));
    }
    let mut query = format!("series={}", args.series);
    let mut add = |key: &str, value: String| query.push_str(&format!("&{key}={value}"));
    if let Some(host) = &which.host {
        add("host", encoded(host));
    }
    if let Some(last) = args.which.last {
        add("last", last.to_string());
    }
    if let Some(since) = &args.which.since {
        add("since_us", moment("--since", since)?.to_string());
    }
    let client = reader()?;
    let mut found = Vec::new();
    if args.which.jobs.is_empty() {
        let answer: Reports = client.get(&format!("/api/v1/reports?{query}"))?;
        if answer.cut {
            say("there are more: the last ones are shown");
        }
        found = answer.reports;
    }
    for name in &args.which.jobs {
        let name = number_of(name)?;
        let answer: Reports = client.get(&format!("/api/v1/reports?{query}&job={}", name.job))?;
        if answer.reports.is_empty() {
            let text = format!(
                "no job {} that is over is known to the hub; `status` tells of those that are not",
                name.job
            );
            return Err(Failure::new(ExitCode::Failed, text));
        }
        found.extend(answer.reports);
    }
    let found = args.filter.apply(found)?;
    if let Some(by) = args.by {
        let views: Vec<ReportView> = found.into_iter().map(|found| found.report).collect();
        return summary(&views, by, args.json);
    }
    if !args.filter.columns.is_empty() {
        let table = args.filter.table(&found)?;
        return print_text(|out| out.write_all(table.as_bytes()));
    }
    for found in &found {
        if args.json {
            print_json(found)?;
        } else {
            print_text(|out| {
                writeln!(out, "host {}", report::plain(&found.host))?;
                report::write_report(&found.report, out)
            })?;
        }
    }
    Ok(())
}

/// The hub finds jobs by their numbers on their hosts.
fn number_of(name: &JobRef) -> Result<&JobName, Failure> {
    match name {
        JobRef::Number(name) => Ok(name),
        JobRef::Named(_) | JobRef::External(_) => {
            let text = format!("{name}: the hub finds jobs by their numbers; `status` has both");
            Err(Failure::new(ExitCode::Usage, text))
        }
    }
}

fn summary(views: &[ReportView], by: GroupBy, json: bool) -> Result<(), Failure> {
    let by = match by {
        GroupBy::Name => report::By::Name,
        GroupBy::User => report::By::User,
        GroupBy::Project => report::By::Project,
        GroupBy::Class => report::By::Class,
        GroupBy::Day => report::By::Day,
    };
    let view = report::summary(views, by);
    if json { print_json(&view) } else { print_text(|out| report::write_summary(&view, width(), out)) }
}

fn why(which: &Elsewhere, args: &WhyArgs) -> Result<(), Failure> {
    let Some(host) = &which.host else {
        return Err(Failure::new(ExitCode::Usage, "why is about a job of one host: --host NAME"));
    };
    if args.at.is_some() {
        return Err(Failure::new(ExitCode::Usage, "--at is for this host's own jobs"));
    }
    let path = format!("/api/v1/why?host={}&job={}", encoded(host), number_of(&args.job)?.job);
    let answer: Value = reader()?.get(&path)?;
    if args.json {
        return print_json(&answer);
    }
    let word = |value: &Value| report::plain(value.as_str().unwrap_or_default());
    print_text(|out| {
        let cause = word(&answer["cause"]);
        let cause = if cause.is_empty() { String::new() } else { format!(": {cause}") };
        writeln!(
            out,
            "job {} of {} is {}{cause}",
            answer["job"],
            word(&answer["host"]),
            word(&answer["state"])
        )?;
        for act in answer["decisions"].as_array().into_iter().flatten() {
            let when = report::date_utc(act["time_s"].as_f64().unwrap_or(0.0));
            writeln!(out, "  {when}  {}: {}", word(&act["action"]), word(&act["reason"]))?;
        }
        Ok(())
    })
}

/// `pinfold hub login`.
pub(super) fn login() -> Result<(), Failure> {
    let answer: Value = reader()?.post("/api/v1/login", &[])?;
    match answer["url"].as_str() {
        Some(url) => print_text(|out| writeln!(out, "{}", report::plain(url))),
        None => Err(Failure::new(ExitCode::Failed, json!({ "the hub's answer": answer }))),
    }
}
