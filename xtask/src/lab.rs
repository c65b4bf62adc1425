//! The lab: an emulated host on which the real programs meet a kernel with control groups v2 alone, several NUMA nodes
//! and threads that share cores, none of which the machine at hand may have.
//!
//! QEMU emulates in software, so it needs no rights and no help of the processor. The kernel is the distribution's own,
//! fetched once and kept outside the tree; all else is in a file system in memory, made anew each time: busybox, the
//! programs, the libraries that they name, and `lab/`. Absent here: what is tested (`lab/acceptance.sh`).

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

/// The distribution's package that depends on its newest small kernel.
const KERNEL_PACKAGE: &str = "linux-image-cloud-amd64";
/// Where a kernel with all that control groups v2 have by now is, if the distribution's own is older than that.
const NEWER_SUITE: &str = "trixie";
const NEWER: (u32, u32) = (6, 7);
/// What the kernel needs beyond itself, for a disk to swap to.
const MODULES: [&str; 2] = ["virtio_pci", "virtio_blk"];
/// What the lab needs of this machine, with the package that has it.
const NEEDED: [(&str, &str); 4] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("apt-get", "apt"),
    ("dpkg-deb", "dpkg"),
];

#[derive(Debug, clap::Args)]
pub(crate) struct LabArgs {
    /// The machine, as QEMU has it after `-smp`
    #[arg(long, default_value = "8,sockets=2,cores=2,threads=2")]
    smp: String,
    /// Memory of each of its two NUMA nodes, in MiB
    #[arg(long, default_value_t = 512)]
    node_mib: u32,
    /// How long it may take, in seconds
    #[arg(long, default_value_t = 420)]
    limit_s: u64,
}

/// Boots the machine, runs the suite in it, and shows what that says.
pub(crate) fn lab(args: &LabArgs) -> anyhow::Result<()> {
    let missing: Vec<_> = NEEDED.iter().filter(|(program, _)| find(program).is_none()).collect();
    if let [(program, package), ..] = missing[..] {
        println!("lab: SKIPPED, as {program} is not installed (apt: {package})");
        return Ok(());
    }
    let kernel = match Kernel::kept()?.filter(|kernel| !is_older(&kernel.version, NEWER)) {
        Some(kernel) => kernel,
        None => match Kernel::fetch(Some(NEWER_SUITE)) {
            Ok(kernel) => kernel,
            Err(newer) => match Kernel::kept()?.map_or_else(|| Kernel::fetch(None), Ok) {
                Ok(kernel) => {
                    println!(
                        "lab: kernel {} will do, as no newer one could be fetched: {newer:#}",
                        kernel.version
                    );
                    kernel
                }
                Err(error) => {
                    println!("lab: SKIPPED, as no kernel could be fetched: {error:#}");
                    return Ok(());
                }
            },
        },
    };
    let programs = programs()?;
    let work = Work::new()?;
    let initrd = work.0.join("initrd");
    write_initrd(&initrd, &kernel, &programs, &work.0)?;
    println!("lab: kernel {}, {}, 2 x {} MiB", kernel.version, args.smp, args.node_mib);
    run(args, &kernel, &initrd, &work.0)
}

/// A directory that goes when the lab ends.
struct Work(PathBuf);

impl Work {
    fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("pinfold-lab-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("failed to make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Kernel {
    version: String,
    image: PathBuf,
    /// In the order in which they are loaded.
    modules: Vec<PathBuf>,
}

impl Kernel {
    fn cache() -> PathBuf {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
        base.unwrap_or_else(std::env::temp_dir).join("pinfold-lab")
    }

    /// The newest that was fetched before.
    fn kept() -> anyhow::Result<Option<Self>> {
        let Ok(entries) = fs::read_dir(Self::cache()) else { return Ok(None) };
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let versions = entries.filter_map(Result::ok).map(|entry| entry.path());
        let newest = versions
            .filter(|path| path.is_dir() && !name(path).starts_with('.'))
            .max_by_key(|path| version_of(&name(path)));
        newest.map(|path| Self::of(&path)).transpose()
    }

    /// Of another suite of the distribution's archive, or of its own.
    fn fetch(suite: Option<&str>) -> anyhow::Result<Self> {
        let cache = Self::cache();
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

    /// What lies below `root` as the package has it.
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

/// Options for apt to use lists of its own below `fresh`, of another suite of the archive that the host's are from.
fn lists_of(suite: &str, fresh: &Path) -> anyhow::Result<Vec<String>> {
    const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let format = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"];
    let archives = said(Command::new("apt-get").args(format))?;
    let archive = archives.lines().find(|at| at.ends_with("/debian/"));
    let archive = archive.context("the host's packages are not from Debian's archive")?;
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

/// Adds a module behind those that it needs; one that is part of the kernel has no file.
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

fn module_bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path.extension().is_some_and(|extension| extension == "xz") {
        let output =
            Command::new("xz").arg("-dc").arg(path).stderr(Stdio::inherit()).output().context("xz")?;
        ensure!(output.status.success(), "failed to unpack {}", path.display());
        return Ok(output.stdout);
    }
    fs::read(path).with_context(|| format!("failed to read {}", path.display()))
}

/// The programs that are tried: built, with the names that they have inside.
fn programs() -> anyhow::Result<Vec<(PathBuf, &'static str)>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let messages = said(Command::new(cargo).args([
        "test",
        "--quiet",
        "--no-run",
        "--message-format=json",
        "--package=pinfold-sys",
        "--package=pinfold-cli",
        "--package=pinfold-daemon",
        "--bins",
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

/// A cpio archive in the format that the kernel unpacks (`newc`, initramfs buffer format in the kernel's documents).
struct Archive<W> {
    out: W,
    number: u32,
    directories: BTreeSet<PathBuf>,
}

impl<W: std::io::Write> Archive<W> {
    fn new(out: W) -> Self {
        Self { out, number: 0, directories: BTreeSet::new() }
    }

    fn entry(&mut self, name: &str, mode: u32, data: &[u8], device: (u32, u32)) -> std::io::Result<()> {
        self.number += 1;
        let size = u32::try_from(data.len()).map_err(std::io::Error::other)?;
        let length = u32::try_from(name.len() + 1).map_err(std::io::Error::other)?;
        let fields = [self.number, mode, 0, 0, 1, 0, size, 0, 0, device.0, device.1, length, 0];
        write!(self.out, "070701")?;
        for field in fields {
            write!(self.out, "{field:08X}")?;
        }
        self.out.write_all(name.as_bytes())?;
        // A header has 110 bytes; names and data are filled up to fours.
        let fill = |length: usize| &[0u8; 4][..(4 - length % 4) % 4];
        self.out.write_all(&[0])?;
        self.out.write_all(fill(110 + name.len() + 1))?;
        self.out.write_all(data)?;
        self.out.write_all(fill(data.len()))
    }

    fn directory(&mut self, path: &Path) -> std::io::Result<()> {
        if path.as_os_str().is_empty() || self.directories.contains(path) {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.directory(parent)?;
        }
        self.directories.insert(path.to_owned());
        self.entry(&path.to_string_lossy(), 0o040_755, &[], (0, 0))
    }

    fn file(&mut self, name: &str, data: &[u8]) -> std::io::Result<()> {
        if let Some(parent) = Path::new(name).parent() {
            self.directory(parent)?;
        }
        self.entry(name, 0o100_755, data, (0, 0))
    }

    fn finish(mut self) -> std::io::Result<()> {
        self.entry("TRAILER!!!", 0, &[], (0, 0))?;
        self.out.flush()
    }
}

fn write_initrd(
    path: &Path,
    kernel: &Kernel,
    programs: &[(PathBuf, &str)],
    work: &Path,
) -> anyhow::Result<()> {
    let mut archive = Archive::new(std::io::BufWriter::new(fs::File::create(path)?));
    for directory in ["dev", "proc", "sys", "run", "tmp", "etc", "root", "bin", "var/tmp"] {
        archive.directory(Path::new(directory))?;
    }
    archive.entry("dev/console", 0o020_600, &[], (5, 1))?;
    archive.file("etc/passwd", b"root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")?;
    archive.file("etc/group", b"root:x:0:\nnogroup:x:65534:\n")?;
    archive.file("init", &fs::read("lab/init").context("lab/init: to be run in the project's directory")?)?;
    archive.file("lab/acceptance.sh", &fs::read("lab/acceptance.sh")?)?;
    archive.file("bin/busybox", &fs::read(find("busybox").context("busybox")?)?)?;
    let mut order = String::new();
    for module in &kernel.modules {
        let name = module.file_name().and_then(|name| name.to_str()).context("a module's name")?;
        let name = name.trim_end_matches(".xz");
        archive.file(&format!("modules/{name}"), &module_bytes(module)?)?;
        order.push_str(name);
        order.push('\n');
    }
    archive.file("modules/order", order.as_bytes())?;
    let mut libraries = BTreeSet::new();
    for (program, inside) in programs {
        libraries.extend(libraries_of(program)?);
        archive.file(inside, &stripped(program, work)?)?;
    }
    for library in libraries {
        archive.file(library.trim_start_matches('/'), &fs::read(&library)?)?;
    }
    Ok(archive.finish()?)
}

/// A program without what only a debugger reads, where there is a tool to strip it with.
fn stripped(program: &Path, work: &Path) -> anyhow::Result<Vec<u8>> {
    let copy = work.join("stripped");
    let done = Command::new("strip").arg("-o").arg(&copy).arg(program).stderr(Stdio::null()).status();
    let from = if done.is_ok_and(|status| status.success()) { &copy } else { program };
    fs::read(from).with_context(|| format!("failed to read {}", from.display()))
}

/// The libraries that a program names, and the loader.
fn libraries_of(program: &Path) -> anyhow::Result<Vec<String>> {
    let listed = said(Command::new("ldd").arg(program))?;
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(str::to_owned);
    Ok(listed.lines().filter_map(path).collect())
}

fn run(args: &LabArgs, kernel: &Kernel, initrd: &Path, work: &Path) -> anyhow::Result<()> {
    let (console, log, swap) = (work.join("console"), work.join("log"), work.join("swap"));
    fs::write(&log, "")?;
    fs::File::create(&swap)?.set_len(512 << 20)?;
    let version = said(Command::new("qemu-system-x86_64").arg("--version"))?;
    let pus: u32 = args.smp.split(',').next().and_then(|count| count.parse().ok()).context("--smp N,...")?;
    let half = pus / 2;
    // Before 8.1, QEMU loses updates between processors that it emulates on threads of their own.
    let threads = if is_older(&version, (8, 1)) || pus > 16 { "single" } else { "multi" };
    let node = |number: u32| {
        let (first, last) = (number * half, (number + 1) * half - 1);
        [
            "-object".to_owned(),
            format!("memory-backend-ram,id=m{number},size={}M", args.node_mib),
            "-numa".to_owned(),
            format!("node,nodeid={number},memdev=m{number},cpus={first}-{last}"),
        ]
    };
    let started = Instant::now();
    let mut machine = Command::new("qemu-system-x86_64")
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "pc"])
        .args(["-accel", &format!("tcg,thread={threads},tb-size=256"), "-cpu", "Haswell-noTSX,-cx16"])
        .args(["-smp", &args.smp, "-m", &format!("{}M", 2 * args.node_mib)])
        .args(node(0))
        .args(node(1))
        .arg("-kernel")
        .arg(&kernel.image)
        .arg("-initrd")
        .arg(initrd)
        .args(["-serial", &format!("file:{}", console.display())])
        .args(["-serial", &format!("file:{}", log.display())])
        .args(["-drive", &format!("if=none,id=swap,format=raw,cache=unsafe,file={}", swap.display())])
        .args(["-device", "virtio-blk-pci,drive=swap"])
        .args([
            "-append",
            "console=ttyS0 panic=-1 quiet mitigations=off nokaslr no_timer_check rcupdate.rcu_expedited=1 \
             rcupdate.rcu_cpu_stall_suppress=1 nowatchdog psi=1 audit=0",
        ])
        .stdin(Stdio::null())
        .spawn()
        .context("failed to start the emulated machine")?;
    let shown = watch(&mut machine, &log, started, Duration::from_secs(args.limit_s));
    if machine.try_wait()?.is_none() {
        machine.kill()?;
    }
    machine.wait()?;
    let said = shown?;
    let code = said.lines().rev().find_map(|line| line.trim().strip_prefix("lab: exit "));
    match code {
        Some("0") => {
            println!("lab: passed in {} s", started.elapsed().as_secs());
            Ok(())
        }
        Some(code) => bail!("the lab's suite failed (exit code {code})"),
        None => {
            let end = fs::read_to_string(&console).unwrap_or_default();
            let tail: Vec<&str> = end.lines().rev().take(30).collect();
            bail!(
                "the lab's machine ended without a result after {} s; its console's end:\n{}",
                started.elapsed().as_secs(),
                tail.into_iter().rev().collect::<Vec<_>>().join("\n")
            )
        }
    }
}

/// Shows what the machine says until it ends, or its time is over.
fn watch(
    machine: &mut std::process::Child,
    log: &Path,
    started: Instant,
    limit: Duration,
) -> anyhow::Result<String> {
    let (mut said, mut at) = (String::new(), 0);
    loop {
        let over = machine.try_wait()?.is_some();
        let mut file = fs::File::open(log)?;
        file.seek(SeekFrom::Start(at))?;
        let mut bytes = Vec::new();
        at += u64::try_from(file.read_to_end(&mut bytes)?).context("a size")?;
        let more = String::from_utf8_lossy(&bytes).replace('\r', "");
        print!("{more}");
        std::io::stdout().flush()?;
        said.push_str(&more);
        if over || started.elapsed() > limit {
            return Ok(said);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Whether `QEMU emulator version 7.2.1 ...` is older than that.
fn is_older(version: &str, than: (u32, u32)) -> bool {
    let numbers = version_of(version);
    (numbers.first().copied().unwrap_or(0), numbers.get(1).copied().unwrap_or(0)) < than
}

/// The numbers of the first word that begins with one.
fn version_of(text: &str) -> Vec<u32> {
    let word = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let parts = word.unwrap_or_default().split(|c: char| !c.is_ascii_digit());
    parts.map(|part| part.parse::<u32>().unwrap_or(0)).collect()
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|path| path.is_file())
}

/// What a command prints; its failure is an error with what it said.
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
        assert!(is_older("6.1.0-56-cloud-amd64", NEWER) && !is_older("6.12.107+deb13-cloud-amd64", NEWER));
        assert!(!is_older(&said("8.1.0"), (8, 1)) && !is_older(&said("10.0.2"), (8, 1)));
    }

    #[test]
    fn an_archive_is_as_the_kernel_wants_it() {
        let mut out = Vec::new();
        let mut archive = Archive::new(&mut out);
        archive.file("a/b", b"hello").expect("written");
        archive.finish().expect("written");
        assert_eq!(out.len() % 4, 0);
        assert!(out.starts_with(b"070701"));
        // Directory `a`, file `a/b`, the end.
        let headers = out.windows(6).filter(|window| window == b"070701").count();
        assert_eq!(headers, 3);
        let at = out.windows(5).position(|window| window == b"hello").expect("its data");
        assert_eq!(at % 4, 0);
    }
}
