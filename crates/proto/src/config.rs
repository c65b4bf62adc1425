//! What an operator sets: every key with its meaning and default, read from a TOML file or as `KEY=VALUE`,
//! checked here once, so that nobody asks again.
//!
//! A key has one home: its entry in [`KEYS`] with name, meaning and default, and its arm in `Config::apply`.
//! Absent here: reading files, and what the values lead to.

mod hint;
mod projects;
mod resources;
mod value;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use pinfold_topo::CpuSet;
use toml::de::{DeTable, DeValue};

use crate::job::JobPlace;
use crate::quantity::show_size;

use value::Value;

pub use hint::hint;
pub use projects::{PROJECT_KEYS, Project, Projects};
pub use resources::Resources;

/// The whole configuration, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `host.cpus`: the PUs pinfold may use; `None`: all that it is allowed.
    pub host_cpus: Option<CpuSet>,
    /// `host.memory`: what all jobs together may hold in RAM; `None`: all of it but the reserve.
    pub host_memory: Option<u64>,
    /// `host.memory_reserve`: RAM left to everything else; `None`: 2 %, at least 256 MiB.
    pub host_memory_reserve: Option<u64>,
    /// `host.swap`: swap that jobs may be paged out to; `None`: all there is.
    pub host_swap: Option<u64>,
    /// `host.neighbours`: whether the host is shared evenly with other users' daemons; `None`: unless this one is root's.
    pub host_neighbours: Option<bool>,
    /// `host.other_load`: whether cores that processes which are no jobs use are handed out less; `None`: unless this
    /// daemon is root's.
    pub host_other_load: Option<bool>,
    /// `slots.factor`, in thousandths of slots per core.
    pub slots_factor_milli: u32,
    /// `slots.queue_depth`: jobs that may wait, per core.
    pub slots_queue_depth: u32,
    /// `slots.queue_ttl`: how long a job may wait.
    pub slots_queue_ttl: Option<Duration>,
    /// `cpu.affinity`: whether jobs are pinned.
    pub cpu_affinity: bool,
    /// `cpu.place`: how the cores of a job lie that does not say.
    pub cpu_place: JobPlace,
    /// `cpu.backfill`: whether slots beyond the cores are used.
    pub cpu_backfill: bool,
    /// `cpu.protect`: the part of each core that backfillers leave free, in thousandths; 0: none.
    pub cpu_protect_milli: u32,
    /// `cpu.guard`: whether backfillers give way where a primary waits for a core more than is usual for it.
    pub cpu_guard: bool,
    /// `cpu.preemption`: what a job of higher priority may do.
    pub cpu_preemption: Preemption,
    /// `cpu.housekeeping`: whether interrupts and kernel threads are moved off the cores of isolated jobs, and what is no
    /// job's off the NUMA nodes of sets.
    pub cpu_housekeeping: bool,
    /// `memory.governor`: whether jobs wait, are frozen and paged out for want of memory.
    pub memory_governor: bool,
    /// `memory.prediction`: whether that is done before memory is short, from claims and growth.
    pub memory_prediction: bool,
    /// `memory.learn`: from whose jobs is learned what a user's jobs need.
    pub memory_learn: Learn,
    /// `memory.swap_slot`: how many jobs may come back from swap at a time.
    pub memory_swap_slot: u32,
    /// `limits.processes`: processes and threads that a job may have; `None`: a quarter of what the host can have.
    pub limits_processes: Option<u32>,
    /// `limits.user_processes`: those that all jobs of a user may have; `None`: half of what the host can have.
    pub limits_user_processes: Option<u32>,
    /// `tmp.total`: what the directories in memory of all jobs may come to; `None`: half of RAM.
    pub tmp_total: Option<u64>,
    /// `modules.site`: the site's programs that are called before and after each job.
    pub modules_site: Vec<String>,
    /// `modules.wrap`: those that each job's command is wrapped in.
    pub modules_wrap: Vec<String>,
    /// `modules.disk`: where `--disk` makes directories; `None`: no job has one.
    pub modules_disk: Option<String>,
    /// `modules.disk_total`: what they may come to in all; `None`: half of the file system.
    pub modules_disk_total: Option<u64>,
    /// `modules.disk_unbounded`: whether one that nothing keeps to its size will do.
    pub modules_disk_unbounded: bool,
    /// `modules.limit`: how long a call of one may take.
    pub modules_limit: Duration,
    /// `priority.max`: the highest priority there is here, 1 to 16.
    pub priority_max: u8,
    /// `priority.default`: the priority of a job that asks for none.
    pub priority_default: u8,
    /// `profile.interval`: time between two samples of a job.
    pub profile_interval: Duration,
    /// `profile.processes`: whether each process of a job is followed.
    pub profile_processes: bool,
    /// `profile.pss`: whether shared memory is divided among the processes that have it.
    pub profile_pss: bool,
    /// `profile.files`: whether files that jobs have open are recorded.
    pub profile_files: bool,
    /// `profile.retain`: how long ended jobs are kept.
    pub profile_retain: Duration,
    /// `profile.store_max`: how many bytes the job store may take on disk; `None`: any number.
    pub profile_store_max: Option<u64>,
    /// `profile.metrics`: where figures for a monitoring system are to be had; `None`: nowhere.
    pub profile_metrics: Option<SocketAddr>,
    /// `profile.metrics_jobs`: how many running jobs have series of their own there.
    pub profile_metrics_jobs: u32,
    /// `mark.character`: what `pinfold ps` puts before processes of jobs; `None`: nothing.
    pub mark_character: Option<char>,
    /// `schedule`: whether jobs wait for slots at all.
    pub schedule: bool,
    /// `profile.metrics_users`: users who are told of jobs there, beside operators; `*`: whoever may connect.
    pub profile_metrics_users: Vec<String>,
    /// `record.events`: what recordings of the scheduler's events may take, in bytes; `None`: none are made.
    pub record_events: Option<u64>,
    /// `access.operators`: users who may do to all jobs what their owners may.
    pub access_operators: Vec<String>,
    /// `access.max_priority`: the highest priority of a user who is no operator.
    pub access_max_priority: u8,
    /// `access.max_jobs_size`: bytes that a user's jobs take which are not over; kept starts take 16 times as many.
    pub access_max_jobs_size: u64,
    /// `access.exclusive`: users who may ask for every slot; `*`: all.
    pub access_exclusive: Vec<String>,
    /// `access.no_suspend`: users who may ask never to be frozen; `*`: all.
    pub access_no_suspend: Vec<String>,
    /// `projects.NAME`: what is a project's own, and whose it is.
    pub projects: Projects,
    /// `resources.NAME`: how many there are of a countable resource; of GPUs, how many of those found are handed out.
    pub resources: Resources,
}

/// `memory.learn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learn {
    /// From the user's own.
    User,
    /// From all jobs of the host, by what the daemon measured itself.
    Site,
}

/// `cpu.preemption`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preemption {
    /// The lowest running job is frozen.
    Hard,
    /// The lowest primary becomes a backfiller.
    Soft,
    /// Nothing.
    Off,
}

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

const fn key(name: &'static str, default: &'static str, meaning: &'static str) -> Key {
    Key { name, default, meaning }
}

/// Every key, in the order in which they are shown.
pub const KEYS: &[Key] = &[
    key("schedule", "true", "whether jobs wait for slots; off starts each at once and only measures it"),
    key("host.cpus", "", "the PUs pinfold may use, as a kernel list; unset: all that it is allowed"),
    key("host.memory", "", "what all jobs together may hold in RAM, as 8GiB; unset: all but the reserve"),
    key("host.memory_reserve", "", "RAM left to everything else; unset: 2 %, at least 256MiB"),
    key("host.swap", "", "swap that jobs may be paged out to; unset: all there is"),
    key(
        "host.neighbours",
        "",
        "whether the host is shared evenly with other users' daemons that have jobs: on, off; unset: on, off for root's",
    ),
    key(
        "host.other_load",
        "",
        "whether jobs get fewer slots while processes that are no jobs use cores: on, off; unset: on, off for root's",
    ),
    key("slots.factor", "1.5", "slots per core, 0 to 4; 0 holds every job"),
    key("slots.queue_depth", "100000", "jobs that may wait, per core; a further one is refused"),
    key("slots.queue_ttl", "", "how long a job may wait before it expires; unset: for ever"),
    key("cpu.affinity", "true", "whether jobs are pinned to cores"),
    key(
        "cpu.place",
        "\"auto\"",
        "how a job's cores lie: compact, spread over caches, or auto: as jobs of its class were found to run faster",
    ),
    key("cpu.backfill", "true", "whether slots beyond the cores are used, in the idle class"),
    key(
        "cpu.protect",
        "0",
        "the part of each core, 0 to 1, that backfillers leave free for primaries, by measure; 0: as the slots say",
    ),
    key(
        "cpu.guard",
        "false",
        "whether the youngest backfiller is frozen where a primary waits for a core beside it",
    ),
    key(
        "cpu.preemption",
        "\"soft\"",
        "hard: a job of higher priority freezes the lowest; soft: takes its core; off",
    ),
    key(
        "cpu.housekeeping",
        "false",
        "whether interrupts and kernel threads are moved off the cores of --isolated jobs, and memory off sets' NUMA nodes",
    ),
    key("memory.governor", "true", "whether jobs wait, are frozen and paged out for want of memory"),
    key("memory.prediction", "true", "whether that happens before memory is short, from claims and growth"),
    key(
        "memory.learn",
        "\"user\"",
        "from whose jobs is learned what a user's jobs need: the user's own, or with site all, as far as measured",
    ),
    key("memory.swap_slot", "1", "how many jobs may come back from swap at a time"),
    key(
        "limits.processes",
        "",
        "processes and threads that a job may have; unset: a quarter of the host's most",
    ),
    key(
        "limits.user_processes",
        "",
        "processes and threads that all jobs of a user may have; unset: half of the host's most",
    ),
    key("tmp.total", "", "what the directories that --tmp asks for may come to in all; unset: half of RAM"),
    key(
        "modules.site",
        "[]",
        "programs called `before` each job and `after` it, with the daemon's rights; absolute paths",
    ),
    key(
        "modules.disk",
        "\"\"",
        "the directory in which --disk makes one for each job; empty: no job has one",
    ),
    key(
        "modules.disk_total",
        "",
        "what the directories that --disk asks for may come to in all; unset: half of their file system",
    ),
    key(
        "modules.disk_unbounded",
        "false",
        "whether --disk makes directories where no project quota keeps jobs to the size",
    ),
    key("modules.wrap", "[]", "programs that each job's command is wrapped in, as its user; absolute paths"),
    key("modules.limit", "\"1m\"", "how long a call of a program in modules.site may take, 100ms to 1h"),
    key("priority.max", "16", "the highest priority there is here, 1 to 16"),
    key("priority.default", "10", "the priority of a job that asks for none"),
    key("profile.interval", "\"1s\"", "time between two samples of a job, 50ms to 1h"),
    key(
        "profile.processes",
        "true",
        "whether each process of a job is followed, by the kernel's records of them",
    ),
    key(
        "profile.pss",
        "true",
        "whether shared memory is divided among living processes, for at most 1 % of a core",
    ),
    key("profile.files", "false", "whether the files that jobs have open are recorded, at samples"),
    key("profile.retain", "\"90d\"", "how long ended jobs and their samples are kept"),
    key(
        "profile.store_max",
        "\"4GiB\"",
        "what the job store may take on disk, at least 1MiB; beyond, what the oldest jobs have goes; empty: any size",
    ),
    key(
        "profile.metrics",
        "",
        "where OpenMetrics are served over HTTP, as 127.0.0.1:9464; every process that may connect may read; unset: nowhere",
    ),
    key("profile.metrics_jobs", "100", "running jobs that have series of their own there, 0 to 10000"),
    key(
        "profile.metrics_users",
        "[]",
        "users of this host who are told of jobs there, beside operators; * is everybody that may connect",
    ),
    key(
        "record.events",
        "",
        "what recordings of the scheduler's events may take on disk, at least 1MiB, for `pinfold replay`; unset: none are made",
    ),
    key("mark.character", "\"*\"", "what `pinfold ps` puts before processes of jobs; empty: nothing"),
    key("access.operators", "[]", "users who may see and change all jobs"),
    key("access.max_priority", "10", "the highest priority of users who are no operators"),
    key(
        "access.max_jobs_size",
        "\"64MiB\"",
        "what the jobs of a user who is no operator take, before they are over",
    ),
    key("access.exclusive", "[]", "users besides operators who may take every slot; * is everybody"),
    key(
        "access.no_suspend",
        "[]",
        "users besides operators whose jobs may ask never to be frozen; * is everybody",
    ),
];

/// What `resources.NAME` means, in a line.
pub const RESOURCES_MEANING: &str = "How many there are of each countable resource that jobs ask for with --resource; of GPUs, how many are handed out:";

/// What is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The text is not TOML.
    #[error("line {line}: {message}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// What the parser says.
        message: String,
    },
    /// There is no such key.
    #[error("{place}there is no key `{key}`{hint}")]
    Unknown {
        /// `line 3: ` in a file, else empty.
        place: String,
        /// The key.
        key: String,
        /// A key that looks like it, in words.
        hint: String,
    },
    /// The value does not fit the key.
    #[error("{place}`{key}` is {value}, and {wanted}")]
    Value {
        /// `line 3: ` in a file, else empty.
        place: String,
        /// The key.
        key: String,
        /// What was given.
        value: String,
        /// What is allowed.
        wanted: String,
    },
    /// Not `KEY=VALUE`.
    #[error("`{0}` is not KEY=VALUE")]
    NoValue(String),
    /// Two values that contradict each other.
    #[error("`{low}` is {low_value}, above `{high}`, {high_value}")]
    Order {
        /// The key that is too high.
        low: &'static str,
        /// Its value.
        low_value: u8,
        /// The key that bounds it.
        high: &'static str,
        /// Its value.
        high_value: u8,
    },
}

impl Default for Config {
    fn default() -> Self {
        Self {
            host_cpus: None,
            host_memory: None,
            host_memory_reserve: None,
            host_swap: None,
            host_neighbours: None,
            host_other_load: None,
            slots_factor_milli: 1500,
            slots_queue_depth: 100_000,
            slots_queue_ttl: None,
            cpu_affinity: true,
            cpu_place: JobPlace::Auto,
            cpu_backfill: true,
            cpu_protect_milli: 0,
            cpu_guard: false,
            cpu_preemption: Preemption::Soft,
            cpu_housekeeping: false,
            memory_governor: true,
            memory_prediction: true,
            memory_learn: Learn::User,
            memory_swap_slot: 1,
            limits_processes: None,
            limits_user_processes: None,
            tmp_total: None,
            modules_site: Vec::new(),
            modules_wrap: Vec::new(),
            modules_disk: None,
            modules_disk_total: None,
            modules_disk_unbounded: false,
            modules_limit: Duration::from_secs(60),
            priority_max: 16,
            priority_default: 10,
            profile_interval: Duration::from_secs(1),
            profile_processes: true,
            profile_retain: Duration::from_secs(90 * 86_400),
            profile_pss: true,
            profile_files: false,
            profile_store_max: Some(4 << 30),
            mark_character: Some('*'),
            profile_metrics: None,
            profile_metrics_jobs: 100,
            schedule: true,
            profile_metrics_users: Vec::new(),
            record_events: None,
            access_operators: Vec::new(),
            access_max_priority: 10,
            access_max_jobs_size: 64 << 20,
            access_exclusive: Vec::new(),
            access_no_suspend: Vec::new(),
            projects: Projects::new(),
            resources: Resources::new(),
        }
    }
}

/// The usual `host.memory_reserve`: this much, or this part of RAM in thousandths if that is more.
const RESERVE_BYTES: u64 = 256 << 20;
const RESERVE_MILLI: u64 = 20;

impl Config {
    /// What of a host's RAM, in bytes, is left to everything but jobs.
    #[must_use]
    pub fn memory_reserve_bytes(&self, ram_bytes: u64) -> u64 {
        self.host_memory_reserve.unwrap_or_else(|| RESERVE_BYTES.max(ram_bytes / 1000 * RESERVE_MILLI))
    }

    /// This configuration changed as the file's `text` says. Gives also the names of the keys that it sets.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line; nothing is changed then.
    pub fn with_file(&self, text: &str) -> Result<(Self, Vec<String>), ConfigError> {
        let table = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
            line: line_of(text, error.span().map_or(0, |span| span.start)),
            message: error.message().to_owned(),
        })?;
        let mut config = self.clone();
        let mut set = Vec::new();
        let mut entries = Vec::new();
        flatten("", table.get_ref(), &mut entries);
        for (name, at, value) in entries {
            set.push(config.apply(&name, &value, &format!("line {}: ", line_of(text, at)))?);
        }
        config.check()?;
        Ok((config, set))
    }

    /// This configuration with `changes`, each `KEY=VALUE`, all or none. A value is TOML; what is not is
    /// taken as a text, so that `cpu.preemption=hard` and `profile.interval=2s` need no quotes; an empty
    /// value unsets a key that may be unset. Gives also the names of the keys that were set.
    ///
    /// # Errors
    /// The first thing that is wrong, with its key; nothing is changed then.
    pub fn with_changes<'a>(
        &self,
        changes: impl IntoIterator<Item = &'a str>,
    ) -> Result<(Self, Vec<String>), ConfigError> {
        let mut config = self.clone();
        let mut set = Vec::new();
        for change in changes {
            let (name, text) =
                change.split_once('=').ok_or_else(|| ConfigError::NoValue(change.to_owned()))?;
            set.push(config.apply(name.trim(), &Value::read(text.trim()), "")?);
        }
        config.check()?;
        Ok((config, set))
    }

    /// The value of a key, as TOML; empty when it is unset.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<String> {
        let text = |text: &str| format!("{text:?}");
        let duration = |duration: Duration| format!("\"{}\"", show_duration(duration));
        let size = |bytes: u64| format!("\"{}\"", show_size(bytes));
        Some(match key {
            "schedule" => self.schedule.to_string(),
            "host.cpus" => self.host_cpus.as_ref().map(|set| text(&set.to_string())).unwrap_or_default(),
            "host.memory" => self.host_memory.map(size).unwrap_or_default(),
            "host.memory_reserve" => self.host_memory_reserve.map(size).unwrap_or_default(),
            "host.swap" => self.host_swap.map(size).unwrap_or_default(),
            "host.neighbours" => self.host_neighbours.map(|on| on.to_string()).unwrap_or_default(),
            "host.other_load" => self.host_other_load.map(|on| on.to_string()).unwrap_or_default(),
            "cpu.housekeeping" => self.cpu_housekeeping.to_string(),
            "memory.governor" => self.memory_governor.to_string(),
            "memory.prediction" => self.memory_prediction.to_string(),
            "memory.learn" => text(match self.memory_learn {
                Learn::User => "user",
                Learn::Site => "site",
            }),
            "limits.processes" => self.limits_processes.map(|most| most.to_string()).unwrap_or_default(),
            "limits.user_processes" => {
                self.limits_user_processes.map(|most| most.to_string()).unwrap_or_default()
            }
            "tmp.total" => self.tmp_total.map(size).unwrap_or_default(),
            "memory.swap_slot" => self.memory_swap_slot.to_string(),
            "modules.site" => format!("{:?}", self.modules_site),
            "modules.wrap" => format!("{:?}", self.modules_wrap),
            "modules.disk" => text(self.modules_disk.as_deref().unwrap_or_default()),
            "modules.disk_total" => self.modules_disk_total.map(size).unwrap_or_default(),
            "modules.disk_unbounded" => self.modules_disk_unbounded.to_string(),
            "modules.limit" => duration(self.modules_limit),
            "slots.factor" => format!("{}", f64::from(self.slots_factor_milli) / 1000.0),
            "slots.queue_depth" => self.slots_queue_depth.to_string(),
            "slots.queue_ttl" => self.slots_queue_ttl.map(duration).unwrap_or_default(),
            "cpu.affinity" => self.cpu_affinity.to_string(),
            "cpu.place" => text(self.cpu_place.as_str()),
            "cpu.backfill" => self.cpu_backfill.to_string(),
            "cpu.protect" => format!("{}", f64::from(self.cpu_protect_milli) / 1000.0),
            "cpu.guard" => self.cpu_guard.to_string(),
            "cpu.preemption" => text(match self.cpu_preemption {
                Preemption::Hard => "hard",
                Preemption::Soft => "soft",
                Preemption::Off => "off",
            }),
            "priority.max" => self.priority_max.to_string(),
            "priority.default" => self.priority_default.to_string(),
            "profile.interval" => duration(self.profile_interval),
            "profile.processes" => self.profile_processes.to_string(),
            "profile.pss" => self.profile_pss.to_string(),
            "profile.files" => self.profile_files.to_string(),
            "profile.retain" => duration(self.profile_retain),
            "profile.store_max" => {
                self.profile_store_max.map_or_else(String::new, |most| text(&show_size(most)))
            }
            "profile.metrics" => {
                self.profile_metrics.map_or_else(String::new, |address| text(&address.to_string()))
            }
            "profile.metrics_jobs" => self.profile_metrics_jobs.to_string(),
            "record.events" => self.record_events.map(size).unwrap_or_default(),
            "mark.character" => self.mark_character.map_or_else(|| text(""), |mark| text(&mark.to_string())),
            "profile.metrics_users" => format!("{:?}", self.profile_metrics_users),
            "access.operators" => format!("{:?}", self.access_operators),
            "access.max_priority" => self.access_max_priority.to_string(),
            "access.max_jobs_size" => text(&show_size(self.access_max_jobs_size)),
            "access.exclusive" => format!("{:?}", self.access_exclusive),
            "access.no_suspend" => format!("{:?}", self.access_no_suspend),
            other => {
                return projects::value(&self.projects, other)
                    .or_else(|| resources::value(&self.resources, other));
            }
        })
    }

    /// The names of all keys, those of the projects and resources that there are included.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let fixed = KEYS.iter().map(|key| key.name.to_owned());
        fixed.chain(projects::keys(&self.projects)).chain(resources::keys(&self.resources)).collect()
    }

    fn apply(&mut self, name: &str, value: &Value, place: &str) -> Result<String, ConfigError> {
        if let Some(done) = projects::apply(&mut self.projects, name, value, place) {
            return done.map(|()| name.to_owned());
        }
        if let Some(done) = resources::apply(&mut self.resources, name, value, place) {
            return done.map(|()| name.to_owned());
        }
        let Some(key) = KEYS.iter().find(|key| key.name == name) else {
            return Err(ConfigError::Unknown {
                place: place.to_owned(),
                key: name.to_owned(),
                hint: hint(name),
            });
        };
        let done = match key.name {
            "schedule" => value.switch().map(|on| self.schedule = on),
            "host.cpus" => value.cpus().map(|cpus| self.host_cpus = cpus),
            "host.memory" => value.optional_size().map(|bytes| self.host_memory = bytes),
            "host.memory_reserve" => value.optional_size().map(|bytes| self.host_memory_reserve = bytes),
            "host.swap" => value.optional_size().map(|bytes| self.host_swap = bytes),
            "host.neighbours" => value.optional_switch().map(|on| self.host_neighbours = on),
            "host.other_load" => value.optional_switch().map(|on| self.host_other_load = on),
            "memory.governor" => value.switch().map(|on| self.memory_governor = on),
            "memory.prediction" => value.switch().map(|on| self.memory_prediction = on),
            "memory.learn" => value.learn().map(|learn| self.memory_learn = learn),
            "memory.swap_slot" => value.whole(1, 1000).map(|slots| self.memory_swap_slot = slots),
            "limits.processes" => {
                value.optional_whole(1, PROCESSES_MAX).map(|most| self.limits_processes = most)
            }
            "limits.user_processes" => {
                value.optional_whole(1, PROCESSES_MAX).map(|most| self.limits_user_processes = most)
            }
            "tmp.total" => value.optional_size().map(|bytes| self.tmp_total = bytes),
            "modules.site" => value.programs().map(|programs| self.modules_site = programs),
            "modules.wrap" => value.programs().map(|programs| self.modules_wrap = programs),
            "modules.disk" => value.directory().map(|directory| self.modules_disk = directory),
            "modules.disk_total" => value.optional_size().map(|bytes| self.modules_disk_total = bytes),
            "modules.disk_unbounded" => value.switch().map(|on| self.modules_disk_unbounded = on),
            "modules.limit" => {
                value.duration(Duration::from_millis(100), HOUR).map(|limit| self.modules_limit = limit)
            }
            "slots.factor" => value.factor().map(|milli| self.slots_factor_milli = milli),
            "slots.queue_depth" => value.whole(1, 10_000_000).map(|depth| self.slots_queue_depth = depth),
            "slots.queue_ttl" => value.optional_duration().map(|ttl| self.slots_queue_ttl = ttl),
            "cpu.affinity" => value.switch().map(|on| self.cpu_affinity = on),
            "cpu.place" => value.place().map(|place| self.cpu_place = place),
            "cpu.backfill" => value.switch().map(|on| self.cpu_backfill = on),
            "cpu.protect" => value.part().map(|milli| self.cpu_protect_milli = milli),
            "cpu.guard" => value.switch().map(|on| self.cpu_guard = on),
            "cpu.preemption" => value.preemption().map(|kind| self.cpu_preemption = kind),
            "cpu.housekeeping" => value.switch().map(|on| self.cpu_housekeeping = on),
            "priority.max" => value.priority().map(|priority| self.priority_max = priority),
            "priority.default" => value.priority().map(|priority| self.priority_default = priority),
            other => self.apply_seeing_or_access(other, value),
        };
        done.map(|()| key.name.to_owned()).map_err(|wanted| ConfigError::Value {
            place: place.to_owned(),
            key: name.to_owned(),
            value: value.shown(),
            wanted,
        })
    }

    /// Sets a key about what is recorded and shown, or about rights.
    fn apply_seeing_or_access(&mut self, name: &str, value: &Value) -> Result<(), String> {
        match name {
            "profile.interval" => {
                value.duration(Duration::from_millis(50), HOUR).map(|time| self.profile_interval = time)
            }
            "profile.processes" => value.switch().map(|on| self.profile_processes = on),
            "profile.pss" => value.switch().map(|on| self.profile_pss = on),
            "profile.files" => value.switch().map(|on| self.profile_files = on),
            "profile.retain" => value.duration(HOUR, YEARS).map(|time| self.profile_retain = time),
            "profile.store_max" => match value.optional_size() {
                Ok(Some(0..0x10_0000)) => Err("at least 1MiB is wanted".to_owned()),
                size => size.map(|most| self.profile_store_max = most),
            },
            "profile.metrics" => value.optional_address().map(|address| self.profile_metrics = address),
            "profile.metrics_jobs" => value.whole(0, 10_000).map(|most| self.profile_metrics_jobs = most),
            "record.events" => match value.optional_size() {
                Ok(Some(0..0x10_0000)) => Err("at least 1MiB is wanted".to_owned()),
                size => size.map(|most| self.record_events = most),
            },
            "mark.character" => value.sign().map(|mark| self.mark_character = mark),
            "profile.metrics_users" => value.names().map(|names| self.profile_metrics_users = names),
            "access.operators" => value.names().map(|names| self.access_operators = names),
            "access.max_priority" => value.priority().map(|priority| self.access_max_priority = priority),
            "access.max_jobs_size" => match value.optional_size() {
                Ok(None | Some(0..0x10_0000)) => Err("at least 1MiB is wanted".to_owned()),
                size => size.map(|most| self.access_max_jobs_size = most.unwrap_or(u64::MAX)),
            },
            "access.exclusive" => value.names().map(|names| self.access_exclusive = names),
            "access.no_suspend" => value.names().map(|names| self.access_no_suspend = names),
            other => unreachable!("the key {other} stands in the table and has no arm"),
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let bounded = |low, low_value, high_value| {
            if low_value <= high_value {
                return Ok(());
            }
            Err(ConfigError::Order { low, low_value, high: "priority.max", high_value })
        };
        bounded("priority.default", self.priority_default, self.priority_max)
    }
}

/// The kernel gives no more numbers to processes than this (`PID_MAX_LIMIT`).
const PROCESSES_MAX: u32 = 1 << 22;
const HOUR: Duration = Duration::from_secs(3600);
const YEARS: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The default configuration as a file, each key commented out beneath its meaning.
#[must_use]
pub fn default_file() -> String {
    let mut text =
        String::from("# pinfold's configuration. Every key shows its default; take the # away to set it.\n");
    let mut section = "";
    for key in KEYS {
        let (head, tail) = key.name.rsplit_once('.').unwrap_or(("", key.name));
        if head != section {
            let _ = write!(text, "\n[{head}]\n");
            section = head;
        }
        let default = if key.default.is_empty() { "\"\"" } else { key.default };
        let _ = write!(text, "# {}\n#{tail} = {default}\n", key.meaning);
    }
    text.push_str("\n# Projects, each in a section of its own with any of these keys:\n# [projects.NAME]\n");
    for (name, meaning) in PROJECT_KEYS {
        let _ = writeln!(text, "# {name}: {meaning}");
    }
    let _ = write!(text, "\n# {RESOURCES_MEANING}\n# [resources]\n# licence.fluent = 2\n");
    text
}

fn flatten(prefix: &str, table: &DeTable<'_>, out: &mut Vec<(String, usize, Value)>) {
    for (name, value) in table {
        let name_text = name.get_ref();
        let full = if prefix.is_empty() { name_text.to_string() } else { format!("{prefix}.{name_text}") };
        match value.get_ref() {
            // A project may have nothing of its own but its name.
            DeValue::Table(inner) if inner.is_empty() && prefix == "projects" => {
                out.push((full, name.span().start, Value::EmptyTable));
            }
            DeValue::Table(inner) => flatten(&full, inner, out),
            other => out.push((full, name.span().start, Value::of(other))),
        }
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count() + 1
}

fn show_duration(duration: Duration) -> String {
    let us = duration.as_micros();
    for (unit, unit_us) in
        [("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000)]
    {
        if us >= unit_us && us.is_multiple_of(unit_us) {
            return format!("{}{unit}", us / unit_us);
        }
    }
    format!("{us}us")
}

#[cfg(test)]
mod tests;
