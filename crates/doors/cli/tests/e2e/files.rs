//! Which files a job used: seen at samples, by whom they may be seen, and only where that was asked for.

use pinfold_proto::JobState;
use pinfold_proto::view::{FileView, ReportView};

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::wait::eventually;

tests! {
    Best: read_and_written, what_a_seek_skips, not_asked_for;
}

fn report(host: &Host, job: u64) -> ReportView {
    let done = host.pinfold(["report", "--json", "--files", &job.to_string()]);
    assert_eq!(done.code, Some(0), "{done:?}");
    serde_json::from_str(&done.out).expect("a report")
}

fn find<'a>(host: &Host, report: &'a ReportView, name: &str) -> Option<&'a FileView> {
    let path = std::fs::canonicalize(host.work(name)).expect("the job made it");
    let files = report.files.as_deref().expect("files were asked for");
    files.iter().find(|file| std::path::Path::new(&file.path) == path)
}

fn read_and_written(kind: Kind) {
    let host = Host::with(kind, &["profile.interval=50ms", "profile.files=on"]);
    // Not by the job, which could be seen at it.
    std::fs::write(host.work("in"), "abcd\nefgh\n").expect("a file to read");
    kind.give(&host.work("in"));
    // A shell reads 5 bytes of one file and writes 7 into another, and a child inherits both.
    let script = "exec 3<in 4>out; read line <&3; printf 1234567 >&4; \
                  sh -c 'until [ -e go ]; do sleep 0.02; done'";
    let job = host.submit(&[], script);
    let running = eventually("both files are seen", || {
        let report = report(&host, job);
        // A look goes from one to the other while the shell is at them.
        let seen = host.work("out").exists()
            && find(&host, &report, "in").is_some_and(|file| file.read_bytes >= 5)
            && find(&host, &report, "out").is_some_and(|file| file.write_bytes >= 7 && file.size_bytes >= 7);
        if seen { Ok(report) } else { Err(format!("{:?}", report.files)) }
    });
    assert_eq!(running.files_from.as_deref(), Some("samples"));
    host.make("go");
    host.until(job, JobState::Exited);
    let over = report(&host, job);
    let (input, output) = (find(&host, &over, "in").expect("seen"), find(&host, &over, "out").expect("seen"));
    assert!(input.read && !input.written, "{input:?}");
    // A shell may read ahead, up to all there is; whatever it is, that it was inherited does not double it.
    assert!((5..=10).contains(&input.read_bytes), "{input:?}");
    assert_eq!((output.write_bytes, output.size_bytes, output.read), (7, 7, false), "{output:?}");
    assert!(input.first_s >= over.submitted_s && input.last_s >= input.first_s, "{input:?}");
    for table in [&["report", "--csv", "--files"][..], &["export", "--what", "files"]] {
        let table = host.pinfold(table.iter().map(|word| (*word).to_owned()).chain([job.to_string()]));
        assert!(table.out.starts_with("job,path,read,written,opened,"), "{table:?}");
        let line = table.out.lines().find(|line| line.contains("/out,")).expect("a line of the file");
        assert!(line.contains(",0,1,") && line.contains(",7,"), "{line}");
    }
    let text = host.pinfold(["report", "--files", &job.to_string()]);
    let end = host.work("out");
    let end: std::path::PathBuf = end.iter().skip(end.iter().count() - 2).collect();
    assert!(
        text.out.contains("from: samples") && text.out.contains(&format!("/{}", end.display())),
        "{text:?}"
    );
}

/// Ten bytes read a megabyte into a file are not a megabyte.
fn what_a_seek_skips(kind: Kind) {
    let host = Host::with(kind, &["profile.interval=50ms", "profile.files=on"]);
    // The position is that of the shell's own opening, which dd inherits and sets.
    let script = "truncate -s 10000000 big; exec 3<big; dd bs=1 skip=5000000 count=10 <&3 >/dev/null 2>&1; echo >there; \
                  until [ -e go ]; do sleep 0.02; done";
    let job = host.submit(&[], script);
    eventually("dd is over, and what is open was seen since", || {
        if !host.work("there").exists() {
            return Err("dd is not over".to_owned());
        }
        let report = report(&host, job);
        let seen = find(&host, &report, "big").is_some_and(|file| file.read_bytes >= 10);
        if seen { Ok(()) } else { Err(format!("{:?}", report.files)) }
    });
    host.make("go");
    host.until(job, JobState::Exited);
    let over = report(&host, job);
    let big = find(&host, &over, "big").expect("seen");
    assert!((10..1_000_000).contains(&big.read_bytes), "{big:?}");
}

fn not_asked_for(kind: Kind) {
    let host = Host::with(kind, &["profile.interval=50ms"]);
    host.succeeds(["run", "--", "/bin/sh", "-c", "exec 3>out; sleep 0.2"]);
    // A busy daemon has its end on record later than the command returns.
    host.until(1, JobState::Exited);
    let report = report(&host, 1);
    assert_eq!((report.files.as_deref(), report.files_from), (Some(&[][..]), None));
    let text = host.pinfold(["report", "--files", "1"]);
    assert!(text.out.contains("profile.files=on"), "{text:?}");
}
