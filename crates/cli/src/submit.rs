//! `pinfold submit`: a job, or an array of them, handed over to a keeper of its own, which outlives this command and the
//! daemon.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::File;
use std::io::{PipeWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode as ProcessExit;
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use pinfold_proto::ExitCode;
use pinfold_proto::array::ArraySpec;
use pinfold_proto::array::JobName;
use pinfold_sys::apart::Apart;
use pinfold_sys::lead::TaskPlan;
use pinfold_sys::signals::{SIGHUP, SIGINT, SIGTERM};
use pinfold_sys::spawn::{self, Program, Side};

use crate::array;
use crate::checkpoint;
use crate::client::Dial;
use crate::failure::Failure;
use crate::job::{self, JobOptions};
use crate::keeper::{Keeper, MakeProgram, Told, send_signal};
use crate::keepers;
use crate::output::{self, Named};
use crate::run::say;
use crate::tasks::{Asked, Laid};

#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    pub options: JobOptions,
    /// Hand it over once for each of these indexes, 0-15, 1,3,7 or 0-30:5, with %4 behind them at most 4 at once; each
    /// has its own in PINFOLD_ARRAY_INDEX
    #[arg(short, long, value_name = "INDEXES[%N]")]
    pub array: Option<ArraySpec>,
    /// Write its standard output here [default: pinfold-JOB.out]; in an array %A stands for its number, %a for the index
    /// and %j for the job's own number
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write its standard error here [default: pinfold-JOB.err]
    #[arg(short, long, value_name = "FILE")]
    pub error: Option<PathBuf>,
    /// Print one JSON object instead of the bare number
    #[arg(long)]
    pub json: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

const TICKET: u64 = 1;

/// Hands the command over and prints the job's number.
pub(crate) fn submit(dial: Dial, args: &SubmitArgs) -> Result<ProcessExit, Failure> {
    if let Some((name, socket)) = keepers::keeps() {
        return keep_anew(keepers::dial_of(&socket, &dial), args, &name);
    }
    let asked = Asked::of(&args.options)?;
    let path = job::resolve(&args.command[0])?;
    let apart = job::apart(&args.options)?;
    // A daemon is started from here, not from the keeper, so that the keeper holds nothing but its job.
    let laid = {
        let client = dial.connect()?;
        asked.map(|asked| asked.on(&client.welcome.cpus)).transpose()?.map(Rc::new)
    };
    let pipe = |error: std::io::Error| Failure::doing("failed to make a keeper", &error);
    let (mut answer, tell) = std::io::pipe().map_err(pipe)?;
    match spawn::fork_away().map_err(pipe)? {
        Side::Child => {
            drop(answer);
            keep(dial, args, laid.as_ref(), (&path, apart), tell);
            Ok(ProcessExit::SUCCESS)
        }
        Side::Parent(_) => {
            drop(tell);
            let mut said = String::new();
            answer.read_to_string(&mut said).map_err(pipe)?;
            report(&said, args.json)
        }
    }
}

/// What the keeper said: `0 JOB`, of an array `0 JOB INDEX:JOB,...`, or an exit code and a message.
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
        let written = writeln!(std::io::stdout(), "{line}");
        return written
            .map(|()| ProcessExit::SUCCESS)
            .map_err(|error| Failure::doing("standard output", &error));
    }
    let code = [ExitCode::Usage, ExitCode::Permission, ExitCode::NoDaemon, ExitCode::Refused]
        .into_iter()
        .find(|known| known.code().to_string() == code)
        .unwrap_or(ExitCode::Failed);
    let text = if text.is_empty() { "the keeper ended before it said anything" } else { text };
    Err(Failure::new(code, text))
}

/// The keeper's life: submit, tell the number, start the command when it may, hand its end over.
fn keep(
    dial: Dial,
    args: &SubmitArgs,
    laid: Option<&Rc<Laid>>,
    program: (&Path, Apart),
    mut tell: PipeWriter,
) {
    let prepared = match &args.array {
        Some(spec) => array::prepare(dial, args, spec, laid, program),
        None => prepare(dial, args, laid, program).map(|(keeper, job)| (keeper, job.to_string())),
    };
    match prepared {
        Ok((keeper, said)) => {
            let _ = write!(tell, "0 {said}");
            drop(tell);
            let _ = spawn::null_streams();
            attend(keeper);
        }
        Err(failure) => {
            let _ = write!(tell, "{} {}", failure.code.code(), failure.message);
        }
    }
}

/// Gets the job accepted and its output files opened.
fn prepare(
    dial: Dial,
    args: &SubmitArgs,
    laid: Option<&Rc<Laid>>,
    program: (&Path, Apart),
) -> Result<(Keeper, u64), Failure> {
    let outputs: Rc<RefCell<Option<Outputs>>> = Rc::default();
    let make = maker(args, laid.map(Laid::plan), program, outputs.clone());
    make(TICKET).map_err(|error| Failure::new(ExitCode::NotExecutable, error))?;
    let (mut keeper, welcome) = Keeper::new(dial, &[SIGTERM, SIGINT, SIGHUP], 0, make, None)?;
    welcome.warnings.iter().for_each(|warning| say(&format!("warning: {warning}")));
    keeper.hooks.made_by(checkpoint_maker(args, outputs.clone()));
    // Its output files are named after its number.
    keeper.pause_starts();
    keeper.submit(TICKET, job::spec(&args.options, laid.map(|laid| &**laid), &args.command, None));
    let job = number(&mut keeper)?;
    if let Some(start) = keepers::own_start() {
        keeper.leave_start(job, start);
    }
    let [out, err] = paths(args, job);
    match open_outputs(&out, &err, output::create) {
        Ok(opened) => {
            *outputs.borrow_mut() = Some(opened);
            keeper.allow_starts();
        }
        Err(failure) => {
            keeper.withdraw(TICKET, &failure.message);
            keeper.wait(&[], Some(Duration::ZERO));
            return Err(failure);
        }
    }
    Ok((keeper, job))
}

/// Keeps what was handed over before, in the place of a keeper that is gone. Its output goes behind what is there.
fn keep_anew(dial: Dial, args: &SubmitArgs, name: &JobName) -> Result<ProcessExit, Failure> {
    let prepared = match (&name.indexes, &args.array) {
        (Some(_), Some(spec)) => array::prepare_anew(dial.clone(), args, spec, name),
        _ => prepare_anew(dial.clone(), args, name.job),
    };
    match prepared {
        Ok(keeper) => {
            attend(keeper);
            Ok(ProcessExit::SUCCESS)
        }
        Err(failure) => {
            give_back(dial, name, &failure.message);
            Err(failure)
        }
    }
}

fn prepare_anew(dial: Dial, args: &SubmitArgs, job: u64) -> Result<Keeper, Failure> {
    let asked = Asked::of(&args.options)?;
    let path = job::resolve(&args.command[0])?;
    let apart = job::apart(&args.options)?;
    let client = dial.connect()?;
    let laid = asked.map(|asked| asked.on(&client.welcome.cpus)).transpose()?.map(Rc::new);
    drop(client);
    let [out, err] = paths(args, job);
    let outputs = open_outputs(&out, &err, output::append)?;
    let outputs = Rc::new(RefCell::new(Some(outputs)));
    let make = maker(args, laid.as_ref().map(Laid::plan), (&path, apart), outputs.clone());
    let (mut keeper, _) = Keeper::new(dial, &[SIGTERM, SIGINT, SIGHUP], 0, make, None)?;
    keeper.hooks.made_by(checkpoint_maker(args, outputs));
    keeper.take_over(TICKET, job::spec(&args.options, laid.as_deref(), &args.command, None), job);
    Ok(keeper)
}

/// Tells the daemon that a job, or members of an array, cannot be kept, and why.
pub(crate) fn give_back(dial: Dial, name: &JobName, reason: &str) {
    let jobs = match name.indexes {
        None => vec![name.job],
        Some(_) => {
            // If nobody can be asked, nobody can be told.
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
        keeper.wait(&[], Some(Duration::ZERO));
    }
}

/// How its checkpoint command is made, whose output goes where the job's goes.
fn checkpoint_maker(args: &SubmitArgs, files: Rc<RefCell<Option<Outputs>>>) -> Option<MakeProgram> {
    checkpoint::maker(&args.options, move || match &*files.borrow() {
        Some(files) => [&files.out, &files.err].map(|file| file.try_clone().ok().map(OwnedFd::from)),
        None => [None, None],
    })
}

/// Where a job's standard output and error go.
pub(crate) struct Outputs {
    pub out: File,
    pub err: File,
}

fn maker(
    args: &SubmitArgs,
    tasks: Option<TaskPlan>,
    (path, apart): (&Path, Apart),
    outputs: Rc<RefCell<Option<Outputs>>>,
) -> MakeProgram {
    let (command, path, environment) = (args.command.clone(), path.to_owned(), job::environment_of_its_own());
    Box::new(move |_| {
        let mut program = Program::new(&path, command.iter().cloned(), &environment)?;
        program.tasks = tasks.clone();
        program.apart = apart;
        if let Some(outputs) = &*outputs.borrow() {
            let copy = |file: &File| file.try_clone().ok().map(OwnedFd::from);
            let null = File::open("/dev/null").ok().map(OwnedFd::from);
            program.streams = [null, copy(&outputs.out), copy(&outputs.err)];
        }
        Ok(program)
    })
}

/// Waits for the job's number.
fn number(keeper: &mut Keeper) -> Result<u64, Failure> {
    loop {
        for told in keeper.wait(&[], None) {
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

/// How a file is opened for a job's output.
pub(crate) type Open = fn(&Path, Named) -> std::io::Result<File>;

/// Where a job's standard output and error go: what the user named, or a file named after the job.
fn paths(args: &SubmitArgs, job: u64) -> [(PathBuf, Named); 2] {
    [(&args.output, "out"), (&args.error, "err")].map(|(given, ending)| match given {
        Some(path) => (path.clone(), Named::ByUser),
        None => (PathBuf::from(format!("pinfold-{job}.{ending}")), Named::ByRule),
    })
}

/// Opens the files for a job's standard output and error.
pub(crate) fn open_outputs(
    out: &(PathBuf, Named),
    err: &(PathBuf, Named),
    open_file: Open,
) -> Result<Outputs, Failure> {
    let open = |(path, named): &(PathBuf, Named)| {
        open_file(path, *named).map_err(|error| {
            Failure::doing(format!("failed to open {} for the job's output", path.display()), &error)
        })
    };
    let out_file = open(out)?;
    // One file named for both is opened once, or each stream would overwrite the other's lines.
    let err_file = if out.0 == err.0 {
        out_file.try_clone()
    } else {
        return Ok(Outputs { out: out_file, err: open(err)? });
    };
    let err = err_file.map_err(|error| Failure::doing("failed to share the output file", &error))?;
    Ok(Outputs { out: out_file, err })
}

/// How long a keeper that was told to end looks for a daemon to tell how its job ended: one that is being replaced is
/// back by then, and a host that is going down should not wait longer.
const NEWS_MAX: Duration = Duration::from_secs(10);

/// Stays until its jobs are over and their ends on disk. Signals meant for the keeper are meant for those that run; one
/// that waits is left to another keeper where there can be one, for whoever goes through all processes of a host that is
/// going down does not mean it.
fn attend(mut keeper: Keeper) {
    let mut told_to_end = false;
    while keeper.pending() > 0 {
        let patience = told_to_end.then_some(NEWS_MAX);
        for told in keeper.wait(&[], patience) {
            let Told::Signal(arrived) = told else { continue };
            told_to_end = true;
            let running: Vec<(u64, u32)> = keeper.running().collect();
            for (ticket, pid) in running {
                send_signal(pid, arrived.signal);
                keeper.interrupted(ticket);
            }
            if keeper.has_successor() {
                // Another keeps those that wait once this one is gone; those of an array that run are its own to the end.
                keeper.pause_starts();
                continue;
            }
            for ticket in keeper.waiting() {
                keeper.withdraw(ticket, "its keeper was told to end before the job started");
            }
            keeper.wait(&[], Some(Duration::ZERO));
        }
        if told_to_end && keeper.has_successor() && keeper.pending() == keeper.waiting().len() {
            return;
        }
        if told_to_end
            && keeper.only_news_for_nobody()
            && keeper.alone_for().is_some_and(|alone| alone >= NEWS_MAX)
        {
            return;
        }
    }
}
