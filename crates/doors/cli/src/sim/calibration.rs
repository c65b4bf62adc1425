//! The measured figures of this host: kept in a file of the state directory, and used where jobs are played on this host.
//!
//! Absent here: measuring ([`super::calibrate`]), and their use in a simulation ([`pinfold_whatif::contention`]).

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use pinfold_profile::report::{date_here, size};
use pinfold_proto::ExitCode;
use pinfold_sys::{paths, peer};
use pinfold_whatif::contention::{Contention, Requests};
use serde::{Deserialize, Serialize};

use super::SimArgs;
use super::site::Site;
use crate::print::say;
use pinfold_client::Failure;

/// The file, in the state directory.
const NAME: &str = "calibration.json";
/// The form of the file.
const VERSION: u32 = 1;
/// A calibration is not larger than this, in bytes.
const BYTES_MAX: u64 = 64 * 1024;

/// The measurements of `pinfold sim calibrate --json`. Speeds are fractions of the speed beside idle cores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Calibration {
    /// 1.
    pub version: u32,
    /// When it was measured, in Unix seconds.
    pub measured_s: f64,
    /// Cores that were measured together.
    pub cores: u32,
    /// The speed of arithmetic while all cores do it.
    pub compute_full: f64,
    /// The speed of a walk through memory while all cores walk.
    pub memory_full: f64,
    /// The speed of dependent jumps through memory, while all cores jump; null: an earlier version measured.
    #[serde(default)]
    pub jumps_full: Option<f64>,
    /// The write rate of a single file, in bytes a second; null: the disk took no write.
    pub disk_bytes_per_s: Option<u64>,
    /// The write rate of a file a core at once, together.
    pub disk_all_bytes_per_s: Option<u64>,
    /// Pages that a single writer appends to a file and syncs to disk in a second, in sequence; null: not measured.
    #[serde(default)]
    pub disk_requests_per_s: Option<u64>,
    /// The same rate of several writers at once, together.
    #[serde(default)]
    pub disk_all_requests_per_s: Option<u64>,
    /// Blocks of 128 KiB that a single writer appends to a file and syncs to disk in a second, in sequence; absent: not
    /// measured.
    #[serde(default)]
    pub disk_blocks_per_s: Option<u64>,
    /// The remaining fraction of a page writer's rate beside a block writer.
    #[serde(default)]
    pub disk_pages_beside: Option<f64>,
    /// The remaining fraction of the block writer's rate.
    #[serde(default)]
    pub disk_blocks_beside: Option<f64>,
    /// Where the files were.
    pub disk: Option<String>,
    /// The rate of swap-out, in bytes a second; null: there is no swap to measure.
    pub swap_out_bytes_per_s: Option<u64>,
    /// The rate of swap-in.
    pub swap_in_bytes_per_s: Option<u64>,
    /// Cores that other programs kept busy meanwhile.
    pub others_cores: f64,
}

impl Calibration {
    /// The version of the present measurement.
    pub(super) fn version() -> u32 {
        VERSION
    }

    /// The slowdown of jobs by each other. The jobs' memory use and access pattern are not known: the mean of
    /// arithmetic and of jumps stands for all. A walk, for which memory bandwidth counts alone, is the worst case and
    /// rare among programs.
    pub(super) fn contention(&self) -> Contention {
        let full = (self.compute_full * self.jumps_full.unwrap_or(self.memory_full)).sqrt();
        let full_milli = milli(full).clamp(1, 1000);
        let requests = self.disk_requests_per_s.zip(self.beside());
        let requests =
            requests.map(|(one, beside)| Requests { one: one.max(1), beside_milli: milli(beside) });
        Contention { full_milli, disk_rate: self.disk_all_bytes_per_s.map(|rate| rate.max(1)), requests }
    }

    /// The extra time of a request for each other request under way, as a fraction of its time alone. The size of a
    /// job's requests is not known: the mean of a small request that waits for large requests and the reverse stands
    /// for all. An earlier version measured small requests alone.
    fn beside(&self) -> Option<f64> {
        if let (Some(pages), Some(blocks)) = (self.disk_pages_beside, self.disk_blocks_beside) {
            return Some(f64::midpoint(1.0 / pages, 1.0 / blocks) - 1.0);
        }
        let (one, all) = (self.disk_requests_per_s?, self.disk_all_requests_per_s?);
        let writers = f64::from(self.cores);
        Some((writers * one as f64 / all.max(1) as f64 - 1.0) / (writers - 1.0).max(1.0))
    }

    /// A line for people.
    pub(super) fn in_words(&self) -> String {
        let rate = |rate: Option<u64>| rate.map_or_else(|| "unknown".to_owned(), |rate| size(rate) + "/s");
        format!(
            "calibration of {}: speed beside {} busy cores {:.1} % (arithmetic) and {:.1} % (memory), disk {}, swap {} \
             out and {} in",
            date_here(self.measured_s),
            self.cores.saturating_sub(1),
            self.compute_full * 100.0,
            self.memory_full * 100.0,
            rate(self.disk_all_bytes_per_s),
            rate(self.swap_out_bytes_per_s),
            rate(self.swap_in_bytes_per_s),
        )
    }

    fn is_sane(&self) -> bool {
        let part = |part: f64| part > 0.0 && part <= 1.0;
        part(self.compute_full)
            && part(self.memory_full)
            && self.jumps_full.is_none_or(part)
            && self.disk_pages_beside.is_none_or(part)
            && self.disk_blocks_beside.is_none_or(part)
            && self.cores > 0
            && self.measured_s.is_finite()
    }

    /// Reads a file; the error names the file and the fault.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let wrong = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text.to_owned());
        // Bounded while reading: a device has no size.
        let mut bytes = Vec::new();
        File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > BYTES_MAX {
            return Err(wrong("it is too large to be a calibration"));
        }
        let read: Self = serde_json::from_slice(&bytes)?;
        if read.version != VERSION {
            return Err(wrong("another version of pinfold measured it: run `pinfold sim calibrate` again"));
        }
        if read.is_sane() { Ok(read) } else { Err(wrong("its figures cannot be")) }
    }

    /// Writes the file, at once: a reader finds the old file or the new file.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let parent = path.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        let mut file = tempfile::NamedTempFile::new_in(parent)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.write_all(b"\n")?;
        file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }
}

/// In thousandths; a value out of range becomes the nearest value in range.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range here")]
fn milli(part: f64) -> u16 {
    (part * 1000.0).round().clamp(0.0, f64::from(u16::MAX)) as u16
}

/// Where this user's calibration is kept.
pub(super) fn own_path() -> PathBuf {
    paths::defaults(peer::own_uid(), |name| std::env::var_os(name)).state.join(NAME)
}

/// The calibration that applies, and whether it was named: it then applies to any hosts, else to this host alone.
pub(super) fn find(args: &SimArgs, site: &Site) -> Result<Option<(Calibration, bool)>, Failure> {
    let named = match args.calibration.as_deref() {
        Some("none") => return Ok(None),
        Some(file) => Some(PathBuf::from(file)),
        None => None,
    };
    if let Some(path) = named {
        let read = Calibration::read(&path).map_err(|error| Failure::doing(path.display(), &error))?;
        return Ok(Some((read, true)));
    }
    // Without this host's memory, the jobs are played on other hosts.
    if site.memory.is_none() {
        return Ok(None);
    }
    let of_root = paths::defaults(0, |_| None).state.join(NAME);
    for path in [own_path(), of_root] {
        match Calibration::read(&path) {
            Ok(read) => return Ok(fits(read, site, &path).map(|read| (read, false))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            // Jobs can be played without it, as before it was measured.
            Err(error) => {
                say(&format!("{} is left out: {error}", path.display()));
                return Ok(None);
            }
        }
    }
    Ok(None)
}

/// A calibration of another machine's cores does not apply here.
fn fits(read: Calibration, site: &Site, path: &Path) -> Option<Calibration> {
    let cores = site.own_cores;
    if cores.is_none_or(|cores| cores == read.cores as usize) {
        return Some(read);
    }
    say(&format!(
        "{} is left out: it was measured on {} cores, and this host has {}; run `pinfold sim calibrate` again",
        path.display(),
        read.cores,
        cores.unwrap_or(0)
    ));
    None
}

/// The kept calibration of this host, for people.
pub(super) fn kept() -> Result<Calibration, Failure> {
    let path = own_path();
    Calibration::read(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let text = format!("{}: there is none; `pinfold sim calibrate` measures it", path.display());
            Failure::new(ExitCode::Failed, text)
        }
        _ => Failure::doing(path.display(), &error),
    })
}
