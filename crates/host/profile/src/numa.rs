//! The NUMA nodes of a job's memory. Pure: no clock, no file.
//!
//! The kernel reports present sizes and no peaks: all figures come from samples.

use std::collections::BTreeMap;

use pinfold_proto::row::NodeRow;

/// The nodes of a job.
#[derive(Debug, Clone, Default)]
pub struct Nodes {
    nodes: BTreeMap<u32, Node>,
    /// The last look, and how long the means go back.
    last_us: Option<u64>,
    span_us: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Node {
    last_bytes: u64,
    peak_bytes: u64,
    /// The area under the line through the looks.
    area: u128,
}

impl Nodes {
    /// Continues from stored rows; their means stand for `span_us`.
    #[must_use]
    pub fn resume(rows: &[NodeRow], span_us: u64) -> Self {
        let node = |row: &NodeRow| Node {
            last_bytes: row.memory_bytes,
            peak_bytes: row.memory_peak_bytes,
            area: u128::from(row.memory_mean_bytes) * u128::from(span_us),
        };
        let span_us = if rows.is_empty() { 0 } else { span_us };
        Self { nodes: rows.iter().map(|row| (row.node, node(row))).collect(), last_us: None, span_us }
    }

    /// The memory per node at a moment: node and bytes. A missing node holds 0 bytes.
    pub fn look(&mut self, now_us: u64, found: &[(u32, u64)]) {
        let step_us = self.last_us.replace(now_us).map_or(0, |last_us| now_us.saturating_sub(last_us));
        self.span_us = self.span_us.saturating_add(step_us);
        for (number, _) in found {
            self.nodes.entry(*number).or_default();
        }
        for (number, node) in &mut self.nodes {
            let bytes = found.iter().find(|(found, _)| found == number).map_or(0, |(_, bytes)| *bytes);
            let mean = (u128::from(node.last_bytes) + u128::from(bytes)) / 2;
            node.area = node.area.saturating_add(mean * u128::from(step_us));
            node.peak_bytes = node.peak_bytes.max(bytes);
            node.last_bytes = bytes;
        }
    }

    /// A row per node, ascending.
    #[must_use]
    pub fn rows(&self, job: u64) -> Vec<NodeRow> {
        let mean = |node: &Node| match node.area.checked_div(u128::from(self.span_us)) {
            Some(mean) => u64::try_from(mean).unwrap_or(u64::MAX),
            None => node.last_bytes,
        };
        let row = |(number, node): (&u32, &Node)| NodeRow {
            job,
            node: *number,
            memory_bytes: node.last_bytes,
            memory_mean_bytes: mean(node),
            memory_peak_bytes: node.peak_bytes,
        };
        self.nodes.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(node: u32, memory_bytes: u64, memory_mean_bytes: u64, memory_peak_bytes: u64) -> NodeRow {
        NodeRow { job: 7, node, memory_bytes, memory_mean_bytes, memory_peak_bytes }
    }

    #[test]
    fn means_are_weighted_with_time_and_peaks_are_of_each_node() {
        let mut nodes = Nodes::default();
        assert_eq!(nodes.rows(7), []);
        nodes.look(1_000, &[(0, 100), (1, 0)]);
        assert_eq!(nodes.rows(7), [row(0, 100, 100, 100), row(1, 0, 0, 0)]);
        nodes.look(3_000, &[(0, 100), (1, 40)]);
        nodes.look(4_000, &[(1, 40)]);
        // 100 for 2 ms and then 50 for one; 20 for 2 ms and then 40 for one.
        assert_eq!(nodes.rows(7), [row(0, 0, 83, 100), row(1, 40, 26, 40)]);
        nodes.look(2_000, &[(0, 9)]);
        assert_eq!(nodes.rows(7)[0], row(0, 9, 83, 100), "a clock that was set back adds nothing");
    }

    #[test]
    fn stored_rows_go_on() {
        let mut nodes = Nodes::resume(&[row(0, 10, 50, 80)], 1_000);
        // What was between is not known and not made up.
        nodes.look(9_000, &[(0, 10)]);
        nodes.look(10_000, &[(0, 10)]);
        assert_eq!(nodes.rows(7), [row(0, 10, 30, 80)]);
        assert!(Nodes::resume(&[], 1_000).rows(7).is_empty());
    }
}
