//! What a week was like for a user, a project or all: what was claimed in vain, what failed, and what to ask for next
//! time. The same as a page and as the text of a mail. Absent here: sending it, which is for the site's own mail.

mod mail;
mod week;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::store::{Access, ClassRow, Group, JobQuery, Store, StoreError, UsageRow};

pub use mail::{MailError, headers, last, text};
pub use week::Week;

/// Classes that are named.
const NAMED: usize = 10;

/// Fewer jobs say too little of what to ask for.
const JOBS_MIN: u64 = 3;

/// From so many jobs on the p99 is known; of fewer the largest counts.
const P99_FROM: u64 = 100;

/// What is advised above the peak, and below which part of the claim that is worth saying.
const HEADROOM: f64 = 1.2;
const WORTH: f64 = 0.7;

/// Sizes that are advised are whole MiB, as those of `pinfold advise`.
const STEP_BYTES: f64 = 1_048_576.0;

/// Of whose jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Subject {
    /// All that may be seen.
    #[default]
    All,
    /// A user's.
    User(String),
    /// A project's.
    Project(String),
}

impl Subject {
    /// Of this user or of this project, if one of them is named.
    ///
    /// # Errors
    /// When both are.
    pub fn named(user: &str, project: &str) -> Result<Self, &'static str> {
        match (user.is_empty(), project.is_empty()) {
            (true, true) => Ok(Self::All),
            (false, true) => Ok(Self::User(user.to_owned())),
            (true, false) => Ok(Self::Project(project.to_owned())),
            (false, false) => Err("a user or a project: one of them is left empty"),
        }
    }
}

/// What to ask for next time.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// The class.
    pub name: String,
    /// Jobs of the week.
    pub jobs: u64,
    /// What half of them claimed up to, in bytes.
    pub claim_bytes: f64,
    /// The most that one of them claimed.
    pub claim_most_bytes: f64,
    /// The most that they held: the p99 of many, else the largest.
    pub held_bytes: f64,
    /// What to ask for.
    pub ask_bytes: f64,
    /// Memory claimed and never used, in GiB times hours.
    pub unused_gibh: f64,
}

/// A week.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Which.
    pub week: Week,
    /// Of whose jobs.
    pub subject: Subject,
    /// The sums.
    pub now: UsageRow,
    /// Those of the week before.
    pub before: UsageRow,
    /// Classes with the most memory claimed in vain, and what to ask for.
    pub asks: Vec<Ask>,
    /// Classes that held more than they claimed.
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

/// What a class should ask for; `None`: too few jobs, or none claimed memory.
fn ask(class: &ClassRow) -> Option<Ask> {
    let claim_bytes = class.claim_p50_bytes.filter(|claim| *claim > 0.0 && class.jobs >= JOBS_MIN)?;
    let peaks = &class.memory_peak_bytes;
    let held_bytes = if class.jobs >= P99_FROM { peaks.p99 } else { peaks.most };
    let ask_bytes = (held_bytes * HEADROOM / STEP_BYTES).ceil().max(1.0) * STEP_BYTES;
    let (name, jobs, unused_gibh) = (class.name.clone(), class.jobs, class.unused_gibh);
    let claim_most_bytes = class.claim_most_bytes.unwrap_or(claim_bytes);
    Some(Ask { name, jobs, claim_bytes, claim_most_bytes, held_bytes, ask_bytes, unused_gibh })
}

/// The report of a week.
///
/// # Errors
/// When the database refuses, or it takes too long.
pub fn report(store: &Store, access: &Access, subject: Subject, week: Week) -> Result<Report, StoreError> {
    let of = |week| store.usage(Group::All, &query(access, &subject, week)).map(|rows| sum(&rows));
    let (now, before) = (of(week)?, of(week.before())?);
    let classes = store.classes(&query(access, &subject, week))?.rows;
    let mut failing: Vec<ClassRow> = classes.iter().filter(|class| class.failed > 0).cloned().collect();
    failing.sort_by(|a, b| b.failed.cmp(&a.failed).then_with(|| a.name.cmp(&b.name)));
    failing.truncate(NAMED);
    let asked = || classes.iter().filter_map(ask);
    let asks = asked().filter(|ask| ask.ask_bytes < ask.claim_bytes * WORTH).take(NAMED).collect();
    // Claims of one class may differ: only one that is above each of them was not covered for certain.
    let short = asked().filter(|ask| ask.held_bytes > ask.claim_most_bytes * 1.05).take(NAMED).collect();
    Ok(Report { week, subject, now, before, asks, short, failing })
}

/// Users, or projects, that had jobs in a week: for whom there is something to say.
///
/// # Errors
/// When the database refuses, or it takes too long.
pub fn subjects(store: &Store, group: Group, week: Week) -> Result<BTreeSet<String>, StoreError> {
    let rows = store.usage(group, &query(&Access::All, &Subject::All, week))?;
    Ok(rows.into_iter().filter_map(|row| row.name).collect())
}

/// For programs.
#[must_use]
pub fn json(report: &Report) -> Value {
    let sums = |row: &UsageRow| {
        json!({ "jobs": row.jobs, "failed": row.failed, "cpu_h": row.cpu_h, "idle_core_h": row.idle_core_h,
            "claimed_gibh": row.claimed_gibh, "unused_gibh": row.unused_gibh, "suspended_h": row.suspended_h,
            "queued_h": row.queued_h })
    };
    let asks = |asks: &[Ask]| -> Vec<Value> {
        let one = |ask: &Ask| {
            json!({ "name": ask.name, "jobs": ask.jobs, "claim_p50_bytes": ask.claim_bytes, "held_bytes": ask.held_bytes,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Spread;

    #[test]
    fn what_to_ask_for_is_a_fifth_more_in_whole_mib() {
        let check = |held_bytes: f64, mebibytes: f64| {
            let class = ClassRow {
                name: "align".to_owned(),
                hosts: 1,
                jobs: JOBS_MIN,
                failed: 0,
                wall_s: Spread::default(),
                memory_peak_bytes: Spread { most: held_bytes, ..Spread::default() },
                claim_p50_bytes: Some(1e9),
                claim_most_bytes: None,
                cores_used_part: 0.0,
                unused_gibh: 0.0,
                suspended_h: 0.0,
            };
            assert_eq!(ask(&class).map(|ask| ask.ask_bytes), Some(mebibytes * 1_048_576.0), "{held_bytes}");
        };
        check(0.0, 1.0);
        check(327_680.0, 1.0);
        check(55.2 * 1_048_576.0, 67.0);
        check(1_073_741_824.0, 1_229.0);
    }
}
