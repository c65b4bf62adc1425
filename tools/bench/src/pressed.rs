//! A host with reduced memory: a control group with a limit for launchers without a budget, and a swap file. Both are ours
//! and removed after the measurement.
//!
//! Owns the group and the swap file. Needs root; reports missing requirements.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// The group and the swap file.
#[derive(Debug)]
pub(crate) struct Pressed {
    group: PathBuf,
    swap: Option<PathBuf>,
}

impl Pressed {
    /// A group below the root of the memory controller, limited to `budget_mib`, and `swap_mib` of swap in a file
    /// below `scratch` (none for 0).
    pub(crate) fn make(scratch: &Path, budget_mib: u64, swap_mib: u64) -> anyhow::Result<Self> {
        let name = format!("pinfold-bench-{}", std::process::id());
        let first = Path::new("/sys/fs/cgroup/memory");
        let (root, file) = if first.join("memory.limit_in_bytes").exists() {
            (first, "memory.limit_in_bytes")
        } else {
            (Path::new("/sys/fs/cgroup"), "memory.max")
        };
        let group = root.join(name);
        fs::create_dir(&group)
            .with_context(|| format!("failed to make {} (this row needs root)", group.display()))?;
        let mut pressed = Self { group, swap: None };
        fs::write(pressed.group.join(file), (budget_mib << 20).to_string())
            .with_context(|| format!("failed to limit {}", pressed.group.display()))?;
        if swap_mib > 0 {
            pressed.swap = Some(swap_on(&scratch.join("swap"), swap_mib)?);
        }
        Ok(pressed)
    }

    pub(crate) fn group(&self) -> &Path {
        &self.group
    }
}

fn swap_on(file: &Path, mib: u64) -> anyhow::Result<PathBuf> {
    let size = format!("{mib}M");
    run("fallocate", &["-l", &size], file)?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o600))
        .context("failed to close the swap file to others")?;
    run("mkswap", &["-q"], file)?;
    run("swapon", &[], file)?;
    Ok(file.to_owned())
}

fn run(program: &str, options: &[&str], file: &Path) -> anyhow::Result<()> {
    let output = Command::new(program).args(options).arg(file).output();
    let output = output.with_context(|| format!("failed to run {program}"))?;
    if !output.status.success() {
        bail!("{program} {}: {}", file.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

impl Drop for Pressed {
    fn drop(&mut self) {
        if let Some(file) = &self.swap
            && let Err(error) = run("swapoff", &[], file).and_then(|()| Ok(fs::remove_file(file)?))
        {
            crate::compare::done(&format!("The swap file stays: {error:#}"));
        }
        if let Err(error) = fs::remove_dir(&self.group) {
            crate::compare::done(&format!("The group {} stays: {error}", self.group.display()));
        }
    }
}
