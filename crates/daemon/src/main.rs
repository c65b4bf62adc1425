//! `pinfoldd`: one event loop that feeds the judgement and carries its decisions out.
//!
//! Reading order: [`daemon`] (the loop), [`event`] (what can happen), [`intake`] (what clients ask for),
//! [`act`] (decisions become deeds), [`adopted`] (processes that ran before), [`finish`] (how jobs end), [`sample`] and [`machine`] (what is read at intervals),
//! [`around`] (what stands around a job) and [`scratch`] (directories in memory), [`restore`] (after a restart), [`answer`] and [`metrics`] (what is told), [`journal`] (what is on disk), [`guard`] (what
//! happens when this process dies), [`in_ram`] (neither of the two waits for swap), [`server`] and [`poller`] (sockets). Absent here: any judgement about jobs
//! (that is `policy`), and any knowledge of control groups (that is `sys`).

mod act;
mod adopted;
mod allocation;
mod answer;
mod around;
mod arrays;
mod audit;
mod checkpoint;
mod child;
mod clearing;
mod clock;
mod cost;
mod crash;
mod daemon;
mod disk;
mod drift;
mod durable;
mod event;
mod files;
mod finish;
mod guard;
mod in_ram;
mod intake;
mod isolated;
mod jobs;
mod journal;
mod learn;
mod limits;
mod lingering;
mod live;
mod machine;
mod memory;
mod metrics;
mod names;
mod numa;
mod numbers;
mod operate;
mod options;
mod own_nodes;
mod past;
mod pieces;
mod places;
mod poller;
mod processes;
mod projects;
mod quota;
mod readings;
mod reports;
mod requeue;
mod restore;
mod rights;
mod sample;
mod scratch;
mod server;
mod service;
mod sets;
mod shares;
mod starts;
mod state_dir;
mod turns;
mod unheard;
mod witness;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use pinfold_profile::store::Store;
use pinfold_sys::container::Containers;
use pinfold_sys::mode::{self, Roots};
use pinfold_sys::procfs::Proc;
use pinfold_sys::scratch::Scratch;
use pinfold_sys::signals::{SIGHUP, SIGINT, SIGTERM, Signals};
use pinfold_sys::{discover, peer};

use crate::clock::Clock;
use crate::daemon::Daemon;
use crate::guard::{Guard, Scene};
use crate::journal::Journal;
use crate::options::Options;
use crate::state_dir::StateDir;

fn main() -> ExitCode {
    let options = Options::parse();
    start_log(&options);
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

/// Says why it cannot go on, to the log and to whoever started it.
fn give_up(options: &Options, error: &anyhow::Error, code: u8) -> ExitCode {
    let text = format!("{error:#}");
    tell_starter(options, &text);
    let _ = writeln!(std::io::stderr(), "pinfoldd: {text}");
    ExitCode::from(code)
}

/// Says what a daemon with these options could do on this host, and touches nothing.
fn examine(options: &Options) -> anyhow::Result<()> {
    let (facts, plan) = facts_and_plan(options)?;
    let text = serde_json::to_string(&answer::doctor_view(&facts, &plan)).context("the findings as JSON")?;
    writeln!(std::io::stdout(), "{text}").context("standard output")
}

/// What this host offers, and what follows from it with these options.
fn facts_and_plan(options: &Options) -> anyhow::Result<(mode::Facts, mode::Plan)> {
    let facts = mode::probe(&Roots::default());
    let plan = mode::decide(&facts, options.mode.0)?;
    Ok((facts, plan))
}

/// Sets up everything and runs the loop.
#[expect(clippy::too_many_lines, reason = "one line for each part of the daemon")]
fn serve(options: &Options, configured: options::Configured) -> anyhow::Result<()> {
    // At once, before whoever sits at the terminal types Ctrl-C at the command.
    options.private.then(detach);
    let places = options.places();
    let state = open_state(&places.state)?;
    let (roots, (facts, plan)) = (Roots::default(), facts_and_plan(options)?);
    // Before anything else is open that the guard should not hold.
    let Some(guard) = Guard::start(&scene(&plan, &roots, &state))? else { return Ok(()) };
    let signals = Signals::block(&[SIGTERM, SIGINT, SIGHUP]).context("failed to read signals")?;
    let (journal, warnings) = open_journal(&state)?;
    let connections_max = raise_file_limit();
    let (topology, server) = (survey()?, server::Server::listen(&places.socket, connections_max)?);
    let proc = Proc::open(&roots.proc).context("the process file system")?;
    let host_processes = limits::HostProcesses::read(&proc);
    let (containers, clock) = (open_containers(plan, &roots, &state)?, Clock::new(0));
    let mut daemon = Daemon {
        policy: pinfold_policy::Policy::default(),
        jobs: jobs::Jobs::new(),
        durable: durable::Durable::new(journal.log()).context("failed to make a pair of sockets")?,
        journal,
        doors: containers.have_doors(),
        governor: memory::Governor::new(&containers).context("failed to start the pager")?,
        containers,
        server,
        poller: poller::Poller::new().context("failed to wait for events")?,
        guard,
        idle_since_us: clock.now_us(),
        house_keeping_us: clock.now_us(),
        audit: audit::Audit::open(state.path(), pinfold_proto::view::seconds(clock.now_us())),
        turn: turns::Watchdog::new(clock.now_us()),
        clock,
        sampler: sample::Sampler::new(configured.config.profile_interval),
        processes: processes::Processes::new(configured.config.profile_processes),
        learned: learn::Learned::default(),
        files: files::JobFiles::default(),
        shares: shares::Shares::default(),
        jobs_nodes: numa::JobNodes::default(),
        pieces: pieces::Pieces::default(),
        scratches: scratch::Scratches::new(Scratch::new(&facts, state.instance())),
        disks: disk::Disks::open(state.path(), &facts, state.instance()),
        clearing: clearing::Clearer::new().context("failed to make a pair of sockets")?,
        around: around::Chains::open(state.path())?,
        starts: starts::Starts::open(state.path()),
        sets: sets::Sets::open(state.path())?,
        isolated: isolated::Isolated::new(state.instance()),
        own_nodes: own_nodes::OwnNodes::new().context("failed to make a pair of sockets")?,
        metrics: None,
        ended: metrics::Ended::default(),
        draining: operate::was_drained(state.path()),
        state: state.path().to_owned(),
        rebooted: state.is_of_another_boot(),
        configured,
        options: options.clone(),
        topology,
        seen: machine::Seen::default(),
        drifts: drift::Drifts::default(),
        proc,
        instance: state.instance().to_owned(),
        host: peer::host_name(),
        warnings,
        waiters: Vec::new(),
        keepers: std::collections::BTreeMap::new(),
        unheard: unheard::Unheard::default(),
        lingering: lingering::Lingering::default(),
        children: child::Children::new(connections_max / CHILDREN_PART),
        askers: allocation::Askers::default(),
        host_processes,
        arriving: std::collections::BTreeMap::new(),
        examined: None,
        names: names::Names::new().context("failed to make a pair of sockets")?,
        // A guess, until they are counted.
        processes_seen: 2048,
        doors_due: std::collections::VecDeque::new(),
        kills: std::collections::BTreeSet::new(),
        running: std::collections::BTreeSet::new(),
        effects: Vec::new(),
        to_flush: std::collections::BTreeSet::new(),
        backlog: std::collections::BTreeSet::new(),
        waiting: places::InQueue::default(),
        service: service::Service::of_environment(),
        private_idle: options.private.then_some(options.private_idle),
    };
    daemon.restore()?;
    announce(options, &places, daemon.containers.plan().mode.as_str());
    daemon.run(&signals)
}

/// The state directory; from now on what this process makes is for its user alone.
fn open_state(path: &std::path::Path) -> anyhow::Result<StateDir> {
    let _ = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    StateDir::open(path)
}

/// The machine as it is found.
fn survey() -> anyhow::Result<pinfold_topo::Topology> {
    let survey = discover::survey().context("failed to find out about this machine")?;
    survey.warnings.iter().for_each(|warning| tracing::warn!(%warning, "topology"));
    Ok(survey.topology)
}

fn open_containers(plan: mode::Plan, roots: &Roots, state: &StateDir) -> anyhow::Result<Containers> {
    Containers::open(plan, roots.clone(), state.instance()).context("the jobs' containers")
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

/// The job store, and what users should know of it.
fn open_journal(state: &StateDir) -> anyhow::Result<(Journal, Vec<String>)> {
    let opened = Store::open(state.path()).context("the job store")?;
    if let Some(recovery) = &opened.recovered {
        tracing::error!(%recovery, "the job store was damaged");
    }
    let numbers = numbers::Numbers::open(state.path());
    let journal = Journal::new(opened.store, numbers, state.is_of_another_boot());
    Ok((journal, opened.recovered.iter().map(ToString::to_string).collect()))
}

/// Says that it is ready: on standard error, and to the command that started it.
fn announce(options: &Options, places: &pinfold_sys::paths::Places, mode: &str) {
    let _ = writeln!(std::io::stderr(), "pinfoldd: ready on {} (mode {mode})", places.socket.display());
    tell_starter(options, "ready");
}

fn tell_starter(options: &Options, text: &str) {
    let Some(fd) = options.ready_fd else { return };
    let line = format!("{}\n", text.replace('\n', " "));
    // Only standard input is ever handed over this way, and it is this process's own.
    if fd == 0 {
        let _ = rustix::io::write(rustix::stdio::stdin(), line.as_bytes());
        let _ = std::fs::File::open("/dev/null").map(|null| rustix::stdio::dup2_stdin(&null));
    }
}

/// A private daemon leaves the session of the command that started it, so that its terminal's end is not the
/// daemon's.
fn detach() {
    let _ = rustix::process::setsid();
    let _ = std::env::set_current_dir("/");
}

/// So many times as many connections there may be as descriptors of processes that wait to become jobs: half of what the
/// files leave beside connections is for jobs that run.
const CHILDREN_PART: usize = 2;

/// Takes as many files as the system allows; gives how many connections that is good for.
fn raise_file_limit() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    let files = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20).min(1 << 20);
    // Each running job needs a few files of its own.
    usize::try_from(files / 2).unwrap_or(512).max(64)
}

fn start_log(options: &Options) {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_env("PINFOLD_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if options.log_json {
        builder.json().init();
    } else {
        builder.with_target(false).init();
    }
}
