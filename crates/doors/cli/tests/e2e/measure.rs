//! What a job used, as `report` has it: within a percent of what a program is known to use.

use pinfold_proto::JobState;
use pinfold_proto::view::ReportView;
use pinfold_testkit::ignore;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::wait::eventually;

tests! {
    Each: memory_of_a_known_allocator, page_cache_is_told_apart, processor_time;
    Best: a_spike_of_50_ms, two_copies_share_nothing;
}

const MIB: u64 = 1024 * 1024;

/// Perl is the allocator of these tests: one buffer, filled once, of exactly the size asked for.
fn has_perl() {
    if !std::path::Path::new("/usr/bin/perl").exists() {
        ignore!("no /usr/bin/perl to allocate with");
    }
}

/// A program that fills so many MiB and then runs this.
fn allocator(mib: u64, then: &str) -> String {
    format!("open Z, '<', '/dev/zero'; sysread Z, $b, {}; {then}", mib * MIB)
}

/// The report of a host's first job.
fn run(host: &Host, program: &str) -> ReportView {
    let done = host.pinfold(["run", "--", "/usr/bin/perl", "-e", program]);
    assert_eq!(done.code, Some(0), "{done:?}");
    // A busy daemon has its end on record later than the command returns.
    host.until(1, JobState::Exited);
    host.report(1)
}

/// What a program ends with that waits until it was seen.
const WAITS: &str = "select undef, undef, undef, 0.05 until -e 'go'";

/// The same, of one that makes a file when it holds all that it will.
fn says(file: &str) -> String {
    format!("open F, '>', \"{file}\"; {WAITS}")
}

/// Runs a command that waits for `go` until it was seen as is wanted; gives its report once it is over.
fn run_until_seen(host: &Host, command: &[&str], is_seen: impl Fn(&ReportView) -> bool) -> ReportView {
    let running = host.start([&["run", "--"], command].concat());
    let job = eventually("it is asked for", || {
        host.status(&[]).jobs.first().map(|job| job.job).ok_or("there is no job")
    });
    let seen = eventually("it was seen as is wanted", || {
        let report = host.report(job);
        if is_seen(&report) { Ok(report) } else { Err(format!("{report:?}")) }
    });
    // A report of a job that runs tells of this moment; what is kept is what was sampled. The first sample that comes may
    // have begun before that was so.
    eventually("it was sampled since", || {
        let report = host.report(job);
        if report.samples > seen.samples + 1 { Ok(()) } else { Err(format!("{report:?}")) }
    });
    host.make("go");
    running.wait().ended_with(0);
    std::fs::remove_file(host.work("go")).expect("it was made");
    host.until(job, JobState::Exited);
    host.report(job)
}

#[track_caller]
fn is_within_a_percent(got: u64, want: u64) {
    assert!(got.abs_diff(want) * 100 <= want, "{got} bytes, not within a percent of {want}");
}

fn memory_of_a_known_allocator(kind: Kind) {
    has_perl();
    let host = Host::with(kind, &["profile.interval=100ms"]);
    let perl = |program: &str, is_seen: &dyn Fn(&ReportView) -> bool| {
        run_until_seen(&host, &["/usr/bin/perl", "-e", program], is_seen)
    };
    let is_made = |file: &str| host.work(file).exists();
    let bare = perl(&says("bare"), &|_| is_made("bare")).memory_peak_bytes;
    assert!(bare < 16 * MIB, "{bare}");
    let filled = perl(&allocator(200, &says("filled")), &|_| is_made("filled"));
    is_within_a_percent(filled.memory_peak_bytes - bare, 200 * MIB);
    assert!(filled.samples > 0 && filled.virtual_peak_bytes > 200 * MIB, "{filled:?}");
    // In several processes that each have their own.
    let part = allocator(50, &says("part-$_"));
    let parts = format!("for (1..4) {{ if (!fork) {{ {part}; exit }} }} 1 while wait > 0");
    let parts = perl(&parts, &|report| {
        report.processes_peak >= 5 && (1..=4).all(|number| is_made(&format!("part-{number}")))
    });
    let own = parts.memory_peak_bytes;
    assert!((200 * MIB..232 * MIB).contains(&own), "{own}: four times 50 MiB and four interpreters");
    assert_eq!(parts.processes_peak, 5, "{parts:?}");
}

fn page_cache_is_told_apart(kind: Kind) {
    has_perl();
    let host = Host::with(kind, &["profile.interval=100ms"]);
    let file = host.work("large").display().to_string();
    let write = format!("dd if=/dev/zero of={file} bs=1M count=128 2>/dev/null");
    let script = format!("{write}; cat {file} >/dev/null; : >read; until [ -e go ]; do sleep 0.05; done");
    let is_read = |_: &ReportView| host.work("read").exists();
    let report = run_until_seen(&host, &["/bin/sh", "-c", &script], is_read);
    assert!(report.memory_peak_bytes < 24 * MIB, "{report:?}");
    if kind == Kind::Groups {
        assert!(report.cache_peak_bytes >= Some(100 * MIB), "the cache is shown beside it: {report:?}");
    }
}

fn a_spike_of_50_ms(kind: Kind) {
    has_perl();
    // Samples a second apart would see nothing of it.
    let host = Host::with(kind, &["profile.interval=1s"]);
    let report = run(
        &host,
        &allocator(150, "select undef, undef, undef, 0.05; undef $b; select undef, undef, undef, 0.2"),
    );
    let peak = report.memory_peak_bytes;
    // The kernel's count of a process's pages lags behind by some per PU, so it may be a little short.
    assert!((148 * MIB..170 * MIB).contains(&peak), "{peak} in {report:?}");
}

fn processor_time(kind: Kind) {
    has_perl();
    let host = Host::new(kind);
    // It burns until the kernel says that it had 0.5 s, in a child that is waited for. How much it was in the end, and what
    // came on top for the start of both, it writes down: of itself and of the child, each in user and system time.
    let burn = "if (!fork) { 1 while (times)[0] + (times)[1] < 0.5; exit } wait; \
                open F, '>', 'times'; print F join ' ', times";
    let report = run(&host, burn);
    let used = report.cpu_user_s + report.cpu_system_s;
    let text = host.wrote("times");
    let times: Vec<f64> = text.split(' ').map(|time| time.parse().expect("seconds")).collect();
    let (all, child) = (times.iter().sum::<f64>(), times[2] + times[3]);
    assert!(child >= 0.49, "{text}");
    // The kernel tells these in hundredths, rounded down, and the end of the program comes after them.
    assert!((child - 0.01..all + 0.1).contains(&used), "{used} s, and {text}, in {report:?}");
}

fn two_copies_share_nothing(kind: Kind) {
    has_perl();
    let host = Host::with(kind, &["profile.interval=100ms", "slots.factor=2"]);
    let program = allocator(
        64,
        "open F, '>', \"ready-$ENV{PINFOLD_JOB_ID}\"; select undef, undef, undef, 0.05 until -e 'go'",
    );
    let program = format!("exec /usr/bin/perl -e '{}'", program.replace('\'', "'\\''"));
    let jobs = [host.submit(&[], &program), host.submit(&[], &program)];
    jobs.iter().for_each(|job| host.until_made(&format!("ready-{job}")));
    let status = host.status(&[]);
    for view in &status.jobs {
        let held = view.memory_bytes.expect("it runs");
        assert!((64 * MIB..80 * MIB).contains(&held), "{view:?}");
    }
    let sum: u64 = status.jobs.iter().filter_map(|view| view.memory_bytes).sum();
    assert_eq!(status.memory.held_bytes, sum);
    host.make("go");
    jobs.iter().for_each(|&job| drop(host.until(job, JobState::Exited)));
}
