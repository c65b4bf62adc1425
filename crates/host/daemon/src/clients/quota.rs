//! What one user may make the daemon hold: books by user of bytes and counts, each with its bound and its words.
//!
//! | what | bound of a user | beyond it |
//! | --- | --- | --- |
//! | connections | as many as are left for the next user, at first half of all | a new one is refused |
//! | bytes of replies that one connection has not read | [`UNREAD_MAX`] | nothing more is read from it |
//! | bytes of replies that all connections have not read | [`UNREAD_OF_USER_MAX`] | questions are refused |
//! | bytes of requests that were not sent whole, or not heard yet | [`UNHEARD_OF_USER_MAX`] | the connection is cut off |
//! | bytes of jobs that are not over | `access.max_jobs_size` | submissions are refused |
//! | bytes of jobs that are accepted while the store cannot be written | what is left for the next user then, at first half | submissions are refused |
//! | bytes of jobs that are over and wait for a store that cannot be written | [`ENDS_OF_USER_MAX`] | submissions are refused |
//! | bytes of kept starts | 16 times `access.max_jobs_size` | the job is not kept, and `why` says so |
//!
//! An eighth of the connections is for root and the daemon's own user; operators' jobs and starts are not bounded here.
//!
//! Absent here: places in the queue (`places`), and what requests cost (`cost`).

use std::collections::BTreeMap;

use pinfold_proto::JobSpec;
use pinfold_proto::quantity::show_size;
use pinfold_proto::wire::json_bytes;
use pinfold_sys::peer;
use pinfold_topo::CpuSet;

/// Bytes of replies that a connection may leave unread: until it has read half of them nothing more is read from it.
pub(crate) const UNREAD_MAX: usize = 1 << 20;

/// Bytes of replies that all connections of a user may leave unread before questions are refused.
pub(crate) const UNREAD_OF_USER_MAX: u64 = 16 << 20;

/// Bytes of requests of a user that were not sent whole, or not heard yet.
pub(crate) const UNHEARD_OF_USER_MAX: u64 = 32 << 20;

/// Bytes of jobs of a user that are over and wait for the store to be written, before submissions are refused.
pub(crate) const ENDS_OF_USER_MAX: u64 = 16 << 20;

/// All users together may have so many times what one may.
const USERS_FULL: u64 = 8;

/// Whether a user has a reserve of what others may use up: root, and the daemon's own user.
pub(crate) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == peer::own_uid()
}

/// How much of one thing each user has.
#[derive(Debug, Default)]
pub(crate) struct Book {
    by_user: BTreeMap<u32, u64>,
    all: u64,
}

impl Book {
    /// A user has so much more.
    pub(crate) fn add(&mut self, uid: u32, amount: u64) {
        *self.by_user.entry(uid).or_default() += amount;
        self.all += amount;
    }

    /// A user has so much less.
    pub(crate) fn take(&mut self, uid: u32, amount: u64) {
        let Some(own) = self.by_user.get_mut(&uid) else { return };
        let amount = amount.min(*own);
        *own -= amount;
        self.all -= amount;
        if *own == 0 {
            self.by_user.remove(&uid);
        }
    }

    /// What a user has.
    pub(crate) fn own(&self, uid: u32) -> u64 {
        self.by_user.get(&uid).copied().unwrap_or(0)
    }

    /// What all users have together.
    pub(crate) fn all(&self) -> u64 {
        self.all
    }

    /// Whether a user may have so much more, where one may have `most`: and no more than is left for the next user then.
    pub(crate) fn has_room(&self, uid: u32, amount: u64, most: u64) -> bool {
        let own = self.own(uid).saturating_add(amount);
        let left = most.saturating_mul(USERS_FULL).saturating_sub(self.all);
        own <= most && own <= left.max(most / USERS_FULL)
    }
}

/// Whether a user with `own` connections may have one more, where there are `all` and may be `most`; `reserve` of them are
/// for those who are trusted.
pub(crate) fn has_connection(own: u64, all: u64, most: u64, reserve: u64, is_trusted: bool) -> bool {
    let free = most.saturating_sub(if is_trusted { 0 } else { reserve }).saturating_sub(all);
    free > 0 && (own == 0 || own < free)
}

/// Connections of a user that keep no job may be so many at least, where there may be enough: for questions, and to cancel.
const BRIEF: u64 = 8;

/// Whether one more connection of a user may keep jobs, which it may do for long: `keeping` of `own` do so far, and the others
/// are brief. As [`has_connection`] else.
pub(crate) fn may_keep(keeping: u64, own: u64, all: u64, most: u64, reserve: u64, is_trusted: bool) -> bool {
    let beside = BRIEF.min(most / 16);
    let all = all.saturating_sub(own).saturating_add(keeping + beside);
    keeping == 0 || has_connection(keeping + beside, all, most, reserve, is_trusted)
}

/// The words for a connection that is one too many.
pub(crate) const TOO_MANY: &str = "too many connections; wait for some jobs to end";

/// Whether a user with `own` bytes of a room may have so many more, where all have `all` and may have `most`: no more than
/// are left for the next user then. `reserve` of them are for those who are trusted, who need leave nothing.
pub(crate) fn has_place(own: u64, amount: u64, all: u64, most: u64, reserve: u64, is_trusted: bool) -> bool {
    let free = most.saturating_sub(if is_trusted { 0 } else { reserve }).saturating_sub(all);
    let left = free.saturating_sub(amount);
    amount <= free && (is_trusted || own.saturating_add(amount) <= left)
}

/// Kept starts lie on disk alone, and may take so many times what jobs may.
pub(crate) const STARTS_FACTOR: u64 = 16;

/// What is counted for each job beside what was asked for.
const JOB_BYTES: u64 = 1024;

/// What each job counts that another must wait for.
const PREDECESSOR_BYTES: u64 = 32;

/// What a job takes of the daemon's memory and, as much again, of its store, as long as it is not over: what was asked
/// for, the jobs that it waits for, and sets of PUs by the highest of each.
pub(crate) fn job_bytes(spec: &JobSpec, predecessors: usize) -> u64 {
    let layout = spec.layout.as_ref().and_then(|layout| layout.cpus.as_deref());
    let given = spec.allocation.as_ref().and_then(|given| given.cpus.as_deref());
    let sets = layout.into_iter().chain(given).filter_map(|text| text.parse::<CpuSet>().ok()?.last());
    let sets: u64 = sets.map(|last| u64::from(last.0) / 4).sum();
    let predecessors = (predecessors as u64).saturating_mul(PREDECESSOR_BYTES);
    JOB_BYTES + json_bytes(spec) + sets + predecessors
}

/// The words for jobs that would take too much.
pub(crate) fn jobs_too_large(own: u64, most: u64) -> String {
    let text = format!("jobs of yours that are not over take {} already", show_size(own));
    format!("{text}, and {} are the most for one user (`access.max_jobs_size`)", show_size(most))
}

/// The words for a start that is not kept.
pub(crate) fn starts_too_large(own: u64, most: u64) -> String {
    let text =
        format!("it will not come back if the host is restarted: your jobs keep {} for that", show_size(own));
    format!("{text} already, and {} are the most (16 times `access.max_jobs_size`)", show_size(most))
}

/// The words for a question whose answer would only be one more that is not read.
pub(crate) fn unread(own: u64) -> String {
    let text = format!("{} of answers to other questions of yours wait to be read", show_size(own));
    format!("{text}, and {} are the most; read them, or end who asked", show_size(UNREAD_OF_USER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn books_balance() {
        let mut book = Book::default();
        book.add(1, 5);
        book.add(2, 7);
        book.take(1, 2);
        assert_eq!((book.own(1), book.own(2), book.own(3), book.all()), (3, 7, 0, 10));
        book.take(1, 9);
        assert_eq!((book.own(1), book.all(), book.by_user.len()), (0, 7, 1));
        assert!(book.has_room(2, 3, 10) && !book.has_room(2, 4, 10) && book.has_room(3, 10, 10));
    }

    /// However many users take all that they can get, the next one has some.
    #[test]
    fn users_leave_room_for_the_next() {
        let (mut book, most) = (Book::default(), 800);
        for uid in 0..50 {
            while book.has_room(uid, 10, most) {
                book.add(uid, 10);
            }
            assert!(book.own(uid) >= most / USERS_FULL, "{uid}: {}", book.own(uid));
        }
        assert!(book.all() <= most * (USERS_FULL + 7), "{}", book.all());
    }

    /// However many users take all of a room that they can get, the next ones have some, and root has.
    #[test]
    fn places_in_a_room_are_left() {
        let (most, reserve, mut all) = (800, 100, 0);
        let mut got = Vec::new();
        for _ in 0..20 {
            let mut own = 0;
            while has_place(own, 10, all, most, reserve, false) {
                (own, all) = (own + 10, all + 10);
            }
            got.push(own);
        }
        assert_eq!(got[..5], [350, 170, 90, 40, 20]);
        assert!(
            !has_place(0, 400, 0, most, reserve, false),
            "one thing alone takes no more than half either"
        );
        assert!(all <= most - reserve && has_place(90, 100, all, most, reserve, true));
        assert!(!has_place(0, most - all + 1, all, most, reserve, true));
    }

    /// However many users take all connections that they can get, root has some left.
    #[test]
    fn connections_are_left() {
        let (most, reserve) = (1024, 128);
        let mut all = 0;
        let mut got = Vec::new();
        for _ in 0..20 {
            let mut own = 0;
            while has_connection(own, all, most, reserve, false) {
                (own, all) = (own + 1, all + 1);
            }
            got.push(own);
        }
        assert!(got[0] <= (most - reserve).div_ceil(2) && got[1] >= 200 && got[8] > 0, "{got:?}");
        assert!(all <= most - reserve && has_connection(0, all, most, reserve, true));
        assert!(has_connection(60, all + 60, most, reserve, true), "more than one");
    }

    /// However many connections of a user keep jobs, it has some for questions, and the next user has room for jobs.
    #[test]
    fn those_that_keep_jobs_leave_some() {
        for (most, reserve) in [(64, 8), (1024, 128)] {
            for is_trusted in [false, true] {
                let mut keeping = 0;
                while may_keep(keeping, keeping + 1, keeping + 1, most, reserve, is_trusted) {
                    keeping += 1;
                }
                let mut own = keeping;
                while has_connection(own, own, most, reserve, is_trusted) {
                    own += 1;
                }
                assert!(keeping >= most / 4 && own - keeping == 8.min(most / 16), "{keeping} of {own}");
                // Brief ones, as many as there are, keep nobody from submitting.
                assert!(may_keep(keeping - 1, own, own, most, reserve, is_trusted));
                assert!(may_keep(0, 1, own + 1, most, reserve, is_trusted));
            }
        }
    }
}
