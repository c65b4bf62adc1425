//! Memory of job classes over hosts trusted about users: rows of a table for hosts. Absent here: signatures.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use pinfold_advise::{Peak, Peaks};
use pinfold_proto::learned::{self, CLASS_BYTES, EVERYBODY, ROWS_MAX, Row};
use pinfold_proto::voucher::hex;
use sha2::{Digest as _, Sha256};

use super::db::{DbError, values};
use super::failed::SUCCEEDED;
use super::{Store, StoreError};

/// The most jobs read, the last by end.
const JOBS_MAX: u32 = 300_000;

/// The fewest runs of a class in the table.
pub const RUNS_MIN: usize = 3;

/// The scope in which jobs inform about each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// A user's jobs inform about the same user's jobs.
    Users,
    /// All users' jobs also inform about all users' jobs, by their hosts' own measurements.
    Site,
}

#[derive(Default)]
struct Class {
    /// Peaks, the latest first.
    peaks: Vec<u64>,
    hosts: BTreeSet<i64>,
}

impl Class {
    fn add(&mut self, host: i64, peak: u64) {
        self.peaks.push(peak);
        self.hosts.insert(host);
    }

    fn row(&self, class: &[u8]) -> Option<Row> {
        if self.peaks.len() < RUNS_MIN {
            return None;
        }
        let mut peaks = Peaks::default();
        self.peaks.iter().rev().for_each(|&peak| peaks.observe(Peak::of(peak)));
        let expected = peaks.expected(None);
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Some(Row {
            class: hex(&class[..CLASS_BYTES]),
            runs: count(self.peaks.len()),
            hosts: count(self.hosts.len()),
            held_p50_bytes: expected.p50_held_bytes,
            held_p99_bytes: expected.p99_held_bytes,
        })
    }
}

impl Store {
    /// Classes of jobs that ended well since then, and not later than a day from now, on these hosts, `*` for all: the
    /// classes with the most runs.
    ///
    /// # Errors
    /// When the database refuses, or the time limit is reached.
    pub fn learned(&self, hosts: &[String], whose: Whose, since_us: u64) -> Result<Vec<Row>, StoreError> {
        self.learned_within(hosts, whose, since_us, JOBS_MAX)
    }

    /// [`Self::learned`] from this many last jobs of these hosts.
    ///
    /// # Errors
    /// As [`Self::learned`].
    pub fn learned_within(
        &self,
        hosts: &[String],
        whose: Whose,
        since_us: u64,
        jobs_max: u32,
    ) -> Result<Vec<Row>, StoreError> {
        let all = hosts.iter().any(|host| host == "*");
        let mut classes: BTreeMap<Vec<u8>, Class> = BTreeMap::new();
        self.read("learn from jobs", |connection| {
            let find = "SELECT id, name FROM hosts";
            let known = connection.all(find, &[], |row| Ok((row.get::<i64>(0)?, row.get::<String>(1)?)))?;
            let believed: Vec<String> = known
                .into_iter()
                .filter(|(_, name)| all || hosts.contains(name))
                .map(|(id, _)| id.to_string())
                .collect();
            // Jobs of untrusted hosts do not count even toward the bound, which a lying host could exhaust alone.
            let of_hosts = match (all, believed.is_empty()) {
                (true, _) => String::new(),
                (false, true) => return Ok(()),
                (false, false) => format!("AND host IN ({})", believed.join(", ")),
            };
            let text = format!(
                "SELECT host, \"user\", likeness, memory_peak_bytes, measured_bytes FROM jobs WHERE {SUCCEEDED} AND \
                 started_us IS NOT NULL AND likeness IS NOT NULL AND memory_peak_bytes > 0 AND ended_us >= ?1 \
                 AND ended_us < ?2 {of_hosts} \
                 ORDER BY ended_us DESC LIMIT {jobs_max}"
            );
            connection.each(&text, &values![since_us, super::latest_us()], &mut |row| {
                let host: i64 = row.get(0)?;
                let (user, likeness): (&str, &[u8]) = (row.get(1)?, row.get(2)?);
                let (held, measured): (u64, Option<u64>) = (row.get(3)?, row.get(4)?);
                if user != EVERYBODY {
                    // A reported peak counts up to the measured peak, if there is a measurement.
                    let held = measured.map_or(held, |measured| held.min(measured)).max(1);
                    classes.entry(class_of(likeness, user)).or_default().add(host, held);
                }
                if let (Whose::Site, Some(measured)) = (whose, measured.filter(|&bytes| bytes > 0)) {
                    classes.entry(class_of(likeness, EVERYBODY)).or_default().add(host, held.min(measured).max(1));
                }
                Ok::<_, DbError>(ControlFlow::Continue(()))
            })
        })?;
        let mut rows: Vec<Row> = classes.iter().filter_map(|(class, runs)| runs.row(class)).collect();
        rows.sort_by(|a, b| b.runs.cmp(&a.runs).then_with(|| a.class.cmp(&b.class)));
        rows.truncate(ROWS_MAX);
        // An order that hides how often classes run.
        rows.sort_by(|a, b| a.class.cmp(&b.class));
        Ok(rows)
    }
}

/// The class of a user's jobs with this similarity key.
#[must_use]
pub fn class_of(likeness: &[u8], user: &str) -> Vec<u8> {
    Sha256::digest(learned::of_user(likeness, user)).to_vec()
}
