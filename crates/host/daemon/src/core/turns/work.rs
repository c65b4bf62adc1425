//! What the loop is busy with, in words: one for each kind of event, request and effect. They name no job and no user,
//! for everybody may read them.

use pinfold_policy::Action;
use pinfold_proto::wire::Request;

use crate::core::event::{Effect, Event};

/// Connections are accepted and read, and it is looked whose time has come.
pub(crate) const READING: &str = "reading requests";
/// Rows are written.
pub(crate) const STORE: &str = "writing the job store";
/// Records are written.
pub(crate) const AUDIT: &str = "writing the audit";
/// Replies are sent.
pub(crate) const SENDING: &str = "sending replies";
/// Signals were heard.
pub(crate) const SIGNALS: &str = "signals";

/// Handling an event.
pub(crate) fn of_event(event: &Event) -> &'static str {
    match event {
        Event::Request(_, request) => of_request(request),
        Event::Closed(_) => "a closed connection",
        Event::ContainerChanged(_) => "a change of a container",
        Event::KeeperGone(_) => "a keeper's end",
        Event::Carried(..) | Event::NotCarried(..) | Event::PutOff(..) => "the result of an action",
        Event::ChildGone(_) => "a child's end",
        Event::SampleDue => "samples of jobs",
        Event::ReadersDue => "what was read of processes",
        Event::RecordsDue => "records of processes",
        Event::IdleDue => "idle cores",
        Event::MemoryDue => "memory of jobs",
        Event::LookDue => "a look at the machine",
        Event::DriftDue => "a look for drift",
        Event::SetsDue => "sets of cores",
        Event::MetricsWanted => "metrics",
        Event::HooksDone => "hooks",
        Event::NodesCleared | Event::NodesDue => "NUMA nodes",
        Event::NeighboursDue => "other users' daemons",
        Event::NamesKnown => "names of users",
        Event::AgainDue => "requests that are tried again",
        Event::DirectoriesCleared => "directories of jobs that are over",
        Event::Flushed => "what was flushed",
        Event::UnheardDue => "silent keepers",
        Event::PolicyDue => "timers of the policy",
        Event::SelfAttachDue => "self-attach files of containers",
        Event::PieceDue => "a piece of a long answer",
        Event::LeftDue => "jobs of closed connections",
        Event::GatesDue => "jobs that waited for how another one ends",
        Event::WaitsDue => "since when jobs wait",
        Event::LookPartDue => "a part of a question about many jobs",
        Event::KillsDue => "killing a cancelled job",
        Event::BeginsDue => "jobs whose time to begin has come",
        Event::TimeoutsDue => "timeouts of jobs",
        Event::LingeringDue => "processes that outlive their command",
        Event::HouseKeeping => "housekeeping",
    }
}

fn of_request(request: &Request) -> &'static str {
    match request {
        Request::Hello { .. } => "hello",
        Request::Submit { .. } => "submit",
        Request::Adopt { .. } => "adopt",
        Request::Keep { .. } => "keep",
        Request::Starts | Request::StartOf { .. } => "starts",
        Request::Child { .. } => "child",
        Request::Attach { .. } => "attach",
        Request::Presented => "presented",
        Request::Ended { .. } => "ended",
        Request::Checkpointed { .. } => "checkpointed",
        Request::Withdraw { .. } => "withdraw",
        Request::Interrupted { .. } => "interrupted",
        Request::Status { jobs, .. } if jobs.is_empty() => "status of all jobs",
        Request::Status { .. } => "status of named jobs",
        Request::Members { .. } => "members",
        Request::Named { .. } | Request::AllNamed { .. } => "names of jobs",
        Request::Externals { .. } => "externals",
        Request::Begin { .. } => "begin",
        Request::Why { .. } => "why",
        Request::Report { .. } => "report",
        Request::Lengths { .. } => "lengths",
        Request::Where => "where",
        Request::Part => "part",
        Request::Vouch { .. } => "vouch",
        Request::Wait { .. } => "wait",
        Request::Control { .. } => "control",
        Request::Squeeze { .. } => "squeeze",
        Request::Doctor => "doctor",
        Request::Map => "map",
        Request::ConfigGet => "config get",
        Request::ConfigSave { .. } => "config save",
        Request::Audit { .. } => "audit",
        Request::Drain { .. } => "drain",
        Request::Learn { .. } => "learn",
        Request::SetAside(_) => "set aside",
        Request::SetRemove { .. } => "set remove",
        Request::Sets => "sets",
        Request::Host { .. } => "host",
        Request::ConfigSet { .. } => "config set",
    }
}

/// Carrying out an effect.
pub(crate) fn of_effect(effect: &Effect) -> &'static str {
    match effect {
        Effect::Act(_, action) => of_action(action),
        Effect::Reply(..) | Effect::Frame(..) => "replies",
        Effect::Tell(..) => "the beginning of a long answer",
        Effect::Remove(_) => "removing a container",
        Effect::Gather(_) => "taking processes in again",
        Effect::Kill(_) => "killing what is left of a job",
        Effect::LetHear(_) => "letting a frozen job hear a signal",
        Effect::KeepStart(..) => "keeping a start",
    }
}

fn of_action(action: &Action) -> &'static str {
    match action {
        Action::Start { .. } => "starting a job",
        Action::Bind { .. } => "binding a job",
        Action::Weigh { .. } => "weighing a job",
        Action::Freeze => "freezing a job",
        Action::Thaw => "thawing a job",
        Action::PageOut { .. } => "paging out a job",
        Action::Slow { .. } => "slowing a job",
        Action::Protect { .. } => "protecting a job's memory",
        Action::Near { .. } => "binding a job's memory",
        Action::Signal { .. } => "signalling a job",
        Action::Requeue => "requeueing a job",
        Action::Checkpoint => "asking for a checkpoint",
        Action::Drop { .. } => "dropping a job",
    }
}
