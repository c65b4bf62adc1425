use pinfold_proto::JobState;
use pinfold_proto::view::PointView;
use proptest::prelude::*;

use super::*;

/// A job that is over, with so many points.
fn report(job: u64, points: usize) -> ReportView {
    let text = format!(
        r#"{{"version":1,"job":{job},"name":"align","command":["align","-t","4"],"user":"ann","project":null,
        "state":"exited","class":"primary","priority":10,"cpus":null,"submitted_s":1790000000.25,
        "started_s":1790000001.0,"ended_s":1790000061.0,"exit_code":0,"signal":null,"reason":null,"queued_s":0.75,
        "wall_s":60.0,"suspended_s":0.0,"cpu_user_s":50.0,"cpu_system_s":1.0,"claim_bytes":null,
        "memory_peak_bytes":1048576,"memory_mean_bytes":524288,"cache_peak_bytes":null,"swap_peak_bytes":0,
        "virtual_peak_bytes":2097152,"io_read_bytes":0,"io_write_bytes":0,"processes_total":1,"processes_peak":1,
        "threads_peak":4,"samples":60}}"#
    );
    let mut report: ReportView = serde_json::from_str(&text).unwrap();
    let point = |at: usize| PointView {
        time_s: 1_790_000_001.0 + f64::from(u32::try_from(at).unwrap()) * 0.1,
        cpu_cores: 0.1 + 0.2,
        memory_bytes: 1 << 20,
        cache_bytes: at.is_multiple_of(2).then_some(7),
        swap_bytes: 0,
        io_read_bytes: at as u64,
        io_write_bytes: 0,
        processes: 1,
        threads: 4,
        state: JobState::Running,
    };
    report.series = Some((0..points).map(point).collect());
    report
}

fn bundle(parts: Vec<Part>) -> Bundle {
    Bundle { version: WIRE_VERSION, origin: "o".into(), boot: "b".into(), made_us: 1, parts }
}

#[test]
fn a_job_comes_back_as_it_was_to_the_last_bit() {
    let whole = report(7, 2 * POINTS_A_PART + 5);
    let parts = parts(whole.clone(), Vec::new());
    assert_eq!(parts.len(), 3);
    let read = read_bundle(&pack(&bundle(parts)).unwrap()).unwrap();
    let points: Vec<PointView> =
        read.parts.iter().flat_map(|part| part.series.as_ref().unwrap().points()).collect();
    assert_eq!(Some(points), whole.series);
    assert_eq!(read.parts[0].submitted_us, 1_790_000_000_250_000);
}

#[test]
fn a_job_without_a_series_has_one_part() {
    let mut none = report(1, 0);
    none.series = None;
    assert_eq!(parts(none, Vec::new()).len(), 1);
}

#[test]
fn of_very_many_decisions_the_first_and_the_last_are_told() {
    let acts = |count: usize| -> Vec<Act> {
        let act = |at: usize| Act { time_s: 1.0, action: at.to_string(), reason: "why".into() };
        let parts = parts(report(1, 0), (0..count).map(act).collect());
        parts.into_iter().next().unwrap().head.unwrap().acts
    };
    assert_eq!(acts(ACTS_MAX).len(), ACTS_MAX);
    let told = acts(ACTS_MAX + 300);
    let half = ACTS_MAX / 2;
    assert_eq!((told.len(), told[half].action.as_str()), (ACTS_MAX + 1, "left out"));
    assert!(told[half].reason.starts_with("300 decisions"), "{}", told[half].reason);
    let around = [&told[half - 1], &told[half + 1], &told[ACTS_MAX]].map(|act| act.action.as_str());
    assert_eq!(around, ["4999", "5300", "10299"]);
}

#[track_caller]
fn check_refused(change: impl FnOnce(&mut Bundle), words: &str) {
    let mut changed = bundle(parts(report(7, 3), Vec::new()));
    change(&mut changed);
    let error = read_bundle(&pack(&changed).unwrap()).unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
}

#[test]
fn bundles_that_contradict_themselves_are_refused() {
    check_refused(|bundle| bundle.version = 2, "version 2");
    check_refused(|bundle| bundle.parts[0].job = 8, "another job's");
    check_refused(|bundle| bundle.parts[0].submitted_us += 1, "another time of submission");
    check_refused(|bundle| bundle.parts[0].parts = 0, "not so many parts");
    check_refused(|bundle| bundle.parts[0].parts = u32::MAX, "not so many parts");
    check_refused(|bundle| bundle.parts[0].part = 1, "in the first part alone");
    check_refused(|bundle| bundle.parts[0].head = None, "no figures");
    check_refused(
        |bundle| bundle.parts[0].head.as_mut().unwrap().report.processes = Some(Vec::new()),
        "figures have lists",
    );
    check_refused(
        |bundle| bundle.parts[0].head.as_mut().unwrap().report.wall_s = Some(1.7e308),
        "job 7, part 0: wall_s is 1.7e308",
    );
    check_refused(
        |bundle| bundle.parts[0].series.as_mut().unwrap().cpu_cores[1] = -1.0,
        "job 7, part 0: series.cpu_cores is -1,",
    );
    check_refused(|bundle| bundle.parts[0].series.as_mut().unwrap().threads.push(1), "differ in length");
}

#[test]
fn a_bomb_is_not_unpacked() {
    // Blanks before a value that never comes: 26 MiB of them are some 26 KiB packed.
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    let blanks = vec![b' '; 1 << 20];
    (0..26).for_each(|_| packed.write_all(&blanks).unwrap());
    let packed = packed.finish().unwrap();
    assert!(packed.len() < PACKED_MAX_BYTES);
    let error = read_bundle(&packed).unwrap_err();
    assert!(matches!(error, DecodeError::TooLong { max_bytes: PLAIN_MAX_BYTES }), "{error}");
}

/// A million parts with nothing in them are 24 MiB of text.
#[test]
fn so_many_parts_are_read_and_no_more() {
    let of = |count: usize| {
        let parts = vec!["[7,0,1,2,null,null]"; count].join(",");
        let text = format!(r#"{{"version":1,"origin":"o","boot":"b","made_us":1,"parts":[{parts}]}}"#);
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(text.as_bytes()).unwrap();
        unpack::<Bundle>(&packed.finish().unwrap(), PLAIN_MAX_BYTES)
    };
    assert_eq!(of(PARTS_A_BUNDLE).unwrap().parts.len(), PARTS_A_BUNDLE);
    let error = of(PARTS_A_BUNDLE + 1).unwrap_err();
    let DecodeError::Malformed(why) = error else { panic!("{error}") };
    assert!(why.to_string().contains("up to 10000 parts"), "{why}");
}

#[test]
fn deep_json_is_refused_and_does_not_end_the_program() {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all("[".repeat(1 << 20).as_bytes()).unwrap();
    assert!(matches!(read_bundle(&packed.finish().unwrap()), Err(DecodeError::Malformed(_))));
}

proptest! {
    #[test]
    fn any_bytes_get_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(read_bundle(&bytes).is_err());
    }

    #[test]
    fn a_cut_bundle_is_refused(cut in 1usize..200) {
        let packed = pack(&bundle(parts(report(7, 50), Vec::new()))).unwrap();
        prop_assert!(read_bundle(&packed[..packed.len().saturating_sub(cut)]).is_err());
    }
}
