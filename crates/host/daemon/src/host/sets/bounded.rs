//! Reservations of users who are no operators: how much one user may reserve, and when it is given back.
//!
//! Such a user gets idle cores by their number alone, at most a fair share of the host, and none while a job of another
//! user waits for cores. The set goes when it was not used for its hold time; when it is older than [`HOLD_MAX_US`] and
//! others wait, it takes no more jobs. What an operator set aside has none of these bounds. Owns how many sets each user
//! made lately. Isolated jobs count against the same share. Absent: the sets themselves, which are the parent's.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_policy::{FrozenBy, JobId, Policy, State};
use pinfold_proto::config::Config;
use pinfold_proto::row::JobRow;
use pinfold_proto::view::SetKind;
use pinfold_proto::wire::{ErrorCode, SetAside};
use pinfold_sys::peer::Peer;
use pinfold_topo::CpuSet;

use super::{HOLD_US, Set};
use crate::clients::rights;
use crate::core::{Ctx, Next, Outbox, Refusal, denied};
use crate::host::sets::{self, Sets};
use crate::jobs::{JobRecord, JobTable};

/// The longest hold time of a set without a job. A set that is older takes no more jobs while others wait.
const HOLD_MAX_US: u64 = 600_000_000;
/// So many sets of idle cores a user has at most.
const USER_SETS_MAX: usize = 4;
/// So many users a set names at most: each is looked up whenever a job asks for the set.
const USERS_MAX: usize = 16;
/// So many sets a user makes within a minute at most: each is written to disk.
const MADE_MAX: u32 = 30;
const MINUTE_US: u64 = 60_000_000;
/// A set with jobs in it is looked at so often, in microseconds: not more often, whatever its hold time is,
const LOOK_MIN_US: u64 = 1_000_000;
/// and not less often, to see whether others wait.
const LOOK_MAX_US: u64 = 60_000_000;

/// Why a set takes no more jobs.
pub(super) const RETIRED: &str =
    "the set is given back, for it is older than 10m and jobs of other users wait for cores";

/// How many sets each user made in the present minute.
#[derive(Debug, Default)]
pub(super) struct Rate {
    since_us: u64,
    made: BTreeMap<u32, u32>,
}

impl Rate {
    /// Counts one more; `false`: that would be too many.
    fn count(&mut self, uid: u32, now_us: u64) -> bool {
        if now_us.saturating_sub(self.since_us) >= MINUTE_US {
            *self = Self { since_us: now_us, made: BTreeMap::new() };
        }
        let made = self.made.entry(uid).or_default();
        *made += 1;
        *made <= MADE_MAX
    }
}

/// What the jobs that name a set do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    Nothing,
    Waits,
    Runs,
}

/// Whether a set goes now, or else when it is looked at next; with when it was used last.
fn stays(set: &Set, used: Use, now_us: u64) -> Option<(u64, u64)> {
    let hold_us = set.hold_us?;
    let end_us = match used {
        Use::Runs => {
            let look_us = now_us.saturating_add(hold_us.clamp(LOOK_MIN_US, LOOK_MAX_US));
            return Some((now_us, look_us));
        }
        // A job that cannot start for another reason, as memory, does not hold cores for ever.
        Use::Waits => set.used_us.saturating_add(hold_us.max(HOLD_MAX_US)),
        Use::Nothing => set.used_us.saturating_add(hold_us),
    };
    (end_us > now_us).then_some((set.used_us, end_us.min(now_us.saturating_add(LOOK_MAX_US))))
}

/// The cores that a user may reserve of `cores`, where so many users have jobs, itself included: an even part, and one
/// at least.
fn share(cores: usize, active: usize) -> usize {
    (cores / active.max(1)).max(1)
}

/// The most of so many cores that a set of idle ones has, and why.
fn most_idle(cores: usize, operator: bool) -> (usize, &'static str) {
    match operator {
        true => (cores.saturating_sub(1), "one is left for jobs outside of it"),
        false => (share(cores, 2).min(cores.saturating_sub(1)), "a user's share is half of them"),
    }
}

/// Whether a user may ask for such a set at all. Nothing is looked up for one that may not.
pub(crate) fn may_ask(config: &Config, user: Peer, asked: &SetAside) -> Result<(), Refusal> {
    if asked.name.is_some() && !rights::is_operator(config, user) {
        return Err(denied("setting cores aside is for operators (`access.operators`)"));
    }
    if asked.name.is_none() && !rights::may_have_the_host(config, user) {
        return Err(denied("idle cores are for operators and the users in `access.exclusive`"));
    }
    if asked.name.is_none() { check(config, user, asked) } else { Ok(()) }
}

/// Checks what a user asks for; `Ok` for operators.
fn check(config: &Config, user: Peer, asked: &SetAside) -> Result<(), Refusal> {
    if rights::is_operator(config, user) {
        return Ok(());
    }
    if asked.cpus.is_some() {
        return Err(denied(
            "PUs are named by operators; users ask for a number of idle cores (`set-aside --idle --cores N`)",
        ));
    }
    if asked.memory_bytes.is_some() {
        return Err(denied("memory is set aside by operators; a job claims its own (`--mem`)"));
    }
    if asked.shared || asked.housekeeping {
        return Err(denied("sets that are shared or for the host itself are made by operators"));
    }
    if asked.hold_us.is_some_and(|hold_us| hold_us > HOLD_MAX_US) {
        let most = HOLD_MAX_US / MINUTE_US;
        return Err(denied(&format!(
            "--hold: idle cores are held without a job for at most {most}m; longer is for operators"
        )));
    }
    if asked.users.len() > USERS_MAX {
        return Err(denied(&format!("--users: a set of idle cores names at most {USERS_MAX} users")));
    }
    Ok(())
}

impl Sets {
    /// Whether a user who is no operator may reserve these idle cores now; `false`: others need them.
    ///
    /// # Errors
    ///
    /// The user has as many sets or cores as one may have.
    pub(super) fn may_reserve(
        &mut self,
        ctx: &Ctx,
        table: &JobTable,
        user: Peer,
        cpus: &CpuSet,
        now_us: u64,
    ) -> Result<bool, Refusal> {
        let refuse = |text: String| Err((ErrorCode::Refused, text));
        let own = self.iter().filter(|set| set.bounded && set.owner_uid == user.uid).count();
        if own >= USER_SETS_MAX {
            return refuse(format!("you have {own} sets of idle cores, and {USER_SETS_MAX} are allowed"));
        }
        let (cores, wanted) = (self.cores_for_users(ctx), ctx.topology.cores_within(cpus).len());
        // Half of the host at most lies idle for one user.
        let allowed = share(cores, active_users(&ctx.policy, table, user.uid).max(2));
        let reserved = self.reserved_by(ctx, user.uid);
        if reserved + wanted > allowed {
            return refuse(format!(
                "you have reserved {reserved} cores, and {allowed} of {cores} are your share while others use the host"
            ));
        }
        let (used, slots) = ctx.policy.slots();
        let left = ctx.policy.machine().cores.len();
        let others_keep_their_slots = used * left <= slots * left.saturating_sub(wanted);
        if !others_keep_their_slots || others_wait(&ctx.policy, table, user.uid) {
            return Ok(false);
        }
        if !self.rate.count(user.uid, now_us) {
            return refuse(format!("you made {MADE_MAX} sets within a minute; use one that you have"));
        }
        Ok(true)
    }

    /// Why this host never has so many idle cores for a set of this user's, whatever its jobs do; `None`: it may have.
    pub(crate) fn never_idle(&self, ctx: &Ctx, user: Peer, asked: &SetAside) -> Option<String> {
        let wanted = asked.cores.filter(|_| asked.name.is_none())? as usize;
        // All that are there: sets go, and so do the daemons of other users.
        let cores = ctx.topology.cores_within(&sets::usable_in_time(ctx)).len();
        let (most, why) = most_idle(cores, rights::is_operator(&ctx.configured.config, user));
        (wanted > most).then(|| {
            format!("--cores {wanted}: at most {most} of this host's {cores} cores can be idle ones in a set; {why}")
        })
    }

    /// Whether a user may have so many cores for an isolated job now. One such job each user may always have; what is
    /// more is within the user's share.
    pub(crate) fn may_isolate(&self, ctx: &Ctx, table: &JobTable, uid: u32, cores: u32) -> bool {
        let operator = rights::is_operator(&ctx.configured.config, Peer { pid: 0, uid });
        let reserved = self.reserved_by(ctx, uid);
        let allowed = || share(self.cores_for_users(ctx), active_users(&ctx.policy, table, uid));
        operator || reserved == 0 || reserved + cores as usize <= allowed()
    }

    /// The cores that are in sets which this user made, or in those of its isolated jobs.
    fn reserved_by(&self, ctx: &Ctx, uid: u32) -> usize {
        let is_own = |set: &&Set| set.owner_uid == uid && (set.bounded || set.kind == SetKind::Isolated);
        self.iter().filter(is_own).map(|set| ctx.topology.cores_within(&set.cpus).len()).sum()
    }

    /// The cores that no operator set aside.
    fn cores_for_users(&self, ctx: &Ctx) -> usize {
        let is_fixed = |set: &&Set| set.is_kept() && !set.bounded && set.kind != SetKind::Isolated;
        let fixed = self.iter().filter(is_fixed).fold(CpuSet::new(), |all, set| all.union(&set.cpus));
        ctx.topology.cores_within(&sets::usable_in_time(ctx).difference(&fixed)).len()
    }

    /// When a set of idle cores is looked at next.
    pub(crate) fn sets_due_us(&self) -> Option<u64> {
        let due = |set: &Set| set.hold_us.map(|hold_us| set.look_us.max(set.used_us.saturating_add(hold_us)));
        self.iter().filter_map(due).min()
    }

    /// Gives back idle cores that nobody used for long enough, and those that others wait for.
    pub(crate) fn on_sets_due(&mut self, ctx: &Ctx, out: &mut Outbox, table: &JobTable) {
        let now_us = ctx.clock.now_us();
        let due: Vec<String> =
            self.iter().filter(|set| set.hold_us.is_some()).map(|set| set.name.clone()).collect();
        let mut gone = Vec::new();
        for name in due {
            let Some(set) = self.named(&name) else { continue };
            if is_retiring(ctx, table, set) {
                strike_waiting(out, table, &name);
            }
            let used = self.use_of(&ctx.policy, table, &name);
            let Some(set) = self.sets.iter_mut().find(|set| set.name == name) else { continue };
            match stays(set, used, now_us) {
                Some((used_us, look_us)) => (set.used_us, set.look_us) = (used_us, look_us),
                None => gone.push(name),
            }
        }
        if !gone.is_empty() {
            tracing::info!(sets = ?gone, "idle cores that nobody used are for all jobs again");
            self.remove_where(out, |set| gone.contains(&set.name));
        }
    }

    /// A job that named a set is over: the set is looked at, and if the job ran, its hold time begins now.
    pub(crate) fn job_left(&mut self, ctx: &Ctx, row: &JobRow) {
        let Some(name) = row.spec.layout.as_ref().and_then(|layout| layout.set.as_ref()) else { return };
        let now_us = ctx.clock.now_us();
        if let Some(set) = self.sets.iter_mut().find(|set| set.name == *name) {
            set.look_us = 0;
            set.used_us = if row.started_us.is_some() { now_us } else { set.used_us };
        }
    }

    /// What the jobs do that name a set. Of a user's set those count that run or can run: neither a held job nor one that
    /// its user suspended keeps cores from others.
    fn use_of(&self, policy: &Policy, table: &JobTable, name: &str) -> Use {
        let bounded = self.named(name).is_some_and(|set| set.bounded);
        let of = |job: u64| match table.get(&JobId(job)) {
            Some(_) if !bounded => Use::Runs,
            Some(live) if live.has_started() && !is_suspended(policy, live.id()) => Use::Runs,
            Some(live) if !live.has_started() && (live.granted || policy.waits_for_cores(live.id())) => {
                Use::Waits
            }
            _ => Use::Nothing,
        };
        sets::jobs_in(table, name).map(of).max().unwrap_or(Use::Nothing)
    }

    /// Sets of idle cores that an earlier daemon left, made before there were bounds or by a user who is no operator any
    /// more, have the bounds of today.
    pub(crate) fn bound_sets(&mut self, ctx: &Ctx) {
        let config = &ctx.configured.config;
        for set in self.sets.iter_mut().filter(|set| set.kind == SetKind::Idle) {
            set.bounded = !rights::is_operator(config, Peer { pid: 0, uid: set.owner_uid });
            if set.bounded {
                set.memory_bytes = 0;
                set.users.truncate(USERS_MAX);
                set.hold_us = Some(set.hold_us.unwrap_or(HOLD_US).min(HOLD_MAX_US));
            }
        }
    }
}

/// How many users have jobs that run or wait for cores, and this one.
fn active_users(policy: &Policy, table: &JobTable, uid: u32) -> usize {
    let is_active = |live: &JobRecord| live.has_started() || policy.waits_for_cores(live.id());
    let active = table.values().filter(|live| is_active(live)).map(|live| live.row.uid);
    active.chain([uid]).collect::<BTreeSet<u32>>().len()
}

/// Whether a job of another user waits for cores of the host.
fn others_wait(policy: &Policy, table: &JobTable, uid: u32) -> bool {
    let waits =
        |live: &JobRecord| live.row.set().is_none() || crate::jobs::record::is_isolated(&live.row.spec);
    table
        .values()
        .filter(|live| live.row.uid != uid && waits(live))
        .any(|live| policy.waits_for_cores(live.id()))
}

/// Whether a set takes no more jobs.
pub(super) fn is_retiring(ctx: &Ctx, table: &JobTable, set: &Set) -> bool {
    let old = |now_us: u64| now_us.saturating_sub(set.made_us) > HOLD_MAX_US;
    set.bounded && old(ctx.clock.now_us()) && others_wait(&ctx.policy, table, set.owner_uid)
}

/// Whether a user suspended a job.
fn is_suspended(policy: &Policy, job: JobId) -> bool {
    policy.job(job).is_some_and(|info| info.state == State::Frozen { by: FrozenBy::User })
}

/// Ends the jobs that wait in a set which takes no more.
fn strike_waiting(out: &mut Outbox, table: &JobTable, name: &str) {
    let waits =
        |job: &JobId| table.get(job).is_some_and(|live| !live.has_started() && live.container.is_none());
    let waiting: Vec<JobId> = sets::jobs_in(table, name).map(JobId).filter(waits).collect();
    for job in waiting {
        // Its end has the set looked at again.
        out.then(Next::NotStarted(job, RETIRED.to_owned(), ErrorCode::Failed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn goes(hold_s: u64, used: Use, now_s: u64, want: Option<(u64, u64)>) {
        let mut set = Set::isolated("idle-1".to_owned(), CpuSet::new(), 7, 0);
        set.hold_us = Some(hold_s * 1_000_000);
        let got = stays(&set, used, now_s * 1_000_000);
        assert_eq!(
            got.map(|(used, look)| (used / 1_000_000, look / 1_000_000)),
            want,
            "{hold_s} {used:?} {now_s}"
        );
    }

    #[test]
    fn some_cores_are_never_idle_ones_in_a_set() {
        for (cores, operator, user) in [(1, 0, 0), (2, 1, 1), (3, 2, 1), (8, 7, 4), (64, 63, 32)] {
            assert_eq!((most_idle(cores, true).0, most_idle(cores, false).0), (operator, user), "{cores}");
        }
    }

    #[test]
    fn a_set_stays_while_it_is_used_and_for_its_hold_time() {
        goes(30, Use::Nothing, 29, Some((0, 30)));
        goes(30, Use::Nothing, 30, None);
        goes(30, Use::Waits, 30, Some((0, 90)));
        goes(30, Use::Waits, 600, None);
        goes(30, Use::Runs, 100_000, Some((100_000, 100_030)));
        goes(u64::MAX / 1_000_000, Use::Nothing, 100, Some((0, 160)));
    }

    #[test]
    fn a_set_that_is_held_for_no_time_is_not_looked_at_all_the_time() {
        goes(0, Use::Runs, 50, Some((50, 51)));
        goes(0, Use::Nothing, 50, None);
        goes(0, Use::Waits, 50, Some((0, 110)));
    }

    #[test]
    fn the_share_is_even_and_never_nothing() {
        for (cores, active, want) in [(64, 1, 64), (64, 2, 32), (64, 3, 21), (2, 2, 1), (2, 5, 1), (1, 0, 1)]
        {
            assert_eq!(share(cores, active), want, "{cores} {active}");
        }
    }

    #[test]
    fn one_user_makes_so_many_sets_a_minute() {
        let mut rate = Rate::default();
        assert!((0..MADE_MAX).all(|_| rate.count(7, 5)));
        assert!(!rate.count(7, 6));
        assert!(rate.count(8, 6));
        assert!(rate.count(7, 5 + MINUTE_US));
    }

    #[test]
    fn what_a_user_may_ask_for() {
        let user = Peer { pid: 1, uid: 4_000_000_000 };
        let root = Peer { pid: 1, uid: 0 };
        let plain = SetAside { cores: Some(1), ..SetAside::default() };
        let config = Config::default();
        check(&config, user, &plain).expect("idle cores by their number");
        check(&config, user, &SetAside { hold_us: Some(HOLD_MAX_US), ..plain.clone() })
            .expect("the longest hold");
        for asked in [
            SetAside { cpus: Some("1".to_owned()), cores: None, ..plain.clone() },
            SetAside { memory_bytes: Some(1), ..plain.clone() },
            SetAside { memory_bytes: Some(0), ..plain.clone() },
            SetAside { shared: true, ..plain.clone() },
            SetAside { housekeeping: true, ..plain.clone() },
            SetAside { hold_us: Some(HOLD_MAX_US + 1), ..plain.clone() },
            SetAside { hold_us: Some(u64::MAX), ..plain.clone() },
            SetAside { users: vec!["root".to_owned(); USERS_MAX + 1], ..plain.clone() },
        ] {
            assert_eq!(
                check(&config, user, &asked).map_err(|(code, _)| code),
                Err(ErrorCode::Permission),
                "{asked:?}"
            );
            check(&config, root, &asked).expect("an operator's");
        }
    }

    #[test]
    fn who_may_ask_at_all() {
        let (user, root) = (Peer { pid: 1, uid: 4_000_000_000 }, Peer { pid: 1, uid: 0 });
        let idle = SetAside { cores: Some(1), users: vec!["anybody".to_owned()], ..SetAside::default() };
        let named = SetAside { name: Some("a".to_owned()), ..idle.clone() };
        let (config, _) = Config::default().with_changes(["access.exclusive=*"]).expect("a key");
        let code = |config: &Config, user, asked| may_ask(config, user, asked).map_err(|(code, _)| code);
        let denied = Err(ErrorCode::Permission);
        assert_eq!(code(&Config::default(), user, &idle), denied);
        assert_eq!((code(&config, user, &idle), code(&config, user, &named)), (Ok(()), denied));
        let many = SetAside { users: vec!["root".to_owned(); USERS_MAX + 1], ..idle.clone() };
        assert_eq!((code(&config, user, &many), code(&config, root, &many)), (denied, Ok(())));
        assert_eq!(code(&Config::default(), root, &named), Ok(()));
    }
}
