//! `pinfold-bench`: pinfold beside native launchers and peers, on the same work, in the same minutes.
//!
//! Rows (`programs`, `launch`, `cost` and so on) each answer a question and print a table; `demo` shows the whole on real
//! programs. pinfold runs as for its users, by its binaries. Owns a temporary directory and the daemons it starts; both are
//! gone afterwards.
//!
//! A measurement: `row` (questions), `way` (launchers), `workload` with `programs` and `inputs`, `run`,
//! `compare`, `watch`, `monitor`, `usage`, `known`, `pressed`.
//! Peers: `daemon` (pinfold), `spooler`, `hyperqueue`, `managed`, `ordered`. Results: `journal`, `record`,
//! `stats`, `table`, `machine`, `first`, `demo`.

mod compare;
mod daemon;
mod demo;
mod first;
mod hyperqueue;
mod inputs;
mod journal;
mod known;
mod machine;
mod managed;
mod monitor;
mod ordered;
mod pressed;
mod programs;
mod record;
mod row;
mod run;
mod spooler;
mod stats;
mod table;
mod usage;
mod watch;
mod way;
mod workload;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures pinfold beside native launchers and peers.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    row: Row,
}

#[derive(Debug, Subcommand)]
enum Row {
    /// Real programs, once and twice as many at a time as there are cores.
    Programs(row::programs::ProgramsArgs),
    /// Jobs that compute and wait by turns, equal and mixed.
    Waits(row::waits::WaitsArgs),
    /// Jobs that together outgrow memory.
    Memory(row::memory::MemoryArgs),
    /// Linear equations by several ranks, bound in all ways, beside noise.
    Mpi(row::mpi::MpiArgs),
    /// A code that needs nothing but a core, beside load, kept apart by hand and by pinfold.
    Isolated(row::isolated::IsolatedArgs),
    /// The variation of the CPU time of a memory-bound job beside others.
    Bandwidth(row::bandwidth::BandwidthArgs),
    /// The loss of a primary to backfillers, their use of the rest, and its wake-up delay.
    Interfere(row::interfere::InterfereArgs),
    /// The cost of starting a command.
    Launch(row::launch::LaunchArgs),
    /// Commands that do nothing, per second.
    Short(row::short::ShortArgs),
    /// The cost of watching 100 and 1,000 processes.
    Cost(row::cost::CostArgs),
    /// Durations of turns of the daemon's loop while many users ask as much as they may.
    Loop(row::turns::TurnsArgs),
    /// The error of figures for a program with known use.
    Truth(row::truth::TruthArgs),
    /// Memory wasted by advice, and failures of jobs with it, on records of real workflows.
    Advice(row::advice::AdviceArgs),
    /// The same jobs sent by a workload manager: one a core, two a core, and two a core with pinfold.
    Wlm(row::wlm::WlmArgs),
    /// Three acts: real programs, memory that runs short, an urgent job; a table and a picture each.
    Demo(demo::DemoArgs),
    /// The chart on the first page, from kept data.
    First(first::FirstArgs),
    /// Run and record a job; used by the rows.
    #[command(hide = true)]
    Exec(journal::ExecArgs),
}

fn main() -> anyhow::Result<ExitCode> {
    match Args::parse().row {
        Row::Programs(args) => row::programs::run(&args)?,
        Row::Waits(args) => row::waits::run(&args)?,
        Row::Memory(args) => row::memory::run(&args)?,
        Row::Mpi(args) => row::mpi::run(&args)?,
        Row::Isolated(args) => row::isolated::run(&args)?,
        Row::Bandwidth(args) => row::bandwidth::run(&args)?,
        Row::Interfere(args) => row::interfere::run(&args)?,
        Row::Launch(args) => row::launch::run(&args)?,
        Row::Short(args) => row::short::run(&args)?,
        Row::Cost(args) => row::cost::run(&args)?,
        Row::Loop(args) => row::turns::run(&args)?,
        Row::Truth(args) => row::truth::run(&args)?,
        Row::Advice(args) => row::advice::run(&args)?,
        Row::Wlm(args) => row::wlm::run(&args)?,
        Row::Demo(args) => demo::run(&args)?,
        Row::First(args) => first::run(&args)?,
        Row::Exec(args) => return journal::exec(&args).map(ExitCode::from),
    }
    Ok(ExitCode::SUCCESS)
}
