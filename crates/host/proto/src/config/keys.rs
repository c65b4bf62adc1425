//! The table of configuration keys: name, field, kind of value, default and meaning of each. Setting, display and
//! listing are generated from the table.
//!
//! Absent here: reading and display of values ([`super::kind`]), and the keys of projects and resources, named by an
//! operator.

use std::net::SocketAddr;
use std::time::Duration;

use pinfold_topo::CpuSet;

use super::kind::{
    Address, Blank, Cpus, Directory, HOUR, Kind, MIB, MILLISECOND, Milli, Names, OneOf, Optional, Priority,
    Programs, PublicKey, Sign, Size, Span, Switch, Whole, YEARS,
};
use super::{Learn, Preemption, Projects, Resources, Value};
use crate::job::JobPlace;

/// The kernel's largest process number (`PID_MAX_LIMIT`).
const PROCESSES_MAX: u32 = 1 << 22;

const PLACES: OneOf<JobPlace> =
    OneOf(&[JobPlace::Auto, JobPlace::Compact, JobPlace::Spread], JobPlace::as_str);
const PREEMPTIONS: OneOf<Preemption> =
    OneOf(&[Preemption::Hard, Preemption::Soft, Preemption::Off], Preemption::as_str);
const LEARNING: OneOf<Learn> = OneOf(&[Learn::User, Learn::Site], Learn::as_str);

/// A key: its name, its default as TOML, and its meaning in a line.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// `slots.factor`.
    pub name: &'static str,
    /// As TOML; empty for keys that are unset by default.
    pub default: &'static str,
    /// In a line.
    pub meaning: &'static str,
}

/// Makes [`Config`] and [`KEYS`] of rows: name, field and its type, kind of value, default as TOML, meaning.
macro_rules! keys {
    ($($(#[$about:meta])* $name:literal => $field:ident: $type:ty, $kind:expr, $default:literal, $meaning:literal;)*) => {
        /// The whole configuration, checked.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Config {
            $(
                #[doc = concat!("`", $name, "`: ", $meaning, ".")]
                $(#[$about])*
                pub $field: $type,
            )*
            /// `projects.NAME`: a project's guarantees and users.
            pub projects: Projects,
            /// `resources.NAME`: the count of a countable resource; for GPUs, how many of the found devices are
            /// handed out.
            pub resources: Resources,
        }

        /// Every key, in display order.
        pub const KEYS: &[Key] = &[$(Key { name: $name, default: $default, meaning: $meaning }),*];

        impl Default for Config {
            fn default() -> Self {
                Self {
                    $($field: $kind.default($default),)*
                    projects: Projects::new(),
                    resources: Resources::new(),
                }
            }
        }

        impl Config {
            /// Sets the key, or returns the expected form; `None`: the table has no such key.
            pub(super) fn set(&mut self, name: &str, value: &Value) -> Option<Result<(), String>> {
                match name {
                    $($name => Some($kind.read(value).map(|read| self.$field = read)),)*
                    _ => None,
                }
            }

            /// The keys of the table that name users, each with its names.
            pub fn users_named(&self) -> impl Iterator<Item = (&'static str, &[String])> {
                let all = [$(($name, $kind.users(&self.$field))),*];
                all.into_iter().filter_map(|(name, users)| Some((name, users?)))
            }

            /// The value of the key, as TOML; `None`: the table has no such key.
            pub(super) fn shown(&self, name: &str) -> Option<String> {
                match name {
                    $($name => Some($kind.show(&self.$field)),)*
                    _ => None,
                }
            }
        }
    };
}

keys! {
    "schedule" => schedule: bool, Switch, "true",
        "whether jobs wait for slots; off starts each at once and only measures it";
    "host.cpus" => host_cpus: Option<CpuSet>, Optional(Cpus), "",
        "the PUs pinfold may use, as a kernel list; unset: all that it is allowed";
    /// In bytes.
    "host.memory" => host_memory: Option<u64>, Optional(Size(0)), "",
        "what all jobs together may hold in RAM, as 8GiB; unset: all but the reserve";
    /// In bytes.
    "host.memory_reserve" => host_memory_reserve: Option<u64>, Optional(Size(0)), "",
        "RAM left to everything else; unset: 2 %, at least 256MiB";
    /// In bytes.
    "host.swap" => host_swap: Option<u64>, Optional(Size(0)), "",
        "swap that jobs may be paged out to; unset: all there is";
    "host.neighbours" => host_neighbours: Option<bool>, Optional(Switch), "",
        "whether the host is shared evenly with other users' daemons that have jobs: on, off; unset: on, off for root's";
    "host.other_load" => host_other_load: Option<bool>, Optional(Switch), "",
        "whether jobs get fewer slots while processes that are no jobs use cores: on, off; unset: on, off for root's";
    /// In thousandths.
    "slots.factor" => slots_factor_milli: u32, Milli(4), "1.5",
        "slots per core, 0 to 4; 0 holds every job";
    "slots.queue_depth" => slots_queue_depth: u32, Whole(1, 10_000_000), "100000",
        "jobs that may wait, per core; a further one is refused";
    "slots.queue_ttl" => slots_queue_ttl: Option<Duration>, Optional(Span(MILLISECOND, YEARS)), "",
        "how long a job may wait before it expires; unset: for ever";
    "cpu.affinity" => cpu_affinity: bool, Switch, "true",
        "whether jobs are pinned to cores";
    "cpu.place" => cpu_place: JobPlace, PLACES, "\"auto\"",
        "how a job's cores lie: compact, spread over caches, or auto: as jobs of its class were found to run faster";
    "cpu.backfill" => cpu_backfill: bool, Switch, "true",
        "whether slots beyond the cores are used, in the idle class";
    /// In thousandths.
    "cpu.protect" => cpu_protect_milli: u32, Milli(1), "0",
        "the part of each core, 0 to 1, that backfillers leave free for primaries, by measure; 0: as the slots say";
    "cpu.guard" => cpu_guard: bool, Switch, "false",
        "whether the youngest backfiller is frozen where a primary waits for a core beside it";
    "cpu.preemption" => cpu_preemption: Preemption, PREEMPTIONS, "\"soft\"",
        "hard: a job of higher priority freezes the lowest; soft: takes its core, and freezes the lowest if no slot is free; off";
    "cpu.housekeeping" => cpu_housekeeping: bool, Switch, "false",
        "whether interrupts and kernel threads are moved off the cores of --isolated jobs, and memory off sets' NUMA nodes";
    "memory.governor" => memory_governor: bool, Switch, "true",
        "whether jobs wait, are frozen and paged out for want of memory";
    "memory.prediction" => memory_prediction: bool, Switch, "true",
        "whether that happens before memory is short, from claims and growth";
    "memory.learn" => memory_learn: Learn, LEARNING, "\"user\"",
        "from whose jobs is learned what a user's jobs need: the user's own, or with site all, as far as measured";
    "memory.swap_slot" => memory_swap_slot: u32, Whole(1, 1000), "1",
        "how many jobs may come back from swap at a time";
    "learning.from_hub" => learning_from_hub: Option<String>, Blank(PublicKey), "\"\"",
        "the key of the hub (`hub status` shows it) from which estimates are taken for classes without runs here; empty: none";
    "limits.processes" => limits_processes: Option<u32>, Optional(Whole(1, PROCESSES_MAX)), "",
        "processes and threads that a job may have; unset: a quarter of the host's most";
    "limits.user_processes" => limits_user_processes: Option<u32>, Optional(Whole(1, PROCESSES_MAX)), "",
        "processes and threads that all jobs of a user may have; unset: half of the host's most";
    /// In bytes.
    "tmp.total" => tmp_total: Option<u64>, Optional(Size(0)), "",
        "what the directories that --tmp asks for may come to in all; unset: half of RAM";
    "modules.site" => modules_site: Vec<String>, Programs, "[]",
        "programs called `before` each job and `after` it, with the daemon's rights; absolute paths";
    "modules.disk" => modules_disk: Option<String>, Blank(Directory), "\"\"",
        "the directory in which --disk makes one for each job; empty: no job has one";
    /// In bytes.
    "modules.disk_total" => modules_disk_total: Option<u64>, Optional(Size(0)), "",
        "what the directories that --disk asks for may come to in all; unset: half of their file system";
    "modules.disk_unbounded" => modules_disk_unbounded: bool, Switch, "false",
        "whether --disk makes directories where no project quota keeps jobs to the size";
    "modules.wrap" => modules_wrap: Vec<String>, Programs, "[]",
        "programs that each job's command is wrapped in, as its user; absolute paths";
    "modules.limit" => modules_limit: Duration, Span(MILLISECOND.saturating_mul(100), HOUR), "\"1m\"",
        "how long a call of a program in modules.site may take, 100ms to 1h";
    "priority.max" => priority_max: u8, Priority, "16",
        "the highest priority there is here, 1 to 16";
    "priority.default" => priority_default: u8, Priority, "10",
        "the priority of a job that asks for none";
    "profile.interval" => profile_interval: Duration, Span(MILLISECOND.saturating_mul(50), HOUR), "\"1s\"",
        "time between two samples of a job, 50ms to 1h";
    "profile.processes" => profile_processes: bool, Switch, "true",
        "whether each process of a job is followed, by the kernel's records of them";
    "profile.pss" => profile_pss: bool, Switch, "true",
        "whether shared memory is divided among living processes, for at most 1 % of a core";
    "profile.files" => profile_files: bool, Switch, "false",
        "whether the files that jobs have open are recorded, at samples";
    "profile.retain" => profile_retain: Duration, Span(HOUR, YEARS), "\"90d\"",
        "how long ended jobs and their samples are kept";
    /// In bytes.
    "profile.store_max" => profile_store_max: Option<u64>, Optional(Size(MIB)), "\"4GiB\"",
        "what the job store may take on disk, at least 1MiB; beyond, what the oldest jobs have goes; empty: any size";
    "profile.metrics" => profile_metrics: Option<SocketAddr>, Address, "",
        "where OpenMetrics are served over HTTP, as 127.0.0.1:9464; every process that may connect may read; unset: nowhere";
    "profile.metrics_jobs" => profile_metrics_jobs: u32, Whole(0, 10_000), "100",
        "running jobs that have series of their own there, 0 to 10000";
    "profile.metrics_users" => profile_metrics_users: Vec<String>, Names, "[]",
        "users of this host who are told of jobs there, beside operators; * is everybody that may connect";
    /// In bytes.
    "record.events" => record_events: Option<u64>, Optional(Size(MIB)), "",
        "what recordings of the scheduler's events may take on disk, at least 1MiB, for `pinfold replay`; unset: none are made";
    "mark.character" => mark_character: Option<char>, Blank(Sign), "\"*\"",
        "what `pinfold ps` puts before processes of jobs; empty: nothing";
    "access.operators" => access_operators: Vec<String>, Names, "[]",
        "users who may see and change all jobs";
    "access.max_priority" => access_max_priority: u8, Priority, "10",
        "the highest priority of users who are no operators";
    /// In bytes.
    "access.max_jobs_size" => access_max_jobs_size: u64, Size(MIB), "\"64MiB\"",
        "what the jobs of a user who is no operator take, before they are over";
    "access.exclusive" => access_exclusive: Vec<String>, Names, "[]",
        "users besides operators who may take every slot; * is everybody";
    "access.no_suspend" => access_no_suspend: Vec<String>, Names, "[]",
        "users besides operators whose jobs may ask never to be frozen; * is everybody";
}
