//! `pinfold`: run, submit and watch jobs.
//!
//! Reading order: [`args`] (the command line as typed), [`help`] (the shown part of it), [`read`] (reads it), [`print`]
//! (how commands print), [`again`] (`--every`), [`client`] (reaching a daemon), [`launch`] (the start of jobs),
//! [`keeper`] (the parent of every job), [`run`], [`submit`] (with [`mod@array`]) and [`batch`] (the three ways to
//! start jobs), [`make`] (a build with tokens), [`adopt`] (jobs of running processes), [`control`] (changing them),
//! [`delegate`] (control groups for users), [`names`] and [`pick`] (which jobs are meant), [`notify`] (news of an end),
//! [`tasks`] (how a job's tasks lie on its cores), [`show`] (the printed tables), [`map`] (the owner of each core),
//! [`sets`] (cores that are set aside), [`host`] and [`layout`] (the machine, without a daemon), [`mod@advise`] (needs
//! of classes of jobs), [`mod@squeeze`] (needs of a command), [`mod@replay`] (recorded events), [`hub`] (many hosts),
//! [`mod@wlm`] (workload managers). Absent here: any decision about jobs, and any write to a control group.

/// The content of a reply of this kind, or the failure of a reply that does not fit the question:
/// `answer!(client.ask(&Request::Map)?, Map)`.
macro_rules! answer {
    ($reply:expr, Done) => {
        match $reply {
            pinfold_proto::wire::Reply::Done => Ok(()),
            other => Err(pinfold_client::unexpected(&other)),
        }
    };
    ($reply:expr, $kind:ident) => {
        match $reply {
            pinfold_proto::wire::Reply::$kind(content) => Ok(content),
            other => Err(pinfold_client::unexpected(&other)),
        }
    };
}

mod adopt;
mod advise;
mod again;
mod allocation;
mod args;
mod array;
mod batch;
mod checkpoint;
mod complete;
mod control;
mod delegate;
mod help;
mod holds;
mod host;
mod hub;
mod input;
mod job;
mod keeper;
mod keepers;
mod launch;
mod layout;
mod log;
mod make;
mod manual;
mod map;
mod names;
mod notify;
mod operate;
mod output;
mod pick;
mod print;
mod progress;
mod ps;
mod read;
mod readings;
mod replay;
mod retry;
mod run;
mod sets;
mod shell;
mod show;
mod sim;
mod slurm;
mod squeeze;
mod store;
mod submit;
mod successor;
mod tasks;
mod terminal;
mod top;
mod topology;
mod wlm;
mod words;

use std::io::Write as _;
use std::process::ExitCode as ProcessExit;

use clap::error::{ContextKind, ContextValue};
use pinfold_proto::ExitCode;
use pinfold_proto::wire::Verb;

use crate::again::Prints;
use crate::args::{AdminCommand, Cli, Command};
use pinfold_client::{Dial, Failure};

fn main() -> ProcessExit {
    pinfold_sys::signals::hear_of_children();
    match complete::answered() {
        Ok(false) => {}
        Ok(true) => return ProcessExit::SUCCESS,
        Err(error) => return misused(error),
    }
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(error) => return misused(error),
    };
    ended(dispatch(cli))
}

/// Help and version are answers; anything else is wrong usage.
fn misused(mut error: clap::Error) -> ProcessExit {
    if !error.use_stderr() {
        return ended(print::print_text(|_| error.print()).map(|()| ProcessExit::SUCCESS));
    }
    let command = read::command_name(&std::env::args_os().collect::<Vec<_>>());
    let advice = words::advice_on(&error, &command.unwrap_or_default());
    if advice.is_some() {
        // Names that merely look alike would lead astray.
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::Suggested);
    }
    let _ = error.print();
    advice.into_iter().for_each(print::say);
    if let Some(variable) = variable_of(&error) {
        let _ = writeln!(std::io::stderr(), "pinfold: that value is from the environment: {variable}");
    }
    ProcessExit::from(ExitCode::Usage.code())
}

fn ended(done: Result<ProcessExit, Failure>) -> ProcessExit {
    done.unwrap_or_else(|failure| {
        print::say(&failure.to_string());
        ProcessExit::from(failure.code.code())
    })
}

/// The variable that a wrong value came from.
fn variable_of(error: &clap::Error) -> Option<String> {
    let (Some(ContextValue::String(arg)), Some(ContextValue::String(value))) =
        (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue))
    else {
        return None;
    };
    let option = arg.split_whitespace().next()?.strip_prefix("--")?;
    let variable = format!("PINFOLD_{}", option.replace('-', "_").to_uppercase());
    let given = std::env::args_os().any(|word| word.to_string_lossy().starts_with(&format!("--{option}")));
    (!given && std::env::var(&variable).is_ok_and(|own| own == *value)).then_some(variable)
}

fn dispatch(cli: Cli) -> Result<ProcessExit, Failure> {
    if !cli.reach.utc {
        pinfold_profile::report::show_times_in_system_zone();
    }
    let dial = Dial::new(cli.reach.socket.as_deref(), cli.reach.no_autostart);
    if cli.elsewhere.is_meant() {
        return elsewhere(&dial, &cli.elsewhere, &cli.command).map(|()| ProcessExit::SUCCESS);
    }
    match cli.command {
        Command::Run(args) => return run::run(dial, &args),
        Command::Submit(args) => return submit::submit(dial, &args),
        Command::Batch(args) => return batch::batch(dial, &args),
        Command::Make(args) => return make::make(dial, &args),
        Command::Adopt(args) => adopt::adopt(&dial, &args)?,
        Command::Retry(args) => return retry::retry(&dial, &args),
        Command::Again(args) => return retry::again(&dial, &args),
        Command::Wait(pick) => return control::wait(&dial, &pick),
        Command::Status(args) => args.again.here(Prints::of(!args.json), || show::status(&dial, &args))?,
        Command::Why(args) => args.again.here(Prints::of(!args.json), || show::why(&dial, &args))?,
        Command::Log(args) => log::log(&dial, &args)?,
        Command::Report(args) => show::report(&dial, &args)?,
        Command::Export(args) => {
            args.again.here(Prints::to(args.output.as_ref(), false), || show::export(&dial, &args))?
        }
        Command::Plot(args) => {
            args.again.here(Prints::to(args.output.as_ref(), true), || show::plot(&dial, &args))?
        }
        Command::Top(args) => top::top(&dial, &args)?,
        Command::Ps(args) => ps::ps(&dial, &args)?,
        Command::Cancel(args) => control::cancel(&dial, &args)?,
        Command::Suspend(pick) => control::each(&dial, &pick, &[Verb::Suspend])?,
        Command::Resume(pick) => control::each(&dial, &pick, &[Verb::Resume])?,
        Command::Hold(pick) => control::each(&dial, &pick, &[Verb::Hold])?,
        Command::Release(pick) => control::each(&dial, &pick, &[Verb::Release])?,
        Command::Set(args) => control::each(&dial, &args.pick, &args.verbs())?,
        Command::SetAside(args) => sets::set_aside(&dial, &args)?,
        Command::Sets(args) => sets::sets(&dial, args.json)?,
        Command::Config(args) => control::config(&dial, args.verb)?,
        Command::Topology(args) => topology::topology(&args)?,
        Command::Map(args) => args.again.here(args.prints(), || map::map(&dial, &args))?,
        Command::Advise(args) => advise::advise(&dial, &args)?,
        Command::Squeeze(args) => squeeze::squeeze(&dial, &args)?,
        Command::Layout(args) => layout::layout(&args)?,
        Command::Sim(args) => sim::sim(&dial, &args)?,
        Command::Hub(args) => hub::hub(&dial, &args)?,
        Command::Slurm(args) => return Err(slurm::slurm(&cli.reach, &args)),
        Command::Host(args) => readings::host(&dial, &args)?,
        Command::Admin(args) => return administer(&dial, args.command),
        Command::Direct(command) => return administer(&dial, command),
        Command::Doctor(args) => host::doctor(&dial, args.json)?,
    }
    Ok(ProcessExit::SUCCESS)
}

/// A command about other hosts, through the hub.
fn elsewhere(dial: &Dial, which: &hub::Elsewhere, command: &Command) -> Result<(), Failure> {
    match command {
        Command::Status(args) => {
            args.again.elsewhere(Prints::of(!args.json), || hub::ask::status(dial, which, args))
        }
        Command::Report(args) => hub::ask::reports(dial, which, args),
        Command::Why(args) => {
            args.again.elsewhere(Prints::of(!args.json), || hub::ask::why(dial, which, args))
        }
        Command::Map(args) => args.again.elsewhere(args.prints(), || hub::far::map(dial, which, args)),
        Command::Top(args) => hub::far::top(dial, which, args),
        Command::Plot(args) => {
            args.again.elsewhere(Prints::to(args.output.as_ref(), true), || hub::far::plot(dial, which, args))
        }
        Command::Advise(args) => hub::far::advise(dial, which, args),
        Command::Export(args) => args
            .again
            .elsewhere(Prints::to(args.output.as_ref(), false), || hub::far::export(dial, which, args)),
        _ => {
            let text =
                "--host and --all-hosts go with status, report, why, map, top, plot, advise and export";
            Err(Failure::new(ExitCode::Usage, text))
        }
    }
}

fn administer(dial: &Dial, command: AdminCommand) -> Result<ProcessExit, Failure> {
    match command {
        AdminCommand::Backup(args) => store::backup(dial, &args)?,
        AdminCommand::Restore(args) => store::restore(dial, &args)?,
        AdminCommand::Check(args) => store::check(dial, &args)?,
        AdminCommand::Drain => operate::drain(dial, true)?,
        AdminCommand::Undrain => operate::drain(dial, false)?,
        AdminCommand::Keepers(args) => keepers::keepers(dial, args.json)?,
        AdminCommand::Audit(args) => operate::audit(dial, &args)?,
        AdminCommand::Delegate(args) => delegate::delegate(&args)?,
        AdminCommand::Rescue(args) => host::rescue(&args)?,
        AdminCommand::Replay(args) => return replay::replay(&args),
        AdminCommand::Wlm(args) => return wlm::wlm(dial, &args),
        AdminCommand::Completions { shell } => complete::script(shell)?,
        AdminCommand::Man { dir } => manual::manual(&dir)?,
    }
    Ok(ProcessExit::SUCCESS)
}
