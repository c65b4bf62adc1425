//! `cargo xtask gate`: the policy's decisions in known episodes, compared with the recorded decisions.
//!
//! Each episode has a hash over its decisions: time, job, codes and figures of action and reason. Sentences and names of
//! types are not in it, so that a change of words or of structure leaves it as it is, and a change of a rule does not. The
//! hashes lie in `crates/sim/sim/decisions.txt`; `--bless` records the present hashes. Absent: the checks of an episode
//! ([`crate::sim`]).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, bail};
use pinfold_sim::Only;

use crate::sim::{Play, plain, under_pressure};

/// Episodes of consecutive seeds from 1 on, beside the corpora.
const PLAIN: u64 = 20_000;
const PRESSURE: u64 = 5_000;
/// Hashes on a line of the file.
const A_LINE: usize = 10;
/// The most differing episodes that are named.
const NAMED: usize = 10;

#[derive(Debug, clap::Args)]
pub(crate) struct GateArgs {
    /// Record the present decisions
    #[arg(long)]
    bless: bool,
    /// Threads
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

/// A set of episodes: its name in the file, and each episode's seed and played part.
struct Set {
    name: &'static str,
    play: Play,
    episodes: Vec<(u64, Only)>,
}

pub(crate) fn gate(args: &GateArgs) -> anyhow::Result<()> {
    let began = Instant::now();
    let kept = if args.bless { BTreeMap::new() } else { read()? };
    let (mut text, mut episodes, mut decisions, mut differ) = (String::from(HEAD), 0, 0, Vec::new());
    for set in sets()? {
        let played = play(&set, args.jobs.max(1))?;
        decisions += played.iter().map(|&(_, decisions)| decisions).sum::<u64>();
        episodes += played.len();
        let hashes: Vec<u32> = played.into_iter().map(|(hash, _)| hash).collect();
        if !args.bless {
            let want = kept.get(set.name).map_or(&[][..], Vec::as_slice);
            if want.len() != hashes.len() {
                bail!(
                    "{}: {} episodes are kept and {} are played; keep them by --bless",
                    set.name,
                    want.len(),
                    hashes.len()
                );
            }
            let pairs = set.episodes.iter().zip(want.iter().zip(&hashes));
            differ
                .extend(pairs.filter(|(_, (want, got))| want != got).map(|((seed, _), _)| (set.name, *seed)));
        }
        write(&mut text, set.name, &hashes);
    }
    if args.bless {
        std::fs::write(path(), text).context("failed to keep the hashes")?;
        println!("{episodes} episodes, {decisions} decisions, kept, {:.1} s", began.elapsed().as_secs_f64());
        return Ok(());
    }
    if !differ.is_empty() {
        for (set, seed) in differ.iter().take(NAMED) {
            let which = if set.starts_with("pressure") { " --pressure" } else { "" };
            println!(
                "{set}: seed {seed} is decided otherwise: cargo xtask sim{which} --seed {seed} --episodes 1 --trace"
            );
        }
        bail!(
            "{} of {episodes} episodes are decided otherwise than kept; if that is meant: cargo xtask gate --bless",
            differ.len()
        );
    }
    println!(
        "{episodes} episodes, {decisions} decisions, all as kept, no promise broken, {:.1} s",
        began.elapsed().as_secs_f64()
    );
    Ok(())
}

const HEAD: &str = "# What the policy decides in the episodes of the simulator: the low half of a hash over time, job, codes and figures of
# each decision, one for each episode in order (the corpus in its order, others by seed from 1 on). Made by
# `cargo xtask gate --bless`, compared by `cargo xtask gate`.
";

fn sets() -> anyhow::Result<Vec<Set>> {
    let corpus = |text: &str| -> anyhow::Result<Vec<(u64, Only)>> {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        lines
            .map(|line| {
                let (seed, found) = line.split_once(' ').context("a seed and what it found")?;
                let only = found.split(' ').next().filter(|word| word.starts_with("without="));
                let only =
                    only.map(str::parse).transpose().map_err(|error| anyhow::anyhow!("{line}: {error:?}"))?;
                Ok((seed.parse()?, only.unwrap_or_default()))
            })
            .collect()
    };
    let seeds = |count: u64| (1..=count).map(|seed| (seed, Only::default())).collect();
    Ok(vec![
        Set {
            name: "corpus",
            play: plain,
            episodes: corpus(include_str!("../../../crates/sim/sim/corpus.txt"))?,
        },
        Set {
            name: "pressure-corpus",
            play: under_pressure,
            episodes: corpus(include_str!("../../../crates/sim/sim/corpus-pressure.txt"))?,
        },
        Set { name: "plain", play: plain, episodes: seeds(PLAIN) },
        Set { name: "pressure", play: under_pressure, episodes: seeds(PRESSURE) },
    ])
}

/// The hash and the number of decisions of each episode of a set.
fn play(set: &Set, threads: usize) -> anyhow::Result<Vec<(u32, u64)>> {
    let next = AtomicUsize::new(0);
    let played = Mutex::new(vec![(0, 0); set.episodes.len()]);
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some((seed, only)) = set.episodes.get(place) else { return };
                    match (set.play)(*seed, false, only) {
                        // Half of a hash distinguishes two histories as well, and takes half of the room.
                        Ok(outcome) => {
                            let half = u32::try_from(outcome.hash & u64::from(u32::MAX)).unwrap_or_default();
                            let mut all = played.lock().unwrap_or_else(PoisonError::into_inner);
                            all[place] = (half, outcome.decisions);
                        }
                        Err(broken) => {
                            failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(broken);
                            return;
                        }
                    }
                }
            });
        }
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(broken) => bail!("{}: {broken}", set.name),
        None => Ok(played.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

fn path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/sim/sim/decisions.txt"))
}

fn write(text: &mut String, name: &str, hashes: &[u32]) {
    let _ = writeln!(text, "{name}");
    for line in hashes.chunks(A_LINE) {
        let line: Vec<String> = line.iter().map(|hash| format!("{hash:08x}")).collect();
        let _ = writeln!(text, " {}", line.join(" "));
    }
}

fn read() -> anyhow::Result<BTreeMap<String, Vec<u32>>> {
    let file = path();
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let mut sets: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(hashes) = line.strip_prefix(' ') {
            let hashes = hashes.split(' ').map(|hash| u32::from_str_radix(hash, 16));
            let hashes: Vec<u32> = hashes.collect::<Result<_, _>>().with_context(|| format!("{line:?}"))?;
            sets.entry(name.clone()).or_default().extend(hashes);
        } else {
            line.clone_into(&mut name);
        }
    }
    Ok(sets)
}
