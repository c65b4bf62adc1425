//! Power cuts, at the level of the disk: jobs run on a daemon with its state on a disk of which QEMU logs each write; then
//! the power is cut at flushes of that log, and a new machine boots with the disk of each cut. Absent here: the checks
//! (`tools/lab/power/check.sh`), and the log ([`super::writes`]).

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;

use super::archive::{Put, write_initrd};
use super::kernel::Kernel;
use super::machine::{Disk, Machine};
use super::results::{Of, conclude};
use super::writes::{self, Cut, Marks, SECTOR};
use super::{LabArgs, find, lacks, programs, said, target, work_dir};

const NEEDED: [(&str, &str); 1] = [("mkfs.ext4", "e2fsprogs")];
const MIB: u64 = 1 << 20;
/// The file system, from its first byte and of its size,
const FILES: (u64, u64) = (MIB, 48 * MIB);
/// and the marks, behind it.
const MARKS: (u64, u64) = (49 * MIB, 8 * MIB);
/// The most disks of a machine: its bus has places for few more.
const DISKS: usize = 20;
/// A sparse file that the log does not outgrow.
const LOG_BYTES: u64 = 2048 * MIB;

pub(super) fn power(args: &LabArgs) -> anyhow::Result<()> {
    if lacks(&NEEDED) {
        return Ok(());
    }
    let Some(kernel) = Kernel::have()? else { return Ok(()) };
    let (target, work) = (target()?, work_dir()?);
    let initrd = work.path().join("initrd");
    let programs = programs()?;
    let mut all = vec![
        Put::File("tools/lab/power/init", "init"),
        Put::File("tools/lab/ready.sh", "lab/ready.sh"),
        Put::File("tools/lab/checks.sh", "lab/checks.sh"),
        Put::File("tools/lab/power/marks.sh", "lab/power/marks.sh"),
        Put::File("tools/lab/power/job.sh", "lab/power/job.sh"),
        Put::File("tools/lab/power/record.sh", "lab/power/record.sh"),
        Put::File("tools/lab/power/check.sh", "lab/power/check.sh"),
    ];
    let shown = programs.iter().filter(|(_, inside)| inside.starts_with("bin/"));
    all.extend(shown.map(|(path, inside)| Put::Program(path, inside)));
    write_initrd(&initrd, &kernel, &all, work.path())?;
    let smp = args.smp.as_deref().unwrap_or("4,sockets=2,cores=1,threads=2");
    println!("lab: power cuts, kernel {}, {smp}, 2 x {} MiB", kernel.version, args.node_mib);
    let run = |form: &str, append: &str, disks: Vec<Disk>| {
        let machine = Machine {
            kernel: &kernel,
            initrd: &initrd,
            smp,
            node_mib: args.node_mib,
            limit: Duration::from_secs(args.limit_s),
            disks,
            boots: 1,
            append,
        };
        let outcome = machine.run(work.path())?;
        conclude(&Of { form, kernel: &kernel.version, machine: smp }, &outcome, &target)
    };
    let (base, disk, log) = (work.path().join("base"), work.path().join("disk"), work.path().join("writes"));
    make_disk(&base)?;
    fs::copy(&base, &disk)?;
    File::create(&log)?.set_len(LOG_BYTES)?;
    run("power-record", "power=record", vec![Disk { log: Some(log.clone()), ..Disk::lasting(disk) }])?;
    let entries = writes::read(&log)?;
    let cuts = cuts(writes::flushes(&entries), args.cuts)?;
    println!("lab: {} flushes; {} cuts", writes::flushes(&entries), cuts.len());
    for (number, some) in cuts.chunks(DISKS).enumerate() {
        let disks: Vec<PathBuf> =
            (0..some.len()).map(|place| work.path().join(format!("cut-{place}"))).collect();
        for (cut, path) in some.iter().zip(&disks) {
            writes::apply(&base, path, &entries, *cut, &Marks { first_sector: MARKS.0 / SECTOR })?;
            label(path, cut)?;
        }
        let form = format!("power-check-{}", number + 1);
        run(&form, "power=check", disks.into_iter().map(Disk::lasting).collect())?;
    }
    Ok(())
}

/// `count` cuts, evenly among the flushes, by turns with none, half and three quarters of the unflushed writes.
fn cuts(flushes: usize, count: usize) -> anyhow::Result<Vec<Cut>> {
    ensure!(flushes > 0, "nothing was flushed");
    let count = count.clamp(1, 3 * flushes);
    let cut = |number: usize| Cut {
        flushes: 1 + number * (flushes - 1) / (count - 1).max(1),
        quarters: [0, 2, 3][number % 3],
    };
    Ok((0..count).map(cut).collect())
}

/// An empty disk: a table of two partitions, the first with a file system.
fn make_disk(path: &Path) -> anyhow::Result<()> {
    let disk = File::create(path)?;
    disk.set_len(MARKS.0 + MARKS.1)?;
    let mkfs = find("mkfs.ext4").unwrap_or_else(|| "mkfs.ext4".into());
    let offset = format!("offset={}", FILES.0);
    said(Command::new(mkfs).args(["-q", "-F", "-E", &offset]).arg(path).arg(format!("{}k", FILES.1 / 1024)))?;
    // The classic table: four entries of 16 bytes from byte 446 on, and its mark.
    let mut table = [0; 66];
    for (entry, (first, bytes)) in table.chunks_exact_mut(16).zip([FILES, MARKS]) {
        entry[4] = 0x83;
        entry[8..12].copy_from_slice(&u32::try_from(first / SECTOR)?.to_le_bytes());
        entry[12..16].copy_from_slice(&u32::try_from(bytes / SECTOR)?.to_le_bytes());
    }
    table[64..].copy_from_slice(&[0x55, 0xaa]);
    Ok(disk.write_all_at(&table, 446)?)
}

/// Writes the number of a disk's cut, for the machine, to the last sector of the marks.
fn label(path: &Path, cut: &Cut) -> anyhow::Result<()> {
    let text = format!("after flush {}, {} quarters of the rest", cut.flushes, cut.quarters);
    let disk = File::options().write(true).open(path)?;
    Ok(disk.write_all_at(text.as_bytes(), MARKS.0 + MARKS.1 - SECTOR)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_reach_from_the_first_flush_to_the_last() {
        let all = cuts(100, 20).expect("cuts");
        assert_eq!((all.len(), all[0].flushes, all[19].flushes), (20, 1, 100));
        assert!(all.is_sorted_by_key(|cut| cut.flushes));
        assert_eq!(cuts(1, 9).expect("cuts").len(), 3);
        assert!(cuts(0, 9).is_err());
    }
}
