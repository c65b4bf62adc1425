//! The week of a user, a project or all users: unused memory, failures, and advised requests, as a page and as the text
//! of a mail. Absent here: sending, which is up to the site's own mail.

mod mail;
mod week;

use std::collections::BTreeSet;

use pinfold_advise::{Verdict, middle};
use serde_json::{Value, json};

use crate::advice::{self, Class, ask_bytes};
use crate::store::{Access, ClassRow, ClassRun, Group, JobQuery, Store, StoreError, UsageRow};

pub use mail::{MailError, headers, last, text};
pub use week::Week;

/// The most classes named.
const NAMED: usize = 10;

/// The most names with jobs read singly: half by most unused memory, half for jobs that held more than requested.
const LOOKED_AT: usize = 2 * NAMED;

/// The owner of the jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Subject {
    /// The viewer's whole access.
    #[default]
    All,
    /// A user's jobs.
    User(String),
    /// A project's jobs.
    Project(String),
}

impl Subject {
    /// The user or the project, if either is named.
    ///
    /// # Errors
    /// When both are named.
    pub fn named(user: &str, project: &str) -> Result<Self, &'static str> {
        match (user.is_empty(), project.is_empty()) {
            (true, true) => Ok(Self::All),
            (false, true) => Ok(Self::User(user.to_owned())),
            (true, false) => Ok(Self::Project(project.to_owned())),
            (false, false) => Err("a user or a project: one of them is left empty"),
        }
    }
}

/// A user's jobs of a name and number of cores, with the advised request.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// The jobs' name.
    pub name: String,
    /// The jobs' user.
    pub user: String,
    /// Cores requested by each job.
    pub cores: u32,
    /// Number of jobs that ended well in the week.
    pub jobs: u64,
    /// Median of their memory requests, in bytes.
    pub claim_bytes: u64,
    /// The largest peak among the jobs that the advice uses, in bytes.
    pub held_bytes: u64,
    /// The advised request, in bytes.
    pub ask_bytes: u64,
    /// Memory that the week's jobs requested and never used, in GiB times hours.
    pub unused_gibh: f64,
}

/// The report of a week.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The reported week.
    pub week: Week,
    /// The owner of the jobs.
    pub subject: Subject,
    /// The sums of the week.
    pub now: UsageRow,
    /// The sums of the week before.
    pub before: UsageRow,
    /// Classes with the most unused memory, and their advised requests.
    pub asks: Vec<Ask>,
    /// Classes that request less than they need.
    pub short: Vec<Ask>,
    /// Classes with the most failures.
    pub failing: Vec<ClassRow>,
}

const NOTHING: UsageRow = UsageRow {
    name: None,
    jobs: 0,
    failed: 0,
    cpu_h: 0.0,
    idle_core_h: 0.0,
    claimed_gibh: 0.0,
    unused_gibh: 0.0,
    suspended_h: 0.0,
    queued_h: 0.0,
};

fn query(access: &Access, subject: &Subject, week: Week) -> JobQuery {
    let (since_us, until_us) = week.range_us();
    let (user, project) = match subject {
        Subject::All => (None, None),
        Subject::User(user) => (Some(user.clone()), None),
        Subject::Project(project) => (None, Some(project.clone())),
    };
    JobQuery {
        access: access.clone(),
        user,
        project,
        since_us: Some(since_us),
        until_us: Some(until_us),
        ..JobQuery::default()
    }
}

fn sum(rows: &[UsageRow]) -> UsageRow {
    rows.iter().fold(NOTHING, |sum, row| UsageRow {
        name: None,
        jobs: sum.jobs + row.jobs,
        failed: sum.failed + row.failed,
        cpu_h: sum.cpu_h + row.cpu_h,
        idle_core_h: sum.idle_core_h + row.idle_core_h,
        claimed_gibh: sum.claimed_gibh + row.claimed_gibh,
        unused_gibh: sum.unused_gibh + row.unused_gibh,
        suspended_h: sum.suspended_h + row.suspended_h,
        queued_h: sum.queued_h + row.queued_h,
    })
}

/// The classes of a name with requests in a week, each with the verdict on its requests.
fn asks(store: &Store, query: &JobQuery, name: &str, week: Week) -> Result<Vec<(Verdict, Ask)>, StoreError> {
    let (since_us, until_us) = week.range_us();
    let ask = |class: Class| {
        let of_week = || class.runs.iter().filter(|run| run.ended_us >= since_us);
        let claimed = || of_week().filter_map(|run| Some((run, run.claim_bytes.filter(|&claim| claim > 0)?)));
        let claim_bytes = middle(&claimed().map(|(_, claim)| claim).collect::<Vec<_>>())?;
        let unused =
            |(run, claim): (&ClassRun, u64)| gib(claim.saturating_sub(run.peak_bytes)) * run.wall_s / 3600.0;
        let ask = Ask {
            name: name.to_owned(),
            user: class.user.clone(),
            cores: class.cores,
            jobs: of_week().count() as u64,
            claim_bytes,
            held_bytes: class.advice.largest_bytes,
            ask_bytes: ask_bytes(&class.advice),
            unused_gibh: claimed().map(unused).sum(),
        };
        Some((class.advice.verdict(Some(claim_bytes)), ask))
    };
    Ok(advice::classes(store, name, query.clone(), until_us)?.into_iter().filter_map(ask).collect())
}

#[expect(clippy::cast_precision_loss, reason = "15 digits of a size are enough")]
fn gib(bytes: u64) -> f64 {
    bytes as f64 / 1_073_741_824.0
}

/// The report of a week.
///
/// # Errors
/// When the database refuses, or the time limit is reached.
pub fn report(store: &Store, access: &Access, subject: Subject, week: Week) -> Result<Report, StoreError> {
    let of = |week| store.usage(Group::All, &query(access, &subject, week)).map(|rows| sum(&rows));
    let (now, before) = (of(week)?, of(week.before())?);
    let classes = store.classes(&query(access, &subject, week))?.rows;
    let mut failing: Vec<ClassRow> = classes.iter().filter(|class| class.failed > 0).cloned().collect();
    failing.sort_by(|a, b| b.failed.cmp(&a.failed).then_with(|| a.name.cmp(&b.name)));
    failing.truncate(NAMED);
    let claimed = || classes.iter().filter(|class| class.claim_most_bytes.is_some());
    let short = claimed().filter(|class| Some(class.memory_peak_bytes.most) > class.claim_most_bytes);
    let names: BTreeSet<&str> =
        claimed().take(LOOKED_AT).chain(short.take(LOOKED_AT)).map(|class| class.name.as_str()).collect();
    let mut asked = Vec::new();
    for name in names {
        asked.extend(asks(store, &query(access, &subject, week), name, week)?);
    }
    asked.sort_by(|(_, a), (_, b)| b.unused_gibh.total_cmp(&a.unused_gibh));
    let of = |wanted| -> Vec<Ask> {
        asked
            .iter()
            .filter(|(verdict, _)| *verdict == wanted)
            .take(NAMED)
            .map(|(_, ask)| ask.clone())
            .collect()
    };
    let (asks, short) = (of(Verdict::TooMuch), of(Verdict::TooLittle));
    Ok(Report { week, subject, now, before, asks, short, failing })
}

/// Users or projects that had jobs in a week, which are the possible subjects of mails.
///
/// # Errors
/// When the database refuses, or the time limit is reached.
pub fn subjects(store: &Store, group: Group, week: Week) -> Result<BTreeSet<String>, StoreError> {
    let rows = store.usage(group, &query(&Access::All, &Subject::All, week))?;
    Ok(rows.into_iter().filter_map(|row| row.name).collect())
}

/// The report as JSON for programs.
#[must_use]
pub fn json(report: &Report) -> Value {
    let sums = |row: &UsageRow| {
        json!({ "jobs": row.jobs, "failed": row.failed, "cpu_h": row.cpu_h, "idle_core_h": row.idle_core_h,
            "claimed_gibh": row.claimed_gibh, "unused_gibh": row.unused_gibh, "suspended_h": row.suspended_h,
            "queued_h": row.queued_h })
    };
    let asks = |asks: &[Ask]| -> Vec<Value> {
        let one = |ask: &Ask| {
            json!({ "name": ask.name, "user": ask.user, "cores": ask.cores, "jobs": ask.jobs, "claim_p50_bytes": ask.claim_bytes, "held_bytes": ask.held_bytes,
                "ask_bytes": ask.ask_bytes, "unused_gibh": ask.unused_gibh })
        };
        asks.iter().map(one).collect()
    };
    let failing: Vec<Value> = report
        .failing
        .iter()
        .map(|class| json!({ "name": class.name, "jobs": class.jobs, "failed": class.failed }))
        .collect();
    let (user, project) = match &report.subject {
        Subject::All => (None, None),
        Subject::User(user) => (Some(user), None),
        Subject::Project(project) => (None, Some(project)),
    };
    json!({ "version": 1, "week": report.week.to_string(), "user": user, "project": project, "sums": sums(&report.now),
        "sums_before": sums(&report.before), "ask_less": asks(&report.asks), "ask_more": asks(&report.short), "failing": failing })
}
