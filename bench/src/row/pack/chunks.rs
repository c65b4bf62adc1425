//! How many jobs that need a part of a NUMA node's memory run at once, bound to nodes: by pinfold's rule, one node for each,
//! and what memory could hold if it were one. By the simulated host whose memory lies on nodes.

use anyhow::Context as _;
use pinfold_sim::nodes::Host;

use crate::record::Record;
use crate::table::markdown;

/// What jobs need, in hundredths of a node.
const PERCENTS: [u64; 8] = [20, 33, 40, 45, 51, 60, 66, 90];
const NODES: u32 = 4;
const NODE_MIB: u64 = 10_000;
/// The kernel's part of each node, in thousandths: nobody is bound into it.
const RESERVE_MILLI: u64 = 20;

pub(super) fn tell(record: &mut Record) -> anyhow::Result<()> {
    record.say(&format!(
        "Jobs at once on {NODES} NUMA nodes, each bound to nodes that have all that it needs (2 % of each node are the \
         kernel's):\n"
    ));
    let mut table = Vec::new();
    for percent in PERCENTS {
        let found = at_once(percent)?;
        let usable = NODE_MIB / 1000 * (1000 - RESERVE_MILLI);
        let need = NODE_MIB * percent / 100;
        let (alone, limit) = (u64::from(NODES) * (usable / need), u64::from(NODES) * usable / need);
        record.add(
            "chunks",
            &serde_json::json!({ "nodes": NODES, "percent": percent, "at_once": found, "one_node": alone,
                                 "limit": limit }),
        )?;
        let part = 100.0 * found as f64 / limit as f64;
        table.push(vec![
            format!("{percent} % of a node"),
            found.to_string(),
            alone.to_string(),
            limit.to_string(),
            format!("{part:.0}"),
        ]);
    }
    record.say(&markdown(&["a job needs", "pinfold", "a node each", "limit", "% of limit"], &table));
    Ok(())
}

/// How many are bound at once, none of them finding its nodes full while they grow to what they need.
fn at_once(percent: u64) -> anyhow::Result<u64> {
    const SECOND_US: u64 = 1_000_000;
    let mut host = Host::new(NODES, 16, NODE_MIB);
    for job in 1..=40 {
        host.submit(job, 1, NODE_MIB * percent / 100, 500, 60 * SECOND_US).context("a simulated host")?;
    }
    let bound = host.bound() as u64;
    for _ in 0..40 {
        host.pass().context("a simulated host")?;
    }
    Ok(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_little_more_than_half_is_packed() {
        assert_eq!(at_once(51).unwrap(), 7);
        // The last one needs all nodes; left unbound, it could take the room of the eighteen that are.
        assert_eq!(at_once(20).unwrap(), 19);
        assert_eq!(at_once(90).unwrap(), 4);
    }
}
