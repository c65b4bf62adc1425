use std::collections::{BTreeMap, BTreeSet};

use pinfold_proto::JobState;

use super::*;

/// Name, labels, value.
type Sample = (String, Vec<(String, String)>, f64);

/// A sample line, taken apart by the grammar of OpenMetrics: name, labels, value.
fn parse(line: &str) -> Option<Sample> {
    let (name, mut rest) = line.split_at(line.find(['{', ' '])?);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"")?;
            let mut value = String::new();
            let mut signs = after.char_indices();
            let end = loop {
                match signs.next()? {
                    (at, '"') => break at,
                    (_, '\\') => value.push(match signs.next()?.1 {
                        'n' => '\n',
                        sign @ ('"' | '\\') => sign,
                        _ => return None,
                    }),
                    (_, sign) => value.push(sign),
                }
            };
            labels.push((label.to_owned(), value));
            rest = &after[end + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}')?;
    }
    let plain = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let value = rest.strip_prefix(' ')?.parse().ok()?;
    (plain(name) && labels.iter().all(|(label, _)| plain(label))).then(|| (name.to_owned(), labels, value))
}

/// Every sample of the text, after its whole form was checked against the rules; panics where one is broken.
fn checked(text: &str) -> Vec<Sample> {
    assert!(text.ends_with("# EOF\n") && text.lines().filter(|line| *line == "# EOF").count() == 1, "{text}");
    let (mut family, mut kind, mut seen) = (String::new(), String::new(), BTreeSet::new());
    let (mut samples, mut series) = (Vec::new(), BTreeSet::new());
    for text in text.lines().filter(|line| *line != "# EOF") {
        if let Some(rest) = text.strip_prefix("# TYPE ") {
            let (name, what) = rest.split_once(' ').unwrap();
            (family, kind) = (name.to_owned(), what.to_owned());
            assert!(seen.insert(family.clone()), "{family} comes twice");
        } else if let Some(rest) = text.strip_prefix("# UNIT ") {
            let (name, unit) = rest.split_once(' ').unwrap();
            assert!(name == family && name.ends_with(&format!("_{unit}")), "{text}");
        } else if let Some(rest) = text.strip_prefix("# HELP ") {
            assert!(rest.starts_with(&format!("{family} ")), "{text}");
        } else {
            let sample = parse(text).unwrap_or_else(|| panic!("not a sample: {text}"));
            let suffix = match kind.as_str() {
                "counter" => "_total",
                "info" => "_info",
                "gauge" => "",
                "summary" if sample.0.ends_with("_count") => "_count",
                "summary" if sample.0.ends_with("_sum") => "_sum",
                "summary" => {
                    let is_quantile = sample.1.len() == 1 && sample.1[0].0 == "quantile";
                    assert!(is_quantile, "{text}");
                    ""
                }
                "histogram" if sample.0.ends_with("_bucket") => {
                    let [(label, bound)] = &sample.1[..] else { panic!("{text}") };
                    assert!(label == "le" && (bound == "+Inf" || bound.contains('.')), "{text}");
                    "_bucket"
                }
                "histogram" if sample.0.ends_with("_count") => "_count",
                "histogram" => "_sum",
                other => panic!("{other}"),
            };
            assert_eq!(sample.0, format!("{family}{suffix}"), "{text}");
            assert!(series.insert(text.rsplit_once(' ').unwrap().0.to_owned()), "twice: {text}");
            samples.push(sample);
        }
    }
    samples
}

fn host() -> HostFigures {
    HostFigures {
        version: "1.2.3".to_owned(),
        host: "a".to_owned(),
        mode: "v2".to_owned(),
        slots: 3,
        jobs: vec![(JobState::Queued, 4), (JobState::Running, 2)],
        ended: [("succeeded", 9), ("failed", 1), ("killed", 0), ("not_started", 0)],
        stalled: vec![("cpu", "some", 1_500_000), ("memory", "full", 0)],
        daemon_resident_bytes: 5 << 20,
        freezes: FreezeFigures { count: 4, sum_us: 26_000, half_us: 5_000, most_us: 12_000 },
        turns: LoopFigures {
            within: vec![(100, 5), (1_000_000, 8)],
            count: 9,
            sum_us: 4_500_000,
            longest_us: 2_000_000,
            last_minute_us: 500,
        },
        store_writable: true,
        ..HostFigures::default()
    }
}

#[test]
fn the_text_keeps_to_the_format_whatever_jobs_are_called() {
    let names = ["plain", "a\"b\\c\nd", "tab\tbell\u{7}", "\u{1F411}", "", "} 1\n# EOF\nx{a=\""];
    let jobs: Vec<JobFigures> = (1..)
        .zip(names)
        .map(|(job, name)| JobFigures { job, name: name.to_owned(), ..JobFigures::default() })
        .collect();
    let samples = checked(&text(&host(), &jobs));
    let told: BTreeMap<String, String> = samples
        .iter()
        .filter(|(name, ..)| name == "pinfold_job_info")
        .map(|(_, labels, _)| (labels[0].1.clone(), labels[1].1.clone()))
        .collect();
    assert_eq!(told["1"], "plain");
    assert_eq!(told["2"], "a\"b\\c\nd", "what was escaped comes back");
    assert_eq!(told["3"], "tab\u{FFFD}bell\u{FFFD}");
    assert_eq!(told["6"], names[5]);
}

#[test]
fn values_are_those_of_the_figures() {
    let job = JobFigures {
        job: 7,
        cpu_user_us: 2_500_000,
        memory_bytes: 1 << 30,
        cache_bytes: Some(4096),
        frozen: true,
        ..JobFigures::default()
    };
    let samples = checked(&text(&host(), &[job]));
    let of = |name: &str, label: &str| {
        let found = samples
            .iter()
            .find(|(n, labels, _)| n == name && (label.is_empty() || labels.iter().any(|(_, v)| v == label)));
        found.unwrap_or_else(|| panic!("{name} {label}")).2
    };
    let near = |one: f64, other: f64| assert!((one - other).abs() < 1e-9, "{one} {other}");
    near(of("pinfold_slots", ""), 3.0);
    near(of("pinfold_jobs", "queued"), 4.0);
    near(of("pinfold_jobs_ended_total", "succeeded"), 9.0);
    near(of("pinfold_stalled_seconds_total", "cpu"), 1.5);
    near(of("pinfold_freeze_seconds", "0.999"), 0.012);
    near(of("pinfold_freeze_seconds_count", ""), 4.0);
    near(of("pinfold_freeze_seconds_sum", ""), 0.026);
    near(of("pinfold_loop_turn_seconds_bucket", "0.0001"), 5.0);
    near(of("pinfold_loop_turn_seconds_bucket", "1.0"), 8.0);
    near(of("pinfold_loop_turn_seconds_bucket", "+Inf"), 9.0);
    near(of("pinfold_loop_turn_seconds_count", ""), 9.0);
    near(of("pinfold_loop_turn_seconds_sum", ""), 4.5);
    near(of("pinfold_loop_turn_longest_seconds", "start"), 2.0);
    near(of("pinfold_loop_turn_longest_seconds", "minute"), 0.0005);
    near(of("pinfold_job_cpu_seconds_total", "user"), 2.5);
    near(of("pinfold_job_memory_bytes", "7"), 1_073_741_824.0);
    near(of("pinfold_job_cache_bytes", "7"), 4096.0);
    near(of("pinfold_job_frozen", "7"), 1.0);
}

#[test]
fn projects_have_what_is_theirs_and_what_is_not() {
    let project = |name: &str| ProjectView {
        project: Some(name.to_owned()),
        users: None,
        cores_guaranteed: Some(4),
        cores_used: 1,
        cores_borrowed: Some(0),
        cores_owed: 3,
        memory_guaranteed_bytes: Some(1 << 34),
        memory_used_bytes: 5,
        memory_borrowed_bytes: Some(0),
        memory_owed_bytes: 7,
        jobs_started: 1,
        jobs_waiting: 2,
    };
    let without = ProjectView { cores_used: 2, ..ProjectView::default() };
    let host = HostFigures { projects: vec![without, project("we\"b")], ..host() };
    let samples = checked(&text(&host, &[]));
    let of = |name: &str, project: &str| {
        let found = samples.iter().filter(|(n, labels, _)| n == name && labels[0].1 == project);
        found.map(|(.., value)| *value).collect::<Vec<f64>>()
    };
    let check = |name: &str, project: &str, want: &[f64]| {
        let found = of(&format!("pinfold_project_{name}"), project);
        let near = found.len() == want.len() && found.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(near, "{name} of `{project}`: {found:?}, not {want:?}");
    };
    check("cores_guaranteed", "we\"b", &[4.0]);
    check("cores_owed", "we\"b", &[3.0]);
    check("memory_guaranteed_bytes", "we\"b", &[17_179_869_184.0]);
    check("memory_owed_bytes", "we\"b", &[7.0]);
    check("jobs", "we\"b", &[1.0, 2.0]);
    check("cores_used", "", &[2.0]);
    check("cores_guaranteed", "", &[]);
    check("memory_borrowed_bytes", "", &[]);
    let many = |count: usize| {
        let projects = (0..count).map(|at| project(&at.to_string())).collect();
        let samples = checked(&text(&HostFigures { projects, ..host.clone() }, &[]));
        let mine = samples.iter().filter(|(name, ..)| name.starts_with("pinfold_project_")).count();
        let left_out = samples.iter().find(|(name, ..)| name == "pinfold_projects_left_out");
        (mine, left_out.map(|(.., value)| format!("{value}")))
    };
    assert_eq!(many(0), (0, None));
    assert_eq!(many(3), (3 * PROJECT_SERIES, Some("0".to_owned())));
    assert_eq!(many(PROJECTS_MAX + 2), (PROJECTS_MAX * PROJECT_SERIES, Some("2".to_owned())));
}

#[test]
fn series_are_bounded_and_names_cut() {
    let job =
        |job| JobFigures { job, name: "n".repeat(10_000), cache_bytes: Some(1), ..JobFigures::default() };
    let count = |jobs: &[JobFigures]| checked(&text(&host(), jobs)).len();
    let none = count(&[]);
    assert_eq!(count(&[job(1)]) - none, JOB_SERIES);
    assert_eq!(count(&[job(1), job(2), job(3)]) - none, 3 * JOB_SERIES);
    let long = text(&host(), &[job(1)]);
    assert!(long.lines().all(|line| line.len() < 400), "{long}");
}

#[test]
fn every_name_is_in_the_documentation() {
    let docs = include_str!("../../../../../docs/metrics.md");
    let names = HOST.iter().chain([&RESIDENT, &PROJECTS_LEFT_OUT]).map(|family| family.name);
    let names = names.chain(PROJECT.iter().map(|family| family.name));
    let names: Vec<&str> = names.chain(JOB.iter().map(|family| family.name)).collect();
    for name in &names {
        assert!(docs.contains(&format!("| `{name}` |")), "{name}");
    }
    let documented = docs.lines().filter(|line| line.starts_with("| `pinfold")).count();
    assert_eq!(documented, names.len(), "nothing is documented that is not there");
}
