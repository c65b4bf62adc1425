//! Jobs that are asked for within what a workload manager, or other software that makes control groups, gave: they get no more,
//! and end when it ends who asked for them.

use std::path::Path;

use pinfold_proto::JobState;
use pinfold_testkit::ignore;
use rustix::process::Signal;

use crate::host::{Host, send};
use crate::kind::{Kind, tests};
use crate::process::Done;
use crate::wait::{eventually, looked_at};

tests! {
    Each: ends_with_its_keeper;
    Best: no_more_pus_than_its_manager_gave, no_more_than_the_groups_around_it,
        what_is_adopted_has_what_each_of_its_groups_lets_it_have, they_share_its_memory,
        what_grid_engine_gave;
}

const MINE: &str = "sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/self/status";

/// The last of the PUs that this process may use; a test is ignored where there is only one.
fn last_pu() -> String {
    let all = pinfold_sys::discover::allowed().expect("the PUs of this process");
    if all.iter().count() < 2 {
        ignore!("with one PU there is no fewer");
    }
    all.iter().last().expect("several").0.to_string()
}

/// `pinfold run` as a part of a job of Slurm's, bound to these PUs.
fn in_slurm(host: &Host, cpus: &str, arguments: &str) -> Done {
    host.shell(&format!("SLURM_JOB_ID=12 exec taskset -c {cpus} pinfold run {arguments}"))
}

fn no_more_pus_than_its_manager_gave(kind: Kind) {
    let last = last_pu();
    if !Path::new("/usr/bin/taskset").exists() {
        ignore!("there is no taskset");
    }
    let host = Host::new(kind);
    // Twice, so that another core would be the next one's turn.
    for _ in 0..2 {
        let done = in_slurm(&host, &last, &format!("-- /bin/sh -c \"{MINE}; echo \\$PINFOLD_CPUS\""));
        assert_eq!(done.out, format!("{last}\n{last}\n"), "{done:?}");
    }
    let done = in_slurm(&host, &last, "--cores 2 true");
    assert_eq!(done.code, Some(5), "{done:?}");
    assert!(done.err.contains("the client may use") && done.err.contains("Slurm 12"), "{done:?}");
    // What is bound by hand is not: that is for what binds.
    let done = host.shell(&format!("exec taskset -c {last} pinfold run --cores 2 -- true"));
    assert_eq!(done.code, Some(0), "{done:?}");
}

fn ends_with_its_keeper(kind: Kind) {
    let host = Host::new(kind);
    let script = "SLURM_JOB_ID=12 exec pinfold run -- /bin/sh -c 'trap \"\" TERM; : >ready; until [ -e go ]; do sleep 0.05; done'";
    let mut command = host.command("/bin/sh");
    command.args(["-c", script]).stdin(std::process::Stdio::null());
    let keeper = host.spawn(command);
    host.until_made("ready");
    let job = host.status(&[]).jobs[0].job;
    send(keeper.pid(), Signal::KILL);
    let view = host.until(job, JobState::Exited);
    assert!(view.reason.as_deref().is_some_and(|reason| reason.contains("Slurm 12")), "{view:?}");
    keeper.wait();
    // Nobody takes the place of a keeper whose job has not begun.
    let first = host.submit(&["--exclusive"], "until [ -e go ]; do sleep 0.05; done");
    host.until(first, JobState::Running);
    let done = host.shell("SLURM_JOB_ID=12 pinfold submit -o /dev/null -e /dev/null -- true");
    let second: u64 = done.out.trim().parse().unwrap_or_else(|_| panic!("a number: {done:?}"));
    let keepers = crate::host::processes_with("SLURM_JOB_ID=12");
    let own = host.socket().display().to_string();
    let of_this = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&own)
    };
    let keeper =
        eventually("its keeper", || keepers.iter().copied().find(of_this).ok_or(format!("{keepers:?}")));
    send(keeper, Signal::KILL);
    let view = host.until(second, JobState::Exited);
    assert_eq!((view.exit_code, view.started_s), (None, None), "{view:?}");
    host.make("go");
    host.until_exit_code(first, 0);
}

/// Groups of this test's own, gone with it.
struct Groups(Vec<String>);

impl Drop for Groups {
    fn drop(&mut self) {
        for group in &self.0 {
            let _ = std::fs::remove_dir(group);
        }
    }
}

fn no_more_than_the_groups_around_it(kind: Kind) {
    let last = last_pu();
    let [cpuset, memory] = ["cpuset", "memory"].map(|name| format!("/sys/fs/cgroup/{name}"));
    let writable = |top: &String| Path::new(top).join("cgroup.procs").exists();
    if kind != Kind::Groups
        || !rustix::process::geteuid().is_root()
        || ![&cpuset, &memory].into_iter().all(writable)
    {
        ignore!("only root can make groups of the first generation, where there are such");
    }
    let host = Host::new(kind);
    let groups = [cpuset, memory].map(|top| format!("{top}/asks-{}", host.instance()));
    let _groups = Groups(groups.to_vec());
    let [cpuset, memory] = &groups;
    let inside = format!(
        "mkdir -p {cpuset} {memory} && cat {cpuset}/../cpuset.mems >{cpuset}/cpuset.mems && echo {last} >{cpuset}/cpuset.cpus \
         && echo 67108864 >{memory}/memory.limit_in_bytes && echo $$ >{cpuset}/cgroup.procs && echo $$ >{memory}/cgroup.procs \
         || exit 99; "
    );
    let bound =
        "cat /sys/fs/cgroup/memory$(sed -n 's/.*:memory://p' /proc/self/cgroup)/memory.limit_in_bytes";
    let run = |options: &str| {
        host.shell(&format!(
            "{inside} pinfold run {options} -- /bin/sh -c \"{MINE}; {}\"",
            bound.replace('$', "\\$")
        ))
    };
    assert_eq!(run("").out, format!("{last}\n67108864\n"));
    assert_eq!(run("--mem-limit 32MiB").out, format!("{last}\n33554432\n"));
    let done = run("--mem 1GiB");
    assert_eq!(done.code, Some(5), "{done:?}");
    assert!(done.err.contains("--mem 1GiB is more than"), "{done:?}");
    // A job that a job hands over has what that has, which is not the cores that it runs on at the moment.
    let handed = format!(
        "pinfold run -- /bin/sh -c \"pinfold submit -o handed -e /dev/null -- /bin/sh -c \\\"{MINE}; : >done\\\"\""
    );
    let done = host.shell(&format!("{inside} {handed}"));
    assert_eq!(done.code, Some(0), "{done:?}");
    host.until_made("done");
    assert_eq!(host.wrote("handed"), format!("{last}\n"));
}

/// A parent in a group without a bound, and its child in one with.
fn what_is_adopted_has_what_each_of_its_groups_lets_it_have(kind: Kind) {
    if kind != Kind::Groups || !rustix::process::geteuid().is_root() || !has_memory_groups() {
        ignore!("only root can make groups of the first generation, where there are such");
    }
    let host = Host::with(kind, &["slots.factor=4"]);
    let loose = format!("{MEMORY}/asks-{}", host.instance());
    let tight = format!("{loose}/tight");
    let _groups = Groups(vec![tight.clone(), loose.clone()]);
    std::fs::create_dir_all(&tight).expect("root makes groups");
    std::fs::write(format!("{tight}/memory.limit_in_bytes"), (64 * MIB).to_string()).expect("bounded");
    let moved = |pid: u32, group: &str| {
        std::fs::write(format!("{group}/cgroup.procs"), pid.to_string()).expect("moved");
    };
    let family = |name: &str| {
        let mut command = host.command("/bin/sh");
        let script = format!("sleep 1000 & echo $! >{name}; until [ -e go ]; do sleep 0.05; done; kill $!");
        command.args(["-c", &script]).stdin(std::process::Stdio::null());
        let parent = host.spawn(command);
        let child = eventually("it has a child", || {
            let text = host.wrote(name);
            text.strip_suffix('\n').and_then(|text| text.parse::<u32>().ok()).ok_or(text)
        });
        moved(parent.pid(), &loose);
        (parent, child)
    };
    let adopt = |pid: u32, options: &[&str]| -> u64 {
        let pid = pid.to_string();
        let done = looked_at(|| host.pinfold([&["adopt", "--pid", &pid], options].concat()));
        done.out.trim().parse().unwrap_or_else(|_| panic!("a number: {done:?}"))
    };
    let (parent, child) = family("bounded");
    moved(child, &tight);
    let job = adopt(parent.pid(), &[]);
    host.until(job, JobState::Running);
    let path = format!("{MEMORY}/pinfold/{}/job-{job}/memory.limit_in_bytes", host.instance());
    let bound = std::fs::read_to_string(path).expect("the job's group");
    assert_eq!(bound.trim().parse(), Ok(64 * MIB));
    // Bounded after it was asked for, and before its turn.
    let (other, child) = family("later");
    moved(child, &loose);
    let job = adopt(other.pid(), &["--hold"]);
    moved(child, &tight);
    host.succeeds(["release", &job.to_string()]);
    let view = host.until(job, JobState::Exited);
    assert!(view.reason.as_deref().is_some_and(|reason| reason.contains("memory 64MiB")), "{view:?}");
    let groups = std::fs::read_to_string(format!("/proc/{child}/cgroup")).expect("it lives");
    assert!(groups.contains("/tight\n"), "{groups}");
    host.make("go");
    parent.wait();
    other.wait();
    have_no_pu_in_common(&host);
}

/// Two processes that have no PU in common would have none as a job, or all.
fn have_no_pu_in_common(host: &Host) {
    let cpuset = "/sys/fs/cgroup/cpuset";
    let last = last_pu();
    if !Path::new(cpuset).join("cgroup.procs").exists() {
        ignore!("no first-generation cpusets here");
    }
    let first = pinfold_sys::discover::allowed().expect("the PUs of this process").iter().next();
    let top = format!("{cpuset}/asks-{}", host.instance());
    let groups: Vec<String> = ["first", "last"].iter().map(|name| format!("{top}/{name}")).collect();
    let _groups = Groups(groups.iter().cloned().chain([top.clone()]).collect());
    let copied = |file: &str| std::fs::read_to_string(format!("{cpuset}/{file}")).expect("it tells");
    let made = |group: &str, cpus: &str| {
        std::fs::create_dir_all(group).expect("root makes groups");
        std::fs::write(format!("{group}/cpuset.mems"), copied("cpuset.mems")).expect("it has memory");
        std::fs::write(format!("{group}/cpuset.cpus"), cpus).expect("bounded");
    };
    made(&top, &copied("cpuset.cpus"));
    made(&groups[0], &first.expect("one").0.to_string());
    made(&groups[1], &last);
    let script = "echo $$ >FIRST/cgroup.procs; sh -c 'echo $$ >LAST/cgroup.procs; : >apart; exec sleep 1000' & \
                  until [ -e come ]; do sleep 0.05; done; kill $!";
    let script = script.replace("FIRST", &groups[0]).replace("LAST", &groups[1]);
    let mut command = host.command("/bin/sh");
    command.args(["-c", &script]).stdin(std::process::Stdio::null());
    let parent = host.spawn(command);
    host.until_made("apart");
    let done = looked_at(|| host.pinfold(["adopt", "--pid", &parent.pid().to_string()]));
    host.make("come");
    parent.wait();
    assert!(done.code == Some(5) && done.err.contains("none in common"), "{done:?}");
}

const MIB: u64 = 1 << 20;

/// A part of a job of Grid Engine's with two slots of 32 MiB each, which says so in a file.
const IN_GRID_ENGINE: &str = "mkdir -p spool && printf \"h_vmem=32M\\nhost_slots=2\\nbinding=NULL\\n\" >spool/config || exit 99; \
     export SGE_ROOT=/nowhere SGE_TASK_ID=undefined JOB_ID=3 SGE_JOB_SPOOL_DIR=\"$PWD/spool\"; ";

fn what_grid_engine_gave(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=2"]);
    let done = host.shell(&format!("{IN_GRID_ENGINE} pinfold run --mem 65MiB -- true"));
    assert_eq!(done.code, Some(5), "{done:?}");
    assert!(done.err.contains("64MiB (Grid Engine 3)"), "{done:?}");
    let done = host.shell(&format!("{IN_GRID_ENGINE} pinfold run --mem 64MiB -- true"));
    assert_eq!(done.code, Some(0), "{done:?}");
    // A part of a job has what the job has.
    let done = host
        .shell(&format!("pinfold run -- /bin/sh -c '{IN_GRID_ENGINE} exec pinfold run --mem 65MiB -- true'"));
    assert_eq!(done.code, Some(0), "{done:?}");
    if kind == Kind::Groups && rustix::process::geteuid().is_root() && has_memory_groups() {
        share(&host, IN_GRID_ENGINE);
    }
}

/// Whether there are groups of the first generation that bound memory.
fn has_memory_groups() -> bool {
    Path::new(MEMORY).join("cgroup.procs").exists()
}

const MEMORY: &str = "/sys/fs/cgroup/memory";

/// Two jobs of one allocation: each may have what it has and what neither has.
fn they_share_its_memory(kind: Kind) {
    let memory = MEMORY;
    if kind != Kind::Groups || !rustix::process::geteuid().is_root() || !has_memory_groups() {
        ignore!("only root can make groups of the first generation, where there are such");
    }
    let host = Host::with(kind, &["slots.factor=2"]);
    let group = format!("{memory}/asks-{}", host.instance());
    let _groups = Groups(vec![group.clone()]);
    let inside = format!(
        "mkdir -p {group} && echo {} >{group}/memory.limit_in_bytes && echo $$ >{group}/cgroup.procs || exit 99; ",
        64 * MIB
    );
    share(&host, &inside);
    // The keeper of each was in that group.
    eventually("the group is empty", || {
        let left = std::fs::read_to_string(format!("{group}/cgroup.procs")).unwrap_or_default();
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
}

/// Two jobs that are handed over from `inside`, which gives them 64 MiB.
fn share(host: &Host, inside: &str) {
    let memory = MEMORY;
    let submit = |script: &str| -> u64 {
        let done = host
            .shell(&format!("{inside} pinfold submit -o /dev/null -e /dev/null -- /bin/sh -c \"{script}\""));
        done.out.trim().parse().unwrap_or_else(|_| panic!("a number: {done:?}"))
    };
    // What has no line's end is kept whole.
    let holds =
        "(head -c 25165824 /dev/zero; : >held; until [ -e first ]; do sleep 0.05; done) | tail -n 1 | wc -c";
    let first = submit(holds);
    let second = submit("until [ -e second ]; do sleep 0.05; done");
    host.until(second, JobState::Running);
    let instance = host.instance();
    let limit = |job: u64| -> u64 {
        let path = format!("{memory}/pinfold/{instance}/job-{job}/memory.limit_in_bytes");
        std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    };
    host.until_made("held");
    eventually("the second may have what the first has not", || match limit(second) {
        bytes if (30 * MIB..=41 * MIB).contains(&bytes) => Ok(()),
        bytes => Err(format!("{bytes}, and the first {}", limit(first))),
    });
    assert!(limit(first) > 55 * MIB, "which may have nearly all: {}", limit(first));
    host.make("first");
    host.until_exit_code(first, 0);
    eventually("all is the second's", || match limit(second) {
        bytes if bytes == 64 * MIB => Ok(()),
        bytes => Err(bytes),
    });
    host.make("second");
    host.until_exit_code(second, 0);
}
