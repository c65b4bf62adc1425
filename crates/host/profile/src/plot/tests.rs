use pinfold_proto::JobClass;
use pinfold_proto::host::{HostPoint, HostView};
use pinfold_proto::view::VERSION;

use super::*;

const MIB: u64 = 1 << 20;

/// Two ramps from 0 to 4 over ten seconds.
const WANT: &str = "\
two ramps
area (cores)  █ ramp
6┤   ░░░░░
 ┤┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄▁▃▄▅
 ┤   ░░░░░▂▃▄▅▆▇█████
0┤ ▂▃▄▅▆▇████████████
line (cores)  • ramp
6┤   ░░░░░
 ┤   ░░░░░      •••••
 ┤   ░░░░•••••••
0┤ ••••••░
 └┬────────┬────────┬
  0        5 s
";

fn point(time_s: f64, state: JobState) -> PointView {
    PointView {
        time_s,
        cpu_cores: 1.5 + (time_s / 7.0).sin() / 2.0,
        memory_bytes: MIB * crate::report::units::rounded(300.0 + 2.5 * time_s + 60.0 * (time_s / 9.0).sin()),
        cache_bytes: Some(MIB * crate::report::units::rounded(8.0 * time_s)),
        swap_bytes: 0,
        io_read_bytes: MIB * crate::report::units::rounded(8.0 * time_s),
        io_write_bytes: if time_s > 120.0 { 500 * MIB } else { 0 },
        processes: 2,
        threads: 4,
        state,
    }
}

#[expect(clippy::too_many_lines, reason = "a line for each of its fields")]
fn view(series: Option<Vec<PointView>>) -> ReportView {
    ReportView {
        anonymous_peak_bytes: None,
        shared_peak_bytes: None,
        mapped_peak_bytes: None,
        io_read_calls: None,
        io_write_calls: None,
        faults_minor: None,
        faults_major: None,
        switches_voluntary: None,
        switches_forced: None,
        waited_s: None,
        version: VERSION,
        job: 17,
        name: "assemble <k=31> & polish".to_owned(),
        command: vec!["velvetg".to_owned()],
        directory: String::new(),
        user: "ada".to_owned(),
        project: None,
        state: JobState::Exited,
        class: JobClass::Primary,
        priority: 10,
        cpus: None,
        array_id: None,
        external: None,
        array_index: None,
        submitted_s: 0.0,
        started_s: Some(0.0),
        ended_s: Some(200.0),
        exit_code: Some(0),
        signal: None,
        end: None,
        reason: None,
        output: None,
        error_output: None,
        timeout_s: None,
        cpu_limit_s: None,
        begin_s: None,
        comment: None,
        resources: Vec::new(),
        queued_s: 0.0,
        wall_s: Some(200.0),
        suspended_s: 0.0,
        requeues: 0,
        checkpoints: 0,
        cpu_user_s: 0.0,
        cpu_system_s: 0.0,
        cores: 1,
        claim_bytes: Some(1024 * MIB),
        input_bytes: None,
        limit_bytes: None,
        memory_peak_bytes: 980 * MIB,
        memory_mean_bytes: 400 * MIB,
        cache_peak_bytes: None,
        swap_peak_bytes: 0,
        virtual_peak_bytes: 0,
        io_read_bytes: 0,
        io_write_bytes: 0,
        processes_total: 1,
        processes_peak: 1,
        threads_peak: 1,
        samples: 200,
        memory_peak_kernel_bytes: None,
        cpu_stalled_s: None,
        memory_stalled_s: None,
        memory_full_stalled_s: None,
        io_stalled_s: None,
        io_full_stalled_s: None,
        processes_from: None,
        numa: None,
        numa_local: None,
        files: None,
        files_from: None,
        files_left_out: None,
        processes: None,
        threads: None,
        threads_left_out: None,
        series,
        notes: Vec::new(),
    }
}

/// A job of 200 s that was frozen for 30 s and parked for 20 s.
fn job() -> Chart {
    let state = |s| match s {
        60..90 => JobState::Frozen,
        140..160 => JobState::Parked,
        _ => JobState::Running,
    };
    job_chart(&view(Some((1..=200).map(|s| point(f64::from(s), state(s))).collect())))
}

/// Charts that have broken others: nothing, one point, no numbers, more points than pixels, long names.
fn odd_charts() -> Vec<(&'static str, Chart)> {
    let series = |points: Vec<(f64, f64)>, style| Series {
        name: "a series with rather a long name".into(),
        points,
        style,
    };
    let chart = |series: Vec<Series>| Chart {
        title: "t\u{1b}[2J".repeat(40),
        panels: vec![Panel {
            title: "values".into(),
            unit: Unit::Bytes,
            series,
            marks: vec![(5.0, "mark".into()), (f64::NAN, "no".into())],
            ..Panel::default()
        }],
        shaded: vec![(0.5, 0.6, "frozen".into()), (f64::NAN, 1.0, "parked".into())],
        without: "nothing was seen".into(),
        ..Chart::default()
    };
    let many = (0..50_000).map(|at| (f64::from(at), f64::from(at % 97))).collect();
    vec![
        ("nothing", Chart::default()),
        ("an empty panel", Chart { panels: vec![Panel::default()], ..Chart::default() }),
        ("an empty series", chart(vec![series(vec![], Style::Area), series(vec![], Style::Steps)])),
        (
            "one point",
            chart(vec![series(vec![(3.0, 4.0)], Style::Area), series(vec![(3.0, 2.0)], Style::Steps)]),
        ),
        ("no numbers", chart(vec![series(vec![(f64::NAN, 1.0), (1.0, f64::INFINITY)], Style::Line)])),
        ("only zeros", chart(vec![series(vec![(0.0, 0.0), (1.0, 0.0)], Style::StepArea)])),
        ("the same instant twice", chart(vec![series(vec![(1.0, 1.0), (1.0, 2.0)], Style::Line)])),
        ("many points", chart(vec![series(many, Style::Thin)])),
        ("many panels", Chart { panels: vec![Panel::default(); 30], ..Chart::default() }),
        ("a job without series", job_chart(&view(None))),
        ("the host", host(400)),
        ("the host, read once", host(1)),
        ("the host, never read", host(0)),
        ("a job of one sample", job_chart(&view(Some(vec![point(0.5, JobState::Frozen)])))),
    ]
}

/// A host that was read every ten seconds from 2026-11-21 22:10:41 UTC on, with a pause of half an hour.
fn host(count: u32) -> Chart {
    let point = |number: u32| {
        let (at, wave) = (f64::from(number), (f64::from(number) / 20.0).sin());
        let pause_s = if number > 100 { 1_800.0 } else { 0.0 };
        HostPoint {
            time_s: 1_795_299_041.0 + 10.0 * at + pause_s,
            span_s: (number > 0).then_some(if number == 101 { 1_810.0 } else { 10.0 }),
            cpu_busy: (number > 0).then_some(if number == 101 { 0.1 } else { 2.5 + 1.4 * wave }),
            memory_used_bytes: MIB * (4_000 + u64::from(number) * 20),
            swap_used_bytes: if number > 250 { MIB * 700 } else { 0 },
            cpu_stalled: Some((wave * 0.2).max(0.0)),
            memory_stalled: Some(if (250..300).contains(&number) { 0.31 } else { 0.0 }),
            memory_full_stalled: Some(if (260..280).contains(&number) { 0.12 } else { 0.0 }),
            io_stalled: Some(0.05),
            io_full_stalled: Some(0.01),
            temperature_celsius: Some(50.0 + 10.0 * wave),
            frequency_mhz: None,
        }
    };
    let samples = (0..count).map(point).collect();
    host_chart(&HostView {
        version: VERSION,
        host: "farm".to_owned(),
        pus: 4,
        memory_bytes: 16 << 30,
        samples,
    })
}

#[test]
fn a_host_is_drawn_by_the_clock() {
    let chart = host(400);
    let titles: Vec<&str> = chart.panels.iter().map(|panel| panel.title.as_str()).collect();
    assert_eq!(
        titles,
        ["CPU", "memory", "stalled for CPU", "stalled for memory", "stalled for storage", "hottest sensor"],
        "no frequency is told"
    );
    let tops: Vec<f64> = chart.panels[2..5].iter().map(|panel| scale::scale(panel).top).collect();
    assert!(tops.iter().all(|top| (top - tops[0]).abs() < 1e-9), "what is compared has one axis: {tops:?}");
    let busy = thin::lines(&chart.panels[0].series[0].points, true, 900);
    assert_eq!(busy.len(), 2, "no line leads through the time that was not read");
    assert_eq!(chart.shaded, [(1_000.0, 2_810.0, "not read".to_owned())]);
    let svg = chart.to_svg(900, 600);
    for text in [
        "farm: 2026-11-21 22:10:41 to 2026-11-21 23:47:11 UTC",
        "CPU (PUs)",
        "4 PUs",
        "16.0 GiB in all",
        "stalled for memory (% of the time)",
        "hottest sensor (°C)",
        ">22:30<",
        ">not read<",
        "time (UTC)",
    ] {
        assert!(svg.contains(text), "{text} is missing");
    }
    let text = chart.to_text(100, 40);
    assert!(text.contains("22:30") && text.contains("UTC") && text.lines().count() <= 40, "{text}");
    assert!(host(0).to_text(100, 40).contains("while jobs run"));
    assert!(host(1).shaded.is_empty());
}

#[test]
fn every_chart_can_be_drawn_at_every_size() {
    for (what, chart) in odd_charts().into_iter().chain([("a job", job())]) {
        for (width, height) in [(1, 1), (200, 200), (400, 300), (1600, 1000)] {
            let svg = chart.to_svg(width, height);
            assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains('\u{1b}'), "{what}: {svg}");
            assert!(svg.len() < 400_000, "{what}: {} bytes", svg.len());
        }
        for (width, height) in [(1, 1), (120, 90)] {
            let png = chart.to_png(width, height).unwrap_or_else(|error| panic!("{what}: {error:?}"));
            assert!(png.starts_with(b"\x89PNG"), "{what}");
        }
        for (width, height) in [(0, 0), (20, 5), (80, 24), (200, 60)] {
            let text = chart.to_text(width, height);
            assert!(!text.contains('\u{1b}'), "{what}: {text:?}");
            let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(longest <= width.max(24), "{what}: {longest} characters in {width}\n{text}");
            if height >= 24 && chart.panels.len() <= 3 {
                assert!(text.lines().count() <= height, "{what}: {} lines in {height}", text.lines().count());
            }
        }
    }
    assert!(matches!(job().to_png(0, 100), Err(PngError::Size { .. })));
}

#[test]
fn jobs_beside_each_other_have_each_their_own_stops() {
    let views = [JobState::Frozen, JobState::Running].map(|state| view(Some(vec![point(1.0, state)])));
    let chart = comparison(&views);
    let stops: Vec<usize> = chart.panels.iter().map(|panel| panel.shaded.len()).collect();
    assert_eq!(stops, [1, 0, 1, 0, 1, 0]);
    assert!(chart.to_svg(900, 600).contains("url(#hatch0)") && chart.to_text(100, 40).contains('░'));
}

#[test]
fn a_job_is_drawn_with_its_stops_and_levels() {
    let chart = job();
    let shaded: Vec<(f64, f64, &str)> =
        chart.shaded.iter().map(|(from, to, name)| (*from, *to, name.as_str())).collect();
    assert_eq!(shaded, [(59.0, 89.0, "frozen"), (139.0, 159.0, "parked")]);
    let svg = chart.to_svg(900, 600);
    for text in [
        "job 17: assemble &lt;k=31&gt; &amp; polish: velvetg",
        ">exited 0, 1 core<",
        "peak 980 MiB",
        "claim 1.00 GiB",
        "page cache",
        "memory (GiB)",
        "CPU (cores in use)",
        "read (MiB/s)",
        "written (MiB/s)",
        ">frozen<",
        ">parked<",
        "time (min)",
    ] {
        assert!(svg.contains(text), "{text} is missing");
    }
    let written = &chart.panels[3].series[0].points;
    assert_eq!(written.iter().filter(|(_, rate)| *rate > 0.0).count(), 1, "500 MiB in one second");
}

#[test]
fn a_job_without_samples_says_so_and_why() {
    let told = |change: fn(&mut ReportView)| {
        let mut without = view(Some(Vec::new()));
        change(&mut without);
        let chart = job_chart(&without);
        let (text, svg) = (chart.to_text(80, 24), chart.to_svg(900, 600));
        let why = text.lines().nth(1).expect("a second line").to_owned();
        assert!(svg.contains(&why), "{svg}");
        assert!(text.contains("peak 980 MiB, claim 1.00 GiB") && !text.contains('┤'), "{text}");
        why
    };
    let short = told(|view| (view.samples, view.wall_s) = (0, Some(0.012)));
    assert_eq!(short, "no samples: it ran for 12 ms, and none was taken");
    let waits = told(|view| (view.samples, view.wall_s, view.started_s) = (0, None, None));
    assert_eq!(waits, "no samples: it has not run");
    assert_eq!(told(|_| {}), "no samples: 200 were taken, and are not kept any more");
    // Beside another one, its panels say it.
    let chart = comparison(&[view(Some(vec![point(1.0, JobState::Running)])), view(None)]);
    assert_eq!((chart.columns, chart.panels.len()), (2, 6));
    assert!(chart.panels[1].series[0].points.is_empty());
    let svg = chart.to_svg(900, 600);
    assert_eq!(svg.matches(">no samples<").count(), 3, "one in each panel of the second");
    assert!(svg.contains("17: memory (MiB)") && svg.contains("exited 0, peak 980 MiB"), "{svg}");
}

#[test]
fn jobs_below_each_other_have_the_same_axes() {
    let large = |time_s| PointView { memory_bytes: 1 << 33, ..point(time_s, JobState::Running) };
    let jobs = [
        view(Some(vec![point(1.0, JobState::Running)])),
        view(Some(vec![large(1.0), large(9.0)])),
        view(None),
    ];
    let (wide, narrow) = (stacked(&jobs, false), stacked(&jobs, true));
    let titles = |chart: &Chart| chart.panels.iter().map(|panel| panel.title.clone()).collect::<Vec<_>>();
    assert_eq!((wide.columns, narrow.columns), (3, 1));
    assert_eq!(titles(&wide)[..4], ["1: memory", "1: CPU", "1: storage", "2: memory"]);
    assert_eq!(titles(&narrow)[..4], ["1: memory", "2: memory", "3: memory", "1: CPU"]);
    let axes: Vec<f64> = wide.panels.iter().step_by(3).map(|panel| panel.at_least).collect();
    assert!(axes.iter().all(|axis| (axis - f64::from(1 << 30) * 8.0).abs() < 1.0), "{axes:?}");
    let many: Vec<ReportView> = (0..9).map(|_| view(None)).collect();
    assert_eq!(stacked(&many, false).panels.len(), 3 * STACKED_MAX);
    assert!(wide.to_svg(1_200, 600).contains("3: memory"));
}

#[test]
fn a_sentence_stands_where_nothing_was_transferred() {
    let idle = |time_s| PointView { io_read_bytes: 0, io_write_bytes: 0, ..point(time_s, JobState::Running) };
    let mut job = view(Some(vec![idle(1.0), idle(2.0)]));
    let start_s = job.started_s.expect("it ran");
    job.series.iter_mut().flatten().for_each(|point| point.time_s += start_s);
    job.wall_s = Some(2.9);
    let chart = job_chart(&job);
    let (svg, text) = (chart.to_svg(900, 600), chart.to_text(80, 24));
    for sentence in ["nothing was read from storage", "nothing was written to storage"] {
        assert_eq!((svg.matches(sentence).count(), text.matches(sentence).count()), (1, 1), "{text}");
    }
    assert!((scale::span(&chart).to - 2.9).abs() < 1e-9, "to its end, not to the last sample");
    // Beside another job, whose axis it shares, a job that read nothing is drawn.
    let chart = comparison(&[
        view(Some(vec![idle(1.0), idle(2.0)])),
        view(Some(vec![point(1.0, JobState::Running)])),
    ]);
    assert!(!chart.to_svg(900, 600).contains("nothing was"), "{chart:?}");
}

#[test]
fn labels_of_marks_and_legends_do_not_lie_over_each_other() {
    let mut chart = job();
    chart.panels[0].marks.extend([
        (1000.0 * 1048576.0, "limit".into()),
        (0.0, "nothing".into()),
        (1.0, "a byte".into()),
    ]);
    for (width, height) in [(400, 300), (900, 600), (1600, 1000)] {
        let layout = layout::Layout::new(&chart, f64::from(width), f64::from(height));
        let place = &layout.places[0];
        let bases: Vec<f64> =
            layout::marks(&chart.panels[0], place, layout.font_size).iter().map(|mark| mark.base).collect();
        assert_eq!(bases.len(), 5);
        for pair in bases.windows(2) {
            assert!(pair[1] - pair[0] >= layout.font_size, "{bases:?} at {width}x{height}");
        }
        for (one, next) in place.legend.iter().zip(&place.legend[1..]) {
            let end =
                one.x + (layout::SWATCH + 0.5) * layout.font_size + font::width(&one.text, layout.font_size);
            assert!(next.y > one.y || next.x >= end, "{one:?} {next:?}");
            assert!(end <= f64::from(width), "{one:?} ends at {end}");
        }
        for pair in layout.places.windows(2) {
            assert!(
                pair[1]
                    .legend
                    .first()
                    .is_none_or(|legend| legend.y > pair[0].plot.bottom() + 0.5 * layout.font_size)
            );
        }
    }
}

#[test]
fn a_terminal_shows_areas_lines_and_stops() {
    let ramp = |style| Series { name: "ramp".into(), points: vec![(0.0, 0.0), (10.0, 4.0)], style };
    let panel = |title: &str, style, marks| Panel {
        title: title.into(),
        unit: "cores".into(),
        series: vec![ramp(style)],
        marks,
        ..Panel::default()
    };
    let chart = Chart {
        title: "two ramps".into(),
        panels: vec![
            panel("area", Style::Area, vec![(3.0, "claim".into())]),
            panel("line", Style::Line, vec![]),
        ],
        shaded: vec![(2.0, 4.0, "frozen".into())],
        ..Chart::default()
    };
    let text = chart.to_text(22, 13);
    assert!(text.contains('█') && text.contains('░') && text.contains('┄') && text.contains('•'), "{text}");
    assert_eq!(text, WANT, "\n{text}");
}

#[test]
fn page_cache_far_above_does_not_press_memory_down() {
    let mut chart = job();
    let top = |chart: &Chart| scale::scale(&chart.panels[0]).top;
    let before = top(&chart);
    let cache = chart.panels[0].series.iter_mut().find(|series| series.name == "page cache").unwrap();
    cache.points.iter_mut().for_each(|(_, bytes)| *bytes *= 100.0);
    assert!(top(&chart) <= before, "{} above {before}", top(&chart));
    assert!(chart.to_svg(900, 600).contains("page cache (goes above)"));
}

/// For people: `PINFOLD_PICTURES=DIR cargo test -p pinfold-profile pictures` writes what they look like.
#[test]
fn pictures_of_a_job_differ_where_the_jobs_do() {
    let two = [view(Some((1..=200).map(|s| point(f64::from(s), JobState::Running)).collect())), view(None)];
    let three: Vec<ReportView> = (0..3).map(|_| two[0].clone()).collect();
    let pictures = [
        ("job", job()),
        ("empty", job_chart(&view(None))),
        ("host", host(400)),
        ("two", comparison(&two)),
        ("three", comparison(&three)),
    ];
    if let Some(dir) = std::env::var_os("PINFOLD_PICTURES") {
        for ((name, chart), (width, height)) in pictures
            .iter()
            .flat_map(|picture| [(400, 300), (900, 600), (1600, 1000)].map(|size| (picture, size)))
        {
            let file = std::path::Path::new(&dir).join(format!("{name}-{width}x{height}"));
            std::fs::write(file.with_extension("svg"), chart.to_svg(width, height)).unwrap();
            std::fs::write(file.with_extension("png"), chart.to_png(width, height).unwrap()).unwrap();
        }
        println!("{}", pictures[0].1.to_text(100, 40));
        println!("{}", pictures[0].1.to_text(60, 24));
        println!("{}", pictures[2].1.to_text(80, 24));
        println!("{}", pictures[4].1.to_text(120, 40));
    }
    assert_ne!(pictures[0].1.to_png(300, 200).unwrap(), pictures[1].1.to_png(300, 200).unwrap());
}

#[test]
fn an_axis_of_something_else_than_time() {
    let across = Across { title: "bound".to_owned(), unit: "MiB".to_owned() };
    let line =
        Series { name: "time".to_owned(), points: vec![(100.0, 2.0), (400.0, 1.0)], style: Style::Line };
    let panel = Panel { title: "time".to_owned(), unit: "s".into(), series: vec![line], ..Panel::default() };
    let chart = Chart { panels: vec![panel], across: Some(across), ..Chart::default() };
    let svg = chart.to_svg(800, 400);
    assert!(svg.contains(">bound (MiB)</text>") && svg.contains(">200</text>"), "{svg}");
    let text = chart.to_text(60, 20);
    assert!(text.contains("200") && text.trim_end().ends_with("MiB"), "{text}");
}

#[test]
fn usage_after_the_last_sample_is_drawn() {
    let short = ReportView {
        ended_s: Some(3.0),
        wall_s: Some(3.0),
        cpu_user_s: 0.5,
        cpu_system_s: 0.1,
        cores: 1,
        ..view(Some(vec![PointView { cpu_cores: 0.1, ..point(1.0, JobState::Running) }]))
    };
    let drawn = job_chart(&short).panels[1].series[0].points.clone();
    let &(end_s, cores) = drawn.last().expect("points");
    assert!((end_s - 3.0).abs() < 1e-9 && (cores - 0.25).abs() < 1e-9, "{drawn:?}");
    // One that runs says no more than its samples.
    let running = ReportView { ended_s: None, ..short.clone() };
    assert_eq!(job_chart(&running).panels[1].series[0].points.len(), drawn.len() - 1);
    // A figure above the job's cores cannot be.
    let odd = ReportView { cpu_user_s: 1e9, ..short };
    let drawn = job_chart(&odd).panels[1].series[0].points.clone();
    assert!(drawn.iter().all(|&(_, cores)| cores <= 1.0), "{drawn:?}");
}
