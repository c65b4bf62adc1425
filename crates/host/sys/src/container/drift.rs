//! Drift: settings of a job in the kernel that another program changed after pinfold wrote them.
//!
//! Purpose: reads back the few files that bound a job and reports the differences. Owner of state: the container, which
//! remembers its last requests; settings that it never requested or that the kernel refused are not read. Absent: when to
//! look, and the reaction to a difference (the daemon); jobs without groups, as each of their processes has its own
//! settings, and may change them.

use pinfold_topo::CpuSet;

use super::{Applied, Container, ContainerError, Shape, Share, near};
use crate::cgroup::{Generation, Group};
use crate::mode::{AbilityName, Via};

/// The smallest page size of supported kernels; memory bounds are whole pages.
const PAGE_BYTES: u64 = 4096;
/// The first generation shows "no bound" as the largest number of whole pages in 63 bits.
const NO_BOUND_BYTES: u64 = 1 << 62;

/// The subject of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// The PUs.
    Cpus,
    /// The NUMA nodes.
    Nodes,
    /// The share of the processor.
    Share,
    /// The bound on memory.
    Limit,
    /// The bound from which growth is slowed.
    Slowing,
    /// Whether it is frozen.
    Frozen,
}

/// A setting of a job that another program changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// The subject.
    pub setting: Setting,
    /// The kernel's file.
    pub file: &'static str,
    /// The value that was requested,
    pub wanted: String,
    /// and the value that was read.
    pub found: String,
}

impl Container {
    /// The settings that differ from the request; `frozen`: whether the job is to be frozen. Reads six small files at most.
    pub fn drifts(&self, frozen: bool) -> Result<Vec<Drift>, ContainerError> {
        let looks = [
            self.cpus_drifted()?,
            self.nodes_drifted()?,
            self.share_drifted()?,
            self.limit_drifted()?,
            self.slowing_drifted()?,
            self.freezer_drifted(frozen)?,
        ];
        Ok(looks.into_iter().flatten().collect())
    }

    /// Records the settings that an earlier daemon requested, so that `drifts` compares them. Writes nothing.
    pub fn remember(&mut self, shape: &Shape) {
        self.meant = Some(shape.clone());
    }

    /// The PUs that were asked for last.
    fn meant_cpus(&self) -> Option<&CpuSet> {
        self.cpus.as_ref().or(self.meant.as_ref().map(|shape| &shape.cpus))
    }

    /// The bound on memory that was asked for last.
    fn meant_limit(&self) -> Option<Option<u64>> {
        self.limit.or(self.meant.as_ref().map(|shape| shape.limit_bytes))
    }

    /// Writes a setting again, with the value of the last request.
    pub fn set_again(&mut self, drift: &Drift) -> Result<Applied, ContainerError> {
        match drift.setting {
            Setting::Cpus => {
                let cpus = self.meant_cpus().cloned();
                self.cpus = None;
                cpus.map_or(Ok(Applied::Done), |cpus| self.bind(&cpus))
            }
            Setting::Nodes => {
                let nodes = self.nodes.take();
                nodes.map_or(Ok(Applied::Done), |nodes| self.near(&nodes))
            }
            Setting::Share => self.share.take().map_or(Ok(Applied::Done), |share| self.share(share)),
            Setting::Limit => {
                let limit = self.meant_limit();
                self.limit = None;
                limit.map_or(Ok(Applied::Done), |limit| self.limit(limit))
            }
            Setting::Slowing => match self.group(self.shared.roles.memory) {
                Some(group) => Ok(group.write(drift.file, &drift.wanted).map(|()| Applied::Done)?),
                None => Ok(Applied::Done),
            },
            Setting::Frozen if drift.is_to_stand() => self.freeze().map(|()| Applied::Done),
            Setting::Frozen => self.thaw().map(|()| Applied::Done),
        }
    }

    fn cpus_drifted(&self) -> Result<Option<Drift>, ContainerError> {
        let by_group = matches!(self.shared.plan.via(AbilityName::Pin), Via::V1 | Via::V2);
        let Some(wanted) = self.meant_cpus().filter(|cpus| by_group && !cpus.is_empty()) else {
            return Ok(None);
        };
        let role = self.shared.roles.cpuset;
        let (Some(group), Some(level)) =
            (self.group(role), role.and_then(|index| self.shared.levels.get(index)))
        else {
            return Ok(None);
        };
        // A first-generation set loses PUs that go off line, without any write.
        let mut wanted = wanted.clone();
        if level.hierarchy.generation == Generation::V1 {
            let above = level.instance.read("cpuset.cpus")?.unwrap_or_default();
            wanted = wanted.intersection(&above.trim().parse().unwrap_or_default());
            if wanted.is_empty() {
                return Ok(None);
            }
        }
        let same = |found: &str| found.parse::<CpuSet>().is_ok_and(|found| found == wanted);
        compare(group, Setting::Cpus, "cpuset.cpus", wanted.to_string(), same)
    }

    /// Compared only for a bound job: the host may change its list of all nodes.
    fn nodes_drifted(&self) -> Result<Option<Drift>, ContainerError> {
        let wanted = self.nodes.as_ref().filter(|nodes| !nodes.is_empty());
        let (Some(wanted), Some(group)) = (wanted, self.group(self.shared.roles.cpuset)) else {
            return Ok(None);
        };
        compare(group, Setting::Nodes, near::MEMS, near::list(wanted), |found| {
            near::numbers(found) == *wanted
        })
    }

    fn share_drifted(&self) -> Result<Option<Drift>, ContainerError> {
        let (Some(share), Some(group)) = (self.share, self.group(self.shared.roles.cpu)) else {
            return Ok(None);
        };
        let by_group = |name| matches!(self.shared.plan.via(name), Via::V1 | Via::V2);
        if by_group(AbilityName::IdleClass) {
            let wanted = if share == Share::Idle && !self.hurries { "1" } else { "0" };
            let idle =
                compare(group, Setting::Share, "cpu.idle", wanted.to_owned(), |found| found == wanted)?;
            if idle.is_some() {
                return Ok(idle);
            }
        }
        match share {
            Share::Normal { weight } if by_group(AbilityName::Weigh) && !self.hurries => {
                let (file, value) = weight_file(self.shared.plan.via(AbilityName::Weigh), weight);
                let wanted = value.to_string();
                compare(group, Setting::Share, file, wanted.clone(), |found| found == wanted)
            }
            _ => Ok(None),
        }
    }

    fn limit_drifted(&self) -> Result<Option<Drift>, ContainerError> {
        let (Some(limit), Some(group)) = (self.meant_limit(), self.group(self.shared.roles.memory)) else {
            return Ok(None);
        };
        let (file, none) = match self.shared.plan.via(AbilityName::Limit) {
            Via::V2 => ("memory.max", "max"),
            Via::V1 => ("memory.limit_in_bytes", "-1"),
            _ => return Ok(None),
        };
        let same = |found: &str| match (limit, found.parse::<u64>()) {
            (None, Ok(found)) => found >= NO_BOUND_BYTES,
            (None, Err(_)) => found == none,
            (Some(limit), Ok(found)) => limit / PAGE_BYTES == found / PAGE_BYTES,
            (Some(_), Err(_)) => false,
        };
        let wanted = limit.map_or_else(|| none.to_owned(), |bytes| bytes.to_string());
        compare(group, Setting::Limit, file, wanted, same)
    }

    fn slowing_drifted(&self) -> Result<Option<Drift>, ContainerError> {
        let (Some(high), Some(group)) = (self.high, self.group(self.shared.roles.memory)) else {
            return Ok(None);
        };
        if self.shared.plan.via(AbilityName::Limit) != Via::V2 {
            return Ok(None);
        }
        let same = |found: &str| match (high, found.parse::<u64>()) {
            (None, parsed) => found == "max" && parsed.is_err(),
            (Some(high), Ok(found)) => high / PAGE_BYTES == found / PAGE_BYTES,
            (Some(_), Err(_)) => false,
        };
        let wanted = high.map_or_else(|| "max".to_owned(), |bytes| bytes.to_string());
        compare(group, Setting::Slowing, "memory.high", wanted, same)
    }

    fn freezer_drifted(&self, frozen: bool) -> Result<Option<Drift>, ContainerError> {
        if let Some(group) = self.group(self.shared.roles.freezer) {
            let wanted = if frozen { "FROZEN" } else { "THAWED" };
            // On its way to a standstill is as good as there.
            let same = |found: &str| (found == "THAWED") != frozen;
            return compare(group, Setting::Frozen, "freezer.state", wanted.to_owned(), same);
        }
        let by_tree = matches!(self.shared.plan.via(AbilityName::Freeze), Via::V1 | Via::V2);
        match self.tree().filter(|_| by_tree) {
            Some(group) => {
                let wanted = if frozen { "1" } else { "0" };
                compare(group, Setting::Frozen, "cgroup.freeze", wanted.to_owned(), |found| found == wanted)
            }
            None => Ok(None),
        }
    }
}

impl Drift {
    /// For a drift of the freezer: whether the job is to be frozen.
    fn is_to_stand(&self) -> bool {
        matches!(self.wanted.as_str(), "FROZEN" | "1")
    }
}

/// The file that holds a weight, and the value in its unit.
pub(super) fn weight_file(via: Via, weight: u32) -> (&'static str, u64) {
    match via {
        // 1,024 shares are the usual weight; below 2 the kernel does not go.
        Via::V1 => ("cpu.shares", (u64::from(weight) * 1024 / 100).max(2)),
        _ => ("cpu.weight", u64::from(weight)),
    }
}

/// A file that is gone, with its group or its controller, has not drifted.
fn compare(
    group: &Group,
    setting: Setting,
    file: &'static str,
    wanted: String,
    same: impl Fn(&str) -> bool,
) -> Result<Option<Drift>, ContainerError> {
    let Some(text) = group.read(file)? else { return Ok(None) };
    let found = text.trim();
    Ok((!same(found)).then(|| Drift { setting, file, wanted, found: found.to_owned() }))
}
