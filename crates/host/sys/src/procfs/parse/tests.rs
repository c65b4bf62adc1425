use proptest::prelude::*;

use super::*;

const STAT: &str = "1234 (a (b) c) S 1 1234 1234 34816 1300 4194304 1000 20 3 0 150 50 7 5 20 0 4 0 98765 10485760 \
                    640 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n";

#[test]
fn a_process_name_may_hold_parentheses_and_blanks() {
    let stat = parse_process_stat(STAT).unwrap();
    assert_eq!((stat.pid, stat.state, stat.parent, stat.threads), (1234, 'S', 1, 4));
    assert_eq!((stat.user_ticks, stat.system_ticks), (150, 50));
    assert_eq!((stat.children_user_ticks, stat.children_system_ticks), (7, 5));
    assert_eq!((stat.faults_minor, stat.faults_major), (1000, 3));
    assert_eq!((stat.children_faults_minor, stat.children_faults_major), (20, 0));
    assert_eq!((stat.start_ticks, stat.virtual_bytes, stat.resident_pages), (98765, 10_485_760, 640));
}

#[test]
fn a_thread_has_a_name_and_a_pu() {
    let thread = parse_thread_stat(STAT).unwrap();
    assert_eq!((thread.name.as_str(), thread.state, thread.pu), ("a (b) c", 'S', Some(1)));
}

#[test]
fn a_cut_stat_line_is_refused() {
    for length in 0..STAT.find("640").unwrap() {
        assert_eq!(parse_process_stat(&STAT[..length]), None, "cut after {length} bytes");
    }
}

#[test]
fn status_counts_memory_by_kind() {
    let text = "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nRssAnon:\t     100 kB\nRssFile:\t      20 kB\n\
                RssShmem:\t       3 kB\nVmSwap:\t       4 kB\nCpus_allowed_list:\t0-1,4\n";
    let status = parse_process_status(text).unwrap();
    assert_eq!((status.user, status.anon_bytes, status.shmem_bytes), (1000, 102_400, 3072));
    assert_eq!(
        (status.file_bytes, status.swap_bytes, status.cpus.to_string().as_str()),
        (20_480, 4096, "0-1,4")
    );
    assert_eq!(parse_process_status("Uid:\t0\n").map(|status| status.anon_bytes), Some(0), "a kernel thread");
    assert_eq!(parse_process_status("RssAnon: 12 kB\n"), None, "no user, so not a status file");
}

#[test]
fn cancelled_writes_are_taken_off() {
    let text = "rchar: 1\nwchar: 2\nsyscr: 7\nsyscw: 8\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 4096\n";
    let io = ProcessIo {
        read_bytes: 4096,
        write_bytes: 4096,
        read_calls: 7,
        write_calls: 8,
        read_chars: 1,
        write_chars: 2,
    };
    assert_eq!(parse_process_io(text), Some(io));
    let more = "read_bytes: 0\nwrite_bytes: 0\ncancelled_write_bytes: 4096\n";
    assert_eq!(parse_process_io(more), Some(ProcessIo::default()));
    assert_eq!(parse_process_io("rchar: 1\n"), None);
}

#[test]
fn switches_need_both_their_lines() {
    let text = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
    assert_eq!(parse_switches(text), Some((12, 3)));
    assert_eq!(parse_switches("voluntary_ctxt_switches:\t12\n"), None);
}

#[test]
fn the_nice_value_stands_behind_any_name() {
    let stat = |nice: &str| format!("7 (a) b) R 1 7 7 0 -1 4194304 1 0 0 0 5 6 0 0 39 {nice} 1 0 99 1000 20");
    assert_eq!((parse_nice(&stat("19")), parse_nice(&stat("-5"))), (Some(19), Some(-5)));
    assert_eq!((parse_nice("7 (a) R 1"), parse_nice("")), (None, None));
}

#[test]
fn the_sum_line_of_the_pus_is_left_out() {
    let text = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu1 1 2 3 40 5 6 7 8 0 0\ncpu0 1 1 1 10 1 1 1 1 0 0\nintr 1 2 3\n";
    let host = parse_host_cpu(text).unwrap();
    assert_eq!(host.pus.len(), 2);
    assert_eq!(host.pus[0].pu, PuOs(0));
    let one = host.pus[1];
    assert_eq!((one.busy_ticks, one.idle_ticks, one.iowait_ticks, one.steal_ticks), (19, 40, 5, 8));
    assert_eq!(one.nice_ticks, 2);
    assert_eq!(parse_host_cpu("cpu  1 2 3 4\n"), None);
}

#[test]
fn memory_without_swap_lines_has_none() {
    let text = "MemTotal: 100 kB\nMemFree: 10 kB\nMemAvailable: 50 kB\n";
    let memory = parse_memory_info(text).unwrap();
    assert_eq!((memory.total_bytes, memory.available_bytes, memory.swap_total_bytes), (102_400, 51_200, 0));
    assert_eq!(parse_memory_info("MemTotal: 100 kB\n"), None);
}

#[test]
fn pressure_is_a_share() {
    let text = "some avg10=12.50 avg60=1.00 avg300=0.00 total=1234\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";
    let pressure = parse_pressure(text).unwrap();
    assert!((pressure.some.avg10 - 0.125).abs() < 1e-9);
    assert_eq!((pressure.some.total_us, pressure.full.map(|line| line.total_us)), (1234, Some(5)));
    let first_line = text.lines().next().unwrap();
    assert_eq!(parse_pressure(first_line).map(|pressure| pressure.full), Some(None));
    assert_eq!(parse_pressure("some avg10=inf avg60=0 total=1"), None);
}

#[test]
fn a_rollup_needs_all_its_lines() {
    let text = "55d0-7ffe ---p 00000000 00:00 0 [rollup]\nRss: 9 kB\nShared_Dirty: 3 kB\nPss_Anon: 4 kB\nPss_Shmem: 2 kB\nSwapPss: 1 kB\n";
    let want = Rollup { anon_bytes: 4096, shmem_bytes: 2048, swap_bytes: 1024, shared_bytes: 3072 };
    assert_eq!(parse_rollup(text), Some(want));
    assert_eq!(parse_rollup("Pss_Anon: 4 kB\n"), None);
}

/// Text near enough to kernel files to get past the first checks.
fn nearly_kernel_text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[a-zA-Z_]{1,12}:?",
        any::<u64>().prop_map(|number| number.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        Just("cpu0".to_owned()),
        Just("some avg10=1.0 total=18446744073709551616".to_owned()),
        Just("MemTotal: 18446744073709551615 kB".to_owned()),
        Just("(x) S".to_owned()),
        Just("Cpus_allowed_list: 4294967295".to_owned()),
        "\\PC{0,8}",
    ];
    proptest::collection::vec(
        (word, prop_oneof![Just(" "), Just("\n"), Just("\t"), Just(")"), Just("=")]),
        0..60,
    )
    .prop_map(|parts| parts.into_iter().map(|(word, gap)| format!("{word}{gap}")).collect())
}

#[test]
fn how_many_threads_want_to_run() {
    let load = |minute_milli, running| Some(Load { minute_milli, running });
    assert_eq!(parse_load("0.20 0.18 0.12 1/80 11206\n"), load(200, 1));
    assert_eq!(parse_load("12.05 9.18 0.12 31/4242 11206\n"), load(12_050, 31));
    for bad in
        ["", "1 2 3 4/5 6", "1.5x 0 0 1/2", "0.20 0.18 0.12 1", "0.123 0 0 1/2 3", "4294967.30 0 0 1/2"]
    {
        assert_eq!(parse_load(bad), None, "{bad}");
    }
}

proptest! {
    #[test]
    fn hostile_text_never_panics(text in prop_oneof![nearly_kernel_text(), any::<String>()]) {
        let _ = parse_process_stat(&text);
        let _ = parse_process_status(&text);
        let _ = parse_process_io(&text);
        let _ = parse_rollup(&text);
        let _ = parse_switches(&text);
        let _ = parse_host_cpu(&text);
        let _ = parse_memory_info(&text);
        let _ = parse_load(&text);
        let _ = parse_pressure(&text);
    }

    #[test]
    fn any_name_leaves_the_fields_where_they_are(name in "\\PC{0,16}") {
        let line = STAT.replace("a (b) c", &name);
        let stat = parse_process_stat(&line);
        prop_assert_eq!(stat.map(|stat| (stat.state, stat.parent)), Some(('S', 1)));
    }
}
