//! `pinfold-bench`: pinfold beside native launchers and peers, on the same work, in the same minutes.
//!
//! Rows (`e1`, `launch`, `cost` and so on) answer one question each and print a table; `demo` shows the whole on real
//! programs. What is measured is not linked in here, but
//! for the rows that simulate and the one that fills a store: pinfold is run as anyone runs it, by its binaries. Owns a
//! temporary directory and the daemons it starts; both are gone afterwards.

mod compare;
mod daemon;
mod demo;
mod dice;
mod first;
mod hyperqueue;
mod inputs;
mod journal;
mod known;
mod machine;
mod managed;
mod monitor;
mod ordered;
mod postgres;
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
    E1(row::e1::E1Args),
    /// Jobs that wait for unlike parts of their time, in counts that fill the slots and in counts that do not.
    E3(row::e3::E3Args),
    /// Jobs of many processes that grow in step beyond memory.
    E4(row::e4::E4Args),
    /// Jobs that compute and wait by turns.
    E5(row::e5::E5Args),
    /// Linear equations by several ranks, bound in all ways, beside noise.
    E6(row::e6::E6Args),
    /// One code that needs nothing but a core, beside load, kept apart by hand and by pinfold.
    E8(row::e8::E8Args),
    /// What advice on memory wastes, and how often jobs fail with it, on records of real workflows.
    E9(row::e9::E9Args),
    /// How much the processor time of the same memory-bound job varies beside others.
    E10(row::e10::E10Args),
    /// What Slurm's commands cost an engine, and a recorded workflow by its engine's own scheduler and through pinfold.
    Engines(row::engines::EnginesArgs),
    /// One code beside an application that starts processes without end, caged on cores of its own.
    Cage(row::cage::CageArgs),
    /// Jobs that together outgrow memory.
    Memory(row::memory::MemoryArgs),
    /// What a primary loses to backfillers, what they make of the rest, and how late it wakes.
    Interfere(row::interfere::InterfereArgs),
    /// What starting one command costs.
    Launch(row::launch::LaunchArgs),
    /// How many commands that do nothing get through in a second.
    Short(row::short::ShortArgs),
    /// Random streams of jobs, placed by pinfold's rule and by others; simulated.
    Pack(row::pack::PackArgs),
    /// How wrong `pinfold sim` is: mixes run for real under several settings, and predicted.
    Oracle(row::oracle::OracleArgs),
    /// How long simulations of clusters take, and how jobs are packed on NUMA nodes; simulated.
    Sim(row::sim::SimArgs),
    /// How long `pinfold sim` and AccaSim take to play the same job log; simulated.
    Simulators(row::simulators::SimulatorsArgs),
    /// What pinfold brings on job logs of clusters: waits, slowdown, hosts saved, beside plain hosts; simulated.
    Cluster(row::cluster::ClusterArgs),
    /// What watching 100 and 1,000 processes costs.
    Cost(row::cost::CostArgs),
    /// How far figures are from what a program is known to use.
    Truth(row::truth::TruthArgs),
    /// How many of 10,000 short processes are seen, and how much of their processor time.
    ShortLived(row::short_lived::ShortLivedArgs),
    /// Bytes a sample takes, and how long reports over a million take.
    Store(row::store::StoreArgs),
    /// What a hub of many hosts takes in, what that costs hub and hosts, and how long its page takes over many jobs.
    Hub(row::hub::HubArgs),
    /// How long turns of the daemon's loop take while many users ask as much as they may.
    Loop(row::turns::TurnsArgs),
    /// The same jobs sent by a workload manager: one a core, two a core, and two a core with pinfold.
    Wlm(row::wlm::WlmArgs),
    /// Three acts: real programs, memory that runs short, an urgent job; a table and a picture each.
    Demo(demo::DemoArgs),
    /// The chart on the first page, from kept data.
    First(first::FirstArgs),
    /// Run and record one job; used by the rows.
    #[command(hide = true)]
    Exec(journal::ExecArgs),
}

fn main() -> anyhow::Result<ExitCode> {
    match Args::parse().row {
        Row::E1(args) => row::e1::run(&args)?,
        Row::E3(args) => row::e3::run(&args)?,
        Row::E4(args) => row::e4::run(&args)?,
        Row::E5(args) => row::e5::run(&args)?,
        Row::E6(args) => row::e6::run(&args)?,
        Row::E8(args) => row::e8::run(&args)?,
        Row::E9(args) => row::e9::run(&args)?,
        Row::E10(args) => row::e10::run(&args)?,
        Row::Engines(args) => row::engines::run(&args)?,
        Row::Cage(args) => row::cage::run(&args)?,
        Row::Memory(args) => row::memory::run(&args)?,
        Row::Interfere(args) => row::interfere::run(&args)?,
        Row::Launch(args) => row::launch::run(&args)?,
        Row::Short(args) => row::short::run(&args)?,
        Row::Pack(args) => row::pack::run(&args)?,
        Row::Oracle(args) => row::oracle::run(&args)?,
        Row::Sim(args) => row::sim::run(&args)?,
        Row::Simulators(args) => row::simulators::run(&args)?,
        Row::Cluster(args) => row::cluster::run(&args)?,
        Row::Cost(args) => row::cost::run(&args)?,
        Row::Truth(args) => row::truth::run(&args)?,
        Row::ShortLived(args) => row::short_lived::run(&args)?,
        Row::Store(args) => row::store::run(&args)?,
        Row::Hub(args) => row::hub::run(&args)?,
        Row::Loop(args) => row::turns::run(&args)?,
        Row::Wlm(args) => row::wlm::run(&args)?,
        Row::Demo(args) => demo::run(&args)?,
        Row::First(args) => first::run(&args)?,
        Row::Exec(args) => return journal::exec(&args).map(ExitCode::from),
    }
    Ok(ExitCode::SUCCESS)
}
