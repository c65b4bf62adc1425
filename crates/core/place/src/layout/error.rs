//! Why a request has no layout.

/// Why an option makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// The option's name is unknown.
    #[error("`{0}` is not a layout option")]
    Unknown(String),
    /// The option needs a value and has none.
    #[error("the option {0} needs a value")]
    NoValue(String),
    /// The list of hosts is empty.
    #[error("{0}: no host is named")]
    NoHosts(String),
    /// The option does not accept this value.
    #[error("the option {option} does not take `{value}`, but {}", taken(option))]
    Value {
        /// The option as typed.
        option: String,
        /// The rejected value.
        value: String,
    },
}

/// The values that an option takes, in words.
fn taken(option: &str) -> &'static str {
    match option {
        "-N" | "--nodes" => "how many hosts, or the least and the most: 2, 2-4",
        "-B" | "--extra-node-info" => "sockets[:cores[:threads]], each a number from 1 on, or *",
        "-m" | "--distribution" => {
            "block, cyclic, plane=N or arbitrary over hosts, then :block, :cyclic or :fcyclic over sockets, and over \
             cores"
        }
        "-w" | "--nodelist" | "--nodefile" | "SLURM_HOSTFILE" => {
            "names of hosts in the order of the tasks: n1,n2,n[3-5],n9*4"
        }
        "--hint" => "compute_bound, memory_bound, multithread or nomultithread",
        "--cpu-bind" => {
            "none, rank, sockets, cores, threads, ldoms, rank_ldom, or map_cpu:, mask_cpu:, map_ldom: or mask_ldom: \
             with a list"
        }
        _ => "a whole number from 1 to 1048576",
    }
}

/// Why a request has no layout on these hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The list of hosts is empty.
    #[error("there is no host")]
    NoHost,
    /// More tasks per core than threads per core.
    #[error("--ntasks-per-core ({per_core}) can not be more than --threads-per-core ({threads})")]
    TasksPerCore {
        /// Tasks per core.
        per_core: usize,
        /// Threads per core.
        threads: usize,
    },
    /// The number of hosts is too small for the tasks, or larger than the number present.
    #[error("node count specification invalid: {hosts} hosts needed, {present} present")]
    NodeCount {
        /// Hosts requested.
        hosts: usize,
        /// Hosts present.
        present: usize,
    },
    /// More PUs than all hosts have.
    #[error("more processors requested than there are: {asked} of {present}")]
    TooManyCpus {
        /// PUs requested.
        asked: usize,
        /// PUs of all hosts.
        present: usize,
    },
    /// More tasks than any layout is made for.
    #[error("{asked} tasks are more than {most}")]
    TooManyTasks {
        /// Tasks requested.
        asked: usize,
        /// Upper bound.
        most: usize,
    },
    /// A distribution by a list of hosts, without the list.
    #[error(
        "--distribution=arbitrary needs the host of each task: by --nodelist, --nodefile or the variable SLURM_HOSTFILE"
    )]
    NoNames,
    /// A list of hosts without an option that uses the list.
    #[error("a list of hosts says where tasks run with --distribution=arbitrary alone")]
    NamesWithoutUse,
    /// Fewer host names than tasks.
    #[error("{names} host names for {tasks} tasks")]
    TooFewNames {
        /// Names given.
        names: usize,
        /// Tasks asked for.
        tasks: usize,
    },
    /// A name stands for no host.
    #[error("`{name}` names a host beyond the {present} that there are")]
    NoSuchHost {
        /// The name.
        name: String,
        /// Hosts present.
        present: usize,
    },
    /// No host has the sockets, cores or threads asked for.
    #[error("socket, core or thread specification can not be satisfied")]
    Geometry,
    /// Even idle hosts could not meet the request.
    #[error("requested node configuration is not available")]
    NotAvailable,
    /// Only idle hosts could meet the request.
    #[error("requested nodes are busy")]
    Busy,
    /// A binding names PUs outside of the allocation.
    #[error("CPU binding outside of the allocation on host {host}; allocated are {allocated}")]
    OutsideAllocation {
        /// The host's index in the list.
        host: usize,
        /// The job's PUs there.
        allocated: String,
    },
    /// The form of binding needs a whole host.
    #[error("entire node must be allocated for {form} on host {host}")]
    WholeHostNeeded {
        /// The host's index in the list.
        host: usize,
        /// The form of binding.
        form: &'static str,
    },
    /// Fewer PUs than tasks to bind.
    #[error("host {host} has {cpus} CPUs for {tasks} tasks to bind")]
    TooFewToBind {
        /// The host's index in the list.
        host: usize,
        /// PUs of the step there.
        cpus: usize,
        /// Tasks there.
        tasks: usize,
    },
    /// The tasks cannot be laid out on the hosts of the allocation.
    #[error("the tasks do not fit the allocation")]
    Step,
}
