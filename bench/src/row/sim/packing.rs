//! How many jobs that need awkward parts of a NUMA node's memory lie on nodes at once: by pinfold's policy, in the simulated
//! host whose memory lies on nodes, and by other rules that bind what they place.

use std::time::Instant;

use anyhow::Context as _;
use pinfold_place::chunk::nodes_for;
use pinfold_sim::nodes::Host;

use super::SimArgs;
use crate::record::Record;
use crate::row::Ground;
use crate::row::pack::Dice;
use crate::table::markdown;

const NODE_MIB: u64 = 10_000;
/// The kernel's part of each node, in thousandths.
const RESERVE_MILLI: u64 = 20;
/// What jobs need, in hundredths of a node: all alike, or drawn from several.
const MIXES: [&[u64]; 6] = [&[33], &[45], &[51], &[60], &[66], &[20, 33, 45, 51, 60]];
/// The machines: NUMA nodes, and cores of each.
const MACHINES: [(u32, u32); 2] = [(16, 16), (1024, 4)];

/// A rule that binds jobs: to the nodes of one chunk, of so many nodes each; the first chunk with room, or the fullest.
#[derive(Debug, Clone, Copy)]
struct Rule {
    name: &'static str,
    chunk: usize,
    fullest: bool,
}

/// Slurm gives each job by itself nodes that have its memory, of those that fit the tightest; chunks by hand are what an
/// administrator would configure.
const RULES: [Rule; 4] = [
    Rule { name: "first fit, a node", chunk: 1, fullest: false },
    Rule { name: "tightest, a node (Slurm)", chunk: 1, fullest: true },
    Rule { name: "chunks of 2 by hand", chunk: 2, fullest: false },
    Rule { name: "chunks of 4 by hand", chunk: 4, fullest: false },
];

pub(super) fn tell(args: &SimArgs, ground: &Ground, record: &mut Record) -> anyhow::Result<()> {
    for (nodes, cores) in MACHINES.into_iter().filter(|&(nodes, _)| nodes <= args.nodes) {
        record.say(&format!(
            "Jobs bound at once on {nodes} NUMA nodes of {cores} cores, by what they need of a node's memory (2 % of each \
             are the kernel's); the limit is memory that could be cut at will; ms a job: what pinfold's policy and the \
             simulated host take, two readings of all nodes among it:\n"
        ));
        let mut table = Vec::new();
        for mix in MIXES {
            let needs = needs(mix, nodes);
            let limit = at_will(&needs, nodes);
            let by_rule = by_rule(&needs, nodes);
            let jobs = needs.clone();
            let (by_policy, wall_s) = ground.compute(move || {
                let begun = Instant::now();
                (by_policy(&jobs, nodes, cores), begun.elapsed().as_secs_f64())
            })?;
            let by_policy = by_policy?;
            let ms = wall_s * 1e3 / needs.len() as f64;
            let named = mix.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            let told = share(by_policy, limit);
            let mut row = vec![format!("{named} %"), format!("{ms:.2}"), told, share(by_rule, limit)];
            let mut raw = serde_json::json!({ "nodes": nodes, "percents": mix, "limit": limit, "pinfold": by_policy,
                                              "pinfold_ms_a_job": ms, "rule": by_rule });
            for rule in RULES {
                let placed = placed(&needs, nodes, rule);
                raw[rule.name] = placed.into();
                row.push(share(placed, limit));
            }
            row.push(limit.to_string());
            record.add("packing", &raw)?;
            table.push(row);
        }
        let head = ["a job needs", "ms a job", "pinfold", "its rule"]
            .into_iter()
            .chain(RULES.map(|rule| rule.name))
            .chain(["limit"]);
        record.say(&markdown(&head.collect::<Vec<_>>(), &table));
    }
    Ok(())
}

fn share(count: u64, limit: u64) -> String {
    format!("{count} ({:.0} %)", 100.0 * count as f64 / limit.max(1) as f64)
}

/// What jobs need that come one after the other, more than fit, in MiB.
fn needs(mix: &[u64], nodes: u32) -> Vec<u64> {
    let mut dice = Dice::new(mix.len() as u64);
    let least = mix.iter().copied().min().unwrap_or(1);
    let count = u64::from(nodes) * 100 / least + 8;
    let one = |_| mix[usize::try_from(dice.next() % mix.len() as u64).unwrap_or(0)] * NODE_MIB / 100;
    (0..count).map(one).collect()
}

/// What jobs may have of a node.
fn usable() -> u64 {
    NODE_MIB / 1000 * (1000 - RESERVE_MILLI)
}

/// How many fit, in their order and each at once or never, if all memory were one.
fn at_will(needs: &[u64], nodes: u32) -> u64 {
    let mut free = usable() * u64::from(nodes);
    let fits = |need: &&u64| {
        let fits = **need <= free;
        free -= if fits { **need } else { 0 };
        fits
    };
    needs.iter().filter(fits).count() as u64
}

fn placed(needs: &[u64], nodes: u32, rule: Rule) -> u64 {
    let mut chunks = vec![usable() * rule.chunk as u64; nodes as usize / rule.chunk];
    let mut placed = 0;
    for &need in needs {
        let mut fitting = chunks.iter_mut().filter(|free| **free >= need);
        let chunk = if rule.fullest { fitting.min_by_key(|free| **free) } else { fitting.next() };
        if let Some(free) = chunk {
            *free -= need;
            placed += 1;
        }
    }
    placed
}

/// How many lie in chunks of as many nodes as pinfold's rule says, in the first of that size with room; where no nodes are
/// left for another one, in any.
fn by_rule(needs: &[u64], nodes: u32) -> u64 {
    let (mut left, mut placed) = (nodes as usize, 0);
    let mut chunks: Vec<(usize, u64)> = Vec::new();
    for &need in needs {
        let size = nodes_for(need, usable());
        let fits = |&(_, free): &(usize, u64)| free >= need;
        let own = chunks.iter().position(|chunk| chunk.0 == size && fits(chunk));
        let chunk = match own {
            None if left >= size => {
                left -= size;
                chunks.push((size, usable() * size as u64));
                Some(chunks.len() - 1)
            }
            None => chunks.iter().position(fits),
            own => own,
        };
        if let Some(chunk) = chunk {
            chunks[chunk].1 -= need;
            placed += 1;
        }
    }
    placed
}

/// How many pinfold's policy binds.
fn by_policy(needs: &[u64], nodes: u32, cores: u32) -> anyhow::Result<u64> {
    const HOUR_US: u64 = 3_600_000_000;
    let mut host = Host::new(nodes, cores, NODE_MIB);
    for (&need, job) in needs.iter().zip(1..) {
        host.submit(job, 1, need, 500, HOUR_US).context("a simulated host")?;
    }
    Ok(host.bound() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_place_what_they_can() {
        let needs = [5_100; 20];
        assert_eq!(RULES.map(|rule| placed(&needs, 4, rule)), [4, 4, 6, 7]);
        assert_eq!((at_will(&needs, 4), by_rule(&needs, 4)), (7, 7));
        assert_eq!(by_policy(&needs, 4, 16).unwrap(), 7);
    }
}
