//! `pinfold --host NAME map|top|plot|advise|export`: the same screens, pictures and tables, from the hub's data. Absent
//! here: the question to the hub ([`super::ask`]).

use pinfold_hubwire::bundle::HostReport;
use pinfold_profile::export;
use pinfold_proto::ExitCode;
use pinfold_proto::view::{MapView, ReportView, StatusView};
use pinfold_proto::wire::Verb;
use pinfold_topo::Topology;
use serde::Deserialize;

use super::ask::{Elsewhere, HostOf, Wanted, encoded, hosts, without_all};
use super::identity::{Hub, hub};
use super::of_hub;
use crate::advise::{AdviseArgs, advise_elsewhere};
use crate::map::{MapArgs, show};
use crate::print::{print_text, say};
use crate::show::{ExportArgs, ExportWhat, PlotArgs, Written, drawings, show_drawings};
use crate::top::{Told, TopArgs, watch};
use pinfold_client::{Dial, Failure};

/// How many jobs of a class are asked for at once.
const CLASS_AMONG: u32 = 1000;

fn wrong(text: &str) -> Failure {
    Failure::new(ExitCode::Usage, text)
}

/// A host, as the hub shows it.
struct Far<'a> {
    hub: Hub<'a>,
    which: &'a Elsewhere,
}

const HERE_ONLY: &str = "the hub tells how a host is now, without its cores and its jobs' processes";

impl Told for Far<'_> {
    fn status(&mut self, at_us: Option<u64>) -> Result<StatusView, Failure> {
        if at_us.is_some() {
            return Err(wrong(HERE_ONLY));
        }
        let told = hosts(&mut self.hub, self.which)?.pop().and_then(|host| host.status);
        told.ok_or_else(|| Failure::new(ExitCode::Failed, "the hub has not heard this host yet"))
    }

    fn map(&mut self) -> Result<MapView, Failure> {
        Err(wrong(HERE_ONLY))
    }

    fn job(&mut self, _: u64) -> Result<Option<ReportView>, Failure> {
        Err(wrong(HERE_ONLY))
    }

    fn control(&mut self, _: u64, _: Verb) -> Result<Option<String>, Failure> {
        Err(wrong("jobs are changed on their own host: the hub only tells of them"))
    }

    fn is_here(&self) -> bool {
        false
    }
}

/// `pinfold --host NAME top`.
pub(crate) fn top(dial: &Dial, which: &Elsewhere, args: &TopArgs) -> Result<(), Failure> {
    if which.host.is_none() {
        return Err(wrong("top is of one host: --host NAME; `--all-hosts status` shows all"));
    }
    if args.at.is_some() || args.cores {
        return Err(wrong(&format!("--at and --cores are for this host: {HERE_ONLY}")));
    }
    watch(Box::new(Far { hub: hub(dial)?, which }), args)
}

#[derive(Debug, Deserialize)]
struct Hosts {
    hosts: Vec<HostOf>,
}

/// The cores of a host, as the hub shows them.
#[derive(Debug, Deserialize)]
struct Mapped {
    of: HostOf,
    map: Option<MapView>,
    topology: Option<Topology>,
}

/// `pinfold --host NAME map`.
pub(crate) fn map(dial: &Dial, which: &Elsewhere, args: &MapArgs) -> Result<(), Failure> {
    if args.from.is_some() {
        return Err(wrong("map --from is about a machine without jobs: leave --host and --all-hosts out"));
    }
    if which.host.is_none() && args.output.is_some() {
        return Err(wrong("a picture is of one host: --host NAME; without -o all hosts are printed"));
    }
    let mut hub = hub(dial)?;
    let names = match &which.host {
        Some(name) => vec![name.clone()],
        None => {
            let known: Hosts = hub.get("/api/v1/hosts").map_err(of_hub)?;
            known.hosts.into_iter().map(|host| host.host).collect()
        }
    };
    for name in &names {
        let told: Mapped = hub.get(&format!("/api/v1/map?host={}", encoded(name))).map_err(of_hub)?;
        told.of.say_if_away();
        match (&told.map, &told.topology) {
            (Some(view), Some(topology)) => show(view, topology, args)?,
            // Beside other hosts this is no failure.
            _ if which.host.is_none() => say(&format!("{name} has told the hub nothing of its cores")),
            _ => {
                let text = format!(
                    "{name} has told the hub nothing of its cores: its pusher or daemon is of an \
                                    earlier version, or has not told yet"
                );
                return Err(Failure::new(ExitCode::Failed, text));
            }
        }
        if which.host.is_none() && !args.json {
            print_text(|out| writeln!(out))?;
        }
    }
    Ok(())
}

/// `pinfold --host NAME plot`.
pub(crate) fn plot(dial: &Dial, which: &Elsewhere, args: &PlotArgs) -> Result<(), Failure> {
    if args.which.host {
        return Err(wrong("plot --host is for this host: the hub keeps what jobs used"));
    }
    let class = args.which.class.as_deref();
    let last =
        args.which.last.or_else(|| (class.is_some() && args.which.since.is_none()).then_some(CLASS_AMONG));
    let since = args.which.since.as_deref();
    let wanted = Wanted { jobs: &args.which.jobs, last, since, series: class.is_none() };
    let found = wanted.ask(&mut hub(dial)?, which)?;
    let reports = found.into_iter().map(|found| ReportView {
        // Which of them is which.
        name: if which.host.is_some() || class.is_some() {
            found.report.name.clone()
        } else {
            format!("{} on {}", found.report.name, found.host)
        },
        ..found.report
    });
    show_drawings(&drawings(reports.collect(), class, args.each)?, args)
}

/// `pinfold --host NAME advise`: classes are a user's still, over all the hosts that are meant.
pub(crate) fn advise(dial: &Dial, which: &Elsewhere, args: &AdviseArgs) -> Result<(), Failure> {
    let since = format!("@{}", args.of_elsewhere()? / 1_000_000);
    without_all(args.is_of_all())?;
    let wanted = Wanted { jobs: &[], last: None, since: Some(&since), series: false };
    let found = wanted.ask(&mut hub(dial)?, which)?;
    let mut reports: Vec<ReportView> = found.into_iter().map(|found| found.report).collect();
    // In the order of submission, across hosts.
    reports.sort_by(|a, b| a.submitted_s.total_cmp(&b.submitted_s));
    advise_elsewhere(&reports, args)
}

/// `pinfold --host NAME export`: with a column `host` in front.
pub(crate) fn export(dial: &Dial, which: &Elsewhere, args: &ExportArgs) -> Result<(), Failure> {
    let form = args.form()?;
    without_all(args.all)?;
    let series = args.what == ExportWhat::Samples;
    if args.which.host || !(series || args.what == ExportWhat::Jobs) {
        return Err(wrong("the hub keeps jobs and samples: --what jobs, --what samples"));
    }
    let (last, since) = (args.which.last, args.which.since.as_deref());
    let wanted = Wanted { jobs: &args.which.jobs, last, since, series };
    let found = wanted.ask(&mut hub(dial)?, which)?;
    let mut table = Written::new(form, args.output.as_deref())?;
    table.add(sheet(&[], series))?;
    for one in found {
        table.add(sheet(&[one], series))?;
    }
    table.end()
}

fn sheet(of: &[HostReport], series: bool) -> export::Sheet {
    let reports: Vec<ReportView> = of.iter().map(|one| one.report.clone()).collect();
    let sheet = if series { export::samples(&reports) } else { export::jobs(&reports) };
    let rows = |one: &HostReport| if series { one.report.series.as_ref().map_or(0, Vec::len) } else { 1 };
    let words = of.iter().flat_map(|one| std::iter::repeat_n(one.host.clone(), rows(one)));
    sheet.headed("host", words.collect::<Vec<_>>())
}
