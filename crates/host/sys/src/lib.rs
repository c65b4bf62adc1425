//! The only crate that touches Linux: processes, control groups, signals, the machine's shape.
//!
//! Reading order. [`procfs`] and [`cgroup`] read (and write) kernel files below a root, real or fake. [`mode`] probes the
//! host and decides purely on the means for each ability; [`container`] applies them to jobs; [`doctor`] reports them.
//! [`records`] has the kernel's records of starts and ends of processes, [`discover`] the machine's topology, [`gpus`] its
//! GPUs, [`affinity`] the PUs of a thread. [`spawn`] and [`lead`] start programs and the tasks of a job, [`signals`]
//! receives signals, [`peer`] identifies the other end of a socket, [`paths`] has the default places, [`whereabouts`] a
//! note of the state beside a socket. [`housekeeping`] keeps other load off PUs, [`strays`] off NUMA nodes. [`scratch`]
//! makes jobs' directories in memory, [`apart`] their sandboxes. Below [`spawn`] lie `fork` (a child and its parent),
//! `program` (the child's program) and `tasks` (the layout of tasks). [`neighbours`] finds other users' daemons.
//! [`identity`] identifies a process, [`boot`] a boot of the host. [`jobserver`] has tokens for `make`, [`own_dir`] the
//! directory of a process. [`ready`] waits for descriptors, [`ancillary`] passes open files, [`passed`] refuses them,
//! [`files`], [`own`], [`stdout`] and [`terminal`] have other calls of the kernel. [`bounds`] reads the bounds of the
//! groups around a process, [`managers`] its workload manager, [`confined`] its other restrictions, [`adoptee`] candidates
//! for adoption.
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
