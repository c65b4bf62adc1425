use std::fs;

use super::*;

/// Makes a process with so many threads below a fake root.
fn process(root: &std::path::Path, pid: u32, threads: u32) {
    for thread in pid..pid + threads {
        let folder = root.join(format!("{pid}/task/{thread}"));
        fs::create_dir_all(&folder).unwrap();
        let stat = format!("{thread} (x) S 1 {pid} {pid} 0 -1 0 {}", "0 ".repeat(43));
        fs::write(folder.join("stat"), stat).unwrap();
    }
}

/// Births of processes that nobody asked for, as many as are wanted: they come as fast as they are read.
fn endless(read: &mut usize) -> impl FnMut(usize) -> Taken {
    |most| {
        let births = (0..most).map(|_| records::Birth { pid: 9, parent: 8, age_us: 0 }).collect();
        *read += most;
        Taken { births, messages: most, more: true, ..Taken::default() }
    }
}

#[test]
fn records_that_come_as_fast_as_they_are_read_are_read_in_portions() {
    let (mut processes, mut read) = (Processes::new(true), 0);
    for turn in 1..=3 {
        processes.begin_turn();
        let took = processes.take_from(turn, false, endless(&mut read));
        assert_eq!((took, processes.due_us()), (Took { lost: false, more: true }, Some(turn)), "at once");
    }
    assert_eq!(read, 3 * PORTION);
}

#[test]
fn a_turn_reads_so_many_records_however_many_jobs_end_in_it() {
    let (mut processes, mut read) = (Processes::new(true), 0);
    processes.begin_turn();
    for _ in 0..100 {
        let took = processes.take_from(7, true, endless(&mut read));
        assert!(took.more, "the job has gaps");
    }
    assert_eq!((read, processes.due_us()), (A_TURN, Some(7)));
    processes.begin_turn();
    let took = processes.take_from(8, true, |_| Taken { messages: MANY + 1, ..Taken::default() });
    assert_eq!((took, processes.due_us()), (Took::default(), Some(8 + TAKE_SOON_US)));
    let took = processes.take_from(9, true, |_| Taken { messages: 1, ..Taken::default() });
    assert_eq!((took, processes.due_us()), (Took::default(), Some(9 + TAKE_EVERY_US)));
}

/// The kernel tells of these births, process and parent, and that this process ended, whose own parent was gone.
fn told(births: &[(u32, u32)], orphan: u32) -> Taken {
    let births = births.iter().map(|&(pid, parent)| records::Birth { pid, parent, age_us: 0 }).collect();
    let end = records::End {
        process: orphan,
        thread: orphan,
        parent: 1,
        is_last: true,
        exit_code: Some(0),
        signal: None,
        figures: Some(records::Figures::default()),
    };
    Taken { births, ends: vec![end], messages: 2, more: true, ..Taken::default() }
}

/// Job 7 is process 100, which a keeper forked.
fn with_a_job() -> Processes {
    let mut processes = Processes::new(true);
    processes.census.keeper(50);
    processes.census.born(100, 50, 0);
    processes.census.bind(100, 7, 0);
    processes
}

/// The parent's end may be among what was lost, of a parent whose birth was read by then, and of one read since.
#[test]
fn after_a_loss_an_end_is_taken_at_its_word_until_all_was_read() {
    let mut processes = with_a_job();
    let mut living_after = |taken: Taken| {
        let mut taken = Some(taken);
        processes.begin_turn();
        processes.take_from(0, false, |_| taken.take().expect("one portion at a time"));
        processes.census.living(7).len()
    };
    let births = [(101, 100), (102, 101)];
    assert_eq!(living_after(told(&births, 102)), 3, "its parent lives: it had the number before");
    assert_eq!(living_after(Taken { lost: true, ..told(&[], 102) }), 2);
    assert_eq!(living_after(told(&[(103, 100), (104, 103)], 104)), 3, "103 may have ended before the loss");
    let last = Taken { more: false, ..told(&[(105, 103)], 105) };
    assert_eq!(living_after(last), 3, "and so it is to the end of what waited");
    assert_eq!(living_after(told(&[(106, 100), (107, 106)], 107)), 5, "nothing was lost since");
}

/// A job is over, and all that waited is read: what was lost came before the last of it.
#[test]
fn a_loss_says_nothing_of_those_born_once_all_was_read() {
    let mut processes = with_a_job();
    let mut waits = vec![Taken::default(), Taken { lost: true, more: true, ..Taken::default() }];
    processes.begin_turn();
    let took = processes.take_from(0, true, |_| waits.pop().expect("no more was told of"));
    assert_eq!(took, Took { lost: true, more: false });
    processes.take_from(0, false, |_| told(&[(101, 100), (102, 101)], 102));
    assert_eq!(processes.census.living(7).len(), 3, "its parent lives: it had the number before");
}

#[test]
fn so_many_threads_of_a_job_are_told_and_no_more() {
    let root = tempfile::tempdir().unwrap();
    process(root.path(), 100, 6);
    process(root.path(), 200, 6);
    let proc = Proc::open(root.path()).unwrap();
    let told = |pids: &[u32], most| {
        let (told, more) = threads_of(&proc, pids, most);
        (told.len(), more)
    };
    assert_eq!(told(&[100, 200], 12), (12, false));
    assert_eq!(told(&[100, 200], 11), (11, true), "within a process");
    assert_eq!(told(&[100, 200], 6), (6, true), "between two");
    assert_eq!(told(&[100, 200], 3), (3, true), "within the first");
    assert_eq!(told(&[], 0), (0, false));
    assert_eq!(told(&[1, 2, 3, 100], 3), (0, true), "those that are gone are looked at as well");
}

/// What was read of a process is of a while ago if its user held that up: another one may have its number by now.
#[test]
fn waits_of_another_process_that_got_the_number_are_not_the_jobs() {
    let root = tempfile::tempdir().unwrap();
    process(root.path(), 7, 1);
    let stat = format!("7 (x) S 1 7 7 0 -1 0 5 0 0 0 1 2 0 0 20 0 1 0 71 1000 90 {}", "0 ".repeat(28));
    fs::write(root.path().join("7/stat"), stat).unwrap();
    let task = root.path().join("7/task/7");
    fs::write(task.join("status"), "voluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4\n").unwrap();
    fs::write(task.join("schedstat"), "1 2000000 3\n").unwrap();
    let proc = Proc::open(root.path()).unwrap();
    let mut processes = Processes::new(true);
    processes.census.bind(7, 1, 1);
    let mut switches = |start_ticks| {
        processes.take_turns(&proc, &[Member { pid: 7, start_ticks, ..Member::default() }]);
        processes.living(JobId(1))[0].used.switches_voluntary
    };
    assert_eq!((switches(70), switches(71)), (0, 3));
}
