//! The lab: an emulated host on which the real programs run on a kernel with control groups v2 alone, several NUMA nodes
//! and threads that share cores, which the present machine may lack.
//!
//! QEMU emulates in software, so it needs no rights and no help of the processor. The fast form has all its files in a file
//! system in memory, made anew each time: busybox, the programs, their libraries, and `tools/lab/`. The full form
//! ([`full`]) is a Debian system with systemd. Absent here: the tests (`tools/lab/acceptance.sh`,
//! `tools/lab/full/suite.sh`).

mod archive;
mod full;
mod kernel;
mod machine;
mod power;
mod results;
mod writes;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use archive::{Put, write_initrd};
use kernel::Kernel;
use machine::{Disk, Machine};
use tempfile::TempDir;

/// Programs that the lab needs on this machine, with their packages.
const NEEDED: [(&str, &str); 4] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("apt-get", "apt"),
    ("dpkg-deb", "dpkg"),
];

#[derive(Debug, clap::Args)]
pub(crate) struct LabArgs {
    /// Boot Debian with systemd instead, and try the package, the service and a workload manager there
    #[arg(long)]
    full: bool,
    /// Cut the power instead, while jobs run, and check the disk after each cut
    #[arg(long, conflicts_with = "full")]
    power: bool,
    /// With --power, the number of cuts
    #[arg(long, requires = "power", default_value_t = 40, value_name = "N")]
    cuts: usize,
    /// The machine, as QEMU has it after `-smp` [default: 8,sockets=2,cores=2,threads=2; with --full
    /// 4,sockets=2,cores=1,threads=2]
    #[arg(long)]
    smp: Option<String>,
    /// Memory of each of its two NUMA nodes, in MiB
    #[arg(long, default_value_t = 512)]
    node_mib: u32,
    /// Time limit of each machine, in seconds; a machine without output for a quarter of an hour is ended before that
    #[arg(long, default_value_t = machine::LIMIT.as_secs())]
    limit_s: u64,
    /// With --full, this part of its suite alone, by the name of its function: `jobs`, `crash`, `managers`, ...
    #[arg(long, requires = "full", value_name = "PART")]
    only: Option<String>,
    /// With --full, this release of Debian alone
    #[arg(long, requires = "full", value_name = "SUITE", value_parser = full::SUITES)]
    suite: Option<String>,
}

/// Boots the machine, runs the suite in it, and shows its output.
pub(crate) fn lab(args: &LabArgs) -> anyhow::Result<()> {
    if lacks(&NEEDED) {
        return Ok(());
    }
    match args {
        LabArgs { full: true, .. } => full::full(args),
        LabArgs { power: true, .. } => power::power(args),
        _ => fast(args),
    }
}

fn fast(args: &LabArgs) -> anyhow::Result<()> {
    let Some(kernel) = Kernel::have()? else { return Ok(()) };
    let (target, programs) = (target()?, programs()?);
    let work = work_dir()?;
    let (initrd, swap) = (work.path().join("initrd"), work.path().join("swap"));
    let mut all = vec![
        Put::File("tools/lab/init", "init"),
        Put::File("tools/lab/ready.sh", "lab/ready.sh"),
        Put::File("tools/lab/checks.sh", "lab/checks.sh"),
        Put::File("tools/lab/acceptance.sh", "lab/acceptance.sh"),
    ];
    all.extend(programs.iter().map(|(path, inside)| Put::Program(path, inside)));
    write_initrd(&initrd, &kernel, &all, work.path())?;
    fs::File::create(&swap)?.set_len(512 << 20)?;
    let mut disks = vec![Disk::lasting(swap)];
    disks.extend(disk_with_quotas(work.path())?.map(Disk::lasting));
    let smp = args.smp.as_deref().unwrap_or("8,sockets=2,cores=2,threads=2");
    println!("lab: kernel {}, {smp}, 2 x {} MiB", kernel.version, args.node_mib);
    let machine = Machine {
        kernel: &kernel,
        initrd: &initrd,
        smp,
        node_mib: args.node_mib,
        limit: Duration::from_secs(args.limit_s),
        disks,
        boots: 1,
        append: "",
    };
    let outcome = machine.run(work.path())?;
    let of = results::Of { form: "fast", kernel: &kernel.version, machine: smp };
    results::conclude(&of, &outcome, &target)
}

/// A small file system with project quotas, if it can be made.
fn disk_with_quotas(work: &Path) -> anyhow::Result<Option<PathBuf>> {
    let Some(program) = find("mkfs.ext4") else {
        println!(
            "lab: SKIPPED in part, as mkfs.ext4 is not installed (apt: e2fsprogs): directories on a disk"
        );
        return Ok(None);
    };
    let image = work.join("disk");
    fs::File::create(&image)?.set_len(64 << 20)?;
    said(
        Command::new(program)
            .args(["-q", "-F", "-O", "quota,project", "-E", "quotatype=prjquota"])
            .arg(&image),
    )?;
    Ok(Some(image))
}

/// Whether a program is missing, with a message.
fn lacks(needed: &[(&str, &str)]) -> bool {
    let missing = needed.iter().find(|(program, _)| find(program).is_none());
    if let Some((program, package)) = missing {
        println!("lab: SKIPPED, as {program} is not installed (apt: {package})");
    }
    missing.is_some()
}

/// The directory of downloaded files and of files made once.
fn cache() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    base.unwrap_or_else(std::env::temp_dir).join("pinfold-lab")
}

/// A directory that is removed when the lab ends. A killed lab leaves it behind, under a unique name.
fn work_dir() -> anyhow::Result<TempDir> {
    tempfile::Builder::new().prefix("pinfold-lab-").tempdir().context("failed to make a directory to work in")
}

/// Cargo's target directory.
fn target() -> anyhow::Result<PathBuf> {
    let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec().context("cargo metadata")?;
    Ok(metadata.target_directory.into_std_path_buf())
}

/// The tested programs: built, with their names inside the machine.
fn programs() -> anyhow::Result<Vec<(PathBuf, &'static str)>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let messages = said(Command::new(cargo).args([
        "test",
        "--quiet",
        "--no-run",
        "--message-format=json",
        // For a single package cargo would rebuild its dependencies with other features.
        "--workspace",
        "--test=contract",
    ]))?;
    let mut found = Vec::new();
    for message in cargo_metadata::Message::parse_stream(messages.as_bytes()) {
        let cargo_metadata::Message::CompilerArtifact(artifact) = message? else { continue };
        let Some(executable) = artifact.executable else { continue };
        let inside = match (artifact.target.name.as_str(), artifact.profile.test) {
            ("contract", true) => "lab/contract",
            _ => continue,
        };
        found.push((executable.into_std_path_buf(), inside));
    }
    let (contract, _) = found.first().context("cargo built no contract test")?;
    let target = contract.parent().and_then(Path::parent).context("a target directory")?.to_owned();
    for (name, inside) in [("pinfold", "bin/pinfold"), ("pinfoldd", "bin/pinfoldd")] {
        let path = target.join(name);
        ensure!(path.is_file(), "{} is not built: cargo build --workspace --bins", path.display());
        found.push((path, inside));
    }
    Ok(found)
}

/// Whether `QEMU emulator version 7.2.1 ...` is older than that.
fn is_older(version: &str, than: (u32, u32)) -> bool {
    let numbers = version_of(version);
    (numbers.first().copied().unwrap_or(0), numbers.get(1).copied().unwrap_or(0)) < than
}

/// The numbers of the first word that begins with a digit.
fn version_of(text: &str) -> Vec<u32> {
    let word = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let parts = word.unwrap_or_default().split(|c: char| !c.is_ascii_digit());
    parts.map(|part| part.parse::<u32>().unwrap_or(0)).collect()
}

/// A program by its name; administrators' programs are not on every user's path.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(more)
        .map(|directory| directory.join(program))
        .find(|path| path.is_file())
}

/// A command's output; on failure an error with its messages.
fn said(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("failed to start {name}"))?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} failed: {}", words.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        let said = |version: &str| format!("QEMU emulator version {version} (Debian)\nCopyright");
        assert!(is_older(&said("7.2.22"), (8, 1)) && is_older(&said("8.0.50"), (8, 1)));
        assert!(version_of("6.12.1+deb13-cloud-amd64") > version_of("6.1.0-56-cloud-amd64"));
        let newer = kernel::NEWER;
        assert!(is_older("6.1.0-56-cloud-amd64", newer) && !is_older("6.12.107+deb13-cloud-amd64", newer));
        assert!(!is_older(&said("8.1.0"), (8, 1)) && !is_older(&said("10.0.2"), (8, 1)));
    }
}
