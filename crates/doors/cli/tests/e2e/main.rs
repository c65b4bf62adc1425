//! The real programs, end to end: a daemon of its own for each test, in each mode that this host offers, driven by
//! the command line as people and scripts drive it.
//!
//! A test that cannot run here prints why it is skipped. Nothing sleeps: what must happen is waited for, with a
//! deadline. Reading order: [`host`] (a daemon and its user), [`kind`] (under which rights), [`process`] and
//! [`wait`], then by subject.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test says why it is skipped, and what a daemon said"
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
