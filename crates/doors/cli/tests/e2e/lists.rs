//! Lists of jobs as one thing: which jobs a command takes by range, name and state.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use pinfold_proto::{JobClass, JobState};

use crate::host::{Host, has, said};
use crate::kind::{Kind, tests};

tests! {
    Best: many_jobs_are_picked_at_once, output_is_found_again, a_list_is_handed_over,
        what_failed_is_submitted_again, an_end_is_notified;
}

/// The states of the jobs that a command names, by number.
fn states(host: &Host, jobs: &[u64]) -> Vec<JobState> {
    host.status(jobs).jobs.iter().map(|job| job.state).collect()
}

fn many_jobs_are_picked_at_once(kind: Kind) {
    use JobState::{Exited, Held, Queued};
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    // Started beside nothing: all others wait for its slot.
    host.submit(&[], "while [ ! -e go ]; do sleep 0.05; done");
    host.until(1, JobState::Running);
    for name in ["sort-a", "sort-b", "make"] {
        host.submit(&["--name", name], "true");
    }
    let array = host.submit(&["--name", "sort-c", "--array", "1-2"], "true");
    assert_eq!(array, 5);
    said(&host, &["hold", "2-3"], 0);
    assert_eq!(states(&host, &[2, 3, 4, 5, 6]), [Held, Held, Queued, Queued, Queued]);
    said(&host, &["release", "--name", "sort-*"], 0);
    assert_eq!(states(&host, &[2, 3]), [Queued, Queued]);
    // The number of the array stands for its members also in a range, and each has one name.
    said(&host, &["set", "4-5", "--priority", "3", "--comment", "later"], 0);
    let late: Vec<u8> = host.status(&[4, 5, 6]).jobs.iter().map(|job| job.priority).collect();
    assert_eq!(late, [3, 3, 3]);
    let why = said(&host, &["why", "4-5"], 0);
    has(&why, "job 4 ");
    has(&why, "5_[1-2] (2) are queued");
    has(&said(&host, &["report", "4-6", "--csv"], 0), "\n6,sort-c,");
    has(&said(&host, &["why", "--name", "sort-a"], 0), "job 2 is queued");
    has(&said(&host, &["log", "--state", "queued", "1"], 1), "the only job does not fit --state queued");
    said(&host, &["cancel", "2-6", "--name", "sort-c"], 0);
    assert_eq!(states(&host, &[2, 4, 5, 6]), [Queued, Queued, Exited, Exited]);
    has(&said(&host, &["cancel", "5_1"], 1), "job 5_1 is over");
    // What is not there is told in words, whether by number, range, name or state.
    has(&said(&host, &["cancel", "90-99"], 1), "no job of yours with a number from 90 to 99");
    has(&said(&host, &["cancel", "1-5000"], 2), "spans more than 1000 numbers");
    has(&said(&host, &["suspend", "--state", "suspended"], 1), "none of 4 jobs fits --state suspended");
    has(&said(&host, &["suspend", "1", "--all"], 2), "cannot be used with");
    said(&host, &["cancel"], 2);
    said(&host, &["cancel", "--state", "queued"], 0);
    assert_eq!(states(&host, &[1, 2, 3, 4]), [JobState::Running, Exited, Exited, Exited]);
    has(&said(&host, &["wait", "1", "--state", "queued"], 1), "the only job does not fit --state queued");
    host.make("go");
    said(&host, &["wait", "1"], 0);
    has(&said(&host, &["wait", "--all"], 1), "there is no job of yours that is not over");
    // Jobs that are over have outputs and reasons, too.
    has(&said(&host, &["why", "--name", "make"], 0), "job 4 is exited");
}

fn output_is_found_again(kind: Kind) {
    let host = Host::new(kind);
    let submit = |options: &[&str], script: &str| {
        let done = host.succeeds([&["submit"], options, &["--", "/bin/sh", "-c", script]].concat());
        let job = done.out.trim().to_owned();
        host.pinfold(["wait", &job]);
        job
    };
    let log = |arguments: &[&str]| {
        let done = host.succeeds([&["log"], arguments].concat());
        (done.out, done.err)
    };
    let texts = |out: &str, err: &str| (out.to_owned(), err.to_owned());
    // Both streams, told apart; or the one that is asked for.
    let both = submit(&[], "echo out; echo err >&2; exit 3");
    assert_eq!(log(&[&both]), texts("out\n", "err\n"));
    assert_eq!(log(&["--stdout", &both]), texts("out\n", ""));
    assert_eq!(log(&["--stderr", &both]), texts("err\n", ""));
    assert_eq!(log(&["-f", &both]), texts("out\n", "err\n"));
    let one = submit(&["-o", "one", "-e", "one"], "echo out; echo err >&2");
    assert_eq!(log(&[&one]), texts("out\nerr\n", ""));
    // A failure without a word is told, with the files; a success is not.
    let silent = submit(&[], "exit 3");
    let (out, err) = log(&[&silent]);
    assert_eq!(out, "");
    has(&err, &format!("job {silent} failed and wrote nothing to "));
    has(&err, &format!("pinfold-{silent}.err"));
    assert_eq!(log(&[&submit(&[], "true")]), texts("", ""));
    // Lines of a batch with files are found by their jobs, also while it runs, and its table names their commands.
    let batch = host.start([
        "batch",
        "--output",
        "results",
        "sh -c 'echo {}; [ {} = a ] || until [ -e go ]; do sleep 0.05; done'",
        ":::",
        "a",
        "b",
    ]);
    host.until(6, JobState::Running);
    host.until(5, JobState::Exited);
    assert_eq!(log(&["5-5"]), texts("a\n", ""));
    host.make("go");
    let done = batch.wait();
    has(&done.err, "  sh -c 'echo b;");
    assert_eq!(log(&["5-6"]).0, "==> 5 <==\na\n==> 6 <==\nb\n");
}

fn a_list_is_handed_over(kind: Kind) {
    let host = Host::new(kind);
    let list = "# two commands\necho one $PINFOLD_ARRAY_INDEX\n\nuntil [ -e go ]; do sleep 0.05; done; echo two >&2; exit 3\n";
    std::fs::write(host.work("list"), list).expect("a file");
    let number = said(&host, &["batch", "--detach", "--name", "night", "list"], 0);
    assert_eq!(number, "1\n");
    // The number and the name stand for all lines, which have the numbers of the lines.
    has(&said(&host, &["why", "night"], 0), "array 1 has 2 members");
    assert_eq!(said(&host, &["wait", "1_2"], 0), "");
    assert_eq!(said(&host, &["log", "1_2"], 0), "one 2\n");
    said(&host, &["suspend", "night"], 0);
    said(&host, &["resume", "1"], 0);
    host.make("go");
    said(&host, &["wait", "night"], 3);
    assert_eq!(host.wrote("pinfold-1_4.err"), "two\n");
    has(&said(&host, &["report", "1_4"], 0), "until [ -e go ]");
    has(&said(&host, &["status", "1_2"], 0), "echo one $PINFOLD_ARRAY_INDEX");
    // Arguments, a directory for output, and how many at once.
    let words = ["batch", "--detach", "--json", "-j", "1", "--output", "out", "echo {}", ":::", "a", "b"];
    has(&said(&host, &words, 0), "\"array_id\":3");
    said(&host, &["wait", "3"], 0);
    assert_eq!((host.wrote("out/1.out"), host.wrote("out/2.out")), ("a\n".to_owned(), "b\n".to_owned()));
    let halt = said(&host, &["batch", "--detach", "--halt", "now,fail=1", "list"], 2);
    has(&halt, "--halt needs a batch that waits: `nohup pinfold batch --halt ... &`");
    has(&said(&host, &["batch", "--detach", "echo {}", ":::", ""], 0), "5");
    std::fs::write(host.work("none"), "# nothing\n").expect("a file");
    has(&said(&host, &["batch", "--detach", "none"], 2), "the list has no command");
    // The line that failed, with its index, its name and the surroundings of the list.
    let again = said(&host, &["retry", "1"], 0);
    let again = again.trim();
    said(&host, &["wait", again], 3);
    assert_eq!(host.wrote(&format!("pinfold-{again}_4.err")), "two\n");
    has(&said(&host, &["report", again, "--columns", "name"], 0), "night");
}

fn what_failed_is_submitted_again(kind: Kind) {
    let host = Host::new(kind);
    std::fs::create_dir(host.work("sub")).expect("a directory");
    kind.give(&host.work("sub"));
    // The command shows what a job gets of its surroundings.
    let shows = "pwd; umask; ulimit -n; env | grep -v ^PINFOLD_ | sort";
    let script = format!(
        "cd sub && export KEPT='a  b' && umask 027 && ulimit -n 100 && pinfold submit --mem 64MiB --timeout 1h --primary \
         -- /bin/sh -c '{shows}; [ -e ../good ]'"
    );
    assert_eq!(host.shell(&script).out, "1\n");
    said(
        &host,
        &["submit", "--array", "1-3", "--", "/bin/sh", "-c", "[ $PINFOLD_ARRAY_INDEX = 2 ] || [ -e good ]"],
        0,
    );
    said(&host, &["submit", "--", "true"], 0);
    said(&host, &["wait", "1", "2", "5"], 0);
    // Root is told beside the table that the table has root's own jobs.
    let failed = |host: &Host| {
        let done = host.pinfold(["report", "--failed", "--columns", "job"]);
        assert_eq!(done.code, Some(0), "{done:?}");
        done.out
    };
    assert_eq!(failed(&host), "JOB\n1\n2\n4\n");
    host.make("good");
    assert_eq!(said(&host, &["retry", "--failed"], 0), "6\n7\n");
    said(&host, &["wait", "6"], 0);
    said(&host, &["wait", "7"], 0);
    let log = said(&host, &["log", "1"], 0);
    assert_eq!(said(&host, &["log", "6"], 0), log);
    ["/sub\n0027\n100\n", "KEPT=a  b\n"].iter().for_each(|words| has(&log, words));
    let report = host.report(6);
    assert_eq!(report.class, JobClass::Primary);
    assert_eq!((report.claim_bytes, report.timeout_s), (Some(64 << 20), Some(3600.0)));
    // Only the members that failed, with their indexes.
    assert_eq!(host.report(8).array_index, Some(3));
    assert_eq!(host.status(&[7, 8]).jobs.len(), 2);
    // They are in order now, and a job that did well is submitted again on its user's word, with other options.
    has(&said(&host, &["retry", "--failed"], 1), "none of these jobs is over and failed");
    has(&said(&host, &["retry", "5"], 1), "pinfold again JOB");
    assert_eq!(said(&host, &["again", "6", "--mem", "32MiB", "-o", "again.out"], 0), "9\n");
    said(&host, &["wait", "9"], 0);
    assert_eq!(host.report(9).claim_bytes, Some(32 << 20));
    assert_eq!(host.wrote("sub/again.out"), log);
    // A job of `run` has its directory, and the environment of the caller, which is told; a start that is gone is refused.
    host.shell("cd sub && KEPT=old pinfold run -- /bin/sh -c 'pwd; echo $KEPT'").ended_with(0);
    let done = host.shell("KEPT=new pinfold again 10");
    has(&done.err, "environment and limits of this command");
    said(&host, &["wait", "11"], 0);
    has(&host.wrote("sub/pinfold-11.out"), "/sub\nnew\n");
    let ended = std::fs::read_dir(host.state().join("ended")).expect("the starts of jobs that are over");
    ended.flatten().for_each(|entry| std::fs::remove_file(entry.path()).expect("a file"));
    has(&said(&host, &["again", "6"], 1), "of job 6 are not kept, or not any more");
}

fn an_end_is_notified(kind: Kind) {
    let host = Host::new(kind);
    let notify = |name: &str| format!("cat >{name}.new && mv {name}.new {name}");
    // The status is the command's, whatever comes of the notification.
    said(&host, &["run", "--notify", &notify("run"), "--", "/bin/sh", "-c", "exit 3"], 3);
    has(&host.wrote("run"), "\"job\":1,");
    has(&host.wrote("run"), "\"exit_code\":3,");
    has(&said(&host, &["run", "--notify", "exit 4", "--", "/bin/sh", "-c", "exit 3"], 3), "");
    let done = host.pinfold(["run", "--notify", "exit 4", "--", "true"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    has(&done.err, "--notify `exit 4` failed: exit status: 4");
    // Of an array and of a list one notification, when all is over.
    said(&host, &["submit", "--notify", &notify("array"), "--array", "1-2", "--", "true"], 0);
    host.until_made("array");
    assert_eq!(host.wrote("array").lines().count(), 2);
    said(&host, &["batch", "--quiet", "--notify", &notify("list"), "echo {}", ":::", "a", "b"], 0);
    has(&host.wrote("list"), "\"jobs\":2,\"failed\":0,");
    said(&host, &["batch", "--detach", "--notify", &notify("lines"), "echo {}", ":::", "a", "b"], 0);
    host.until_made("lines");
    assert_eq!(host.wrote("lines").lines().count(), 2);
    let hook = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/hook", hook.local_addr().expect("an address"));
    let running = host.start(["run", "--notify", &url, "--", "/bin/sh", "-c", "exit 3"]);
    let (mut server, _) = hook.accept().expect("a client");
    let mut heard = String::new();
    let mut pieces = [0; 4096];
    while !heard.ends_with("}\n") {
        let length = server.read(&mut pieces).expect("a request");
        heard.push_str(&String::from_utf8_lossy(&pieces[..length]));
    }
    server.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").expect("it reads");
    running.wait().ended_with(3);
    has(&heard, "POST /hook HTTP/1.1");
    has(&heard.to_lowercase(), "content-type: application/json");
    has(&heard, "\"exit_code\":3");
    drop(hook);
    let done = host.pinfold(["run", "--notify", &url, "--", "true"]);
    assert!(done.code == Some(0) && done.err.contains("--notify"), "{done:?}");
}
