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
    /// Number of tasks: copies of the command, each with a PINFOLD_TASK_ID [env: PINFOLD_NTASKS=]
    #[arg(short = 'n', long, value_name = "N")]
    pub ntasks: Option<String>,
    /// Number of hosts, or the fewest and the most
    #[arg(short = 'N', long, env = "PINFOLD_NODES", value_name = "N[-N]")]
    nodes: Option<String>,
    /// Number of PUs of each task
    #[arg(short = 'c', long, env = "PINFOLD_CPUS_PER_TASK", value_name = "N")]
    cpus_per_task: Option<String>,
    /// Fewest sockets of a host, cores of a socket and threads of a core
    #[arg(short = 'B', long, env = "PINFOLD_EXTRA_NODE_INFO", value_name = "S[:C[:T]]")]
    extra_node_info: Option<String>,
    /// Fewest sockets of a host
    #[arg(long, env = "PINFOLD_SOCKETS_PER_NODE", value_name = "N")]
    sockets_per_node: Option<String>,
    /// Fewest cores of a socket
    #[arg(long, env = "PINFOLD_CORES_PER_SOCKET", value_name = "N")]
    cores_per_socket: Option<String>,
    /// Fewest threads of a core, and the most used threads of a core
    #[arg(long, env = "PINFOLD_THREADS_PER_CORE", value_name = "N")]
    threads_per_core: Option<String>,
    /// Number of tasks on each host
    #[arg(long, env = "PINFOLD_NTASKS_PER_NODE", value_name = "N")]
    ntasks_per_node: Option<String>,
    /// Most tasks on each socket
    #[arg(long, env = "PINFOLD_NTASKS_PER_SOCKET", value_name = "N")]
    ntasks_per_socket: Option<String>,
    /// Most tasks on each core
    #[arg(long, env = "PINFOLD_NTASKS_PER_CORE", value_name = "N")]
    ntasks_per_core: Option<String>,
    /// Order of tasks: block, cyclic, plane=N or arbitrary over hosts, then block, cyclic or fcyclic over sockets and cores
    #[arg(short = 'm', long, env = "PINFOLD_DISTRIBUTION", value_name = "HOSTS[:SOCKETS[:CORES]]")]
    distribution: Option<String>,
    /// Host of each task for --distribution=arbitrary: n1,n2,n[3-5],n9*4. A number is the place of a host; other names are
    /// hosts in the order of their first appearance
    #[arg(short = 'w', long, env = "PINFOLD_NODELIST", value_name = "HOSTS", conflicts_with = "nodefile")]
    nodelist: Option<String>,
    /// File with a host a line, in place of --nodelist [default with --distribution=arbitrary: $SLURM_HOSTFILE]
    #[arg(long, env = "PINFOLD_NODEFILE", value_name = "FILE")]
    nodefile: Option<PathBuf>,
    /// Kind of load: compute_bound, memory_bound, multithread or nomultithread
    #[arg(long, env = "PINFOLD_HINT", value_name = "HINT")]
    hint: Option<String>,
    /// Binding of tasks: none, rank, map_cpu:L, mask_cpu:L, sockets, cores, threads, ldoms, rank_ldom, map_ldom:L or
    /// mask_ldom:L
    #[arg(long, env = "PINFOLD_CPU_BIND", value_name = "HOW")]
    cpu_bind: Option<String>,
    /// Fewest PUs of a host
    #[arg(long, env = "PINFOLD_MINCPUS", value_name = "N")]
    mincpus: Option<String>,
    /// Older name in Slurm for --sockets-per-node
    #[arg(long, hide = true, value_name = "N", conflicts_with = "sockets_per_node")]
    minsockets: Option<String>,
    /// Older name in Slurm for --cores-per-socket
    #[arg(long, hide = true, value_name = "N", conflicts_with = "cores_per_socket")]
    mincores: Option<String>,
    /// Older name in Slurm for --threads-per-core
    #[arg(long, hide = true, value_name = "N", conflicts_with = "threads_per_core")]
    minthreads: Option<String>,
    /// Let tasks share PUs if there are more tasks than PUs
    #[arg(short = 'O', long, env = "PINFOLD_OVERCOMMIT", value_parser = Switch)]
    overcommit: bool,
    /// Use only as many PUs as the tasks request, rounded up to whole cores
    #[arg(long, env = "PINFOLD_EXACT", value_parser = Switch)]
    exact: bool,
}

impl TaskOptions {
    /// Reads the host file that places the tasks, if given.
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
