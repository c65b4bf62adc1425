//! Running the host as a whole: draining, the configuration as a file, who changed what, and jobs after others.

use pinfold_proto::JobState;
use pinfold_proto::view::{AuditView, WhyView};
use pinfold_testkit::ignore;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::wait::{eventually, no_rescue};
use rustix::process::Signal;

tests! {
    Best: a_drained_host_starts_nothing_new, changes_are_saved_and_remembered, a_file_without_end,
        a_forged_audit_shows, one_after_the_other, what_it_needs_is_told_later, how_it_stood_earlier;
}

fn done(host: &Host, arguments: &[&str]) -> String {
    let done = host.pinfold(arguments);
    assert_eq!(done.code, Some(0), "{arguments:?}: {done:?}");
    done.out
}

fn audit(host: &Host) -> AuditView {
    serde_json::from_str(&done(host, &["audit", "--verify", "--json"])).expect("one JSON object")
}

fn a_drained_host_starts_nothing_new(kind: Kind) {
    let mut host = Host::new(kind);
    let first = host.submit(&[], "until [ -e go ]; do sleep 0.05; done; exit 4");
    host.until(first, JobState::Running);
    done(&host, &["drain"]);
    assert!(host.status(&[]).draining);
    let second = host.submit(&[], "exit 5");
    host.make("go");
    host.until_exit_code(first, 4);
    assert_eq!(host.job(second).state, JobState::Queued);
    assert!(done(&host, &["why", &second.to_string()]).contains("the host is drained"));
    // One in the foreground says so itself, also without a terminal, in one line.
    let foreground = host.start(["run", "true"]);
    eventually("it says why it waits", || {
        let said = foreground.said("err");
        if said == "pinfold: job 3 waits: the host is drained: nothing new starts (pinfold why 3)\n" {
            Ok(())
        } else {
            Err(said)
        }
    });
    foreground.signal(Signal::TERM);
    let withdrawn = foreground.wait();
    assert!(withdrawn.code == Some(143) && withdrawn.err.lines().count() == 1, "{withdrawn:?}");
    // Over a restart, too.
    host.crash();
    host.start_daemon();
    assert!(host.status(&[]).draining);
    assert_eq!(host.job(second).state, JobState::Queued);
    done(&host, &["undrain"]);
    host.until_exit_code(second, 5);
    let actions: Vec<String> = audit(&host).records.into_iter().map(|record| record.action).collect();
    assert_eq!(actions, ["drain", "undrain"]);
}

fn changes_are_saved_and_remembered(kind: Kind) {
    let mut host = Host::new(kind);
    std::fs::write(host.work("own.toml"), "# mine\n[slots]\nfactor = 1.5 # few\n").expect("a file");
    kind.give(&host.work("own.toml"));
    done(&host, &["config", "set", "slots.factor=3", "host.memory=64GiB"]);
    done(&host, &["config", "save", "own.toml"]);
    // Where it is on by itself the tests turn it off, so that they do not wait for each other.
    let text = host.wrote("own.toml").replace("other_load = false\n", "");
    assert_eq!(text, "# mine\n[slots]\nfactor = 3 # few\n\n[host]\nmemory = \"64GiB\"\n");
    done(&host, &["config", "check", "own.toml"]);
    // A file that is none is left alone, and so are the PUs that nobody has.
    std::fs::write(host.work("broken.toml"), "[cpu\n").expect("a file");
    kind.give(&host.work("broken.toml"));
    let broken = host.pinfold(["config", "save", "broken.toml"]);
    assert!(broken.code == Some(1) && broken.err.contains("it is not TOML"), "{broken:?}");
    assert!(broken.err.contains("nothing is written") && host.wrote("broken.toml") == "[cpu\n", "{broken:?}");
    let none = host.pinfold(["config", "set", "slots.factor=2", "host.cpus=9999"]);
    assert!(none.code == Some(2) && none.err.contains("there is none here"), "{none:?}");
    // What is so already is no change, and more memory than there is counts as what there is.
    let again = host.pinfold(["config", "set", "slots.factor=3.0", "host.memory=100000TiB"]);
    assert!(
        again.code == Some(0) && again.err.contains("slots.factor: unchanged, it is 3 already"),
        "{again:?}"
    );
    assert!(again.err.contains("`host.memory` is 100000TiB, and there are "), "{again:?}");
    let status = host.status(&[]);
    assert!(
        status.warnings.iter().any(|warning| warning.contains("jobs may hold ")),
        "{:?}",
        status.warnings
    );
    // Nobody is made an operator who is not there.
    for key in ["access.operators", "access.exclusive", "projects.web.users", "projects.web.operators"] {
        let strange = host.pinfold(["config", "set", &format!("{key}=[\"root\", \"nosuchuser\"]")]);
        let said = format!("`{key}` names nosuchuser, and this host knows no such user");
        assert!(strange.code == Some(2) && strange.err.contains(&said), "{strange:?}");
    }
    let upper = host.pinfold(["config", "set", "Slots.Factor=2"]);
    assert!(upper.code == Some(2) && upper.err.contains("is `slots.factor` meant?"), "{upper:?}");
    assert_eq!(done(&host, &["config", "get", "slots.factor"]).trim(), "3");
    let history = done(&host, &["config", "history"]);
    assert!(history.contains("slots.factor: 1.5 -> 3"), "{history}");
    assert!(history.contains("host.memory: unset -> "), "{history}");
    assert_eq!(history.matches("slots.factor").count(), 1, "what was so already is no change: {history}");
    saved_for_the_next_start(&mut host);
    assert!(!history.contains("access") && !history.contains("projects"), "{history}");
}

/// A daemon that was started by hand reads what it wrote when it is started so once more.
fn saved_for_the_next_start(host: &mut Host) {
    if std::path::Path::new("/etc/pinfold/pinfold.toml").exists() {
        ignore!("root's daemons read the file that is there");
    }
    done(host, &["config", "set", "priority.default=7"]);
    let file = host.state().join("pinfold.toml");
    let saved = host.pinfold(["config", "save"]);
    assert!(saved.code == Some(0) && saved.err.contains(&file.display().to_string()), "{saved:?}");
    host.stop();
    host.start_daemon();
    assert_eq!(done(host, &["config", "get", "priority.default"]).trim(), "7");
    let origins = done(host, &["config", "get", "--json"]);
    assert!(origins.contains("\"origin\":\"file\""), "{origins}");
}

/// Named by mistake, it must not fill the memory. Where it can be written, the configuration is.
fn a_file_without_end(kind: Kind) {
    let host = Host::new(kind);
    let check = |command: &str, want: &str| {
        let done = host.shell(&format!("ulimit -v 2000000; pinfold {command}"));
        assert_eq!(done.code, Some(1), "{command}: {done:?}");
        assert!(done.err.starts_with(&format!("pinfold: {want}")), "{command}: {done:?}");
    };
    check("config check /dev/zero", "failed to read /dev/zero: it is larger than 1.00 MiB");
    check("batch /dev/zero", "failed to read /dev/zero: a line is longer than 16.0 MiB");
    check("batch -a /dev/zero true", "arguments in /dev/zero: a line is longer than 16.0 MiB");
    check("advise replay /dev/zero", "failed to read /dev/zero: a line is longer than 16.0 MiB");
    check("config save /dev/full", "failed to write /dev/full: No space left");
    let done = host.shell("pinfold config save /dev/stdout | cat");
    assert!(done.out.lines().any(|line| line.starts_with('[')), "{done:?}");
}

fn a_forged_audit_shows(kind: Kind) {
    let host = Host::new(kind);
    for factor in ["2", "3", "4"] {
        done(&host, &["config", "set", &format!("slots.factor={factor}")]);
    }
    let view = audit(&host);
    assert_eq!((view.records.len(), view.intact), (3, Some(true)));
    let path = host.state().join("audit.jsonl");
    let text = std::fs::read_to_string(&path).expect("the records");
    std::fs::write(&path, text.replace("2 -> 3", "2 -> 9")).expect("the tests may write it");
    let forged = host.pinfold(["audit", "--verify"]);
    assert_eq!(forged.code, Some(1), "{forged:?}");
    assert!(forged.err.contains("record 2 is not what was written"), "{forged:?}");
}

fn one_after_the_other(kind: Kind) {
    let _frozen = no_rescue();
    let mut host = Host::new(kind);
    let first = host.submit(&[], "until [ -e go ]; do sleep 0.05; done; echo 1 >>order; exit 7");
    let second = host.submit(&["--after", &first.to_string()], "echo 2 >>order");
    let third = host.submit(&["--after", &format!("{first},{second}")], "echo 3 >>order");
    let why = done(&host, &["why", &third.to_string()]);
    assert!(why.contains("it was asked to start after jobs 1 and 2"), "{why}");
    host.crash();
    host.start_daemon();
    assert_eq!(host.job(third).state, JobState::Queued);
    host.make("go");
    host.until_exit_code(third, 0);
    assert_eq!(host.wrote("order"), "1\n2\n3\n");
    // One that is over already holds nobody up; one that never was is a mistake.
    let fourth = host.submit(&["--after", &first.to_string()], "exit 0");
    host.until_exit_code(fourth, 0);
    let wrong = host.pinfold(["submit", "--after", "4711", "true"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("--after 4711: there is no such job"), "{wrong:?}");
}

fn what_it_needs_is_told_later(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=2", "host.cpus=0", "host.memory=600MiB"]);
    let first = host.submit(&["--mem", "400MiB"], "until [ -e go ]; do sleep 0.05; done");
    host.until(first, JobState::Running);
    let second = host.submit(&["--mem", "400MiB"], "exit 0");
    assert_eq!(host.job(second).state, JobState::Queued);
    done(&host, &["set", &second.to_string(), "--mem", "100MiB"]);
    host.until_exit_code(second, 0);
    host.make("go");
    host.until_exit_code(first, 0);
    let neither = host.pinfold(["set", "1"]);
    assert_eq!(neither.code, Some(2), "{neither:?}");
}

fn how_it_stood_earlier(kind: Kind) {
    let _frozen = no_rescue();
    let host = Host::new(kind);
    let job = host.submit(&[], "until [ -e go ]; do sleep 0.05; done");
    host.until(job, JobState::Running);
    done(&host, &["suspend", "1"]);
    host.until(job, JobState::Frozen);
    done(&host, &["resume", "1"]);
    host.until(job, JobState::Running);
    host.make("go");
    host.until_exit_code(job, 0);
    let why = |when: &str| -> WhyView {
        serde_json::from_str(&done(&host, &["why", "1", "--json", "--at", when])).expect("one JSON object")
    };
    let now = why("0s");
    assert_eq!(now.state, JobState::Exited);
    let times: Vec<f64> = now.decisions.iter().map(|decision| decision.time_s).collect();
    let [started, frozen, .., thawed] = times.as_slice() else { panic!("{now:?}") };
    assert!(started < frozen && frozen < thawed, "{now:?}");
    let between = why(&format!("@{:.6}", f64::midpoint(*frozen, *thawed)));
    assert_eq!(between.state, JobState::Frozen, "{between:?}");
    assert!(between.change.contains("thaw"), "{between:?}");
    let early = host.pinfold(["why", "1", "--at", "@1000"]);
    assert!(early.code == Some(2) && early.err.contains("--at: job 1 was asked for only"), "{early:?}");
}
