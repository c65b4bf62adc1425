//! What a request costs, in one table: its work follows from its size and from the state that it meets.
//!
//! A unit is what a plain submission takes, up to 0.1 ms. How many a user has in a turn of the loop is said in
//! `server/budget.rs`. What no turn could afford is refused by [`refusal`], in words that name the bound.
//!
//! | request | units |
//! | --- | --- |
//! | each | 1, and 1 for each 4 KiB of its frame |
//! | `hello` | 12: its reply is long, and the members of an array that goes on over it are counted |
//! | `submit` | 1 for each 4,096 jobs that are not over, and what `after` names |
//! | what `after` names | 1 for each 16 jobs, 1 for each of them of which a certain end is awaited, and 312 if one of these may be a whole array; 312 for each array of which members are named, for it is read whole, up to 3,125, and 1 for each 4 of these |
//! | `named` | 1 for each 16 jobs that are not over, 100 for each name; where several jobs may have it, they are looked for in later turns |
//! | `keep` | 4: it writes a file |
//! | `presented`, `attach` of a job that runs or ended | 1 for each 256 jobs that are not over |
//! | `child`, `attach` of one that waits, `ended`, `withdraw`, `checkpointed`, `interrupted` | no more |
//! | any question or order | 64 |
//! | `status`, `starts`, `set_aside`, `set_remove`, `config_set`, `map` | 1 for each 16 jobs that are not over |
//! | `status`, `wait`, `report` with numbers | 1 for each job named; those of `wait` and `report`, and of `status` those that are over, are looked at in later turns (`looks`) |
//! | `status` of all or of then, `report` of the last, or since | 1,000: as many jobs are read from the store; those of all, then and since are looked at in later turns |
//! | `report` with series or lists, and not in pieces | 1,000 |
//! | `members` | 1 for each name, 1 for each 32 members named, for a whole array as many as the longest has; for each array of which members are named as for `after` |
//! | `lengths` | 1 for each command |
//! | `starts` | 512: a page of files is read |
//! | `start_of` | 16: one file of at most 120 KiB is read |
//! | `part` | 32: up to 128 processes are looked at, and 1 for each 256 jobs that are not over |
//! | `doctor`, `audit` | 512: the host, or a file, is examined |
//! | `host` | 1 for each 90 readings that are put together |
//! | `adopt` | 1 for each 4 processes of the host, or of as many as are adopted at once, and what `after` names |
//!
//! Absent here: what a user may make the daemon hold (`quota`), and which user waits for a turn (`server`).

use std::collections::BTreeSet;

use pinfold_proto::array::{JobName, MEMBERS_MAX};
use pinfold_proto::wire::{Phase, Request, Select};
use pinfold_proto::{After, AfterEnd, JobSpec};

use crate::jobs::arrays::NAMES_MAX;
use crate::jobs::gates::CONDITIONS_MAX;

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
const FILE_READ: usize = 16;
const STORE_READ: usize = 1000;
const NAME_READ: usize = 100;
/// How far up a process's descent is followed for `part`; one that is deeper below its job counts as part of none.
pub(crate) const ANCESTORS_MAX: usize = 128;
const LINE_READ: usize = ANCESTORS_MAX / 4;
/// So many processes can be adopted at once.
pub(crate) const ADOPTED_MAX: usize = 1024;
/// So many readings of the host are put together in 0.1 ms.
const READINGS_A_UNIT: usize = 90;
/// The most names that one question may look up.
const NAMES_READ_MAX: usize = 64;

/// What a request meets: how much there is of what it may have to look at.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    /// Jobs that are not over.
    pub jobs: usize,
    /// Processes of the host, as last counted.
    pub processes: usize,
    /// Readings of the host that are kept, at most,
    pub readings: usize,
    /// and how long it takes until the next one, at least.
    pub reading_every_us: u64,
    /// Now.
    pub now_us: u64,
    /// Questions are refused: their user leaves too much unread.
    pub refuses: bool,
}

/// What a request of so many bytes costs in units: at least 1.
pub(crate) fn of(request: &Request, bytes: usize, load: Load) -> u32 {
    let own = match request {
        Request::Hello { .. } => 12,
        Request::Submit { spec, .. } => load.jobs / 4096 + of_after(spec),
        Request::Keep { .. } => 4,
        Request::Presented | Request::Attach { phase: Phase::Running { .. } | Phase::Ended { .. }, .. } => {
            load.jobs / 256
        }
        request if is_kept_up(request) || load.refuses => 0,
        question => QUESTION + of_question(question, load),
    };
    u32::try_from(1 + bytes / 4096 + own).unwrap_or(u32::MAX)
}

/// What it costs to look at the jobs that a new one is to start after. More than may be named is refused unseen.
fn of_after(spec: &JobSpec) -> usize {
    let names = || spec.after.iter().flat_map(After::jobs);
    let named = names().map(JobName::count).fold(0, usize::saturating_add).min(NAMES_MAX);
    let conditions = || spec.after.iter().filter(|after| after.end != AfterEnd::Any).flat_map(After::jobs);
    // All of them together are about no more jobs than one array has.
    let members = if conditions().any(|name| name.indexes.is_none()) { MEMBERS_MAX / 32 } else { 0 };
    named / 16 + conditions().count().min(CONDITIONS_MAX) + members + of_arrays(names())
}

/// What it costs to read the arrays of which members are named by index: each whole, however few these are, and once.
fn of_arrays<'a>(names: impl Iterator<Item = &'a JobName>) -> usize {
    let arrays: BTreeSet<u64> = names.filter(|name| name.indexes.is_some()).map(|name| name.job).collect();
    let count = arrays.len().min(NAMES_MAX);
    count / 4 + (count * MEMBERS_MAX).min(NAMED_MAX) / 32
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
            | Request::StartOf { .. }
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
            let told = names.iter().map(members).fold(0, usize::saturating_add).min(NAMED_MAX);
            names.len() + told / 32 + of_arrays(names.iter())
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
        Request::StartOf { .. } => FILE_READ,
        Request::Part => LINE_READ + load.jobs / 256,
        Request::Doctor | Request::Audit { .. } | Request::Learn { .. } => FILES_READ,
        Request::Adopt { spec, .. } => load.processes.max(ADOPTED_MAX) / 4 + of_after(spec),
        Request::Host { since_us, until_us, each: false } => {
            let until_us = until_us.map_or(load.now_us, |until_us| until_us.min(load.now_us));
            let rows = until_us.saturating_sub(*since_us) / load.reading_every_us.max(1);
            usize::try_from(rows).unwrap_or(usize::MAX).min(load.readings) / READINGS_A_UNIT
        }
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
    use pinfold_profile::store::Store;
    use pinfold_proto::Ending;
    use pinfold_proto::learned::Signed;
    use pinfold_proto::wire::{Adoptee, REQUEST_MAX_BYTES, SetAside, Verb};

    use super::*;

    const S: u64 = 1_000_000;
    const DAY: u64 = 86_400 * S;

    /// The largest state that is thought of: a full queue on a large host, whose readings are kept for two years.
    const LARGEST: Load = Load {
        jobs: 200_000,
        processes: 100_000,
        readings: 1_100_000,
        reading_every_us: 10 * S,
        now_us: 20_000 * DAY,
        refuses: false,
    };

    /// No request costs more than so many turns of its user, at the largest state: the frame is as long as may be, and
    /// its words are the worst of its kind that are not refused.
    const TURNS_MAX: u32 = 31;

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
        let members: Vec<JobName> = (1..=4095).map(member).chain([JobName::from(1)]).collect();
        let asked = |names: &[JobName]| Box::new(JobSpec { after: after_ok(names), ..JobSpec::default() });
        let submit = |names: &[JobName]| Request::Submit { ticket: 1, spec: asked(names), pid: None };
        let adopt = |spec| Request::Adopt { which: Adoptee::Process(1), spec, in_place: false };
        let worst = [
            (Request::Hello { version: 1 }, 77),
            (submit(&vec![JobName::from(1); 4096]), 1_705),
            (submit(&members), 5_853),
            (Request::Keep { job: 1, start: Box::default() }, 69),
            (Request::Presented, 846),
            (Request::Child { job: 1, pid: 1 }, 65),
            (Request::Attach { job: 1, phase: Phase::Waiting { pid: None } }, 65),
            (Request::Attach { job: 1, phase: Phase::Running { pid: 1 } }, 846),
            (Request::Attach { job: 1, phase: Phase::Ended { ending: Ending::default(), run: None } }, 846),
            (Request::Status { jobs: numbers.clone(), all: true, at_us: None }, 23_629),
            (Request::Members { names: [vec![all; 10], members[..4086].to_vec()].concat() }, 11_496),
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
            (Request::StartOf { job: 1 }, 145),
            (Request::Part, 942),
            (Request::Doctor, 641),
            (Request::Audit { verify: true }, 641),
            (adopt(Box::default()), 25_129),
            (adopt(asked(&members)), 30_869),
            (Request::SetAside(SetAside::default()), 12_629),
            (Request::ConfigSet { changes: Vec::new() }, 12_629),
            (Request::Control { job: 1, verb: Verb::Hold }, 129),
            (Request::Map, 12_629),
            (Request::Host { since_us: 0, until_us: None, each: false }, 12_351),
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

    fn member(array: u64) -> JobName {
        format!("{array}_3999999").parse().unwrap()
    }

    fn after_ok(names: &[JobName]) -> Vec<After> {
        names.iter().map(|name| After { end: AfterEnd::Ok, ..After::from(name.clone()) }).collect()
    }

    /// An array is read whole for one member, and so it is paid for, once for each request; one array is no more than two
    /// turns of a user who is alone.
    #[test]
    fn who_names_a_member_pays_for_its_array() {
        let whole = MEMBERS_MAX / 32;
        let apart: Vec<JobName> = (1..=10).map(member).collect();
        let same: Vec<JobName> = (0..10).map(|index| format!("7_{index}").parse().unwrap()).collect();
        let any = |names: &[JobName]| names.iter().cloned().map(After::from).collect::<Vec<_>>();
        let asked = |after: &[After]| Box::new(JobSpec { after: after.to_vec(), ..JobSpec::default() });
        let submit = |after: &[After]| Request::Submit { ticket: 1, spec: asked(after), pid: None };
        let adopt = |after: &[After]| Request::Adopt {
            which: Adoptee::Process(1),
            spec: asked(after),
            in_place: false,
        };
        let members = |names: &[JobName]| Request::Members { names: names.to_vec() };
        let cost = |request: &Request| of(request, 8, Load::default()) as usize;
        for (names, arrays) in [(&apart, 10), (&same, 1)] {
            let mut costs = vec![cost(&members(names)) - cost(&members(&[]))];
            for after in [any(names), after_ok(names)] {
                costs.push(cost(&submit(&after)) - cost(&submit(&[])));
                costs.push(cost(&adopt(&after)) - cost(&adopt(&[])));
            }
            let most = arrays * whole + 30;
            assert!(costs.iter().all(|cost| (arrays * whole..=most).contains(cost)), "{costs:?}");
        }
        assert!(cost(&submit(&any(&same[1..2]))) <= 512);
    }

    #[test]
    fn readings_of_the_host_cost_as_many_as_are_put_together() {
        // As long as they are kept by default.
        let kept = Store::host_rows_max(90 * DAY, LARGEST.reading_every_us, Some(4 << 30));
        let load = Load { readings: usize::try_from(kept).unwrap(), ..LARGEST };
        assert!((150_000..250_000).contains(&kept), "{kept}");
        let cost = |since_us, until_us, each| of(&Request::Host { since_us, until_us, each }, 8, load);
        let all = cost(0, None, false);
        assert!((1_900..2_500).contains(&all), "{all}");
        assert_eq!(cost(0, Some(u64::MAX), false), all);
        assert!(cost(load.now_us - DAY, None, false) < 200 && cost(0, Some(DAY), false) < 200, "a day");
        assert_eq!(cost(0, None, true), cost(load.now_us, None, false), "as many as one answer holds");
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
