//! Daemons of two users share a host, without one of root's that would serve both. Needs root, who can be two users.

use pinfold_proto::JobState;
use pinfold_proto::view::{DoctorView, NeighboursView, StatusView, WhyView};
use pinfold_testkit::ignore;
use rustix::process::Signal;

use crate::host::{Host, send};
use crate::kind::{Kind, tests};
use crate::wait::{eventually, no_rescue};

const WAIT: &str = "until [ -e go ]; do sleep 0.05; done";
const SETTINGS: [&str; 2] = ["slots.factor=1", "host.neighbours=on"];

/// Two daemons that meet in one directory, each another user's.
fn two_users() -> [Host; 2] {
    for kind in [Kind::Nobody, Kind::Rootless] {
        kind.or_ignored();
    }
    let mut one = Host::without_daemon(Kind::Nobody, &SETTINGS);
    let mut other = Host::without_daemon(Kind::Rootless, &SETTINGS);
    other.meet(&one);
    // The second has to get at the directory in the first one's.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(one.path("."), open).expect("an open directory");
    one.start_daemon();
    other.start_daemon();
    [one, other]
}

fn shared(status: &StatusView) -> NeighboursView {
    *status.neighbours.clone().expect("the host is shared")
}

/// Waits until a host's daemon counts so many active users.
fn until_users(host: &Host, users: u64) -> StatusView {
    eventually(&format!("{users} users"), || {
        let status = host.status(&[]);
        let neighbours = shared(&status);
        // The scheduler has taken it in.
        if neighbours.users == users && status.slots.cores == neighbours.cores {
            return Ok(status);
        }
        Err(format!("{neighbours:?}, {:?}: {}", status.slots, host.daemon_said()))
    })
}

fn running(status: &StatusView) -> u64 {
    status.jobs.iter().filter(|job| job.state == JobState::Running).count() as u64
}

fn two_users_have_half_of_the_host_each() {
    let _guard = no_rescue();
    let [one, mut other] = two_users();
    let alone = until_users(&one, 1);
    let cores = shared(&alone).host_cores;
    if cores < 2 {
        ignore!("a host of one core has no half");
    }
    let jobs: Vec<u64> = (0..=cores).map(|_| one.submit(&[], WAIT)).collect();
    assert_eq!(until_users(&one, 1).slots.cores, cores, "an idle user's share is lent out");
    let _: Vec<u64> = (0..=cores).map(|_| other.submit(&[], WAIT)).collect();
    // Two looks, at daemons that hear of each other one after the other.
    let mine = eventually("each has its half", || {
        let both = [until_users(&one, 2), until_users(&other, 2)];
        let halves = both.iter().all(|status| {
            let share = shared(status);
            share.cores >= cores / 2 && status.memory.budget_bytes <= share.host_memory_bytes / 2
        });
        let [mine, theirs] = both;
        let fair = halves && shared(&mine).cores + shared(&theirs).cores == cores;
        if fair { Ok(mine) } else { Err(format!("{mine:?} {theirs:?}")) }
    });
    eventually("no more jobs run than there are cores", || {
        let both = [&one, &other].map(|host| running(&host.status(&[])));
        if both[0] + both[1] == cores { Ok(()) } else { Err(format!("{both:?}")) }
    });
    check_words(&one, *jobs.last().expect("there are jobs"));

    // A daemon that does not answer is not waited for, and its jobs have their share.
    send(other.daemon_pid(), Signal::STOP);
    assert_eq!(shared(&until_users(&one, 2)).cores, shared(&mine).cores);
    send(other.daemon_pid(), Signal::CONT);

    // One that is gone has none.
    other.crash();
    assert_eq!(until_users(&one, 1).slots.cores, cores);
    other.start_daemon();
    until_users(&one, 2);
    other.make("go");
    assert_eq!(until_users(&one, 1).slots.cores, cores);
    one.make("go");
    jobs.into_iter().for_each(|job| drop(one.until(job, JobState::Exited)));
}

/// That users share the host is said, by `status`, by `why` of a job that waits, and by `doctor`.
fn check_words(host: &Host, waits: u64) {
    let said = "2 users share this host: your share ";
    let status = host.pinfold(["status"]);
    assert!(status.out.contains(said), "{status:?}");
    let why = host.pinfold(["why", "--json", &waits.to_string()]);
    let why: WhyView = serde_json::from_str(&why.out).expect("JSON");
    let number = why.numbers.iter().find(|number| number.name == "the host");
    assert!(number.is_some_and(|number| number.text.starts_with(said)), "{why:?}");
    let doctor = host.pinfold(["doctor", "--json"]);
    let doctor: DoctorView = serde_json::from_str(&doctor.out).expect("JSON");
    let finding = doctor.findings.iter().find(|finding| finding.subject == "neighbours");
    assert!(finding.is_some_and(|finding| finding.ok && finding.found.contains(said)), "{finding:?}");
}

/// A job for all cores waits for another user's job, however that started first; two such jobs do not wait for each other.
fn a_job_for_all_cores_waits_for_the_neighbour() {
    let _guard = no_rescue();
    let [one, other] = two_users();
    let theirs = other.submit(&[], WAIT);
    let cores = shared(&until_users(&one, 2)).host_cores;
    if cores < 2 {
        ignore!("a host of one core has no half");
    }
    let all = format!("--cores={cores}");
    let wide = one.submit(&[&all], "true");
    let why = one.pinfold(["why", &wide.to_string()]);
    assert!(why.out.contains("with other users while they have jobs"), "{why:?}");
    let beyond = one.pinfold(["submit", &format!("--cores={}", cores + 1), "--", "true"]);
    assert_eq!(beyond.code, Some(5), "{beyond:?}");
    let memory = format!("--mem={}B", shared(&one.status(&[])).host_memory_bytes / 4 * 3);
    let large = one.submit(&[&memory], "true");
    one.until(large, JobState::Exited);
    let other_wide = other.submit(&[&all], "true");
    other.make("go");
    other.until(theirs, JobState::Exited);
    assert_eq!(one.until(wide, JobState::Exited).exit_code, Some(0));
    assert_eq!(other.until(other_wide, JobState::Exited).exit_code, Some(0));
}

/// A user who may write to the directory plants anything: nobody is found by it, and nobody is kept waiting.
fn what_is_planted_changes_nothing() {
    let _guard = no_rescue();
    let [one, other] = two_users();
    let place = one.path("neighbours");
    let name = |user: u32, number: u32| place.join(format!("pinfold-daemon.{user}.{number:016x}"));
    let give = |number: u32| std::os::unix::fs::lchown(name(4000, number), Some(4000), Some(4000));
    let fifo = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(rustix::fs::CWD, name(4000, 1), fifo, mode, 0).expect("a pipe");
    std::os::unix::fs::symlink("/dev/zero", name(4000, 2)).expect("a link");
    std::fs::write(name(4001, 0), entry(9)).expect("a file in another's name");
    std::fs::write(name(4000, 3), entry(9)).expect("a file that nobody holds");
    let huge = std::fs::File::create(name(4000, 4)).expect("a file");
    huge.set_len(1 << 40).expect("a huge one");
    (5..2000).for_each(|number| std::fs::write(name(4000, number), "").expect("one of many"));
    (1..2000).for_each(|number| give(number).expect("root gives files away"));
    let job = one.submit(&[], WAIT);
    one.until(job, JobState::Running);
    let status = until_users(&one, 1);
    assert_eq!(status.slots.cores, shared(&status).host_cores);
    // An honest neighbour among it is found.
    let theirs = other.submit(&[], WAIT);
    until_users(&one, 2);
    for host in [&one, &other] {
        host.make("go");
    }
    one.until(job, JobState::Exited);
    other.until(theirs, JobState::Exited);
    assert!(name(4000, 1).exists(), "what is another's stays");
}

fn entry(slots: u64) -> String {
    format!("pinfold 1 {slots:020} {0:020} {0:020} {0:020}\n", 0)
}

tests! {
    Once: two_users_have_half_of_the_host_each, a_job_for_all_cores_waits_for_the_neighbour,
        what_is_planted_changes_nothing;
}
