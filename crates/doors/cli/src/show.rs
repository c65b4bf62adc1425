//! The commands that show jobs, each in a room below.
//!
//! `ask` (the daemon), `filter` and `fields` (which jobs and keys), `status`, `reports`, `plot`, `export`,
//! `recorded` (earlier moments).

mod ask;
mod export;
mod fields;
mod filter;
mod plot;
mod reports;
mod status;

pub(crate) use ask::{each, figures, figures_of, reports};
pub(crate) use export::{ExportArgs, ExportWhat, Written, export};
pub(crate) use filter::{Filter, STATES};
pub(crate) use plot::{Drawing, Picture, PlotArgs, drawings, picture_kind, plot, show as show_drawings};
pub(crate) use reports::{GroupBy, LOOKED_AT, ReportArgs, Which, report};
pub(crate) use status::{StatusArgs, WhyArgs, say_why, status, why};

use export::ToSheet;
