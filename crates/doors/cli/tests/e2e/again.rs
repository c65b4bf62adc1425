//! `--every`: commands that look again and again, until nobody reads what they print.

use pinfold_proto::JobState;
use pinfold_proto::view::StatusView;
use rustix::process::Signal;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::wait::eventually;

tests! {
    Best: looks_end_with_their_reader, what_is_followed_ends_with_its_reader, nothing_is_printed_to_nowhere,
        a_picture_is_drawn_again, looks_go_on_over_a_restart;
}

const WAIT: &str = "until [ -e go ]; do sleep 0.05; done";

fn looks_end_with_their_reader(kind: Kind) {
    let host = Host::new(kind);
    let job = host.submit(&[], WAIT);
    host.until(job, JobState::Running);
    let rows = [
        ("status --json".to_owned(), 3),
        ("status".to_owned(), 20),
        (format!("why {job} --json"), 2),
        (format!("why {job}"), 10),
        ("map --json".to_owned(), 2),
        (format!("plot {job}"), 100),
        ("export --last 5".to_owned(), 4),
        (format!("report {job} --json"), 2),
    ];
    for (command, lines) in rows {
        // The shell goes on when both are over, and the job is not.
        let done = host.shell(&format!("pinfold {command} --every 100ms | head -n {lines}"));
        assert_eq!((done.code, done.out.lines().count()), (Some(0), lines), "{command}: {done:?}");
    }
    let table = host.shell("pinfold export --last 5 --every 100ms | head -n 4").out;
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("job,") && lines[2] == lines[0], "each look is a table of its own: {table}");
    let bad = host.pinfold(["status", "--every", "often"]);
    assert!(bad.code == Some(2) && bad.err.contains("--every"), "{bad:?}");
    // What fails at once is not asked again.
    let none = host.pinfold(["why", "4711", "--every", "100ms"]);
    assert!(none.code == Some(1) && none.err.contains("4711"), "{none:?}");
    host.make("go");
    host.until(job, JobState::Exited);
}

/// Not only when the job writes its next line.
fn what_is_followed_ends_with_its_reader(kind: Kind) {
    let host = Host::new(kind);
    let script = format!("echo one; {WAIT}");
    host.succeeds(["submit", "-o", "out", "-e", "err", "--", "/bin/sh", "-c", &script]);
    let done = host.shell("pinfold log -f 1 | head -n 1");
    assert_eq!((done.code, done.out.as_str()), (Some(0), "one\n"), "{done:?}");
    host.make("go");
    host.until(1, JobState::Exited);
}

/// Rust opens `/dev/null` in the place of a standard stream that is closed, and drops what cannot be written to one
/// that is open for reading alone.
fn nothing_is_printed_to_nowhere(kind: Kind) {
    let host = Host::new(kind);
    let job = host.submit(&[], WAIT);
    host.until(job, JobState::Running);
    let every = ["status --json", "status", "why 1", "map", "plot 1", "export --last 5", "report 1"];
    let every = every.map(|command| (format!("{command} --every 100ms"), "--every"));
    for (command, option) in every.into_iter().chain([("log -f 1".to_owned(), "--follow")]) {
        for closed in [">&-", "1</dev/null"] {
            let done = host.shell(&format!("pinfold {command} {closed}"));
            let said = format!("pinfold: {option}: standard output is closed\n");
            assert_eq!((done.code, done.err), (Some(1), said), "{command} {closed}");
        }
    }
    // Nor is it printed once. A device takes all.
    let once = ["status", "export --last 5", "report --csv 1", "log 1", "slurm --dir"];
    let once = once.map(|command| (format!("pinfold {command}"), "pinfold"));
    let squeue = ("\"$(pinfold slurm --dir)\"/squeue".to_owned(), "squeue: error");
    for (command, says) in once.into_iter().chain([squeue]) {
        for closed in [">&-", "1</dev/null"] {
            let done = host.shell(&format!("{command} {closed}"));
            let said = format!("{says}: standard output is closed\n");
            assert_eq!((done.code, done.err), (Some(1), said), "{command} {closed}");
        }
    }
    let mut looks = host.spawn({
        let mut command = host.command("/bin/sh");
        command.args(["-c", "exec pinfold status --every 100ms </dev/null >/dev/null"]);
        command
    });
    host.make("go");
    host.until(job, JobState::Exited);
    assert!(looks.runs());
    looks.signal(Signal::INT);
    looks.wait();
}

fn a_picture_is_drawn_again(kind: Kind) {
    let host = Host::new(kind);
    let job = host.submit(&[], WAIT);
    host.until(job, JobState::Running);
    // What is drawn does not go to standard output, which need not be open.
    let mut command = host.command("/bin/sh");
    command.args(["-c", &format!("exec pinfold plot {job} --every 100ms -o job.svg </dev/null >&-")]);
    let drawing = host.spawn(command);
    for _ in 0..2 {
        host.until_made("job.svg");
        // It may be written at this moment, and is then there again.
        let _ = std::fs::remove_file(host.work("job.svg"));
    }
    host.until_made("job.svg");
    drawing.signal(Signal::INT);
    drawing.wait();
    host.make("go");
    host.until(job, JobState::Exited);
}

fn looks_go_on_over_a_restart(kind: Kind) {
    let mut host = Host::new(kind);
    let looks = host.start(["--no-autostart", "status", "--every", "100ms", "--json"]);
    let seen = || looks.said("out").lines().count();
    eventually("it looked", || if seen() > 1 { Ok(()) } else { Err(looks.said("err")) });
    host.crash();
    eventually("it says that nobody answers", || match looks.said("err") {
        said if said.contains("daemon") => Ok(()),
        said => Err(said),
    });
    host.start_daemon();
    let job = host.submit(&[], WAIT);
    eventually("it sees what is there since", || {
        let out = looks.said("out");
        let whole = out.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let last: StatusView = serde_json::from_str(whole.lines().last().expect("a line")).expect("a status");
        let known = last.jobs.iter().any(|one| one.job == job);
        if known { Ok(()) } else { Err(format!("{last:?}")) }
    });
    looks.signal(Signal::INT);
    looks.wait();
    host.make("go");
    host.until(job, JobState::Exited);
}
