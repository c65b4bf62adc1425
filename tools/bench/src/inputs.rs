//! Inputs of the real programs, made from the example data that Debian ships with them.
//!
//! Everything drawn at random comes from a fixed seed, so the inputs are the same on every machine. The files
//! belong to the caller's directory.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// Unpacks `packed` to `target` with `tool`, `xz` or `gzip`.
pub(crate) fn unpack(tool: &str, packed: &Path, target: &Path) -> anyhow::Result<()> {
    let output = File::create(target).with_context(|| format!("failed to create {}", target.display()))?;
    let status = Command::new(tool)
        .arg("-dc")
        .arg(packed)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(Stdio::null())
        .status()
        .with_context(|| format!("failed to run {tool}"))?;
    if !status.success() {
        bail!("{tool} could not unpack {}", packed.display());
    }
    Ok(())
}

/// The bases of a FASTA file with a single sequence, without its title.
pub(crate) fn genome(file: &Path) -> anyhow::Result<Vec<u8>> {
    let text = fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))?;
    let bases: Vec<u8> = text.lines().filter(|line| !line.starts_with('>')).flat_map(str::bytes).collect();
    if bases.is_empty() {
        bail!("{} holds no sequence", file.display());
    }
    Ok(bases)
}

/// Writes `count` sequences of `length` bases, cut from random places of `genome`, each base replaced with a chance of 1 in
/// `every`. With `place` all are cut from that same place: relatives of each other.
pub(crate) fn cuttings(genome: &[u8], target: &Path, shape: Cutting, seed: u64) -> anyhow::Result<PathBuf> {
    let Cutting { count, length, every, place } = shape;
    if genome.len() <= length {
        bail!("a genome of {} bases is too short for reads of {length}", genome.len());
    }
    let mut random = Random(seed);
    let file = File::create(target).with_context(|| format!("failed to create {}", target.display()))?;
    let mut out = BufWriter::new(file);
    for number in 0..count {
        let start = place.unwrap_or_else(|| random.below(genome.len() - length));
        writeln!(out, ">cutting{number}").context("failed to write sequences")?;
        let bases = genome.iter().cycle().skip(start).take(length);
        let changed: Vec<u8> = bases
            .map(|base| if random.below(every) == 0 { b"ACGT"[random.below(4)] } else { *base })
            .collect();
        out.write_all(&changed).and_then(|()| out.write_all(b"\n")).context("failed to write sequences")?;
    }
    out.flush().context("failed to write sequences")?;
    Ok(target.to_owned())
}

/// The shape of a set of sequences.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cutting {
    /// Sequences.
    pub(crate) count: usize,
    /// Bases in each.
    pub(crate) length: usize,
    /// Each base is replaced with a chance of 1 in this number.
    pub(crate) every: usize,
    /// The place of all cuttings, or `None` for random places.
    pub(crate) place: Option<usize>,
}

/// `SplitMix64`: small, stable, and good enough to scatter reads.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is far below 2^32, so that the bias of the remainder does not matter.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound.max(1)).unwrap_or(1)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generator_is_splitmix64() {
        // The reference implementation's first values from seed 1234567.
        let mut random = Random(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn cuttings_are_the_same_every_time() {
        let directory = tempfile::tempdir().unwrap();
        let genome: Vec<u8> = b"ACGT".iter().copied().cycle().take(1000).collect();
        let shape = Cutting { count: 5, length: 30, every: 10, place: None };
        let first = cuttings(&genome, &directory.path().join("a"), shape, 7).unwrap();
        let second = cuttings(&genome, &directory.path().join("b"), shape, 7).unwrap();
        let text = fs::read_to_string(first).unwrap();
        assert_eq!(text, fs::read_to_string(second).unwrap());
        assert_eq!(text.lines().filter(|line| line.len() == 30).count(), 5);
        let other = cuttings(&genome, &directory.path().join("c"), shape, 8).unwrap();
        assert_ne!(text, fs::read_to_string(other).unwrap());
    }

    #[test]
    fn too_short_a_genome_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let shape = Cutting { count: 1, length: 30, every: 10, place: None };
        assert!(cuttings(b"ACGT", &directory.path().join("a"), shape, 7).is_err());
    }
}
