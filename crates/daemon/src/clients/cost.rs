//! What a request costs, in one table: its work follows from its size and from the state that it meets.
//!
//! A unit is what a plain submission takes, up to 0.1 ms. How many a user has in a turn of the loop is said in
//! `server/budget.rs`. What no turn could afford is refused by [`refusal`], in words that name the bound.
//!
//! | request | units |
//! | --- | --- |
//! | each | 1, and 1 for each 4 KiB of its frame |
//! | `hello` | 8: its reply is long |
//! | `submit` | 1 for each 4,096 jobs that are not over, 1 for each 16 jobs named by `after`, 1 for each of them of which a certain end is awaited, and 312 if there is one |
//! | `named` | 1 for each 16 jobs that are not over, 100 for each name |
//! | `keep` | 4: it writes a file |
//! | `presented` | 1 for each 256 jobs that are not over |
//! | `child`, `attach`, `ended`, `withdraw`, `checkpointed`, `interrupted` | no more |
//! | any question or order | 64 |
//! | `status`, `starts`, `set_aside`, `set_remove`, `config_set`, `map` | 1 for each 16 jobs that are not over |
//! | `status`, `wait`, `report` with numbers | 1 for each job named; those of `wait` and `report`, and of `status` those that are over, are looked at in later turns (`looks`) |
//! | `status` of all or of then, `report` of the last, or since | 1,000: as many jobs are read from the store; those of then and since are looked at in later turns |
//! | `report` with series or lists, and not in pieces | 1,000 |
//! | `members` | 1 for each name, 1 for each 32 members named, for a whole array as many as the longest has |
//! | `lengths` | 1 for each command |
//! | `starts` | 512: a page of files is read |
//! | `part` | 32: up to 128 processes are looked at, and 1 for each 256 jobs that are not over |
//! | `doctor`, `audit` | 512: the host, or a file, is examined |
//! | `adopt` | 1 for each 4 processes of the host |
//!
//! Absent here: what a user may make the daemon hold (`quota`), and which user waits for a turn (`server`).

use pinfold_proto::array::{JobName, MEMBERS_MAX};
use pinfold_proto::wire::{Request, Select};
use pinfold_proto::{After, AfterEnd};

/// What the requests of root, or of the daemon's own user, may cost in a turn of the loop. The rest is heard in later
/// turns.
pub(crate) const COST_AT_ONCE: u32 = 1024;

/// The most jobs that a request may name by their numbers: all members of an array.
pub(crate) const JOBS_NAMED_MAX: usize = MEMBERS_MAX;

/// The most jobs that one question may be about.
pub(crate) const NAMED_MAX: usize = 100_000;

/// The most commands that one question may be about, and users or changes that one order may name.
const COMMANDS_MAX: usize = 4096;
const USERS_MAX: usize = 256;
const CHANGES_MAX: usize = 1024;

/// The most bytes of jobs, as they were asked for, that one answer holds; the store has as many as may be of each.
pub(crate) const ANSWER_MAX_BYTES: u64 = 32 << 20;

const QUESTION: usize = 64;
const FILES_READ: usize = 512;
const STORE_READ: usize = 1000;
const NAME_READ: usize = 100;
/// How far up a process's descent is followed for `part`; one that is deeper below its job counts as part of none.
pub(crate) const ANCESTORS_MAX: usize = 128;
const LINE_READ: usize = ANCESTORS_MAX / 4;
/// The most names that one question may look up.
const NAMES_READ_MAX: usize = 64;

/// What a request meets: how much there is of what it may have to look at.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    /// Jobs that are not over.
    pub jobs: usize,
    /// Processes of the host, as last counted.
    pub processes: usize,
    /// Questions are refused: their user leaves too much unread.
    pub refuses: bool,
}

/// What a request of so many bytes costs in units: at least 1.
pub(crate) fn of(request: &Request, bytes: usize, load: Load) -> u32 {
    let own = match request {
        Request::Hello { .. } => 8,
        Request::Submit { spec, .. } => {
            let named =
                spec.after.iter().flat_map(After::jobs).map(JobName::count).fold(0, usize::saturating_add);
            let conditions =
                spec.after.iter().filter(|after| after.end != AfterEnd::Any).flat_map(After::jobs).count();
            // All of them together are about no more jobs than one array has.
            let members = if conditions > 0 { MEMBERS_MAX / 32 } else { 0 };
            load.jobs / 4096 + named / 16 + conditions.saturating_add(members)
        }
        Request::Keep { .. } => 4,
        Request::Presented => load.jobs / 256,
        request if is_kept_up(request) || load.refuses => 0,
        question => QUESTION + of_question(question, load),
    };
    u32::try_from(1 + bytes / 4096 + own).unwrap_or(u32::MAX)
}

/// Whether a request is one by which jobs are asked for and kept; all others are questions and orders.
pub(crate) fn is_kept_up(request: &Request) -> bool {
    matches!(
        request,
        Request::Hello { .. }
            | Request::Submit { .. }
            | Request::Keep { .. }
            | Request::Presented
            | Request::Child { .. }
            | Request::Attach { .. }
            | Request::Ended { .. }
            | Request::Withdraw { .. }
            | Request::Checkpointed { .. }
            | Request::Interrupted { .. }
    )
}

/// Whether a request changes nothing, and is only asked for its answer.
pub(crate) fn is_question(request: &Request) -> bool {
    matches!(
        request,
        Request::Status { .. }
            | Request::Members { .. }
            | Request::Named { .. }
            | Request::AllNamed { .. }
            | Request::Externals { .. }
            | Request::Begin { .. }
            | Request::Why { .. }
            | Request::Report { .. }
            | Request::Lengths { .. }
            | Request::Starts
            | Request::Where
            | Request::Part
            | Request::Vouch { .. }
            | Request::Wait { .. }
            | Request::Doctor
            | Request::Map
            | Request::ConfigGet
            | Request::Audit { .. }
            | Request::Sets
            | Request::Host { .. }
    )
}

fn of_question(request: &Request, load: Load) -> usize {
    let each_job = load.jobs / 16;
    match request {
        Request::Status { jobs, all, at_us } => {
            each_job + jobs.len() + if *all || at_us.is_some() { STORE_READ } else { 0 }
        }
        Request::Members { names } => {
            let members = |name: &JobName| name.indexes.as_ref().map_or(MEMBERS_MAX, |all| all.count());
            names.len() + names.iter().map(members).fold(0, usize::saturating_add).min(NAMED_MAX) / 32
        }
        Request::Report { select, series, processes, threads, files, pieces, .. } => {
            let lists = *series || *processes || *threads || *files;
            let named = match select {
                Select::Jobs(jobs) => jobs.len(),
                Select::Last(_) | Select::Since(_) => STORE_READ,
            };
            named + if lists && !pieces { STORE_READ } else { 0 }
        }
        Request::Wait { jobs } => jobs.len(),
        // Each looks at all that were adopted, and at some in the store.
        Request::Externals { names } => names.len() * (STORE_READ / 16 + load.jobs / 256),
        Request::Lengths { commands } => commands.len(),
        Request::Named { names } | Request::AllNamed { names } => {
            each_job + names.len().saturating_mul(NAME_READ)
        }
        Request::Starts => each_job + FILES_READ,
        Request::Part => LINE_READ + load.jobs / 256,
        Request::Doctor | Request::Audit { .. } | Request::Learn { .. } => FILES_READ,
        Request::Adopt { .. } => load.processes / 4,
        Request::SetAside(_) | Request::SetRemove { .. } | Request::ConfigSet { .. } | Request::Map => {
            each_job
        }
        _ => 0,
    }
}

/// Why no turn could afford a request, if none could.
pub(crate) fn refusal(request: &Request) -> Option<String> {
    let (what, count, most) = match request {
        Request::Status { jobs, .. } | Request::Wait { jobs } => ("jobs", jobs.len(), JOBS_NAMED_MAX),
        Request::Report { select: Select::Jobs(jobs), .. } => ("jobs", jobs.len(), JOBS_NAMED_MAX),
        Request::Lengths { commands } => ("commands", commands.len(), COMMANDS_MAX),
        Request::Named { names } | Request::AllNamed { names } => ("names", names.len(), NAMES_READ_MAX),
        Request::Externals { names } => ("names", names.len(), crate::jobs::external::NAMES_MAX),
        Request::SetAside(asked) => ("users", asked.users.len(), USERS_MAX),
        Request::ConfigSet { changes } => ("changes", changes.len(), CHANGES_MAX),
        _ => return None,
    };
    (count > most).then(|| format!("{count} {what} are named at once, and {most} are the most; name fewer"))
}

#[cfg(test)]
mod tests {
    use pinfold_proto::JobSpec;
    use pinfold_proto::learned::Signed;
    use pinfold_proto::wire::{Adoptee, REQUEST_MAX_BYTES, SetAside, Verb};

    use super::*;

    /// The largest state that is thought of: a full queue on a large host.
    const LARGEST: Load = Load { jobs: 200_000, processes: 100_000, refuses: false };

    /// No request costs more than so many turns of its user, at the largest state: the frame is as long as may be, and
    /// its words are the worst of its kind that are not refused.
    const TURNS_MAX: u32 = 26;

    /// The worst frames of each kind that are not refused, and their cost at the largest state.
    #[test]
    fn the_worst_frame_of_each_kind_is_bounded() {
        let all: JobName = "1_[0-9999]".parse().unwrap();
        let numbers: Vec<u64> = (0..JOBS_NAMED_MAX as u64).collect();
        let report = |select, pieces| Request::Report {
            select,
            series: true,
            processes: true,
            threads: true,
            files: true,
            all: true,
            pieces,
        };
        let after = vec![After { end: AfterEnd::Ok, ..After::from(1) }; 4096];
        let submit =
            Request::Submit { ticket: 1, spec: Box::new(JobSpec { after, ..JobSpec::default() }), pid: None };
        let worst = [
            (Request::Hello { version: 1 }, 73),
            (submit, 4_800),
            (Request::Keep { job: 1, start: Box::default() }, 69),
            (Request::Presented, 846),
            (Request::Child { job: 1, pid: 1 }, 65),
            (Request::Status { jobs: numbers.clone(), all: true, at_us: None }, 23_629),
            (Request::Members { names: vec![all; 10] }, 3_264),
            (Request::Members { names: vec![JobName::from(1); 4096] }, 7_350),
            (Request::Named { names: vec![String::new(); NAMES_READ_MAX] }, 19_100),
            (Request::AllNamed { names: vec![String::new(); NAMES_READ_MAX] }, 19_100),
            (Request::Why { job: 1, at_us: None }, 129),
            (report(Select::Jobs(numbers.clone()), false), 11_129),
            (report(Select::Jobs(numbers.clone()), true), 10_129),
            (report(Select::Last(u32::MAX), true), 1_129),
            (Request::Wait { jobs: numbers }, 10_129),
            (Request::Lengths { commands: vec![Vec::new(); COMMANDS_MAX] }, 4_225),
            (Request::Starts, 13_141),
            (Request::Part, 942),
            (Request::Doctor, 641),
            (Request::Audit { verify: true }, 641),
            (Request::Adopt { which: Adoptee::Process(1), spec: Box::default(), in_place: false }, 25_129),
            (Request::SetAside(SetAside::default()), 12_629),
            (Request::ConfigSet { changes: Vec::new() }, 12_629),
            (Request::Control { job: 1, verb: Verb::Hold }, 129),
            (Request::Map, 12_629),
            (Request::Learn { signed: Signed { table: String::new(), signature: String::new() } }, 641),
        ];
        for (request, most) in worst {
            assert_eq!(refusal(&request), None);
            let cost = of(&request, REQUEST_MAX_BYTES, LARGEST);
            assert!(
                cost <= most && cost <= TURNS_MAX * COST_AT_ONCE,
                "{cost}, {most}: {:.40}",
                format!("{request:?}")
            );
            assert!(of(&request, 8, Load::default()) >= 1);
        }
    }

    #[test]
    fn what_no_turn_could_afford_is_refused_by_its_bound() {
        let numbers = vec![1; JOBS_NAMED_MAX + 1];
        let all = [
            (Request::Status { jobs: numbers.clone(), all: false, at_us: None }, "10000 are the most"),
            (Request::Wait { jobs: numbers }, "10000 are the most"),
            (Request::Lengths { commands: vec![Vec::new(); 4097] }, "4096 are the most"),
            (Request::ConfigSet { changes: vec![String::new(); 1025] }, "1024 are the most"),
            (
                Request::SetAside(SetAside { users: vec![String::new(); 257], ..SetAside::default() }),
                "256 are the most",
            ),
        ];
        for (request, words) in all {
            let said = refusal(&request).expect("it is refused");
            assert!(said.contains(words), "{said}");
        }
    }
}
