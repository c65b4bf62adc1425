//! `pinfold submit`: a job, or an array of them, handed over to a keeper of its own, which outlives this command and the
//! daemon.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{PipeWriter, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode as ProcessExit;
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use pinfold_proto::ExitCode;
use pinfold_proto::array::{ArraySpec, JobName};
use pinfold_sys::signals::{self, SIGHUP, SIGINT, SIGTERM};
use pinfold_sys::spawn::{self, Side};

use crate::array;
use crate::checkpoint;

use crate::holds;
use crate::job::{self, JobOptions};
use crate::keeper::{Keeper, MakeProgram, Told, send_signal_to_group};
use crate::launch::LaunchPlan;
use crate::output;
use crate::print::say;
use crate::successor;
use pinfold_client::{
    Dial, Failure, accepted,
    outputs::{self, SUBMITTED},
};

pub(crate) mod files;
pub(crate) mod notes;

use files::{Files, Names};
use notes::{Notes, signal_name};

#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// Submit a job for each index, as in 0-15, 1,3,7 or 0-30:5; %4 behind the indexes runs at most 4 jobs at once. Each job
    /// has its index in PINFOLD_ARRAY_INDEX
    #[arg(short, long, value_name = "INDEXES[%N]")]
    pub array: Option<ArraySpec>,
    /// File for standard output [default: pinfold-JOB.out]. %j is the number of the job, in an array %A the number of the
    /// array and %a the index
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// File for standard error [default: pinfold-JOB.err]; the same file as of -o takes both streams, in order
    #[arg(short, long, value_name = "FILE")]
    pub error: Option<PathBuf>,
    /// Tell a command or URL when the job, or the whole array, has ended: the JSON of `report --json`, a line for each job, on the command's standard input, or by POST
    #[arg(long, value_name = "COMMAND|URL")]
    pub notify: Option<String>,
    /// Print a JSON object instead of the job number
    #[arg(long)]
    pub json: bool,
    /// Become the job's keeper once its number is printed, in place of leaving one behind
    #[arg(long, hide = true)]
    pub stay: bool,
    #[command(flatten)]
    pub options: JobOptions,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

const TICKET: u64 = 1;

/// Hands the command over and prints the job's number.
pub(crate) fn submit(dial: Dial, args: &SubmitArgs) -> Result<ProcessExit, Failure> {
    if let Some((name, socket)) = successor::keeps() {
        return keep_anew(successor::dial_of(&socket, &dial), args, &name);
    }
    let mut plan = plan_of(args)?;
    // A daemon is started from here, not from the keeper, so that the keeper holds nothing but its job.
    if plan.wants_layout() || args.options.asks_daemon() || holds::asks_daemon(&args.options) {
        let mut client = plan.connect(&dial)?;
        plan.resolve(&mut client)?;
    } else {
        // There is nothing to ask: the keeper greets it.
        if !args.stay {
            drop(dial.stream()?);
        }
        holds::check(None, &args.options)?;
    }
    if args.stay {
        return stay(dial, args, plan);
    }
    let json = args.json;
    hand_over(json, || accepted(dial, args, plan))
}

/// Forks a keeper that gets jobs accepted; prints its answer.
pub(crate) fn hand_over(json: bool, accept: impl FnOnce() -> Accepted) -> Result<ProcessExit, Failure> {
    let pipe = |error: std::io::Error| Failure::doing("failed to make a keeper", &error);
    let (mut answer, tell) = std::io::pipe().map_err(pipe)?;
    match spawn::fork_away().map_err(pipe)? {
        Side::Child => {
            drop(answer);
            // A script of a batch may trap signals that its caller ignores, and ends by signals of its user.
            signals::ignore_none();
            keep(accept(), tell);
            Ok(ProcessExit::SUCCESS)
        }
        Side::Parent(_) => {
            drop(tell);
            let mut said = String::new();
            answer.read_to_string(&mut said).map_err(pipe)?;
            report(&said, json)
        }
    }
}

/// The keeper's answer: `0 JOB`, of an array `0 JOB INDEX:JOB,...`, or an exit code and a message.
fn report(said: &str, json: bool) -> Result<ProcessExit, Failure> {
    let (code, text) = said.split_once(' ').unwrap_or((said, ""));
    if code == "0" {
        let (job, members) = text.split_once(' ').map_or((text, None), |(job, all)| (job, Some(all)));
        let line = match members {
            _ if !json => job.to_owned(),
            None => format!("{{\"version\":1,\"job\":{job}}}"),
            Some(members) => {
                let member = |member: &str| {
                    let (index, job) = member.split_once(':').unwrap_or((member, "null"));
                    format!("{{\"index\":{index},\"job\":{job}}}")
                };
                let members: Vec<String> = members.split(',').map(member).collect();
                let members = members.join(",");
                format!("{{\"version\":1,\"job\":{job},\"array_id\":{job},\"members\":[{members}]}}")
            }
        };
        let what = if members.is_some() { "array" } else { "job" };
        return accepted::tell(what, job, &line).map(|()| ProcessExit::SUCCESS);
    }
    let code = [ExitCode::Usage, ExitCode::Permission, ExitCode::NoDaemon, ExitCode::Refused]
        .into_iter()
        .find(|known| known.code().to_string() == code)
        .unwrap_or(ExitCode::Failed);
    let text = if text.is_empty() { "the keeper ended before it said anything" } else { text };
    Err(Failure::new(code, text))
}

/// The keeper's life: tell the number, start the command when it may, hand its end over.
fn keep(accepted: Accepted, mut tell: PipeWriter) {
    match accepted {
        Ok((keeper, notes, said)) => {
            let _ = write!(tell, "0 {said}");
            drop(tell);
            detached(keeper, &notes);
        }
        Err(failure) => {
            let _ = write!(tell, "{} {}", failure.code.code(), failure.message);
        }
    }
}

/// The same in this process, which is its caller's child and needs no other: a process less for each job. The caller
/// goes by the printed number, for this process ends with the job.
fn stay(dial: Dial, args: &SubmitArgs, plan: LaunchPlan) -> Result<ProcessExit, Failure> {
    spawn::lead_session();
    signals::ignore_none();
    let (keeper, notes, said) = accepted(dial, args, plan)?;
    // The job was accepted, whether or not its number is still read.
    let _ = report(&format!("0 {said}"), args.json);
    detached(keeper, &notes);
    Ok(ProcessExit::SUCCESS)
}

/// The keeper of jobs that were accepted, where notes on them go, and the answer to the caller.
pub(crate) type Accepted = Result<(Keeper, Notes, String), Failure>;

/// Gets the job, or the array, accepted.
fn accepted(dial: Dial, args: &SubmitArgs, plan: LaunchPlan) -> Accepted {
    let (keeper, notes, said) = match &args.array {
        Some(spec) => {
            let one = plan.spec.clone();
            array::prepare(dial, Names::of_array(args)?, spec, plan, &|_| one.clone())?
        }
        None => prepare(dial, args, plan).map(|(keeper, notes, job)| (keeper, notes, job.to_string()))?,
    };
    Ok((keeper, notes.with_notify(args.notify.as_deref()), said))
}

/// Lets go of the streams and of all else that the caller had open, and stays until the end.
fn detached(mut keeper: Keeper, notes: &Notes) {
    let _ = spawn::null_streams();
    spawn::drop_inherited_files();
    // Only now: the caller need not wait while the command is started.
    keeper.allow_starts();
    attend(keeper, notes);
}

/// Gets the job accepted and its output files opened; the job does not start before it is allowed to.
fn prepare(dial: Dial, args: &SubmitArgs, mut plan: LaunchPlan) -> Result<(Keeper, Notes, u64), Failure> {
    let files: Rc<RefCell<Option<Files>>> = Rc::default();
    write_to(&mut plan, args, &files)?;
    let names = Names::of_one(args)?;
    plan.program(TICKET).map_err(|error| Failure::new(ExitCode::NotExecutable, error))?;
    let socket = dial.socket().to_owned();
    let (mut keeper, welcome) = plan.keeper(dial, &[SIGTERM, SIGINT, SIGHUP], 0, None)?;
    welcome.warnings.iter().for_each(|warning| say(&format!("warning: {warning}")));
    // Its output files are named after its number.
    keeper.pause_starts();
    keeper.submit(TICKET, plan.spec);
    let job = number(&mut keeper)?;
    if let Some(start) = successor::own_start() {
        keeper.leave_start(job, start);
    }
    match names.of_job(job, 0, job).open(output::create_for_job) {
        Ok(opened) => {
            *files.borrow_mut() = Some(opened.open_if_read());
            outputs::keep(SUBMITTED, &socket, job, false, &names.out.0, &names.err.0);
        }
        Err(failure) => {
            keeper.withdraw(TICKET, &failure.message);
            keeper.wait(vec![], Some(Duration::ZERO));
            return Err(failure);
        }
    }
    Ok((keeper, notes_of(job, files), job))
}

/// Keeps jobs that were handed over before, in place of a keeper that is gone. Output is appended.
fn keep_anew(dial: Dial, args: &SubmitArgs, name: &JobName) -> Result<ProcessExit, Failure> {
    let prepared = || match (&name.indexes, &args.array) {
        (Some(_), Some(spec)) => {
            let (plan, names) = (plan_of(args)?, Names::of_array(args)?);
            let one = plan.spec.clone();
            array::prepare_anew(dial.clone(), names, spec, plan, &|_| one.clone(), name)
        }
        _ => prepare_anew(dial.clone(), args, name.job),
    };
    let prepared = prepared().map(|(keeper, notes)| (keeper, notes.with_notify(args.notify.as_deref())));
    attend_anew(dial.clone(), name, prepared)
}

/// Stays with jobs that were prepared anew; jobs that cannot be kept are given back.
pub(crate) fn attend_anew(
    dial: Dial,
    name: &JobName,
    prepared: Result<(Keeper, Notes), Failure>,
) -> Result<ProcessExit, Failure> {
    match prepared {
        Ok((keeper, notes)) => {
            attend(keeper, &notes);
            Ok(ProcessExit::SUCCESS)
        }
        Err(failure) => {
            give_back(dial, name, &failure.message);
            Err(failure)
        }
    }
}

fn prepare_anew(dial: Dial, args: &SubmitArgs, job: u64) -> Result<(Keeper, Notes), Failure> {
    let mut plan = plan_of(args)?;
    drop(plan.connect(&dial)?);
    let files = Names::of_one(args)?.of_job(job, 0, job).open(output::append_for_job)?;
    let files = Rc::new(RefCell::new(Some(files.open_if_read())));
    write_to(&mut plan, args, &files)?;
    let (mut keeper, _) = plan.keeper(dial, &[SIGTERM, SIGINT, SIGHUP], 0, None)?;
    keeper.take_over(TICKET, plan.spec, job);
    Ok((keeper, notes_of(job, files)))
}

/// Notes in the standard error of this job.
fn notes_of(job: u64, files: Rc<RefCell<Option<Files>>>) -> Notes {
    Notes::new(Box::new(move |_| Some((job, files.borrow().as_ref()?.err.try_clone().ok()?))))
}

/// The plan of a job, or of each member of an array.
pub(crate) fn plan_of(args: &SubmitArgs) -> Result<LaunchPlan, Failure> {
    let mut plan = LaunchPlan::of_command(&args.options, &args.command, job::environment_of_its_own(), true)?;
    plan.spec.terms.runs_again = true;
    Ok(plan)
}

/// Has a job, and its checkpoint command, write to these files once they are there.
fn write_to(
    plan: &mut LaunchPlan,
    args: &SubmitArgs,
    files: &Rc<RefCell<Option<Files>>>,
) -> Result<(), Failure> {
    let of_job = files.clone();
    plan.outputs = Rc::new(move |_| {
        Ok(of_job.borrow().as_ref().map_or([None, None, None], |files| {
            let [out, err] = files.copies();
            [files::null(), out, err]
        }))
    });
    let files = files.clone();
    plan.hooks = checkpoint::maker(&args.options, move || {
        files.borrow().as_ref().map_or([None, None], Files::copies)
    })?;
    Ok(())
}

/// Tells the daemon that a job, or members of an array, cannot be kept, and why.
pub(crate) fn give_back(dial: Dial, name: &JobName, reason: &str) {
    let jobs = match name.indexes {
        None => vec![name.job],
        Some(_) => {
            // Without a daemon there is no recipient of the job either.
            let members = dial.connect().and_then(|mut client| array::members_left(&mut client, name));
            members.unwrap_or_default().into_iter().map(|(_, job)| job).collect()
        }
    };
    let make: MakeProgram = Box::new(|_| Err(pinfold_sys::spawn::ResolveError::Nul));
    if let Ok((mut keeper, _)) = Keeper::new(dial, &[], 0, make, None) {
        for (ticket, job) in (TICKET..).zip(jobs) {
            keeper.take_over(ticket, pinfold_proto::JobSpec::default(), job);
            keeper.withdraw(ticket, reason);
        }
        keeper.wait(vec![], Some(Duration::ZERO));
    }
}

/// Waits for the job's number.
fn number(keeper: &mut Keeper) -> Result<u64, Failure> {
    loop {
        for told in keeper.wait(vec![], None) {
            match told {
                Told::Queued { job, .. } => return Ok(job),
                Told::Refused { reason, code, .. } => return Err(Failure::refused(code, reason)),
                Told::Lost => {
                    return Err(Failure::new(
                        ExitCode::NoDaemon,
                        "the daemon went away before it took the job",
                    ));
                }
                _ => {}
            }
        }
    }
}

/// The time that a keeper that was told to end looks for a daemon to report the job's end to: a replaced daemon is back
/// by then, and a host that is going down should not wait longer.
const NEWS_MAX: Duration = Duration::from_secs(10);
const ORPHANED: &str = "its daemon is gone, and the daemon's state directory was removed";

/// Stays until its jobs are over and their ends on disk. Signals for the keeper are meant for running jobs; a job
/// that waits is left to another keeper if there can be another, for a shutdown of the host that ends all
/// processes does not mean the job. News that reach no daemon stand in the job's standard error.
fn attend(mut keeper: Keeper, notes: &Notes) {
    let mut told_to_end = None;
    while keeper.pending() > 0 {
        let patience = told_to_end.map(|_| NEWS_MAX);
        for told in keeper.wait(vec![], patience) {
            match told {
                Told::Signal(arrived) => {
                    told_to_end = Some(arrived.signal);
                    pass_on(&mut keeper, arrived.signal, notes);
                }
                Told::Refused { ticket, reason, known: false, .. } => {
                    notes.not_started(ticket, &format!("{}: {reason}", another(&keeper, "refuses")));
                }
                _ => {}
            }
        }
        for (ticket, ending) in keeper.take_unknown() {
            notes.ended(ticket, &ending, &another(&keeper, "does not know"));
        }
        let orphaned = keeper.is_orphaned(NEWS_MAX);
        if orphaned {
            // A package that is purged leaves no keeper behind, once the job that runs is over.
            for ticket in keeper.waiting() {
                keeper.withdraw(ticket, ORPHANED);
                notes.not_started(ticket, ORPHANED);
            }
        }
        let told = told_to_end.map(|signal| no_daemon(&keeper, signal));
        let Some(why) = told.or(orphaned.then(|| ORPHANED.to_owned())) else { continue };
        if keeper.has_successor() && keeper.pending() == keeper.waiting().len() {
            return;
        }
        if keeper.only_news_for_nobody() && keeper.alone_for().is_some_and(|alone| alone >= NEWS_MAX) {
            for (ticket, ending) in keeper.ends_for_nobody() {
                notes.ended(ticket, &ending, &why);
            }
            return;
        }
    }
    notes.notify(&Dial::new(Some(keeper.socket()), true));
}

/// Passes a signal for the keeper on to the jobs that run. Waiting jobs are left to another keeper, or withdrawn.
fn pass_on(keeper: &mut Keeper, signal: i32, notes: &Notes) {
    let running: Vec<(u64, u32)> = keeper.running().collect();
    for (ticket, pid) in running {
        send_signal_to_group(pid, signal);
        keeper.interrupted(ticket);
    }
    if keeper.has_successor() {
        // Another keeper keeps the waiting jobs once this keeper is gone; running members of an array stay here to the end.
        keeper.pause_starts();
        return;
    }
    for ticket in keeper.waiting() {
        keeper.withdraw(ticket, "its keeper was told to end before the job started");
        if keeper.alone_for().is_some() {
            notes.not_started(ticket, &no_daemon(keeper, signal));
        }
    }
    keeper.wait(vec![], Some(Duration::ZERO));
}

/// The reason for no report of a job: no daemon is there.
fn no_daemon(keeper: &Keeper, signal: i32) -> String {
    format!(
        "its keeper was told to end (signal {}), and no daemon on {} was there to hear of it",
        signal_name(signal),
        keeper.socket().display()
    )
}

/// The live daemon did not have the job.
fn another(keeper: &Keeper, verb: &str) -> String {
    format!("the daemon that had it is gone, and the one on {} now {verb} it", keeper.socket().display())
}
