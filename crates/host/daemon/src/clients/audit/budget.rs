//! How much of what users do to their own jobs is written one by one: a budget for each user, and one for all. What is
//! beyond it is counted, and the count is written once there is room in the budget again.
//!
//! So much grows the audit by this at most: the shared budget's records, each as long as its words may be.

use std::collections::BTreeMap;

use super::Act;

/// Acts of one user that are written one after the other,
const USER_BURST: f64 = 60.0;
/// and how many more come each second.
const USER_PER_S: f64 = 1.0 / 60.0;
/// The same of all users together.
const ALL_BURST: f64 = 600.0;
const ALL_PER_S: f64 = 1.0 / 15.0;
/// Users that are told apart.
const USERS_MAX: usize = 4_096;

/// So many records may be written now, as of then.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    holds: f64,
    at_s: f64,
}

impl Bucket {
    fn full(burst: f64, at_s: f64) -> Self {
        Self { holds: burst, at_s }
    }

    fn fill(&mut self, burst: f64, per_s: f64, now_s: f64) {
        // The clock may be set back.
        let passed = (now_s - self.at_s).max(0.0);
        self.holds = (self.holds + passed * per_s).min(burst);
        self.at_s = now_s;
    }

    fn has_one(self) -> bool {
        self.holds >= 1.0
    }
}

/// What is known of one user.
#[derive(Debug)]
struct Own {
    bucket: Bucket,
    name: String,
    /// Acts that were only counted, by what was done.
    counted: BTreeMap<String, u64>,
}

/// See the module's page.
#[derive(Debug)]
pub(super) struct Budget {
    all: Bucket,
    users: BTreeMap<u32, Own>,
    owing: usize,
}

impl Budget {
    pub(super) fn new(now_s: f64) -> Self {
        Self { all: Bucket::full(ALL_BURST, now_s), users: BTreeMap::new(), owing: 0 }
    }

    /// Whether this act is to be written; else it is counted.
    pub(super) fn take(&mut self, act: &Act) -> bool {
        self.all.fill(ALL_BURST, ALL_PER_S, act.time_s);
        if self.users.len() >= USERS_MAX && !self.users.contains_key(&act.uid) {
            // Those who have their whole budget again need not be remembered.
            self.users.retain(|_, own| {
                own.bucket.fill(USER_BURST, USER_PER_S, act.time_s);
                own.bucket.holds < USER_BURST || !own.counted.is_empty()
            });
        }
        let own = self.users.entry(act.uid).or_insert_with(|| Own {
            bucket: Bucket::full(USER_BURST, act.time_s),
            name: act.user.clone(),
            counted: BTreeMap::new(),
        });
        own.bucket.fill(USER_BURST, USER_PER_S, act.time_s);
        if own.counted.is_empty() && own.bucket.has_one() && self.all.has_one() {
            own.bucket.holds -= 1.0;
            self.all.holds -= 1.0;
            return true;
        }
        self.owing += usize::from(own.counted.is_empty());
        *own.counted.entry(act.action.clone()).or_default() += 1;
        false
    }

    /// Whether something is counted that is not written.
    pub(super) fn owes(&self) -> bool {
        self.owing > 0
    }

    /// The counts for which there is room in the budget now.
    pub(super) fn due(&mut self, now_s: f64) -> Vec<Act> {
        if self.owing == 0 {
            return Vec::new();
        }
        self.all.fill(ALL_BURST, ALL_PER_S, now_s);
        self.counts(now_s, false)
    }

    /// All counts, whatever the budget says.
    pub(super) fn rest(&mut self, now_s: f64) -> Vec<Act> {
        self.counts(now_s, true)
    }

    fn counts(&mut self, now_s: f64, all: bool) -> Vec<Act> {
        let mut due = Vec::new();
        for (&uid, own) in self.users.iter_mut().filter(|(_, own)| !own.counted.is_empty()) {
            own.bucket.fill(USER_BURST, USER_PER_S, now_s);
            if !all && (!own.bucket.has_one() || !self.all.has_one()) {
                continue;
            }
            own.bucket.holds -= 1.0;
            self.all.holds -= 1.0;
            self.owing -= 1;
            let counted = std::mem::take(&mut own.counted);
            let words: Vec<String> =
                counted.iter().map(|(action, count)| format!("{action} {count}")).collect();
            let detail = format!("more that concerns own jobs alone, by number: {}", words.join(", "));
            due.push(Act { time_s: now_s, uid, user: own.name.clone(), action: "own".to_owned(), detail });
        }
        due
    }
}
