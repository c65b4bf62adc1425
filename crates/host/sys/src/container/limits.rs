//! Bounds of a job beside PUs and memory: processes, processor time, swap, and I/O by device. Each is a file of the
//! job's group; bounds of the process that submitted the job come here in these terms.
//!
//! Owner of state: the kernel; the container remembers its last request. Absent here: the values of the bounds (the
//! daemon), and hosts without groups: there a job stays in the groups of its client.

use std::fmt;
use std::str::FromStr;

use super::{Container, ContainerError, Containers};
use crate::cgroup::Generation;
use crate::mode::{AbilityName, Via};

/// The period over which the kernel counts processor time, in microseconds: its own default,
const PERIOD_US: u64 = 100_000;
/// and the longest that the kernel accepts.
const PERIOD_MAX_US: u64 = 1_000_000;
/// The smallest quota that the kernel takes, in microseconds.
const QUOTA_MIN_US: u64 = 1_000;

/// A resource that a group bounds for its processes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limited {
    /// Processes and threads.
    Processes,
    /// Processor time, in millionths of a PU's time.
    Cpu,
    /// Memory in swap, in bytes.
    Swap,
    /// Input or output on a block device.
    Io {
        /// The device, as `MAJOR:MINOR`.
        device: String,
        /// The bounded rate.
        rate: IoRate,
    },
}

/// A rate of input or output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum IoRate {
    /// Bytes read in a second.
    ReadBytes,
    /// Bytes written in a second.
    WriteBytes,
    /// Reads in a second.
    Reads,
    /// Writes in a second.
    Writes,
}

impl IoRate {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::ReadBytes, Self::WriteBytes, Self::Reads, Self::Writes];

    /// The kernel's word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadBytes => "rbps",
            Self::WriteBytes => "wbps",
            Self::Reads => "riops",
            Self::Writes => "wiops",
        }
    }
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Processes => f.write_str("processes"),
            Self::Cpu => f.write_str("cpu"),
            Self::Swap => f.write_str("swap"),
            Self::Io { device, rate } => write!(f, "io {device} {}", rate.as_str()),
        }
    }
}

/// A word that names no bounded resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is nothing that a control group bounds")]
pub struct UnknownLimited(pub String);

impl FromStr for Limited {
    type Err = UnknownLimited;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownLimited(text.to_owned());
        match text {
            "processes" => return Ok(Self::Processes),
            "cpu" => return Ok(Self::Cpu),
            "swap" => return Ok(Self::Swap),
            _ => {}
        }
        let (device, rate) =
            text.strip_prefix("io ").and_then(|rest| rest.split_once(' ')).ok_or_else(unknown)?;
        let rate = IoRate::ALL.into_iter().find(|known| known.as_str() == rate).ok_or_else(unknown)?;
        if !is_device(device) {
            return Err(unknown());
        }
        Ok(Self::Io { device: device.to_owned(), rate })
    }
}

/// Whether a text is `MAJOR:MINOR`.
pub(crate) fn is_device(text: &str) -> bool {
    let number = |text: &str| text.len() <= 10 && text.parse::<u32>().is_ok();
    text.split_once(':').is_some_and(|(major, minor)| number(major) && number(minor))
}

/// The bounds of a job, ascending by resource; an absent resource has no bound.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits(Vec<(Limited, u64)>);

impl Limits {
    /// Bounds one resource; the smaller of two bounds holds.
    pub fn bound(&mut self, what: Limited, most: u64) {
        match self.0.binary_search_by(|(have, _)| have.cmp(&what)) {
            Ok(place) => self.0[place].1 = self.0[place].1.min(most),
            Err(place) => self.0.insert(place, (what, most)),
        }
    }

    /// The bound of a resource; `None`: unbounded.
    #[must_use]
    pub fn of(&self, what: &Limited) -> Option<u64> {
        self.0.iter().find(|(have, _)| have == what).map(|(_, most)| *most)
    }

    /// Whether nothing is bounded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A file and the text to write.
type Write = (&'static str, String);

/// The write for the second generation.
fn in_v2(what: &Limited, most: Option<u64>) -> Write {
    let number = || most.map_or_else(|| "max".to_owned(), |most| most.to_string());
    match what {
        Limited::Processes => ("pids.max", number()),
        Limited::Swap => ("memory.swap.max", number()),
        Limited::Cpu => {
            let (quota, period) = most.map_or((None, PERIOD_US), |most| {
                let (quota, period) = quota(most);
                (Some(quota), period)
            });
            let quota = quota.map_or_else(|| "max".to_owned(), |quota| quota.to_string());
            ("cpu.max", format!("{quota} {period}"))
        }
        // The kernel reads a rate of nothing as an error.
        Limited::Io { device, rate } => {
            let most = most.map_or_else(|| "max".to_owned(), |most| most.max(1).to_string());
            ("io.max", format!("{device} {}={most}", rate.as_str()))
        }
    }
}

/// The writes for the first generation, in this order; empty where a job stays in the group of its client.
fn in_v1(what: &Limited, most: Option<u64>) -> Vec<Write> {
    match (what, most.map(quota)) {
        (Limited::Processes, _) => vec![in_v2(what, most)],
        (Limited::Cpu, None) => vec![("cpu.cfs_quota_us", "-1".to_owned())],
        (Limited::Cpu, Some((quota, period))) => {
            vec![("cpu.cfs_period_us", period.to_string()), ("cpu.cfs_quota_us", quota.to_string())]
        }
        (Limited::Swap | Limited::Io { .. }, _) => Vec::new(),
    }
}

/// A quota and its period, in us, for a part of a PU's time in millionths; with the kernel's usual period where it can
/// express the part.
fn quota(millionths: u64) -> (u64, u64) {
    let of = |period: u64| {
        u64::try_from(u128::from(millionths) * u128::from(period) / 1_000_000).unwrap_or(u64::MAX)
    };
    // The kernel refuses values that overflow its counters; no host has so many PUs.
    let most = PERIOD_US << 24;
    match of(PERIOD_US) {
        short if short >= QUOTA_MIN_US => (short.min(most), PERIOD_US),
        _ => (of(PERIOD_MAX_US).max(QUOTA_MIN_US), PERIOD_MAX_US),
    }
}

impl Containers {
    /// Whether the job's own group can bound this resource. If not, and the host has groups, a bound of the submitting
    /// process cannot be carried over.
    #[must_use]
    pub fn can_limit(&self, what: &Limited) -> bool {
        let tree = || self.shared.tree_level().map(|level| &level.hierarchy);
        match what {
            Limited::Processes => self.shared.plan.via(AbilityName::Processes) != Via::Nothing,
            Limited::Cpu => matches!(self.shared.plan.via(AbilityName::Weigh), Via::V1 | Via::V2),
            Limited::Swap => self.shared.plan.via(AbilityName::Limit) == Via::V2,
            Limited::Io { .. } => tree().is_some_and(|tree| tree.carries("io")),
        }
    }
}

impl Container {
    /// Replaces all bounds of the job; resources that are not named become unbounded. A job above a new bound keeps its
    /// excess, and gets no more.
    ///
    /// # Errors
    /// When a bound cannot be set. Bounds that the host cannot set ([`Containers::can_limit`]) are left out.
    pub fn restrict(&mut self, limits: &Limits) -> Result<(), ContainerError> {
        if self.limits.as_ref() == Some(limits) {
            return Ok(());
        }
        // The requests of an earlier daemon are unknown, and may be more than the present bounds.
        let unknown = || Limits(vec![(Limited::Processes, u64::MAX), (Limited::Cpu, u64::MAX)]);
        let had = self.limits.take().unwrap_or_else(unknown);
        let lifted = had.0.iter().filter(|(what, _)| limits.of(what).is_none()).map(|(what, _)| (what, None));
        let bounded = limits.0.iter().map(|(what, most)| (what, Some(*most)));
        for (what, most) in lifted.chain(bounded) {
            if had.of(what) != most {
                self.write_limit(what, most)?;
            }
        }
        self.limits = Some(limits.clone());
        Ok(())
    }

    fn write_limit(&self, what: &Limited, most: Option<u64>) -> Result<(), ContainerError> {
        let roles = &self.shared.roles;
        let role = match what {
            Limited::Processes => roles.processes,
            Limited::Cpu => roles.cpu,
            Limited::Swap => roles.memory,
            Limited::Io { .. } => roles.tree,
        };
        let level = role.and_then(|index| self.shared.levels.get(index));
        let (Some(group), Some(level)) = (self.group(role), level) else { return Ok(()) };
        let writes = match level.hierarchy.generation {
            Generation::V2 => vec![in_v2(what, most)],
            Generation::V1 => in_v1(what, most),
        };
        for (file, text) in writes {
            // Without this file no bound was ever set.
            if most.is_some() || group.has(file) {
                group.write(file, &text)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limited_resources_round_trip_as_words() {
        let io = Limited::Io { device: "259:12".to_owned(), rate: IoRate::Reads };
        for (what, words) in [
            (Limited::Processes, "processes"),
            (Limited::Cpu, "cpu"),
            (Limited::Swap, "swap"),
            (io, "io 259:12 riops"),
        ] {
            assert_eq!(what.to_string(), words);
            assert_eq!(words.parse(), Ok(what));
        }
        for odd in ["", "io", "io 8:0", "io 8:0 bps", "io 8 rbps", "io 8:0\n8:1 rbps", "io -1:0 rbps"] {
            assert_eq!(odd.parse::<Limited>(), Err(UnknownLimited(odd.to_owned())));
        }
    }

    #[test]
    fn parts_of_processor_time_are_what_the_kernel_takes() {
        for (millionths, want) in [
            (1_000_000, (100_000, 100_000)),
            (64_000_000, (6_400_000, 100_000)),
            (10_000, (1_000, 100_000)),
            (9_999, (9_999, 1_000_000)),
            (1_000, (1_000, 1_000_000)),
            (1, (1_000, 1_000_000)),
            (u64::MAX, (PERIOD_US << 24, 100_000)),
        ] {
            assert_eq!(quota(millionths), want, "{millionths}");
        }
    }

    #[test]
    fn the_kernels_files() {
        let io = |rate| Limited::Io { device: "8:0".to_owned(), rate };
        for (what, most, file, text) in [
            (Limited::Processes, Some(40), "pids.max", "40"),
            (Limited::Processes, None, "pids.max", "max"),
            (Limited::Cpu, Some(500_000), "cpu.max", "50000 100000"),
            (Limited::Cpu, None, "cpu.max", "max 100000"),
            (Limited::Swap, Some(0), "memory.swap.max", "0"),
            (io(IoRate::WriteBytes), Some(0), "io.max", "8:0 wbps=1"),
            (io(IoRate::Writes), None, "io.max", "8:0 wiops=max"),
        ] {
            assert_eq!(in_v2(&what, most), (file, text.to_owned()), "{what}");
        }
        let quota = in_v1(&Limited::Cpu, Some(250_000));
        assert_eq!(
            quota,
            [("cpu.cfs_period_us", "100000".to_owned()), ("cpu.cfs_quota_us", "25000".to_owned())]
        );
        assert_eq!(in_v1(&Limited::Cpu, None), [("cpu.cfs_quota_us", "-1".to_owned())]);
        assert_eq!(in_v1(&io(IoRate::Reads), Some(1)), [], "it stays in the group of its client");
    }

    #[test]
    fn the_smaller_bound_holds() {
        let mut limits = Limits::default();
        limits.bound(Limited::Swap, 5);
        limits.bound(Limited::Processes, 70);
        limits.bound(Limited::Processes, 60);
        limits.bound(Limited::Processes, 90);
        assert_eq!((limits.of(&Limited::Processes), limits.of(&Limited::Swap)), (Some(60), Some(5)));
        assert_eq!(limits.of(&Limited::Cpu), None);
    }
}
