//! Results of the lab, for people and for programs: the suite's output as text, and each of its checks in JSON, in `lab/`
//! of the target directory. Absent here: the checks (`tools/lab/acceptance.sh`, `tools/lab/full/`).

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde::Serialize;

use super::machine::Outcome;

#[derive(Debug, Serialize)]
struct Results<'a> {
    version: u32,
    /// `fast` or `full`.
    form: &'a str,
    kernel: &'a str,
    machine: &'a str,
    seconds: u64,
    /// The suite's; `null`: the machine ended without it.
    exit_code: Option<i32>,
    checks: Vec<Check<'a>>,
    skipped: Vec<&'a str>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Check<'a> {
    section: &'a str,
    what: &'a str,
    held: bool,
    wanted: &'a str,
    found: &'a str,
}

/// The form of the lab and its machine, for readers of the results.
pub(super) struct Of<'a> {
    pub form: &'a str,
    pub kernel: &'a str,
    pub machine: &'a str,
}

/// Writes both files, and fails if the suite did.
pub(super) fn conclude(of: &Of<'_>, outcome: &Outcome, target: &Path) -> anyhow::Result<()> {
    let directory = target.join("lab");
    fs::create_dir_all(&directory).with_context(|| format!("failed to make {}", directory.display()))?;
    let (checks, skipped) = read(&outcome.said);
    let counts = (checks.len(), checks.iter().filter(|check| !check.held).count());
    let results = Results {
        version: 1,
        form: of.form,
        kernel: of.kernel,
        machine: of.machine,
        seconds: outcome.seconds,
        exit_code: outcome.code,
        checks,
        skipped,
    };
    let path = |ending: &str| directory.join(format!("{}.{ending}", of.form));
    fs::write(path("txt"), &outcome.said).context("failed to write what the suite said")?;
    fs::write(path("json"), serde_json::to_string_pretty(&results)? + "\n")
        .context("failed to write the results")?;
    let where_to = path("json");
    match outcome.code {
        Some(0) if counts.1 == 0 => {
            println!("lab: {} checks held in {} s ({})", counts.0, outcome.seconds, where_to.display());
            Ok(())
        }
        Some(code) => {
            let (all, failed) = counts;
            bail!(
                "the lab's suite failed (exit code {code}, {failed} of {all} checks; {})",
                where_to.display()
            )
        }
        None => bail!(
            "the lab's machine ended without a result after {} s; its console's end:\n{}",
            outcome.seconds,
            outcome.console
        ),
    }
}

/// The checks in a suite's output, and the skipped parts.
fn read(said: &str) -> (Vec<Check<'_>>, Vec<&str>) {
    let (mut section, mut checks, mut skipped) = ("", Vec::new(), Vec::new());
    for line in said.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            section = name;
        } else if let Some((what, found)) = line.strip_prefix("ok: ").and_then(|rest| rest.rsplit_once(": "))
        {
            checks.push(Check { section, what, held: true, wanted: found, found });
        } else if let Some(rest) = line.strip_prefix("FAILED: ") {
            let (what, values) = rest.split_once(": wanted '").unwrap_or((rest, ""));
            let (wanted, found) = values.split_once("', found '").unwrap_or((values, ""));
            let found = found.trim_end_matches('\'');
            checks.push(Check { section, what, held: false, wanted, found });
        } else if line.starts_with("SKIPPED") {
            skipped.push(line);
        }
    }
    (checks, skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_found_in_what_a_suite_says() {
        let said = "lab: boot\n== classes\nok: a: b is idle: 1\nnoise: 7\nFAILED: its status: wanted '9', found ''\n\
                    SKIPPED in part: old kernel\n== memory\nFAILED: broken\nlab: exit 1\n";
        let (checks, skipped) = read(said);
        let check = |section, what, held, wanted, found| Check { section, what, held, wanted, found };
        assert_eq!(
            checks,
            [
                check("classes", "a: b is idle", true, "1", "1"),
                check("classes", "its status", false, "9", ""),
                check("memory", "broken", false, "", ""),
            ]
        );
        assert_eq!(skipped, ["SKIPPED in part: old kernel"]);
    }

    #[test]
    fn a_check_that_failed_fails_the_lab_and_is_on_disk() {
        let target = a_directory();
        let outcome = |said: &str, code| Outcome {
            said: said.to_owned(),
            code,
            seconds: 3,
            console: "panic".to_owned(),
        };
        let of = Of { form: "fast", kernel: "6.12", machine: "2" };
        conclude(&of, &outcome("ok: all: 0\n", Some(0)), &target).expect("it held");
        let failed = conclude(&of, &outcome("FAILED: all: wanted '0', found '1'\n", Some(0)), &target);
        assert!(failed.is_err_and(|error| error.to_string().contains("1 of 1 checks")));
        let text = fs::read_to_string(target.join("lab/fast.json")).expect("written");
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(json["checks"][0]["held"], false);
        assert_eq!(json["checks"][0]["found"], "1");
        let ended = conclude(&of, &outcome("", None), &target).expect_err("no result");
        assert!(ended.to_string().contains("panic"));
        fs::remove_dir_all(&target).expect("removed");
    }

    fn a_directory() -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("pinfold-lab-results-{}", std::process::id()));
        fs::create_dir_all(&path).expect("made");
        path
    }
}
