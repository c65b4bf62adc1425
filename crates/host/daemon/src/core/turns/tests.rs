use super::*;

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A turn that begins at `at` and does such work for so long, one after the other.
fn turn(turns: &mut Turns, at: Duration, parts: &[(&'static str, Duration)]) -> Option<Slow> {
    turns.begin(at);
    let mut now = at;
    for &(work, took) in parts {
        turns.busy_with(now, work);
        now += took;
    }
    turns.end(now)
}

#[test]
fn a_turn_is_busy_with_what_took_most_of_it_all_times_together() {
    let mut turns = Turns::default();
    turn(&mut turns, ms(10), &[("status", ms(3)), ("submit", ms(5)), ("status", ms(3))]);
    let longest = turns.longest.unwrap();
    assert_eq!(longest, Turn { took: ms(11), at: ms(21), busy_with: "status" });
    turn(&mut turns, ms(100), &[("submit", ms(11))]);
    assert_eq!(turns.longest, Some(longest), "the first of two as long");
    turn(&mut turns, ms(200), &[("why", ms(2)), ("submit", ms(10))]);
    assert_eq!(turns.longest.unwrap().busy_with, "submit");
    // What an earlier turn did counts for that one only.
    turn(&mut turns, ms(300), &[("why", ms(13))]);
    assert_eq!(turns.longest.unwrap().busy_with, "why");
}

#[test]
fn the_time_before_any_work_is_reading_and_the_time_of_waits_counts_for_nothing() {
    let mut turns = Turns::default();
    turns.begin(ms(0));
    turns.busy_with(ms(4), "why");
    assert_eq!(turns.end(ms(5)), None);
    turns.busy_with(ms(900), "stopping");
    assert_eq!(turns.end(ms(999)), None, "no turn has begun");
    assert_eq!(turns.longest, Some(Turn { took: ms(5), at: ms(5), busy_with: work::READING }));
    assert_eq!(turns.histogram.total(), 1);
}

#[test]
fn the_longest_of_the_last_minute_is_forgotten_and_the_longest_of_all_is_not() {
    let mut turns = Turns::default();
    let at = Duration::from_secs;
    assert_eq!(turns.of_last_minute(at(0)), None);
    turn(&mut turns, at(5), &[("status", ms(80))]);
    turn(&mut turns, at(30), &[("why", ms(20))]);
    turn(&mut turns, at(30) + ms(500), &[("report", ms(10))]);
    let of = |turns: &Turns, now| turns.of_last_minute(now).map(|turn| turn.busy_with);
    assert_eq!(of(&turns, at(31)), Some("status"));
    assert_eq!(of(&turns, at(64)), Some("status"));
    assert_eq!(of(&turns, at(65)), Some("why"));
    // The second 30 is a minute ago, so a shorter turn is the longest.
    turn(&mut turns, at(90), &[("members", ms(1))]);
    assert_eq!(of(&turns, at(90)), Some("members"));
    assert_eq!(of(&turns, at(150)), None);
    assert_eq!(turns.longest.unwrap().busy_with, "status");
}

#[test]
fn slow_turns_are_warned_of_once_a_minute_and_those_left_out_are_counted() {
    let mut turns = Turns::default();
    let mut warned = Vec::new();
    for second in 0..130 {
        // Ten at the limit, and a hundred and twenty beyond it.
        let took = if second < 10 { ms(100) } else { ms(101) };
        let slow = turn(&mut turns, Duration::from_secs(second), &[("status", took)]);
        warned.extend(slow.map(|slow| (second, slow.left_out)));
    }
    assert_eq!(warned, [(10, 0), (70, 59)]);
    let after = turn(&mut turns, Duration::from_secs(1000), &[("why", ms(200))]).unwrap();
    assert_eq!((after.turn.busy_with, after.turn.took, after.left_out), ("why", ms(200), 59));
}

#[test]
fn doctor_tells_of_it() {
    let mut turns = Turns::default();
    assert_eq!((turns.finding(ms(5)), turns.view(ms(5), 0)), (None, None));
    let second = Duration::from_secs(1);
    turn(&mut turns, second, &[("status of all jobs", ms(17))]);
    for at in 0..12_344 {
        turn(&mut turns, 2 * second + ms(at), &[("submit", ms(1))]);
    }
    let found = turns.finding(301 * second).unwrap();
    assert!(found.ok && found.change.is_none(), "{found:?}");
    let want = "99.9 % of 12,345 turns within 1.02 ms, the longest 17 ms (status of all jobs) 5 min 00 s ago";
    assert_eq!(found.found, want);
    let view = turns.view(20 * second, 1_000_000_000).unwrap();
    let near = |one: f64, other: f64| assert!((one - other).abs() < 1e-9, "{one} {other}");
    assert_eq!((view.turns, view.max_busy_with.as_str()), (12_345, "status of all jobs"));
    near(view.max_s, 0.017);
    near(view.max_at_s, 1_001.017);
    assert!(view.p50_s >= 0.001 && view.p50_s < 0.001_06, "{view:?}");
    assert_eq!(view.last_minute.unwrap().max_busy_with, "status of all jobs");

    turn(&mut turns, 400 * second, &[("doctor", ms(150))]);
    let found = turns.finding(401 * second).unwrap();
    assert!(!found.ok && found.change.unwrap().contains("150 ms (doctor)"));
    assert!(turns.finding(500 * second).unwrap().ok, "it is over for more than a minute");
}

#[test]
fn a_monitoring_system_is_told_how_many_took_at_most_how_long() {
    let mut turns = Turns::default();
    for (at, took) in [(1, 0), (2, 1), (3, 1), (4, 20), (5, 11_000)] {
        turn(&mut turns, Duration::from_secs(at), &[("why", ms(took))]);
    }
    let figures = turns.figures(Duration::from_secs(100));
    let want = [1, 1, 3, 3, 3, 4, 4, 4, 4];
    assert_eq!(figures.within.iter().map(|&(_, count)| count).collect::<Vec<_>>(), want);
    assert_eq!((figures.count, figures.sum_us, figures.longest_us), (5, 11_022_000, 11_000_000));
    assert_eq!(figures.last_minute_us, 0);
}

#[test]
fn numbers_have_commas() {
    let told = [0, 999, 1_000, 12_345, 1_234_567].map(with_commas);
    assert_eq!(told, ["0", "999", "1,000", "12,345", "1,234,567"]);
}
