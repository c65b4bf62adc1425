//! Row `hub`: what a hub of many hosts takes in, what that costs hub and hosts, and how long its page takes over many
//! jobs.
//!
//! The hub is the real program, with SQLite and with a private PostgreSQL. Hosts are simulated: what they send is
//! packed beforehand, each has a token of its own, and they take turns on some connections. One host is real.

mod host;
mod http;
mod load;
mod rows;
mod served;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use pinfold_profile::plot::{Across, Chart, Panel, Series};

use self::host::Cost;
use self::load::{LIVE_EVERY_S, Pace, Packed, Sent, Shape};
use self::rows::Asked;
use self::served::{Database, Hub};
use super::{Ground, RowArgs, perform};
use crate::compare::done;
use crate::postgres::Server;
use crate::record::Record;
use crate::table;

/// The targets: samples a second, a host's part of a core in percent, a page's first byte and a list in milliseconds.
const SAMPLES_PER_S: f64 = 50_000.0;
const HOST_PERCENT: f64 = 0.1;
const PAGE_MS: f64 = 300.0;
const LIST_MS: f64 = 200.0;

/// Bundles that are packed beforehand, a job each: for each second as many as the fewest hosts send, and the most of
/// them.
const BUNDLES_A_SECOND: f64 = 400.0;
const BUNDLES_MAX: f64 = 6_000.0;

/// Hosts that push while many rows are there.
const HOSTS_FULL: usize = 1_000;

/// Hosts are late by so many seconds if the hub does not keep up.
const LATE_S: f64 = 2.0;

/// Options of row `hub`.
#[derive(Debug, Args)]
pub(crate) struct HubArgs {
    #[command(flatten)]
    row: RowArgs,
    /// How many hosts push, one count after the other.
    #[arg(long, value_delimiter = ',', default_values_t = [10, 100, 1_000, 10_000], value_name = "N,...")]
    hosts: Vec<usize>,
    /// For how long, seconds.
    #[arg(long, default_value_t = 20.0, value_name = "S")]
    window: f64,
    /// Jobs of a host at a time.
    #[arg(long, default_value_t = 100)]
    jobs: usize,
    /// How long each runs, in minutes; a sample a minute.
    #[arg(long, default_value_t = 60)]
    minutes: usize,
    /// Job rows over which page and lists are timed; 0: none.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// How often each of them is asked.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    times: u64,
    /// With this database alone: sqlite or postgres.
    #[arg(long, value_parser = ["sqlite", "postgres"])]
    database: Option<String>,
    /// Leave the real host out.
    #[arg(long)]
    no_host: bool,
    /// Draw cores of hub and database over hosts.
    #[arg(long, value_name = "FILE.svg")]
    picture: Option<PathBuf>,
}

/// What was measured.
#[derive(Debug, Default)]
struct Measured {
    sent: Vec<Sent>,
    asked: Vec<Asked>,
    cost: Option<Cost>,
}

/// Runs the row.
pub(crate) fn run(args: &HubArgs) -> anyhow::Result<()> {
    perform("hub", &args.row, |ground, record| {
        let beside = std::env::current_exe()?;
        let beside =
            args.row.binaries.as_deref().or(beside.parent()).context("this program lies in no directory")?;
        let program = beside.join("pinfold-hub");
        if !program.is_file() {
            record.say("Left out: pinfold-hub is not built.");
            return Ok(());
        }
        let shape = Shape { jobs: args.jobs.max(1), minutes: args.minutes.max(1) };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is bounded")]
        let bundles = (BUNDLES_A_SECOND * args.window).clamp(100.0, BUNDLES_MAX) as usize;
        let packed = Packed::new(shape, bundles)?;
        let mut measured = Measured::default();
        let wanted = |name: &str| args.database.as_deref().is_none_or(|database| database == name);
        if wanted("sqlite") {
            of_database(args, (ground, &program, &packed), &mut measured, record, |name| {
                Ok(Database::Sqlite(scratch(ground).join(format!("{name}.db"))))
            })?;
        }
        if wanted("postgres") {
            match Server::start(scratch(ground))? {
                Some(server) => {
                    record.say(&format!("PostgreSQL {}.", server.version()?));
                    of_database(args, (ground, &program, &packed), &mut measured, record, |name| {
                        server.create(name)?;
                        Ok(Database::Postgres(&server, name.to_owned()))
                    })?;
                    server.stop()?;
                }
                None => record.say("PostgreSQL is left out: it is not installed."),
            }
        }
        tell(args, shape, &measured, record);
        if let Some(file) = &args.picture {
            std::fs::write(file, chart(&measured.sent).to_svg(760, 420))
                .with_context(|| format!("failed to write {}", file.display()))?;
        }
        Ok(())
    })
}

fn scratch(ground: &Ground) -> &Path {
    ground.bench(0.0).scratch
}

/// All of it with one kind of database; `make` makes one of that name.
fn of_database<'a>(
    args: &HubArgs,
    (ground, program, packed): (&Ground, &Path, &Packed),
    measured: &mut Measured,
    record: &mut Record,
    make: impl Fn(&str) -> anyhow::Result<Database<'a>>,
) -> anyhow::Result<()> {
    for &hosts in &args.hosts {
        let database = make(&format!("hosts{hosts}"))?;
        database.prepare(program, hosts.max(1))?;
        let hub = Hub::start(program, &database)?;
        let mut from = 0;
        for pace in [Pace::Bundles, Pace::Own] {
            let with = (hosts.max(1), from, pace);
            let (sent, next) = load::send((&hub, &database), packed, with, args.window, ground.flag())?;
            from = next;
            kept(sent, measured, record)?;
        }
    }
    if measured.cost.is_none() && !args.no_host {
        let database = make("cost")?;
        database.prepare(program, 1)?;
        let hub = Hub::start(program, &database)?;
        measured.cost = host::measure(ground, &hub, packed.shape, args.window.max(1.0) * 3.0)?;
        if let Some(cost) = &measured.cost {
            record.add("host", cost)?;
        }
    }
    if args.rows > 0 && !ground.interrupted() {
        let database = make("filled")?;
        database.prepare(program, HOSTS_FULL)?;
        rows::fill(&database, args.rows, packed.shape)?;
        // Those rows came by no bundle.
        database.has_done(program, &["resum"])?;
        let hub = Hub::start(program, &database)?;
        for asked in rows::ask((&hub, &database, program), (args.rows, args.times))? {
            record.add("asked", &asked)?;
            measured.asked.push(asked);
        }
        let with = (HOSTS_FULL, 0, Pace::Bundles);
        let (sent, _) = load::send((&hub, &database), packed, with, args.window, ground.flag())?;
        kept(Sent { rows: args.rows, ..sent }, measured, record)?;
    }
    Ok(())
}

fn kept(sent: Sent, measured: &mut Measured, record: &mut Record) -> anyhow::Result<()> {
    done(&format!(
        "{}, {} hosts{}: {:.0} samples/s, {:.2} cores, p99 {:.0} ms, {} failed, {:.1} s late",
        sent.database,
        sent.hosts,
        if sent.own_pace { " at their own pace" } else { "" },
        sent.samples_per_s(),
        sent.cores(),
        sent.p99_ms,
        sent.failed,
        sent.late_s
    ));
    record.add("sent", &sent)?;
    measured.sent.push(sent);
    Ok(())
}

fn row(sent: &Sent) -> Vec<String> {
    let full = if sent.rows > 0 { format!(", {} rows before", sent.rows) } else { String::new() };
    vec![
        format!("{}, {} hosts{full}", sent.database, sent.hosts),
        format!("{:.0}", sent.samples_per_s()),
        format!("{:.0}", sent.bundles as f64 / sent.window_s),
        format!("{:.0}", sent.lives as f64 / sent.window_s),
        format!("{:.2}", sent.hub_cpu_s / sent.window_s),
        format!("{:.2}", sent.database_cpu_s / sent.window_s),
        format!("{:.0} / {:.0}", sent.p50_ms, sent.p99_ms),
        format!("{}", sent.hub_pss_bytes >> 20),
        format!("{}", sent.failed),
        format!("{:.1}", sent.late_s),
    ]
}

/// Writes the tables.
fn tell(args: &HubArgs, shape: Shape, measured: &Measured, record: &mut Record) {
    let head = [
        "database, hosts",
        "samples/s",
        "bundles/s",
        "states/s",
        "cores, hub",
        "cores, database",
        "ms p50 / p99",
        "MiB, hub",
        "failed",
        "s late",
    ];
    let of = |own: bool| -> Vec<Vec<String>> {
        measured.sent.iter().filter(|sent| sent.own_pace == own).map(row).collect()
    };
    record.say(&format!(
        "Bundles of one job with {} samples each, as fast as the hub takes them, {:.0} s each; target with PostgreSQL \
         {SAMPLES_PER_S:.0} samples/s. Simulated hosts use these cores as well:\n",
        shape.minutes, args.window
    ));
    record.say(&table::markdown(&head, &of(false)));
    record.say(&format!(
        "\nAt the hosts' own pace: {} jobs of {} minutes each, a sample a minute, {:.2} samples/s and a bundle each {:.0} s a \
         host; and how the host is each {LIVE_EVERY_S:.0} s. The hub keeps up where hosts are at most {LATE_S:.0} s late:\n",
        shape.jobs,
        shape.minutes,
        shape.samples_per_s(),
        1.0 / shape.bundles_per_s()
    ));
    record.say(&table::markdown(&head, &of(true)));
    if let Some(cost) = &measured.cost {
        record.say(&format!(
            "\nA real host with {} jobs: its pusher takes {:.3} % of a core (target {HOST_PERCENT} %) and {} MiB; its daemon \
             {:+.3} % because it is asked.\n",
            cost.jobs,
            cost.pusher_percent(),
            cost.pss_bytes >> 20,
            cost.daemon_percent()
        ));
    }
    if !measured.asked.is_empty() {
        record.say(&format!(
            "Pages over {} jobs that ended in 90 days, up to {} times each, milliseconds until the first byte (targets: \
             {PAGE_MS:.0} for a page, {LIST_MS:.0} for a list). 503: it took more than its 5 s:\n",
            args.rows, args.times
        ));
        let rows: Vec<Vec<String>> = measured.asked.iter().map(asked_row).collect();
        record.say(&table::markdown(&["page", "status", "kB", "first", "p50", "p99"], &rows));
    }
}

fn asked_row(asked: &Asked) -> Vec<String> {
    vec![
        format!("{}: {}", asked.database, asked.what),
        asked.status.to_string(),
        (asked.bytes / 1_000).to_string(),
        format!("{:.1}", asked.first_ms),
        format!("{:.1}", asked.p50_ms),
        format!("{:.1}", asked.p99_ms),
    ]
}

/// Cores over hosts at their own pace, as far as the hub keeps up.
fn chart(sent: &[Sent]) -> Chart {
    let series = |name: &str| {
        let own = sent.iter().filter(|sent| sent.own_pace && sent.database == name && sent.late_s <= LATE_S);
        Series {
            name: name.to_owned(),
            points: own.map(|sent| (sent.hosts as f64, sent.cores())).collect(),
            ..Series::default()
        }
    };
    let series = ["SQLite", "PostgreSQL"].map(series).into_iter().filter(|series| !series.points.is_empty());
    Chart {
        title: "Hub and database at the hosts' own pace".to_owned(),
        panels: vec![Panel { title: "cores".to_owned(), series: series.collect(), ..Panel::default() }],
        across: Some(Across { title: "hosts".to_owned(), unit: String::new() }),
        ..Chart::default()
    }
}
