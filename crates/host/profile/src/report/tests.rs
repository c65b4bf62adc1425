use pinfold_proto::row::{Figures, Usage};
use pinfold_proto::view::{
    BatchResultView, BatchView, LeftOutView, MemoryView, NumberView, ProjectView, SlotsView, StatusView,
    WhyView,
};
use pinfold_proto::{Ending, JobClass, JobSpec};

use super::*;

const GIB: u64 = 1 << 30;

fn row() -> JobRow {
    JobRow {
        job: 17,
        uid: 1000,
        user: "ada".to_owned(),
        spec: JobSpec {
            command: vec!["/usr/bin/velvetg".to_owned(), "out".to_owned()],
            claim_bytes: Some(2 * GIB),
            cores: 1,
            ..JobSpec::default()
        },
        priority: 10,
        class: JobClass::Primary,
        state: JobState::Exited,
        submitted_us: 1_000_000,
        waits_since_us: None,
        started_us: Some(3_500_000),
        ended_us: Some(203_500_000),
        suspended_us: 20_000_000,
        frozen_since_us: None,
        end: None,
        suspended: false,
        requeues: 0,
        checkpoints: 0,
        requeuing: false,
        cpus: Some("0-3".to_owned()),
        keeper: None,
        main: None,
        ending: Some(Ending { exit_code: Some(0), ..Ending::default() }),
        reason: None,
        lay: None,
        needed_bytes: None,
        usage: Usage {
            cpu_user_us: 300_000_000,
            cpu_system_us: 60_000_000,
            memory_peak_bytes: 3 * GIB / 2,
            memory_mean_bytes: GIB,
            cache_peak_bytes: Some(5 << 20),
            io_read_bytes: 1 << 20,
            processes_total: 14,
            processes_peak: 5,
            threads_peak: 9,
            samples: 200,
            ..Usage::default()
        },
    }
}

fn text(write: impl Fn(&mut dyn std::io::Write) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_finished_job_on_a_page() {
    let view = report_view(&row(), None, u64::MAX);
    let want = "\
job 17  velvetg  exited 0
  command    /usr/bin/velvetg out
  user       ada
  class      primary, priority 10, on CPUs 0-3
  time       queued 2.5 s, ran 3 min 20 s, 20.0 s of that frozen
  asked for  1970-01-01 00:00:01 UTC
  CPU        6 min 00 s (5 min 00 s user, 1 min 00 s system); 2.00 cores on average while it was not frozen
  memory     peak 1.50 GiB, mean 1.00 GiB; anonymous and shared, without page cache
             [##################......] 75 % of the 2.00 GiB it claimed
  cache      peak 5.00 MiB; page cache, which goes when memory is needed
  storage    1.00 MiB read, 0 B written
  processes  14 in all, at most 5 with 9 threads at once; 200 samples
  note       it asked for 1 core and kept 2.0 busy: -c 2 would give it its own

";
    assert_eq!(text(|out| write_report(&view, out)), want);
}

#[test]
fn a_frozen_job_is_counted_until_now() {
    let frozen = JobRow {
        state: JobState::Frozen,
        ended_us: None,
        frozen_since_us: Some(103_500_000),
        suspended: false,
        requeues: 0,
        checkpoints: 0,
        requeuing: false,
        ending: None,
        ..row()
    };
    let view = report_view(&frozen, None, 113_500_000);
    assert_eq!((view.wall_s, view.suspended_s, view.exit_code), (Some(110.0), 30.0, None));
    let queued = JobRow { state: JobState::Queued, started_us: None, ..frozen };
    let view = report_view(&queued, None, 11_000_000);
    assert_eq!((view.queued_s, view.wall_s), (10.0, None));
}

#[test]
fn cores_are_means_between_points() {
    let sample = |time_us, cpu_user_us| SampleRow {
        job: 1,
        time_us,
        state: JobState::Running,
        cpu_user_us,
        cpu_system_us: 0,
        memory_bytes: 0,
        cache_bytes: None,
        swap_bytes: 0,
        virtual_bytes: 0,
        io_read_bytes: 0,
        io_write_bytes: 0,
        processes: 1,
        threads: 1,
        stalls: None,
    };
    let samples = [sample(2_000_000, 500_000), sample(3_000_000, 2_500_000), sample(3_000_000, 2_500_000)];
    let cores =
        |started_us| points(&samples, started_us).iter().map(|point| point.cpu_cores).collect::<Vec<_>>();
    assert_eq!(cores(Some(1_000_000)), [0.5, 2.0, 0.0]);
    assert_eq!(cores(None), [0.0, 2.0, 0.0], "without a start the first point has no time behind it");
}

fn status() -> StatusView {
    let running = JobRow { state: JobState::Running, ended_us: None, ending: None, ..row() };
    let mut queued = job_view(
        &JobRow { job: 18, state: JobState::Queued, started_us: None, cpus: None, ..running.clone() },
        None,
        None,
        vec![],
    );
    queued.reason = Some("all 4 slots are in use, and the job before it has a higher priority".to_owned());
    queued.name = "evil\x1b[2J\u{202E}name".to_owned();
    StatusView {
        version: VERSION,
        host: "quern".to_owned(),
        mode: "v2".to_owned(),
        slots: SlotsView { cores: 2, factor: 2.0, total: 4, used: 4, waiting: 0 },
        memory: MemoryView {
            budget_bytes: 8 * GIB,
            held_bytes: GIB,
            swap_held_bytes: 0,
            pressure_full_avg10: Some(0.015),
        },
        projects: Vec::new(),
        at_s: None,
        reading: None,
        resources: Vec::new(),
        other_load: None,
        neighbours: None,
        draining: false,
        jobs: vec![job_view(&running, Some(GIB), Some(0), vec![77]), queued],
        warnings: vec!["the store cannot be written".to_owned()],
    }
}

#[test]
fn a_job_in_a_set_says_which() {
    let mut view = status();
    view.jobs[0].set = Some("db".to_owned());
    let shown = text(|out| write_status_at(&view, 103.5, 114, false, out));
    assert!(shown.contains(" 17  running  in db  "), "\n{shown}");
    assert!(shown.contains(" 18  queued   primary"), "\n{shown}");
}

#[test]
fn a_job_that_never_ran_is_not_said_to_have_exited() {
    let never = JobRow { started_us: None, ending: None, cpus: None, ..row() };
    let view = StatusView { jobs: vec![job_view(&never, None, None, vec![])], ..status() };
    let shown = text(|out| write_status_at(&view, 103.5, 114, false, out));
    assert!(shown.contains(" 17  not run  primary"), "\n{shown}");
    let report = report_view(&never, None, 113_500_000);
    let card = text(|out| write_report(&report, out));
    assert!(card.starts_with("job 17  velvetg  not run\n"), "\n{card}");
}

#[test]
fn projects_stand_above_the_jobs() {
    let none = ProjectView {
        project: None,
        users: None,
        cores_guaranteed: Some(1),
        cores_used: 2,
        cores_borrowed: Some(1),
        cores_owed: 0,
        memory_guaranteed_bytes: None,
        memory_used_bytes: 0,
        memory_borrowed_bytes: None,
        memory_owed_bytes: 0,
        jobs_started: 2,
        jobs_waiting: 0,
    };
    let web = ProjectView {
        project: Some("web\x1b[2J".to_owned()),
        cores_used: 0,
        cores_borrowed: Some(0),
        cores_owed: 1,
        memory_guaranteed_bytes: Some(4 * GIB),
        memory_used_bytes: 5 * GIB,
        memory_borrowed_bytes: Some(GIB),
        jobs_started: 1,
        jobs_waiting: 3,
        ..none.clone()
    };
    let free = ProjectView {
        project: Some("rest".to_owned()),
        cores_guaranteed: None,
        cores_borrowed: None,
        ..none.clone()
    };
    let view = StatusView { projects: vec![free, web, none], warnings: vec![], jobs: vec![], ..status() };
    let want = "\
quern (v2)   slots 4 of 4 (2 cores x 2)   memory 1.00 GiB of 8.00 GiB   memory pressure full 1.5 %
project rest: cores 2   memory 0 B   jobs 2
project web?[2J: cores 0 of its 1 (1 owed)   memory 5.00 GiB of its 4.00 GiB (1.00 GiB borrowed)   jobs 1, 3 wait
no project: cores 2 of its 1 (1 borrowed)   memory 0 B   jobs 2
no jobs
";
    let shown = text(|out| write_status_at(&view, 103.5, 120, false, out));
    assert_eq!(shown, want, "\n{shown}");
}

#[test]
fn status_fits_and_leaves_out_the_least() {
    let want = "\
quern (v2)   slots 4 of 4 (2 cores x 2)   memory 1.00 GiB of 8.00 GiB   memory pressure full 1.5 %
warning: the store cannot be written
JOB  STATE    CLASS    PRI  CPUS    MEMORY        TIME  USER  NAME           WHY
 17  running  primary   10  0-3   1.00 GiB  1 min 40 s  ada   velvetg
 18  queued   primary   10                  1 min 43 s  ada   evil?[2J?name  all 4 slots are in use, and the job …
";
    let shown = text(|out| write_status_at(&status(), 103.5, 114, false, out));
    assert_eq!(shown, want, "\n{shown}");
    let narrow = text(|out| write_status_at(&status(), 103.5, 70, false, out));
    assert!(narrow.contains("all 4 slots"), "{narrow}");
    for width in [20, 40, 60, 80, 200] {
        let shown = text(|out| {
            write_status_at(&StatusView { warnings: vec![], ..status() }, 103.5, width, false, out)
        });
        let longest = shown.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(longest <= width.max(35), "{longest} characters in {width}:\n{shown}");
    }
}

#[test]
fn nothing_reaches_the_terminal_but_our_own_codes() {
    let shown = text(|out| write_status_at(&status(), 103.5, 120, true, out));
    assert!(shown.contains("\x1b[32mrunning\x1b[0m"), "{shown:?}");
    assert!(!shown.contains("\x1b[2J") && !shown.contains('\u{202E}'), "{shown:?}");
    let shown = text(|out| write_status_at(&status(), 103.5, 120, false, out));
    assert!(!shown.contains('\x1b'), "{shown:?}");
}

#[test]
fn why_tells_cause_numbers_and_history() {
    let view = WhyView {
        version: VERSION,
        job: 3,
        state: JobState::Frozen,
        cause: "memory is short".to_owned(),
        numbers: vec![
            NumberView::words("held", "7.9 GiB".to_owned()),
            NumberView::words("pressure full", "22 %".to_owned()),
        ],
        figures: Figures::new(),
        change: "1 GiB of room".to_owned(),
        decisions: [86_399, 86_400]
            .map(|s| {
                decision_view(&DecisionRow {
                    job: 3,
                    time_us: s * 1_000_000,
                    action: "start".into(),
                    reason: "a slot".into(),
                    codes: None,
                })
            })
            .into(),
        left_out: None,
        expected_start_s: None,
    };
    let want = "\
job 3 is frozen: memory is short
  held           7.9 GiB
  pressure full  22 %
what would change it: 1 GiB of room
decisions so far
  1970-01-01
    23:59:59 UTC  start: a slot
  1970-01-02
    00:00:00 UTC  start: a slot
";
    assert_eq!(text(|out| write_why(&view, "3", out)), want);
    let (first, last) = (view.decisions[0].clone(), view.decisions[1].clone());
    let mut decisions = vec![first; 100];
    decisions.resize(1000, last);
    let mut view = WhyView { decisions, ..view };
    assert!(!text(|out| write_why(&view, "3", out)).contains("are kept"));
    view.left_out = Some(LeftOutView { after_s: 86_399.0, before_s: 86_400.0, hides_state: false });
    let cut =
        "23:59:59 UTC  start: a slot\n    (of more than 1000 only the first 100 and the last 900 are kept)\n";
    let shown = text(|out| write_why(&view, "3", out));
    assert!(shown.contains(&format!("{cut}  1970-01-02\n")), "{shown}");
    // At a moment among them, after which none is shown.
    view.decisions.truncate(100);
    view.left_out = view.left_out.map(|left_out| LeftOutView { hides_state: true, ..left_out });
    let shown = text(|out| write_why(&view, "3", out));
    assert!(shown.starts_with("job 3 is in a state that is not known: memory is short\n"), "{shown}");
    assert!(shown.ends_with(cut), "{shown}");
}

#[test]
fn decisions_are_left_out_between_the_first_and_the_last() {
    let row =
        |time_us| DecisionRow { job: 3, time_us, action: String::new(), reason: String::new(), codes: None };
    for count in [0, 999, 1_000, 1_002] {
        let stored: Vec<DecisionRow> = (0..count).map(row).collect();
        assert_eq!(shown_decisions(stored.clone()), (stored, None), "{count}: nothing was dropped");
    }
    let (some, gap) = shown_decisions((0..100).chain(500..1_401).map(row).collect());
    assert_eq!((some.len(), some[100].time_us, gap), (1_000, 501, Some((99, 501))));
}

fn batch(jobs: u64) -> BatchView {
    let result = |line: u64| BatchResultView {
        job: Some(line + 100),
        line,
        exit_code: Some(i32::from(line == 7)),
        signal: None,
        end: None,
        queued_s: 0.5,
        wall_s: units::precise(line),
        suspended_s: if line == 2 { 1.5 } else { 0.0 },
        cpu_s: units::precise(line) / 2.0,
        memory_peak_bytes: line << 20,
        reason: None,
        command: format!("step {line}"),
        output: (line == 7).then(|| "logs/7.out".to_owned()),
        attempts: if line == 7 { 3 } else { 1 },
    };
    BatchView {
        version: VERSION,
        jobs,
        failed: u64::from(jobs >= 7),
        makespan_s: 10.0,
        results: (1..=jobs).map(result).collect(),
    }
}

#[test]
fn a_small_batch_is_shown_whole() {
    let want = "\
LINE  JOB  END     QUEUED    RAN  FROZEN     CPU    MEMORY  COMMAND
   1  101  exit 0  500 ms  1.0 s          500 ms  1.00 MiB  step 1
   2  102  exit 0  500 ms  2.0 s   1.5 s   1.0 s  2.00 MiB  step 2
2 jobs, 0 failed, in 10.0 s; 1.5 s of CPU time, 0.15 cores busy on average
";
    assert_eq!(text(|out| write_batch(&batch(2), out)), want);
    assert_eq!(text(|out| write_batch(&batch(0), out)).lines().count(), 1);
}

#[test]
fn of_a_large_batch_the_failed_and_the_longest() {
    let shown = text(|out| write_batch(&batch(1_000), out));
    assert_eq!(shown.lines().count(), 2 + 1 + 11 + 1 + 3 + 1, "{shown}");
    let failure = "line 7 failed: exit 1, 3 attempts: step 7\n    output: logs/7.out, logs/7.err\n";
    assert!(shown.starts_with(failure), "{shown}");
    assert!(shown.contains("   7   107  exit 1"), "{shown}");
    assert!(shown.contains("1000  1100  exit 0"), "{shown}");
    assert!(shown.contains("median 8 min 20 s"), "{shown}");
}

#[test]
fn many_jobs_by_what_they_have_in_common() {
    let job = |name: &str, wall_s: u64, memory: u64, code: i32| {
        let mut row = row();
        row.spec.name = name.to_owned();
        row.suspended_us = 0;
        row.ended_us = row.started_us.map(|at| at + wall_s * 1_000_000);
        row.usage.memory_peak_bytes = memory;
        row.ending = Some(Ending { exit_code: Some(code), ..Ending::default() });
        report_view(&row, None, u64::MAX)
    };
    let views: Vec<_> =
        (1..=10).map(|n| job("align", 10 * n, n << 20, 0)).chain([job("sort", 5, 7 << 20, 1)]).collect();
    let found = summary(&views, By::Name);
    assert_eq!(found.groups.iter().map(|group| group.group.as_str()).collect::<Vec<_>>(), ["align", "sort"]);
    let align = &found.groups[0];
    assert_eq!((align.jobs, align.failed), (10, 0));
    let wall = align.wall_s.unwrap();
    assert_eq!((wall.least, wall.median, wall.p90, wall.most, wall.mean), (10.0, 60.0, 90.0, 100.0, 55.0));
    assert_eq!(found.groups[1].failed, 1);
    for by in [By::User, By::Project, By::Class, By::Day] {
        let found = summary(&views, by);
        assert_eq!((found.groups.len(), found.groups[0].jobs), (1, 11), "{by:?}");
    }
    let text = text(|out| write_summary(&found, 100, out));
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.contains("align") && text.contains("1 min 00 s"), "{text}");
    assert!(summary(&[], By::Name).groups.is_empty());
}

#[test]
fn a_verdict_only_where_something_is_amiss() {
    let judged = |change: &dyn Fn(&mut JobRow)| {
        let mut row = row();
        row.suspended_us = 0;
        // 2 cores busy for 200 s.
        row.spec.cores = 2;
        row.usage.cpu_user_us = 400_000_000;
        row.usage.cpu_system_us = 0;
        change(&mut row);
        notes(&report_view(&row, None, u64::MAX)).join("\n")
    };
    assert_eq!(judged(&|_| {}), "");
    let idle = judged(&|row| row.spec.cores = 8);
    assert!(idle.contains("asked for 8 cores and used 2.0") && idle.contains("-c 2 would do"), "{idle}");
    let busy = judged(&|row| row.spec.cores = 1);
    assert!(busy.contains("kept 2.0 busy") && busy.contains("-c 2"), "{busy}");
    let large = judged(&|row| row.spec.claim_bytes = Some(16 * GIB));
    assert!(
        large.contains("claimed 16.0 GiB and held 1.50 GiB") || large.contains("kept from others"),
        "{large}"
    );
    let small = judged(&|row| row.spec.claim_bytes = Some(GIB));
    assert!(small.contains("may be stopped") && small.contains("`pinfold advise`"), "{small}");
    let stalled = judged(&|row| {
        row.usage.stalls = Some(pinfold_proto::row::Stalls { io_us: 100_000_000, ..Default::default() });
    });
    assert!(stalled.contains("waited for storage during 50 %"), "{stalled}");
    assert_eq!(
        judged(&|row| {
            row.spec.cores = 8;
            row.ended_us = Some(4_500_000);
        }),
        "",
        "too short to say"
    );
}

fn crowded() -> (StatusView, StatusView) {
    let job = |number: u64, at_s: f64| {
        let mut view = job_view(&row(), Some(number << 26), Some(0), vec![1]);
        view.job = number;
        view.state = if number.is_multiple_of(7) { JobState::Frozen } else { JobState::Running };
        view.ended_s = None;
        view.name = format!("a job with a rather long name, number {number}\x1b[31m");
        (view.cpu_s, view.seen_s) = (Some(at_s * 0.01 * precise_number(number)), Some(at_s));
        view
    };
    let status = |at_s| StatusView {
        version: VERSION,
        host: "farm".to_owned(),
        mode: "v2".to_owned(),
        projects: Vec::new(),
        at_s: None,
        reading: None,
        resources: Vec::new(),
        other_load: None,
        neighbours: None,
        draining: false,
        slots: SlotsView { cores: 4, factor: 1.5, total: 6, used: 6, waiting: 0 },
        memory: MemoryView {
            budget_bytes: 24 * GIB,
            held_bytes: 6 * GIB,
            swap_held_bytes: 0,
            pressure_full_avg10: Some(0.02),
        },
        jobs: (1..=100).map(|number| job(number, at_s)).collect(),
        warnings: vec!["the job store cannot be written".to_owned()],
    };
    (status(10.0), status(12.0))
}

fn precise_number(number: u64) -> f64 {
    units::precise(number)
}

#[test]
fn top_fits_small_and_large_terminals() {
    let (before, now) = crowded();
    for (width, height) in [(80, 24), (200, 60), (40, 8)] {
        for sort in [Sort::Cpu, Sort::Memory, Sort::Number] {
            let mut screen = Screen { width, height, sort, ..Screen::default() };
            let lines = frame(&now, Some(&before), &screen);
            assert_eq!(lines.len(), height);
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:#?}");
            assert!(lines.iter().all(|line| !line.contains('\x1b')), "{lines:#?}");
            let first = if sort == Sort::Number { "1" } else { "100" };
            let marked = lines.iter().find(|line| line.starts_with('>')).expect("a marked job");
            assert_eq!(marked.split_whitespace().nth(1), Some(first), "{marked}");
            // Far down: the marked job is still in sight.
            screen.selected = 99;
            let lines = frame(&now, Some(&before), &screen);
            assert!(lines.iter().any(|line| line.starts_with('>')), "{lines:#?}");
        }
    }
    let screen = Screen { width: 200, height: 60, filter: "number 42".to_owned(), ..Screen::default() };
    assert_eq!(shown(&now, None, &screen).len(), 1);
    let text = frame(&now, Some(&before), &screen).join("\n");
    assert!(text.contains("0.42") && text.contains("farm (v2)") && text.contains("running 86"), "{text}");
}
