//! The mix of real batch programs that the demo and row `programs` run: assembly, alignment, linear algebra, disk.
//!
//! Debian's packages with their own example data. A program that is not installed is left out with a sentence, and so is a
//! program without its example data. Owns only the files that it writes to the given directory.

pub(crate) mod sized;

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::inputs::{Cutting, cuttings, genome, unpack};
use crate::way::installed;
use crate::workload::{Job, quote};

/// The jobs that can run here, and the reasons for the others.
#[derive(Debug, Default)]
pub(crate) struct Mix {
    /// The jobs, in the order in which they are handed over.
    pub(crate) jobs: Vec<Job>,
    /// A sentence for each program left out.
    pub(crate) left_out: Vec<String>,
}

/// Makes the inputs below `directory`. A job's work is about `size` times that of the demo's.
pub(crate) fn mix(directory: &Path, size: f64) -> anyhow::Result<Mix> {
    let mut mix = Mix::default();
    let mut kinds = Vec::new();
    let builders = [velvet, bowtie, bowtie_build, muscle, hpcc, fio];
    for build in builders {
        match build(directory, size)? {
            Ok(jobs) => kinds.push(jobs),
            Err(why) => mix.left_out.push(why),
        }
    }
    mix.jobs = interleave(kinds);
    Ok(mix)
}

/// A job of each kind in turn, as a queue of several users would hold them.
fn interleave(kinds: Vec<Vec<Job>>) -> Vec<Job> {
    let longest = kinds.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest).flat_map(|turn| kinds.iter().filter_map(move |kind| kind.get(turn).cloned())).collect()
}

/// The jobs of a program, or the reason for their absence.
type Built = Result<Vec<Job>, String>;

fn job(name: &str, script: String, outputs: &[&str]) -> Job {
    let outputs = outputs.iter().map(|output| (*output).to_owned()).collect();
    // A single core each: threads of a library would make another mix on every machine.
    let script = format!("export OMP_NUM_THREADS=1\n{script}\n");
    Job { name: name.to_owned(), class: name.to_owned(), script, outputs }
}

/// A count of the demo's mix scaled by `size`, at least 1.
fn scaled(count: u32, size: f64) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive and far below the largest integer"
    )]
    let scaled = (f64::from(count) * size).round().max(1.0) as usize;
    scaled
}

const VELVET_READS: &str = "/usr/share/doc/velvet/examples/test_reads.fa.xz";
const BOWTIE_GENOME: &str = "/usr/share/doc/bowtie/examples/genomes/NC_008253.fna.gz";
const BOWTIE_INDEX: &str = "/usr/share/doc/bowtie/examples/indexes/e_coli";

/// Unpacks the example genome once for all its users.
fn coli(directory: &Path) -> anyhow::Result<Result<PathBuf, String>> {
    let target = directory.join("genome.fa");
    if target.is_file() {
        return Ok(Ok(target));
    }
    if !Path::new(BOWTIE_GENOME).is_file() {
        return Ok(Err("the example genome (package bowtie-examples) is not installed".to_owned()));
    }
    unpack("gzip", Path::new(BOWTIE_GENOME), &target)?;
    Ok(Ok(target))
}

fn velvet(directory: &Path, size: f64) -> anyhow::Result<Built> {
    if !installed("velveth") || !installed("velvetg") {
        return Ok(Err("velvet is left out: it is not installed".to_owned()));
    }
    if !Path::new(VELVET_READS).is_file() {
        return Ok(Err(
            "velvet is left out: its example data (package velvet-example) is not installed".into()
        ));
    }
    let reads = directory.join("reads.fa");
    unpack("xz", Path::new(VELVET_READS), &reads)?;
    let lengths = [["17", "25", "29"], ["19", "23", "31"], ["21", "27", "15"]];
    let jobs = lengths.iter().enumerate().map(|(number, lengths)| {
        let lengths = &lengths[..scaled(3, size).min(3)];
        let script = format!(
            "for k in {}; do\n  velveth k$k $k -shortPaired {}\n  velvetg k$k -ins_length 100 -exp_cov auto\n  \
             cat k$k/contigs.fa >> contigs.fa\ndone",
            lengths.join(" "),
            quote(&reads)
        );
        job(&format!("velvet-{}", number + 1), script, &["contigs.fa"])
    });
    Ok(Ok(jobs.collect()))
}

fn bowtie(directory: &Path, size: f64) -> anyhow::Result<Built> {
    if !installed("bowtie") {
        return Ok(Err("bowtie is left out: it is not installed".to_owned()));
    }
    let genome = match coli(directory)? {
        Ok(file) => genome(&file)?,
        Err(why) => return Ok(Err(format!("bowtie is left out: {why}"))),
    };
    let searches = [("-v 3 -a", 40_000), ("-n 2 -l 28 -e 70 -a", 100_000)];
    let mut jobs = Vec::new();
    for (number, (options, count)) in (1..).zip(searches) {
        let shape = Cutting { count: scaled(count, size), length: 50, every: 50, place: None };
        let reads = cuttings(&genome, &directory.join(format!("bowtie-{number}.fa")), shape, number)?;
        let script = format!("bowtie -p 1 -f {options} -x {BOWTIE_INDEX} {} hits.map", quote(&reads));
        jobs.push(job(&format!("bowtie-{number}"), script, &["hits.map"]));
    }
    Ok(Ok(jobs))
}

fn bowtie_build(directory: &Path, size: f64) -> anyhow::Result<Built> {
    if !installed("bowtie-build") {
        return Ok(Err("bowtie-build is left out: it is not installed".to_owned()));
    }
    let whole = match coli(directory)? {
        Ok(file) => genome(&file)?,
        Err(why) => return Ok(Err(format!("bowtie-build is left out: {why}"))),
    };
    let length = scaled(u32::try_from(whole.len()).context("a genome has under 2^32 bases")?, size);
    let part = directory.join("index.fa");
    let shape = Cutting { count: 1, length: length.min(whole.len() - 1), every: usize::MAX, place: Some(0) };
    cuttings(&whole, &part, shape, 1)?;
    let script = format!("bowtie-build --seed 1 {} index", quote(&part));
    Ok(Ok(vec![job("bowtie-build", script, &["index.1.ebwt", "index.rev.1.ebwt"])]))
}

fn muscle(directory: &Path, size: f64) -> anyhow::Result<Built> {
    // Version 5 of the program, `muscle`, has other options; Debian keeps version 3 under its own name.
    if !installed("muscle3") {
        return Ok(Err("muscle is left out: muscle3 is not installed".to_owned()));
    }
    let genome = match coli(directory)? {
        Ok(file) => genome(&file)?,
        Err(why) => return Ok(Err(format!("muscle is left out: {why}"))),
    };
    let mut jobs = Vec::new();
    for (number, (count, length)) in (1..).zip([(190, 500), (120, 800)]) {
        let place = Some(1_000_000 * number);
        // The work grows with the square of the length.
        let length = scaled(length, size.sqrt());
        let target = directory.join(format!("muscle-{number}.fa"));
        let shape = Cutting { count, length, every: 8, place };
        let seed = u64::try_from(number).context("a small number")?;
        let family = cuttings(&genome, &target, shape, seed)?;
        let script = format!("muscle3 -quiet -in {} -out aligned.afa", quote(&family));
        jobs.push(job(&format!("muscle-{number}"), script, &["aligned.afa"]));
    }
    Ok(Ok(jobs))
}

fn hpcc(_directory: &Path, size: f64) -> anyhow::Result<Built> {
    if !installed("hpcc") {
        return Ok(Err("hpcc is left out: it is not installed".to_owned()));
    }
    // The work grows with the cube of the order.
    let orders = [scaled(1_500, size.cbrt()), scaled(1_460, size.cbrt())];
    let jobs = orders.iter().zip(1..).map(|(order, number)| algebra_job(&format!("hpcc-{number}"), *order));
    Ok(Ok(jobs.collect()))
}

/// The HPC Challenge with a single rank, started without mpirun; it checks its own answers, and its times differ from run
/// to run.
fn algebra_job(name: &str, order: usize) -> Job {
    let script = format!(
        "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n\
         cat > hpccinf.txt <<'END'\n{}END\nhpcc\ngrep -q '^Success=1' hpccoutf.txt",
        linpack_input(order, 1)
    );
    job(name, script, &[])
}

/// The benchmark's positional input file: a problem of `order` equations, blocks of 80, a grid of 1 x `ranks`.
pub(crate) fn linpack_input(order: usize, ranks: usize) -> String {
    let (order, ranks) = (order.to_string(), ranks.to_string());
    let lines = [
        ("linear equations", ""),
        ("of ranks in a row", ""),
        ("HPL.out", "output file"),
        ("8", "output device"),
        ("1", "number of orders"),
        (order.as_str(), "order"),
        ("1", "number of block sizes"),
        ("80", "block size"),
        ("0", "row-major grid"),
        ("1", "number of grids"),
        ("1", "rows of the grid"),
        (ranks.as_str(), "columns of the grid"),
        ("16.0", "threshold of the check"),
        ("1", "number of panel factorisations"),
        ("2", "panel factorisation"),
        ("1", "number of stopping criteria"),
        ("4", "stopping criterion"),
        ("1", "number of panel counts"),
        ("2", "panels"),
        ("1", "number of recursive factorisations"),
        ("1", "recursive factorisation"),
        ("1", "number of broadcasts"),
        ("1", "broadcast"),
        ("1", "number of depths"),
        ("1", "depth"),
        ("2", "swap"),
        ("64", "swap threshold"),
        ("0", "L1 form"),
        ("0", "U form"),
        ("1", "equilibration"),
        ("8", "alignment"),
        ("-", "separator"),
        ("0", "further orders for transposition"),
        ("0", "orders"),
        ("0", "further block sizes for transposition"),
        ("0", "block sizes"),
    ];
    lines.iter().map(|(value, meaning)| format!("{value}  {meaning}\n")).collect()
}

fn fio(_directory: &Path, size: f64) -> anyhow::Result<Built> {
    if !installed("fio") {
        return Ok(Err("fio is left out: it is not installed".to_owned()));
    }
    // Past the page cache, a request at a time: these jobs wait for the device more than they compute.
    let patterns = [
        ("--rw=randread --direct=1 --bs=4k", 700),
        ("--rw=randwrite --fsync=1 --bs=4k", 180),
        ("--rw=randrw --direct=1 --bs=128k", 7_000),
        ("--rw=randwrite --direct=1 --sync=1 --bs=4k", 260),
    ];
    let jobs = patterns.iter().zip(1..).map(|((pattern, mebibytes), number)| {
        let amount = scaled(*mebibytes, size);
        let script = format!(
            "fio --name=data --directory=. --ioengine=psync --thread --size=128m --io_size={amount}m {pattern} \
             --randseed=1 --output-format=json --output=report.json\nrm data.0.0"
        );
        job(&format!("fio-{number}"), script, &[])
    });
    Ok(Ok(jobs.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_kind_takes_its_turn() {
        let named =
            |names: &[&str]| names.iter().map(|name| job(name, String::new(), &[])).collect::<Vec<_>>();
        let mixed = interleave(vec![named(&["a1", "a2", "a3"]), named(&["b1"]), named(&["c1", "c2"])]);
        let names: Vec<&str> = mixed.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names, ["a1", "b1", "c1", "a2", "c2", "a3"]);
        assert!(interleave(Vec::new()).is_empty());
    }

    /// With any programs installed: names are unique, and every program is either there or mentioned.
    #[test]
    fn nothing_is_left_out_silently() {
        let directory = tempfile::tempdir().unwrap();
        let mix = mix(directory.path(), 0.01).unwrap();
        let names: BTreeSet<&str> = mix.jobs.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names.len(), mix.jobs.len());
        for program in ["velvet", "bowtie", "bowtie-build", "muscle", "hpcc", "fio"] {
            let runs = names.iter().any(|name| name.starts_with(program));
            assert!(runs || mix.left_out.iter().any(|why| why.starts_with(program)), "{program} is lost");
        }
    }
}
