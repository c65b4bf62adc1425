//! Batches whose output or job log nobody reads any more.

use std::fs::File;
use std::io::{PipeReader, Read as _};
use std::process::Stdio;

use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_setfl, mknodat};
use rustix::process::Signal;

use crate::host::{Host, send};
use crate::kind::{Kind, tests};
use crate::process::{Killed, Running, ended_within, full_pipe};
use crate::wait::{PATIENCE, eventually};

tests! {
    Best: a_job_log_that_nobody_reads_holds_up_no_line,
        a_batch_that_waits_for_the_reader_of_its_log_is_ended, a_job_log_whose_reader_is_gone,
        output_that_nobody_reads_holds_up_no_line, a_batch_whose_output_nobody_reads_is_ended;
}

/// So many lines, and together more than a pipe holds.
const LINES: usize = 40;

/// Starts a batch with its job log in a FIFO; gives its reader as well, which has read nothing.
fn batch(host: &Host) -> (Running, File) {
    let path = host.work("log");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe with a name");
    host.kind().give(&path);
    let how = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let reader = rustix::fs::open(&path, how, Mode::empty()).expect("a reader");
    fcntl_setfl(&reader, OFlags::empty()).expect("its flags");
    let line = format!("true {}\n", "x".repeat(3000));
    std::fs::write(host.work("lines"), line.repeat(LINES)).expect("a file");
    let mut command = host.command(host.programs().join("pinfold"));
    command.args(["batch", "--joblog", "log", "lines"]).stdin(Stdio::null());
    (host.spawn(command), File::from(reader))
}

fn all_are_over(host: &Host) {
    (1..=LINES as u64).for_each(|job| host.until_exit_code(job, 0));
}

/// The batch knows as well that all lines are over, and nothing is left to wait for but the reader.
fn it_waits_for_the_reader(running: &Running) {
    eventually("it waits for the reader", || {
        let said = running.said("err");
        if said.contains("waiting for the reader of log") { Ok(()) } else { Err(said) }
    });
}

fn a_job_log_that_nobody_reads_holds_up_no_line(kind: Kind) {
    let host = Host::new(kind);
    let (running, mut reader) = batch(&host);
    all_are_over(&host);
    it_waits_for_the_reader(&running);
    let mut log = String::new();
    reader.read_to_string(&mut log).expect("the log");
    let done = running.wait();
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(log.lines().count(), 1 + LINES);
    assert!(log.lines().all(|line| line.split('\t').count() == 9), "{log}");
}

fn a_batch_that_waits_for_the_reader_of_its_log_is_ended(kind: Kind) {
    let host = Host::new(kind);
    let (running, reader) = batch(&host);
    all_are_over(&host);
    it_waits_for_the_reader(&running);
    running.signal(Signal::TERM);
    let done = running.wait();
    assert_eq!(done.code, Some(128 + 15), "{done:?}");
    assert!(done.err.contains("lines of the job log were not read from log"), "{done:?}");
    drop(reader);
}

fn a_job_log_whose_reader_is_gone(kind: Kind) {
    let host = Host::new(kind);
    let (running, reader) = batch(&host);
    all_are_over(&host);
    drop(reader);
    let done = running.wait();
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.err.contains("failed to write log: Broken pipe"), "{done:?}");
}

/// Starts a batch whose output nobody reads; gives its reader as well.
fn printing(host: &Host, options: &[&str]) -> (Killed, PipeReader) {
    let (reader, writer) = full_pipe();
    std::fs::write(host.work("lines"), "echo out; echo err >&2\n".repeat(LINES)).expect("a file");
    let mut command = host.command(host.programs().join("pinfold"));
    let errors = File::create(host.path("said").join("errors")).expect("a file for errors");
    command.arg("batch").args(options).arg("lines").stdin(Stdio::null()).stdout(writer).stderr(errors);
    (Killed(command.spawn().expect("it starts")), reader)
}

fn code(running: &mut Killed) -> Option<i32> {
    ended_within(&mut running.0, PATIENCE).expect("it ends").code()
}

fn output_that_nobody_reads_holds_up_no_line(kind: Kind) {
    let host = Host::new(kind);
    for (options, line) in
        [(&["--in-order"][..], "out\n"), (&["-k", "--tag"], "echo out; echo err >&2\tout\n")]
    {
        let (mut running, mut reader) = printing(&host, options);
        let first = if options.len() == 1 { 1 } else { LINES as u64 + 1 };
        (first..first + LINES as u64).for_each(|job| host.until_exit_code(job, 0));
        let mut said = String::new();
        reader.read_to_string(&mut said).expect("the outputs");
        assert_eq!(said.trim_start_matches('.'), line.repeat(LINES));
        assert_eq!(code(&mut running), Some(0));
    }
}

fn a_batch_whose_output_nobody_reads_is_ended(kind: Kind) {
    let host = Host::new(kind);
    let (mut running, reader) = printing(&host, &[]);
    all_are_over(&host);
    send(running.0.id(), Signal::TERM);
    assert_eq!(code(&mut running), Some(128 + 15));
    let said = std::fs::read_to_string(host.path("said").join("errors")).expect("what it said");
    assert!(said.contains("nobody reads the outputs"), "{said}");
    drop(reader);
}
