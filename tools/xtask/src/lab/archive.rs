//! The lab machine's initial file system in memory: busybox, the kernel's modules, and the files of a form of the lab.
//! Absent here: the work of its first process (`tools/lab/init`, `tools/lab/full/init`).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use super::kernel::{Kernel, module_bytes};
use super::{find, said};

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

/// A file of this machine or of the project, as `name` in the archive.
pub(super) enum Put<'a> {
    /// A file as it is.
    File(&'a str, &'a str),
    /// A program, with its shared libraries.
    Program(&'a Path, &'a str),
}

/// Writes an archive of busybox, the modules and `all`, which includes `init`.
pub(super) fn write_initrd(path: &Path, kernel: &Kernel, all: &[Put<'_>], work: &Path) -> anyhow::Result<()> {
    let mut archive = Archive::new(std::io::BufWriter::new(fs::File::create(path)?));
    for directory in ["dev", "proc", "sys", "run", "tmp", "etc", "root", "bin", "mnt", "var/tmp"] {
        archive.directory(Path::new(directory))?;
    }
    archive.entry("dev/console", 0o020_600, &[], (5, 1))?;
    archive.file("etc/passwd", b"root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")?;
    archive.file("etc/group", b"root:x:0:\nnogroup:x:65534:\n")?;
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
    for put in all {
        match put {
            Put::File(from, name) => {
                let bytes = fs::read(from)
                    .with_context(|| format!("{from}: to be run in the project's directory"))?;
                archive.file(name, &bytes)?;
            }
            Put::Program(program, name) => {
                libraries.extend(libraries_of(program)?);
                archive.file(name, &stripped(program, work)?)?;
            }
        }
    }
    for library in libraries {
        archive.file(library.trim_start_matches('/'), &fs::read(&library)?)?;
    }
    Ok(archive.finish()?)
}

/// A program without debugging symbols, if `strip` exists.
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

#[cfg(test)]
mod tests {
    use super::*;

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
