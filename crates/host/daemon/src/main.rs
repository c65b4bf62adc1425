//! `pinfoldd`: one event loop that feeds the scheduler and carries its decisions out.
//!
//! Three layers, each of which knows only those below it. [`core`] is what all may use: what can happen ([`core::event`]),
//! what handlers may read ([`core::ctx`]) and what they want done ([`core::outbox`]). The rooms own the state: [`jobs`],
//! [`host`], [`meters`], [`surroundings`], [`clients`], [`store`]; none knows of the daemon. [`reactor`] has the loop, its
//! timers, and the flows that take several rooms: `requests` (what clients ask for), `submit`, `start`, `finish`,
//! `restore`. Absent here: any decision about jobs (that is `policy`), and any knowledge of control groups (that is `sys`).

mod clients;
mod core;
mod host;
mod jobs;
mod meters;
mod reactor;
mod store;
mod surroundings;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use pinfold_sys::inherited;
use pinfold_sys::init;
use pinfold_sys::mode::{self, Roots};
use pinfold_sys::own;
use pinfold_sys::paths::Places;
use pinfold_sys::signals::{self, SIGHUP, SIGINT, SIGTERM, Signals};

use crate::clients::doctor;
use crate::core::options::{Configured, Options};
use crate::core::{log, manual};
use crate::host::guard::{Guard, Scene};
use crate::reactor::Daemon;
use crate::store::state_dir::StateDir;

fn main() -> ExitCode {
    signals::hear_of_children();
    let options = Options::parse();
    // Before there is a second thread.
    if let Err(error) = init::reap_for_others() {
        return give_up(
            &options,
            &anyhow::Error::new(error).context("a process for the container's others"),
            1,
        );
    }
    log::start(options.log_json);
    if let Some(dir) = &options.manual {
        return match manual::write(dir) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => give_up(&options, &error, 1),
        };
    }
    let configured = match options.configured() {
        Ok(configured) => configured,
        Err(error) => return give_up(&options, &error, 2),
    };
    let done = if options.examine { examine(&options) } else { serve(&options, configured) };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => give_up(&options, &error, 1),
    }
}

/// Says why it cannot go on, to the log and to the process that started it.
fn give_up(options: &Options, error: &anyhow::Error, code: u8) -> ExitCode {
    let text = format!("{error:#}");
    tell_starter(options, &text);
    let _ = writeln!(std::io::stderr(), "pinfoldd: {text}");
    ExitCode::from(code)
}

/// Says what a daemon with these options could do on this host, and touches nothing.
fn examine(options: &Options) -> anyhow::Result<()> {
    let (facts, plan) = facts_and_plan(options)?;
    let text = serde_json::to_string(&doctor::doctor_view(&facts, &plan)).context("the findings as JSON")?;
    writeln!(std::io::stdout(), "{text}").context("standard output")
}

/// What this host offers, and what follows from it with these options.
fn facts_and_plan(options: &Options) -> anyhow::Result<(mode::Facts, mode::Plan)> {
    let facts = mode::probe(&Roots::default());
    let plan = mode::decide(&facts, options.mode.0)?;
    Ok((facts, plan))
}

/// Sets up everything and runs the loop.
fn serve(options: &Options, configured: Configured) -> anyhow::Result<()> {
    // At once, before the user at the terminal types Ctrl-C at the command. A daemon started by hand keeps the affinity and
    // the priority that its starter chose for it.
    if options.private {
        inherited::reset();
    } else {
        inherited::raise_limits();
    }
    let places = options.places();
    let state = open_state(&places)?;
    let (roots, (facts, plan)) = (Roots::default(), facts_and_plan(options)?);
    // Before anything else is open that the guard should not hold.
    let Some(guard) = Guard::start(&scene(&plan, &roots, &state))? else { return Ok(()) };
    let signals = Signals::block(&[SIGTERM, SIGINT, SIGHUP]).context("failed to read signals")?;
    let mode = plan.mode;
    let mut daemon = Daemon::open(options, configured, &state, (facts, plan, roots), guard)?;
    daemon.restore()?;
    announce(options, &places, mode.as_str());
    daemon.run(&signals)
}

/// The state directory; from now on what this process makes is for its user alone.
fn open_state(places: &Places) -> anyhow::Result<StateDir> {
    own::set_umask(0o077);
    StateDir::open(&places.state, &places.socket)
}

/// What the guard is to know.
fn scene(plan: &mode::Plan, roots: &Roots, state: &StateDir) -> Scene {
    Scene {
        plan: plan.clone(),
        roots: roots.clone(),
        instance: state.instance().to_owned(),
        state: state.path().to_owned(),
    }
}

/// Says that it is ready: on standard error, and to the command that started it.
fn announce(options: &Options, places: &Places, mode: &str) {
    let _ = writeln!(std::io::stderr(), "pinfoldd: ready on {} (mode {mode})", places.socket.display());
    tell_starter(options, "ready");
}

fn tell_starter(options: &Options, text: &str) {
    let Some(fd) = options.ready_fd else { return };
    let line = format!("{}\n", text.replace('\n', " "));
    // Only standard input is ever handed over this way, and it is this process's own.
    if fd == 0 {
        pinfold_sys::files::say_to_standard_input(&line);
    }
}
