//! A user's request in Slurm's option names, resolved as Slurm's front end does before allocation (hints, and
//! the binding level that multi-core options imply).

use super::binding::{CpuBind, Level};
use super::distribution::Distribution;
use super::error::OptionError;
use super::hostlist::HostList;

/// Largest count of an option; hosts have fewer PUs, jobs fewer tasks.
pub(super) const COUNT_MAX: usize = 1 << 20;

/// The application's bottleneck; sets several options together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Hint {
    /// Use all cores, a single thread each.
    ComputeBound,
    /// Use one core of each socket, a single thread each.
    MemoryBound,
    /// Use the threads of a core.
    Multithread,
    /// Use a single thread of each core.
    NoMultithread,
}

/// A request for hosts, PUs and a layout of tasks. [`LayoutRequest::default`] is a single task.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct LayoutRequest {
    /// `-n`, `--ntasks`: how many tasks; default: one per host, or `--ntasks-per-node` per host.
    pub ntasks: Option<usize>,
    /// `-N`, `--nodes`: the least and the most hosts.
    pub nodes: Option<(usize, usize)>,
    /// `-c`, `--cpus-per-task`.
    pub cpus_per_task: Option<usize>,
    /// `--sockets-per-node`, also by `-B`: only hosts with at least so many sockets to use.
    pub sockets_per_node: Option<usize>,
    /// `--cores-per-socket`, also by `-B`: only sockets with at least so many cores to use.
    pub cores_per_socket: Option<usize>,
    /// `--threads-per-core`, also by `-B`: only hosts with at least so many; and no more are used.
    pub threads_per_core: Option<usize>,
    /// `-B`: how many levels its value has.
    pub extra_node_info_levels: usize,
    /// `--ntasks-per-node`.
    pub ntasks_per_node: Option<usize>,
    /// `--ntasks-per-socket`.
    pub ntasks_per_socket: Option<usize>,
    /// `--ntasks-per-core`.
    pub ntasks_per_core: Option<usize>,
    /// `-m`, `--distribution`.
    pub distribution: Option<Distribution>,
    /// `-w`, `--nodelist`, or the content of a `--nodefile`: the host of each task, for
    /// `--distribution=arbitrary`.
    pub hosts: Option<HostList>,
    /// `--hint`.
    pub hint: Option<Hint>,
    /// `--cpu-bind`.
    pub cpu_bind: CpuBind,
    /// `--exclusive`: whole hosts, not shared with other jobs.
    pub exclusive: bool,
    /// `--exact`: tasks see only their requested CPUs, not the whole allocation.
    pub exact: bool,
    /// `-O`, `--overcommit`: more tasks than PUs are allowed.
    pub overcommit: bool,
    /// `--mincpus`: only hosts with at least so many PUs to use.
    pub mincpus: usize,
}

impl LayoutRequest {
    /// Reads command-line options: `-n4`, `-n 4`, `--ntasks=4`, `--ntasks 4`.
    ///
    /// # Errors
    /// When an option is unknown, or its value is missing or invalid.
    pub fn from_args<S: AsRef<str>>(args: &[S]) -> Result<Self, OptionError> {
        let mut request = Self::default();
        let mut args = args.iter().map(AsRef::as_ref);
        while let Some(arg) = args.next() {
            let (name, attached) = split(arg);
            let value = match attached {
                None if takes_value(name) => {
                    Some(args.next().ok_or_else(|| OptionError::NoValue(name.to_owned()))?)
                }
                attached => attached,
            };
            request.set(name, value)?;
        }
        Ok(request)
    }

    /// Sets an option by its name as typed (`-n` or `--ntasks`).
    ///
    /// # Errors
    /// When the option is unknown, or its value is missing or invalid.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), OptionError> {
        let text = || value.ok_or_else(|| OptionError::NoValue(name.to_owned()));
        let count = || positive(name, text()?);
        match name {
            "-n" | "--ntasks" => self.ntasks = Some(count()?),
            "-N" | "--nodes" => self.nodes = Some(range(name, text()?)?),
            "-c" | "--cpus-per-task" => self.cpus_per_task = Some(count()?),
            "-B" | "--extra-node-info" => self.set_extra_node_info(name, text()?)?,
            "--sockets-per-node" | "--minsockets" => self.sockets_per_node = Some(count()?),
            "--cores-per-socket" | "--mincores" => self.cores_per_socket = Some(count()?),
            "--threads-per-core" | "--minthreads" => self.threads_per_core = Some(count()?),
            "--ntasks-per-node" => self.ntasks_per_node = Some(count()?),
            "--ntasks-per-socket" => self.ntasks_per_socket = Some(count()?),
            "--ntasks-per-core" => self.ntasks_per_core = Some(count()?),
            "-m" | "--distribution" => self.distribution = Some(Distribution::parse(name, text()?)?),
            "-w" | "--nodelist" => self.hosts = Some(HostList::parse(name, text()?)?),
            "--hint" => self.hint = hint(name, text()?)?,
            "--cpu-bind" => self.cpu_bind = CpuBind::parse(name, text()?)?,
            "--exclusive" => self.exclusive = true,
            "--exact" => self.exact = true,
            "-O" | "--overcommit" => self.overcommit = true,
            "--mincpus" => self.mincpus = count()?,
            // Accepted and ignored, so that a job's options can be passed unchanged: the layout does not
            // choose hosts by memory.
            "--mem" => drop(text()?),
            _ => return Err(OptionError::Unknown(name.to_owned())),
        }
        Ok(())
    }

    /// `-B S[:C[:T]]`, each a number or `*`.
    fn set_extra_node_info(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let bad = || OptionError::Value { option: name.to_owned(), value: value.to_owned() };
        let pieces: Vec<&str> = value.split(':').collect();
        if pieces.len() > 3 {
            return Err(bad());
        }
        let targets = [&mut self.sockets_per_node, &mut self.cores_per_socket, &mut self.threads_per_core];
        for (piece, target) in pieces.iter().zip(targets) {
            *target = if *piece == "*" { None } else { Some(positive(name, piece).map_err(|_| bad())?) };
        }
        self.extra_node_info_levels = pieces.len();
        Ok(())
    }

    /// The request with hints expanded and implied binding levels set. A hint yields to explicit options.
    pub(super) fn resolved(&self) -> Self {
        let mut request = self.clone();
        let spelled_out = self.extra_node_info_levels > 0
            || self.ntasks_per_core.is_some()
            || self.threads_per_core.is_some()
            || self.cpu_bind.is_set();
        if let Some(hint) = request.hint.take().filter(|_| !spelled_out) {
            request.apply(hint);
        }
        request
    }

    fn apply(&mut self, hint: Hint) {
        match hint {
            Hint::ComputeBound => {
                self.threads_per_core = Some(1);
                self.cpu_bind.level = Some(Level::Cores);
            }
            Hint::MemoryBound => {
                self.cores_per_socket = Some(1);
                self.threads_per_core = Some(1);
                self.cpu_bind.level = Some(Level::Cores);
            }
            Hint::Multithread => self.cpu_bind.level = Some(Level::Threads),
            Hint::NoMultithread => {
                self.threads_per_core = Some(1);
                self.cpu_bind.level = Some(Level::Threads);
                self.cpu_bind.one_thread = true;
            }
        }
    }
}

/// An argument as option name and attached value: `--name=value` or `-nvalue`.
fn split(arg: &str) -> (&str, Option<&str>) {
    if arg.starts_with("--") {
        return arg.split_once('=').map_or((arg, None), |(name, value)| (name, Some(value)));
    }
    match arg.char_indices().nth(2) {
        Some((at, _)) => (&arg[..at], Some(&arg[at..])),
        None => (arg, None),
    }
}

/// The options that need a value, by every name.
const WITH_VALUE: [&str; 25] = [
    "-n",
    "--ntasks",
    "-N",
    "--nodes",
    "-c",
    "--cpus-per-task",
    "-B",
    "--extra-node-info",
    "--sockets-per-node",
    "--cores-per-socket",
    "--threads-per-core",
    "--ntasks-per-node",
    "--ntasks-per-socket",
    "--ntasks-per-core",
    "-m",
    "--distribution",
    "-w",
    "--nodelist",
    "--hint",
    "--cpu-bind",
    "--mincpus",
    "--minsockets",
    "--mincores",
    "--minthreads",
    "--mem",
];

fn takes_value(name: &str) -> bool {
    WITH_VALUE.contains(&name)
}

fn positive(name: &str, value: &str) -> Result<usize, OptionError> {
    let number = value.bytes().all(|byte| byte.is_ascii_digit()).then(|| value.parse().ok()).flatten();
    number
        .filter(|number| (1..=COUNT_MAX).contains(number))
        .ok_or_else(|| OptionError::Value { option: name.to_owned(), value: value.to_owned() })
}

fn range(name: &str, value: &str) -> Result<(usize, usize), OptionError> {
    let (least, most) = value.split_once('-').unwrap_or((value, value));
    let (least, most) = (positive(name, least)?, positive(name, most)?);
    if least > most {
        return Err(OptionError::Value { option: name.to_owned(), value: value.to_owned() });
    }
    Ok((least, most))
}

fn hint(name: &str, value: &str) -> Result<Option<Hint>, OptionError> {
    match value {
        "compute_bound" => Ok(Some(Hint::ComputeBound)),
        "memory_bound" => Ok(Some(Hint::MemoryBound)),
        "multithread" => Ok(Some(Hint::Multithread)),
        "nomultithread" => Ok(Some(Hint::NoMultithread)),
        _ => Err(OptionError::Value { option: name.to_owned(), value: value.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{OverHosts, Within};
    use super::*;

    #[test]
    fn each_spelling_of_an_option_is_read() {
        for args in [&["-n", "4"][..], &["-n4"], &["--ntasks", "4"], &["--ntasks=4"]] {
            let request = LayoutRequest::from_args(args).unwrap();
            assert_eq!(request, LayoutRequest { ntasks: Some(4), ..LayoutRequest::default() }, "{args:?}");
        }
    }

    #[test]
    fn values() {
        let args =
            ["-N2-3", "-B", "*:2", "-m", "plane=4:*:fcyclic,NoPack", "--cpu-bind=verbose,map_cpu:0,0x2"];
        let request = LayoutRequest::from_args(&args).unwrap();
        assert_eq!(request.nodes, Some((2, 3)));
        assert_eq!((request.sockets_per_node, request.cores_per_socket), (None, Some(2)));
        let distribution = request.distribution.unwrap();
        assert_eq!(distribution.hosts, Some(OverHosts::Plane(4)));
        assert_eq!((distribution.sockets, distribution.cores), (None, Some(Within::FullCyclic)));
        assert_eq!(distribution.pack, Some(false));
        let manual = super::super::Manual::MapCpu(vec![0, 2]);
        assert_eq!(request.cpu_bind.manual, Some(manual));
    }

    #[test]
    fn errors_name_the_option() {
        let check = |args: &[&str], want: &str| {
            assert_eq!(LayoutRequest::from_args(args).unwrap_err().to_string(), want, "{args:?}");
        };
        check(&["--frobnicate"], "`--frobnicate` is not a layout option");
        check(&["-n"], "the option -n needs a value");
        check(&["-n", "-1"], "the option -n does not take `-1`, but a whole number from 1 to 1048576");
        check(&["-n", "0"], "the option -n does not take `0`, but a whole number from 1 to 1048576");
        check(
            &["-n", "99999999"],
            "the option -n does not take `99999999`, but a whole number from 1 to 1048576",
        );
        check(
            &["-N", "3-2"],
            "the option -N does not take `3-2`, but how many hosts, or the least and the most: 2, 2-4",
        );
        check(
            &["-B", "1:2:3:4"],
            "the option -B does not take `1:2:3:4`, but sockets[:cores[:threads]], each a number from 1 on, or *",
        );
        check(
            &["--hint=fast"],
            "the option --hint does not take `fast`, but compute_bound, memory_bound, multithread or nomultithread",
        );
        check(
            &["-m", "block:wild"],
            "the option -m does not take `block:wild`, but block, cyclic, plane=N or arbitrary over hosts, then :block, \
             :cyclic or :fcyclic over sockets, and over cores",
        );
        check(
            &["--cpu-bind=mask_cpu:xyz"],
            "the option --cpu-bind does not take `mask_cpu:xyz`, but none, rank, sockets, cores, threads, ldoms, rank_ldom, \
             or map_cpu:, mask_cpu:, map_ldom: or mask_ldom: with a list",
        );
    }
}
