use super::*;
use crate::surroundings::hooks::record::{About, Ended};

fn record(job: u64, begun: &[&str]) -> Record {
    let begun = begun.iter().map(|program| (*program).to_owned()).collect();
    let mut record = Record::new(job, About::default());
    record.begun = begun;
    record
}

#[test]
fn records_are_found_again_and_damaged_ones_left() {
    let dir = tempfile::tempdir().unwrap();
    let records = Records::new(dir.path());
    assert_eq!(records.read(), []);
    let (first, second) = (record(3, &["/a", "/b"]), record(20, &["/a"]));
    records.write(&second).unwrap();
    records.write(&record(3, &["/a"])).unwrap();
    records.write(&first).unwrap();
    std::fs::write(dir.path().join("around/job-4.json"), "{").unwrap();
    std::fs::write(dir.path().join("around/job-5.json"), "{\"version\":9}").unwrap();
    std::fs::write(dir.path().join("around/job-6.new"), "{").unwrap();
    assert_eq!(records.read(), [first, second.clone()]);
    records.remove(3).unwrap();
    records.remove(3).unwrap();
    assert_eq!(records.read(), [second]);
    assert!(dir.path().join("around/job-4.json").exists());
}

#[test]
fn variables_are_ours_by_name_and_none_of_our_own() {
    let mut record = record(1, &[]);
    record.add_variables(
        "PINFOLD_SCRATCH=/a b=c\nmade /x\nPATH=/evil\nLD_PRELOAD=x\nPINFOLD_JOB_ID=2\nPINFOLD_HOOK_OF=1\nPINFOLD_x=1\nPINFOLD_EMPTY=\n",
    );
    let texts = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(record.variables, texts(&[("PINFOLD_SCRATCH", "/a b=c"), ("PINFOLD_EMPTY", "")]));
    record.add_variables(&format!("PINFOLD_SCRATCH=/b\nPINFOLD_LONG={}", "x".repeat(5000)));
    assert_eq!(record.variables, texts(&[("PINFOLD_EMPTY", ""), ("PINFOLD_SCRATCH", "/b")]));
    let many: String = (0..100).map(|n| format!("PINFOLD_{n}=x\n")).collect();
    record.add_variables(&many);
    assert_eq!(record.variables.len(), 64);
}

#[test]
fn a_program_is_told_what_is_known() {
    let about = About {
        user: "ann".to_owned(),
        name: "na\0me".to_owned(),
        command: vec!["a".to_owned(), "b c".to_owned()],
        tmpdir: Some("/run/x".to_owned()),
        disk: Some("/fast/x".to_owned()),
        ..About::default()
    };
    let record = Record::new(7, about);
    let environment = record.environment("i00000001", &Ended::default());
    let value =
        |name: &str| environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    assert_eq!(
        (value("PINFOLD_JOB_ID"), value("PINFOLD_USER"), value("TMPDIR")),
        (Some("7"), Some("ann"), Some("/run/x"))
    );
    assert_eq!(value("PINFOLD_HOOK_OF"), Some("7"), "it is no process of the job");
    assert_eq!((value("PINFOLD_NAME"), value("PINFOLD_EXIT_CODE")), (Some("name"), None));
    let ended = Ended { exit_code: None, signal: Some(9), reason: Some("killed".to_owned()) };
    let told: serde_json::Value = serde_json::from_slice(&record.told("after", &ended)).unwrap();
    assert_eq!(
        (
            &told["version"],
            &told["verb"],
            &told["job"],
            &told["command"][1],
            &told["exit_code"],
            &told["signal"]
        ),
        (&1.into(), &"after".into(), &7.into(), &"b c".into(), &serde_json::Value::Null, &9.into())
    );
}

/// What could not be done is tried again for ever, after pauses that grow up to a bound; one that went on has short ones.
#[test]
fn what_could_not_be_done_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut hooks = Hooks::open(dir.path()).unwrap();
    let job = JobId(3);
    hooks.jobs.insert(job, Setup::new(record(3, &["/a"]), VecDeque::new()));
    assert_eq!(
        (hooks.due_us(), hooks.findings().next().is_none()),
        (None, true),
        "an idle host is not woken"
    );
    let (mut now_us, mut pauses) = (0, Vec::new());
    for _ in 0..9 {
        hooks.tries_again(job, Step::AfterWaits, "no /a", now_us);
        assert!(hooks.findings().next().is_some_and(|finding| finding.found.contains("job 3: no /a")));
        let due_us = hooks.due_us().unwrap();
        assert_eq!(hooks.take_due(due_us - 1), []);
        assert_eq!(hooks.take_due(due_us), [(job, Step::AfterWaits)]);
        assert_eq!((hooks.jobs[&job].step, hooks.due_us()), (Step::Rests, None));
        pauses.push((due_us - now_us) / 1_000_000);
        now_us = due_us;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    hooks.jobs.get_mut(&job).unwrap().went_on();
    hooks.tries_again(job, Step::BeforeWaits, "no /a", now_us);
    assert_eq!(hooks.due_us(), Some(now_us + 1_000_000));
    // It is taken down instead.
    hooks.jobs.get_mut(&job).unwrap().step = Step::After;
    assert!(hooks.findings().next().is_none());
    assert_eq!(hooks.take_due(u64::MAX), []);
}
