//! Pictures of several jobs, and `pinfold top`: now, at a moment in the past, on a terminal with keys.

use pinfold_proto::JobState;
use pinfold_proto::view::StatusView;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::terminal::Terminal;
use crate::wait::{eventually, no_rescue};

tests! {
    Best: runs_beside_each_other, as_it_was, on_a_terminal, keys_change_jobs;
}

fn runs_beside_each_other(kind: Kind) {
    let host = Host::with(kind, &["profile.interval=50ms"]);
    for name in ["one", "one", "other"] {
        let script = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done";
        let done = host.pinfold(["run", "--name", name, "--", "/bin/sh", "-c", script]);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    // A busy daemon has their ends on record later than the commands return.
    (1..=3).for_each(|job| drop(host.until(job, JobState::Exited)));
    let both = host.pinfold(["plot", "1", "3"]);
    assert!(both.out.contains("jobs 1 (one), 3 (other)"), "{both:?}");
    for file in ["both.svg", "both.png"] {
        let done = host.pinfold(["plot", "1", "3", "-o", file]);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    let svg = host.wrote("both.svg");
    assert!(svg.contains("1: memory") && svg.contains("3: memory"), "{svg}");
    let class = host.pinfold(["plot", "--class", "one"]);
    assert!(class.out.contains("one: 2 jobs") && class.out.contains("run time"), "{class:?}");
    let done = host.pinfold(["plot", "--class", "one", "-o", "class.png"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(std::fs::read(host.work("class.png")).expect("a picture").starts_with(b"\x89PNG"));
    let none = host.pinfold(["plot", "--class", "nobody"]);
    assert!(none.code == Some(1) && none.err.contains("nobody"), "{none:?}");
    let each = host.pinfold(["plot", "--last", "3", "--each"]);
    assert!(each.out.contains("job 1: one") && each.out.contains("job 3: other"), "{each:?}");
    let many = host.pinfold(["plot", "1", "2", "3", "1", "2"]);
    assert!(many.code == Some(2) && many.err.contains("--each"), "{many:?}");
}

fn as_it_was(kind: Kind) {
    let host = Host::with(kind, &["profile.interval=50ms"]);
    let job = host.submit(&["--name", "earlier"], "until [ -e go ]; do sleep 0.02; done");
    host.until(job, JobState::Running);
    let then_s = eventually("it was sampled", || {
        let report = host.report(job);
        let seen_s = host.job(job).seen_s.expect("a job that runs was seen");
        if report.samples > 2 { Ok(seen_s) } else { Err(format!("{report:?}")) }
    });
    host.make("go");
    host.until(job, JobState::Exited);
    let at = format!("@{then_s}");
    let done = host.pinfold(["top", "--json", "--at", &at]);
    let view: StatusView = serde_json::from_str(&done.out).expect("status as JSON");
    assert_eq!(view.jobs.len(), 1, "{done:?}");
    let was = &view.jobs[0];
    assert_eq!((was.job, was.state, was.ended_s), (job, JobState::Running, None), "{was:?}");
    assert!(was.memory_bytes.is_some() && was.seen_s.is_some_and(|seen| seen <= then_s), "{was:?}");
    let screen = host.pinfold(["top", "--once", "--at", &at]);
    assert!(screen.out.contains("earlier") && screen.out.contains("ago"), "{screen:?}");
    let now = host.pinfold(["top", "--json"]);
    let now: StatusView = serde_json::from_str(&now.out).expect("status as JSON");
    assert!(now.jobs.is_empty() && now.at_s.is_none(), "{now:?}");
    let before = host.pinfold(["top", "--json", "--at", "@1000000000"]);
    let before: StatusView = serde_json::from_str(&before.out).expect("status as JSON");
    assert!(before.jobs.is_empty(), "{before:?}");
    let wrong = host.pinfold(["top", "--at", "tomorrow"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("--at"), "{wrong:?}");
}

fn on_a_terminal(kind: Kind) {
    let host = Host::with(kind, &["profile.interval=50ms"]);
    let job = host.submit(&["--name", "shown"], "until [ -e go ]; do sleep 0.1; done");
    host.until(job, JobState::Running);
    let mut dumb = Terminal::start(&host, &["pinfold", "top", "--every", "200ms"]);
    dumb.until_shown("one look");
    dumb.until_shown("shown");
    assert_eq!(dumb.ends(), Some(0));
    let top = ["env", "TERM=xterm", "pinfold", "top", "--every", "200ms"];
    let mut terminal = Terminal::start(&host, &top);
    terminal.until_shown("shown");
    terminal.type_in("v");
    terminal.until_shown("v jobs");
    terminal.until_shown(&format!("{job} shown"));
    terminal.type_in("v\r");
    terminal.until_shown(&format!("job {job}: shown   processes:"));
    terminal.until_shown("until [");
    terminal.type_in("q");
    terminal.until_shown("enter processes");
    // Sought, and given up without harm to what is sought already, or to the terminal.
    terminal.type_in("/");
    terminal.until_shown("only what holds");
    terminal.type_in("shw\x7fown\r");
    terminal.until_shown("only shown");
    terminal.type_in("/");
    terminal.until_shown("only what holds");
    terminal.type_in("nobody\x03");
    terminal.until_shown("only shown");
    terminal.type_in("/\r");
    terminal.until_shown("enter processes");
    // Back in time, to before it was asked for, and to now again.
    terminal.type_in("{");
    terminal.until_shown("ago");
    terminal.until_shown("running 0");
    terminal.type_in("l");
    terminal.until_shown("running 1");
    terminal.type_in("q");
    assert_eq!(terminal.ends(), Some(0));
    host.make("go");
    host.until(job, JobState::Exited);
}

/// Each asks first; what another key answers changes nothing.
fn keys_change_jobs(kind: Kind) {
    let _frozen = no_rescue();
    let host = Host::new(kind);
    let job = host.submit(&["--name", "steered"], "while :; do sleep 0.1; done");
    host.until(job, JobState::Running);
    let mut terminal = Terminal::start(&host, &["env", "TERM=xterm", "pinfold", "top", "--every", "200ms"]);
    terminal.until_shown("steered");
    terminal.type_in("?");
    terminal.until_shown("keys of pinfold top");
    terminal.until_shown("raise or lower its priority");
    terminal.type_in("q");
    terminal.until_shown("enter processes");
    terminal.type_in("s");
    terminal.until_shown("suspend job 1 (steered)? y/n");
    terminal.type_in("n");
    terminal.until_shown("nothing was changed");
    assert_eq!(host.job(job).state, JobState::Running);
    terminal.type_in("s");
    terminal.until_shown("suspend job 1 (steered)? y/n");
    terminal.type_in("y");
    host.until(job, JobState::Frozen);
    terminal.until_shown("\u{1b}[36mfrozen");
    terminal.type_in("s");
    terminal.until_shown("resume job 1 (steered)? y/n");
    terminal.type_in("y");
    host.until(job, JobState::Running);
    terminal.type_in("-");
    terminal.until_shown("priority of job 1 (steered): 10 -> 9? y/n");
    terminal.type_in("y");
    terminal.until_shown("has priority 9");
    assert_eq!(host.job(job).priority, 9);
    terminal.type_in("x");
    terminal.until_shown("end job 1 (steered)? y/n");
    terminal.type_in("y");
    host.until(job, JobState::Exited);
    terminal.type_in("q");
    assert_eq!(terminal.ends(), Some(0));
}
