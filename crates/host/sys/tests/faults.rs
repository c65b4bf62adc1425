//! Faults in control groups, one at a time, on fake hierarchies.

use std::path::Path;
use std::time::{Duration, Instant};

use pinfold_sys::cgroup::Group;
use pinfold_sys::container::{
    Applied, ContainerError, Containers, Detail, Entered, Removed, Rescue, Shape, Share, rescue,
    rescue_instance,
};
use pinfold_sys::mode::{AbilityName, Mode, Via, decide, probe};
use pinfold_testkit::fake::FakeHost;
use pinfold_testkit::ignore;
use rustix::io::Errno;

type Make = fn(&Path) -> std::io::Result<FakeHost>;

const HOSTS: [(&str, Make); 3] =
    [("unified", FakeHost::unified), ("hybrid", FakeHost::hybrid), ("first", FakeHost::first_only)];

fn open(host: &FakeHost) -> Containers {
    let plan = decide(&probe(&host.probe_roots()), None).expect("a mode");
    Containers::open(plan, host.roots(), "main").expect("the instance opens")
}

/// Runs a test on every kind of fake host.
fn on_every_host(test: impl Fn(&str, &FakeHost)) {
    for (name, make) in HOSTS {
        let dir = tempfile::tempdir().expect("a directory");
        test(name, &make(dir.path()).expect("a fake host"));
    }
}

fn jobs_groups(host: &FakeHost) -> Vec<String> {
    host.groups().into_iter().filter(|group| group.contains("/job-")).collect()
}

fn a_container_that_cannot_be_shaped_leaves_nothing_behind() {
    on_every_host(|name, host| {
        let containers = open(host);
        for file in ["cpu.idle", "cpu.weight", "cpu.shares", "memory.max", "memory.limit_in_bytes"] {
            host.refuse(file, Errno::IO);
        }
        let shapes = [
            Shape { share: Share::Idle, ..Shape::default() },
            Shape { share: Share::Normal { weight: 7 }, ..Shape::default() },
            Shape { limit_bytes: Some(1 << 30), ..Shape::default() },
        ];
        for shape in shapes {
            let Err(ContainerError::Cgroup(error)) = containers.create(5, &shape) else {
                panic!("{name}: {shape:?} was made in spite of the fault")
            };
            assert_eq!(error.errno(), Some(Errno::IO), "{name}");
            assert!(error.to_string().starts_with("failed to write `"), "{error}");
            assert_eq!(jobs_groups(host), Vec::<String>::new(), "{name}: {shape:?}");
        }
        // A shape that needs none of the broken files is made all the same.
        assert!(containers.create(5, &Shape::default()).is_ok(), "{name}");
    });
}

fn a_failed_wish_can_be_repeated() {
    on_every_host(|name, host| {
        let containers = open(host);
        let mut container = containers.create(1, &Shape::default()).expect("created");
        host.refuse("cpu.idle", Errno::IO);
        assert!(container.share(Share::Idle).is_err(), "{name}");
        host.allow("cpu.idle");
        assert_eq!(container.share(Share::Idle).expect("now it can"), Applied::Done);
        let group =
            jobs_groups(host).into_iter().find(|group| host.read(&format!("{group}/cpu.idle")).is_ok());
        let group = group.expect("a group with the file");
        assert_eq!(host.read(&format!("{group}/cpu.idle")).expect("readable"), "1\n", "{name}");
    });
}

fn a_missing_file_is_an_error_to_write_and_nothing_to_read() {
    on_every_host(|name, host| {
        for file in [
            "memory.stat",
            "memory.peak",
            "memory.max_usage_in_bytes",
            "cpu.stat",
            "memory.limit_in_bytes",
            "memory.max",
        ] {
            host.leave_out(file);
        }
        let containers = open(host);
        let mut container = containers.create(1, &Shape::default()).expect("created");
        let measure = container.measure(Detail::Processes).expect("a reading of what is there");
        assert_eq!((measure.memory_peak_kernel_bytes, measure.cache_bytes), (None, None), "{name}");
        let Err(ContainerError::Cgroup(error)) = container.limit(Some(1 << 30)) else {
            panic!("{name}: a bound was set without a file for it")
        };
        assert!(error.is_gone(), "{name}: {error}");
    });
}

fn a_group_removed_by_someone_else_is_empty_and_removable() {
    on_every_host(|name, host| {
        let containers = open(host);
        let container = containers.create(1, &Shape::default()).expect("created");
        let stranger = containers.adopt(1, None).expect("adopt").expect("there");
        assert!(matches!(stranger.remove().expect("removed"), Removed::Yes));
        assert_eq!(container.pids().expect("an answer"), [], "{name}");
        assert!(!container.is_populated().expect("an answer"), "{name}");
        container.kill().expect("nobody to kill");
        assert_eq!(container.measure(Detail::Totals).expect("an answer").processes, 0);
        assert!(matches!(container.remove().expect("an answer"), Removed::Yes), "{name}");
    });
}

fn groups_that_a_crash_left_half_made_are_completed() {
    on_every_host(|name, host| {
        let containers = open(host);
        let container = containers.create(9, &Shape::default()).expect("created");
        container.close_doors().expect("in every hierarchy");
        let whole = jobs_groups(host);
        drop(container);
        if whole.len() < 2 {
            return;
        }
        // The daemon died after the first group was made.
        let roots = host.roots();
        for group in &whole[1..] {
            let path = roots.cgroup.join(group);
            let parent = path.parent().expect("below the top");
            let parent =
                pinfold_sys::cgroup::Group::open(parent, roots.fake.clone()).expect("open").expect("there");
            parent.remove("job-9", false).expect("removed");
        }
        assert_eq!(jobs_groups(host), whole[..1], "{name}");
        assert_eq!(containers.list().expect("list"), [9], "{name}");
        let adopted = containers.adopt(9, None).expect("adopt").expect("there");
        assert_eq!(jobs_groups(host), whole, "{name}");
        assert!(matches!(adopted.remove().expect("removed"), Removed::Yes), "{name}");
        assert_eq!(jobs_groups(host), Vec::<String>::new(), "{name}");
    });
}

fn controllers_that_cannot_be_handed_down_are_done_without() {
    let dir = tempfile::tempdir().expect("a directory");
    let host = FakeHost::unified(dir.path()).expect("a fake host");
    host.refuse("cgroup.subtree_control", Errno::INVAL);
    let containers = open(&host);
    let plan = containers.plan();
    assert_eq!(plan.mode, Mode::V2);
    assert_eq!(plan.via(AbilityName::Freeze), Via::V2, "that needs no controller");
    assert_eq!(plan.via(AbilityName::Pin), Via::Processes);
    assert!(!plan.ability(AbilityName::Limit).real);
    let container = containers.create(1, &Shape { share: Share::Idle, ..Shape::default() }).expect("created");
    assert!(matches!(container.remove().expect("removed"), Removed::Yes));
}

fn a_host_in_which_no_group_can_be_made_is_rootless() {
    let dir = tempfile::tempdir().expect("a directory");
    let host = FakeHost::hybrid(dir.path()).expect("a fake host");
    for mount in ["cpu", "cpuset", "memory", "pids", "unified"] {
        host.forbid_groups(mount);
    }
    let facts = probe(&host.probe_roots());
    assert!(facts.hierarchies.iter().all(|one| !one.writable), "{:?}", facts.hierarchies);
    assert_eq!(decide(&facts, None).expect("a mode").mode, Mode::Rootless);
    assert!(decide(&facts, Some(Mode::Hybrid)).is_err() && decide(&facts, Some(Mode::V2)).is_err());
}

fn a_probe_leaves_nothing_behind() {
    on_every_host(|name, host| {
        let before = host.groups();
        let facts = probe(&host.probe_roots());
        assert!(facts.hierarchies.iter().all(|one| one.writable), "{name}");
        assert_eq!(host.groups(), before, "{name}");
        let containers = open(host);
        let instance = format!("{}/main", "pinfold");
        assert!(probe(&host.probe_roots()).leftovers.iter().all(|path| path.ends_with(&instance)), "{name}");
        containers.close();
        assert_eq!(host.groups(), before, "{name}: closing an instance removes its groups");
    });
}

fn names_that_could_lead_elsewhere_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let host = FakeHost::unified(dir.path()).expect("a fake host");
    let plan = decide(&probe(&host.probe_roots()), None).expect("a mode");
    let long = "x".repeat(33);
    for name in ["", ".", "..", "a/b", "A", "a b", "\u{e4}", long.as_str()] {
        let opened = Containers::open(plan.clone(), host.roots(), name);
        assert!(matches!(opened, Err(ContainerError::Instance(_))), "{name:?}");
    }
}

fn a_rescue_reports_what_it_could_not_do() {
    let dir = tempfile::tempdir().expect("a directory");
    let host = FakeHost::unified(dir.path()).expect("a fake host");
    let containers = open(&host);
    let mut container =
        containers.create(1, &Shape { limit_bytes: Some(1 << 30), ..Shape::default() }).expect("made");
    // The fake hierarchy stops real processes.
    let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("a process");
    container.enter(child.id()).expect("entered");
    container.freeze().expect("freeze");
    host.refuse("memory.max", Errno::IO);
    let left = rescue(&host.probe_roots());
    assert!(
        left.rescued.is_empty() && left.alive.contains("main"),
        "these are a daemon's that lives: {left:?}"
    );
    let rescued = rescue_instance(&host.probe_roots(), "main").rescued;
    let failed: Vec<&str> = rescued.iter().filter(|one| one.failure.is_some()).map(|one| one.done).collect();
    assert_eq!(failed, ["lifted the bound on memory"], "{rescued:?}");
    assert!(
        rescued.iter().any(|one| one.done == "thawed" && one.failure.is_none()),
        "one fault stops nothing else"
    );
    assert!(!container.is_frozen().expect("thawed"));
    child.kill().and_then(|()| child.wait()).expect("ended");
}

fn inherited_settings_are_not_written() {
    on_every_host(|name, host| {
        let containers = open(host);
        // Nothing may be written for a job of the usual shape: each write would fail.
        for file in [
            "cpu.idle",
            "cpu.weight",
            "cpu.shares",
            "cpuset.cpus",
            "cpuset.mems",
            "memory.max",
            "memory.limit_in_bytes",
        ] {
            host.refuse(file, Errno::IO);
        }
        let mut container = containers.create(1, &Shape::default()).expect("no write is needed");
        assert_eq!(container.share(Share::NORMAL).expect("nothing to do"), Applied::Done, "{name}");
        assert_eq!(container.limit(None).expect("nothing to do"), Applied::Done, "{name}");
    });
}

/// A child that lives until it is dropped.
struct Bystander(std::process::Child);

impl Bystander {
    fn start() -> Self {
        let mut command = std::process::Command::new("cat");
        let command = command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        Self(command.spawn().expect("cat starts"))
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn a_group_handed_to_us_is_emptied_before_it_hands_anything_down() {
    let (shell, job) = (Bystander::start(), Bystander::start());
    let dir = tempfile::tempdir().expect("a directory");
    let host = match FakeHost::delegated(dir.path(), &[shell.0.id()]) {
        Ok(host) => host,
        Err(error) => ignore!("a fake delegated group: {error}"),
    };
    let containers = open(&host);
    let tree = containers.plan().tree().expect("the unified hierarchy");
    assert_eq!((tree.base.as_str(), tree.delegated), ("box", true));
    assert!(containers.plan().abilities.iter().all(|ability| ability.via == Via::V2));
    assert_eq!(
        host.read("box/pinfold-daemon/cgroup.procs").expect("the leaf"),
        format!("{}\n", shell.0.id())
    );
    let container = containers.create(1, &Shape::default()).expect("created");
    assert_eq!(container.enter(job.0.id()).expect("enter"), Entered::Yes);
    assert_eq!(container.pids().expect("pids"), [job.0.id()]);
    // The next daemon of the same user finds itself in the leaf, and goes on in the same group.
    std::fs::write(dir.path().join("proc/self/cgroup"), "0::/box/pinfold-daemon\n").expect("written");
    assert_eq!(open(&host).list().expect("list"), [1]);
}

/// The containers of a daemon to which a service manager handed this group.
fn open_in(host: &FakeHost, base: &str) -> Containers {
    let roots = host.roots();
    let mut group = Group::open(&roots.cgroup, roots.fake.clone()).expect("opened").expect("the top");
    for name in base.split('/') {
        group.write("cgroup.subtree_control", "+cpu +cpuset +io +memory +pids").expect("handed down");
        group = group.make(name).expect("made").0;
    }
    let mut facts = probe(&host.probe_roots());
    (facts.hierarchies[0].base, facts.hierarchies[0].delegated) = (base.to_owned(), true);
    Containers::open(decide(&facts, None).expect("a mode"), roots, "main").expect("the instance opens")
}

fn jobs_of_the_earlier_layout_stay_in_their_groups() {
    let process = Bystander::start();
    let dir = tempfile::tempdir().expect("a directory");
    let host = FakeHost::unified(dir.path()).expect("a fake host");
    let earlier = "system.slice/pinfoldd.service";
    let job = open_in(&host, earlier).create(1, &Shape::default()).expect("created");
    assert_eq!(job.enter(process.0.id()).expect("enter"), Entered::Yes);
    drop(job);

    let base = "system.slice/pinfold-jobs.service";
    let containers = open_in(&host, base);
    assert_eq!(containers.list().expect("list"), [1]);
    let mut job = containers.adopt(1, None).expect("adopted").expect("it is there");
    assert_eq!(job.pids().expect("pids"), [process.0.id()]);
    assert_eq!(job.limit(Some(1 << 26)).expect("limited"), Applied::Done);
    let limit = format!("{earlier}/pinfold/main/job-1/memory.max");
    assert_eq!(host.read(&limit).expect("readable"), "67108864\n");
    containers.create(2, &Shape::default()).expect("created");
    let groups = [format!("{base}/pinfold/main/job-2"), format!("{earlier}/pinfold/main/job-1")];
    assert_eq!(jobs_groups(&host), groups);

    drop(process);
    assert!(matches!(job.remove().expect("removed"), Removed::Yes));
    assert_eq!(jobs_groups(&host), [format!("{base}/pinfold/main/job-2")]);
    // The next daemon removes the instance's group there.
    drop(open_in(&host, base));
    assert!(!host.groups().contains(&format!("{earlier}/pinfold/main")));
}

fn flock(group: &Path, how: rustix::fs::FlockOperation) -> std::fs::File {
    let opened = std::fs::File::open(group).expect("every user can open it");
    rustix::fs::flock(&opened, how).expect("locked");
    opened
}

/// Rescues the jobs of a killed daemon. A child of another test, started at this moment, has the mark open until it
/// executes its program.
fn rescue_once_dead(host: &FakeHost) -> Rescue {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let left = rescue(&host.probe_roots());
        if !left.is_roots_alive || Instant::now() > deadline {
            return left;
        }
        std::thread::yield_now();
    }
}

/// Every user can lock the directory of a group of root's.
fn a_users_lock_of_roots_group_is_no_mark() {
    use rustix::fs::FlockOperation::{LockExclusive, LockShared};
    if !rustix::process::geteuid().is_root() {
        ignore!("the group is root's");
    }
    on_every_host(|name, host| {
        let own: Vec<_> = {
            let containers = open(host);
            let groups = host.groups().into_iter().filter(|group| group.ends_with("pinfold/main"));
            let own = groups.map(|group| host.roots().cgroup.join(group)).collect();
            drop(containers);
            own
        };
        let theirs: Vec<_> = own.iter().map(|group| flock(group, LockExclusive)).collect();
        assert!(!theirs.is_empty(), "{name}");
        let containers = open(host);
        let mut container =
            containers.create(1, &Shape { limit_bytes: Some(1 << 30), ..Shape::default() }).expect("made");
        let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("a process");
        container.enter(child.id()).expect("entered");
        container.freeze().expect("frozen");
        let left = rescue(&host.probe_roots());
        assert!(left.rescued.is_empty() && left.is_roots_alive, "{name}, locked before it began: {left:?}");
        drop(theirs);
        // As when its daemon is killed.
        drop((container, containers));
        let theirs: Vec<_> = own.iter().map(|group| flock(group, LockShared)).collect();
        let left = rescue_once_dead(host);
        assert!(left.alive.is_empty() && !left.is_roots_alive, "{name}: {left:?}");
        assert!(left.rescued.iter().any(|one| one.done == "thawed"), "{name}: {left:?}");
        child.kill().and_then(|()| child.wait()).expect("ended");
        drop(theirs);
    });
}

/// A user can give a group in a tree of their own the name of root's instance.
fn a_users_mark_says_nothing_of_roots_instance_of_that_name() {
    if !rustix::process::geteuid().is_root() {
        ignore!("one group is root's and one is not");
    }
    on_every_host(|name, host| {
        let containers = open(host);
        let group = host.groups().into_iter().find(|group| group.ends_with("pinfold/main")).expect("made");
        let top = host.roots().cgroup.join(group.trim_end_matches("pinfold/main"));
        drop(containers.create(1, &Shape::default()).expect("made"));
        drop(containers);
        // It is looked at first.
        let planted = top.join("a/pinfold/main");
        std::fs::create_dir_all(&planted).expect("planted");
        std::os::unix::fs::chown(&planted, Some(65534), None).expect("a user's");
        let theirs = flock(&planted, rustix::fs::FlockOperation::LockShared);
        let left = rescue_once_dead(host);
        assert!(left.alive.contains("main") && !left.is_roots_alive, "{name}: {left:?}");
        assert!(!host.groups().contains(&group), "{name}: root's is removed as nobody uses it: {left:?}");
        drop(theirs);
    });
}

pinfold_testkit::trials! {
    a_container_that_cannot_be_shaped_leaves_nothing_behind, a_failed_wish_can_be_repeated,
    a_missing_file_is_an_error_to_write_and_nothing_to_read,
    a_group_removed_by_someone_else_is_empty_and_removable,
    groups_that_a_crash_left_half_made_are_completed,
    controllers_that_cannot_be_handed_down_are_done_without,
    a_host_in_which_no_group_can_be_made_is_rootless, a_probe_leaves_nothing_behind,
    names_that_could_lead_elsewhere_are_refused, a_rescue_reports_what_it_could_not_do,
    inherited_settings_are_not_written, a_group_handed_to_us_is_emptied_before_it_hands_anything_down,
    jobs_of_the_earlier_layout_stay_in_their_groups,
    a_users_lock_of_roots_group_is_no_mark, a_users_mark_says_nothing_of_roots_instance_of_that_name,
}
