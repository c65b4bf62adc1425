//! `pinfold sim calibrate`: measures how much cores of this host slow each other, its disk and its swap, and keeps the
//! figures.
//!
//! Each figure is the median of [`ROUNDS`] rounds, in each of which everything is measured once: a change over a
//! minute changes all alike. Reading order: [`measure`] (the figures, and their meaning), `real` (the measuring).
//! Absent here:
//! the file ([`super::calibration`]).

mod real;

use pinfold_proto::quantity::whole;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use pinfold_profile::report::size;
use pinfold_proto::ExitCode;

use super::calibration::{self, Calibration};
use crate::print::say;
use crate::print::{print_json, print_text};
use pinfold_client::Failure;

/// Rounds; an odd number.
const ROUNDS: u32 = 3;
/// Steps of a round.
const STEPS: u32 = 14;
/// The most writers that wait for the disk at once, a writer for each core.
const WRITERS_MAX: usize = 64;
/// A small request to the disk, and a large request, in bytes.
const PAGE: usize = 4096;
const BLOCK: usize = 128 << 10;
/// From this part of a core on other programs are worth a word.
const DISTURBED: f64 = 0.1;

/// Options of `sim calibrate`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Loads all cores, writes files of up to 256 MiB, and moves as much of its own memory to swap. Run it \
while nothing else runs. `pinfold sim` uses the result where it plays jobs on this host."
)]
pub(crate) struct CalibrateArgs {
    /// How long to measure, in seconds
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = whole::<u32>(3..=3600))]
    seconds: u32,
    /// Where jobs write: the disk that is measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// Show what was measured last, and measure nothing
    #[arg(long, conflicts_with_all = ["seconds", "directory"])]
    show: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The loop of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Arithmetic in registers.
    Compute,
    /// A walk through more memory than caches hold.
    Memory,
    /// Jumps through as much, each to the place that the jump before names.
    Jumps,
}

/// The measurements of a host.
trait Host {
    /// Cores to measure.
    fn cores(&self) -> usize;
    /// Rounds of work in a second of processor time, on average over `cores` cores that all work for about `time`.
    fn work(&mut self, kind: Kind, cores: usize, time: Duration) -> Result<f64, Failure>;
    /// Bytes that `files` files take together in a second, until they are on disk, written for about `time`.
    fn write(&mut self, files: usize, time: Duration) -> Result<u64, Failure>;
    /// Requests that each of some writers brings to disk in a second, in sequence, over about `time`; each makes a file
    /// longer. `sizes`: each writer's bytes per request.
    fn requests(&mut self, sizes: &[usize], time: Duration) -> Result<Vec<u64>, Failure>;
    /// Bytes a second to swap and back; `None`: there is none.
    fn swap(&mut self) -> Result<Option<(u64, u64)>, Failure>;
    /// Cores that other programs kept busy since the start.
    fn others(&self) -> f64;
}

/// `pinfold sim calibrate`.
pub(crate) fn calibrate(args: &CalibrateArgs) -> Result<(), Failure> {
    let found = if args.show {
        calibration::kept()?
    } else {
        let directory = std::fs::canonicalize(&args.directory)
            .map_err(|error| Failure::doing(args.directory.display(), &error))?;
        let mut host = real::Real::new(&directory)?;
        let time = Duration::from_secs(args.seconds.into());
        let mut found = measure(&mut host, time, say)?;
        found.disk = found.disk_bytes_per_s.is_some().then(|| directory.display().to_string());
        let path = calibration::own_path();
        found
            .write(&path)
            .map_err(|error| Failure::doing(format!("failed to write {}", path.display()), &error))?;
        say(&format!("kept in {}; `pinfold sim` uses it for this host", path.display()));
        found
    };
    if args.json {
        return print_json(&found);
    }
    print_text(|out| tell(&found, out))
}

/// Measures a host for about `time`; `word` gets failed measurements and disturbances.
fn measure(host: &mut impl Host, time: Duration, mut word: impl FnMut(&str)) -> Result<Calibration, Failure> {
    let cores = host.cores();
    let step = time / (ROUNDS * STEPS);
    let (mut compute, mut memory, mut jumps) = (Vec::new(), Vec::new(), Vec::new());
    let mut disks: Vec<Disk> = Vec::new();
    let (mut out, mut back) = (Vec::new(), Vec::new());
    let (mut disk, mut swap) = (true, true);
    for _ in 0..ROUNDS {
        let kinds = [(Kind::Compute, &mut compute), (Kind::Memory, &mut memory), (Kind::Jumps, &mut jumps)];
        for (kind, parts) in kinds {
            let alone = host.work(kind, 1, step)?;
            let beside = host.work(kind, cores, step)?;
            parts.push(if alone > 0.0 { (beside / alone).clamp(0.001, 1.0) } else { 1.0 });
        }
        if disk {
            match disk_of(host, cores, step) {
                Ok(found) => disks.push(found),
                Err(failure) => {
                    word(&format!("the disk is not measured: {failure}"));
                    disk = false;
                    disks.clear();
                }
            }
        }
        let moved = if swap { host.swap() } else { Ok(None) };
        let moved = moved.unwrap_or_else(|failure| {
            word(&format!("swap is not measured: {failure}"));
            (swap, out, back) = (false, Vec::new(), Vec::new());
            None
        });
        if let Some((to, from)) = moved {
            out.push(to);
            back.push(from);
        }
    }
    if swap && out.is_empty() {
        word("there is no swap that could be measured");
    }
    let others_cores = host.others();
    if others_cores > DISTURBED {
        word(&format!(
            "other programs kept {others_cores:.1} cores busy meanwhile: the figures are uncertain, and better on an \
             idle host"
        ));
    }
    let each = |of: fn(&Disk) -> u64| middle(disks.iter().map(of).collect());
    let part = |of: fn(&Disk) -> f64| {
        middle(disks.iter().map(of).filter(|part| part.is_finite()).collect())
            .map(|part| part.clamp(0.001, 1.0))
    };
    Ok(Calibration {
        version: Calibration::version(),
        measured_s: SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |since| since.as_secs_f64().floor()),
        cores: u32::try_from(cores).map_err(|_| Failure::new(ExitCode::Failed, "too many cores"))?,
        compute_full: middle(compute).unwrap_or(1.0),
        memory_full: middle(memory).unwrap_or(1.0),
        jumps_full: middle(jumps),
        disk_bytes_per_s: each(|disk| disk.bytes),
        disk_all_bytes_per_s: each(|disk| disk.all_bytes),
        disk_requests_per_s: each(|disk| disk.pages),
        disk_all_requests_per_s: each(|disk| disk.all_pages),
        disk_blocks_per_s: each(|disk| disk.blocks),
        disk_pages_beside: part(|disk| disk.pages_beside as f64 / disk.pages as f64),
        disk_blocks_beside: part(|disk| disk.blocks_beside as f64 / disk.blocks as f64),
        disk: None,
        swap_out_bytes_per_s: middle(out),
        swap_in_bytes_per_s: middle(back),
        others_cores,
    })
}

/// The figures of a disk for a second.
#[derive(Debug, Clone, Copy)]
struct Disk {
    /// Bytes of a file.
    bytes: u64,
    /// Bytes of several files, a file for each core, together.
    all_bytes: u64,
    /// Pages of a single writer.
    pages: u64,
    /// Pages of several writers, a writer for each core, together.
    all_pages: u64,
    /// Blocks of a single writer.
    blocks: u64,
    /// Pages of a writer beside a writer of blocks.
    pages_beside: u64,
    /// Blocks of that writer.
    blocks_beside: u64,
}

fn disk_of(host: &mut impl Host, cores: usize, step: Duration) -> Result<Disk, Failure> {
    let mut requests = |sizes: &[usize]| host.requests(sizes, step);
    let (pages, blocks) = (requests(&[PAGE])?[0], requests(&[BLOCK])?[0]);
    let all_pages = requests(&vec![PAGE; cores.min(WRITERS_MAX)])?.iter().sum();
    let both = requests(&[PAGE, BLOCK])?;
    Ok(Disk {
        bytes: host.write(1, step)?,
        all_bytes: host.write(cores, step)?,
        pages,
        all_pages,
        blocks,
        pages_beside: both[0],
        blocks_beside: both[1],
    })
}

/// The median of an odd number of values; of an even number the higher value of the two.
fn middle<T: PartialOrd + Copy>(mut figures: Vec<T>) -> Option<T> {
    figures.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    figures.get(figures.len() / 2).copied()
}

fn tell(found: &Calibration, out: &mut dyn std::io::Write) -> std::io::Result<()> {
    let rate = |rate: Option<u64>| rate.map_or_else(|| "not measured".to_owned(), |rate| size(rate) + "/s");
    writeln!(out, "speed while all {} cores are busy, as a part of the speed of one alone", found.cores)?;
    writeln!(out, "  arithmetic           {:.1} %", found.compute_full * 100.0)?;
    writeln!(out, "  a walk of memory     {:.1} %", found.memory_full * 100.0)?;
    if let Some(jumps) = found.jumps_full {
        writeln!(out, "  jumps through it     {:.1} %", jumps * 100.0)?;
    }
    writeln!(out, "disk{}", found.disk.as_ref().map_or_else(String::new, |dir| format!(", {dir}")))?;
    writeln!(out, "  one file             {}", rate(found.disk_bytes_per_s))?;
    writeln!(out, "  a file a core        {}", rate(found.disk_all_bytes_per_s))?;
    let requests =
        |found: Option<u64>| found.map_or_else(|| "not measured".to_owned(), |all| format!("{all}/s"));
    writeln!(out, "  pages of one writer  {}", requests(found.disk_requests_per_s))?;
    writeln!(out, "  of a writer a core   {}", requests(found.disk_all_requests_per_s))?;
    if let (Some(pages), Some(blocks)) = (found.disk_pages_beside, found.disk_blocks_beside) {
        writeln!(
            out,
            "  pages beside blocks  {:.1} %, blocks beside pages {:.1} %",
            pages * 100.0,
            blocks * 100.0
        )?;
    }
    writeln!(out, "swap")?;
    writeln!(out, "  out                  {}", rate(found.swap_out_bytes_per_s))?;
    writeln!(out, "  back                 {}", rate(found.swap_in_bytes_per_s))?;
    writeln!(out, "other programs         {:.2} cores", found.others_cores)
}

#[cfg(test)]
mod tests {
    use pinfold_whatif::contention::Requests;

    use super::*;

    /// A host with these properties.
    #[derive(Default)]
    struct Fake {
        cores: usize,
        /// Speeds of each kind on all cores, one round after the other.
        full: [Vec<f64>; 3],
        disk_full: bool,
        no_paging: bool,
        swap: Option<(u64, u64)>,
        others: f64,
        time: Duration,
        rounds: usize,
    }

    impl Host for Fake {
        fn cores(&self) -> usize {
            self.cores
        }

        fn work(&mut self, kind: Kind, cores: usize, time: Duration) -> Result<f64, Failure> {
            self.time += time;
            let of = &self.full[kind as usize];
            Ok(if cores == 1 { 1e6 } else { 1e6 * of[self.rounds % of.len()] })
        }

        fn write(&mut self, files: usize, time: Duration) -> Result<u64, Failure> {
            self.time += time;
            if self.disk_full {
                return Err(Failure::new(ExitCode::Failed, "no space left on device"));
            }
            Ok(if files == 1 { 100 } else { 150 })
        }

        fn requests(&mut self, sizes: &[usize], time: Duration) -> Result<Vec<u64>, Failure> {
            self.time += time;
            Ok(match sizes {
                [PAGE] => vec![1000],
                [BLOCK] => vec![300],
                [PAGE, BLOCK] => vec![250, 200],
                pages => vec![400; pages.len()],
            })
        }

        fn swap(&mut self) -> Result<Option<(u64, u64)>, Failure> {
            self.rounds += 1;
            if self.no_paging {
                return Err(Failure::new(ExitCode::Failed, "invalid argument"));
            }
            Ok(self.swap.map(|(out, back)| (out + self.rounds as u64, back)))
        }

        fn others(&self) -> f64 {
            self.others
        }
    }

    fn of(mut host: Fake) -> (Calibration, Vec<String>, Fake) {
        let mut words = Vec::new();
        let found = measure(&mut host, Duration::from_secs(60), |text| words.push(text.to_owned()));
        (found.expect("it is measured"), words, host)
    }

    fn quiet() -> Fake {
        Fake {
            cores: 4,
            full: [vec![1.02, 0.9, 0.96], vec![0.5, 0.7, 0.6], vec![0.9, 0.8, 0.7]],
            swap: Some((10, 20)),
            ..Fake::default()
        }
    }

    #[test]
    fn medians_of_a_quiet_host() {
        let (found, words, host) = of(quiet());
        assert_eq!((found.cores, found.compute_full, found.memory_full), (4, 0.96, 0.6));
        assert_eq!((found.disk_bytes_per_s, found.disk_all_bytes_per_s), (Some(100), Some(150)));
        assert_eq!((found.swap_out_bytes_per_s, found.swap_in_bytes_per_s), (Some(12), Some(20)));
        assert!(words.is_empty(), "{words:?}");
        assert!(host.time <= Duration::from_secs(60), "{:?}", host.time);
        let contention = found.contention();
        assert_eq!((contention.full_milli, contention.disk_rate), (876, Some(150)));
        // Pages take four times as long beside blocks, blocks one and a half times beside pages.
        assert_eq!(contention.requests, Some(Requests { one: 1000, beside_milli: 1750 }));
        // What earlier versions measured has pages alone, and a walk alone.
        let earlier = Calibration { disk_pages_beside: None, disk_blocks_beside: None, ..found };
        assert_eq!(earlier.contention().requests, Some(Requests { one: 1000, beside_milli: 500 }));
        let earlier = Calibration { jumps_full: None, disk_requests_per_s: None, ..earlier };
        assert_eq!((earlier.contention().full_milli, earlier.contention().requests), (759, None));
    }

    #[test]
    fn what_cannot_be_measured_is_said() {
        let (found, words, _) = of(Fake { disk_full: true, swap: None, others: 1.3, ..quiet() });
        assert_eq!((found.disk_bytes_per_s, found.disk_all_bytes_per_s), (None, None));
        assert_eq!(found.swap_out_bytes_per_s, None);
        let words = words.join("\n");
        assert!(words.contains("the disk is not measured: no space left on device"), "{words}");
        assert!(words.contains("no swap") && words.contains("1.3 cores busy"), "{words}");
        assert_eq!((found.contention().disk_rate, found.contention().requests), (None, None));
        let (found, words, _) = of(Fake { no_paging: true, ..quiet() });
        // It is asked once, so this host stays in its second round.
        assert_eq!((found.swap_out_bytes_per_s, found.compute_full), (None, 0.9));
        assert_eq!(words, ["swap is not measured: invalid argument"]);
    }

    #[test]
    fn what_is_kept_is_read_again_and_what_cannot_be_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("deep/calibration.json");
        let (found, ..) = of(quiet());
        found.write(&path).expect("it is written");
        assert_eq!(Calibration::read(&path).expect("it is read"), found);
        for (figures, words) in [
            (Calibration { version: 99, ..found.clone() }, "another version"),
            (Calibration { compute_full: 0.0, ..found.clone() }, "cannot be"),
            (Calibration { memory_full: 7.0, ..found.clone() }, "cannot be"),
            (Calibration { disk_pages_beside: Some(0.0), ..found.clone() }, "cannot be"),
        ] {
            figures.write(&path).expect("it is written");
            let error = Calibration::read(&path).expect_err("wrong").to_string();
            assert!(error.contains(words), "{error}");
        }
        std::fs::write(&path, "{").expect("a file");
        assert!(Calibration::read(&path).is_err());
    }
}
