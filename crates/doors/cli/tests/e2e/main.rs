//! The real programs, end to end: a daemon of its own for each test, in each mode that this host offers, driven by
//! the command line as people and scripts drive it.
//!
//! A test that cannot run here is ignored, with the reason. Nothing sleeps: what must happen is waited for, with a
//! deadline. Reading order: [`host`] (a daemon and its user), [`kind`] (under which rights), [`process`] and
//! [`wait`], then by subject.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test says what a daemon said, and what it measured"
)]

mod adopt;
mod advice;
mod advise;
mod again;
mod allocation;
mod arrays;
mod batch;
mod control;
mod crash;
mod daemon;
mod delegated;
mod disk;
mod drift;
mod faults;
mod fifos;
mod files;
mod host;
mod hostile;
mod hub;
mod isolated;
mod keepers;
mod kind;
mod lingering;
mod lists;
mod machine;
mod make;
mod marks;
mod measure;
mod memory;
mod metrics;
mod modules;
mod neighbours;
mod operate;
mod other_load;
mod outputs;
mod parallel;
mod part;
mod power;
mod privacy;
mod process;
mod processes;
mod projects;
mod readings;
mod reboot;
mod relay;
mod replay;
mod resources;
mod restart;
mod run;
mod screens;
mod sets;
mod show;
mod sim;
mod site;
mod slurm;
mod squeeze;
mod store;
mod submit;
mod tables;
mod tasks;
mod terminal;
mod terms;
mod text;
mod times;
mod unread;
mod users;
mod wait;
mod wire;
mod wlm;

const ALL: &[&[kind::Test]] = &[
    adopt::TESTS,
    advice::TESTS,
    advise::TESTS,
    again::TESTS,
    allocation::TESTS,
    arrays::TESTS,
    batch::TESTS,
    control::TESTS,
    crash::TESTS,
    daemon::TESTS,
    delegated::TESTS,
    disk::TESTS,
    drift::TESTS,
    faults::TESTS,
    fifos::TESTS,
    files::TESTS,
    hostile::TESTS,
    hostile::audit::TESTS,
    hostile::authority::TESTS,
    hostile::clearing::TESTS,
    hostile::cost::TESTS,
    hostile::journal::TESTS,
    hostile::keepers::TESTS,
    hostile::keepers::starts::TESTS,
    hostile::learning::TESTS,
    hostile::limits::TESTS,
    hostile::parts::TESTS,
    hostile::passed::TESTS,
    hostile::pids::TESTS,
    hostile::rescue::TESTS,
    hostile::sets::TESTS,
    hub::TESTS,
    isolated::TESTS,
    keepers::TESTS,
    lingering::TESTS,
    lists::TESTS,
    machine::TESTS,
    make::TESTS,
    marks::TESTS,
    measure::TESTS,
    memory::TESTS,
    metrics::TESTS,
    modules::TESTS,
    neighbours::TESTS,
    operate::TESTS,
    other_load::TESTS,
    outputs::TESTS,
    parallel::TESTS,
    part::TESTS,
    power::TESTS,
    privacy::TESTS,
    processes::TESTS,
    projects::TESTS,
    readings::TESTS,
    reboot::TESTS,
    replay::TESTS,
    resources::TESTS,
    restart::TESTS,
    run::TESTS,
    screens::TESTS,
    sets::TESTS,
    show::TESTS,
    sim::TESTS,
    site::TESTS,
    slurm::TESTS,
    slurm::choices::TESTS,
    slurm::engines::TESTS,
    slurm::hostile::TESTS,
    slurm::labels::TESTS,
    slurm::stay::TESTS,
    slurm::step_signals::TESTS,
    squeeze::TESTS,
    store::TESTS,
    submit::TESTS,
    tables::TESTS,
    tasks::TESTS,
    terminal::TESTS,
    terms::TESTS,
    text::TESTS,
    times::TESTS,
    unread::TESTS,
    users::TESTS,
    wire::TESTS,
    wlm::TESTS,
];

fn main() -> std::process::ExitCode {
    pinfold_testkit::trial::run(ALL.iter().copied().flatten().flat_map(|test| test.trials()))
}
