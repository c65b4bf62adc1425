//! What a user's jobs use of what they ask for, over all classes: for a class that has no run yet.
//!
//! Users ask alike for all they run. From so many runs of one user on, the share of the request that these used, at the
//! risk asked for (split conformal prediction over shares), stands in for the class's own runs.

use std::collections::{BTreeMap, VecDeque};

use crate::retry::whole;
use crate::risk::wilson;
use crate::types::{Advice, Features, Row};

/// The last runs of a user that count, over all classes.
const RUNS_KEPT: usize = 200;
/// Least runs to say anything by.
const RUNS_MIN: usize = 20;
/// Users that are remembered.
const USERS_KEPT: usize = 4_096;

/// Shares of requests, user by user.
#[derive(Debug, Default)]
pub(crate) struct Users {
    shares: BTreeMap<u32, VecDeque<f64>>,
}

impl Users {
    pub(crate) fn observe(&mut self, row: &Row) {
        let (Some(user), Some(request)) = (row.features.user, row.features.request_bytes) else { return };
        if request == 0 || (self.shares.len() >= USERS_KEPT && !self.shares.contains_key(&user)) {
            return;
        }
        let shares = self.shares.entry(user).or_default();
        if shares.len() == RUNS_KEPT {
            shares.pop_front();
        }
        shares.push_back(row.peak_bytes as f64 / request as f64);
    }

    pub(crate) fn advise(&self, features: &Features, risk: f64) -> Option<Advice> {
        let request = features.request_bytes? as f64;
        let shares = self.shares.get(&features.user?).filter(|shares| shares.len() >= RUNS_MIN)?;
        let mut sorted: Vec<f64> = shares.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let above = (1..=n).rev().find(|&above| above as f64 <= risk * (n as f64 + 1.0))?;
        let share = sorted[n - above];
        Some(Advice {
            bytes: whole((request * share).min(request)),
            risk: above as f64 / (n as f64 + 1.0),
            interval: wilson((above - 1) as u64, n as u64),
            runs: n,
            why: format!("the class is new; by the share of the request that {n} runs of its user used"),
        })
    }
}
