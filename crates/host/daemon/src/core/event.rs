//! Everything that can happen to the daemon, on one page.

use std::collections::BTreeSet;

use pinfold_policy::{Action, JobId};
use pinfold_proto::wire::{Request, Select};

/// The number of a connection, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConnectionId(pub u64);

/// What a report is to have beside the figures.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    /// Every sample.
    pub series: bool,
    /// Every process.
    pub processes: bool,
    /// The threads of jobs that run.
    pub threads: bool,
    /// Every file that was seen open.
    pub files: bool,
}

/// A question whose answer may be long.
#[derive(Debug)]
pub(crate) struct Asked {
    pub select: Select,
    pub all: bool,
    pub wanted: Wanted,
}

/// What happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// A client asks for something.
    Request(ConnectionId, Request),
    /// A client is gone.
    Closed(ConnectionId),
    /// The kernel says that a job's container changed: emptied, or frozen, or thawed.
    ContainerChanged(JobId),
    /// A job's keeper, watched because it has no connection, is gone.
    KeeperGone(JobId),
    /// An effect on a job was carried out.
    Carried(JobId, Action),
    /// An effect on a job failed.
    NotCarried(JobId, Action, String),
    /// A start was put off for what is no fault of the job's (a full disk), however often.
    PutOff(JobId, Action, String),
    /// A job's process was gone before the job could start.
    ChildGone(JobId),
    /// It is time to read what jobs use.
    SampleDue,
    /// It is time to take back what threads read of jobs' processes.
    ReadersDue,
    /// It is time to hear what the kernel told of processes.
    RecordsDue,
    /// It is time to read how idle the cores are.
    IdleDue,
    /// It is time to read what memory jobs hold.
    MemoryDue,
    /// It is time to look whether the machine is still what it was.
    LookDue,
    /// It is time to look whether another program changed what a job was given.
    DriftDue,
    /// A set of idle cores was not used for long enough.
    SetsDue,
    /// A monitoring system asks for figures.
    MetricsWanted,
    /// Hooks ended, or it is time to call some again that could not be.
    HooksDone,
    /// NUMA nodes were cleared of foreign memory.
    NodesCleared,
    /// It is time to look who else has jobs on the host, or to take what was found.
    NeighboursDue,
    /// Jobs have waited long enough for NUMA nodes to be cleared.
    NodesDue,
    /// Users were looked up by number or name, or were waited for long enough.
    NamesKnown,
    /// Requests are to be tried again.
    AgainDue,
    /// Directories of jobs that are over were cleared, or could not be for now.
    DirectoriesCleared,
    /// What was written is on disk.
    Flushed,
    /// Keepers had their time to say something.
    UnheardDue,
    /// It is time to look whether jobs that are over have any process left.
    LingeringDue,
    /// It is time for the scheduler's own timers.
    PolicyDue,
    /// It is time to close the self-attach files of containers.
    SelfAttachDue,
    /// It is time for the next piece of a long answer.
    PieceDue,
    /// It is time to see to more of the jobs whose connections are gone.
    LeftDue,
    /// It is time to decide about more of the jobs that waited for how another one ends.
    GatesDue,
    /// It is time to write of more jobs since when they wait.
    WaitsDue,
    /// It is time for the next part of a question about many jobs.
    LookPartDue,
    /// Cancelled jobs had their time to end by themselves.
    KillsDue,
    /// The time has come before which a job was not to begin.
    BeginsDue,
    /// It is time to look whether a job has reached its timeout.
    TimeoutsDue,
    /// It is time to strike old jobs off the store, and to try a store again that could not be written.
    HouseKeeping,
}

/// What is to be done once the state that explains it is on disk; but freezes as memory runs short do not wait for that.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Carry a decision out.
    Act(JobId, Action),
    /// Answer.
    Reply(ConnectionId, Box<pinfold_proto::wire::Reply>),
    /// Answer with a frame that is made already.
    Frame(ConnectionId, Vec<u8>),
    /// Answer in pieces.
    Tell(ConnectionId, Asked),
    /// Take down what stands around a job that is over, its container last.
    Remove(JobId),
    /// Take processes that fell out of a job's groups in again.
    Gather(JobId),
    /// Kill whatever is left of a job.
    Kill(JobId),
    /// Thaw a job for a moment, so that it hears a signal.
    LetHear(JobId),
    /// Keep what it takes to keep a job once its keeper is gone.
    KeepStart(JobId, u32, Box<pinfold_proto::start::Start>),
}

impl Effect {
    /// The job that it is done to, if it is done to one.
    fn job(&self) -> Option<JobId> {
        match self {
            Self::Act(job, _)
            | Self::Remove(job)
            | Self::Gather(job)
            | Self::Kill(job)
            | Self::LetHear(job)
            | Self::KeepStart(job, ..) => Some(*job),
            Self::Reply(..) | Self::Frame(..) | Self::Tell(..) => None,
        }
    }

    /// Whether it is done to a job, or tells a keeper of one: questions are asked at any time, and change nothing.
    pub(crate) fn concerns_a_job(&self) -> bool {
        use pinfold_proto::wire::Reply;
        let told = |reply: &Reply| {
            matches!(
                reply,
                Reply::Queued { .. }
                    | Reply::Attached { .. }
                    | Reply::Recorded { .. }
                    | Reply::Again { .. }
                    | Reply::Refused { .. }
                    | Reply::Struck { .. }
                    | Reply::Unknown { .. }
            )
        };
        self.job().is_some() || matches!(self, Self::Reply(_, reply) if told(reply))
    }
}

/// The freezes of jobs of which `is_urgent` says that they are, and all else. What is to be done to a job before its freeze
/// stays before it: then the freeze waits as well.
pub(crate) fn urgent_freezes(
    effects: Vec<Effect>,
    is_urgent: impl Fn(JobId) -> bool,
) -> (Vec<Effect>, Vec<Effect>) {
    let mut touched = BTreeSet::new();
    effects.into_iter().partition(|effect| {
        let first = effect.job().is_some_and(|job| touched.insert(job));
        first && matches!(effect, Effect::Act(job, Action::Freeze) if is_urgent(*job))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freeze_does_not_go_before_what_is_done_to_its_job() {
        let act = |job, action| Effect::Act(JobId(job), action);
        let effects = vec![
            act(1, Action::Thaw),
            act(2, Action::Freeze),
            act(1, Action::Freeze),
            Effect::Gather(JobId(3)),
            act(4, Action::Freeze),
            act(2, Action::Thaw),
            act(3, Action::Freeze),
        ];
        let (urgent, others) = urgent_freezes(effects, |job| job != JobId(4));
        let told = |effects: &[Effect]| format!("{effects:?}");
        assert_eq!(told(&urgent), told(&[act(2, Action::Freeze)]));
        let rest = [
            act(1, Action::Thaw),
            act(1, Action::Freeze),
            Effect::Gather(JobId(3)),
            act(4, Action::Freeze),
            act(2, Action::Thaw),
            act(3, Action::Freeze),
        ];
        assert_eq!(told(&others), told(&rest));
    }
}
