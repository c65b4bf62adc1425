//! `pinfold map`: the owner of each core. The daemon tells the cores of each job; their layout is this machine's.
//!
//! Absent here: how it is drawn ([`pinfold_profile::map`]), and other users' jobs, which the daemon only counts.

use std::path::PathBuf;

use clap::Args;
use pinfold_profile::map::{self, Map, svg, text};
use pinfold_proto::ExitCode;
use pinfold_proto::view::MapView;
use pinfold_proto::wire::Request;
use pinfold_sys::discover;
use pinfold_topo::spec::Source;
use pinfold_topo::{CpuSet, Topology};

use crate::again::{Again, Prints};
use crate::print::{JSON_VERSION, colours, print_json, print_text, width};
use crate::show::{Picture, picture_kind};
use pinfold_client::{Dial, Failure};

#[derive(Debug, Args)]
pub(crate) struct MapArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Write a picture: FILE.svg or FILE.png
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Another machine than this, with nothing on it, as `topology --from` takes it
    #[arg(long, value_name = "SOURCE")]
    pub from: Option<String>,
    #[command(flatten)]
    pub again: Again,
}

impl MapArgs {
    /// The kind of its output.
    pub(crate) fn prints(&self) -> Prints {
        Prints::to(self.output.as_ref(), !self.json)
    }
}

/// `pinfold map`.
pub(crate) fn map(dial: &Dial, args: &MapArgs) -> Result<(), Failure> {
    let (view, topology) = match &args.from {
        Some(text) => elsewhere(text)?,
        None => here(dial)?,
    };
    show(&view, &topology, args)
}

/// Prints or draws a machine with its jobs.
pub(crate) fn show(view: &MapView, topology: &Topology, args: &MapArgs) -> Result<(), Failure> {
    let kind = args.output.as_deref().map(picture_kind).transpose()?;
    let map = Map::new(topology, view);
    if let (Some(file), Some(kind)) = (&args.output, kind) {
        let picture = svg::draw(&map);
        let bytes = match kind {
            Picture::Svg => picture.text.into_bytes(),
            Picture::Png => {
                pinfold_profile::plot::svg_to_png(&picture.text, picture.width, picture.height)
                    .map_err(|error| Failure::doing(format!("failed to draw {}", file.display()), &error))?
            }
        };
        return crate::output::write(file, &bytes)
            .map_err(|error| Failure::doing(format!("failed to write {}", file.display()), &error));
    }
    if args.json {
        return print_json(&map::json(&map, topology));
    }
    print_text(|out| text::write(&map, width(), colours(), out))
}

/// This host and its jobs; without a daemon no jobs.
fn here(dial: &Dial) -> Result<(MapView, Topology), Failure> {
    let mut client = dial.connect()?;
    let view = answer!(client.ask(&Request::Map)?, Map)?;
    let cpus: CpuSet = view.cpus.parse().unwrap_or_default();
    let topology = discover::host_within(&cpus)
        .map_err(|error| Failure::doing("failed to read the topology", &error))?;
    Ok((view, topology))
}

/// A machine on which nothing runs.
fn elsewhere(text: &str) -> Result<(MapView, Topology), Failure> {
    let source = Source::parse("--from", text).map_err(|error| Failure::new(ExitCode::Usage, error))?;
    let survey = discover::from_source(&source)
        .map_err(|error| Failure::doing(format!("failed to read the topology {text}"), &error))?;
    let cpus = survey.topology.usable().to_string();
    let view = MapView {
        version: JSON_VERSION,
        host: text.to_owned(),
        cpus,
        sets: Vec::new(),
        set_asides: Vec::new(),
        chunks: Vec::new(),
        resources: Vec::new(),
    };
    Ok((view, survey.topology))
}
