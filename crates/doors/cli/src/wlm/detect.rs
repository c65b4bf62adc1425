//! `pinfold wlm detect`: this host as [`pinfold_wlm::detect`] asks about it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pinfold_profile::report::plain;
use pinfold_wlm::detect::{Found, Surroundings, detect as found_on};
use serde_json::json;

use crate::print::{JSON_VERSION, print_json, print_text};
use pinfold_client::Failure;

/// The time limit of a manager's program: without its daemon a program may wait for long.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The most bytes read of an answer or a file.
const TEXT_MAX_BYTES: u64 = 1 << 20;

/// The programs and files of this host.
pub(super) struct Here;

impl Surroundings for Here {
    fn file(&self, path: &str) -> Option<String> {
        let file = std::fs::File::open(path).ok()?;
        let mut text = Vec::new();
        std::io::Read::read_to_end(&mut std::io::Read::take(file, TEXT_MAX_BYTES), &mut text).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    fn exists(&self, path: &str) -> bool {
        Path::new(path).exists()
    }

    fn names(&self, dir: &str) -> Vec<String> {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    fn answer(&self, words: &[&str]) -> Option<String> {
        let (program, rest) = words.split_first()?;
        let out = tempfile::tempfile().ok()?;
        let mut reader = out.try_clone().ok()?;
        let mut command = Command::new(program);
        let mut child =
            command.args(rest).stdin(Stdio::null()).stdout(out).stderr(Stdio::null()).spawn().ok()?;
        let until = Instant::now() + ANSWER_WITHIN;
        let status = loop {
            match child.try_wait().ok()? {
                Some(status) => break status,
                None if Instant::now() >= until => {
                    // The child is this process's own, and the signal reaches only the child.
                    let _ = child.kill();
                    let _ = child.wait();
                    return None;
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let mut said = Vec::new();
        std::io::Seek::rewind(&mut reader).ok()?;
        std::io::Read::read_to_end(&mut std::io::Read::take(reader, TEXT_MAX_BYTES), &mut said).ok()?;
        // Grid Engine's help counts as a failure, and says the version all the same.
        let said = String::from_utf8_lossy(&said).into_owned();
        (status.success() || (rest == ["-help"] && !said.is_empty())).then_some(said)
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }
}

/// `pinfold wlm detect`.
pub(super) fn detect(as_json: bool) -> Result<(), Failure> {
    let found = found_on(&Here);
    if as_json {
        let managers: Vec<_> = found.iter().map(view).collect();
        return print_json(&json!({ "version": JSON_VERSION, "managers": managers }));
    }
    print_text(|out| {
        if found.is_empty() {
            return writeln!(
                out,
                "no workload manager is here; `pinfold wlm install generic` has a starter for others"
            );
        }
        for one in &found {
            let version = one.version.as_deref().map(plain).unwrap_or_default();
            let state = if one.set_up { "its jobs come to pinfold" } else { "not set up" };
            writeln!(out, "{}  {version}  {state}  ({})", one.manager, plain(&one.conf))?;
            for missing in &one.missing {
                writeln!(out, "  missing: {}\n    {}", plain(&missing.what), plain(&missing.remedy))?;
            }
        }
        Ok(())
    })
}

fn view(found: &Found) -> serde_json::Value {
    let missing: Vec<_> =
        found.missing.iter().map(|one| json!({ "what": one.what, "remedy": one.remedy })).collect();
    json!({
        "manager": found.manager.word(),
        "release": found.version,
        "configuration": found.conf,
        "set_up": found.set_up,
        "missing": missing,
    })
}
