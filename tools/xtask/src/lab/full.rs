//! The full form of the lab: Debian systems with systemd, of two releases. On each the project's package is installed, its
//! service started, upgraded and removed, the host restarted, and on one of them jobs come from workload managers.
//!
//! A system is made once by `tools/lab/full/root.sh` and kept outside the tree; a machine's writes to it last as long as
//! the machine. Absent here: the tests (`tools/lab/full/suite.sh`).

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use super::archive::{Put, write_initrd};
use super::kernel::{Kernel, NEWER_SUITE, archive};
use super::machine::{Disk, Machine};
use super::results::{Of, conclude};
use super::{LabArgs, cache, find, lacks, said, work_dir};

/// Programs that this form needs on this machine beyond the fast form's.
const NEEDED: [(&str, &str); 1] = [("mkfs.ext4", "e2fsprogs")];
/// Programs needed to make the system, unless it exists.
const NEEDED_ONCE: [(&str, &str); 1] = [("mmdebstrap", "mmdebstrap")];
/// The releases: systemd 257 with the workload managers, and 252, which starts services in another way.
pub(super) const SUITES: [&str; 2] = [NEWER_SUITE, "bookworm"];
const ROOT_SCRIPT: &str = "tools/lab/full/root.sh";
/// The suite's files in the directory `/lab`, beside the packages.
const FILES: [&str; 9] = [
    "tools/lab/checks.sh",
    "tools/lab/full/suite.sh",
    "tools/lab/full/delegated.sh",
    "tools/lab/full/slurm.sh",
    "tools/lab/full/slurm-hooks.sh",
    "tools/lab/full/condor.sh",
    "tools/lab/full/condor-hooks.sh",
    "tools/lab/full/gridengine.sh",
    "tools/lab/full/lab.service",
];
/// The first boot, and a restart.
const BOOTS: usize = 2;

pub(super) fn full(args: &LabArgs) -> anyhow::Result<()> {
    if lacks(&NEEDED) {
        return Ok(());
    }
    let Some(kernel) = Kernel::have()? else { return Ok(()) };
    // A failure on one release does not leave the other untried.
    let mut outcome = Ok(());
    for suite in SUITES.into_iter().filter(|suite| args.suite.as_deref().is_none_or(|only| only == *suite)) {
        outcome = outcome.and(on_release(args, &kernel, suite));
    }
    outcome
}

fn on_release(args: &LabArgs, kernel: &Kernel, suite: &str) -> anyhow::Result<()> {
    let Some(root) = root(suite)? else { return Ok(()) };
    let target = super::target()?;
    let work = work_dir()?;
    let files = files(&target.join("debug"), work.path())?;
    let initrd = work.path().join("initrd");
    write_initrd(&initrd, kernel, &[Put::File("tools/lab/full/init", "init")], work.path())?;
    let smp = args.smp.as_deref().unwrap_or("4,sockets=2,cores=1,threads=2");
    println!("lab: Debian {suite}, kernel {}, {smp}, 2 x {} MiB", kernel.version, args.node_mib);
    let only = args.only.as_ref().map(|part| format!(" lab.only={part}")).unwrap_or_default();
    let append = format!("systemd.show_status=false{only}");
    let machine = Machine {
        kernel,
        initrd: &initrd,
        smp,
        node_mib: args.node_mib,
        limit: Duration::from_secs(args.limit_s),
        disks: vec![Disk::passing(root), Disk::passing(files)],
        boots: BOOTS,
        append: &append,
    };
    let outcome = machine.run(work.path())?;
    let form = if suite == NEWER_SUITE { "full".to_owned() } else { format!("full-{suite}") };
    conclude(&Of { form: &form, kernel: &kernel.version, machine: smp }, &outcome, &target)
}

/// A release's Debian system, existing or new; `None`, with a message, if it cannot be made.
fn root(suite: &str) -> anyhow::Result<Option<PathBuf>> {
    let script = fs::read(ROOT_SCRIPT)
        .with_context(|| format!("{ROOT_SCRIPT}: to be run in the project's directory"))?;
    let mut hasher = DefaultHasher::new();
    script.hash(&mut hasher);
    let place = cache().join(format!("root-{suite}-{:016x}.ext4", hasher.finish()));
    if place.is_file() {
        return Ok(Some(place));
    }
    if lacks(&NEEDED_ONCE) {
        return Ok(None);
    }
    if !rustix::process::geteuid().is_root() {
        println!("lab: SKIPPED, as only root can make its Debian system, once: run this as root, or copy");
        println!("lab: {} from where that was done", place.display());
        return Ok(None);
    }
    println!("lab: making a Debian system (some minutes, once)");
    let cache = cache();
    fs::create_dir_all(&cache).with_context(|| format!("failed to make {}", cache.display()))?;
    let fresh = cache.join(format!(".root-{}", std::process::id()));
    let made =
        archive().and_then(|archive| said(Command::new(ROOT_SCRIPT).arg(&fresh).args([suite, &archive])));
    if let Err(error) = made {
        let _ = fs::remove_file(&fresh);
        println!("lab: SKIPPED, as no Debian system could be made: {error:#}");
        return Ok(None);
    }
    // Removes the systems of other versions of the script.
    for old in fs::read_dir(&cache)?.filter_map(Result::ok) {
        if old.file_name().to_string_lossy().starts_with(&format!("root-{suite}-")) {
            let _ = fs::remove_file(old.path());
        }
    }
    fs::rename(&fresh, &place).with_context(|| format!("failed to keep {}", place.display()))?;
    Ok(Some(place))
}

/// A disk with the suite, and the package in two versions.
fn files(programs: &Path, work: &Path) -> anyhow::Result<PathBuf> {
    let directory = work.join("lab");
    fs::create_dir(&directory)?;
    for file in FILES {
        let name = Path::new(file).file_name().context("a file's name")?;
        fs::copy(file, directory.join(name))
            .with_context(|| format!("{file}: to be run in the project's directory"))?;
    }
    for (revision, name) in [("", "pinfold.deb"), ("+lab1", "newer.deb")] {
        let out = work.join("packages");
        let script = Path::new("scripts/package.sh");
        // Unpacking takes the machine far longer than reading.
        let path = said(
            Command::new(script)
                .arg(programs)
                .arg(&out)
                .arg(revision)
                .env("DPKG_DEB_COMPRESSOR_TYPE", "none"),
        )?;
        fs::rename(path.trim(), directory.join(name))
            .with_context(|| format!("{} made no package", script.display()))?;
    }
    let image = work.join("lab.ext4");
    let mut bytes = 0;
    for entry in fs::read_dir(&directory)? {
        bytes += entry?.metadata()?.len();
    }
    // Room for the file system's own.
    let size = format!("{}M", (bytes >> 20) * 11 / 10 + 16);
    let program = find("mkfs.ext4").context("mkfs.ext4")?;
    said(
        Command::new(program)
            .args(["-q", "-F", "-O", "^has_journal", "-d"])
            .arg(&directory)
            .arg(&image)
            .arg(size),
    )?;
    Ok(image)
}
