//! The only crate that touches Linux: processes, control groups, signals, the machine's shape.
//!
//! Reading order. [`procfs`] and [`cgroup`] read (and write) kernel files below a root, real or fake. [`mode`] probes
//! what the host offers and decides purely by which means each ability is provided; [`container`] carries that out for
//! jobs; [`doctor`] says it in words. [`records`] hears from the kernel of processes that start and end,
//! [`discover`] reads the machine's topology, [`gpus`] its GPUs, [`affinity`] which PUs a thread may use. [`spawn`], [`lead`],
//! [`signals`], [`peer`] and [`paths`] start programs and the tasks of a job, receive signals, know who is at the
//! other end of a socket, and say where files lie; [`whereabouts`] notes that beside a socket. [`housekeeping`] keeps what is no job off PUs, [`strays`] off NUMA nodes. [`scratch`] gives jobs directories in
//! memory, [`apart`] a `/tmp` and a network of their own. Below [`spawn`] lie `fork` (a child and its parent), `program` (what a
//! child becomes) and `tasks` (how tasks are laid out). [`neighbours`] finds other users' daemons. [`identity`] names one process for good, [`boot`] a boot of the host. [`jobserver`] has tokens for `make`, [`own_dir`] the directory of one process. [`ready`] waits for
//! descriptors, [`ancillary`] passes open files on, [`passed`] has clients pass none, [`files`], [`own`], [`stdout`] and [`terminal`] have the rest of what other crates ask of
//! the kernel. [`bounds`] says what the groups around a process let it have, [`managers`] in whose job
//! it is, [`confined`] what else holds a process, [`adoptee`] what
//! processes are that are to become a job.
//!
//! Absent here: any decision about jobs, any clock that decides, any store. Unsafe code stands only in small wrappers,
//! each with its reason.

pub mod adoptee;
pub mod affinity;
pub mod ancillary;
pub mod apart;
pub mod aside;
pub mod boot;
pub mod bounds;
pub mod cgroup;
pub mod confined;
pub mod container;
pub mod discover;
pub mod doctor;
pub mod files;
mod fork;
pub mod gpus;
pub mod housekeeping;
pub mod identity;
pub mod inherited;
pub mod init;
pub mod jobserver;
pub mod lead;
pub mod managers;
pub mod mode;
pub mod neighbours;
pub mod own;
pub mod own_dir;
pub mod passed;
pub mod paths;
pub mod peer;
pub mod procfs;
mod program;
pub mod ready;
pub mod records;
pub mod scratch;
pub mod shared;
pub mod signals;
pub mod site;
pub mod spawn;
pub mod stdout;
pub mod strays;
mod tasks;
pub mod terminal;
pub mod user_scope;
pub mod whereabouts;
