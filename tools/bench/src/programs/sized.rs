//! Real programs by their memory: sized to a budget, and small programs for the gaps beside a large job.

use std::path::Path;

use super::{BOWTIE_INDEX, Built, Mix, algebra_job, coli, interleave, job};
use crate::inputs::{Cutting, cuttings, genome};
use crate::way::installed;
use crate::workload::{Job, quote};

/// Makes the inputs of programs sized to a budget in MiB: linear algebra on a matrix of a fortieth of it (its work grows
/// with the cube of the order), four assemblies of a third of it (of a budget of 1 GiB; their tables hardly grow), and four
/// that write through 45 % of it again and again.
pub(crate) fn large(directory: &Path, budget_mib: u64) -> anyhow::Result<Mix> {
    let mut mix = Mix::default();
    let kinds = [algebra(budget_mib), assemblies(directory, budget_mib)?, stressors(budget_mib)];
    let kinds =
        kinds.into_iter().filter_map(|kind| kind.map_err(|why| mix.left_out.push(why)).ok()).collect();
    mix.jobs = interleave(kinds);
    Ok(mix)
}

/// Makes the inputs of `count` small jobs of a second or so each: assemblies, which take some 200 MiB for a moment,
/// searches, and alignments in turn.
pub(crate) fn small(directory: &Path, count: usize) -> anyhow::Result<Mix> {
    let mut mix = Mix::default();
    let genome = match coli(directory)? {
        Ok(file) => genome(&file)?,
        Err(why) => {
            mix.left_out.push(format!("velvet, bowtie and muscle are left out: {why}"));
            return Ok(mix);
        }
    };
    let mut kinds = Vec::new();
    for kind in KINDS {
        if installed(kind.program) {
            let file = cuttings(&genome, &directory.join(kind.class), kind.input, 1)?;
            kinds.push((kind, (kind.script)(&quote(&file))));
        } else {
            mix.left_out.push(format!("{} is left out: {} is not installed", kind.class, kind.program));
        }
    }
    let numbered = (1..=count).zip(kinds.iter().cycle());
    mix.jobs = numbered
        .map(|(number, (kind, script))| Job {
            class: kind.class.to_owned(),
            ..job(&format!("{}-{number}", kind.class), script.clone(), &[kind.output])
        })
        .collect();
    Ok(mix)
}

/// `count` jobs that wait for the disk: random reads and writes past the page cache, in turn.
pub(crate) fn disk(count: usize) -> Built {
    if !installed("fio") {
        return Err("fio is left out: it is not installed".to_owned());
    }
    let script = "fio --name=data --directory=. --ioengine=psync --thread --size=32m --io_size=192m --rw=randrw --direct=1 --bs=16k \
                  --randseed=1 --output-format=json --output=report.json\nrm data.0.0";
    let one = |number: usize| Job {
        class: "fio".to_owned(),
        ..job(&format!("fio-{number}"), script.to_owned(), &[])
    };
    Ok((1..=count).map(one).collect())
}

/// A kind of small job.
#[derive(Debug, Clone, Copy)]
struct Kind {
    class: &'static str,
    program: &'static str,
    input: Cutting,
    /// The command for the input, a shell word.
    script: fn(&str) -> String,
    output: &'static str,
}

const KINDS: [Kind; 3] = [
    Kind {
        class: "velvet",
        program: "velveth",
        input: Cutting { count: 20_000, length: 100, every: 300, place: None },
        script: |reads| format!("velveth k25 25 -short {reads}\nvelvetg k25\nmv k25/contigs.fa ."),
        output: "contigs.fa",
    },
    Kind {
        class: "bowtie",
        program: "bowtie",
        input: Cutting { count: 5_000, length: 50, every: 50, place: None },
        script: |reads| format!("bowtie -p 1 -f -v 3 -a -x {BOWTIE_INDEX} {reads} hits.map"),
        output: "hits.map",
    },
    Kind {
        class: "muscle",
        program: "muscle3",
        input: Cutting { count: 60, length: 500, every: 8, place: Some(1_000_000) },
        script: |family| format!("muscle3 -quiet -in {family} -out aligned.afa"),
        output: "aligned.afa",
    },
];

fn algebra(budget_mib: u64) -> Built {
    if !installed("hpcc") {
        return Err("hpcc is left out: it is not installed".to_owned());
    }
    // Eight bytes for each number of the matrix.
    let order = ((budget_mib << 20) / 40 / 8).isqrt();
    Ok(vec![algebra_job("hpcc-1", usize::try_from(order).unwrap_or(usize::MAX))])
}

fn assemblies(directory: &Path, budget_mib: u64) -> anyhow::Result<Built> {
    if !installed("velveth") || !installed("velvetg") {
        return Ok(Err("velvet is left out: it is not installed".to_owned()));
    }
    let genome = match coli(directory)? {
        Ok(file) => genome(&file)?,
        Err(why) => return Ok(Err(format!("velvet is left out: {why}"))),
    };
    let count = usize::try_from(budget_mib).unwrap_or(usize::MAX).saturating_mul(100);
    let shape = Cutting { count, length: 100, every: 300, place: None };
    let reads = cuttings(&genome, &directory.join("reads.fa"), shape, 1)?;
    let script =
        format!("velveth k25 25 -short {}\nvelvetg k25 -exp_cov auto\nmv k25/contigs.fa .", quote(&reads));
    Ok(Ok(alike("velvet", &script, &["contigs.fa"])))
}

fn stressors(budget_mib: u64) -> Built {
    if !installed("stress-ng") {
        return Err("stress-ng is left out: it is not installed".to_owned());
    }
    let mib = budget_mib * 45 / 100;
    let script =
        format!("stress-ng --quiet --vm 1 --vm-bytes {mib}m --vm-keep --vm-method incdec --vm-ops 400000");
    Ok(alike("stress-ng", &script, &[]))
}

/// Four jobs of the same class.
fn alike(class: &str, script: &str, outputs: &[&str]) -> Vec<Job> {
    let one = |number| Job {
        class: class.to_owned(),
        ..job(&format!("{class}-{number}"), script.to_owned(), outputs)
    };
    (1..=4).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_ones_are_not_left_out_silently() {
        let directory = tempfile::tempdir().unwrap();
        let mix = large(directory.path(), 10).unwrap();
        for (program, count) in [("hpcc", 1), ("velvet", 4), ("stress-ng", 4)] {
            let runs = mix.jobs.iter().filter(|job| job.class.starts_with(program)).count();
            let left_out = mix.left_out.iter().any(|why| why.starts_with(program));
            assert_eq!(runs, if left_out { 0 } else { count }, "{program}");
        }
        // A fortieth of 10 MiB is a matrix of 181 by 181.
        let asked = |job: &Job| job.script.contains("\n181  order\n");
        assert!(mix.jobs.iter().filter(|job| job.class == "hpcc-1").all(asked));
    }

    #[test]
    fn small_ones_are_as_many_as_asked_for_or_spoken_of() {
        let directory = tempfile::tempdir().unwrap();
        let mix = small(directory.path(), 7).unwrap();
        let gone = |class: &str| mix.left_out.iter().any(|why| why.contains(class));
        let there: Vec<&Kind> = KINDS.iter().filter(|kind| !gone(kind.class)).collect();
        assert_eq!(mix.jobs.len(), if there.is_empty() { 0 } else { 7 });
        for kind in there {
            assert!(mix.jobs.iter().any(|job| job.class == kind.class), "{}", kind.class);
        }
    }
}
