//! `--cpu-bind`: the binding of tasks.

use pinfold_topo::CpuSet;

use super::error::OptionError;

/// The kind of object that a task is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Level {
    /// Hardware threads.
    Threads,
    /// Cores.
    Cores,
    /// Sockets.
    Sockets,
    /// NUMA nodes.
    Ldoms,
}

/// A binding by list, which leaves no choice to the layout.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Manual {
    /// No binding.
    None,
    /// Each task to a PU by number, the list repeated as needed.
    MapCpu(Vec<u32>),
    /// Each task to a set of PUs.
    MaskCpu(Vec<CpuSet>),
    /// Each task to the NUMA node of its number on the host.
    RankLdom,
    /// Each task to a NUMA node by number.
    MapLdom(Vec<u32>),
    /// Each task to a set of NUMA nodes.
    MaskLdom(Vec<CpuSet>),
}

/// The value of `--cpu-bind`.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct CpuBind {
    /// The level, if given.
    pub level: Option<Level>,
    /// The list, if given.
    pub manual: Option<Manual>,
    /// `one_thread`: leave the other threads of a core idle.
    pub one_thread: bool,
}

impl CpuBind {
    /// Reads `[{quiet|verbose},]TYPE`.
    pub(super) fn parse(option: &str, value: &str) -> Result<Self, OptionError> {
        let bad = || OptionError::Value { option: option.to_owned(), value: value.to_owned() };
        let mut bind = Self::default();
        let mut rest = value;
        while !rest.is_empty() {
            let (word, tail) = rest.split_once(',').unwrap_or((rest, ""));
            // A list runs to the end: its own commas separate tasks.
            if let Some((form, list)) = rest.split_once(':').filter(|(form, _)| !form.contains(',')) {
                bind.manual = Some(manual(form, list).ok_or_else(bad)?);
                break;
            }
            match word.to_ascii_lowercase().as_str() {
                // `rank` is obsolete and has no effect.
                "q" | "quiet" | "v" | "verbose" | "rank" | "auto" => {}
                "none" | "no" => bind.manual = Some(Manual::None),
                "threads" | "thread" => bind.level = Some(Level::Threads),
                "cores" | "core" => bind.level = Some(Level::Cores),
                "sockets" | "socket" => bind.level = Some(Level::Sockets),
                "ldoms" | "ldom" => bind.level = Some(Level::Ldoms),
                "rank_ldom" => bind.manual = Some(Manual::RankLdom),
                "one_thread" => bind.one_thread = true,
                _ => return Err(bad()),
            }
            rest = tail;
        }
        Ok(bind)
    }

    /// Whether the value changes the binding.
    pub(super) fn is_set(&self) -> bool {
        self.level.is_some() || self.manual.is_some() || self.one_thread
    }
}

fn manual(form: &str, list: &str) -> Option<Manual> {
    let map = || list.split(',').map(number).collect::<Option<Vec<u32>>>();
    let masks = || list.split(',').map(|mask| CpuSet::from_mask(mask).ok()).collect::<Option<Vec<CpuSet>>>();
    match form.to_ascii_lowercase().as_str() {
        "map_cpu" | "map_cpus" => map().map(Manual::MapCpu),
        "mask_cpu" | "mask_cpus" => masks().map(Manual::MaskCpu),
        "map_ldom" => map().map(Manual::MapLdom),
        "mask_ldom" => masks().map(Manual::MaskLdom),
        _ => None,
    }
}

/// A PU or NUMA node by number, decimal or `0x` hexadecimal, bounded as in sets of PUs.
fn number(text: &str) -> Option<u32> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    parsed.filter(|&number| number <= pinfold_topo::cpuset::PU_OS_MAX && !text.starts_with('+'))
}
