//! Jobs in the view of Slurm's commands: the daemon's facts with their labels.
//!
//! Absent here: the text of fields (`fields`), and the selection of jobs by commands.

use std::collections::BTreeMap;
use std::rc::Rc;

use pinfold_proto::array::show_indexes;
use pinfold_proto::view::{JobView, ReportView};
use pinfold_proto::{End, JobState, OUT_OF_MEMORY};

use crate::home::{self, Known, Label, Step};
use crate::state::State;
use crate::units;

/// The cluster's name, by which a job's environment distinguishes the cluster from a real Slurm cluster.
pub(crate) const CLUSTER: &str = "pinfold";
/// The default partition; other partitions are labels.
pub(crate) const PARTITION: &str = "pinfold";
/// The signal number that Slurm shows for jobs out of memory.
const OUT_OF_MEMORY_SIGNAL: i32 = 125;

/// A job's usage, if reported.
#[derive(Debug, Clone, Default)]
pub(crate) struct Used {
    pub user_s: f64,
    pub system_s: f64,
    pub peak_bytes: u64,
    pub mean_bytes: u64,
    pub virtual_bytes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// A job, or the waiting members of an array in a single row.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub job: u64,
    /// The array and the index in it.
    pub member: Option<(u64, u32)>,
    /// The indexes of members in a row.
    pub members: Vec<u32>,
    pub name: String,
    pub user: String,
    pub phase: JobState,
    pub state: State,
    pub cores: u32,
    pub claim_bytes: Option<u64>,
    pub submitted_s: f64,
    pub started_s: Option<f64>,
    pub ended_s: Option<f64>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub reason: Option<String>,
    pub end: Option<End>,
    /// Time limit, in seconds.
    pub limit_s: Option<u64>,
    pub begin_s: Option<f64>,
    pub comment: String,
    /// Whether a predecessor has not ended.
    pub waits: bool,
    pub suspended_s: f64,
    pub requeues: u32,
    pub priority: u8,
    pub pids: Vec<u32>,
    pub command: Vec<String>,
    pub used: Option<Used>,
    pub label: Rc<Label>,
    pub steps: Vec<Step>,
}

impl Job {
    pub(crate) fn new(view: &JobView, known: &Known) -> Self {
        let label = label_of(view.job, view.array_id, known);
        let cores = cores_of(&label, None);
        let mut job = Self {
            job: view.job,
            member: view.array_id.zip(view.array_index),
            members: Vec::new(),
            name: view.name.clone(),
            user: view.user.clone(),
            phase: view.state,
            state: State::Pending,
            cores,
            claim_bytes: label.mem_bytes,
            submitted_s: view.submitted_s,
            started_s: view.started_s,
            ended_s: view.ended_s,
            exit_code: view.exit_code,
            signal: view.signal,
            reason: view.reason.clone(),
            end: view.end,
            limit_s: view.timeout_s.map(units::whole),
            begin_s: view.begin_s,
            comment: view.comment.clone().unwrap_or_default(),
            waits: false,
            suspended_s: 0.0,
            requeues: 0,
            priority: view.priority,
            pids: view.pids.clone(),
            command: Vec::new(),
            used: None,
            steps: Vec::new(),
            label,
        };
        job.finish(known);
        job
    }

    pub(crate) fn of_report(view: ReportView, known: &Known) -> Self {
        let label = label_of(view.job, view.array_id, known);
        let cores = cores_of(&label, Some(view.cores));
        let mut job = Self {
            job: view.job,
            member: view.array_id.zip(view.array_index),
            members: Vec::new(),
            name: view.name,
            user: view.user,
            phase: view.state,
            state: State::Pending,
            cores,
            claim_bytes: view.claim_bytes.or(label.mem_bytes),
            submitted_s: view.submitted_s,
            started_s: view.started_s,
            ended_s: view.ended_s,
            exit_code: view.exit_code,
            signal: view.signal,
            reason: view.reason,
            end: view.end,
            limit_s: view.timeout_s.map(units::whole),
            begin_s: view.begin_s,
            comment: view.comment.unwrap_or_default(),
            waits: false,
            suspended_s: view.suspended_s,
            requeues: view.requeues,
            priority: view.priority,
            pids: Vec::new(),
            command: view.command,
            used: Some(Used {
                user_s: view.cpu_user_s,
                system_s: view.cpu_system_s,
                peak_bytes: view.memory_peak_bytes,
                mean_bytes: view.memory_mean_bytes,
                virtual_bytes: view.virtual_peak_bytes,
                read_bytes: view.io_read_bytes,
                written_bytes: view.io_write_bytes,
            }),
            steps: known.steps.get(&view.job).cloned().unwrap_or_default(),
            label,
        };
        job.finish(known);
        job
    }

    fn finish(&mut self, known: &Known) {
        if !self.label.name.is_empty() {
            self.name.clone_from(&self.label.name);
        }
        let cancelled = known.cancelled.contains_key(&self.job) || self.end == Some(End::Cancelled);
        self.state = self.state_of(cancelled);
    }

    fn state_of(&self, cancelled: bool) -> State {
        match self.phase {
            JobState::Queued | JobState::Held => State::Pending,
            // A job frozen by the host continues by itself: engines see it running.
            JobState::Frozen | JobState::Parked if self.is_suspended() && shows_suspended() => {
                State::Suspended
            }
            JobState::Running | JobState::Frozen | JobState::Parked => State::Running,
            JobState::Exited => {
                let because =
                    |why: &str| self.reason.as_deref().is_some_and(|reason| reason.starts_with(why));
                let killed = because("killed:");
                let told = self.signal == Some(pinfold_sys::signals::SIGTERM);
                match (self.exit_code, self.signal) {
                    _ if self.end.is_some_and(End::is_limit) => State::Timeout,
                    _ if cancelled || killed || told => State::Cancelled,
                    // Also for a script that continued after a process was killed.
                    _ if because(OUT_OF_MEMORY) => State::OutOfMemory,
                    (Some(0), _) => State::Completed,
                    (Some(_), _) | (_, Some(_)) => State::Failed,
                    (None, None) if self.started_s.is_none() => State::Cancelled,
                    (None, None) => State::NodeFail,
                }
            }
        }
    }

    /// Whether its user, or an operator, suspended it.
    fn is_suspended(&self) -> bool {
        self.reason.as_deref().is_some_and(|reason| reason.starts_with("a user or operator"))
    }

    /// Its number as in Slurm: `12`, `12_3`, `12_[4-9%2]`.
    pub(crate) fn shown(&self) -> String {
        match self.member {
            Some((array, _)) if !self.members.is_empty() => {
                let at_most = self.label.array.as_deref().and_then(|array| array.split_once('%'));
                let at_most = at_most.map(|(_, most)| format!("%{most}")).unwrap_or_default();
                format!("{array}_[{}{at_most}]", show_indexes(&self.members))
            }
            Some((array, index)) => format!("{array}_{index}"),
            None => self.job.to_string(),
        }
    }

    /// The array's number, or its own.
    pub(crate) fn array(&self) -> u64 {
        self.member.map_or(self.job, |(array, _)| array)
    }

    pub(crate) fn partition(&self) -> &str {
        if self.label.partition.is_empty() { PARTITION } else { &self.label.partition }
    }

    /// Whether it runs or ran on this host; a waiting job, even after a requeue, has no node.
    pub(crate) fn has_node(&self) -> bool {
        self.started_s.is_some() && self.state != State::Pending
    }

    /// Run time, in seconds.
    pub(crate) fn elapsed_s(&self, now_s: f64) -> u64 {
        let end = self.ended_s.unwrap_or(now_s);
        self.started_s.map_or(0, |start| units::whole(end - start))
    }

    /// The reason for its state, as Slurm's word.
    pub(crate) fn reason_word(&self) -> &'static str {
        match self.state {
            State::Pending if self.phase == JobState::Held => "JobHeldUser",
            State::Pending if self.waits => "Dependency",
            State::Pending if self.begin_s.is_some_and(|at| at > units::now_s()) => "BeginTime",
            State::Pending if self.label.array.as_deref().is_some_and(|array| array.contains('%')) => {
                "JobArrayTaskLimit"
            }
            State::Pending => "Resources",
            State::Cancelled if self.end == Some(End::Dependency) => "DependencyNeverSatisfied",
            State::Failed => "NonZeroExitCode",
            State::Timeout => "TimeLimit",
            State::NodeFail => "NodeDown",
            State::OutOfMemory => "OutOfMemory",
            _ => "None",
        }
    }

    /// The pair of exit code and signal.
    pub(crate) fn exit(&self) -> (i32, i32) {
        match self.state {
            State::OutOfMemory => (0, OUT_OF_MEMORY_SIGNAL),
            _ => (self.exit_code.unwrap_or(0), self.signal.unwrap_or(0)),
        }
    }

    /// The number of restarts.
    pub(crate) fn restarts(&self) -> u32 {
        self.requeues.max(home::restarts(&self.label.spool, self.job))
    }

    /// The command for display.
    pub(crate) fn command_shown(&self) -> String {
        if self.label.command.is_empty() { self.command.join(" ") } else { self.label.command.clone() }
    }
}

/// Whether to show a suspended state, which several engines treat as the end of the job.
fn shows_suspended() -> bool {
    std::env::var("PINFOLD_SLURM_SUSPENDED").is_ok_and(|value| value == "1")
}

fn label_of(job: u64, array: Option<u64>, known: &Known) -> Rc<Label> {
    let label = known.labels.get(&job).or_else(|| array.and_then(|array| known.labels.get(&array)));
    label.cloned().unwrap_or_default()
}

fn cores_of(label: &Label, told: Option<u32>) -> u32 {
    let asked = label.ntasks.max(1).saturating_mul(label.cpus_per_task.max(1));
    told.filter(|&cores| cores > 0).unwrap_or(asked)
}

/// Joins waiting members of an array into the row of the first.
pub(crate) fn in_rows(jobs: Vec<Job>) -> Vec<Job> {
    let mut rows: Vec<Job> = Vec::with_capacity(jobs.len());
    let mut open: BTreeMap<(u64, &'static str), usize> = BTreeMap::new();
    for mut job in jobs {
        let Some((array, index)) = job.member.filter(|_| job.state == State::Pending) else {
            rows.push(job);
            continue;
        };
        match open.get(&(array, job.reason_word())) {
            Some(&at) => rows[at].members.push(index),
            None => {
                open.insert((array, job.reason_word()), rows.len());
                job.members.push(index);
                rows.push(job);
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_job_ended() {
        let check = |told: &str, state: State, exit: (i32, i32)| {
            let text = format!(
                r#"{{"job":1,"name":"a","user":"u","state":"exited","class":"primary","priority":10,"pids":[],
                    "submitted_s":1.0,"started_s":2.0,{told}}}"#
            );
            let view: JobView = serde_json::from_str(&text).expect("a view");
            let job = Job::new(&view, &Known::default());
            assert_eq!((job.state, job.exit()), (state, exit), "{told}");
        };
        check(r#""exit_code":0"#, State::Completed, (0, 0));
        check(r#""exit_code":3"#, State::Failed, (3, 0));
        check(r#""signal":9"#, State::Failed, (0, 9));
        check(r#""signal":15"#, State::Cancelled, (0, 15));
        check(r#""signal":9,"reason":"killed: it did not end""#, State::Cancelled, (0, 9));
        check(r#""exit_code":0,"end":"timeout""#, State::Timeout, (0, 0));
        check(r#""exit_code":0,"end":"cancelled""#, State::Cancelled, (0, 0));
        let reason = format!(r#""signal":9,"reason":"{OUT_OF_MEMORY} (its limit)""#);
        check(&reason, State::OutOfMemory, (0, 125));
        check(r#""reason":"its keeper was killed""#, State::NodeFail, (0, 0));
    }
}
