//! Act 2: a list that does not fit into memory at once: real programs and jobs that grow, under a budget.
//!
//! Without a manager there are two ways: run as many as fit, which needs to be known before, or more and hope. Needs root
//! for the budget (a memory group of its own) and for a swap file, both of which are removed at the end.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Picture, heading, note, picture, tell_troubles};
use crate::compare::{done, show};
use crate::machine::available_mib;
use crate::pressed::Pressed;
use crate::programs::sized::small;
use crate::record::Record;
use crate::row::Ground;
use crate::run::{Bench, Run, Solo};
use crate::table;
use crate::way::{Knows, Way};
use crate::workload::{Job, quote};

/// The size of a growing job, MiB, and its growth, MiB a second.
const GROWN_MIB: u64 = 460;
const GROWTH_MIB_PER_S: u64 = 230;

/// Budget for each of the jobs that fit at once, MiB: room for a single growing job.
const SHARE_MIB: u64 = 512;

/// More jobs at once show nothing new on a large machine, and take more of its memory and disk.
const FIT_MOST: usize = 4;

/// The time limit of the first list, which fits by its size, seconds. The others are given up after a multiple of the first
/// list's time, and not before some seconds.
const LIMIT_S: f64 = 600.0;
const GIVE_UP_TIMES: f64 = 2.0;
const GIVE_UP_LEAST_S: f64 = 30.0;

/// The sizes of the act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sizes {
    /// Growing jobs that fit into the budget at once.
    fit: usize,
    budget_mib: u64,
    swap_mib: u64,
    growers: usize,
    others: usize,
}

impl Sizes {
    fn of(cores: usize) -> Self {
        let fit = cores.clamp(1, FIT_MOST);
        let budget_mib = SHARE_MIB * fit as u64;
        Self { fit, budget_mib, swap_mib: 2 * budget_mib, growers: 3 * fit, others: 6 * fit }
    }
}

/// Plays the act; nothing to draw where there is no budget and no swap to be had.
pub(super) fn play(ground: &Ground, record: &mut Record) -> anyhow::Result<Option<Picture>> {
    heading(record, "2. A list that does not fit into memory at once");
    let sizes = Sizes::of(ground.cores());
    let bench = ground.bench(LIMIT_S);
    let left_out = |why: &str| format!("This act is left out: {why}");
    if bench.binaries.is_none() {
        note(record, &left_out("pinfold and pinfoldd are not built."));
        return Ok(None);
    }
    if available_mib() < 2 * sizes.budget_mib {
        let wanted = 2 * sizes.budget_mib;
        note(record, &left_out(&format!("{wanted} MiB of memory are wanted, {} are free.", available_mib())));
        return Ok(None);
    }
    let pressed = match Pressed::make(bench.scratch, sizes.budget_mib, sizes.swap_mib) {
        Ok(pressed) => pressed,
        Err(error) => {
            note(record, &left_out(&format!("{error:#}.")));
            return Ok(None);
        }
    };
    let bench = Bench { group: Some(pressed.group()), lenient: true, ..bench };
    let inputs = tempfile::Builder::new().prefix("inputs-").tempdir_in(bench.scratch)?;
    let (jobs, left_out) = list(sizes, inputs.path())?;
    for why in &left_out {
        note(record, &format!("{why}."));
    }
    done("Each kind of job alone:");
    let (solo, failed) =
        bench.solo(&jobs, 1, ground.solo_pu()?, &mut |watch, jobs| show("[alone]", watch, jobs))?;
    if let Some(why) = failed.values().next() {
        note(record, &format!("This act is left out, because alone {why}."));
        return Ok(None);
    }
    let runs = runs(&bench, sizes, &jobs, &solo, record)?;
    tell(record, &runs, sizes, jobs.len());
    tell_troubles(record, &runs, ground.cores(), "Others, the threads of the kernel that page among them,");
    Ok(Some(Picture::Over(picture::memory(&runs, sizes.budget_mib, jobs.len()))))
}

/// Growing jobs, each followed by small real programs as far as installed; and missing programs.
fn list(sizes: Sizes, directory: &Path) -> anyhow::Result<(Vec<Job>, Vec<String>)> {
    let mix = small(directory, sizes.others)?;
    let load = quote(&std::env::current_exe()?.with_file_name("pinfold-load"));
    let script = format!(
        "{load} --grow-mib {GROWN_MIB} --grow-mib-per-s {GROWTH_MIB_PER_S} --bursts 1 --turns 8000000\n"
    );
    let grower = |number: usize| Job {
        name: format!("grower-{number}"),
        class: "grower".to_owned(),
        script: script.clone(),
        outputs: vec!["stdout".to_owned()],
    };
    let (mut jobs, mut others) = (Vec::new(), mix.jobs.into_iter());
    for number in 1..=sizes.growers {
        jobs.push(grower(number));
        jobs.extend(others.by_ref().take(sizes.others / sizes.growers));
    }
    jobs.extend(others);
    Ok((jobs, mix.left_out))
}

fn runs(
    bench: &Bench<'_>,
    sizes: Sizes,
    jobs: &[Job],
    solo: &BTreeMap<String, Solo>,
    record: &mut Record,
) -> anyhow::Result<Vec<(String, Run)>> {
    let Sizes { fit, budget_mib, .. } = sizes;
    // GNU parallel reads the whole host's memory: its threshold is set as if the host ended at the budget.
    let beyond = available_mib().saturating_sub(budget_mib);
    let ways = [
        (format!("As many as fit, by hand ({fit})"), Way::Native { slots: fit }),
        (format!("Twice as many ({})", 2 * fit), Way::Native { slots: 2 * fit }),
        (
            "GNU parallel --memsuspend".to_owned(),
            Way::ParallelSuspend { slots: 2 * fit, half_mib: (beyond + budget_mib / 5) / 2 },
        ),
        (
            "pinfold at factor 2".to_owned(),
            Way::PinfoldWithin { factor: 2.0, budget_mib, knows: Knows::Nothing },
        ),
    ];
    let mut runs: Vec<(String, Run)> = Vec::new();
    for (turn, (name, way)) in (1..).zip(ways) {
        if let Some(why) = way.missing(bench.binaries) {
            note(record, &format!("{name} is left out: {why}."));
            continue;
        }
        let label = format!("[{turn}/4] {name}");
        done(&format!("{label}: {} jobs", jobs.len()));
        let limit_s = runs.first().map_or(LIMIT_S, |(_, first)| give_up_s(first));
        let bench = Bench { limit_s, ..*bench };
        let run = bench.run(way, jobs, solo, &mut |watch, jobs| show(&label, watch, jobs))?;
        done(&format!("{label}: {}", outcome(&run, jobs.len(), limit_s)));
        record.add("memory", &run)?;
        runs.push((name, run));
    }
    Ok(runs)
}

/// The time limit of a list, by the first list's time, seconds.
fn give_up_s(first: &Run) -> f64 {
    (GIVE_UP_TIMES * first.makespan_s).max(GIVE_UP_LEAST_S)
}

/// Whether a list was given up after `give_up_s`.
fn is_given_up(run: &Run, jobs: usize, give_up_s: f64) -> bool {
    run.makespan_s >= give_up_s && finished(run, jobs) < jobs
}

/// The number of finished jobs, and their time.
fn outcome(run: &Run, jobs: usize, give_up_s: f64) -> String {
    let how = if is_given_up(run, jobs, give_up_s) { "finished, given up after" } else { "finished in" };
    format!("{} of {jobs} {how} {:.1} s", finished(run, jobs), run.makespan_s)
}

/// The outcomes of lists that are compared with the first.
pub(super) fn outcomes(runs: &[(String, Run)], jobs: usize) -> impl Iterator<Item = String> {
    let limit_s = runs.first().map_or(LIMIT_S, |(_, first)| give_up_s(first));
    runs.iter().map(move |(name, run)| format!("{name}: {}", outcome(run, jobs, limit_s)))
}

/// Jobs that ended well, with the right output.
fn finished(run: &Run, jobs: usize) -> usize {
    jobs.saturating_sub(run.failures.len())
}

fn tell(record: &mut Record, runs: &[(String, Run)], sizes: Sizes, jobs: usize) {
    let give_up_s = runs.first().map_or(LIMIT_S, |(_, first)| give_up_s(first));
    record.say(&format!(
        "{jobs} jobs under a budget of {} MiB with {} MiB of swap: {} that grow to {GROWN_MIB} MiB, of which {} fit at \
         once, and small real programs between them. A list that is not over after {give_up_s:.0} s is given up.\n",
        sizes.budget_mib, sizes.swap_mib, sizes.growers, sizes.fit
    ));
    let rows: Vec<Vec<String>> = runs
        .iter()
        .map(|(name, run)| {
            let over = is_given_up(run, jobs, give_up_s);
            vec![
                name.clone(),
                format!("{} of {jobs}", finished(run, jobs)),
                if over { "given up".to_owned() } else { format!("{:.1}", run.makespan_s) },
                format!("{:.1}", run.cpu_s),
                table::bytes(run.memory_peak_bytes),
                format!("{:.2}", run.foreign_cores),
            ]
        })
        .collect();
    record.say(&table::markdown(
        &["way", "finished", "time s", "CPU s", "peak memory", "cores of others and of paging"],
        &rows,
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_as_many_do_not_fit() {
        for cores in [1, 2, 3, 64] {
            let sizes = Sizes::of(cores);
            let fit = sizes.fit as u64;
            assert!(fit * GROWN_MIB < sizes.budget_mib, "{cores} cores: {fit} fit");
            assert!(
                (fit + 1) * GROWN_MIB > sizes.budget_mib || fit > 8,
                "{cores} cores: no more than {fit} fit"
            );
            assert!(
                2 * fit * GROWN_MIB < sizes.budget_mib + sizes.swap_mib,
                "{cores} cores: swap holds the rest"
            );
            assert!(sizes.growers > 2 * sizes.fit, "{cores} cores: they meet");
        }
    }

    #[test]
    fn growing_jobs_stand_between_the_others() {
        let directory = tempfile::tempdir().unwrap();
        let (jobs, left_out) = list(Sizes::of(2), directory.path()).unwrap();
        assert_eq!(jobs.iter().filter(|job| job.class == "grower").count(), 6);
        assert!(jobs[0].class == "grower" && (jobs.len() == 18 || !left_out.is_empty()), "{left_out:?}");
    }
}
