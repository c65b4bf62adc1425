//! The machine, without a daemon: `topology`, `doctor`, `rescue`; and the manual pages and completions.

use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory as _;
use pinfold_proto::ExitCode;
use pinfold_proto::view::DoctorView;
use pinfold_proto::wire::{Reply, Request};
use pinfold_sys::container;
use pinfold_sys::discover;

use pinfold_sys::mode::Roots;
use pinfold_topo::Topology;
use serde_json::json;

use crate::args::{Cli, TopologyArgs, TopologyForm};
use crate::client::Dial;
use crate::failure::Failure;
use crate::run::say;
use crate::show::{JSON_VERSION, print_json, print_text};

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
    let survey = survey.map_err(|error| Failure::doing("failed to read the topology", &error))?;
    survey.warnings.iter().for_each(|warning| say(&format!("warning: {warning}")));
    let topology = survey.topology;
    if args.json {
        return print_json(&topology_json(&topology));
    }
    print_text(|out| match args.format {
        TopologyForm::Tree => write_tree(&topology, out),
        TopologyForm::Table => write_table(&topology, out),
    })
}

fn topology_json(topology: &Topology) -> serde_json::Value {
    let pu = |pu: &pinfold_topo::Pu| {
        json!({
            "os": pu.os.0, "logical": pu.logical.0, "core": pu.core, "l3": pu.l3, "numa": pu.numa,
            "socket": pu.socket, "usable": pu.usable,
        })
    };
    json!({
        "version": JSON_VERSION,
        "sockets": topology.sockets(),
        "numa_nodes": topology.numa_nodes(),
        "l3": topology.l3(),
        "cores": topology.cores(),
        "pus": topology.pus().len(),
        "pu": topology.pus().iter().map(pu).collect::<Vec<_>>(),
    })
}

fn write_table(topology: &Topology, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:>8} {:>6} {:>6} {:>6} {:>6} {:>6}  usable",
        "logical", "os", "core", "l3", "numa", "socket"
    )?;
    for pu in topology.pus() {
        let l3 = pu.l3.map_or_else(|| "-".to_owned(), |l3| l3.to_string());
        let usable = if pu.usable { "yes" } else { "no" };
        let (logical, os) = (pu.logical.0, pu.os.0);
        writeln!(
            out,
            "{logical:>8} {os:>6} {:>6} {l3:>6} {:>6} {:>6}  {usable}",
            pu.core, pu.numa, pu.socket
        )?;
    }
    Ok(())
}

fn write_tree(topology: &Topology, out: &mut dyn Write) -> io::Result<()> {
    let count = |number: u32, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
    let pus = u32::try_from(topology.pus().len()).unwrap_or(u32::MAX);
    let all = [
        count(topology.sockets(), "socket"),
        count(topology.numa_nodes(), "NUMA node"),
        format!("{} L3", topology.l3()),
        count(topology.cores(), "core"),
        count(pus, "PU"),
    ];
    writeln!(out, "machine: {}", all.join(", "))?;
    let mut above = (None, None, None, None);
    for pu in topology.pus() {
        let here = (Some(pu.socket), Some(pu.numa), pu.l3, Some(pu.core));
        if above.0 != here.0 {
            writeln!(out, "  socket {}", pu.socket)?;
            above = (here.0, None, None, None);
        }
        if above.1 != here.1 {
            writeln!(out, "    NUMA node {}", pu.numa)?;
            above = (here.0, here.1, None, None);
        }
        if let (Some(l3), true) = (pu.l3, above.2 != here.2) {
            writeln!(out, "      L3 {l3}")?;
            above = (here.0, here.1, here.2, None);
        }
        if above.3 != here.3 {
            writeln!(out, "        core {}", pu.core)?;
        }
        above = here;
        let usable = if pu.usable { "" } else { "  (not usable)" };
        writeln!(out, "          PU {} (os {}){usable}", pu.logical, pu.os)?;
    }
    Ok(())
}

/// `pinfold doctor`: asks the daemon, which knows what holds for its jobs; without one looks for itself.
pub(crate) fn doctor(dial: &Dial, json: bool) -> Result<(), Failure> {
    let view = match dial.connect_if_there() {
        Some(mut client) => match client.ask(&Request::Doctor)? {
            Reply::Doctor(view) => view,
            other => return Err(crate::client::unexpected(&other)),
        },
        None => own_doctor()?,
    };
    if json { print_json(&view) } else { print_text(|out| write_doctor(&view, out)) }
}

/// What a daemon of this user would say, without starting one.
fn own_doctor() -> Result<DoctorView, Failure> {
    let program = crate::client::daemon_program();
    let said = std::process::Command::new(&program).arg("--examine").output();
    let said =
        said.map_err(|error| Failure::doing(format!("failed to run {}", program.display()), &error))?;
    serde_json::from_slice(&said.stdout).map_err(|error| {
        let text = String::from_utf8_lossy(&said.stderr);
        Failure::new(ExitCode::Failed, format!("{} --examine: {error}: {}", program.display(), text.trim()))
    })
}

fn write_doctor(view: &DoctorView, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "mode: {} ({})\n", view.mode, view.reason)?;
    for ability in &view.abilities {
        let mark = if ability.real { "yes" } else { "no " };
        writeln!(out, "{mark}  {:<11} {}", ability.ability, ability.how)?;
        if let Some(change) = &ability.change {
            writeln!(out, "                 -> {change}")?;
        }
    }
    writeln!(out)?;
    for finding in &view.findings {
        let mark = if finding.ok { "ok " } else { "!! " };
        writeln!(out, "{mark}  {}: {}", finding.subject, finding.found)?;
        if let Some(change) = &finding.change {
            writeln!(out, "     -> {change}")?;
        }
    }
    Ok(())
}

/// `pinfold rescue`.
pub(crate) fn rescue(json: bool) -> Result<(), Failure> {
    let rescued = container::rescue(&Roots::default());
    let back = pinfold_sys::procfs::Proc::open(&Roots::default().proc)
        .map_or(0, |proc| pinfold_sys::housekeeping::put_back_all(&proc));
    let moved = (back > 0).then(|| format!("{back} interrupts and threads put back where they were"));
    let rescued: Vec<String> = rescued.iter().map(ToString::to_string).chain(moved).collect();
    if json {
        return print_json(&json!({ "version": JSON_VERSION, "rescued": rescued }));
    }
    print_text(|out| {
        if rescued.is_empty() {
            writeln!(out, "nothing of pinfold's is frozen or limited on this host")?;
        }
        rescued.iter().try_for_each(|done| writeln!(out, "{done}"))
    })
}

/// `pinfold completions`.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "pinfold", &mut text);
    print_text(|out| out.write_all(&text))
}

/// `pinfold man`: a page for the program and one for each command.
pub(crate) fn manual(dir: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::doing(format!("failed to write manual pages into {}", dir.display()), &error)
    };
    std::fs::create_dir_all(dir).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), dir).map_err(failed)
}
