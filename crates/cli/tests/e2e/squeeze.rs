//! `pinfold squeeze` of real programs, where this host bounds memory, and its refusals. Which bound is tried when is tested
//! where that is decided.

use serde_json::Value;

use crate::host::Host;
use crate::kind::Kind;

const MIB: u64 = 1 << 20;

fn host(kind: Kind) -> Option<Host> {
    if let Some(why) = kind.missing() {
        println!("skipped: {why}");
        return None;
    }
    Some(Host::with(kind, &["profile.interval=50ms"]))
}

#[test]
fn the_knee_of_sort() {
    let Some(host) = host(Kind::Groups) else { return };
    let made = host.shell("seq 1 400000 | sed 's/^/a line of some length that is sorted, number /' >big.txt");
    assert_eq!(made.code, Some(0), "{made:?}");
    let command = ["--", "sort", "-r", "-S", "100M", "--parallel=1", "-o", "/dev/null", "big.txt"];
    let options = ["squeeze", "--json", "--step", "0.05", "-o", "knee.svg"];
    let done = host.pinfold([&options[..], &command].concat());
    assert_eq!(done.code, Some(0), "{done:?}");
    let view: Value = serde_json::from_str(&done.out).expect("JSON alone on standard output");
    let bytes = |key: &str| view[key].as_u64().unwrap_or_else(|| panic!("{key}: {view}"));
    let (peak, knee) = (bytes("peak_bytes"), bytes("knee_bytes"));
    assert!(peak > 20 * MIB && knee > 4 * MIB && knee < 4 * peak, "{view}");
    let runs = view["runs"].as_array().expect("a list");
    assert!(runs.len() >= 4 && runs[0]["limit_bytes"].is_null() && runs[0]["exit_code"] == 0, "{view}");
    // Nothing below the knee by a step went as well, and the knee did.
    let good = |run: &&Value| run["is_good"] == true;
    let least = runs.iter().filter(good).filter_map(|run| run["limit_bytes"].as_u64()).min();
    assert!(least.is_some_and(|least| least <= knee), "{view}");
    assert!(runs.iter().all(|run| run["wall_s"].is_f64() && !run["exit_code"].is_string()), "{view}");
    let picture = host.wrote("knee.svg");
    assert!(picture.contains("stalled for memory") && picture.contains("bound (MiB)</text>"), "{picture}");
}

#[test]
fn a_command_that_needs_nothing_and_one_that_fails() {
    let Some(host) = host(Kind::Groups) else { return };
    let fails = host.pinfold(["squeeze", "--json", "--", "sh", "-c", "sleep 0.2; exit 3"]);
    assert_eq!((fails.code, fails.out.as_str()), (Some(1), ""), "{fails:?}");
    assert!(fails.err.contains("fails without a bound (exit code 3)"), "{fails:?}");
    let missing = host.pinfold(["squeeze", "--", "no-such-command"]);
    assert_eq!(missing.code, Some(127), "{missing:?}");
    for wrong in [["squeeze", "--step", "0", "--", "true"], ["squeeze", "--step", "x", "--", "true"]] {
        assert_eq!(host.pinfold(wrong).code, Some(2), "{wrong:?}");
    }
    assert_eq!(host.pinfold(["squeeze", "-o", "knee.txt", "--", "true"]).code, Some(2));
    let nested = host.pinfold(["run", "--", "pinfold", "squeeze", "--", "true"]);
    assert_eq!(nested.code, Some(5), "{nested:?}");
    assert!(nested.err.contains("run it from outside"), "{nested:?}");
}

/// Where nothing bounds memory, every run would be one without a bound.
#[test]
fn a_host_without_bounds() {
    let Some(host) = host(Kind::Rootless) else { return };
    let done = host.pinfold(["squeeze", "--json", "--", "true"]);
    assert_eq!((done.code, done.out.as_str()), (Some(5), ""), "{done:?}");
    assert!(done.err.contains("memory cannot be bounded in mode rootless"), "{done:?}");
}
