//! `pinfold layout`: the layout of a request in Slurm's words on a machine, without running it.

use std::collections::BTreeMap;
use std::io::{self, Write};

use clap::{Args, ValueEnum};
use pinfold_place::layout::{Host, HostList, Layout, LayoutRequest, Select, lay_out};
use pinfold_proto::ExitCode;
use pinfold_proto::quantity::whole;
use pinfold_sys::discover;
use pinfold_topo::spec::Source;
use pinfold_topo::{CpuSet, Topology};
use serde_json::{Value, json};

use crate::print::{JSON_VERSION, print_json, print_text};
use crate::tasks::options::TaskOptions;
use pinfold_client::Failure;

#[derive(Debug, Args)]
pub(crate) struct LayoutArgs {
    /// A machine, as `topology --from` takes it; may be given again, one host each [default: this one]
    #[arg(long, value_name = "SOURCE")]
    pub topology: Vec<String>,
    /// How many hosts; the last machine is repeated
    #[arg(long, value_name = "N", value_parser = whole::<usize>(0..=usize::MAX))]
    pub hosts: Option<usize>,
    /// The PUs that are free, by their OS indexes [default: all]
    #[arg(long, value_name = "CPUSET")]
    pub free: Option<String>,
    /// What is handed out: whole cores, or single PUs (Slurm's CR_Core and CR_CPU)
    #[arg(long, value_enum, default_value_t = LayoutSelect::Core)]
    pub select: LayoutSelect,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub options: LayoutOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutSelect {
    /// Whole cores.
    Core,
    /// Single PUs.
    Cpu,
}

/// Slurm's layout options, as texts; `place` reads and checks them.
#[derive(Debug, Args)]
pub(crate) struct LayoutOptions {
    #[command(flatten)]
    tasks: TaskOptions,
    /// Take whole hosts
    #[arg(long)]
    exclusive: bool,
    /// Memory, which has no influence on the layout
    #[arg(long, value_name = "SIZE")]
    mem: Option<String>,
}

impl LayoutOptions {
    /// The options that were given, by the names that `place` knows them by.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, Option<String>)> + '_ {
        let memory = self.mem.iter().map(|size| ("--mem", Some(size.clone())));
        let tasks = self.tasks.given().map(|(name, value)| (name, Some(value)));
        tasks.chain(memory).chain(self.exclusive.then_some(("--exclusive", None)))
    }
}

/// Hosts beyond this are a slip of the keyboard; Slurm's largest clusters have some ten thousand.
const HOSTS_MAX: usize = 65_536;

/// Lays the request out and prints the result.
pub(crate) fn layout(args: &LayoutArgs) -> Result<(), Failure> {
    let request = request(args)?;
    let hosts = hosts(args)?;
    let select = match args.select {
        LayoutSelect::Core => Select::Core,
        LayoutSelect::Cpu => Select::Cpu,
    };
    match lay_out(&hosts, &request, select) {
        Ok(layout) if args.json => print_json(&as_json(&layout, &named(&request))),
        Ok(layout) => print_text(|out| write_layout(&layout, &named(&request), out)),
        Err(error) => {
            if args.json {
                let error = error.to_string();
                print_json(&json!({ "version": JSON_VERSION, "error": error, "hosts": [], "tasks": [] }))?;
            }
            Err(Failure::new(ExitCode::Failed, error))
        }
    }
}

fn request(args: &LayoutArgs) -> Result<LayoutRequest, Failure> {
    let mut request = LayoutRequest::default();
    for (name, value) in args.options.given() {
        request.set(name, value.as_deref()).map_err(|error| Failure::new(ExitCode::Usage, error))?;
    }
    args.options.tasks.read_hosts(&mut request)?;
    Ok(request)
}

/// The machines named, the last repeated up to `--hosts`, each with its free PUs.
fn hosts(args: &LayoutArgs) -> Result<Vec<Host>, Failure> {
    let usage = |text: String| Failure::new(ExitCode::Usage, text);
    let mut topologies: Vec<Topology> = Vec::new();
    for text in &args.topology {
        let source = Source::parse("--topology", text).map_err(|error| usage(error.to_string()))?;
        let survey = discover::from_source(&source)
            .map_err(|error| Failure::doing(format!("failed to read the topology {text}"), &error))?;
        topologies.push(survey.topology);
    }
    if topologies.is_empty() {
        topologies
            .push(discover::host().map_err(|error| Failure::doing("failed to read the topology", &error))?);
    }
    let wanted = args.hosts.unwrap_or(topologies.len());
    if !(topologies.len()..=HOSTS_MAX).contains(&wanted) {
        return Err(usage(format!("--hosts: {wanted} is not within {} to {HOSTS_MAX}", topologies.len())));
    }
    let free: Option<CpuSet> = match &args.free {
        Some(text) => Some(text.parse().map_err(|error| usage(format!("--free: {error}")))?),
        None => None,
    };
    let last = topologies.last().expect("one at least").clone();
    topologies.resize(wanted, last);
    topologies.into_iter().map(|topology| host(topology, free.as_ref())).collect()
}

fn host(topology: Topology, free: Option<&CpuSet>) -> Result<Host, Failure> {
    let Some(free) = free else { return Ok(Host::idle(topology)) };
    let all: CpuSet = topology.pus().iter().map(|pu| pu.os).collect();
    let strange = free.difference(&all);
    if !strange.is_empty() {
        return Err(Failure::new(ExitCode::Usage, format!("--free: the machine has no PU {strange}")));
    }
    Ok(Host { topology, free: free.clone() })
}

/// Which host each name of a list stands for.
fn named(request: &LayoutRequest) -> BTreeMap<usize, &str> {
    request.hosts.as_ref().map(HostList::named).unwrap_or_default()
}

fn as_json(layout: &Layout, names: &BTreeMap<usize, &str>) -> Value {
    let hosts: Vec<Value> = layout
        .hosts
        .iter()
        .map(|share| {
            let (host, name) = (share.host, names.get(&share.host));
            json!({ "host": host, "name": name, "allocated": share.allocated.to_string() })
        })
        .collect();
    let tasks: Vec<Value> = layout
        .tasks
        .iter()
        .map(|place| {
            let cpus = place.cpus.as_ref().map(ToString::to_string);
            json!({ "task": place.task, "host": place.host, "cpus": cpus })
        })
        .collect();
    json!({ "version": JSON_VERSION, "error": null, "hosts": hosts, "tasks": tasks })
}

fn write_layout(layout: &Layout, names: &BTreeMap<usize, &str>, out: &mut dyn Write) -> io::Result<()> {
    for share in &layout.hosts {
        let name = names.get(&share.host).map(|name| format!(" ({name})")).unwrap_or_default();
        writeln!(out, "host {}{name}  allocated {}", share.host, share.allocated)?;
    }
    writeln!(out, "{:>6} {:>6}  PUs", "task", "host")?;
    for place in &layout.tasks {
        let cpus = place.cpus.as_ref().map_or_else(|| "(unbound)".to_owned(), ToString::to_string);
        writeln!(out, "{:>6} {:>6}  {cpus}", place.task, place.host)?;
    }
    Ok(())
}
