//! Slurm's layout options that a job has as well.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use pinfold_place::layout::{HostList, LayoutRequest, OverHosts};
use pinfold_proto::ExitCode;

use crate::job::switch::Switch;
use pinfold_client::Failure;

/// No list of hosts is longer than this, in bytes.
const NODEFILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The layout options that a job has as well, each also as an environment variable. Absent here: `PINFOLD_NTASKS`,
/// which jobs find in their environment, see `tasks`.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Layout options, with Slurm's names and meaning")]
pub(crate) struct TaskOptions {
    /// How many tasks: so many copies, each with its own PINFOLD_TASK_ID [env: PINFOLD_NTASKS=]
    #[arg(short = 'n', long, value_name = "N")]
    pub ntasks: Option<String>,
    /// How many hosts, or the least and the most
    #[arg(short = 'N', long, env = "PINFOLD_NODES", hide_env_values = true, value_name = "N[-N]")]
    nodes: Option<String>,
    /// How many PUs each task wants
    #[arg(short = 'c', long, env = "PINFOLD_CPUS_PER_TASK", hide_env_values = true, value_name = "N")]
    cpus_per_task: Option<String>,
    /// The least sockets, cores and threads a host must have
    #[arg(
        short = 'B',
        long,
        env = "PINFOLD_EXTRA_NODE_INFO",
        hide_env_values = true,
        value_name = "S[:C[:T]]"
    )]
    extra_node_info: Option<String>,
    /// The least sockets a host must have
    #[arg(long, env = "PINFOLD_SOCKETS_PER_NODE", hide_env_values = true, value_name = "N")]
    sockets_per_node: Option<String>,
    /// The least cores a socket must have
    #[arg(long, env = "PINFOLD_CORES_PER_SOCKET", hide_env_values = true, value_name = "N")]
    cores_per_socket: Option<String>,
    /// The least threads a core must have, and the most that are used
    #[arg(long, env = "PINFOLD_THREADS_PER_CORE", hide_env_values = true, value_name = "N")]
    threads_per_core: Option<String>,
    /// How many tasks on each host
    #[arg(long, env = "PINFOLD_NTASKS_PER_NODE", hide_env_values = true, value_name = "N")]
    ntasks_per_node: Option<String>,
    /// At most so many tasks on each socket
    #[arg(long, env = "PINFOLD_NTASKS_PER_SOCKET", hide_env_values = true, value_name = "N")]
    ntasks_per_socket: Option<String>,
    /// At most so many tasks on each core
    #[arg(long, env = "PINFOLD_NTASKS_PER_CORE", hide_env_values = true, value_name = "N")]
    ntasks_per_core: Option<String>,
    /// block, cyclic, plane=N or arbitrary over hosts, then block, cyclic or fcyclic over sockets and cores
    #[arg(
        short = 'm',
        long,
        env = "PINFOLD_DISTRIBUTION",
        hide_env_values = true,
        value_name = "HOSTS[:SOCKETS[:CORES]]"
    )]
    distribution: Option<String>,
    /// The host of each task for --distribution=arbitrary: n1,n2,n[3-5],n9*4; numbers are hosts by their place, other
    /// names the hosts in the order in which they first appear
    #[arg(
        short = 'w',
        long,
        env = "PINFOLD_NODELIST",
        hide_env_values = true,
        value_name = "HOSTS",
        conflicts_with = "nodefile"
    )]
    nodelist: Option<String>,
    /// As --nodelist, from a file with a host a line [default with --distribution=arbitrary: $SLURM_HOSTFILE]
    #[arg(long, env = "PINFOLD_NODEFILE", hide_env_values = true, value_name = "FILE")]
    nodefile: Option<PathBuf>,
    /// compute_bound, memory_bound, multithread or nomultithread
    #[arg(long, env = "PINFOLD_HINT", hide_env_values = true, value_name = "HINT")]
    hint: Option<String>,
    /// none, rank, map_cpu:L, mask_cpu:L, sockets, cores, threads, ldoms, rank_ldom, map_ldom:L or mask_ldom:L
    #[arg(long, env = "PINFOLD_CPU_BIND", hide_env_values = true, value_name = "HOW")]
    cpu_bind: Option<String>,
    /// The least PUs a host must have
    #[arg(long, env = "PINFOLD_MINCPUS", hide_env_values = true, value_name = "N")]
    mincpus: Option<String>,
    /// The least sockets, cores and threads, by Slurm's older names
    #[arg(long, hide = true, value_name = "N", conflicts_with = "sockets_per_node")]
    minsockets: Option<String>,
    /// See --minsockets
    #[arg(long, hide = true, value_name = "N", conflicts_with = "cores_per_socket")]
    mincores: Option<String>,
    /// See --minsockets
    #[arg(long, hide = true, value_name = "N", conflicts_with = "threads_per_core")]
    minthreads: Option<String>,
    /// Let tasks share PUs where there are more of them than PUs
    #[arg(short = 'O', long, env = "PINFOLD_OVERCOMMIT", hide_env_values = true, value_parser = Switch)]
    overcommit: bool,
    /// Use no more PUs than the tasks ask for, as far as whole cores are not handed out anyway
    #[arg(long, env = "PINFOLD_EXACT", hide_env_values = true, value_parser = Switch)]
    exact: bool,
}

impl TaskOptions {
    /// Reads the host file, where the tasks lie by one.
    pub(crate) fn read_hosts(&self, request: &mut LayoutRequest) -> Result<(), Failure> {
        let arbitrary = request.distribution.is_some_and(|by| by.hosts == Some(OverHosts::Arbitrary));
        let slurms = || std::env::var_os("SLURM_HOSTFILE").filter(|_| arbitrary && self.nodelist.is_none());
        let (option, path) = match &self.nodefile {
            Some(path) => ("--nodefile", path.clone()),
            None => match slurms() {
                Some(path) => ("SLURM_HOSTFILE", PathBuf::from(path)),
                None => return Ok(()),
            },
        };
        request.hosts = Some(host_file(option, &path)?);
        Ok(())
    }

    /// The options that were given, by the names that `place` knows them by.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        let valued = [
            ("--ntasks", &self.ntasks),
            ("--nodes", &self.nodes),
            ("--cpus-per-task", &self.cpus_per_task),
            ("--extra-node-info", &self.extra_node_info),
            ("--sockets-per-node", &self.sockets_per_node),
            ("--cores-per-socket", &self.cores_per_socket),
            ("--threads-per-core", &self.threads_per_core),
            ("--ntasks-per-node", &self.ntasks_per_node),
            ("--ntasks-per-socket", &self.ntasks_per_socket),
            ("--ntasks-per-core", &self.ntasks_per_core),
            ("--distribution", &self.distribution),
            ("--nodelist", &self.nodelist),
            ("--hint", &self.hint),
            ("--cpu-bind", &self.cpu_bind),
            ("--mincpus", &self.mincpus),
            ("--minsockets", &self.minsockets),
            ("--mincores", &self.mincores),
            ("--minthreads", &self.minthreads),
        ];
        let switches = [("--overcommit", self.overcommit), ("--exact", self.exact)];
        let valued = valued.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
        // A switch has an empty value.
        valued.chain(switches.into_iter().filter(|(_, given)| *given).map(|(name, _)| (name, String::new())))
    }
}

fn host_file(option: &str, path: &Path) -> Result<HostList, Failure> {
    let failed = |error| Failure::doing(format!("{option}: failed to read {}", path.display()), &error);
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(NODEFILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if bytes.len() as u64 > NODEFILE_BYTES_MAX {
        let text = format!("{option}: {} has more than {NODEFILE_BYTES_MAX} bytes", path.display());
        return Err(Failure::new(ExitCode::Usage, text));
    }
    HostList::parse_file(option, &String::from_utf8_lossy(&bytes))
        .map_err(|error| Failure::new(ExitCode::Usage, error))
}
