//! This host's store, asked through the daemon's socket as an operator. The connection is made anew when it breaks.

use std::collections::BTreeSet;

use pinfold_hubwire::bundle::{Act, LEFT_OUT};
use pinfold_hubwire::push::{Found, Look, Machine, Source, SourceError};
use pinfold_hubwire::series::Thinned;
use pinfold_proto::ExitCode;
use pinfold_proto::learned::Signed;
use pinfold_proto::view::{DecisionView, LeftOutView, ReportView, StatusView, WhyView};
use pinfold_proto::voucher::{JOIN, Voucher};
use pinfold_proto::wire::{Piece, Reply, Request, Select};
use pinfold_sys::discover;
use pinfold_topo::Topology;

use pinfold_client::Failure;
use pinfold_client::{Client, Dial, unexpected};

/// How far before the last job that was seen others are looked for, in microseconds: a clock that was set back by less hides
/// none.
const SLACK_US: u64 = 86_400_000_000;

/// The daemon names so many jobs by their number at most, the last ones.
const LAST_MAX: u64 = 1_000_000;

/// Jobs that are asked for by name, at most.
const NAMED_MAX: u64 = 500;

/// The daemon.
pub(super) struct Daemon<'a> {
    dial: &'a Dial,
    client: Option<Client>,
    /// The machine as it was read, and the PUs for jobs then: as long as those stay, it is as it was.
    topology: Option<(String, Topology)>,
}

impl<'a> Daemon<'a> {
    /// The daemon that is meant, not asked yet.
    pub(super) fn new(dial: &'a Dial) -> Self {
        Self { dial, client: None, topology: None }
    }

    /// The highest number of a job in the store; 0: there is none.
    fn highest(&mut self) -> Result<u64, Failure> {
        Ok(self.with(|client| last(client, 1))?.into_iter().max().unwrap_or(0))
    }

    /// The jobs that are open and those above `seen`; `None`: they are too many to be named.
    fn named(
        &mut self,
        (seen, highest): (u64, u64),
        open: &BTreeSet<u64>,
    ) -> Result<Option<Vec<u64>>, Failure> {
        let count = highest.saturating_sub(seen);
        if count + open.len() as u64 > NAMED_MAX {
            return Ok(None);
        }
        let mut names: BTreeSet<u64> = open.clone();
        if count > 0 {
            // Of so many numbers these are the last, whether or not each of them is a job's.
            let new = self.with(|client| last(client, u32::try_from(count).unwrap_or(u32::MAX)))?;
            names.extend(new.into_iter().filter(|&job| job > seen));
        }
        Ok(Some(names.into_iter().collect()))
    }

    /// The key of the hub from which the daemon takes what was learned elsewhere; `None`: it takes nothing.
    pub(super) fn learns_from(&mut self) -> Result<Option<String>, Failure> {
        let values = self.with(|client| match client.ask(&Request::ConfigGet)? {
            Reply::Config(values) => Ok(values),
            other => Err(unexpected(&other)),
        })?;
        let found = values.into_iter().find(|value| value.key == "learning.from_hub");
        let key = found.map(|found| found.value.trim_matches('"').to_owned());
        Ok(key.filter(|key| !key.is_empty()))
    }

    /// Hands over what a hub learned.
    pub(super) fn learn(&mut self, signed: &Signed) -> Result<(), Failure> {
        self.with(|client| match client.ask(&Request::Learn { signed: signed.clone() })? {
            Reply::Done => Ok(()),
            other => Err(unexpected(&other)),
        })
    }

    /// The daemon's word by which a hub knows its key.
    pub(super) fn vouch(&mut self, url: &str) -> Result<Voucher, Failure> {
        self.with(|client| super::identity::vouch(client, url, JOIN))
    }

    /// A connection, if a daemon is there. None is started for it.
    fn connect(&self) -> Result<Client, Failure> {
        let text = || format!("no daemon that can be asked listens on {}", self.dial.socket().display());
        self.dial.connect_if_there().ok_or_else(|| Failure::new(ExitCode::NoDaemon, text()))
    }

    /// Asks over the connection that there is, or a new one. After a failure the next question makes a new one.
    fn with<T>(&mut self, ask: impl FnOnce(&mut Client) -> Result<T, Failure>) -> Result<T, Failure> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => self.connect()?,
        };
        let answer = ask(&mut client)?;
        self.client = Some(client);
        Ok(answer)
    }
}

fn status(client: &mut Client, request: &Request) -> Result<StatusView, Failure> {
    match client.ask(request)? {
        Reply::Status(view) => Ok(view),
        other => Err(unexpected(&other)),
    }
}

/// The numbers of the last jobs, of all users.
fn last(client: &mut Client, count: u32) -> Result<Vec<u64>, Failure> {
    let mut numbers = Vec::new();
    client.ask_in_pieces(&report(Select::Last(count), false), |piece| {
        if let Piece::Jobs(reports) = piece {
            numbers.extend(reports.iter().map(|report| report.job));
        }
        Ok(())
    })?;
    Ok(numbers)
}

/// Which jobs have a number above `seen`. As long as those are few enough, whatever a clock said when they were asked for.
fn above(seen: u64, highest: u64, submitted_us: u64) -> Select {
    match u32::try_from(highest.saturating_sub(seen)) {
        Ok(count) if u64::from(count) <= LAST_MAX => Select::Last(count),
        _ => Select::Since(submitted_us.saturating_sub(SLACK_US)),
    }
}

fn lost(failure: Failure) -> SourceError {
    SourceError(failure.message)
}

fn report(select: Select, series: bool) -> Request {
    // `all` goes with jobs that are not named; those that are named an operator may see anyhow.
    let all = !matches!(select, Select::Jobs(_));
    Request::Report { select, series, processes: false, threads: false, files: false, all, pieces: true }
}

/// Fails unless the daemon takes this user for an operator, who may see all jobs.
pub(super) fn check_operator(dial: &Dial) -> Result<(), Failure> {
    let mut client = dial.connect()?;
    client.ask_in_pieces(&report(Select::Last(1), false), |_| Ok(())).map_err(|failure| {
        if failure.code == ExitCode::Permission {
            let text =
                format!("{failure}; only operators of this host (`access.operators`) hand its jobs to a hub");
            return Failure::new(ExitCode::Permission, text);
        }
        failure
    })
}

impl Daemon<'_> {
    /// How the cores lie, of which jobs may use these PUs.
    fn topology(&mut self, cpus: &str) -> Result<Topology, Failure> {
        if let Some((of, topology)) = &self.topology
            && of == cpus
        {
            return Ok(topology.clone());
        }
        let topology = discover::host_within(&cpus.parse().unwrap_or_default())
            .map_err(|error| Failure::doing("failed to read the topology", &error))?;
        self.topology = Some((cpus.to_owned(), topology.clone()));
        Ok(topology)
    }
}

impl Source for Daemon<'_> {
    fn origin(&mut self) -> Result<String, SourceError> {
        self.with(|client| Ok(client.welcome.instance.clone())).map_err(lost)
    }

    fn look(&mut self, seen: u64, open: &BTreeSet<u64>) -> Result<Look, SourceError> {
        // Jobs by name cost the daemon little; a status of all reads the last thousand that are over.
        let highest = self.highest().map_err(lost)?;
        if let Some(names) = self.named((seen, highest), open).map_err(lost)? {
            let request = Request::Status { all: !names.is_empty(), jobs: names, at_us: None };
            match self.with(|client| status(client, &request)) {
                Ok(status) => return Ok(Look { status, complete: true, highest: Some(highest) }),
                // One of them is not known any more.
                Err(failure) if failure.code == ExitCode::Failed => {}
                Err(failure) => return Err(lost(failure)),
            }
        }
        let request = Request::Status { jobs: Vec::new(), all: true, at_us: None };
        let status = self.with(|client| status(client, &request)).map_err(lost)?;
        Ok(Look { highest: Some(highest), ..Look::of_the_last(status, seen) })
    }

    fn after(&mut self, seen: u64, submitted_us: u64, most: usize) -> Result<Vec<Found>, SourceError> {
        let mut found: Vec<Found> = Vec::new();
        // The first of them are wanted, and there may be very many: the connection is dropped once it gave enough.
        let highest = self.highest().map_err(lost)?;
        let mut client = self.connect().map_err(lost)?;
        let request = report(above(seen, highest, submitted_us), false);
        let told = client.ask_in_pieces(&request, |piece| {
            let Piece::Jobs(reports) = piece else { return Ok(()) };
            let new = reports.iter().filter(|report| report.job > seen).map(|report| Found {
                job: report.job,
                submitted_us: pinfold_hubwire::bundle::microseconds(report.submitted_s),
            });
            found.extend(new);
            if found.len() < most { Ok(()) } else { Err(Failure::new(ExitCode::Done, "")) }
        });
        match told {
            Err(failure) if failure.code != ExitCode::Done => Err(lost(failure)),
            _ => {
                found.truncate(most);
                Ok(found)
            }
        }
    }

    fn machine(&mut self) -> Result<Option<Machine>, SourceError> {
        let map = self.with(|client| match client.ask(&Request::Map)? {
            Reply::Map(map) => Ok(map),
            other => Err(unexpected(&other)),
        });
        let map = map.map_err(lost)?;
        let topology = self.topology(&map.cpus).map_err(lost)?;
        Ok(Some(Machine { map, topology }))
    }

    fn job(&mut self, job: u64) -> Result<Option<(ReportView, Vec<Act>)>, SourceError> {
        let told = self.with(|client| {
            let mut whole: Option<ReportView> = None;
            // A job of months has more points than this process may hold.
            let mut series = Thinned::default();
            client.ask_in_pieces(&report(Select::Jobs(vec![job]), true), |piece| {
                match piece {
                    Piece::Jobs(reports) => whole = reports.into_iter().next_back(),
                    Piece::Points(points) => points.into_iter().for_each(|point| series.push(point)),
                    Piece::Last => {}
                }
                Ok(())
            })?;
            let Some(mut whole) = whole else { return Ok(None) };
            whole.series = Some(series.into_points());
            match client.ask(&Request::Why { job, at_us: None })? {
                Reply::Why(why) => Ok(Some((whole, acts(why)))),
                other => Err(unexpected(&other)),
            }
        });
        match told {
            // A store forgets old jobs, and those that were never written.
            Err(failure) if failure.message.contains("there is no job") => Ok(None),
            told => told.map_err(lost),
        }
    }
}

/// The decisions about a job; where the host kept some no longer, that stands among them.
fn acts(why: WhyView) -> Vec<Act> {
    let act = |decision: DecisionView| Act {
        time_s: decision.time_s,
        action: decision.action,
        reason: decision.reason,
    };
    let mut acts: Vec<Act> = why.decisions.into_iter().map(act).collect();
    if let Some(LeftOutView { after_s, before_s, .. }) = why.left_out {
        let is_there = |around: &[Act]| {
            around[0].time_s.total_cmp(&after_s).is_eq() && around[1].time_s.total_cmp(&before_s).is_eq()
        };
        if let Some(before) = acts.windows(2).position(is_there) {
            let reason = "the decisions between these two were not kept".to_owned();
            acts.insert(before + 1, Act { time_s: after_s, action: LEFT_OUT.to_owned(), reason });
        }
    }
    acts
}

#[cfg(test)]
mod tests {
    use pinfold_proto::JobState;

    use super::*;

    #[test]
    fn where_decisions_are_left_out_stands_among_them() {
        let decision = |time_s: f64| DecisionView {
            time_s,
            action: "freeze".to_owned(),
            reason: "memory runs short".to_owned(),
            text: String::new(),
            action_code: None,
            code: None,
            figures: Default::default(),
        };
        let told = |left_out| {
            let why = WhyView {
                version: 1,
                job: 3,
                state: JobState::Exited,
                cause: String::new(),
                numbers: Vec::new(),
                figures: Default::default(),
                change: String::new(),
                decisions: [1.0, 2.0, 2.0, 90.0, 91.0].map(decision).into(),
                left_out,
            };
            acts(why).into_iter().map(|act| (act.time_s, act.action)).collect::<Vec<_>>()
        };
        assert_eq!(told(None).len(), 5);
        let all = told(Some(LeftOutView { after_s: 2.0, before_s: 90.0, hides_state: false }));
        assert_eq!((all.len(), &all[3]), (6, &(2.0, LEFT_OUT.to_owned())));
        assert_eq!((all[2].0, all[4].0), (2.0, 90.0));
    }

    #[test]
    fn jobs_behind_the_last_one_that_was_seen_are_found_whatever_the_clock_said() {
        // A clock that was years ahead, and one that was set back by a month.
        for submitted_us in [0, 4_000_000_000_000_000] {
            assert_eq!(above(7, 2_000, submitted_us), Select::Last(1_993));
            assert_eq!(above(0, LAST_MAX, submitted_us), Select::Last(1_000_000));
            assert_eq!(above(9, 7, submitted_us), Select::Last(0));
        }
        // The first of very many come first.
        assert_eq!(above(0, LAST_MAX + 1, 2 * SLACK_US), Select::Since(SLACK_US));
        assert_eq!(above(5, u64::MAX, 0), Select::Since(0));
    }
}
