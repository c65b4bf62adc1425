//! libhwloc's view of machines, a second opinion, as its program `lstopo` writes it: in XML, which our own reader takes.
//! The reader's result is compared with the counts of `hwloc-calc`.

use super::super::*;
use super::fixtures::{counts, fixtures};
use pinfold_topo::Pu;
use std::process::Command;

/// The program that prints libhwloc's view.
pub(super) struct Lstopo {
    program: &'static str,
}

impl Lstopo {
    /// `None`, with a note, where it is not installed or older than 2.8, which tells some machines otherwise.
    pub(super) fn find() -> Option<Self> {
        let found = ["lstopo-no-graphics", "lstopo"].into_iter().find(|program| {
            let output = Command::new(program).arg("--version").output();
            output.is_ok_and(|output| recent(&String::from_utf8_lossy(&output.stdout)))
        });
        if found.is_none() {
            println!("SKIPPED: no lstopo of hwloc 2.8 or newer is installed (apt: hwloc-nox)");
        }
        found.map(|program| Self { program })
    }

    /// This machine, or the tree below `root`; PUs that may not be used are in it.
    pub(super) fn linux(&self, root: Option<&Path>) -> Topology {
        let mut command = Command::new(self.program);
        command.env("HWLOC_COMPONENTS", "linux,stop").args(["--disallowed", "--no-io"]);
        if let Some(root) = root {
            command.env("HWLOC_FSROOT", root);
        }
        seen(command).unwrap_or_else(|error| panic!("{root:?}: {error}"))
    }

    /// A synthetic description, or why it is none.
    fn synthetic(&self, text: &str) -> Result<Topology, String> {
        let mut command = Command::new(self.program);
        command.args(["--disallowed", "--input-format", "synthetic", "--input", text]);
        seen(command)
    }
}

/// Whether a line like `lstopo-no-graphics 2.9.0` names a version of at least 2.8.
fn recent(line: &str) -> bool {
    let numbers = line.trim().rsplit(' ').next().unwrap_or_default();
    let mut numbers = numbers.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (2, 8)
}

/// The machine in the XML that `command` writes.
fn seen(mut command: Command) -> Result<Topology, String> {
    let output = command.args(["--output-format", "xml"]).output().map_err(|error| error.to_string())?;
    if !output.status.success() || output.stdout.is_empty() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let facts = pinfold_topo::hwloc_xml::facts_of(&String::from_utf8_lossy(&output.stdout));
    facts.map_err(|error| error.to_string())?.assemble().map_err(|error| error.to_string())
}

/// The comparable part of two views of a machine: everything but memory, which libhwloc counts without huge pages,
/// switched-off PUs and kinds of core, and the places of nodes of memory alone, which libhwloc guesses from distances.
pub(super) fn shape(topology: &Topology) -> String {
    let mut text = counts("", topology);
    for pu in topology.pus() {
        let Pu { os, core, l2, l3, die, socket, usable, .. } = pu;
        text += &format!("{os} {core} {l2:?} {l3:?} {die:?} {socket} {usable}\n");
    }
    for (i, node) in (0u32..).zip(topology.numa()) {
        let near = topology.pus().iter().any(|pu| pu.numa == i);
        text += &format!("node {} {}\n", node.os, if near { node.pus.clone() } else { CpuSet::new() });
    }
    text
}

#[test]
fn agrees_on_this_machine() {
    if let Some(lstopo) = Lstopo::find() {
        assert_eq!(shape(&host().unwrap()), shape(&lstopo.linux(None)));
    }
}

/// Files of format 2; `hwloc-calc` of a version before 3 refuses format 3.
#[test]
fn agrees_with_the_xml_reader() {
    if Lstopo::find().is_none() {
        return;
    }
    let mut compared = 0;
    for entry in fs::read_dir(fixtures().join("xml")).unwrap() {
        let path = entry.unwrap().path();
        if !fs::read_to_string(&path).unwrap().contains("<topology version=\"2.0\"") {
            continue;
        }
        let ours = xml(&path).unwrap().topology;
        let counted = |kind: &str| -> u32 {
            let mut command = Command::new("hwloc-calc");
            let output =
                command.arg("-i").arg(&path).args(["--disallowed", "-N", kind, "all"]).output().unwrap();
            assert!(
                output.status.success(),
                "{}: {}",
                path.display(),
                String::from_utf8_lossy(&output.stderr)
            );
            String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
        };
        let pus = u32::try_from(ours.pus().len()).unwrap();
        let found = [ours.sockets(), ours.l3(), ours.l2(), ours.cores(), pus];
        assert_eq!(found, ["package", "l3", "l2", "core", "pu"].map(counted), "{}", path.display());
        compared += 1;
    }
    assert!(compared > 0, "no file of format 2");
}

/// Descriptions of every form, each with its attributes.
const SYNTHETIC: [&str; 25] = [
    "pack:2 numa:1 core:4 pu:2",
    "Package:2 NUMANode:2 L3Cache:1 Core:4 PU:1",
    "pack:2 [numa] l3:2 core:2 pu:1",
    "core:3 pu:2",
    "pack:8 core:64 pu:2",
    "pack:1 core:2 pu:2(indexes=0,2,1,3)",
    "pack:2 core:4 pu:2(indexes=core:machine)",
    "pack:2 core:2 pu:2(indexes=pack:core)",
    "pack:2 core:2 pu:2(indexes=core:pack)",
    "core:4 pu:2(indexes=4*2)",
    "core:4 pu:2(indexes=2*4:1*2)",
    "pack:2 pu:2(indexes=100,7,9,3)",
    "numa:2(indexes=1,0 memory=4GB) core:2 pu:2",
    "pack:2 [numa(memory=1GB)] [numa(memory=2MiB)] core:2 pu:2",
    "pack:2 [numa(memory=3GB)] core:2 [numa(memory=1GB)] pu:2",
    "[numa(memory=1GB indexes=3)] pu:2",
    "(memory=4GB) pack:2 die:2 l3:1(size=16MB) l2:2 core:1 pu:2",
    "pack:2 die:1 l3:1 core:1 pu:2",
    "numa:4 pack:1 group:2 l1d:1 l1i:1 core:2 pu:1",
    "4",
    "2 3 4",
    "2 2 2 2 2",
    "2 2 2 2 2 2",
    "2 2 2 2 2 2 2 2",
    "2 2 2 2 2 2 2 2 2",
];

#[test]
fn agrees_with_the_reader_of_synthetic_descriptions() {
    let Some(lstopo) = Lstopo::find() else { return };
    for text in SYNTHETIC {
        let ours = synthetic(text).unwrap_or_else(|error| panic!("{text}: {error}")).topology;
        let theirs = lstopo.synthetic(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(ours, theirs, "{text}");
    }
    for text in
        ["nonsense:2", "pack:2 core:2", "pack:0 pu:2", "numa:2 [numa] pu:1", "2 core:2 pu:2", "pu:2(x=1)"]
    {
        assert!(synthetic(text).is_err() && lstopo.synthetic(text).is_err(), "{text}");
    }
}
