//! What people read: the text of `status`, `why`, `report` and `plot`, by the parts that must not change from one run
//! to the next.

use pinfold_proto::JobState;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::wait::eventually;

tests! {
    Best: status_is_a_table, why_says_cause_and_change, report_is_a_card,
        plots_in_characters_and_as_pictures, times_are_in_the_zone_of_the_reader,
        why_and_status_tell_an_expected_start;
}

/// The words of one line of a table, by the head's columns.
#[track_caller]
fn cell<'a>(table: &'a str, row: usize, column: &str) -> &'a str {
    let mut lines = table.lines().skip_while(|line| !line.trim_start().starts_with("JOB "));
    let head = lines.next().unwrap_or_else(|| panic!("no table in {table}"));
    let line = lines.nth(row).unwrap_or_else(|| panic!("no line {row} in {table}"));
    let start = head.find(column).unwrap_or_else(|| panic!("no column {column} in {table}"));
    // Numbers stand at the right of their column, so a cell may begin before its head.
    let from = line[..start].rfind(' ').map_or(0, |at| at + 1);
    line[from..].split_whitespace().next().unwrap_or("")
}

fn status_is_a_table(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let first = host.submit(&["--name", "first"], "until [ -e go ]; do sleep 0.05; done; exit 3");
    host.until(first, JobState::Running);
    host.submit(&["--name", "second", "--priority", "9"], "true");
    let done = host.pinfold(["status"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    // Two lines where swap is held, too.
    let top = done.out.lines().take(2).collect::<Vec<_>>().join("   ");
    assert!(top.contains("slots 1 of 1 (1 core x 1)") && top.contains("memory pressure full"), "{top}");
    for (row, name, state, priority) in [(0, "first", "running", "10"), (1, "second", "queued", "9")] {
        assert_eq!(cell(&done.out, row, "NAME"), name, "{}", done.out);
        assert_eq!(cell(&done.out, row, "STATE"), state, "{}", done.out);
        assert_eq!(cell(&done.out, row, "PRI"), priority, "{}", done.out);
    }
    assert_eq!(cell(&done.out, 0, "CPUS"), "0", "{}", done.out);
    host.make("go");
    host.until(2, JobState::Exited);
    let all = host.pinfold(["status", "--all"]).out;
    assert!(all.contains("exited 3") && all.contains("exited 0"), "{all}");
    assert!(all.contains("its command ended with exit code 3") && all.contains("done"), "{all}");
}

/// The daemon, which composes the cause, has another zone than the reader.
fn times_are_in_the_zone_of_the_reader(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let zone = "TZ=CET-1CEST,M3.5.0,M10.5.0/3";
    let job = host.submit(&["--begin", "2099-07-01T00:00:00Z"], "true");
    let said = |line: &str| {
        let done = host.shell(line);
        assert_eq!(done.code, Some(0), "{line}: {done:?}");
        done.out
    };
    for verb in ["why 1", "report 1 --full", "status"] {
        let local = said(&format!("{zone} COLUMNS=200 pinfold {verb}"));
        assert!(local.contains(" 2099-07-01 02:00:00 CEST"), "{verb}: {local}");
        let utc = said(&format!("{zone} COLUMNS=200 pinfold --utc {verb}"));
        assert!(utc.contains(" 2099-07-01 00:00:00 UTC") && !utc.contains("CE"), "{verb}: {utc}");
    }
    let json = said(&format!("{zone} pinfold why 1 --json"));
    assert!(json.contains("2099-07-01 00:00:00 UTC"), "texts of JSON are those of the daemon: {json}");
    // A date that is typed is read as dates are shown.
    let asked = said("pinfold report 1 --full | sed -n 's/.*asked for *//p'");
    let local = said(&format!("{zone} pinfold report 1 --full | sed -n 's/.*asked for *//p'"));
    assert_ne!(asked, local);
    for (tz, date) in [("TZ=UTC", &asked), (zone, &local)] {
        let listed = said(&format!("{tz} pinfold report --since '{}' --json", date.trim()));
        assert!(listed.contains("\"job\":1,"), "{date}: {listed}");
    }
    host.pinfold(["cancel".to_owned(), job.to_string()]);
}

fn why_and_status_tell_an_expected_start(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let first = host.submit(&[], "until [ -e go ]; do sleep 0.05; done");
    host.until(first, JobState::Running);
    host.submit(&["--time", "1h"], "true");
    let said = |words: &[&str]| host.succeeds(words).out;
    let json =
        |job: &str| serde_json::from_str::<serde_json::Value>(&said(&["why", job, "--json"])).expect("JSON");
    // Nobody knows how long the first job runs.
    assert!(json("2")["expected_start_s"].is_null(), "{}", json("2"));
    let why = said(&["why", "2"]);
    assert!(
        why.contains("expected start") && why.contains("unknown: no job like job 1 has ended\n"),
        "{why}"
    );
    let status = said(&["status", "--json"]);
    assert!(status.contains("; start unknown: no job like job 1 has ended\""), "{status}");
    host.make("go");
    host.until(2, JobState::Exited);
    // A job like the third ended; before that it was told how long it runs.
    std::fs::remove_file(host.work("go")).expect("it is there");
    let third = host.submit(&["--time", "1h"], "until [ -e go ]; do sleep 0.07; done");
    host.until(third, JobState::Running);
    host.submit(&[], "true");
    let view = json("4");
    let start_s = view["expected_start_s"].as_f64().unwrap_or_else(|| panic!("a time: {view}"));
    let row = json("3");
    let began_s = row["decisions"][0]["time_s"].as_f64().expect("a time");
    assert!(start_s >= began_s && start_s <= began_s + 3_700.0, "{start_s} {began_s}");
    let why = said(&["why", "4"]);
    assert!(why.contains("about 20") && why.contains(" UTC, if jobs run as long as before\n"), "{why}");
    assert!(said(&["status"]).contains("  start about 20"), "{}", said(&["status"]));
    assert!(row["expected_start_s"].is_null(), "it runs: {row}");
    host.make("go");
}

fn why_says_cause_and_change(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let first = host.submit(&[], "until [ -e go ]; do sleep 0.05; done");
    host.until(first, JobState::Running);
    let second = host.submit(&[], "exit 4");
    let why = |job: u64| {
        let done = host.pinfold(["why".to_owned(), job.to_string()]);
        assert_eq!(done.code, Some(0), "{done:?}");
        done.out
    };
    let waits = why(second);
    assert!(waits.starts_with("job 2 is queued: it is next, and the only slot is taken\n"), "{waits}");
    assert!(waits.contains("  slots used") && waits.contains("1 of 1\n"), "{waits}");
    assert!(waits.contains("what would change it: a slot: job 1 must end, `pinfold set 2 --priority 11`, or `pinfold suspend 1`\n"), "{waits}");
    let runs = why(first);
    assert!(runs.starts_with("job 1 is running: "), "{runs}");
    assert!(runs.contains("decisions so far\n") && runs.contains("UTC  start as primary on 0: "), "{runs}");
    host.make("go");
    host.until(second, JobState::Exited);
    let over = why(second);
    assert!(over.starts_with("job 2 is exited: its command ended with exit code 4\n"), "{over}");
    assert!(over.contains("`pinfold report 2` shows what it used"), "{over}");
    let none = host.pinfold(["why", "99"]);
    assert_eq!((none.code, none.err.as_str()), (Some(1), "pinfold: there is no job 99\n"));
}

fn report_is_a_card(kind: Kind) {
    let host = Host::new(kind);
    let done = host.pinfold(["run", "--name", "card", "--mem", "1GiB", "--", "/bin/sh", "-c", "exit 3"]);
    assert_eq!(done.code, Some(3), "{done:?}");
    // A busy daemon has its end on record later than the command returns.
    host.until(1, JobState::Exited);
    let report = host.pinfold(["report", "1"]);
    assert_eq!(report.code, Some(0), "{report:?}");
    let lines: Vec<&str> = report.out.lines().collect();
    assert_eq!(lines[0], "job 1  card  exited 3", "{}", report.out);
    let line = |name: &str| {
        let found = lines.iter().find_map(|line| line.trim_start().strip_prefix(name));
        found.unwrap_or_else(|| panic!("no `{name}` in {}", report.out)).trim()
    };
    assert_eq!(line("command "), "/bin/sh -c exit 3");
    assert_eq!(line("why "), "its command ended with exit code 3");
    assert!(line("time ").starts_with("queued "), "{}", report.out);
    assert!(report.out.contains("of the 1.00 GiB it claimed"), "{}", report.out);
    for name in ["user ", "class ", "asked for ", "CPU ", "memory ", "storage ", "processes "] {
        assert!(!line(name).is_empty(), "{name}");
    }
    let two = host.pinfold(["report", "--last", "5", "--full"]);
    assert_eq!(two.out.matches("  exited ").count(), 1, "there is one job: {}", two.out);
}

fn plots_in_characters_and_as_pictures(kind: Kind) {
    let host = Host::with(kind, &["profile.interval=100ms"]);
    pinfold_testkit::executable(&host.work("waits"), "#!/bin/sh\nuntil [ -e go ]; do sleep 0.05; done\n");
    let running = host.start(["run", "--name", "drawn", "--", "./waits", "here"]);
    eventually("it was sampled a few times", || {
        let done = host.pinfold(["report", "--json", "1"]);
        let view: serde_json::Value = serde_json::from_str(&done.out).unwrap_or_default();
        if view["samples"].as_u64() > Some(2) { Ok(()) } else { Err(format!("{done:?}")) }
    });
    host.make("go");
    running.wait().ended_with(0);
    host.until(1, JobState::Exited);
    let text = host.pinfold(["plot", "1"]);
    assert_eq!(text.code, Some(0), "{text:?}");
    assert!(text.out.starts_with("job 1: drawn: ./waits here (exited 0, "), "{}", text.out);
    for panel in ["memory (", "CPU (cores in use)", "read (", "written ("] {
        assert!(text.out.lines().any(|line| line.starts_with(panel)), "{panel} in {}", text.out);
    }
    assert!(text.out.contains('┤') && !text.out.contains('\u{1b}'), "no colour into a file: {}", text.out);
    for (file, head) in [("job.svg", &b"<svg "[..]), ("job.png", b"\x89PNG\r\n")] {
        let done = host.pinfold(["plot", "1", "-o", file]);
        assert_eq!(done.code, Some(0), "{done:?}");
        let bytes = std::fs::read(host.work(file)).expect("a picture");
        assert!(bytes.starts_with(head) && bytes.len() > 1000, "{file}: {} bytes", bytes.len());
    }
    let wrong = host.pinfold(["plot", "1", "-o", "job.gif"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
}
