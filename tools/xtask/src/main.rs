//! Chores of the project, as `cargo xtask CHORE`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool for the terminal")]

mod book;
mod cost;
mod fuzz;
mod gate;
mod lab;
mod sim;
mod soak;
mod tidy;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(about = "Chores of the project", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Play simulated episodes; the first broken promise ends it
    Sim(sim::SimArgs),
    /// Compare the policy's decisions in known episodes with the recorded decisions
    Gate(gate::GateArgs),
    /// Measure the scheduler's time for an event
    Cost(cost::CostArgs),
    /// Change the parsers' input at random; none may panic
    Fuzz(fuzz::FuzzArgs),
    /// Boot an emulated host with control groups v2 alone, and try the programs there
    Lab(lab::LabArgs),
    /// Overload a budget of memory at random with real programs while the daemon is killed again and again
    Soak(soak::SoakArgs),
    /// Render the documentation as a site, and check each link; --bless makes the pages of reference anew
    Book(book::BookArgs),
    /// Hold the rules of the house: dependencies, sizes, words
    Tidy,
    /// Print the size of each crate and the words of its comments beside their ceilings
    Size(tidy::SizeArgs),
}

fn main() -> anyhow::Result<()> {
    match Args::parse().chore {
        Chore::Sim(args) => sim::sim(&args),
        Chore::Gate(args) => gate::gate(&args),
        Chore::Cost(args) => cost::cost(&args),
        Chore::Fuzz(args) => fuzz::fuzz(&args),
        Chore::Lab(args) => lab::lab(&args),
        Chore::Soak(args) => soak::soak(&args),
        Chore::Book(args) => book::book(&args),
        Chore::Tidy => tidy::tidy(),
        Chore::Size(args) => tidy::size(&args),
    }
}
