//! This host's store, asked through the daemon's socket as an operator. The connection is made anew when it breaks.

use std::collections::BTreeSet;

use pinfold_hubwire::bundle::{Act, LEFT_OUT};
use pinfold_hubwire::push::{Found, Machine, Numbers, Source, SourceError};
use pinfold_hubwire::series::Thinned;
use pinfold_proto::learned::Signed;
use pinfold_proto::view::{DecisionView, JobView, LeftOutView, ReportView, StatusView, WhyView};
use pinfold_proto::voucher::{JOIN, Voucher};
use pinfold_proto::wire::{Piece, Request, Select};
use pinfold_proto::{ExitCode, JobState};
use pinfold_sys::discover;
use pinfold_topo::Topology;

use pinfold_client::{Client, Dial, Failure};

/// How far before the last job that was seen others are looked for, in microseconds: a clock that was set back by less hides
/// none.
const SLACK_US: u64 = 86_400_000_000;

/// The daemon names at most this many jobs by their number, the last jobs.
const LAST_MAX: u64 = 1_000_000;

/// Jobs that are asked for by name, at most.
const NAMED_MAX: usize = 500;

/// The daemon.
pub(super) struct Daemon<'a> {
    dial: &'a Dial,
    client: Option<Client>,
    /// The machine as last read, and its PUs for jobs: valid while the PUs stay the same.
    topology: Option<(String, Topology)>,
}

impl<'a> Daemon<'a> {
    /// The daemon that is meant, not asked yet.
    pub(super) fn new(dial: &'a Dial) -> Self {
        Self { dial, client: None, topology: None }
    }

    /// The last job of all users; `None`: there is none.
    fn newest(&mut self) -> Result<Option<Found>, Failure> {
        Ok(self.found(Select::Last(1), 0, usize::MAX)?.pop())
    }

    /// The first of these jobs that have a number above `seen`, at most `most`.
    fn found(&mut self, select: Select, seen: u64, most: usize) -> Result<Vec<Found>, Failure> {
        let mut found: Vec<Found> = Vec::new();
        // There may be very many: the connection is dropped once it gave enough.
        let told = self.with(|client| {
            client.ask_in_pieces(&report(select, false), |piece| {
                let Piece::Jobs(reports) = piece else { return Ok(()) };
                let new = reports.iter().filter(|report| report.job > seen).map(|report| Found {
                    job: report.job,
                    submitted_us: pinfold_hubwire::bundle::microseconds(report.submitted_s),
                });
                found.extend(new);
                if found.len() < most { Ok(()) } else { Err(Failure::new(ExitCode::Done, "")) }
            })
        });
        match told {
            Err(failure) if failure.code != ExitCode::Done => Err(failure),
            _ => {
                found.truncate(most);
                Ok(found)
            }
        }
    }

    /// The key of the hub from which the daemon takes knowledge of other hosts; `None`: it takes none.
    pub(super) fn learns_from(&mut self) -> Result<Option<String>, Failure> {
        let values = self.with(|client| answer!(client.ask(&Request::ConfigGet)?, Config))?;
        let found = values.into_iter().find(|value| value.key == "learning.from_hub");
        let key = found.map(|found| found.value.trim_matches('"').to_owned());
        Ok(key.filter(|key| !key.is_empty()))
    }

    /// Hands over a hub's knowledge.
    pub(super) fn learn(&mut self, signed: &Signed) -> Result<(), Failure> {
        self.with(|client| answer!(client.ask(&Request::Learn { signed: signed.clone() })?, Done))
    }

    /// The daemon's voucher, from which a hub knows its key.
    pub(super) fn vouch(&mut self, url: &str) -> Result<Voucher, Failure> {
        self.with(|client| super::identity::vouch(client, url, JOIN))
    }

    /// A connection, if a daemon is there. None is started for it.
    fn connect(&self) -> Result<Client, Failure> {
        let text = || format!("no daemon that can be asked listens on {}", self.dial.socket().display());
        self.dial.connect_if_there().ok_or_else(|| Failure::new(ExitCode::NoDaemon, text()))
    }

    /// Asks over the present connection, or a new connection. After a failure the next question makes a new connection.
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

/// The cause is asked for the first jobs that wait, at each look.
const CAUSES_MAX: usize = 20;

impl Daemon<'_> {
    /// Adds the reasons why jobs wait, which a status does not have.
    fn with_causes(&mut self, mut status: StatusView) -> StatusView {
        let waits = |job: &&mut JobView| matches!(job.state, JobState::Queued | JobState::Held);
        for job in status.jobs.iter_mut().filter(waits).filter(|job| job.reason.is_none()).take(CAUSES_MAX) {
            let request = Request::Why { job: job.job, at_us: None };
            let why: Result<WhyView, Failure> = self.with(|client| answer!(client.ask(&request)?, Why));
            // A job that is over by now has no cause any more.
            job.reason = why.ok().map(|why| why.cause);
        }
        status
    }
}

fn status(client: &mut Client, request: &Request) -> Result<StatusView, Failure> {
    answer!(client.ask(request)?, Status)
}

/// Selects the last `count` jobs. While they are few enough, the clock at their submission does not matter.
fn last(count: u64, submitted_us: u64) -> Select {
    match u32::try_from(count) {
        Ok(few) if count <= LAST_MAX => Select::Last(few),
        _ => Select::Since(submitted_us.saturating_sub(SLACK_US)),
    }
}

/// The number of jobs to ask for, when `new` jobs are new and `more` jobs may come in meanwhile. Jobs that turn out to
/// be old are told in vain.
fn with_room(new: u64, more: u64) -> u64 {
    new.saturating_add(more).clamp(new, LAST_MAX.max(new))
}

/// Jobs that are not told by number are told by submission time, and there are some: an empty answer would not change
/// by itself.
fn check_found(select: &Select, seen: u64, found: &[Found]) -> Result<(), Failure> {
    if !matches!(select, Select::Since(_)) || !found.is_empty() {
        return Ok(());
    }
    let text = format!(
        "jobs with numbers above {seen} are not found, for the clock was set back since that job; `pinfold hub leave` and \
         `pinfold hub join` have all jobs told anew"
    );
    Err(Failure::new(ExitCode::Failed, text))
}

/// A host's report of its last jobs, as many as have a number above `seen`. Jobs that arrive between two questions push
/// the first out of that count: the host is asked again, for more, until no job can be missing.
fn all_above<H, T>(
    host: &mut H,
    seen: u64,
    highest: impl Fn(&mut H) -> Result<u64, Failure>,
    tell: impl Fn(&mut H, u64) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let new = highest(host)?.saturating_sub(seen);
    let mut count = with_room(new, (new / 16).min(1_000));
    loop {
        let told = tell(host, count)?;
        // These jobs are told from a moment on, however many come in.
        if count > LAST_MAX {
            return Ok(told);
        }
        let now = highest(host)?.saturating_sub(seen);
        if now <= count {
            return Ok(told);
        }
        count = with_room(now, 1_000 + now / 16);
    }
}

fn lost(failure: Failure) -> SourceError {
    SourceError(failure.message)
}

fn report(select: Select, series: bool) -> Request {
    // `all` goes with jobs that are not named; an operator may see named jobs anyhow.
    let all = !matches!(select, Select::Jobs(_));
    crate::show::figures_of(select, series, all)
}

/// Fails unless this user is an operator of the daemon, with a view of all jobs.
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
    /// The layout of the cores, with these PUs for jobs.
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

    fn numbers(&mut self, seen: u64) -> Result<Numbers, SourceError> {
        let Some(newest) = self.newest().map_err(lost)? else {
            return Ok(Numbers { highest: Found::default(), seen_us: None });
        };
        let of_seen = match seen {
            _ if seen == newest.job => Some(newest),
            1.. if seen < newest.job => {
                let found = self.found(Select::Jobs(vec![seen]), 0, usize::MAX);
                if_it_is_there(found.map(|mut found| found.pop()))?
            }
            _ => None,
        };
        Ok(Numbers { highest: newest, seen_us: of_seen.map(|found| found.submitted_us) })
    }

    fn look(&mut self, open: &BTreeSet<u64>) -> Result<StatusView, SourceError> {
        // Jobs by name cost the daemon little; a status of all reads the last thousand.
        if open.len() <= NAMED_MAX {
            let names: Vec<u64> = open.iter().copied().collect();
            let request = Request::Status { all: !names.is_empty(), jobs: names, at_us: None };
            match self.with(|client| status(client, &request)) {
                // A job is not known any more.
                Err(failure) if failure.code == ExitCode::Failed => {}
                told => return told.map(|status| self.with_causes(status)).map_err(lost),
            }
        }
        let request = Request::Status { jobs: Vec::new(), all: true, at_us: None };
        self.with(|client| status(client, &request)).map(|status| self.with_causes(status)).map_err(lost)
    }

    fn after(&mut self, seen: u64, submitted_us: u64, most: usize) -> Result<Vec<Found>, SourceError> {
        let highest = |host: &mut Self| Ok(host.newest()?.map_or(0, |newest| newest.job));
        let tell = |host: &mut Self, count| {
            let select = last(count, submitted_us);
            let found = host.found(select.clone(), seen, most)?;
            check_found(&select, seen, &found)?;
            Ok(found)
        };
        all_above(self, seen, highest, tell).map_err(lost)
    }

    fn machine(&mut self) -> Result<Option<Machine>, SourceError> {
        let map = self.with(|client| answer!(client.ask(&Request::Map)?, Map));
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
            let why = answer!(client.ask(&Request::Why { job, at_us: None })?, Why)?;
            Ok(Some((whole, acts(why))))
        });
        if_it_is_there(told)
    }
}

/// The report of a job; `None`: a store forgets old jobs, and jobs that were never written.
fn if_it_is_there<T>(told: Result<Option<T>, Failure>) -> Result<Option<T>, SourceError> {
    match told {
        Err(failure) if failure.message.contains("there is no job") => Ok(None),
        told => told.map_err(lost),
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
                expected_start_s: None,
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
            assert_eq!(last(1_993, submitted_us), Select::Last(1_993));
            assert_eq!(last(LAST_MAX, submitted_us), Select::Last(1_000_000));
        }
        // The first of very many come first.
        assert_eq!(last(LAST_MAX + 1, 2 * SLACK_US), Select::Since(SLACK_US));
        assert_eq!(last(u64::MAX, 0), Select::Since(0));
    }

    #[test]
    fn none_is_left_out_however_many_come_in_between_two_questions() {
        // The highest number, and how many jobs come in after each answer.
        let check = |first: u64, come_in: u64, seen: u64| {
            let mut host = (first, come_in);
            let highest = |host: &mut (u64, u64)| {
                let highest = host.0;
                host.0 += host.1;
                Ok(highest)
            };
            let tell = |host: &mut (u64, u64), count: u64| {
                let last = host.0.saturating_sub(count) + 1..=host.0;
                host.0 += host.1;
                Ok(last.filter(|&job| job > seen).collect::<Vec<_>>())
            };
            let told = all_above(&mut host, seen, highest, tell).expect("it is told");
            let up_to = told.last().copied().unwrap_or(seen);
            assert_eq!(told, (seen + 1..=up_to).collect::<Vec<_>>(), "{first} {come_in} {seen}");
            assert!(up_to >= first, "{first} {come_in} {seen}: up to {up_to}");
        };
        for come_in in [0, 1, 5, 1_500] {
            check(0, come_in, 0);
            check(10, come_in, 0);
            check(2_410, come_in, 2_400);
            check(2_410, come_in, 2_410);
        }
        // Those that come in may be more than are told by their number.
        check(LAST_MAX - 2, 5, LAST_MAX - 4);
    }

    #[test]
    fn few_jobs_are_told_in_vain_however_many_come_in() {
        // How many are new, how many come in after each answer, and how often it is asked at most.
        for (first, come_in, times) in
            [(1, 0, 1), (10, 1, 2), (320, 9, 1), (500_000, 0, 1), (500_000, 400, 1), (500_000, 20_000, 2)]
        {
            let mut host = (first, Vec::new());
            let highest = |host: &mut (u64, Vec<u64>)| {
                host.0 += come_in;
                Ok(host.0)
            };
            let tell = |host: &mut (u64, Vec<u64>), count: u64| {
                let in_vain = count.saturating_sub(host.0);
                assert!(in_vain <= 1_000 + host.0 / 16, "{count} of {}", host.0);
                host.1.push(count);
                Ok(())
            };
            all_above(&mut host, 0, highest, tell).expect("it is told");
            assert!(host.1.len() <= times, "{first} {come_in}: {:?}", host.1);
            assert!(host.1[0] <= first + come_in + (first / 8).min(1_000), "{first} {come_in}: {:?}", host.1);
        }
    }

    #[test]
    fn that_no_job_is_found_by_its_time_is_trouble() {
        let one = [Found { job: 8, submitted_us: 1 }];
        assert!(check_found(&Select::Since(5), 7, &one).is_ok());
        // The last one may have been struck off since.
        assert!(check_found(&Select::Last(1), 7, &[]).is_ok());
        let failure = check_found(&Select::Since(5), 7, &[]).expect_err("it would be so for ever");
        assert!(failure.message.contains("above 7") && failure.message.contains("hub leave"), "{failure}");
    }
}
