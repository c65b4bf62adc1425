//! The plan of jobs: their program, their request to the daemon, the place of their output, and their
//! checkpoint command. `run`, `submit` (a job, an array, either of them anew) and `batch` each make a plan of their
//! options; a keeper takes it from there.
//!
//! Absent here: the keeper's work, and the names of output files.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;

use pinfold_proto::JobSpec;
use pinfold_sys::apart::Apart;
use pinfold_sys::lead::TaskPlan;
use pinfold_sys::spawn::{Environment, Program, ResolveError};
use pinfold_topo::CpuSet;

use crate::checkpoint;
use crate::holds;
use crate::job::{self, JobOptions};
use crate::keeper::{Keeper, MakeProgram};
use crate::tasks::{Asked, Laid};
use pinfold_client::{Client, Dial, Failure, Welcome};

/// Standard input, output and error of the job with this ticket; `None`: as the keeper's.
pub(crate) type Outputs = Rc<dyn Fn(u64) -> Result<[Option<OwnedFd>; 3], ResolveError>>;

/// File to execute and words of the job with this ticket.
type CommandOf = Box<dyn Fn(u64) -> (PathBuf, Vec<OsString>)>;

/// See the module's page.
pub(crate) struct LaunchPlan {
    options: JobOptions,
    /// The requested layout, until it is made for a host.
    asked: Option<Asked>,
    program: Rc<ProgramPlan>,
    /// The request to the daemon; of many jobs, the common part.
    pub spec: JobSpec,
    /// Where output goes.
    pub outputs: Outputs,
    /// How a checkpoint command is made.
    pub hooks: Option<MakeProgram>,
}

/// The program. Its tasks are known once there is a host to lay them out on.
struct ProgramPlan {
    command: CommandOf,
    environment: Environment,
    own_session: bool,
    apart: Apart,
    tasks: OnceCell<TaskPlan>,
}

impl ProgramPlan {
    fn make(&self, ticket: u64, streams: [Option<OwnedFd>; 3]) -> Result<Program, ResolveError> {
        let (path, words) = (self.command)(ticket);
        let mut program = Program::new(&path, words, &self.environment)?;
        program.own_session = self.own_session;
        program.apart = self.apart;
        program.tasks = self.tasks.get().cloned();
        program.streams = streams;
        Ok(program)
    }
}

impl LaunchPlan {
    /// The plan for this command. The program is looked up as by a shell, and the options are checked as far as this
    /// process can, before anything waits in a queue. With `own_session` the command leads a session, apart from its
    /// keeper's.
    pub(crate) fn of_command(
        options: &JobOptions,
        words: &[OsString],
        environment: Environment,
        own_session: bool,
    ) -> Result<Self, Failure> {
        let asked = Asked::of(options)?;
        let path = job::resolve(&words[0])?;
        let apart = job::apart(options)?;
        let command = words.to_vec();
        let program = ProgramPlan {
            command: Box::new(move |_| (path.clone(), command.clone())),
            environment,
            own_session,
            apart,
            tasks: OnceCell::new(),
        };
        Self::new(options, asked, program, job::spec(options, words))
    }

    /// The plan for many commands, a command for each ticket. Each leads a session of its own: a signal for all of them
    /// reaches all of a command's programs.
    pub(crate) fn of_many(options: &JobOptions, command: CommandOf) -> Result<Self, Failure> {
        let asked = Asked::of(options)?;
        let program = ProgramPlan {
            command,
            environment: job::environment(),
            own_session: true,
            apart: job::apart(options)?,
            tasks: OnceCell::new(),
        };
        Self::new(options, asked, program, job::spec(options, &[]))
    }

    fn new(
        options: &JobOptions,
        asked: Option<Asked>,
        program: ProgramPlan,
        spec: JobSpec,
    ) -> Result<Self, Failure> {
        Ok(Self {
            options: options.clone(),
            asked,
            program: Rc::new(program),
            spec,
            outputs: Rc::new(|_| Ok([None, None, None])),
            hooks: checkpoint::maker(options, || [None, None])?,
        })
    }

    /// Whether a layout is asked for that is not made yet.
    pub(crate) fn wants_layout(&self) -> bool {
        self.asked.is_some()
    }

    /// Lays its tasks out on this host, on which jobs may use `cpus`.
    pub(crate) fn lay_on(&mut self, cpus: &CpuSet) -> Result<(), Failure> {
        self.lay(|asked| asked.on(cpus))
    }

    /// Lays its tasks out on the PUs of this process, as a part of a job.
    pub(crate) fn lay_inside(&mut self) -> Result<(), Failure> {
        self.lay(Asked::inside)
    }

    fn lay(&mut self, on: impl FnOnce(Asked) -> Result<Laid, Failure>) -> Result<(), Failure> {
        let Some(asked) = self.asked.take() else { return Ok(()) };
        let laid = Rc::new(on(asked)?);
        job::lay(&mut self.spec, &self.options, laid.cores, laid.as_asked());
        let _ = self.program.tasks.set(laid.plan());
        Ok(())
    }

    /// The daemon, started from here if need be, with this plan's tasks laid out on its host. Warns of options without
    /// effect there.
    pub(crate) fn connect(&mut self, dial: &Dial) -> Result<Client, Failure> {
        let mut client = dial.connect()?;
        self.lay_on(&client.welcome.cpus)?;
        holds::check(Some(&mut client), &self.options)?;
        Ok(client)
    }

    /// Asks the daemon for the numbers of the names in `--after`, and for the priority of `--now`.
    pub(crate) fn resolve(&mut self, client: &mut Client) -> Result<(), Failure> {
        if self.options.now {
            self.spec.priority = job::above_own(client)?;
        }
        if let Some(after) = self.options.after.as_ref().filter(|after| after.has_names()) {
            self.spec.after = after.resolved(client)?;
        }
        Ok(())
    }

    /// The program of the job with this ticket, with streams as the keeper's.
    pub(crate) fn program(&self, ticket: u64) -> Result<Program, ResolveError> {
        self.program.make(ticket, [None, None, None])
    }

    /// A keeper for its jobs. With `first`, it asks for that job along with its greeting.
    pub(crate) fn keeper(
        &mut self,
        dial: Dial,
        signals: &[i32],
        prefork: usize,
        first: Option<u64>,
    ) -> Result<(Keeper, Welcome), Failure> {
        let (program, outputs) = (self.program.clone(), self.outputs.clone());
        let make = Box::new(move |ticket| program.make(ticket, outputs(ticket)?));
        let first = first.map(|ticket| (ticket, self.spec.clone()));
        let (mut keeper, welcome) = Keeper::new(dial, signals, prefork, make, first)?;
        keeper.hooks.made_by(self.hooks.take());
        Ok((keeper, welcome))
    }
}
