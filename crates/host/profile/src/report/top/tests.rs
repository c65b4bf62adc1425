use pinfold_proto::row::JobRow;
use pinfold_proto::view::{MemoryView, SlotsView, VERSION};
use pinfold_proto::{JobClass, JobState};

use super::super::table::columns;
use super::super::{job_view, report_view};
use super::*;

const SIZES: [(usize, usize); 4] = [(80, 24), (200, 60), (40, 6), (20, 5)];

fn row(job: u64) -> JobRow {
    JobRow {
        job,
        uid: 1,
        user: if job.is_multiple_of(2) { "ann" } else { "bob" }.to_owned(),
        spec: pinfold_proto::JobSpec { name: format!("name-{job}\x1b[2J"), ..Default::default() },
        priority: 10,
        class: if job.is_multiple_of(3) { JobClass::Backfill } else { JobClass::Primary },
        state: JobState::Running,
        submitted_us: 1_000_000,
        waits_since_us: None,
        started_us: Some(1_000_000 + job * 1_000_000),
        ended_us: None,
        suspended_us: 0,
        frozen_since_us: None,
        end: None,
        suspended: false,
        requeues: 0,
        checkpoints: 0,
        requeuing: false,
        cpus: Some((job - 1).to_string()),
        keeper: None,
        main: None,
        ending: None,
        reason: None,
        lay: None,
        needed_bytes: None,
        usage: pinfold_proto::row::Usage::default(),
    }
}

fn status(jobs: u64, at_s: Option<f64>) -> StatusView {
    StatusView {
        version: VERSION,
        host: "farm".to_owned(),
        mode: "v2".to_owned(),
        slots: SlotsView { cores: 64, factor: 1.0, total: 64, used: jobs, waiting: 0 },
        memory: MemoryView {
            budget_bytes: 1 << 36,
            held_bytes: 1 << 34,
            swap_held_bytes: 0,
            pressure_full_avg10: None,
        },
        projects: Vec::new(),
        at_s,
        reading: None,
        resources: Vec::new(),
        other_load: None,
        neighbours: None,
        draining: false,
        jobs: (1..=jobs).map(|job| job_view(&row(job), Some(job << 20), Some(0), vec![])).collect(),
        warnings: Vec::new(),
    }
}

fn cores(count: u64) -> Vec<CoreUse> {
    let one = |core: u64| CoreUse {
        cpus: core.to_string(),
        busy: Some(precise(core) / precise(count)),
        jobs: vec![core + 1],
        others: usize::from(core == 1),
    };
    (0..count).map(one).collect()
}

#[track_caller]
fn fits(lines: &[String], (width, height): (usize, usize)) {
    assert!(lines.len() <= height, "{} lines of {height}: {lines:#?}", lines.len());
    assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:#?}");
    assert!(lines.iter().all(|line| !line.contains('\x1b')), "{lines:#?}");
}

#[test]
fn the_host_as_it_was_is_told_in_whole_figures() {
    let mut now = status(2, Some(1_000.0));
    let mut reading = pinfold_proto::host::HostPoint {
        time_s: 960.0,
        span_s: Some(10.0),
        cpu_busy: Some(1.25),
        memory_used_bytes: 3 << 30,
        swap_used_bytes: 5 << 20,
        cpu_stalled: Some(0.125),
        memory_stalled: Some(0.5),
        memory_full_stalled: Some(0.25),
        io_stalled: None,
        io_full_stalled: None,
        temperature_celsius: Some(41.4),
        frequency_mhz: None,
    };
    now.reading = Some(Box::new(reading));
    let told = |width, height| {
        let lines = frame(&now, None, &Screen { width, height, ..Screen::default() });
        fits(&lines, (width, height));
        lines.into_iter().find(|line| line.starts_with("host"))
    };
    let wide = "host 40.0 s before: 1.25 PUs busy   3.00 GiB in use, swap 5.00 MiB   stalled CPU 12.5 %, memory 50.0 %   41 °C";
    assert_eq!(told(200, 60).as_deref(), Some(wide));
    assert_eq!(told(40, 24).as_deref(), Some("host 40.0 s before: 1.25 PUs busy …"));
    let usual = "host 40.0 s before: 1.25 PUs busy   3.00 GiB in use, swap 5.00 MiB …";
    assert_eq!(told(80, 24).as_deref(), Some(usual));
    assert_eq!(told(40, 6), None, "jobs go before it");
    reading.time_s = 995.0;
    now.reading = Some(Box::new(reading));
    let lines = frame(&now, None, &Screen { width: 200, height: 60, ..Screen::default() });
    assert!(lines.iter().any(|line| line.starts_with("host: 1.25 PUs busy   3.00 GiB")), "{lines:#?}");
}

#[test]
fn every_screen_says_what_it_has_no_room_for() {
    let mut now = status(30, None);
    now.warnings = (0..5).map(|number| format!("something {number} is wrong")).collect();
    now.jobs[3].name = "\u{8a08}\u{7b97}".repeat(40);
    let text = |now: &StatusView, width, height, selected| {
        let lines = frame(now, None, &Screen { width, height, selected, ..Screen::default() });
        fits(&lines, (width, height));
        assert!(lines.iter().all(|line| columns(line) <= width), "{lines:#?}");
        lines.join("\n")
    };
    for (width, height) in [(20, 5), (40, 10), (80, 24), (200, 60)] {
        for selected in [0, 3, 29] {
            let text = text(&now, width, height, selected);
            let marked = text.lines().filter(|line| line.starts_with('>')).count();
            assert_eq!(marked, 1, "{text}");
            assert_eq!(text.contains(" of 30 jobs "), height < 60, "{text}");
        }
    }
    let small = text(&now, 40, 10, 0);
    assert!(small.contains("1-3 of 30 jobs by cores"), "{small}");
    let usual = text(&now, 80, 24, 0);
    assert!(usual.contains("no room for") && usual.contains("and 2 more warnings"), "{usual}");
    assert!(usual.contains("q quit"), "{usual}");
    assert!(!text(&now, 200, 60, 0).contains("no room for"));
    // Sizes that no terminal has, or only while it is made.
    for height in 0..12 {
        for width in [1, 2, 3, 7, 13, 19] {
            for selected in [0, 29, usize::MAX - 1] {
                let screen = Screen { width, height, selected, ..Screen::default() };
                fits(&frame(&now, None, &screen), (width, height));
                fits(&cores_frame(&now, &cores(9), &screen), (width, height));
                fits(&frame(&status(0, Some(5.0)), None, &screen), (width, height));
            }
        }
    }
    let screen = Screen { width: 20, height: 5, ..Screen::default() };
    let lines = cores_frame(&now, &cores(64), &screen);
    assert!(lines.iter().any(|line| line.starts_with("2 of 64 cores")), "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| line.contains('[')).count(), 2, "{lines:#?}");
}

#[test]
fn pressure_is_told_in_a_narrow_terminal_too() {
    let mut now = status(2, None);
    now.memory.pressure_full_avg10 = Some(0.125);
    now.memory.held_bytes = 123_456_789;
    for width in [72, 80, 200] {
        let lines = frame(&now, None, &Screen { width, height: 24, ..Screen::default() });
        let memory = lines.iter().find(|line| line.contains("memory [")).unwrap();
        assert!(memory.contains("stalled for memory 12.5 %"), "{width}: {memory}");
        assert!(memory.chars().count() <= width, "{width}: {memory}");
    }
}

#[test]
fn all_cores_that_fit_are_on_the_screen() {
    let now = status(64, None);
    for (width, height) in SIZES {
        for count in [1, 2, 16, 64, 512] {
            let cores = cores(count);
            let mut screen = Screen { width, height, ..Screen::default() };
            let lines = cores_frame(&now, &cores, &screen);
            fits(&lines, (width, height));
            // Scrolled to the end, the last core is in sight.
            screen.selected = 1_000;
            let lines = cores_frame(&now, &cores, &screen);
            fits(&lines, (width, height));
            assert!(lines.last().unwrap().contains('['), "{lines:#?}");
        }
    }
    let screen = Screen { width: 80, height: 24, ..Screen::default() };
    let text = cores_frame(&now, &cores(4), &screen).join("\n");
    assert!(
        text.contains("1 name-1") && text.contains("~3 name-3") && text.contains("1 of others"),
        "{text}"
    );
    assert!(text.contains("[###...]  50 %"), "{text}");
    let screen = Screen { filter: "name-2".to_owned(), ..screen };
    let text = cores_frame(&now, &cores(4), &screen).join("\n");
    assert!(text.contains("2 name-2") && !text.contains("name-3"), "{text}");
    let wide = Screen { width: 200, height: 60, ..Screen::default() };
    let text = cores_frame(&now, &cores(64), &wide).join("\n");
    assert!((1..=64).all(|job| text.contains(&format!("{job} name-{job}"))), "{text}");
}

#[test]
fn a_moment_in_the_past_is_named_and_counted_from() {
    let mut now = status(3, Some(100.0));
    now.jobs[0].cpu_cores = Some(0.75);
    for size in SIZES {
        fits(&frame(&now, None, &Screen { width: size.0, height: size.1, ..Screen::default() }), size);
    }
    let screen = Screen { width: 200, height: 60, sort: Sort::Time, ..Screen::default() };
    let lines = frame(&now, None, &screen);
    assert!(lines[0].starts_with("1970-01-01 00:01:40 UTC"), "{lines:#?}");
    let first = lines.iter().find(|line| line.starts_with('>')).unwrap();
    // It began at 2 s: 98 s before.
    assert!(first.contains("1 min 38 s") && first.contains("0.75"), "{first}");
}

#[test]
fn the_processes_of_a_job_at_a_moment() {
    let process = |number: u64, started: f64, ended: Option<f64>| ProcessView {
        number,
        pid: u32::try_from(1000 - number).unwrap(),
        parent: None,
        count: 1,
        command: format!("work {number}\x1b[2J"),
        started_s: Some(started),
        ended_s: ended,
        exit_code: None,
        signal: None,
        failed: 0,
        threads: 1,
        cpu_user_s: precise(number),
        cpu_system_s: 0.0,
        waited_s: None,
        memory_peak_bytes: (100 - number) << 20,
        virtual_peak_bytes: None,
        pss_bytes: None,
        pss_read_s: None,
        pss_peak_bytes: None,
        io_read_bytes: 0,
        io_write_bytes: 0,
        io_read_calls: 0,
        io_write_calls: 0,
        faults_minor: 0,
        faults_major: 0,
        switches_voluntary: None,
        switches_forced: None,
        source: "running".to_owned(),
    };
    let mut view = report_view(&row(7), None, 200_000_000);
    let mut all: Vec<ProcessView> = (1..=80).map(|number| process(number, 10.0, None)).collect();
    all.push(process(81, 20.0, Some(30.0)));
    view.processes = Some(all);
    let text = |at_s, sort, filter: &str| {
        let screen = Screen { width: 120, height: 200, sort, filter: filter.to_owned(), ..Screen::default() };
        process_frame(&view, at_s, &screen)
    };
    let first = |lines: &[String]| lines[3].split_whitespace().nth(1).unwrap().to_owned();
    assert_eq!(first(&text(None, Sort::Cpu, "")), "920");
    assert_eq!(first(&text(Some(25.0), Sort::Cpu, "")), "919", "it lived then");
    assert_eq!(first(&text(None, Sort::Memory, "")), "999");
    assert_eq!(first(&text(None, Sort::Number, "")), "920");
    assert_eq!(text(None, Sort::Cpu, "work 80").len(), 4);
    assert_eq!(text(Some(5.0), Sort::Cpu, "").len(), 3, "nothing had begun");
    for size in SIZES {
        for selected in [0, 40, 1_000] {
            let screen = Screen { width: size.0, height: size.1, selected, ..Screen::default() };
            let lines = process_frame(&view, None, &screen);
            fits(&lines, size);
            assert_eq!(lines.len(), size.1, "it is filled");
        }
    }
}

#[test]
fn members_of_arrays_have_their_names_and_waiting_jobs_their_reason() {
    let mut now = status(3, None);
    (now.jobs[0].array_id, now.jobs[0].array_index) = (Some(1), Some(7));
    now.jobs[1].state = JobState::Queued;
    now.jobs[1].reason = Some("all slots are taken\x1b[2J".to_owned());
    let screen = Screen { width: 160, height: 24, ..Screen::default() };
    let text = frame(&now, None, &screen).join("\n");
    assert!(text.contains(" 1_7  running"), "{text}");
    assert!(text.contains("WHY") && text.contains("all slots are taken?"), "{text}");
    let coloured = frame(&now, None, &Screen { colour: true, ..screen }).join("\n");
    assert!(
        coloured.contains("\x1b[32mrunning\x1b[0m") && coloured.contains("\x1b[33mqueued"),
        "{coloured:?}"
    );
}

#[test]
fn meters_and_history_are_there_where_rows_leave_room() {
    let past = |busy| Past { busy, memory: 0.25 };
    let load = Load {
        cores: (0..8).map(|core: u32| (core.to_string(), 0.5)).collect(),
        past: [0.0, 0.5, 1.0].map(past).into(),
        plain: false,
    };
    let text = |jobs, width, height| {
        let screen = Screen { width, height, load: load.clone(), ..Screen::default() };
        let lines = frame(&status(jobs, None), None, &screen);
        fits(&lines, (width, height));
        lines.join("\n")
    };
    let roomy = text(3, 100, 30);
    assert!(roomy.contains("7 [####....]  50 %") && roomy.contains("cores  ▁▅█ 100 %"), "{roomy}");
    assert!(roomy.contains("memory ▃▃▃  25 %"), "{roomy}");
    let full = text(30, 100, 24);
    assert!(!full.contains("[####....]") && full.contains(" of 30 jobs "), "{full}");
    let rows = |text: &str| text.lines().filter(|line| line.contains("running  ")).count();
    assert!(rows(&full) >= 16, "two thirds are jobs: {full}");
    for (width, height) in SIZES {
        for jobs in [0, 1, 30] {
            text(jobs, width, height);
        }
    }
}

#[test]
fn the_help_has_every_key_and_scrolls() {
    let screen = Screen { width: 80, height: 60, ..Screen::default() };
    let lines = help_frame(&screen);
    fits(&lines, (80, 60));
    let text = lines.join("\n");
    assert!(
        ["suspend it", "end it", "priority", "this help", "q "].iter().all(|word| text.contains(word)),
        "{text}"
    );
    let small = Screen { width: 30, height: 6, selected: 1_000, ..Screen::default() };
    let lines = help_frame(&small);
    fits(&lines, (30, 6));
    assert!(lines.last().is_some_and(|line| line.contains("ctrl-c")), "{lines:#?}");
}

#[test]
fn result_of_a_key_stands_at_the_foot() {
    let screen =
        Screen { width: 40, height: 10, said: "job 3 is\x1b suspended".to_owned(), ..Screen::default() };
    let lines = with_said(frame(&status(30, None), None, &screen), &screen);
    fits(&lines, (40, 10));
    assert_eq!(lines.last().map(String::as_str), Some("job 3 is? suspended"));
    let quiet = Screen { said: String::new(), ..screen };
    assert_eq!(with_said(vec!["row".to_owned()], &quiet), ["row"]);
}
