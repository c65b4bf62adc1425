//! Processes one by one: none is missed, however short it lived, and what is shown of them.

use pinfold_proto::JobState;
use pinfold_proto::view::{ProcessView, ReportView};
use pinfold_testkit::ignore;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::wait::eventually;

tests! {
    Each: what_is_whose;
    Best: ten_thousand_short_ones, one_by_one, shared_memory_is_divided, not_followed, across_a_crash;
}

/// A job's report with its processes and threads.
fn report(host: &Host, job: u64) -> ReportView {
    let done = host.pinfold(["report", "--json", "--processes", "--threads", &job.to_string()]);
    assert_eq!(done.code, Some(0), "{done:?}");
    serde_json::from_str(&done.out).expect("a report")
}

fn processes(report: &ReportView) -> &[ProcessView] {
    report.processes.as_deref().expect("processes were asked for")
}

/// Ends a test as ignored where the kernel does not tell of each process.
fn told(report: &ReportView) {
    if !matches!(report.processes_from.as_deref(), Some("records" | "events")) {
        ignore!("no records of processes here: {:?}", report.processes_from);
    }
}

fn ten_thousand_short_ones(kind: Kind) {
    let host = Host::new(kind);
    let script = "i=0; while [ $i -lt 10000 ]; do ( : ); i=$((i+1)); done";
    host.succeeds(["run", "--", "/bin/sh", "-c", script]);
    host.until(1, JobState::Exited);
    let report = report(&host, 1);
    told(&report);
    assert_eq!(report.processes_total, 10_001, "{:?}", report.processes_from);
    let all = processes(&report);
    assert_eq!(all.iter().map(|process| process.count).sum::<u64>(), 10_001);
    // On a busy machine some of them live for longer, and have a row each.
    let short = |process: &&ProcessView| {
        process.ended_s.zip(process.started_s).is_none_or(|(to, from)| to - from < 0.999)
    };
    let alone = all.iter().filter(|process| process.count == 1).filter(short).count();
    assert!(alone <= 202, "short ones of one command are added up beyond 200: {alone} rows of {}", all.len());
    if report.processes_from.as_deref() == Some("records") {
        let of = |source: &str| -> u64 {
            all.iter().filter(|process| process.source == source).map(|process| process.count).sum()
        };
        assert_eq!(of("exit"), 10_001, "each with the kernel's figures");
        let sum: f64 = all.iter().map(|process| process.cpu_user_s + process.cpu_system_s).sum();
        let whole = report.cpu_user_s + report.cpu_system_s;
        // What the kernel does to take a process down comes after the record of its end.
        assert!(sum > 0.4 * whole && sum < 1.1 * whole, "{sum} s in processes, {whole} s in all");
    }
}

fn one_by_one(kind: Kind) {
    let host = Host::with(kind, &["profile.interval=50ms"]);
    let script = "sh -c 'exit 3'; sh -c 'kill -9 $$'; until [ -e go ]; do sleep 0.1; done; exec sleep 0";
    let job = host.submit(&[], script);
    let running = eventually("its processes are known by their command lines", || {
        let report = report(&host, job);
        let main = processes(&report).iter().find(|process| process.command.contains("until"));
        if main.is_some() { Ok(report) } else { Err(format!("{report:?}")) }
    });
    let main = &processes(&running)[0];
    assert_eq!((main.ended_s, main.source.as_str()), (None, "running"));
    eventually("its memory is divided", || {
        let report = report(&host, job);
        let living = processes(&report).iter().find(|one| one.command.contains("until"));
        let divided = living
            .is_some_and(|one| one.pss_bytes.is_some_and(|bytes| bytes > 0) && one.pss_read_s.is_some());
        if divided { Ok(()) } else { Err(format!("{:?}", report.processes)) }
    });
    let threads = running.threads.as_deref().expect("threads were asked for");
    assert!(threads.iter().any(|thread| thread.pid == main.pid && thread.thread == main.pid), "{threads:?}");
    for table in [&["report", "--csv", "--threads"][..], &["export", "--what", "threads"]] {
        let table = host.pinfold(table.iter().map(|word| (*word).to_owned()).chain([job.to_string()]));
        let line = format!("{job},{0},{0},", main.pid);
        assert!(table.out.starts_with("job,pid,thread,name,state,"), "{table:?}");
        assert!(table.out.lines().any(|found| found.starts_with(&line)), "{line} in {table:?}");
    }
    let series = host.pinfold(["report", "--csv", "--series", &job.to_string()]);
    assert!(series.out.starts_with("job,time_s,state,") && series.out.lines().count() > 1, "{series:?}");
    let both = host.pinfold(["report", "--csv", "--threads", "--files", &job.to_string()]);
    assert!(both.code == Some(2) && both.err.contains("takes one"), "{both:?}");
    host.make("go");
    host.until(job, JobState::Exited);
    let over = report(&host, job);
    assert!(processes(&over).iter().all(|process| process.ended_s.is_some()), "{over:?}");
    assert_eq!(over.threads, Some(Vec::new()));
    let text = host.pinfold(["report", "--processes", &job.to_string()]);
    for word in ["processes by command", "COUNT", "the largest, by CPU time"] {
        assert!(text.out.contains(word), "{text:?}");
    }
    told(&over);
    let by = |code, signal| {
        processes(&over).iter().filter(|one| (one.exit_code, one.signal) == (code, signal)).count()
    };
    assert_eq!((by(Some(3), None), by(None, Some(9))), (1, 1), "{over:?}");
    let failed: u64 = processes(&over).iter().map(|process| process.failed).sum();
    assert_eq!(failed, 2, "{over:?}");
    let first = &processes(&over)[0];
    assert_eq!((first.number, first.exit_code), (1, Some(0)));
    assert!(processes(&over).iter().skip(1).all(|process| process.parent == Some(first.pid)), "{over:?}");
}

/// What a child did counts for the child and for the job, and not for the shell that waited for it; and what nobody knows
/// is told of nobody.
fn what_is_whose(kind: Kind) {
    let host = Host::with(kind, &["profile.interval=50ms"]);
    let script = "dd if=/dev/zero of=/dev/null bs=1 count=5000 2>/dev/null; echo >there; \
                  until [ -e go ]; do sleep 0.02; done";
    let job = host.submit(&[], script);
    eventually("dd is over", || host.work("there").exists().then_some(()).ok_or(job));
    let running = eventually("what dd did was sampled after its end", || {
        let report = report(&host, job);
        let sampled = report.io_read_calls.min(report.io_write_calls) >= Some(5000);
        if sampled { Ok(report) } else { Err(format!("{report:?}")) }
    });
    let shell = processes(&running).iter().find(|one| one.command.contains("until")).expect("the shell");
    assert!(
        shell.io_read_calls < 2500 && shell.io_write_calls < 2500,
        "dd's calls are not the shell's: {shell:?}"
    );
    assert!(shell.switches_voluntary > Some(0) && shell.waited_s.is_some(), "it waited for dd: {shell:?}");
    assert!(shell.virtual_peak_bytes > Some(100 << 10), "{shell:?}");
    assert!(running.faults_minor > Some(100) && running.faults_major.is_some(), "{running:?}");
    assert_eq!((running.switches_voluntary, running.waited_s), (None, None), "it is not over: {running:?}");
    assert!(running.anonymous_peak_bytes > Some(0) && running.shared_peak_bytes.is_some(), "{running:?}");
    host.make("go");
    host.until(job, JobState::Exited);
    let over = report(&host, job);
    assert!(over.switches_voluntary > Some(1) && over.switches_forced.is_some(), "{over:?}");
    assert!(over.io_write_calls >= Some(5000) && over.faults_minor >= running.faults_minor, "{over:?}");
    let shell = processes(&over).iter().find(|one| one.command.contains("until")).expect("the shell");
    assert!(shell.io_read_calls < 2500, "{shell:?}");
    if over.processes_from.as_deref() == Some("records") {
        assert!(over.waited_s.is_some(), "the kernel told of each: {over:?}");
        assert!(processes(&over).iter().all(|one| one.waited_s.is_some()), "{over:?}");
    } else {
        let short = processes(&over).iter().find(|one| one.source == "unseen");
        assert!(short.is_none_or(|one| one.waited_s.is_none()), "{short:?}");
    }
    let text = host.pinfold(["report", &job.to_string()]);
    assert!(
        text.out.contains("page faults met from memory") && text.out.contains("calls that read"),
        "{text:?}"
    );
}

/// Eight processes that have the same 64 MiB: each counts an eighth of it, and together they come to what there is.
fn shared_memory_is_divided(kind: Kind) {
    const MIB: u64 = 1 << 20;
    if !std::path::Path::new("/usr/bin/python3").exists() {
        ignore!("no /usr/bin/python3 to share memory with");
    }
    let host = Host::with(kind, &["profile.interval=50ms", "profile.pss=false"]);
    let program = "import mmap, os, time\n\
        shared = mmap.mmap(-1, 64 << 20)\n\
        shared.write(b'x' * (64 << 20))\n\
        any(os.fork() == 0 for _ in range(7))\n\
        touched = sum(shared[at] for at in range(0, 64 << 20, 4096))\n\
        while not os.path.exists('go'): time.sleep(0.05)\n";
    std::fs::write(host.work("share.py"), program).expect("a program");
    let job = host.submit(&[], "exec /usr/bin/python3 share.py");
    // All of them have touched all of it before anybody looks whose it is: how soon a figure from before that is read
    // again depends on what the machine has to do.
    eventually("all eight hold the memory", || {
        let report = report(&host, job);
        assert!(processes(&report).iter().all(|one| one.pss_bytes.is_none()), "nobody asked yet: {report:?}");
        let sizes: Vec<u64> = processes(&report).iter().map(|one| one.memory_peak_bytes).collect();
        let whole = sizes.len() == 8 && sizes.iter().all(|&bytes| bytes > 64 * MIB);
        if whole { Ok(()) } else { Err(format!("{sizes:?}")) }
    });
    host.succeeds(["config", "set", "profile.pss=true"]);
    let divided = eventually("the memory of all eight is divided", || {
        let report = report(&host, job);
        let shares: Vec<u64> = processes(&report).iter().filter_map(|one| one.pss_bytes).collect();
        let right = shares.len() == 8 && shares.iter().all(|bytes| (8 * MIB..16 * MIB).contains(bytes));
        if right { Ok(report) } else { Err(format!("{shares:?}")) }
    });
    let sum: u64 = processes(&divided).iter().filter_map(|one| one.pss_bytes).sum();
    assert!((64 * MIB..128 * MIB).contains(&sum), "together what there is: {sum}");
    let sizes: u64 = processes(&divided).iter().map(|one| one.memory_peak_bytes).sum();
    assert!(sizes > 7 * 64 * MIB, "their sizes count it for each of them: {sizes}");
    let text = host.pinfold(["report", "--processes", &job.to_string()]);
    assert!(text.out.contains("in 8 of 8 that live"), "{text:?}");
    host.make("go");
    host.until(job, JobState::Exited);
    // When they are over, what was read last stays.
    let over = report(&host, job);
    for one in processes(&over) {
        let (bytes, peak) = (one.pss_bytes.expect("it was read"), one.pss_peak_bytes.expect("it was read"));
        assert!(peak >= bytes && (8 * MIB..128 * MIB).contains(&peak), "{one:?}");
    }
    let text = host.pinfold(["report", "--processes", &job.to_string()]);
    assert!(text.out.contains("over is as it was last read, of 8 of 8"), "{text:?}");
}

fn not_followed(kind: Kind) {
    let host = Host::with(kind, &["profile.processes=off"]);
    host.succeeds(["run", "--", "/bin/true"]);
    host.until(1, JobState::Exited);
    let report = report(&host, 1);
    assert_eq!((report.processes_from.as_deref(), processes(&report)), (Some("samples"), &[][..]));
    assert_eq!(report.processes_total, 1);
}

fn across_a_crash(kind: Kind) {
    let mut host = Host::with(kind, &["profile.interval=50ms"]);
    let job = host.submit(&[], "( : ); ( : ); until [ -e go ]; do sleep 0.02; done; sh -c 'exit 5'");
    host.until(job, JobState::Running);
    eventually("it was sampled", || {
        let report = report(&host, job);
        if report.samples > 1 { Ok(()) } else { Err(format!("{report:?}")) }
    });
    let before = report(&host, job).processes_total;
    host.crash();
    host.start_daemon();
    host.until(job, JobState::Running);
    // What was counted last before the crash may not be on disk.
    eventually("its processes are counted on", || {
        let now = report(&host, job).processes_total;
        if now > before { Ok(()) } else { Err(format!("{now} after {before}")) }
    });
    host.make("go");
    host.until_exit_code(job, 5);
    let over = report(&host, job);
    assert!(over.processes_total > before, "{before} before: {over:?}");
    assert!(matches!(over.processes_from.as_deref(), Some("gaps" | "samples")), "{over:?}");
    let mut numbers: Vec<u64> = processes(&over).iter().map(|process| process.number).collect();
    numbers.dedup();
    assert_eq!(numbers.len(), processes(&over).len(), "no row is written over: {over:?}");
}
