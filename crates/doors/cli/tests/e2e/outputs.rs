//! Output of submitted jobs that goes to no file of its own: to the streams of the command that submits them, and below
//! `/dev`.

use crate::host::Host;
use crate::kind::{Kind, tests};
use pinfold_testkit::ignore;

tests! {
    Best: a_stream_that_is_a_file_is_written_behind_what_is_there, a_pipe_by_its_descriptor,
        members_share_a_stream, members_share_a_file_of_a_device_directory;
}

/// Runs a shell's script, which submits one job or array, and says nothing on standard error.
fn submits(host: &Host, script: &str) {
    let done = host.shell(script);
    assert_eq!((done.code, &done.err[..]), (Some(0), ""), "{script}: {done:?}");
}

/// As any program does that the shell starts.
fn a_stream_that_is_a_file_is_written_behind_what_is_there(kind: Kind) {
    let host = Host::new(kind);
    for (job, how) in [("1", ">>log"), ("2", ">log")] {
        std::fs::write(host.work("log"), "before\n").expect("a file");
        kind.give(&host.work("log"));
        let script = "{ echo first; pinfold submit -o /dev/stdout -e /dev/null -- echo out; }";
        submits(&host, &format!("{script} {how}"));
        host.until_exit_code(job.parse().expect("a number"), 0);
        let log = host.wrote("log");
        let rest = if job == "1" { log.strip_prefix("before\n") } else { Some(&log[..]) };
        let mut lines: Vec<&str> = rest.expect("it is behind that").lines().collect();
        assert_eq!(lines.remove(0), "first", "{log}");
        // The number and the output, whichever came first.
        lines.sort_unstable();
        assert_eq!(lines, [job, "out"], "{log}");
    }
}

/// A shell's `>(cat)` is such a name.
fn a_pipe_by_its_descriptor(kind: Kind) {
    let host = Host::new(kind);
    submits(
        &host,
        "{ pinfold submit -o /dev/fd/3 -e /dev/null -- echo out 3>&1 >number; } | cat >out; cat number >>out",
    );
    host.until_exit_code(1, 0);
    assert_eq!(host.wrote("out"), "out\n1\n");
    // The keeper's own are none of the user's.
    let closed = "3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-";
    for number in 3..=9 {
        let done = host.shell(&format!("pinfold submit -o /dev/fd/{number} -e /dev/null true {closed}"));
        assert!(done.code == Some(1) && done.err.contains("failed to open /dev/fd/"), "{number}: {done:?}");
    }
}

/// The keeper has other streams by the time that the members start.
fn members_share_a_stream(kind: Kind) {
    let host = Host::new(kind);
    let script = "sh -c 'echo out $PINFOLD_ARRAY_INDEX; echo err $PINFOLD_ARRAY_INDEX >&2'";
    submits(&host, &format!("pinfold submit -a 1-2 -o /dev/stdout -e err.%a -- {script} >log"));
    [1, 2].into_iter().for_each(|job| host.until_exit_code(job, 0));
    let log = host.wrote("log");
    let mut lines: Vec<&str> = log.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["1", "out 1", "out 2"]);
    assert_eq!((host.wrote("err.1"), host.wrote("err.2")), ("err 1\n".to_owned(), "err 2\n".to_owned()));
}

/// It takes from all of them.
fn members_share_a_file_of_a_device_directory(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let Ok(file) = tempfile::Builder::new().prefix("pinfold-test-").tempfile_in("/dev/shm") else {
        ignore!("no /dev/shm here");
    };
    kind.give(file.path());
    let name = file.path().display();
    submits(
        &host,
        &format!("pinfold submit -a 1-3 -o {name} -e {name} -- sh -c 'echo $PINFOLD_ARRAY_INDEX' >log"),
    );
    (1..=3).for_each(|job| host.until_exit_code(job, 0));
    let text = std::fs::read_to_string(file.path()).expect("it is there");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["1", "2", "3"]);
}
