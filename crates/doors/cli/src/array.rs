//! Arrays: a command of `submit --array`, or the lines of `batch --detach`, handed over with an index each to a single
//! keeper.
//!
//! All members are asked for before the first of them may start, so that an array is there as a whole or not at all.
//! Owns the names of the members' output files. Absent here: how many may run at once, which the daemon limits.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use pinfold_proto::array::{ArraySpec, JobName};
use pinfold_proto::{ExitCode, JobArray, JobSpec};
use pinfold_sys::signals::{SIGHUP, SIGINT, SIGTERM};
use pinfold_sys::spawn::ResolveError;

use crate::keeper::{Keeper, Told};
use crate::launch::{LaunchPlan, Outputs};
use crate::names;
use crate::output;
use crate::print::say;
use crate::submit::files::{self, Files, Names, Open};
use crate::submit::notes::Notes;
use crate::successor;
use pinfold_client::{
    Client, Dial, Failure,
    outputs::{self, SUBMITTED},
};

/// How many members are asked for before the first of them is answered.
const WINDOW: usize = 256;

/// The request for the member at each place, without its place in the array.
pub(crate) type SpecOf<'a> = &'a dyn Fn(usize) -> JobSpec;

/// Gets all members accepted; none starts before that is allowed. Gives the array's number, and the index and number of
/// each member; and the place of notes on them.
pub(crate) fn prepare(
    dial: Dial,
    names: Names,
    spec: &ArraySpec,
    mut plan: LaunchPlan,
    spec_of: SpecOf<'_>,
) -> Result<(Keeper, Notes, String), Failure> {
    let members: Rc<RefCell<Members>> = Rc::new(RefCell::new(Members {
        shared: names.open_shared(output::create_for_job)?,
        names,
        array: 0,
        indexes: spec.indexes.clone(),
        jobs: vec![],
        open: output::create_for_job,
    }));
    plan.program(ticket(0)).map_err(|error| Failure::new(ExitCode::NotExecutable, error))?;
    plan.outputs = outputs(&members);
    let socket = dial.socket().to_owned();
    let (mut keeper, welcome) = plan.keeper(dial, &[SIGTERM, SIGINT, SIGHUP], 0, None)?;
    welcome.warnings.iter().for_each(|warning| say(&format!("warning: {warning}")));
    keeper.pause_starts();
    let accepted = submit_all(&mut keeper, spec_of, spec).and_then(|jobs| {
        if let Some(start) = successor::own_start() {
            keeper.leave_start(jobs[0], start);
        }
        members.borrow_mut().array = jobs[0];
        members.borrow_mut().jobs = jobs;
        // If a member has a file to write to, so have the others, as a rule.
        members.borrow().open(0).map(drop)
    });
    if let Err(failure) = accepted {
        for ticket in keeper.waiting() {
            keeper.withdraw(ticket, &failure.message);
        }
        keeper.wait(vec![], Some(Duration::ZERO));
        return Err(failure);
    }
    let said = members.borrow().told();
    {
        let Members { names, array, .. } = &*members.borrow();
        outputs::keep(SUBMITTED, &socket, *array, true, &names.out.0, &names.err.0);
    }
    Ok((keeper, notes(&members), said))
}

/// Keeps members of an array that was handed over before, in place of a lost keeper. Their output is appended.
pub(crate) fn prepare_anew(
    dial: Dial,
    names: Names,
    spec: &ArraySpec,
    mut plan: LaunchPlan,
    spec_of: SpecOf<'_>,
    name: &JobName,
) -> Result<(Keeper, Notes), Failure> {
    let left = members_left(&mut plan.connect(&dial)?, name)?;
    let shared = names.open_shared(output::append_for_job)?;
    let (indexes, mut jobs) = (spec.indexes.clone(), vec![0; spec.indexes.len()]);
    let places: Vec<usize> = left.iter().filter_map(|(index, _)| indexes.binary_search(index).ok()).collect();
    // The number of an array is its first member's, also if that is over.
    jobs[0] = name.job;
    for (&at, (_, job)) in places.iter().zip(&left) {
        jobs[at] = *job;
    }
    let members = Members { names, shared, array: name.job, indexes, jobs, open: output::append_for_job };
    let members = Rc::new(RefCell::new(members));
    plan.outputs = outputs(&members);
    let (mut keeper, _) = plan.keeper(dial, &[SIGTERM, SIGINT, SIGHUP], 0, None)?;
    for (at, (index, job)) in places.into_iter().zip(left) {
        let place = JobArray { array: Some(name.job), index, at_most: spec.at_most };
        keeper.take_over(ticket(at), JobSpec { array: Some(place), ..spec_of(at) }, job);
    }
    Ok((keeper, notes(&members)))
}

/// Index and number of each of these members of an array that is not over.
pub(crate) fn members_left(client: &mut Client, name: &JobName) -> Result<Vec<(u32, u64)>, Failure> {
    let members = names::members(client, &[name.clone().into()])?;
    let left = members.iter().flat_map(|members| &members.jobs).filter(|member| !member.over);
    Ok(left.filter_map(|member| Some((member.index?, member.job))).collect())
}

/// Asks for every member; gives their numbers, or the reason of a refusal.
fn submit_all(keeper: &mut Keeper, spec_of: SpecOf<'_>, spec: &ArraySpec) -> Result<Vec<u64>, Failure> {
    let count = spec.indexes.len();
    let (mut jobs, mut next, mut answered) = (vec![0; count], 0, 0);
    while answered < count {
        while next < count && next - answered < WINDOW {
            let place = JobArray { array: None, index: spec.indexes[next], at_most: spec.at_most };
            keeper.submit(ticket(next), JobSpec { array: Some(place), ..spec_of(next) });
            next += 1;
        }
        for told in keeper.wait(vec![], None) {
            match told {
                Told::Queued { ticket, job } => {
                    jobs[place(ticket)] = job;
                    answered += 1;
                }
                Told::Refused { ticket, reason, code, .. } => {
                    let index = spec.indexes[place(ticket)];
                    return Err(Failure::refused(
                        code,
                        format!("member {index}: {reason}; none was started"),
                    ));
                }
                Told::Lost => {
                    let text = "the daemon went away before it took all members; none was started";
                    return Err(Failure::new(ExitCode::NoDaemon, text));
                }
                Told::Signal(_) => {
                    return Err(Failure::new(ExitCode::Failed, "told to end; no member was started"));
                }
                _ => {}
            }
        }
    }
    Ok(jobs)
}

/// The output of each member, opened as the member starts.
fn outputs(members: &Rc<RefCell<Members>>) -> Outputs {
    let members = members.clone();
    Rc::new(move |ticket| {
        let files = members.borrow().open(place(ticket));
        let files = files.map_err(|failure| ResolveError::Output(failure.message))?;
        Ok([files::null(), Some(files.out.into()), Some(files.err.into())])
    })
}

/// Notes in the members' standard errors. A member that was not started gets its file by that.
fn notes(members: &Rc<RefCell<Members>>) -> Notes {
    let members = members.clone();
    Notes::new(Box::new(move |ticket| members.borrow().open_error(place(ticket))))
}

fn ticket(place: usize) -> u64 {
    place as u64 + 1
}

/// A member's place in its array.
pub(crate) fn place(ticket: u64) -> usize {
    usize::try_from(ticket - 1).expect("tickets are places of members, from 1")
}

/// The members and where their output goes.
struct Members {
    names: Names,
    /// Files that all of them write to.
    shared: BTreeMap<PathBuf, File>,
    /// The array's number, and theirs, once all are known.
    array: u64,
    jobs: Vec<u64>,
    indexes: Vec<u32>,
    open: Open,
}

impl Members {
    fn open(&self, place: usize) -> Result<Files, Failure> {
        let (array, index, job) = (self.array, self.indexes[place], self.jobs[place]);
        self.names.of_job(array, index, job).open(|path, named| match self.shared.get(path) {
            Some(file) => file.try_clone(),
            None => (self.open)(path, named),
        })
    }

    /// The number of a member, and its standard error once more.
    fn open_error(&self, place: usize) -> Option<(u64, File)> {
        let job = self.jobs[place];
        let names = self.names.of_job(self.array, self.indexes[place], job);
        let shared = self.shared.get(&names.err.0).map(File::try_clone);
        Some((job, shared.unwrap_or_else(|| names.open_error()).ok()?))
    }

    /// The array's number, and `INDEX:JOB` of each.
    fn told(&self) -> String {
        let mut text = self.array.to_string();
        for (at, (index, job)) in self.indexes.iter().zip(&self.jobs).enumerate() {
            let _ = write!(text, "{}{index}:{job}", if at == 0 { ' ' } else { ',' });
        }
        text
    }
}
