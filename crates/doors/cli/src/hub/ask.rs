//! `pinfold --host NAME status|report|why` ([`far`] has the others): other hosts, through the hub, as this user or as
//! the holder of a reader's token.

use crate::again::{may_look, until_next_elsewhere};
use crate::names::JobRef;
use crate::print::{colours, moment, print_json, print_text, say, width};
use clap::Args;
use pinfold_hubwire::bundle::HostReport;
use pinfold_profile::report;
use pinfold_proto::ExitCode;
use pinfold_proto::view::{JobView, ReportView, StatusView};
use serde::Deserialize;
use serde_json::{Value, json};

use super::identity::{Hub, hub};
use super::of_hub;
use crate::show::{GroupBy, ReportArgs, StatusArgs, Which, WhyArgs};
use pinfold_client::{Dial, Failure};

/// Which hosts, other than this one.
#[derive(Debug, Args)]
pub(crate) struct Elsewhere {
    /// Ask about this host, through the hub (status, report, why, map, top, plot, advise, export)
    #[arg(id = "hub_host", long = "host", value_name = "NAME", conflicts_with = "all_hosts")]
    pub(super) host: Option<String>,
    /// Ask about all hosts of the hub (status, report, map, plot, advise, export)
    #[arg(long)]
    all_hosts: bool,
}

impl Elsewhere {
    /// Only this host.
    pub(crate) const HERE: Self = Self { host: None, all_hosts: false };

    /// Whether another host is meant.
    pub(crate) fn is_meant(&self) -> bool {
        self.host.is_some() || self.all_hosts
    }
}

/// The number of a job of another host: names are looked up by its own daemon alone.
fn number_of(job: &JobRef) -> Result<u64, Failure> {
    match job {
        JobRef::Number(number) => Ok(number.job),
        JobRef::Range(..) | JobRef::Named(_) | JobRef::External(_) => {
            let text = format!("`{job}`: jobs of other hosts are named by their numbers; `status` has them");
            Err(Failure::new(ExitCode::Usage, text))
        }
    }
}

/// Whether a job of another host is the named job, or a member of the named array.
fn is_meant(named: &JobRef, job: &JobView) -> bool {
    match named {
        JobRef::Number(number) => number.job == job.job || Some(number.job) == job.array_id,
        JobRef::Range(first, last) => (*first..=*last).contains(&job.job),
        JobRef::Named(name) => *name == job.name,
        JobRef::External(name) => job.external.as_deref() == Some(name.as_str()),
    }
}

/// A value as it stands in an address.
pub(super) fn encoded(value: &str) -> String {
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
pub(super) struct Host {
    of: HostOf,
    pub(super) status: Option<StatusView>,
}

#[derive(Debug, Deserialize)]
pub(super) struct HostOf {
    pub(super) host: String,
    here: bool,
    seen_s: Option<f64>,
}

impl HostOf {
    /// Prints a remark if the hub does not hear the host now.
    pub(super) fn say_if_away(&self) {
        if self.here {
            return;
        }
        let seen = self.seen_s.map(report::date_here);
        let since = seen.map_or("not heard yet".to_owned(), |seen| format!("last heard at {seen}"));
        say(&format!("{} is away: {since}", report::plain(&self.host)));
    }
}

/// How the hosts that are meant are.
pub(super) fn hosts(client: &mut Hub<'_>, which: &Elsewhere) -> Result<Vec<Host>, Failure> {
    let query = which.host.as_ref().map(|host| format!("?host={}", encoded(host))).unwrap_or_default();
    let answer: Hosts = client.get(&format!("/api/v1/status{query}")).map_err(of_hub)?;
    Ok(answer.hosts)
}

pub(crate) fn status(dial: &Dial, which: &Elsewhere, args: &StatusArgs) -> Result<(), Failure> {
    if args.all {
        let text =
            "--all: the hub tells of all users' jobs that are not over; `report` tells of those that are";
        return Err(Failure::new(ExitCode::Usage, text));
    }
    for host in hosts(&mut hub(dial)?, which)? {
        host.of.say_if_away();
        let Some(mut view) = host.status else { continue };
        if !args.jobs.is_empty() {
            view.jobs.retain(|job| args.jobs.iter().any(|name| is_meant(name, job)));
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

/// Refuses `--all`: the hub shows each caller all visible jobs anyway, and cannot show more.
pub(super) fn without_all(all: bool) -> Result<(), Failure> {
    if !all {
        return Ok(());
    }
    let text = "--all: the hub tells without it of all jobs that you may see: a reader of every user's, a user of \
                their own; leave it out";
    Err(Failure::new(ExitCode::Usage, text))
}

pub(crate) fn reports(dial: &Dial, which: &Elsewhere, args: &ReportArgs) -> Result<(), Failure> {
    if args.processes || args.threads || args.files || args.csv {
        let text = "the hub keeps no lists of processes, threads and files; its page has tables as CSV";
        return Err(Failure::new(ExitCode::Usage, text));
    }
    without_all(args.all)?;
    may_look(args.every)?;
    let mut client = hub(dial)?;
    let Which { jobs, since, .. } = &args.which;
    let last = args.which.last_of();
    let wanted = Wanted { jobs, last, since: since.as_deref(), series: args.series };
    let Some(interval) = args.every else { return show(wanted.ask(&mut client, which)?, args) };
    let (mut missed, mut is_first) = (0, true);
    loop {
        match look(&mut client, which, args, &wanted, &mut missed) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(failure) if failure.code == ExitCode::NoDaemon && !is_first => say(&failure.to_string()),
            Err(failure) => return Err(failure),
        }
        is_first = false;
        if !until_next_elsewhere(interval)? {
            return Ok(());
        }
    }
}

/// Shows the reports, or the states of named jobs that are not over; says whether that was the last time. Between its
/// end and the bundle with it, a job is not over and not living: it is missed.
fn look(
    client: &mut Hub<'_>,
    which: &Elsewhere,
    args: &ReportArgs,
    wanted: &Wanted<'_>,
    missed: &mut u32,
) -> Result<bool, Failure> {
    let is_named = !wanted.jobs.is_empty();
    match wanted.ask(client, which) {
        Ok(found) => show(found, args).map(|()| is_named),
        Err(failure) if failure.code == ExitCode::Failed && is_named => {
            *missed = if show_living(client, which, args)? { 0 } else { *missed + 1 };
            if *missed > MISSED_MAX { Err(failure) } else { Ok(false) }
        }
        Err(failure) => Err(failure),
    }
}

/// How many looks in a row may miss a job.
const MISSED_MAX: u32 = 15;

/// How named jobs are that are not over, and whether there are any.
fn show_living(client: &mut Hub<'_>, which: &Elsewhere, args: &ReportArgs) -> Result<bool, Failure> {
    let mut found = false;
    for host in hosts(client, which)? {
        let Some(view) = host.status else { continue };
        let meant = |job: &JobView| args.which.jobs.iter().any(|name| is_meant(name, job));
        for job in view.jobs.iter().filter(|job| meant(job)) {
            found = true;
            if args.json {
                let mut told = json!(job);
                told["host"] = json!(view.host);
                told["version"] = json!(view.version);
                print_json(&told)?;
            } else {
                let memory = job.memory_bytes.map(report::size).unwrap_or_default();
                let state = job.state.word();
                print_text(|out| {
                    writeln!(out, "host {}: job {} is {state} {memory}", report::plain(&view.host), job.job)
                })?;
            }
        }
    }
    Ok(found)
}

/// Which reports are wanted of a hub.
pub(super) struct Wanted<'a> {
    pub(super) jobs: &'a [JobRef],
    pub(super) last: Option<u32>,
    pub(super) since: Option<&'a str>,
    pub(super) series: bool,
}

impl Wanted<'_> {
    /// Asks for them; a named job that is not over, or not there, is a failure.
    pub(super) fn ask(&self, client: &mut Hub<'_>, which: &Elsewhere) -> Result<Vec<HostReport>, Failure> {
        let mut query = format!("series={}", self.series);
        let mut add = |key: &str, value: String| query.push_str(&format!("&{key}={value}"));
        if let Some(host) = &which.host {
            add("host", encoded(host));
        }
        if let Some(last) = self.last {
            add("last", last.to_string());
        }
        if let Some(since) = self.since {
            add("since_us", moment("--since", since)?.to_string());
        }
        if self.jobs.is_empty() {
            let answer: Reports = client.get(&format!("/api/v1/reports?{query}")).map_err(of_hub)?;
            if answer.cut {
                say(&cut(answer.reports.len(), self.series, which));
            }
            return Ok(answer.reports);
        }
        let mut found = Vec::new();
        for name in self.jobs {
            let answer: Reports =
                client.get(&format!("/api/v1/reports?{query}&job={}", number_of(name)?)).map_err(of_hub)?;
            if answer.reports.is_empty() {
                let text = format!(
                    "no job {} that is over is known to the hub, or it is not yours to see; `status` tells of those that are not over",
                    name
                );
                return Err(Failure::new(ExitCode::Failed, text));
            }
            found.extend(answer.reports);
        }
        Ok(found)
    }
}

/// The message where the hub told only the last of the requested jobs: how to reach the others.
fn cut(shown: usize, series: bool, which: &Elsewhere) -> String {
    let way = match (series, &which.host) {
        (true, _) => {
            "`report` without samples lists the others, and `--host NAME` with their numbers tells each of them"
        }
        (false, None) => "--host NAME tells of one host's alone",
        (false, Some(_)) => "the others are told by their numbers, and on the host itself",
    };
    format!(
        "there are more: only the last {shown} jobs by their end are shown, as the hub tells of so many at once; {way}"
    )
}

fn show(found: Vec<HostReport>, args: &ReportArgs) -> Result<(), Failure> {
    let looked_at = found.len();
    let found = args.filter.apply(found)?;
    if let Some(by) = args.by {
        let views: Vec<ReportView> = found.into_iter().map(|found| found.report).collect();
        return summary(&views, by, args.json);
    }
    if let Some(words) = args.filter.none_of_elsewhere(looked_at).filter(|_| found.is_empty()) {
        args.which.say_none(&words);
    }
    if !args.filter.columns.is_empty() {
        let table = args.filter.table(&found)?;
        return print_text(|out| out.write_all(table.as_bytes()));
    }
    if args.shows_lines() && !(args.json || args.full || args.series) {
        let lines: Vec<(&str, &ReportView)> =
            found.iter().map(|found| (found.host.as_str(), &found.report)).collect();
        return print_text(|out| report::write_host_lines(&lines, width(), out));
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

pub(crate) fn why(dial: &Dial, which: &Elsewhere, args: &WhyArgs) -> Result<(), Failure> {
    let Some(host) = &which.host else {
        return Err(Failure::new(ExitCode::Usage, "why is about a job of one host: --host NAME"));
    };
    if args.at.is_some() {
        return Err(Failure::new(ExitCode::Usage, "--at is for this host's own jobs"));
    }
    let [job] = &args.pick.jobs[..] else {
        return Err(Failure::new(ExitCode::Usage, "why is about one job of another host: name its number"));
    };
    let path = format!("/api/v1/why?host={}&job={}", encoded(host), number_of(job)?);
    let answer: Value = hub(dial)?.get(&path).map_err(of_hub)?;
    if args.json {
        return print_json(&answer);
    }
    let word = |value: &Value| report::plain(&report::with_dates_here(value.as_str().unwrap_or_default()));
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
            let when = report::date_here(act["time_s"].as_f64().unwrap_or(0.0));
            writeln!(out, "  {when}  {}: {}", word(&act["action"]), word(&act["reason"]))?;
        }
        Ok(())
    })
}

/// `pinfold hub login`.
pub(super) fn login(dial: &Dial) -> Result<(), Failure> {
    let answer: Value = hub(dial)?.post("/api/v1/login", &[]).map_err(of_hub)?;
    match answer["url"].as_str() {
        Some(url) => print_text(|out| writeln!(out, "{}", report::plain(url))),
        None => Err(Failure::new(ExitCode::Failed, json!({ "the hub's answer": answer }))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_jobs_are_left_out_is_said_how_to_get_them() {
        let check = |series, host: Option<&str>, words: &str| {
            let which = Elsewhere { host: host.map(str::to_owned), all_hosts: host.is_none() };
            let said = cut(5, series, &which);
            assert!(said.contains("only the last 5 jobs by their end") && said.contains(words), "{said}");
        };
        check(true, Some("n1"), "`report` without samples lists the others");
        check(true, None, "`report` without samples lists the others");
        check(false, None, "--host NAME tells of one host's alone");
        check(false, Some("n1"), "by their numbers");
    }
}
