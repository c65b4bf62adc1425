use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::*;

#[test]
fn activity_is_seen_and_an_idle_process_costs_nothing() {
    let proc = Proc::open(Path::new("/proc")).unwrap();
    let mut child = Command::new("/bin/cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    // Once it has answered it waits, and does nothing more by itself.
    child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let mut members = Members::default();
    members.read(&proc, &[pid], u64::MAX, Some(1), &mut { usize::MAX });
    let met = members.changed().to_vec();
    assert_eq!(met.len(), 1, "one that is new has changed");
    assert_eq!((met[0].pid, met[0].parent, met[0].threads), (pid, std::process::id(), 1));
    assert!(members.sums().virtual_bytes > 1 << 20);
    members.read(&proc, &[pid], u64::MAX, Some(1), &mut { usize::MAX });
    assert!(members.changed().is_empty(), "nobody ran, by the job's own count");
    child.kill().unwrap();
    child.wait().unwrap();
    members.read(&proc, &[pid], u64::MAX, Some(2), &mut { usize::MAX });
    assert!(members.changed().is_empty());
    assert_eq!(members.sums(), Sums::default(), "a kept file says that its process is gone");
}

#[test]
fn use_of_children_is_not_the_parents_and_is_in_the_sum() {
    let proc = Proc::open(Path::new("/proc")).unwrap();
    let script = "dd if=/dev/zero of=/dev/null bs=1 count=3000 2>/dev/null; echo; read line";
    let mut child = Command::new("/bin/sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let mut members = Members::default();
    members.read(&proc, &[pid], u64::MAX, None, &mut { usize::MAX });
    let own = members.changed()[0].io.unwrap();
    assert!(own.read_calls < 1000 && own.write_calls < 1000, "a shell's own calls: {own:?}");
    let sums = members.sums();
    assert!(sums.io_read_calls >= Some(3000) && sums.io_write_calls >= Some(3000), "{sums:?}");
    assert!(sums.faults_minor > members.changed()[0].faults_minor, "{sums:?}");
    // It waits for its child, or, if that was over before it looked, for its input.
    let deadline = Instant::now() + Duration::from_secs(120);
    while let Some(turns) = proc.turns(pid).unwrap().filter(|turns| turns.voluntary == 0) {
        assert!(Instant::now() < deadline, "it never waited: {turns:?}");
        std::thread::yield_now();
    }
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!((proc.own_io(pid).unwrap(), proc.turns(pid).unwrap()), (None, None), "it is gone");
}

#[test]
fn use_of_children_is_never_the_parents_at_any_moment() {
    let proc = Proc::open(Path::new("/proc")).unwrap();
    let script = "dd if=/dev/zero of=/dev/null bs=1 count=5000 2>/dev/null; exit";
    let mut most = 0;
    for _ in 0..20 {
        let mut child = Command::new("/bin/sh").args(["-c", script]).spawn().unwrap();
        while child.try_wait().unwrap().is_none() {
            // A new process is read completely.
            let mut members = Members::default();
            members.read(&proc, &[child.id()], u64::MAX, None, &mut { usize::MAX });
            let own = members.changed().iter().filter_map(|member| member.io).map(|io| io.read_calls);
            most = own.fold(most, u64::max);
        }
    }
    assert!(most < 2500, "a shell's own calls: {most}");
}

#[test]
fn still_processes_are_read_less_often() {
    // The kernel determines real processes' activity: it takes memory even of sleeping processes.
    let root = tempfile::tempdir().unwrap();
    let pids: Vec<u32> = (100..=100 + u32::try_from(FEW).unwrap()).collect();
    for pid in &pids {
        let dir = root.path().join(pid.to_string());
        std::fs::create_dir(&dir).unwrap();
        let stat = format!(
            "{pid} (cat) S 1 {pid} {pid} 0 -1 0 5 0 0 0 1 2 0 0 20 0 1 0 7 4096000 90 {}",
            "0 ".repeat(28)
        );
        std::fs::write(dir.join("stat"), stat).unwrap();
    }
    let proc = Proc::open(root.path()).unwrap();
    let mut members = Members::default();
    for _ in 0..200 {
        members.read(&proc, &pids, u64::MAX, None, &mut { usize::MAX });
    }
    assert_eq!(members.kept.len(), pids.len());
    assert_eq!(members.changed.capacity(), 0, "nothing is kept for those that do nothing");
    assert!(members.kept.values().all(|kept| kept.readings == 1), "{members:?}");
    // The first after 2, 4 and 8 rounds, then each tenth.
    assert!(members.kept.values().all(|kept| (20..30).contains(&kept.still)), "{members:?}");
    let busy = root.path().join(pids[0].to_string()).join("stat");
    let text = std::fs::read_to_string(&busy).unwrap().replace(" 1 2 0 0 20 ", " 9 2 0 0 20 ");
    std::fs::write(&busy, text).unwrap();
    let seen = (0..10).any(|_| {
        members.read(&proc, &pids, u64::MAX, None, &mut { usize::MAX });
        members.changed().iter().any(|member| member.pid == pids[0])
    });
    assert!(seen, "one that does something again is seen within ten rounds");
}

#[test]
fn many_processes_are_read_in_parts_and_each_has_its_turn() {
    let root = tempfile::tempdir().unwrap();
    let pids: Vec<u32> = (100..110).collect();
    let write = |pid: u32, faults: u32| {
        let stat = format!(
            "{pid} (cat) S 1 {pid} {pid} 0 -1 0 {faults} 0 0 0 1 2 0 0 20 0 1 0 7 1000 90 {}",
            "0 ".repeat(28)
        );
        std::fs::write(root.path().join(pid.to_string()).join("stat"), stat).unwrap();
    };
    pids.iter().for_each(|pid| std::fs::create_dir(root.path().join(pid.to_string())).unwrap());
    let proc = Proc::open(root.path()).unwrap();
    let mut members = Members::default();
    let mut seen = Vec::new();
    for round in 0..5 {
        pids.iter().for_each(|&pid| write(pid, round));
        let mut left = 4;
        // No process ran since the last reading, by the job's own count: that reading did not reach all of them.
        members.read(&proc, &pids, u64::MAX, Some(1), &mut left);
        seen.extend(members.changed().iter().map(|member| member.pid));
        assert!(members.changed().len() <= 4 && left == 4 - members.changed().len());
    }
    assert_eq!(seen[..10], [100, 101, 102, 103, 104, 105, 106, 107, 108, 109]);
    assert_eq!(members.sums().virtual_bytes, 10_000, "those not read this time count as they were");
}

/// A process of a `/proc` that is made up, which started then.
fn made_up(root: &Path, pid: u32, start_ticks: u64) -> std::path::PathBuf {
    let dir = root.join(pid.to_string());
    std::fs::create_dir_all(&dir).unwrap();
    let rest = "0 ".repeat(28);
    let stat = format!("{pid} (a) S 1 1 1 0 -1 0 5 0 0 0 1 2 0 0 20 0 1 0 {start_ticks} 1000 90 {rest}");
    std::fs::write(dir.join("stat"), stat).unwrap();
    dir
}

#[test]
fn a_process_started_after_the_list_is_no_member() {
    let root = tempfile::tempdir().unwrap();
    [(1, 70), (2, 71), (3, 72)].into_iter().for_each(|(pid, start)| drop(made_up(root.path(), pid, start)));
    let proc = Proc::open(root.path()).unwrap();
    let mut members = Members::default();
    let read = |members: &mut Members, listed_ticks: u64| {
        members.read(&proc, &[1, 2, 3], listed_ticks, None, &mut { usize::MAX });
        members.changed().iter().map(|member| (member.pid, member.start_ticks)).collect::<Vec<_>>()
    };
    assert_eq!(read(&mut members, 71), [(1, 70), (2, 71)]);
    assert_eq!(read(&mut members, 72), [(3, 72)], "it is on a later list");
    let now = super::super::ticks_now();
    let own = Proc::open(Path::new("/proc")).unwrap().stat(std::process::id()).unwrap().unwrap();
    assert!(own.start_ticks <= now && now <= super::super::ticks_now(), "{own:?} {now}");
}

#[test]
fn a_command_line_is_another_process_if_the_number_is() {
    let root = tempfile::tempdir().unwrap();
    let dir = made_up(root.path(), 7, 70);
    let made = Command::new("mkfifo").arg(dir.join("cmdline")).status().unwrap();
    assert!(made.success());
    let proc = Proc::open(root.path()).unwrap();
    let read = std::thread::spawn(move || {
        let mut members = Members::default();
        members.read(&proc, &[7], 70, None, &mut { usize::MAX });
        members.changed().to_vec()
    });
    // The reader blocks in this file.
    let mut answer = std::fs::OpenOptions::new().write(true).open(dir.join("cmdline")).unwrap();
    made_up(root.path(), 7, 71);
    answer.write_all(b"another's\0").unwrap();
    drop(answer);
    let changed = read.join().unwrap();
    assert_eq!((changed.len(), &changed[0].command), (1, &None));
}
