//! `pinfold topology`: the machine, or another one, as a tree, a table or JSON.
//!
//! Levels that a machine does not tell apart (dies, caches, kinds of core) are left out of the tree, not made up.
//! Absent: the discovery of a machine (`pinfold_sys::discover`), and the jobs on it (`map`).

use std::io::{self, Write};

use clap::{Args, ValueEnum};
use pinfold_profile::report::size;
use pinfold_proto::ExitCode;
use pinfold_sys::discover;
use pinfold_topo::{NumaNode, Pu, Topology};
use serde_json::json;

use crate::print::{JSON_VERSION, print_json, print_text, say};
use pinfold_client::Failure;

#[derive(Debug, Args)]
pub(crate) struct TopologyArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Another machine than this: FILE.xml, synthetic:"pack:2 core:4 pu:2" or sysfs:DIR
    #[arg(long, value_name = "SOURCE")]
    pub from: Option<String>,
    /// How to show it
    #[arg(long, value_enum, default_value_t = TopologyForm::Tree)]
    pub format: TopologyForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopologyForm {
    /// Indented by level.
    Tree,
    /// One PU a line.
    Table,
}

/// `pinfold topology`.
pub(crate) fn topology(args: &TopologyArgs) -> Result<(), Failure> {
    let survey = match &args.from {
        None => discover::survey(),
        Some(text) => {
            let source = pinfold_topo::spec::Source::parse("--from", text)
                .map_err(|error| Failure::new(ExitCode::Usage, error))?;
            discover::from_source(&source)
        }
    };
    let survey = survey.map_err(|error| Failure::doing("failed to look at the machine", &error))?;
    survey.warnings.iter().for_each(|warning| say(&format!("warning: {warning}")));
    let topology = survey.topology;
    if args.json {
        return print_json(&as_json(&topology));
    }
    print_text(|out| match args.format {
        TopologyForm::Tree => write_tree(&topology, out),
        TopologyForm::Table => write_table(&topology, out),
    })
}

fn as_json(topology: &Topology) -> serde_json::Value {
    let pu = |pu: &Pu| {
        json!({
            "os": pu.os.0, "logical": pu.logical.0, "core": pu.core, "l2": pu.l2, "l3": pu.l3, "die": pu.die,
            "numa": pu.numa, "socket": pu.socket, "efficiency": pu.efficiency, "usable": pu.usable,
        })
    };
    let node = |(number, node): (usize, &NumaNode)| {
        json!({
            "numa": number, "os": node.os, "memory_bytes": node.memory_bytes, "cpus": node.pus.to_string(),
            "memory_only": is_memory_alone(topology, number),
        })
    };
    json!({
        "version": JSON_VERSION,
        "sockets": topology.sockets(),
        "dies": topology.dies(),
        "numa_nodes": topology.numa_nodes(),
        "l3": topology.l3(),
        "l2": topology.l2(),
        "cores": topology.cores(),
        "pus": topology.pus().len(),
        "offline": topology.offline().to_string(),
        "numa": topology.numa().iter().enumerate().map(node).collect::<Vec<_>>(),
        "pu": topology.pus().iter().map(pu).collect::<Vec<_>>(),
    })
}

/// Whether no PU is nearest to a node.
fn is_memory_alone(topology: &Topology, node: usize) -> bool {
    !topology.pus().iter().any(|pu| pu.numa as usize == node)
}

/// Whether there are several kinds of core.
fn has_kinds(topology: &Topology) -> bool {
    topology.pus().iter().any(|pu| pu.efficiency != topology.pus()[0].efficiency)
}

fn write_table(topology: &Topology, out: &mut dyn Write) -> io::Result<()> {
    let head = ["logical", "os", "core", "l2", "l3", "die", "numa", "socket", "kind"];
    for name in head {
        write!(out, "{name:>7} ")?;
    }
    writeln!(out, " usable")?;
    let or_none = |number: Option<u32>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    for pu in topology.pus() {
        let cells = [
            pu.logical.to_string(),
            pu.os.to_string(),
            pu.core.to_string(),
            or_none(pu.l2),
            or_none(pu.l3),
            or_none(pu.die),
            pu.numa.to_string(),
            pu.socket.to_string(),
            pu.efficiency.to_string(),
        ];
        for cell in cells {
            write!(out, "{cell:>7} ")?;
        }
        writeln!(out, " {}", if pu.usable { "yes" } else { "no" })?;
    }
    Ok(())
}

fn write_tree(topology: &Topology, out: &mut dyn Write) -> io::Result<()> {
    let count = |number: u32, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
    let pus = u32::try_from(topology.pus().len()).unwrap_or(u32::MAX);
    let mut all = vec![count(topology.sockets(), "socket")];
    if topology.dies() > 0 {
        all.push(count(topology.dies(), "die"));
    }
    all.extend([
        count(topology.numa_nodes(), "NUMA node"),
        format!("{} L3", topology.l3()),
        count(topology.cores(), "core"),
        count(pus, "PU"),
    ]);
    writeln!(out, "machine: {}", all.join(", "))?;
    let kinds = has_kinds(topology);
    let mut above: Option<&Pu> = None;
    for pu in topology.pus() {
        // A level is named anew whenever a level above changes.
        let mut new = above.is_none_or(|above| above.socket != pu.socket);
        if new {
            writeln!(out, "  socket {}", pu.socket)?;
        }
        new |= above.is_none_or(|above| above.die != pu.die);
        if let (Some(die), true) = (pu.die, new) {
            writeln!(out, "   die {die}")?;
        }
        new |= above.is_none_or(|above| above.numa != pu.numa);
        if new {
            writeln!(out, "    {}", node_words(topology, pu.numa))?;
        }
        new |= above.is_none_or(|above| above.l3 != pu.l3);
        if let (Some(l3), true) = (pu.l3, new) {
            writeln!(out, "      L3 {l3}")?;
        }
        // A private cache of a core says nothing.
        new |= above.is_none_or(|above| above.l2 != pu.l2);
        if let (Some(l2), true, true) = (pu.l2, new, topology.l2() < topology.cores()) {
            writeln!(out, "       L2 {l2}")?;
        }
        new |= above.is_none_or(|above| above.core != pu.core);
        if new {
            let kind = if kinds { format!(" of kind {}", pu.efficiency) } else { String::new() };
            writeln!(out, "        core {}{kind}", pu.core)?;
        }
        let usable = if pu.usable { "" } else { "  (not usable)" };
        writeln!(out, "          PU {} (os {}){usable}", pu.logical, pu.os)?;
        above = Some(pu);
    }
    for (number, node) in (0u32..).zip(topology.numa()) {
        if is_memory_alone(topology, number as usize) {
            let beside = match node.pus.is_empty() {
                true => String::new(),
                false => format!(", beside PUs {} (os)", node.pus),
            };
            writeln!(out, "  {}: no PU is nearest to it{beside}", node_words(topology, number))?;
        }
    }
    if !topology.offline().is_empty() {
        writeln!(out, "  off line: PUs {} (os)", topology.offline())?;
    }
    if kinds {
        writeln!(out, "kinds of core: 0 is the most frugal, larger ones are faster")?;
    }
    Ok(())
}

/// `NUMA node 1 (os 3, 4.00 GiB)`; the kernel's number only if it differs.
fn node_words(topology: &Topology, number: u32) -> String {
    let node = topology.numa().get(number as usize);
    let os = node.map(|node| node.os).filter(|os| *os != number).map(|os| format!("os {os}"));
    let memory = node.and_then(|node| node.memory_bytes).map(size);
    let more: Vec<String> = os.into_iter().chain(memory).collect();
    match more.is_empty() {
        true => format!("NUMA node {number}"),
        false => format!("NUMA node {number} ({})", more.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use pinfold_topo::CpuSet;
    use pinfold_topo::facts::Facts;

    use super::*;

    fn set(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    /// Two fast cores of two threads, two frugal ones that share a cache; one node with PUs, one of memory alone.
    fn odd_machine() -> Topology {
        let node = |os, pus: &str, gib: u64| NumaNode { os, memory_bytes: Some(gib << 30), pus: set(pus) };
        let facts = Facts {
            pus: set("0-5"),
            offline: set("6-7"),
            allowed: Some(set("0-4")),
            cores: ["0-1", "2-3", "4", "5"].map(set).to_vec(),
            l2: ["0-1", "2-3", "4-5"].map(set).to_vec(),
            l3: vec![set("0-5")],
            numa: vec![node(0, "0-5", 4), node(2, "0-5", 16)],
            kinds: ["4-5", "0-3"].map(set).to_vec(),
            ..Facts::default()
        };
        facts.assemble().unwrap()
    }

    #[test]
    fn nothing_is_left_unsaid() {
        let mut out = Vec::new();
        write_tree(&odd_machine(), &mut out).unwrap();
        let want = "\
machine: 1 socket, 2 NUMA nodes, 1 L3, 4 cores, 6 PUs
  socket 0
    NUMA node 0 (4.00 GiB)
      L3 0
       L2 0
        core 0 of kind 1
          PU 0 (os 0)
          PU 1 (os 1)
       L2 1
        core 1 of kind 1
          PU 2 (os 2)
          PU 3 (os 3)
       L2 2
        core 2 of kind 0
          PU 4 (os 4)
        core 3 of kind 0
          PU 5 (os 5)  (not usable)
  NUMA node 1 (os 2, 16.0 GiB): no PU is nearest to it, beside PUs 0-5 (os)
  off line: PUs 6-7 (os)
kinds of core: 0 is the most frugal, larger ones are faster
";
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn a_plain_machine_is_told_plainly() {
        let facts = pinfold_topo::synthetic::facts_of("pack:1 numa:1 core:1 pu:2").unwrap();
        let mut out = Vec::new();
        write_tree(&facts.assemble().unwrap(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let want = ["  socket 0", "NUMA node 0", "core 0", "PU 0 (os 0)", "PU 1 (os 1)"];
        assert_eq!(text.lines().skip(1).count(), want.len(), "{text}");
        assert!(text.lines().skip(1).zip(want).all(|(line, want)| line.contains(want.trim())), "{text}");
    }

    #[test]
    fn tables_and_json_tell_the_same() {
        let machine = odd_machine();
        let mut out = Vec::new();
        write_table(&machine, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows.len(), 7);
        assert_eq!(rows[6], ["5", "5", "3", "2", "0", "-", "0", "0", "0", "no"]);
        let value = as_json(&machine);
        assert_eq!((&value["offline"], &value["l2"], &value["dies"]), (&"6-7".into(), &3.into(), &0.into()));
        assert_eq!((&value["pu"][0]["efficiency"], &value["pu"][4]["l2"]), (&1.into(), &2.into()));
        assert_eq!(value["numa"][1]["memory_only"], true);
        assert_eq!(value["numa"][0]["memory_bytes"], 4u64 << 30);
    }
}
