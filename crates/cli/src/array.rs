//! `pinfold submit --array`: one command handed over many times, each with an index of its own, to one keeper.
//!
//! All members are asked for before the first of them may start, so that an array is there as a whole or not at all.
//! Owns the names of the members' output files. Absent here: how many may run at once, which is the daemon's to see to.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use pinfold_proto::array::{ArraySpec, JobName};
use pinfold_proto::{ExitCode, JobArray, JobSpec};
use pinfold_sys::apart::Apart;
use pinfold_sys::signals::{SIGHUP, SIGINT, SIGTERM};
use pinfold_sys::spawn::{Program, ResolveError};

use crate::checkpoint;
use crate::client::{Client, Dial};
use crate::failure::Failure;
use crate::job;
use crate::keeper::{Keeper, MakeProgram, Told};
use crate::keepers;
use crate::names;
use crate::output::{self, Named};
use crate::run::say;
use crate::submit::{Open, Outputs, SubmitArgs, open_outputs};
use crate::tasks::{Asked, Laid};

/// How many members are asked for before the first of them is answered.
const WINDOW: usize = 256;

/// Gets all members accepted, and lets them start. Says what is to be told of them: the array's number, and the index
/// and number of each.
pub(crate) fn prepare(
    dial: Dial,
    args: &SubmitArgs,
    spec: &ArraySpec,
    laid: Option<&Rc<Laid>>,
    program: (&Path, Apart),
) -> Result<(Keeper, String), Failure> {
    let files = Files::of(args)?;
    let members: Rc<RefCell<Members>> = Rc::new(RefCell::new(Members {
        files,
        array: 0,
        indexes: spec.indexes.clone(),
        jobs: vec![],
        open: output::create,
    }));
    let make = maker(args, laid, program, members.clone());
    make(ticket(0)).map_err(|error| Failure::new(ExitCode::NotExecutable, error))?;
    let (mut keeper, welcome) = Keeper::new(dial, &[SIGTERM, SIGINT, SIGHUP], 0, make, None)?;
    welcome.warnings.iter().for_each(|warning| say(&format!("warning: {warning}")));
    keeper.hooks.made_by(checkpoint::maker(&args.options, || [None, None]));
    keeper.pause_starts();
    let one = job::spec(&args.options, laid.map(|laid| &**laid), &args.command, None);
    let accepted = submit_all(&mut keeper, &one, spec).and_then(|jobs| {
        if let Some(start) = keepers::own_start() {
            keeper.leave_start(jobs[0], start);
        }
        members.borrow_mut().array = jobs[0];
        members.borrow_mut().jobs = jobs;
        // If one has a file to write to, so have the others, as a rule.
        members.borrow().open(0).map(drop)
    });
    if let Err(failure) = accepted {
        for ticket in keeper.waiting() {
            keeper.withdraw(ticket, &failure.message);
        }
        keeper.wait(&[], Some(Duration::ZERO));
        return Err(failure);
    }
    let said = members.borrow().told();
    keeper.allow_starts();
    Ok((keeper, said))
}

/// Keeps members of an array that was handed over before, in the place of a keeper that is gone. Their output goes behind
/// what is there.
pub(crate) fn prepare_anew(
    dial: Dial,
    args: &SubmitArgs,
    spec: &ArraySpec,
    name: &JobName,
) -> Result<Keeper, Failure> {
    let asked = Asked::of(&args.options)?;
    let path = job::resolve(&args.command[0])?;
    let apart = job::apart(&args.options)?;
    let files = Files::of(args)?;
    let mut client = dial.connect()?;
    let laid = asked.map(|asked| asked.on(&client.welcome.cpus)).transpose()?.map(Rc::new);
    let left = members_left(&mut client, name)?;
    drop(client);
    let (indexes, jobs) = left.iter().copied().unzip();
    let members = Members { files, array: name.job, indexes, jobs, open: output::append };
    let members = Rc::new(RefCell::new(members));
    let make = maker(args, laid.as_ref(), (&path, apart), members);
    let (mut keeper, _) = Keeper::new(dial, &[SIGTERM, SIGINT, SIGHUP], 0, make, None)?;
    keeper.hooks.made_by(checkpoint::maker(&args.options, || [None, None]));
    let one = job::spec(&args.options, laid.as_deref(), &args.command, None);
    for (at, (index, job)) in left.into_iter().enumerate() {
        let place = JobArray { array: Some(name.job), index, at_most: spec.at_most };
        keeper.take_over(ticket(at), JobSpec { array: Some(place), ..one.clone() }, job);
    }
    Ok(keeper)
}

/// Index and number of each of these members of an array that is not over.
pub(crate) fn members_left(client: &mut Client, name: &JobName) -> Result<Vec<(u32, u64)>, Failure> {
    let members = names::members(client, std::slice::from_ref(name))?;
    let left = members.iter().flat_map(|members| &members.jobs).filter(|member| !member.over);
    Ok(left.filter_map(|member| Some((member.index?, member.job))).collect())
}

/// Asks for every member; gives their numbers, or why one was refused.
fn submit_all(keeper: &mut Keeper, one: &JobSpec, spec: &ArraySpec) -> Result<Vec<u64>, Failure> {
    let count = spec.indexes.len();
    let (mut jobs, mut next, mut answered) = (vec![0; count], 0, 0);
    while answered < count {
        while next < count && next - answered < WINDOW {
            let place = JobArray { array: None, index: spec.indexes[next], at_most: spec.at_most };
            keeper.submit(ticket(next), JobSpec { array: Some(place), ..one.clone() });
            next += 1;
        }
        for told in keeper.wait(&[], None) {
            match told {
                Told::Queued { ticket, job } => {
                    jobs[place(ticket)] = job;
                    answered += 1;
                }
                Told::Refused { ticket, reason, code } => {
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

fn maker(
    args: &SubmitArgs,
    laid: Option<&Rc<Laid>>,
    (path, apart): (&Path, Apart),
    members: Rc<RefCell<Members>>,
) -> MakeProgram {
    let (command, path, environment) = (args.command.clone(), path.to_owned(), job::environment_of_its_own());
    let tasks = laid.map(Laid::plan);
    Box::new(move |ticket| {
        let mut program = Program::new(&path, command.iter().cloned(), &environment)?;
        program.tasks = tasks.clone();
        program.apart = apart;
        let members = members.borrow();
        if !members.jobs.is_empty() {
            let outputs =
                members.open(place(ticket)).map_err(|failure| ResolveError::Output(failure.message))?;
            let null = File::open("/dev/null").ok().map(OwnedFd::from);
            program.streams = [null, Some(outputs.out.into()), Some(outputs.err.into())];
        }
        Ok(program)
    })
}

fn ticket(place: usize) -> u64 {
    place as u64 + 1
}

fn place(ticket: u64) -> usize {
    usize::try_from(ticket - 1).expect("tickets are places of members, from 1")
}

/// The members and where their output goes.
struct Members {
    files: Files,
    /// The array's number, and theirs, once all are known.
    array: u64,
    jobs: Vec<u64>,
    indexes: Vec<u32>,
    open: Open,
}

impl Members {
    fn open(&self, place: usize) -> Result<Outputs, Failure> {
        let (array, index, job) = (self.array, self.indexes[place], self.jobs[place]);
        let path =
            |(pattern, named): &(PathBuf, Named)| (expand(pattern.as_os_str(), array, index, job), *named);
        open_outputs(&path(&self.files.out), &path(&self.files.err), self.open)
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

/// Names of output files in which `%A`, `%a`, `%j` and `%%` stand for something.
struct Files {
    out: (PathBuf, Named),
    err: (PathBuf, Named),
}

impl Files {
    fn of(args: &SubmitArgs) -> Result<Self, Failure> {
        let pattern = |option: &str, given: &Option<PathBuf>, ending: &str| match given {
            None => Ok((PathBuf::from(format!("pinfold-%A_%a.{ending}")), Named::ByRule)),
            // A device takes from all.
            Some(path) if tells_apart(path.as_os_str()) || path.starts_with("/dev") => {
                Ok((path.clone(), Named::ByUser))
            }
            Some(path) => {
                let text = format!(
                    "{option} {}: all members of the array would write to this one file; put %a, which stands for \
                     the index, into its name",
                    path.display()
                );
                Err(Failure::new(ExitCode::Usage, text))
            }
        };
        Ok(Self {
            out: pattern("--output", &args.output, "out")?,
            err: pattern("--error", &args.error, "err")?,
        })
    }
}

/// Whether such a name is another for each member.
fn tells_apart(pattern: &OsStr) -> bool {
    expand(pattern, 0, 0, 0) != expand(pattern, 0, 1, 1)
}

/// A name of which `%A` stands for the array's number, `%a` for the index, `%j` for the job's own number and `%%` for
/// `%`; anything else stands for itself.
fn expand(pattern: &OsStr, array: u64, index: u32, job: u64) -> PathBuf {
    let (mut name, mut rest) = (Vec::new(), pattern.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        let meant = match (byte, after.first()) {
            (b'%', Some(b'A')) => Some(array.to_string()),
            (b'%', Some(b'a')) => Some(index.to_string()),
            (b'%', Some(b'j')) => Some(job.to_string()),
            (b'%', Some(b'%')) => Some("%".to_owned()),
            _ => None,
        };
        match meant {
            Some(meant) => {
                name.extend_from_slice(meant.as_bytes());
                rest = &after[1..];
            }
            None => {
                name.push(byte);
                rest = after;
            }
        }
    }
    OsString::from_vec(name).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_output_files() {
        let check = |pattern: &str, want: &str, apart: bool| {
            assert_eq!(expand(OsStr::new(pattern), 12, 3, 15), Path::new(want), "{pattern}");
            assert_eq!(tells_apart(OsStr::new(pattern)), apart, "{pattern}");
        };
        check("pinfold-%A_%a.out", "pinfold-12_3.out", true);
        check("%j.log", "15.log", true);
        check("logs/%A/%a", "logs/12/3", true);
        check("100%%-%a%", "100%-3%", true);
        check("%A.out", "12.out", false);
        check("%%a", "%a", false);
        check("plain", "plain", false);
        check("%x%", "%x%", false);
    }
}
