//! Slurm's layout options that a job has as well.

use clap::Args;

use crate::job::switch::Switch;

/// The layout options that a job has as well, each also as an environment variable. Absent here: `PINFOLD_NTASKS`,
/// which jobs find in their environment, see `tasks`.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Layout options, with Slurm's names and meaning")]
pub(crate) struct TaskOptions {
    /// How many tasks: so many copies, each with its own PINFOLD_TASK_ID [env: PINFOLD_NTASKS=]
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true)]
    pub ntasks: Option<String>,
    /// How many hosts, or the least and the most
    #[arg(
        short = 'N',
        long,
        env = "PINFOLD_NODES",
        hide_env_values = true,
        value_name = "N[-N]",
        allow_negative_numbers = true
    )]
    nodes: Option<String>,
    /// How many PUs each task wants
    #[arg(
        short = 'c',
        long,
        env = "PINFOLD_CPUS_PER_TASK",
        hide_env_values = true,
        value_name = "N",
        allow_negative_numbers = true
    )]
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
    #[arg(
        long,
        env = "PINFOLD_SOCKETS_PER_NODE",
        hide_env_values = true,
        value_name = "N",
        allow_negative_numbers = true
    )]
    sockets_per_node: Option<String>,
    /// The least cores a socket must have
    #[arg(
        long,
        env = "PINFOLD_CORES_PER_SOCKET",
        hide_env_values = true,
        value_name = "N",
        allow_negative_numbers = true
    )]
    cores_per_socket: Option<String>,
    /// The least threads a core must have, and the most that are used
    #[arg(
        long,
        env = "PINFOLD_THREADS_PER_CORE",
        hide_env_values = true,
        value_name = "N",
        allow_negative_numbers = true
    )]
    threads_per_core: Option<String>,
    /// How many tasks on each host
    #[arg(
        long,
        env = "PINFOLD_NTASKS_PER_NODE",
        hide_env_values = true,
        value_name = "N",
        allow_negative_numbers = true
    )]
    ntasks_per_node: Option<String>,
    /// At most so many tasks on each socket
    #[arg(
        long,
        env = "PINFOLD_NTASKS_PER_SOCKET",
        hide_env_values = true,
        value_name = "N",
        allow_negative_numbers = true
    )]
    ntasks_per_socket: Option<String>,
    /// At most so many tasks on each core
    #[arg(
        long,
        env = "PINFOLD_NTASKS_PER_CORE",
        hide_env_values = true,
        value_name = "N",
        allow_negative_numbers = true
    )]
    ntasks_per_core: Option<String>,
    /// block, cyclic or plane=N over hosts, then block, cyclic or fcyclic over sockets and cores
    #[arg(
        short = 'm',
        long,
        env = "PINFOLD_DISTRIBUTION",
        hide_env_values = true,
        value_name = "HOSTS[:SOCKETS[:CORES]]"
    )]
    distribution: Option<String>,
    /// compute_bound, memory_bound, multithread or nomultithread
    #[arg(long, env = "PINFOLD_HINT", hide_env_values = true, value_name = "HINT")]
    hint: Option<String>,
    /// none, rank, map_cpu:L, mask_cpu:L, sockets, cores, threads, ldoms, rank_ldom, map_ldom:L or mask_ldom:L
    #[arg(long, env = "PINFOLD_CPU_BIND", hide_env_values = true, value_name = "HOW")]
    cpu_bind: Option<String>,
    /// The least PUs a host must have
    #[arg(
        long,
        env = "PINFOLD_MINCPUS",
        hide_env_values = true,
        value_name = "N",
        allow_negative_numbers = true
    )]
    mincpus: Option<String>,
    /// The least sockets, cores and threads, by Slurm's older names
    #[arg(
        long,
        hide = true,
        value_name = "N",
        allow_negative_numbers = true,
        conflicts_with = "sockets_per_node"
    )]
    minsockets: Option<String>,
    /// See --minsockets
    #[arg(
        long,
        hide = true,
        value_name = "N",
        allow_negative_numbers = true,
        conflicts_with = "cores_per_socket"
    )]
    mincores: Option<String>,
    /// See --minsockets
    #[arg(
        long,
        hide = true,
        value_name = "N",
        allow_negative_numbers = true,
        conflicts_with = "threads_per_core"
    )]
    minthreads: Option<String>,
    /// Let tasks share PUs where there are more of them than PUs
    #[arg(short = 'O', long, env = "PINFOLD_OVERCOMMIT", hide_env_values = true, value_parser = Switch)]
    overcommit: bool,
    /// Use no more PUs than the tasks ask for, as far as whole cores are not handed out anyway
    #[arg(long, env = "PINFOLD_EXACT", hide_env_values = true, value_parser = Switch)]
    exact: bool,
}

impl TaskOptions {
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
