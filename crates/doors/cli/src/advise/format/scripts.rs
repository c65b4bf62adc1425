//! The scripts as their managers run them: by real interpreters, over the protocol of each.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use super::*;

const TABLE_TEXT: &str = "# user\tclass\tmemory_mib\tkeep\tjobs\trisk\tage_d\n\
                          ann\talign\t3687\t0\t40\t0.0210\t3\n\
                          ann\tkept\t1000\t1\t40\t0.0210\t3\n\
                          ann\t$(touch owned) `touch owned`\t2000\t0\t9\t0.1\t0\n\
                          ann\tbroken\tx\t0\t9\t0.1\t0\n";

/// A directory with the table and one line of a class that failed, and the script itself.
fn place(script: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(TABLE), TABLE_TEXT).unwrap();
    std::fs::write(dir.path().join("failed.tsv"), "ben\talign\nann\tfailing\n").unwrap();
    std::fs::write(dir.path().join("script"), script).unwrap();
    dir
}

/// What a program says to these words; `None`: it is not installed here.
fn said(mut command: Command, words: &str, dir: &Path) -> Option<String> {
    command.current_dir(dir).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("PINFOLD_TABLE", dir.join(TABLE)).env("PINFOLD_FAILED", dir.join("failed.tsv"));
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            println!("skipped: {command:?}: {error}");
            return None;
        }
    };
    child.stdin.take().unwrap().write_all(words.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words}");
    assert!(!dir.join("owned").exists(), "a name was run: {words}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// What the verifier answers for a job that is told by `lines`, as Grid Engine asks it: nothing is sent before the answer. Then
/// comes another job, which must have the answer that is its own.
fn answered(consent: Consent, lines: &str) -> Option<String> {
    let dir = place(&script(include_str!("pinfold_jsv.sh"), consent));
    let mut command = Command::new("bash");
    command.arg("script").current_dir(dir.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.env("PINFOLD_TABLE", dir.path().join(TABLE));
    command.env("PINFOLD_FAILED", dir.path().join("failed.tsv")).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            println!("skipped: {command:?}: {error}");
            return None;
        }
    };
    let mut to = child.stdin.take().unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap());
    let mut ask = |words: &str, ends: &str| {
        // One write, as a value is one text of Grid Engine's.
        to.write_all(words.as_bytes()).unwrap();
        let mut all = Vec::new();
        loop {
            let mut line = String::new();
            assert_ne!(from.read_line(&mut line).unwrap(), 0, "it ended after {all:?}: {words}");
            let line = line.trim_end_matches('\n').to_owned();
            let is_last = line.starts_with(ends);
            all.push(line);
            if is_last {
                return all.join("; ");
            }
        }
    };
    assert_eq!(ask("START\n", "STARTED"), "STARTED", "{lines}");
    let said = ask(&format!("{lines}BEGIN\n"), "RESULT");
    assert_eq!(ask("START\n", "STARTED"), "STARTED", "{lines}");
    let next = ask("PARAM USER ann\nPARAM N align\nBEGIN\n", "RESULT");
    assert_eq!(next, "PARAM l_hard mem_free=3687M; RESULT STATE CORRECT", "{lines}");
    to.write_all(b"QUIT\n").unwrap();
    drop(to);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut from, &mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((rest.as_str(), output.status.success()), ("", true), "{lines}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{lines}");
    assert!(!dir.path().join("owned").exists(), "a name was run: {lines}");
    Some(said)
}

fn verified(consent: Consent, params: &[(&str, &str)]) -> Option<String> {
    let lines: String = params.iter().map(|(key, value)| format!("PARAM {key} {value}\n")).collect();
    answered(consent, &lines)
}

#[track_caller]
fn check_jsv(consent: Consent, params: &[(&str, &str)], want: &str) {
    if let Some(said) = verified(consent, params) {
        assert_eq!(said, want, "{params:?}");
    }
}

const ACCEPT: &str = "RESULT STATE ACCEPT";
const LOWER: (&str, &str) = ("ac", "x=1,pinfold=lower");

#[test]
fn a_verifier_fills_in() {
    let ann = ("USER", "ann");
    let filled = "PARAM l_hard mem_free=3687M; RESULT STATE CORRECT";
    check_jsv(Consent::Fill, &[ann, ("N", "align")], filled);
    check_jsv(
        Consent::Fill,
        &[ann, ("N", "align"), ("l_hard", "h_rt=60,arch=lx*"), ("pe_min", "4")],
        "PARAM l_hard h_rt=60,arch=lx*,mem_free=922M; RESULT STATE CORRECT",
    );
    check_jsv(Consent::Fill, &[ann, ("N", "align"), ("l_hard", "mem_free=16G"), LOWER], ACCEPT);
    check_jsv(Consent::Fill, &[ann, ("N", "unknown")], ACCEPT);
    check_jsv(Consent::Fill, &[ann, ("N", "broken")], ACCEPT);
    check_jsv(Consent::Fill, &[("USER", "eve"), ("N", "align")], ACCEPT);
    check_jsv(Consent::Fill, &[ann, ("N", "*")], ACCEPT);
    check_jsv(
        Consent::Fill,
        &[ann, ("N", "$(touch owned) `touch owned`")],
        "PARAM l_hard mem_free=2000M; RESULT STATE CORRECT",
    );
    check_jsv(Consent::Fill, &[], ACCEPT);
}

#[test]
fn a_verifier_lowers_with_consent_and_not_after_a_failure() {
    let of =
        |name: &'static str, asked: &'static str| [("USER", "ann"), ("N", name), ("l_hard", asked), LOWER];
    let lowered = "PARAM l_hard mem_free=3687M; RESULT STATE CORRECT";
    check_jsv(Consent::Lower, &of("align", "mem_free=16G"), lowered);
    check_jsv(Consent::Lower, &of("align", "mem_free=4.5G"), lowered);
    check_jsv(Consent::Lower, &of("align", "mem_free=17179869184"), lowered);
    check_jsv(Consent::Lower, &of("align", "mem_free=3G"), ACCEPT);
    check_jsv(Consent::Lower, &of("align", "mem_free=a[$(touch owned)]"), ACCEPT);
    check_jsv(Consent::Lower, &of("align", "mem_free=16G")[..3], ACCEPT);
    check_jsv(Consent::Lower, &of("kept", "mem_free=16G"), ACCEPT);
    let mut failed = of("align", "mem_free=16G");
    failed[0].1 = "ben";
    check_jsv(Consent::Lower, &failed, ACCEPT);
}

/// What stands behind a line break in a value arrives as a line of the protocol.
#[test]
fn a_verifier_takes_no_line_from_within_a_value() {
    let job = |account: &str, order: bool| {
        let (before, behind) = if order { (account, "") } else { ("", account) };
        format!("PARAM VERSION 1.0\nPARAM USER ann\n{before}PARAM N align\n{behind}PARAM b y\n")
    };
    for text in [
        "",
        "words",
        "QUIT",
        "START",
        "BEGIN",
        "BEGIN\nQUIT",
        "BEGIN\nSTART",
        "BEGIN\nSTART\nPARAM USER ben\nPARAM N align",
        "BEGIN\nSTART\nPARAM USER ben\nPARAM N align\nBEGIN\nSTART",
        "PARAM USER ben",
        "PARAM N kept",
        "PARAM",
        "PARAM $(touch owned) x",
        "ENV ADD LD_PRELOAD x",
        "RESULT STATE REJECT",
        "PARAM l_hard mem_free=1M\nPARAM l_hard mem_free=2M",
    ] {
        for order in [true, false] {
            let lines = job(&format!("PARAM A x\n{text}\n"), order);
            if let Some(said) = answered(Consent::Fill, &lines) {
                assert_eq!(said, ACCEPT, "{lines}");
            }
        }
    }
    let plain = "PARAM l_hard mem_free=3687M; RESULT STATE CORRECT";
    if let Some(said) = answered(Consent::Fill, &job("PARAM A BEGIN\nPARAM CMDARG0 START\nPARAM wd \n", true))
    {
        assert_eq!(said, plain);
    }
}

/// The plugin with a slurm of its own, called for one job; prints what the job asks for afterwards.
fn submitted(consent: Consent, job: &str) -> Option<String> {
    let text = script(include_str!("job_submit.lua"), consent);
    let dir = place("");
    let text = text
        .replace("/etc/slurm/pinfold-advice.tsv", TABLE)
        .replace("/var/spool/pinfold/failed.tsv", "failed.tsv");
    let slurm = "slurm = { NO_VAL = 4294967294, NO_VAL64 = 18446744073709551614.0, SUCCESS = 0, \
                 log_user = function(...) io.write(string.format(...), '; ') end, \
                 log_info = function(...) io.write('PROBLEM ', string.format(...), '; ') end }\n\
                 os.execute = nil; io.popen = nil\n";
    let call = format!(
        "local job = {job}\nassert(slurm_job_submit(job, {{}}, 1000) == slurm.SUCCESS)\n\
         io.write(tostring(job.min_mem_per_node), ' ', tostring(job.min_mem_per_cpu))\n"
    );
    let body = text.trim_end().strip_suffix("return slurm.SUCCESS").expect("it ends so");
    std::fs::write(dir.path().join("script"), format!("{slurm}{body}{call}")).unwrap();
    let mut command = Command::new("lua5.4");
    command.arg("script");
    said(command, "", dir.path())
}

#[track_caller]
fn check_lua(consent: Consent, job: &str, want: &str) {
    if let Some(said) = submitted(consent, job) {
        let last = said.rsplit("; ").next().unwrap_or_default();
        assert_eq!((last, said.contains("PROBLEM")), (want, false), "{job}: {said}");
    }
}

#[test]
fn a_plugin_fills_in() {
    check_lua(Consent::Fill, "{ user_name = 'ann', name = 'align' }", "3687 nil");
    let unsaid = "{ user_name = 'ann', name = 'align', min_mem_per_node = slurm.NO_VAL64, \
                  min_mem_per_cpu = slurm.NO_VAL64 }";
    if let Some(said) = submitted(Consent::Fill, unsaid) {
        assert!(said.starts_with("pinfold: --mem=3687M by what align has needed so far; 3687 "), "{said}");
    }
    check_lua(Consent::Fill, "{ user_name = 'ann', name = 'align', min_mem_per_node = 16384 }", "16384 nil");
    check_lua(Consent::Fill, "{ user_name = 'ann', name = 'align', min_mem_per_cpu = 500 }", "nil 500");
    check_lua(Consent::Fill, "{ user_name = 'eve', name = 'align' }", "nil nil");
    check_lua(Consent::Fill, "{ user_name = 'ann', name = 'broken' }", "nil nil");
    check_lua(Consent::Fill, "{ user_name = 'ann', name = '$(touch owned) `touch owned`' }", "2000 nil");
    check_lua(Consent::Fill, "{ }", "nil nil");
}

#[test]
fn a_plugin_lowers_with_consent_and_not_after_a_failure() {
    let of = |name: &str, asked: u32, comment: &str| {
        format!("{{ user_name = 'ann', name = '{name}', min_mem_per_node = {asked}, comment = {comment} }}")
    };
    check_lua(Consent::Lower, &of("align", 16_384, "'x pinfold y'"), "3687 nil");
    check_lua(Consent::Lower, &of("align", 16_384, "nil"), "16384 nil");
    check_lua(Consent::Lower, &of("align", 3_000, "'pinfold'"), "3000 nil");
    check_lua(Consent::Lower, &of("align", 0, "'pinfold'"), "0 nil");
    check_lua(Consent::Lower, &of("kept", 16_384, "'pinfold'"), "16384 nil");
    check_lua(
        Consent::Lower,
        "{ user_name = 'ben', name = 'align', min_mem_per_node = 9000, comment = 'pinfold' }",
        "9000 nil",
    );
}

/// One failure of a class that the table has is noted once; a class that it has not, and a success, are not.
#[test]
fn epilogs_note_a_failure_once() {
    let noted = |text: &str, name: &str, code: &str| -> Option<String> {
        let dir = place(text);
        std::fs::write(dir.path().join("usage"), format!("exit_status={}\n", u8::from(code != "0:0")))
            .unwrap();
        std::fs::write(dir.path().join("config"), "job_owner=ann\n").unwrap();
        for _ in 0..2 {
            let mut command = Command::new("sh");
            command.arg("script");
            command.envs([("SLURM_JOB_USER", "ann"), ("SLURM_JOB_NAME", name), ("JOB_NAME", name)]);
            command.env("SLURM_JOB_EXIT_CODE2", code).env("SGE_JOB_SPOOL_DIR", dir.path());
            said(command, "", dir.path())?;
        }
        Some(std::fs::read_to_string(dir.path().join("failed.tsv")).unwrap())
    };
    let before = "ben\talign\nann\tfailing\n";
    for text in [include_str!("slurm_epilog.sh"), include_str!("gridengine_epilog.sh")] {
        assert_eq!(noted(text, "align", "0:9").unwrap(), format!("{before}ann\talign\n"));
        assert_eq!(noted(text, "align", "0:0").unwrap(), before);
        assert_eq!(noted(text, "other", "1:0").unwrap(), before);
        assert_eq!(noted(text, "align\nroot\tx", "1:0").unwrap(), before);
        let odd = "$(touch owned) `touch owned`";
        assert_eq!(noted(text, odd, "1:0").unwrap(), format!("{before}ann\t{odd}\n"));
    }
}
