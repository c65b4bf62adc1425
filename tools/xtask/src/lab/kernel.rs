//! The lab's kernel: the distribution's own, downloaded once and kept outside the tree. Absent here: the system that it
//! boots.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use super::{cache, is_older, said, version_of};

/// The distribution's package that depends on its newest small kernel.
const KERNEL_PACKAGE: &str = "linux-image-cloud-amd64";
/// The suite with a kernel whose control groups v2 are complete, if the distribution's own kernel is older.
pub(super) const NEWER_SUITE: &str = "trixie";
pub(super) const NEWER: (u32, u32) = (6, 7);
/// Modules that the kernel needs for disks and quotas, unless built in.
const MODULES: [&str; 4] = ["virtio_pci", "virtio_blk", "quota_v2", "ext4"];

pub(super) struct Kernel {
    pub version: String,
    pub image: PathBuf,
    /// In the order in which they are loaded.
    pub modules: Vec<PathBuf>,
}

impl Kernel {
    /// A new enough kernel, else the host's own distribution's; `None`, with a message, if none can be had.
    pub(super) fn have() -> anyhow::Result<Option<Self>> {
        if let Some(kernel) = Self::kept()?.filter(|kernel| !is_older(&kernel.version, NEWER)) {
            return Ok(Some(kernel));
        }
        let newer = match Self::fetch(Some(NEWER_SUITE)) {
            Ok(kernel) => return Ok(Some(kernel)),
            Err(error) => error,
        };
        match Self::kept()?.map_or_else(|| Self::fetch(None), Ok) {
            Ok(kernel) => {
                let version = &kernel.version;
                println!("lab: kernel {version} will do, as no newer one could be fetched: {newer:#}");
                Ok(Some(kernel))
            }
            Err(error) => {
                println!("lab: SKIPPED, as no kernel could be fetched: {error:#}");
                Ok(None)
            }
        }
    }

    /// The newest that was fetched before.
    fn kept() -> anyhow::Result<Option<Self>> {
        let Ok(entries) = fs::read_dir(cache()) else { return Ok(None) };
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let versions = entries.filter_map(Result::ok).map(|entry| entry.path());
        let newest = versions
            .filter(|path| path.is_dir() && name(path).starts_with(|c: char| c.is_ascii_digit()))
            .max_by_key(|path| version_of(&name(path)));
        newest.map(|path| Self::of(&path)).transpose()
    }

    /// Downloads a kernel of another suite of the distribution's archive, or of its own.
    fn fetch(suite: Option<&str>) -> anyhow::Result<Self> {
        let cache = cache();
        let fresh = cache.join(format!(".fetching-{}", std::process::id()));
        fs::create_dir_all(&fresh).with_context(|| format!("failed to make {}", fresh.display()))?;
        let result = Self::fetch_into(&cache, &fresh, suite);
        let _ = fs::remove_dir_all(&fresh);
        result
    }

    fn fetch_into(cache: &Path, fresh: &Path, suite: Option<&str>) -> anyhow::Result<Self> {
        let options = suite.map_or(Ok(Vec::new()), |suite| lists_of(suite, fresh))?;
        if suite.is_some() {
            said(Command::new("apt-get").args(&options).args(["-qq", "update"]))?;
        }
        let depends = said(Command::new("apt-cache").args(&options).args(["depends", KERNEL_PACKAGE]))?;
        let package = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image-"));
        let version = package.context("the distribution's lists know no kernel for the lab")?;
        println!("lab: fetching kernel {version}");
        said(
            Command::new("apt-get")
                .args(&options)
                .args(["download", "-qq", &format!("linux-image-{version}")])
                .current_dir(fresh),
        )?;
        let is_package = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "deb");
        let found = fs::read_dir(fresh)?.filter_map(Result::ok).map(|entry| entry.path()).find(is_package);
        let found = found.context("apt-get fetched nothing")?;
        let kept = fresh.join(version);
        said(Command::new("dpkg-deb").arg("-x").arg(&found).arg(&kept))?;
        let place = cache.join(version);
        // Another run may have been faster.
        let _ = fs::rename(&kept, &place);
        Self::of(&place)
    }

    /// The kernel below `root`, as the package unpacks it.
    fn of(root: &Path) -> anyhow::Result<Self> {
        let version = root.file_name().and_then(|name| name.to_str()).context("a version")?.to_owned();
        let image = root.join(format!("boot/vmlinuz-{version}"));
        ensure!(image.is_file(), "{} is not there; remove {} and try again", image.display(), root.display());
        let mut all = Vec::new();
        for below in ["lib/modules", "usr/lib/modules"] {
            walk(&root.join(below), &mut all);
        }
        let mut modules = Vec::new();
        for name in MODULES {
            add_module(name, &all, &mut modules)?;
        }
        Ok(Self { version, image, modules })
    }
}

/// The archive that the host's own packages are from.
pub(super) fn archive() -> anyhow::Result<String> {
    let format = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"];
    let archives = said(Command::new("apt-get").args(format))?;
    let archive = archives.lines().find(|at| at.ends_with("/debian/"));
    archive.map(str::to_owned).context("the host's packages are not from Debian's archive")
}

/// Options for apt to use lists of its own below `fresh`, of another suite of the archive that the host's are from.
fn lists_of(suite: &str, fresh: &Path) -> anyhow::Result<Vec<String>> {
    const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let archive = archive()?;
    let signed = if Path::new(KEYS).exists() { format!("[signed-by={KEYS}] ") } else { String::new() };
    let apt = fresh.join("apt");
    fs::create_dir_all(apt.join("lists/partial"))?;
    fs::create_dir_all(apt.join("cache/archives/partial"))?;
    fs::write(apt.join("sources.list"), format!("deb {signed}{archive} {suite} main\n"))?;
    let option = |key: &str, value: String| ["-o".to_owned(), format!("{key}={value}")];
    let at = |name: &str| apt.join(name).display().to_string();
    let options = [
        option("Dir::Etc::SourceList", at("sources.list")),
        option("Dir::Etc::SourceParts", "/dev/null".to_owned()),
        option("Dir::State::Lists", at("lists")),
        option("Dir::Cache", at("cache")),
        option("APT::Sandbox::User", String::new()),
        option("Acquire::Languages", "none".to_owned()),
    ];
    Ok(options.concat())
}

fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) { walk(&path, found) } else { found.push(path) }
    }
}

/// Adds a module behind its dependencies; a built-in module has no file.
fn add_module(name: &str, all: &[PathBuf], modules: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let is_it = |path: &&PathBuf| {
        let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
        file.split_once(".ko").is_some_and(|(stem, _)| stem.replace('-', "_") == name)
    };
    let Some(path) = all.iter().find(is_it) else { return Ok(()) };
    if modules.contains(path) {
        return Ok(());
    }
    let bytes = module_bytes(path)?;
    // The section .modinfo: words with an equals sign, each ended by a NUL.
    let key = b"\0depends=";
    let at = bytes.windows(key.len()).position(|window| window == key);
    let rest = at.map_or(&[][..], |at| &bytes[at + key.len()..]);
    let needs =
        String::from_utf8_lossy(rest.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned();
    for needed in needs.split(',').filter(|needed| !needed.is_empty()) {
        add_module(&needed.replace('-', "_"), all, modules)?;
    }
    modules.push(path.clone());
    Ok(())
}

pub(super) fn module_bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path.extension().is_some_and(|extension| extension == "xz") {
        let output =
            Command::new("xz").arg("-dc").arg(path).stderr(Stdio::inherit()).output().context("xz")?;
        ensure!(output.status.success(), "failed to unpack {}", path.display());
        return Ok(output.stdout);
    }
    fs::read(path).with_context(|| format!("failed to read {}", path.display()))
}
