//! How busy the cores are and which jobs are on them, by the times of their PUs at the last two looks.

use std::collections::VecDeque;
use std::path::Path;

use pinfold_profile::report::{CoreUse, Load, Past};
use pinfold_proto::JobState;
use pinfold_proto::view::{JobView, MapView, StatusView};
use pinfold_sys::discover;
use pinfold_sys::procfs::{HostCpu, Proc};
use pinfold_topo::CpuSet;

use crate::print::has_few_signs;
use pinfold_client::Failure;

/// More looks than these no terminal shows.
const PAST_MAX: usize = 240;

/// The cores of this host.
#[derive(Default)]
pub(super) struct Cores {
    /// The PUs of each core, once that was asked.
    known: Option<Vec<CpuSet>>,
    /// Times of the PUs at the last two looks.
    times: (Option<HostCpu>, Option<HostCpu>),
    past: VecDeque<Past>,
}

impl Cores {
    /// Reads the times of the PUs; with the jobs' present memory they make a moment of the history.
    pub(super) fn look(&mut self, now: &StatusView) {
        let times = Proc::open(Path::new("/proc")).ok().and_then(|proc| proc.host_cpu().ok());
        self.times = (self.times.1.take(), times);
        let parts: Vec<f64> = self.known.iter().flatten().filter_map(|core| self.busy(core)).collect();
        if parts.is_empty() {
            return;
        }
        let count = |count: usize| u32::try_from(count).map_or(f64::from(u32::MAX), f64::from);
        let busy = parts.iter().sum::<f64>() / count(parts.len());
        let (held, budget) = (now.memory.held_bytes, now.memory.budget_bytes.max(1));
        // In thousandths: a part of a whole needs no more.
        let memory =
            u32::try_from(held.saturating_mul(1000) / budget).map_or(1.0, |part| f64::from(part) / 1000.0);
        self.past.push_back(Past { busy, memory });
        if self.past.len() > PAST_MAX {
            self.past.pop_front();
        }
    }

    /// Whether the PUs of each core are known.
    pub(super) fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// Learns which PUs each core has.
    pub(super) fn learn(&mut self, map: &MapView) -> Result<(), Failure> {
        self.known = Some(cores(map)?);
        Ok(())
    }

    /// The meters' figures.
    pub(super) fn load(&self) -> Load {
        let part = |core: &CpuSet| Some((core.to_string(), self.busy(core)?));
        Load {
            cores: self.known.iter().flatten().filter_map(part).collect(),
            past: self.past.iter().copied().collect(),
            plain: has_few_signs(),
        }
    }

    /// The cores and the jobs on them; of a moment in the past without a map.
    pub(super) fn uses(&self, now: &StatusView, map: Option<&MapView>) -> Vec<CoreUse> {
        let bound = |job: &JobView| {
            let cpus = job.cpus.as_deref().and_then(|text| text.parse::<CpuSet>().ok())?;
            (job.state == JobState::Running).then_some((job.job, cpus))
        };
        let jobs: Vec<(u64, CpuSet)> = now.jobs.iter().filter_map(bound).collect();
        let others: Vec<CpuSet> = map
            .into_iter()
            .flat_map(|map| &map.sets)
            .filter(|set| set.job.is_none())
            .filter_map(|set| set.cpus.parse().ok())
            .collect();
        let on = |core: &CpuSet, cpus: &CpuSet| cpus.is_empty() || !cpus.is_disjoint(core);
        let one = |core: &CpuSet| CoreUse {
            cpus: core.to_string(),
            busy: self.busy(core).filter(|_| map.is_some()),
            jobs: jobs.iter().filter(|(_, cpus)| on(core, cpus)).map(|(job, _)| *job).collect(),
            others: others.iter().filter(|cpus| on(core, cpus)).count(),
        };
        self.known.iter().flatten().map(one).collect()
    }

    /// The part of the time between the last two looks that the busiest PU of a core was busy.
    fn busy(&self, core: &CpuSet) -> Option<f64> {
        let (before, now) = (self.times.0.as_ref()?, self.times.1.as_ref()?);
        let part = |pu| {
            let of = |times: &HostCpu| times.pus.iter().find(|one| one.pu == pu).copied();
            let (before, now) = (of(before)?, of(now)?);
            let busy = now.busy_ticks.saturating_sub(before.busy_ticks);
            let rest = (now.idle_ticks + now.iowait_ticks + now.steal_ticks)
                .saturating_sub(before.idle_ticks + before.iowait_ticks + before.steal_ticks);
            let ticks = |count: u64| u32::try_from(count).map_or(f64::from(u32::MAX), f64::from);
            (busy + rest > 0).then(|| ticks(busy) / ticks(busy + rest))
        };
        core.iter().filter_map(part).reduce(f64::max)
    }
}

/// The PUs of each core that jobs may use.
fn cores(map: &MapView) -> Result<Vec<CpuSet>, Failure> {
    let cpus: CpuSet = map.cpus.parse().unwrap_or_default();
    let topology = discover::host_within(&cpus)
        .map_err(|error| Failure::doing("failed to read the topology", &error))?;
    let mut cores: std::collections::BTreeMap<u32, Vec<_>> = std::collections::BTreeMap::new();
    for pu in topology.pus().iter().filter(|pu| pu.usable) {
        cores.entry(pu.core).or_default().push(pu.os);
    }
    Ok(cores.into_values().map(|pus| pus.into_iter().collect()).collect())
}
