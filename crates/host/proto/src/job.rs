//! A job as it is asked for, the states it can be in, and how it ended.

use serde::{Deserialize, Deserializer, Serialize};

use crate::external::ExternalName;
use crate::terms::{After, Terms};

/// The class of a job, as asked for and as shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobClass {
    /// Normal class, on home cores of its own.
    Primary,
    /// Idle class, in the cycles others leave.
    Backfill,
    /// Every slot of the host.
    Exclusive,
}

impl JobClass {
    /// Each class.
    pub const ALL: [Self; 3] = [Self::Primary, Self::Backfill, Self::Exclusive];

    /// Its word, as in JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Backfill => "backfill",
            Self::Exclusive => "exclusive",
        }
    }
}

/// The state of a job, as shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Waits for a slot.
    Queued,
    /// Waits until it is released.
    Held,
    /// Runs.
    Running,
    /// Stopped by the freezer.
    Frozen,
    /// Frozen and paged out.
    Parked,
    /// Over; also: struck off before it ran.
    Exited,
}

impl JobState {
    /// Each state.
    pub const ALL: [Self; 6] =
        [Self::Queued, Self::Held, Self::Running, Self::Frozen, Self::Parked, Self::Exited];

    /// Its word, as in JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Held => "held",
            Self::Running => "running",
            Self::Frozen => "frozen",
            Self::Parked => "parked",
            Self::Exited => "exited",
        }
    }
}

/// Reads a name, if there is one.
fn not_blank<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let name = Option::<String>::deserialize(from)?;
    Ok(name.filter(|name| !name.trim().is_empty()))
}

/// What a client asks to run. The command's exact bytes, its environment and its directory stay with the
/// keeper that starts it; what stands here is for the record and for people.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobSpec {
    /// Its name; without one, the last part of the command's path.
    pub name: String,
    /// The project it belongs to. An empty name, such as an empty variable has, is none.
    #[serde(default, deserialize_with = "not_blank")]
    pub project: Option<String>,
    /// The command and its arguments; bytes that are not UTF-8 replaced, long ones cut.
    pub command: Vec<String>,
    /// The directory it is started in.
    pub directory: String,
    /// 1 to 16; `None`: the host's default.
    #[serde(default)]
    pub priority: Option<u8>,
    /// The class asked for; `None`: whichever is free first.
    #[serde(default)]
    pub class: Option<JobClass>,
    /// Cores, at least 1.
    pub cores: u32,
    /// How its tasks are to lie, where it says so; which cores will do depends on it.
    #[serde(default)]
    pub layout: Option<JobLayout>,
    /// Memory it is expected to need, in bytes.
    #[serde(default)]
    pub claim_bytes: Option<u64>,
    /// Memory the kernel lets it have, in bytes.
    #[serde(default)]
    pub limit_bytes: Option<u64>,
    /// How long it may wait, in microseconds; overrides `slots.queue_ttl`.
    #[serde(default)]
    pub ttl_us: Option<u64>,
    /// Expected run time, in microseconds.
    #[serde(default)]
    pub expected_us: Option<u64>,
    /// Wait until released.
    #[serde(default)]
    pub held: bool,
    /// Never freeze it by the host's own choice.
    #[serde(default)]
    pub no_suspend: bool,
    /// Whether it may be ended and begun anew when memory can be had in no other way.
    #[serde(default)]
    pub requeue: bool,
    /// How it writes down what it has done, if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// Jobs that must be over before it may start, and how they must end; of an array, all its members.
    #[serde(default)]
    pub after: Vec<After>,
    /// When it may begin and how long it may run.
    #[serde(default, skip_serializing_if = "Terms::is_empty")]
    pub terms: Terms,
    /// The array it is a member of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<JobArray>,
    /// The size of the directory in memory that it finds in `TMPDIR`, in bytes.
    #[serde(default)]
    pub tmp_bytes: Option<u64>,
    /// The size of the directory on a disk that it finds in `PINFOLD_DISK_DIR`, in bytes.
    #[serde(default)]
    pub disk_bytes: Option<u64>,
    /// Whether it has a `/tmp` and `/var/tmp` of its own.
    #[serde(default)]
    pub private_tmp: bool,
    /// Whether it has a network of its own, with loopback and nothing else.
    #[serde(default)]
    pub no_network: bool,
    /// What the process that asks for it was given by another manager of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<Allocation>,
    /// The line of the batch file it stands on, from 1.
    #[serde(default)]
    pub line: Option<u64>,
    /// The processes that it was made of, where somebody else had started them. The daemon writes it, and does not look
    /// at what a client wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<Adopted>,
    /// The name that the job has in a workload manager which dispatched it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalName>,
    /// The size of the files that its command names as inputs, in bytes, as its client found them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_bytes: Option<u64>,
}

/// Processes that ran before they were a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Adopted {
    /// The control group that was named, if one was and not a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Each by number and start, which tells it from a later one of that number; the one that was named first.
    pub processes: Vec<(u32, u64)>,
    /// User and system time that they had used before they were taken in, in clock ticks.
    #[serde(default)]
    pub before_ticks: (u64, u64),
    /// An operator asked: those of other users are taken in as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_user: bool,
    /// Set where they stay in the groups that a workload manager made for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_place: Option<InPlace>,
}

/// Processes that stay where a workload manager put them: they are held one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InPlace {
    /// That manager bound them to PUs, which pinfold leaves as they are.
    pub bound: bool,
}

impl Adopted {
    /// What was named, in words.
    #[must_use]
    pub fn named(&self) -> String {
        match (&self.cgroup, self.processes.first()) {
            (Some(path), _) => format!("group {path}"),
            (None, Some((pid, _))) => format!("process {pid}"),
            (None, None) => "nothing".to_owned(),
        }
    }
}

/// What a workload manager, or other software that makes control groups, gave to the process that asks for a job: the
/// job gets no more. A client says what it knows; what the kernel's groups say is added by the daemon, whatever the client says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Allocation {
    /// The workload manager and the number that the job has there; a job with one ends with its keeper.
    #[serde(default)]
    pub manager: Option<String>,
    /// The PUs, as a kernel list; `None`: all.
    #[serde(default)]
    pub cpus: Option<String>,
    /// Memory, in bytes; it is the job's limit, too.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// The control group that bounds it, or the workload manager's job where that bounds it otherwise: jobs with the same
    /// one share that memory. Written by the daemon, which does not look at what a client wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_group: Option<String>,
    /// What else the control groups around the process that asked bound. Written by the daemon, as the group above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<GroupLimit>,
}

/// How much of one thing all those in a control group may have together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupLimit {
    /// Of what: `processes` (threads count), `cpu` (in millionths of the time of one PU), `swap` (in bytes), or
    /// `io MAJOR:MINOR RATE` of a device, with a rate of `rbps`, `wbps`, `riops` or `wiops` in a second.
    pub what: String,
    /// How much.
    pub most: u64,
    /// The group, by its directory.
    pub group: String,
}

/// How a job writes down what it has done, to go on from there when it is begun anew.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The shell command that sees to it, run by the job's keeper; for the record, a long one is cut.
    pub command: String,
    /// How long it may take, in microseconds.
    pub limit_us: u64,
}

/// A job's place in an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobArray {
    /// The array's number, which is that of the first of its members that was asked for. Nobody knows it before that,
    /// so that the daemon writes it here, and does not look at what a client wrote.
    #[serde(default)]
    pub array: Option<u64>,
    /// The job's index in it.
    pub index: u32,
    /// How many members may have started at once; `None`: as many as there are slots.
    #[serde(default)]
    pub at_most: Option<u32>,
}

/// What a job says of its tasks and of where they may be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobLayout {
    /// The layout options as given, name and value.
    pub options: Vec<(String, String)>,
    /// The PUs that it names, as a kernel list: it runs on their cores, and on no others in their place.
    #[serde(default)]
    pub cpus: Option<String>,
    /// The set of cores that it runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// Whether its cores are for it alone, as far as the kernel goes: a set of its own is made for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub isolated: bool,
    /// How its cores are to lie to each other; `None`: as the host's `cpu.place` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<JobPlace>,
}

/// How the cores of a job lie to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobPlace {
    /// As jobs like it were found to run faster.
    #[default]
    Auto,
    /// Close together.
    Compact,
    /// As far apart as possible.
    Spread,
}

impl JobPlace {
    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Compact => "compact",
            Self::Spread => "spread",
        }
    }

    /// The place with this word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        [Self::Auto, Self::Compact, Self::Spread].into_iter().find(|place| place.as_str() == word)
    }
}

/// How the cores of a job lie to each other, and what is known of how jobs of its class run so and otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PlaceView {
    /// `compact` or `spread`.
    pub lies: JobPlace,
    /// In how many L3 caches (else NUMA nodes, sockets).
    pub domains: u64,
    /// Runs of its class close together that count; 0 as long as pinfold does not choose, or nothing is known.
    pub runs_compact: u64,
    /// Runs apart that count.
    pub runs_spread: u64,
    /// Whether that has settled the matter until it is tried again.
    pub settled: bool,
    /// How much shorter those apart were, as a part; negative: longer.
    pub gain: Option<f64>,
    /// With 95 % confidence at least,
    pub gain_low: Option<f64>,
    /// and at most.
    pub gain_high: Option<f64>,
}

/// NUMA nodes all of whose PUs are a set's, and what others have there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnNodesView {
    /// The kernel's numbers of the nodes, as a kernel list.
    pub nodes: String,
    /// The part of their memory that others held, before it was moved away; `None`: that was not read.
    pub foreign_before: Option<f64>,
    /// The part that was left then.
    pub foreign_after: Option<f64>,
    /// Whether other jobs' memory is kept off.
    pub kept: bool,
    /// All that in words.
    pub found: String,
}

/// The name of the set that is made for an isolated job.
#[must_use]
pub fn isolated_set(job: u64) -> String {
    format!("isolated-{job}")
}

/// How a job's command ended, as its keeper saw it (`wait4`), with the kernel's figures for that process and
/// all its descendants that were waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ending {
    /// Its exit code, when it exited.
    pub exit_code: Option<i32>,
    /// The signal that ended it, when one did.
    pub signal: Option<i32>,
    /// When, in microseconds since the Unix epoch.
    pub ended_us: u64,
    /// CPU time in user mode, in microseconds.
    pub cpu_user_us: u64,
    /// CPU time in the kernel, in microseconds.
    pub cpu_system_us: u64,
    /// The largest resident size any one of its processes reached, in bytes.
    pub rss_peak_bytes: u64,
    /// Bytes read from storage.
    pub io_read_bytes: u64,
    /// Bytes written to storage.
    pub io_write_bytes: u64,
    /// Page faults met from memory; `None`: not told.
    #[serde(default)]
    pub faults_minor: Option<u64>,
    /// Page faults that waited for storage.
    #[serde(default)]
    pub faults_major: Option<u64>,
    /// Times they gave a processor up.
    #[serde(default)]
    pub switches_voluntary: Option<u64>,
    /// Times they were taken off one.
    #[serde(default)]
    pub switches_forced: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_without_a_name_is_none() {
        let asked = |project: Option<&str>| {
            let spec = JobSpec { project: project.map(str::to_owned), ..JobSpec::default() };
            let read: JobSpec = serde_json::from_str(&serde_json::to_string(&spec).unwrap()).unwrap();
            read.project
        };
        assert_eq!((asked(None), asked(Some("")), asked(Some(" \t"))), (None, None, None));
        assert_eq!(asked(Some("web 2")), Some("web 2".to_owned()));
    }
}
