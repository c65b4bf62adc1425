//! Arrays of jobs: which members there are, how many start, what is done to all of them or to one, and what is refused.

use pinfold_proto::view::JobView;
use pinfold_proto::{JobState, view::StatusView};
use serde_json::Value;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::wait::eventually;

tests! {
    Each: the_last_of_it_share_evenly;
    Best: each_member_has_its_index, no_more_than_asked_for_start, all_or_one_of_them, refused_as_a_whole,
        across_a_restart;
}

/// Each member waits for a file of its own.
const OWN: &str = "until [ -e go-$PINFOLD_ARRAY_INDEX ]; do sleep 0.05; done; : >done-$PINFOLD_ARRAY_INDEX";

fn told(host: &Host, arguments: &[&str], code: i32) -> String {
    let done = host.pinfold(arguments);
    assert_eq!(done.code, Some(code), "{arguments:?}: {done:?}");
    if code == 0 { done.out } else { done.err }
}

fn json(host: &Host, arguments: &[&str]) -> Value {
    let text = told(host, arguments, 0);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The jobs that a name means.
fn named(host: &Host, name: &str) -> Vec<JobView> {
    let text = told(host, &["status", "--json", name], 0);
    let view: StatusView = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    view.jobs
}

fn until(host: &Host, name: &str, state: JobState) -> JobView {
    eventually(&format!("{name} is {state:?}"), || {
        let view = named(host, name).pop().expect("there is such a job");
        if view.state == state { Ok(view) } else { Err(format!("{view:?}")) }
    })
}

fn array(host: &Host, options: &[&str], script: &str) -> u64 {
    let quiet = ["-o", "/dev/null", "-e", "/dev/null", "--", "/bin/sh", "-c", script];
    let done = host.pinfold([&["--no-autostart", "submit"], options, &quiet[..]].concat());
    assert_eq!(done.code, Some(0), "{done:?}");
    done.out.trim().parse().expect("the bare number of the array")
}

fn each_member_has_its_index(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=4"]);
    let script = "echo $PINFOLD_ARRAY_ID $PINFOLD_ARRAY_INDEX; env | grep -c PINFOLD_ARRAY >&2; \
                  exit $PINFOLD_ARRAY_INDEX";
    let said = json(&host, &["submit", "--json", "--array", "0-4:2,9", "--", "/bin/sh", "-c", script]);
    let members = |said: &Value, key: &str| -> Vec<u64> {
        let members = said["members"].as_array().expect("the members");
        members.iter().map(|member| member[key].as_u64().expect("a number")).collect()
    };
    assert_eq!((&said["version"], &said["job"], &said["array_id"]), (&1.into(), &1.into(), &1.into()));
    assert_eq!((members(&said, "index"), members(&said, "job")), (vec![0, 2, 4, 9], vec![1, 2, 3, 4]));
    // Of several the worst counts; one by its name is one.
    told(&host, &["wait", "1"], 9);
    told(&host, &["wait", "1_2"], 2);
    told(&host, &["wait", "1", "1_[0,0]"], 0);
    for index in [0, 2, 4, 9] {
        assert_eq!(host.wrote(&format!("pinfold-1_{index}.out")), format!("1 {index}\n"));
        assert_eq!(host.wrote(&format!("pinfold-1_{index}.err")), "2\n");
    }
    let views = named(&host, "1");
    let places: Vec<_> = views.iter().map(|view| (view.job, view.array_id, view.array_index)).collect();
    assert_eq!(
        places,
        [(1, Some(1), Some(0)), (2, Some(1), Some(2)), (3, Some(1), Some(4)), (4, Some(1), Some(9))]
    );
    let report = told(&host, &["report", "--json", "1_[2,4,9]"], 0);
    assert_eq!(report.lines().count(), 3, "{report}");
    assert!(told(&host, &["report", "1_4"], 0).starts_with("job 3 (1_4) "));
    // Of several members a line each, and their pages where they are asked for.
    let lines = told(&host, &["report", "1_[2,4,9]"], 0);
    assert!(lines.lines().count() == 4 && lines.starts_with("JOB "), "{lines}");
    let pages = told(&host, &["report", "--full", "1_[2,4,9]"], 0);
    assert_eq!(pages.matches("  command  ").count(), 3, "{pages}");
    assert!(told(&host, &["status", "1"], 0).contains("1_9"));
    // Whatever is handed over from within a member is no member, unless it is one of an array of its own.
    let nested = "pinfold submit -o alone -e /dev/null -- /bin/sh -c 'echo ${PINFOLD_ARRAY_INDEX-none}'";
    let outer = array(&host, &["--array", "7"], nested);
    told(&host, &["wait", &outer.to_string()], 0);
    let inner = (outer + 1).to_string();
    told(&host, &["wait", &inner], 0);
    assert_eq!(host.wrote("alone"), "none\n");
    assert_eq!(named(&host, &inner)[0].array_id, None);
    // Files by name.
    let files = ["-o", "%A-%a-%j.log", "-e", "%A-%a-%j.log"];
    let done = host.pinfold(
        [&["submit", "-a", "3"], &files[..], &["--", "/bin/sh", "-c", "echo a; echo b >&2"]].concat(),
    );
    let job = done.out.trim().to_owned();
    told(&host, &["wait", &job], 0);
    assert_eq!(host.wrote(&format!("{job}-3-{job}.log")), "a\nb\n");
}

fn no_more_than_asked_for_start(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=4", "host.cpus=0"]);
    array(&host, &["--array", "1-3%1"], OWN);
    let after_all = host.submit(&["--after", "1"], ": >after-all");
    let after_one = host.submit(&["--after", "1_1"], ": >after-one");
    until(&host, "1_1", JobState::Running);
    let why = json(&host, &["why", "--json", "1_2"]);
    let cause = why["cause"].as_str().expect("a cause");
    assert!(cause.contains("of its array 1 at most 1 may have started"), "{why}");
    let all = json(&host, &["why", "--json", "1"]);
    assert_eq!((&all["version"], &all["array_id"]), (&1.into(), &1.into()));
    let groups: Vec<&str> = all["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .filter_map(|group| group["members"].as_str())
        .collect();
    assert_eq!(groups, ["1", "2-3"], "{all}");
    assert!(told(&host, &["why", "1"], 0).contains("1_[2-3] (2) are queued"));
    host.make("go-1");
    until(&host, "1_2", JobState::Running);
    // Beside a primary it may get next to nothing of a busy PU, so its end is waited for once the second member is over.
    eventually("the job after the first member starts", || {
        let view = host.job(after_one);
        let started = matches!(view.state, JobState::Running | JobState::Exited);
        if started { Ok(()) } else { Err(format!("{view:?}")) }
    });
    // The third cannot start before the second is told to go on.
    assert_eq!(until(&host, "1_3", JobState::Queued).started_s, None);
    assert_eq!(host.job(after_all).state, JobState::Queued);
    told(&host, &["cancel", "1_3"], 0);
    assert_eq!(until(&host, "1_3", JobState::Exited).started_s, None);
    host.make("go-2");
    host.until_exit_code(after_one, 0);
    assert_eq!(host.until(after_all, JobState::Exited).exit_code, Some(0));
    assert!(host.work("done-2").exists() && !host.work("done-3").exists());
}

fn all_or_one_of_them(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=4", "host.cpus=0"]);
    array(&host, &["--hold", "--array", "0-3"], OWN);
    assert!(named(&host, "1").iter().all(|view| view.state == JobState::Held));
    // Its number is the array's, too: what is told names it so that all others are left alone.
    let why = told(&host, &["why", "1_0"], 0);
    assert!(why.contains("job 1_0 is held") && why.contains("`pinfold release 1_0`"), "{why}");
    let held = host.pinfold(["hold", "1_0"]);
    assert!(held.code == Some(0) && held.err.contains("`pinfold release 1_0`"), "{held:?}");
    told(&host, &["release", "1_[0-1]"], 0);
    until(&host, "1_0", JobState::Running);
    until(&host, "1_1", JobState::Running);
    assert_eq!(until(&host, "1_2", JobState::Held).started_s, None);
    told(&host, &["set", "1", "--priority", "3"], 0);
    assert!(named(&host, "1").iter().all(|view| view.priority == 3));
    told(&host, &["release", "1"], 0);
    until(&host, "1_2", JobState::Running);
    until(&host, "1_3", JobState::Running);
    host.make("go-0");
    until(&host, "1_0", JobState::Exited);
    // What is left of it.
    told(&host, &["cancel", "--signal", "KILL", "1"], 0);
    for name in ["1_1", "1_2", "1_3"] {
        assert_eq!(until(&host, name, JobState::Exited).signal, Some(9), "{name}");
    }
    assert!(told(&host, &["cancel", "1"], 1).contains("all members of array 1 are over"));
    assert!(told(&host, &["cancel", "1_2"], 1).contains("over"));
    assert!(told(&host, &["cancel", "1_9"], 1).contains("array 1 has no member 9"));
    let job = host.submit(&[], "true").to_string();
    assert!(told(&host, &["why", &format!("{job}_0")], 1).contains("is no array"));
    assert!(told(&host, &["report", "99_0"], 1).contains("there is no array 99"));
    for wrong in ["1_", "1_x", "1_[0", "1_[3-1]"] {
        assert!(told(&host, &["status", wrong], 2).contains("JOB"), "{wrong}");
    }
}

/// Whatever is wrong with an array, none of it starts.
fn refused_as_a_whole(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0", "slots.queue_depth=3"]);
    for (wrong, why) in [
        ("", "names no index"),
        ("%2", "names no index"),
        ("5-1", "ends before it begins"),
        ("0-9:0", "step of 0"),
        ("0-3%0", "at once"),
        ("0-10000", "10000 members"),
        ("4000001", "too large"),
        ("1,two", "`two`"),
    ] {
        let said = told(&host, &["submit", "--array", wrong, "--", "true"], 2);
        assert!(said.contains("--array") && said.contains(why), "{wrong}: {said}");
    }
    // Each member would empty what the others wrote. What is there before them takes from all, but not by this name.
    for one in ["one", "/dev/shm/pinfold-test-%A.log"] {
        let said = told(&host, &["submit", "--array", "0-1", "-o", one, "--", "true"], 2);
        assert!(said.contains(&format!("--output {one}")) && said.contains("%a"), "{said}");
    }
    let said = told(&host, &["submit", "--after", "7_1", "--", "true"], 2);
    assert!(said.contains("--after 7_1"), "{said}");
    assert!(host.status(&[]).jobs.is_empty());
    // Too many for the queue, and files that cannot be made.
    let said = told(&host, &["submit", "--array", "0-9", "--", "/bin/sh", "-c", ": >never"], 5);
    assert!(said.contains("member 4") && said.contains("none was started"), "{said}");
    let said =
        told(&host, &["submit", "--array", "0-1", "-o", "no/dir/%a", "--", "/bin/sh", "-c", ": >never"], 1);
    assert!(said.contains("no/dir/0"), "{said}");
    eventually("nothing of them is left", || {
        let left = host.status(&[]).jobs;
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    assert!(!host.work("never").exists());
}

/// The daemon dies: members stay members, and no more of them start than may.
fn across_a_restart(kind: Kind) {
    let mut host = Host::with(kind, &["slots.factor=4", "host.cpus=0"]);
    array(&host, &["--array", "0-2%1"], OWN);
    until(&host, "1_0", JobState::Running);
    host.crash();
    host.start_daemon();
    until(&host, "1_0", JobState::Running);
    let waits = |name: &str| json(&host, &["why", "--json", name])["cause"].as_str().unwrap_or("").to_owned();
    eventually("the last waits for its array", || {
        let cause = waits("1_2");
        if cause.contains("at most 1 may have started") { Ok(()) } else { Err(cause) }
    });
    host.make("go-0");
    until(&host, "1_1", JobState::Running);
    host.make("go-1");
    host.make("go-2");
    told(&host, &["wait", "1"], 0);
    assert!(host.work("done-2").exists());
}

/// Whether a member, the only one of its number among jobs too, is in the kernel's idle class; `None`: it is not there.
fn is_idle_class(host: &Host, kind: Kind, index: u32) -> Option<bool> {
    match kind {
        Kind::Groups => {
            let files = host.groups().into_iter().map(|group| group.join(format!("job-{index}/cpu.idle")));
            files.filter_map(|file| std::fs::read_to_string(file).ok()).map(|text| text.trim() == "1").next()
        }
        Kind::Rootless | Kind::Nobody => {
            let pid = host.wrote(&format!("pid-{index}"));
            // Where sessions are scheduling groups, a nice value of 19 takes the place of the idle class.
            let session = std::fs::read_to_string(format!("/proc/{}/autogroup", pid.trim()));
            if session.is_ok_and(|text| text.ends_with("nice 19\n")) {
                return Some(true);
            }
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).ok()?;
            // Field 41: 5 is SCHED_IDLE.
            stat.rsplit_once(')')?.1.split_whitespace().nth(38).map(|policy| policy == "5")
        }
    }
}

/// Beside a member that waits a backfiller stands back; the last of an array do not.
fn the_last_of_it_share_evenly(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=2", "host.cpus=0"]);
    array(&host, &["--array", "1-3"], &format!("echo $$ >pid-$PINFOLD_ARRAY_INDEX; {OWN}"));
    let why = |member: &str, wanted: &str| {
        eventually(&format!("{member}: {wanted}"), || {
            let why = json(&host, &["why", "--json", member]);
            let cause = why["cause"].as_str().expect("a cause").to_owned();
            if cause.contains(wanted) { Ok(()) } else { Err(why.to_string()) }
        });
    };
    // Without rights a thread does not leave the idle class again; a session's nice value does return to 0.
    let by_session = host.pinfold(["doctor"]).out.contains("of the job's session (autogroup)");
    let leaves = by_session || kind != Kind::Nobody && rustix::process::geteuid().is_root();
    let idle = |index: u32, wanted: bool| {
        eventually(&format!("{index} in the idle class: {wanted}"), || {
            let found = is_idle_class(&host, kind, index);
            if found == Some(wanted) || (!leaves && !wanted && found == Some(true)) {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        });
    };
    let pid = |index: u32| {
        eventually("its process number", || match host.wrote(&format!("pid-{index}")) {
            text if text.ends_with('\n') => Ok(()),
            text => Err(text),
        })
    };
    pid(2);
    why("1_2", "it runs in the cycles that primaries leave");
    idle(2, true);
    host.make("go-1");
    until(&host, "1_3", JobState::Running);
    why("1_3", "it is one of the last of its list");
    pid(3);
    idle(3, false);
    assert_eq!(json(&host, &["status", "--json", "1_3"])["jobs"][0]["class"], "backfill");
    // Another's job, which waits for a slot, ends that.
    let other = host.submit(&[], "true");
    why("1_3", "it runs in the cycles that primaries leave");
    idle(3, true);
    host.make("go-2");
    host.make("go-3");
    told(&host, &["wait", "1", &other.to_string()], 0);
}
