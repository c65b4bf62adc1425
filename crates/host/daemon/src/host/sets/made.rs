//! A set that is asked for: its name, its cores, and whether it may be.

use std::collections::BTreeSet;

use pinfold_place::pack::{self, Demand, Room};
use pinfold_proto::view::SetKind;
use pinfold_proto::wire::{ErrorCode, SetAside};
use pinfold_sys::peer::Peer;
use pinfold_topo::CpuSet;

use super::{HOLD_US, Set, Sets, bounded};
use crate::clients::lookup::Number;
use crate::clients::{lookup, rights};
use crate::core::{Ctx, Refusal, usage};
use crate::host::sets::usable_in_time;
use crate::jobs::JobTable;
use crate::meters::memory;
use crate::meters::numa::JobNodes;

/// So many sets there may be.
const SETS_MAX: usize = 256;

impl Sets {
    /// The set that `pinfold set-aside` asks for; `None`: not so many cores are idle.
    pub(crate) fn wanted(
        &mut self,
        ctx: &Ctx,
        table: &JobTable,
        jobs_nodes: &JobNodes,
        user: Peer,
        asked: SetAside,
    ) -> Result<Option<Set>, Refusal> {
        let idle = asked.name.is_none();
        bounded::may_ask(&ctx.configured.config, user, &asked)?;
        if self.sets.len() >= SETS_MAX {
            return Err((ErrorCode::Refused, format!("there are {SETS_MAX} sets already")));
        }
        known_users(&asked.users)?;
        let name = match &asked.name {
            Some(name) => self.free_name(name)?,
            None => self.made_name(table),
        };
        let Some(cpus) = self.cpus_for_set(ctx, jobs_nodes, &asked)? else { return Ok(None) };
        self.check_memory(ctx, &asked)?;
        let now_us = ctx.clock.now_us();
        let bounded = idle && !rights::is_operator(&ctx.configured.config, user);
        if bounded && !self.may_reserve(ctx, table, user, &cpus, now_us)? {
            return Ok(None);
        }
        let kind = match (idle, asked.housekeeping) {
            (true, _) => SetKind::Idle,
            (false, true) => SetKind::Housekeeping,
            (false, false) => SetKind::Static,
        };
        Ok(Some(Set {
            name,
            kind,
            cpus,
            memory_bytes: asked.memory_bytes.unwrap_or(0),
            shared: asked.shared,
            users: asked.users,
            owner_uid: user.uid,
            made_us: now_us,
            hold_us: idle.then(|| asked.hold_us.unwrap_or(HOLD_US)),
            used_us: now_us,
            bounded,
            look_us: 0,
        }))
    }

    pub(super) fn free_name(&self, name: &str) -> Result<String, Refusal> {
        let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let begins_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if name.starts_with("isolated-") {
            return Err(usage(format!("{name}: names that begin so are for sets of isolated jobs")));
        }
        if !begins_well || name.len() > 32 || !name.chars().all(fine) {
            let text = "a set's name is up to 32 letters, digits, `-`, `_` and `.`, a letter or digit first";
            return Err(usage(format!("`{}`: {text}", name.escape_debug())));
        }
        if self.named(name).is_some() {
            return Err(usage(format!(
                "there is a set {name} already; `pinfold set-aside {name} --remove` first"
            )));
        }
        Ok(name.to_owned())
    }

    pub(super) fn made_name(&self, table: &JobTable) -> String {
        // A job that still names a set which went must not come into the next one, which may be another user's.
        let mut names = (1u32..).map(|number| format!("idle-{number}"));
        let asked = |live: &crate::jobs::record::JobRecord| live.row.set();
        let asked: BTreeSet<String> = table.values().filter_map(|live| asked(live)).collect();
        names
            .find(|name| self.named(name).is_none() && !asked.contains(name))
            .expect("there are fewer sets and jobs than numbers")
    }

    /// The PUs for a new set; `None`: not so many cores are idle.
    pub(super) fn cpus_for_set(
        &self,
        ctx: &Ctx,
        jobs_nodes: &JobNodes,
        asked: &SetAside,
    ) -> Result<Option<CpuSet>, Refusal> {
        let usable = usable_in_time(ctx);
        let kept = self.kept();
        let cpus = match (&asked.cpus, asked.cores) {
            (Some(text), None) => {
                let cpus: CpuSet = text.parse().map_err(|error| usage(format!("--cpus {text}: {error}")))?;
                if cpus.is_empty() {
                    return Err(usage("--cpus: a set needs at least one PU".to_owned()));
                }
                let strange = cpus.difference(&usable);
                if !strange.is_empty() {
                    return Err(usage(format!(
                        "--cpus {text}: jobs have no PU {strange} here; they have {usable}"
                    )));
                }
                let other = self
                    .sets
                    .iter()
                    .find(|set| (set.is_kept() || !asked.shared) && !set.cpus.is_disjoint(&cpus));
                if let Some(other) = other {
                    let both = other.cpus.intersection(&cpus);
                    return Err(usage(format!(
                        "--cpus {text}: PU {both} is in the set {} already",
                        other.name
                    )));
                }
                cpus
            }
            (None, Some(count)) => match self.choose_cores(ctx, jobs_nodes, count as usize, asked)? {
                Some(cpus) => cpus,
                None => return Ok(None),
            },
            _ => return Err(usage("a set is made of --cpus or of --cores".to_owned())),
        };
        if !asked.shared && usable.difference(&kept).difference(&cpus).is_empty() {
            let text = format!(
                "a set of {cpus} would leave no core for jobs outside of it; --shared keeps none from them"
            );
            return if asked.name.is_none() { Ok(None) } else { Err((ErrorCode::Refused, text)) };
        }
        Ok(Some(cpus))
    }

    /// Cores close together that are in no set: idle ones, or if it has a name any, as far as idle ones do not do.
    pub(super) fn choose_cores(
        &self,
        ctx: &Ctx,
        jobs_nodes: &JobNodes,
        count: usize,
        asked: &SetAside,
    ) -> Result<Option<CpuSet>, Refusal> {
        let taken = self.sets.iter().fold(CpuSet::new(), |all, set| all.union(&set.cpus));
        let union = |cores: &[CpuSet]| cores.iter().fold(CpuSet::new(), |all, core| all.union(core));
        let idle = union(&ctx.policy.idle_cores()).difference(&taken);
        let any = usable_in_time(ctx).difference(&taken);
        let left = jobs_nodes.node_room(ctx);
        let pick = |free: &CpuSet| {
            let topology = ctx.topology.clone().restricted(free);
            let room = Room { topology: &topology, free, memory_free_bytes: &left, bandwidth_left: &[] };
            // Beside memory that is free, if there is so much beside so many cores.
            let near = Demand { memory_bytes: asked.memory_bytes.unwrap_or(0), ..Demand::default() };
            let placed = [near, Demand::default()]
                .iter()
                .find_map(|demand| pack::pack(&room, &Demand { cores: count, ..*demand }));
            placed.map(|placement| placement.pus())
        };
        match (pick(&idle), &asked.name) {
            (Some(cpus), _) => Ok(Some(cpus)),
            (None, None) => Ok(None),
            (None, Some(_)) => pick(&any).map(Some).ok_or_else(|| {
                let free = ctx.topology.cores_within(&any).len();
                (ErrorCode::Refused, format!("--cores {count}: the host has {free} that are in no set"))
            }),
        }
    }

    pub(super) fn check_memory(&self, ctx: &Ctx, asked: &SetAside) -> Result<(), Refusal> {
        let Some(wanted) = asked.memory_bytes else { return Ok(()) };
        if asked.shared || asked.housekeeping {
            return Err(usage("--memory is for sets whose cores are for their jobs alone".to_owned()));
        }
        let promised = self.sets.iter().map(|set| set.memory_bytes).fold(0, u64::saturating_add);
        let left = memory::budget_in_time_bytes(ctx).saturating_sub(promised);
        if wanted > left {
            let text = format!(
                "--memory {}: {} are left to be set aside",
                pinfold_proto::quantity::show_size(wanted),
                pinfold_proto::quantity::show_size(left)
            );
            return Err((ErrorCode::Refused, text));
        }
        Ok(())
    }
}

/// Checks that these are users of the host.
fn known_users(users: &[String]) -> Result<(), Refusal> {
    for name in users.iter().filter(|name| *name != "*") {
        match lookup::number_of(name) {
            Number::User(_) => {}
            Number::Nobody => return Err(usage(format!("--users {name}: there is no such user"))),
            Number::Unknown => {
                let text = format!("--users {name}: the system's user databases give no answer; try again");
                return Err((ErrorCode::Failed, text));
            }
        }
    }
    Ok(())
}
