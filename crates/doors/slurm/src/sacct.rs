//! `sacct`: the usage of jobs, even long after their end.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use pinfold_client::Failure;
use pinfold_proto::text::plain;
use pinfold_proto::wire::Select;
use pinfold_sys::peer::own_name;

use crate::cluster::Cluster;
use crate::fields::{self, Row};
use crate::form::{Column, of_sacct, padded};
use crate::getopt::{Given, Order, parse};
use crate::jobs::{Job, in_rows};
use crate::options;
use crate::request::cluster as only_cluster;
use crate::say;
use crate::select::{self, Named};
use crate::squeue::{around, is_here, list, states};
use crate::state::State;
use crate::trouble::{Trouble, words};
use crate::units::{Toward, moment};
use crate::users::users_that_exist;

const USUAL: &str = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode";
const BRIEF: &str = "JobID,State,ExitCode";
const LONG: &str = "JobID,JobIDRaw,JobName,Partition,MaxVMSize,MaxVMSizeNode,MaxVMSizeTask,AveVMSize,MaxRSS,MaxRSSNode,\
                    MaxRSSTask,AveRSS,MinCPU,MinCPUNode,MinCPUTask,AveCPU,NTasks,AllocCPUS,Elapsed,State,ExitCode,\
                    ReqMem,MaxDiskRead,MaxDiskWrite,AllocTRES";

/// Most jobs considered that were submitted before the start time, because they may have run on,
const EARLIER_MAX: usize = 1000;
/// and how long before it, in seconds.
const EARLIER_S: f64 = 7.0 * 86_400.0;

#[derive(Debug, Default)]
struct Asked {
    format: Option<String>,
    allocations: bool,
    heads: bool,
    /// The separator, and whether it ends lines.
    parsable: Option<(String, bool)>,
    jobs: Option<Vec<Named>>,
    /// Jobs of which no more than these steps were named.
    steps: BTreeMap<u64, BTreeSet<String>>,
    names: Option<Vec<String>>,
    partitions: Option<Vec<String>>,
    accounts: Option<Vec<String>>,
    qos: Option<Vec<String>>,
    users: Option<Vec<String>>,
    /// Whether the requested nodes include this host.
    here: Option<bool>,
    states: Option<Vec<State>>,
    start_s: Option<f64>,
    end_s: Option<f64>,
    each_member: bool,
    unit: Option<char>,
    plain: bool,
    help: Option<&'static str>,
}

impl Asked {
    fn of(given: &[Given]) -> Result<Self, Trouble> {
        let mut asked = Self { heads: true, ..Self::default() };
        let mut delimiter = "|".to_owned();
        asked.format = std::env::var("SACCT_FORMAT").ok().filter(|text| !text.is_empty());
        for option in given {
            let value = option.value.clone().unwrap_or_default();
            let at = |name: &str| {
                let at = moment(&value, Toward::Past);
                at.ok_or_else(|| format!("Invalid time specification ({name}): {value}"))
            };
            match option.name.as_str() {
                "allocations" => asked.allocations = true,
                // Each user sees the permitted jobs, and root all jobs.
                "allusers" => asked.users = None,
                "array" => asked.each_member = true,
                "accounts" => asked.accounts = Some(list(&value)),
                "brief" => asked.format = Some(BRIEF.to_owned()),
                "clusters" => only_cluster(&value)?,
                "delimiter" => delimiter = value,
                "endtime" => asked.end_s = Some(at("--endtime")?),
                "format" => asked.format = Some(value),
                "helpformat" => asked.help = Some("helpformat"),
                "jobs" => {
                    let jobs = select::names(&value).map_err(|bad| format!("Invalid job id: {bad}"))?;
                    asked.jobs.get_or_insert_default().extend(jobs);
                }
                "long" => asked.format = Some(LONG.to_owned()),
                "me" => asked.users = Some(vec![own_name()]),
                "name" => asked.names = Some(list(&value)),
                "noconvert" => asked.plain = true,
                "nodelist" => asked.here = Some(is_here(&value)),
                "noheader" => asked.heads = false,
                "parsable" => asked.parsable = Some((String::new(), true)),
                "parsable2" => asked.parsable = Some((String::new(), false)),
                "partition" => asked.partitions = Some(list(&value)),
                "qos" => asked.qos = Some(list(&value)),
                "starttime" => asked.start_s = Some(at("--starttime")?),
                "state" => asked.states = states(&value)?,
                "uid" | "user" => asked.users = Some(users_that_exist(&value, "Invalid user id")?),
                "units" => asked.unit = value.chars().next().filter(|unit| "KMGTPkmgtp".contains(*unit)),
                "help" => asked.help = Some("help"),
                "usage" => asked.help = Some("usage"),
                "version" => asked.help = Some("version"),
                _ => {}
            }
        }
        if let Some((separator, _)) = &mut asked.parsable {
            *separator = delimiter;
        }
        Ok(asked)
    }

    fn wants(&self, job: &Job) -> bool {
        let of = |list: &Option<Vec<String>>, value: &str| {
            list.as_ref().is_none_or(|list| list.iter().any(|one| one == value))
        };
        let since = self.start_s.is_none_or(|start| job.ended_s.is_none_or(|ended| ended >= start.floor()));
        let until = self.end_s.is_none_or(|end| job.submitted_s <= end.ceil() + 1.0);
        let qos = if job.label.qos.is_empty() { "normal" } else { &job.label.qos };
        of(&self.names, &job.name)
            && of(&self.partitions, job.partition())
            && of(&self.accounts, &job.label.account)
            && of(&self.qos, qos)
            && self.here.is_none_or(|here| here && job.has_node())
            && of(&self.users, &job.user)
            && self.states.as_ref().is_none_or(|states| states.contains(&job.state))
            && since
            && until
    }
}

/// Shows the usage of jobs.
///
/// # Errors
/// In sacct's words.
pub(crate) fn sacct(arguments: &[OsString]) -> Result<u8, Trouble> {
    let (given, operands) = parse(&options::sacct(), arguments, Order::Free).map_err(say::usage("sacct"))?;
    let mut asked = Asked::of(&given)?;
    match asked.help {
        Some("helpformat") => return helpformat(),
        Some(what) => return say::help("sacct", what, &options::sacct()),
        None => {}
    }
    if let Some(word) = operands.first() {
        return Err(Trouble::new(format!("Unknown arguments:\nsacct: error:  {}", word.display())));
    }
    let columns = columns(asked.format.as_deref().unwrap_or(USUAL))?;
    if asked.jobs.is_none() && asked.start_s.is_none() {
        asked.start_s = moment("today", Toward::Past);
    }
    let failed =
        |failure: Failure| Trouble::new(format!("Problem talking to the database: {}", words(&failure)));
    let mut cluster = Cluster::connect().map_err(failed)?;
    let jobs = chosen(&mut cluster, &mut asked).map_err(failed)?;
    let mut jobs: Vec<Job> = jobs.into_iter().filter(|job| asked.wants(job)).collect();
    if !asked.each_member {
        jobs = in_rows(jobs);
    }
    say::out(&written(&asked, &columns, &jobs))?;
    Ok(0)
}

fn chosen(cluster: &mut Cluster, asked: &mut Asked) -> Result<Vec<Job>, Failure> {
    if let Some(names) = &asked.jobs {
        let members = select::members(cluster, names)?;
        asked.steps = only_steps(names, &members);
        let numbers: BTreeSet<u64> = members.into_iter().flatten().collect();
        return cluster.reports(Select::Jobs(numbers.into_iter().collect()));
    }
    let start = asked.start_s.unwrap_or(0.0);
    let mut jobs = cluster.reports(Select::Since(crate::units::whole(start.floor() * 1e6)))?;
    let told: BTreeSet<u64> = jobs.iter().map(|job| job.job).collect();
    // Asked for earlier, and not over before.
    let live = cluster.jobs(false)?;
    let live = live.iter().map(|job| job.job);
    let is_earlier = |submitted: u64| {
        let at = std::time::Duration::from_secs(submitted).as_secs_f64();
        at < start && at >= start - EARLIER_S
    };
    let known = cluster.known();
    let labels = known.labels.values().rev();
    let earlier = labels.filter(|label| is_earlier(label.submitted_s)).map(|label| label.job);
    let mut left: BTreeSet<u64> = earlier.take(EARLIER_MAX).chain(live).collect();
    left.retain(|job| !told.contains(job));
    jobs.extend(cluster.reports(Select::Jobs(left.into_iter().collect()))?);
    jobs.sort_by_key(|job| job.job);
    Ok(jobs)
}

/// Jobs named only by steps, like `12.batch` or `12.0`, with these steps.
fn only_steps(names: &[Named], members: &[Vec<u64>]) -> BTreeMap<u64, BTreeSet<String>> {
    let mut steps: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    let mut whole = BTreeSet::new();
    for (named, jobs) in names.iter().zip(members) {
        for &job in jobs {
            match &named.step {
                Some(step) => drop(steps.entry(job).or_default().insert(step.clone())),
                None => drop(whole.insert(job)),
            }
        }
    }
    steps.retain(|job, _| !whole.contains(job));
    steps
}

/// The columns of a format, with their default widths.
fn columns(format: &str) -> Result<Vec<(Column, &'static str)>, Trouble> {
    let mut all = Vec::new();
    let every = fields::SACCT.join(",");
    let part = |part: &str| if part.eq_ignore_ascii_case("all") { every.clone() } else { part.to_owned() };
    let format = format.split(',').map(str::trim).map(part).collect::<Vec<_>>().join(",");
    for column in of_sacct(&format)? {
        let lower = column.field.to_ascii_lowercase();
        let exact = fields::SACCT.iter().find(|name| name.to_ascii_lowercase() == lower);
        let begins = || fields::SACCT.iter().find(|name| name.to_ascii_lowercase().starts_with(&lower));
        let name = exact.or_else(begins).filter(|_| lower.len() > 1);
        let name = name.ok_or_else(|| format!("Invalid field requested: \"{}\"", column.field))?;
        let width = column.width.unwrap_or_else(|| usual_width(name));
        let right = column.right && !(column.width.is_none() && *name == "JobID");
        all.push((Column { width: Some(width), right, ..column }, *name));
    }
    Ok(all)
}

fn usual_width(name: &str) -> usize {
    match name {
        "JobID" | "JobIDRaw" => 12,
        "ExitCode" | "NTasks" | "NNodes" | "AllocNodes" | "ReqCPUS" | "DerivedExitCode" => 8,
        "Start" | "End" | "Submit" | "Eligible" => 19,
        "NodeList" => 15,
        "User" | "Group" => 9,
        "UID" | "GID" => 6,
        "Comment" | "AdminComment" | "SystemComment" => 14,
        "WorkDir" | "StdOut" | "StdErr" | "StdIn" | "SubmitLine" => 20,
        _ => 10,
    }
}

fn written(asked: &Asked, columns: &[(Column, &'static str)], jobs: &[Job]) -> String {
    let mut around = around();
    (around.unit, around.plain) = (asked.unit, asked.plain);
    let mut text = String::new();
    if asked.heads {
        row(asked, columns, |_, name| name.to_owned(), &mut text);
        if asked.parsable.is_none() {
            row(asked, columns, |width, _| "-".repeat(width), &mut text);
        }
    }
    let fields: Vec<String> = columns.iter().map(|(_, name)| name.to_ascii_lowercase()).collect();
    for job in jobs {
        let mut rows = vec![Row::Job];
        if !asked.allocations && job.started_s.is_some() {
            rows.extend(job.label.batch.then_some(Row::Batch));
            rows.extend(job.steps.iter().map(Row::Step));
        }
        if let Some(steps) = asked.steps.get(&job.job) {
            let is_named = |row: &Row<'_>| match row {
                Row::Job => asked.allocations,
                Row::Batch => steps.contains("batch"),
                Row::Step(step) => steps.contains(&step.step.to_string()),
            };
            rows.retain(is_named);
        }
        for kind in rows {
            let mut at = fields.iter();
            let value = |_, _: &str| {
                let field = at.next().map(String::as_str).unwrap_or_default();
                plain(&fields::sacct(job, kind, field, &around))
            };
            row(asked, columns, value, &mut text);
        }
    }
    text
}

fn row(
    asked: &Asked,
    columns: &[(Column, &'static str)],
    mut value: impl FnMut(usize, &str) -> String,
    text: &mut String,
) {
    for (at, (column, name)) in columns.iter().enumerate() {
        let width = column.width.unwrap_or(10);
        let said = value(width, name);
        match &asked.parsable {
            Some((separator, ends)) => {
                text.push_str(&said);
                if *ends || at + 1 < columns.len() {
                    text.push_str(separator);
                }
            }
            None => {
                // A cut text ends with a sign.
                let long = said.chars().count() > width && width > 0;
                let cut = || said.chars().take(width - 1).chain(['+']).collect();
                padded(&if long { cut() } else { said.clone() }, width, column.right, text);
                text.push(' ');
            }
        }
    }
    text.push('\n');
}

fn helpformat() -> Result<u8, Trouble> {
    let mut text = String::new();
    for line in fields::SACCT.chunks(4) {
        for name in line {
            text.push_str(&format!("{name:<20}"));
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text.push('\n');
    say::out(&text).map(|()| 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_by_name_beginning_and_all_of_them() {
        let names = |format: &str| -> Vec<&str> {
            columns(format).expect(format).into_iter().map(|(_, name)| name).collect()
        };
        assert_eq!(names("jobid,State%20,alloct"), ["JobID", "State", "AllocTRES"]);
        assert_eq!(names("ALL"), fields::SACCT);
        assert_eq!(names("State, all").len(), fields::SACCT.len() + 1);
        assert!(columns("nonsense").is_err());
    }
}
