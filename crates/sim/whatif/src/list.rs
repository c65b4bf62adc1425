//! Jobs as a list, a JSON object per line, or from a host's store; a job may wait for others.

mod error;

use std::collections::BTreeMap;

use pinfold_cluster::fleet::Fleet;
use pinfold_cluster::graph::{Cycle, Graph};
use pinfold_cluster::job::{Dropped, Job, LONGEST_S, RAMP_MILLI};
use pinfold_cluster::{Micros, SECOND};
use serde::Deserialize;

pub use error::ListError;

/// A job of a list. Sizes and times are the whole job's, not a processor's.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its number; no other job of the list has it. Unsaid: its line.
    #[serde(default)]
    pub job: Option<u64>,
    /// The time of submission, in seconds from any origin.
    #[serde(default)]
    pub submit_s: f64,
    /// The run time on cores of its own, in seconds.
    pub wall_s: f64,
    /// The requested run time; default, and at least: the actual run time.
    #[serde(default)]
    pub requested_s: Option<f64>,
    /// Cores, at least 1.
    #[serde(default)]
    pub cores: Option<u32>,
    /// Processor time of all cores together; unsaid: it computes all the time.
    #[serde(default)]
    pub cpu_s: Option<f64>,
    /// Its peak of memory, in bytes.
    #[serde(default)]
    pub memory_peak_bytes: Option<u64>,
    /// The part of its run over which it grows to the peak, above 0 to 1; default: a third.
    #[serde(default)]
    pub memory_ramp: Option<f64>,
    /// Its processor time while it grows; default: it computes evenly.
    #[serde(default)]
    pub ramp_cpu_s: Option<f64>,
    /// The requested memory, in bytes; default: the peak.
    #[serde(default)]
    pub memory_request_bytes: Option<u64>,
    /// Its disk reads and writes over its run, in bytes.
    #[serde(default)]
    pub io_bytes: Option<u64>,
    /// Its user.
    #[serde(default)]
    pub user: String,
    /// Its name: jobs of the same user and name are alike.
    #[serde(default)]
    pub name: String,
    /// Its batch or array, by user and name. Ignored with a dispatcher before the hosts, which submits each job singly.
    #[serde(default)]
    pub list: Option<String>,
    /// The number of earlier runs of this job on its host, from which the host knows its peak. Default: 0.
    #[serde(default)]
    pub runs_before: u16,
    /// The numbers of jobs that have to end before it starts.
    #[serde(default)]
    pub after: Vec<u64>,
    /// Its name in errors; `None`: its number and name.
    #[serde(skip)]
    pub label: Option<String>,
}

/// Jobs that can be played on some hosts.
#[derive(Debug)]
pub struct Arranged {
    /// In order of submission.
    pub jobs: Vec<Job>,
    /// The graph of dependencies. Jobs that are not played are barriers in it, behind played jobs: their followers wait for
    /// their predecessors.
    pub graph: Graph,
    /// Jobs that are not played.
    pub dropped: Dropped,
}

/// A list of jobs.
#[derive(Debug, Clone, Default)]
pub struct List {
    lines: u64,
    entries: Vec<Entry>,
}

impl List {
    /// Takes a line in: a JSON object with the fields of an [`Entry`]; empty lines are left out.
    ///
    /// # Errors
    /// The line is no valid object.
    pub fn line(&mut self, text: &str) -> Result<(), ListError> {
        self.lines += 1;
        let line = self.lines;
        match text.trim_start().chars().next() {
            None => return Ok(()),
            Some('{') => {}
            Some(_) => return Err(ListError::NoObject(line)),
        }
        let mut entry: Entry =
            serde_json::from_str(text).map_err(|source| ListError::Line { line, source })?;
        entry.job = entry.job.or(Some(line));
        self.entries.push(entry);
        Ok(())
    }

    /// Takes a job in.
    pub fn add(&mut self, entry: Entry) {
        self.lines += 1;
        self.entries.push(Entry { job: entry.job.or(Some(self.lines)), ..entry });
    }

    /// Its jobs, in its order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The number of jobs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The jobs that can be played on this fleet.
    ///
    /// # Errors
    /// Figures are out of range, or jobs wait in a cycle or for an unknown job.
    pub fn arrange(&self, fleet: &Fleet) -> Result<Arranged, ListError> {
        let mut names = Names::default();
        let mut jobs = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            let job = entry.job(&mut names)?;
            jobs.push(Job { list: if fleet.hands_over_all() { job.list } else { 0 }, ..job });
        }
        let after = self.places()?;
        let mut dropped = Dropped::default();
        let (mut order, others): (Vec<usize>, Vec<usize>) =
            (0..jobs.len()).partition(|&place| dropped.check(fleet, &jobs[place]));
        order.sort_by_key(|&place| jobs[place].submit_us);
        let played = order.len();
        order.extend(others);
        let mut new = vec![0; jobs.len()];
        order.iter().enumerate().for_each(|(place, &old)| new[old] = place);
        let graph = order.iter().map(|&old| after[old].iter().map(|&other| new[other]).collect()).collect();
        let named = |cycle: Cycle| self.named(cycle.members.iter().map(|&place| order[place]));
        let graph = Graph::new(graph).map_err(named)?;
        Ok(Arranged { jobs: order[..played].iter().map(|&old| jobs[old]).collect(), graph, dropped })
    }

    /// The places of each job's predecessors.
    fn places(&self) -> Result<Vec<Vec<usize>>, ListError> {
        let mut places = BTreeMap::new();
        for (place, entry) in self.entries.iter().enumerate() {
            if places.insert(entry.number(), place).is_some() {
                return Err(ListError::Twice(entry.number()));
            }
        }
        let place = |entry: &Entry, after: &u64| {
            let unknown = ListError::Unknown { job: entry.number(), after: *after };
            places.get(after).copied().ok_or(unknown)
        };
        let of = |entry: &Entry| entry.after.iter().map(|after| place(entry, after)).collect();
        self.entries.iter().map(of).collect()
    }

    fn named(&self, cycle: impl Iterator<Item = usize>) -> ListError {
        let name = |place: usize| {
            let entry = &self.entries[place];
            if let Some(label) = &entry.label {
                return label.clone();
            }
            let name = if entry.name.is_empty() { String::new() } else { format!(" ({})", entry.name) };
            format!("{}{name}", entry.number())
        };
        ListError::Cycle(cycle.map(name).collect())
    }
}

impl Entry {
    fn number(&self) -> u64 {
        self.job.unwrap_or(0)
    }

    fn job(&self, names: &mut Names) -> Result<Job, ListError> {
        let micros = |key, seconds: f64| {
            micros(seconds).ok_or(ListError::Figure { job: self.number(), key, value: seconds })
        };
        let processors = self.cores.unwrap_or(1);
        let run_us = micros("wall_s", self.wall_s)?;
        let requested_us = micros("requested_s", self.requested_s.unwrap_or(0.0))?.max(run_us);
        let busy = |key, cpu_s: Option<f64>, over_us: u128| -> Result<Option<u16>, ListError> {
            let all_us = over_us * u128::from(processors);
            let part = |cpu_us: u64| u128::from(cpu_us) * 1000 / all_us.max(1);
            let busy = cpu_s.map(|cpu_s| micros(key, cpu_s).map(part)).transpose()?;
            Ok(busy.map(|busy| u16::try_from(busy.clamp(1, 1000)).unwrap_or(1000)))
        };
        let busy_milli = busy("cpu_s", self.cpu_s, run_us.into())?.unwrap_or(1000);
        let ramp = self.memory_ramp.map_or(f64::from(RAMP_MILLI), |part| part * 1000.0);
        if !(ramp > 0.0 && ramp <= 1000.0) {
            let (job, value) = (self.number(), self.memory_ramp.unwrap_or_default());
            return Err(ListError::Part { job, value });
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1000")]
        let ramp_milli = (ramp.round() as u16).max(1);
        let ramp_us = u128::from(run_us) * u128::from(ramp_milli) / 1000;
        let each = |bytes: u64| bytes.div_ceil(u64::from(processors.max(1)));
        let peak = self.memory_peak_bytes.unwrap_or(0);
        let user = names.users.of(&self.user);
        let list = self.list.as_ref().map_or(0, |list| names.lists.of(&format!("{user} {list}")));
        Ok(Job {
            number: self.number(),
            submit_us: micros("submit_s", self.submit_s)?,
            run_us,
            requested_us,
            processors,
            busy_milli,
            memory: each(self.memory_request_bytes.unwrap_or(peak)),
            memory_peak: each(peak),
            ramp_milli,
            ramp_busy_milli: busy("ramp_cpu_s", self.ramp_cpu_s, ramp_us)?,
            io_rate: each(in_a_second(self.io_bytes.unwrap_or(0), run_us)),
            user,
            program: if self.name.is_empty() { 0 } else { names.programs.of(&self.name) },
            list: u32::try_from(list).unwrap_or(0),
            runs_before: self.runs_before,
        })
    }
}

/// The rate in bytes a second of `bytes` over a run.
fn in_a_second(bytes: u64, run_us: Micros) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(SECOND) / u128::from(run_us.max(1))).unwrap_or(u64::MAX)
}

/// Seconds in microseconds; a time beyond the longest ([`LONGEST_S`]) stays beyond it.
fn micros(seconds: f64) -> Option<Micros> {
    if !seconds.is_finite() || seconds < 0.0 {
        return None;
    }
    let most = (LONGEST_S + 1) as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 4e16, looked at above"
    )]
    let us = (seconds.min(most) * SECOND as f64).round() as u64;
    Some(us)
}

/// The numbers of all that is named in a list.
#[derive(Debug, Default)]
struct Names {
    users: Numbers,
    programs: Numbers,
    lists: Numbers,
}

/// Numbers for names, from 1 on.
#[derive(Debug, Default)]
struct Numbers(BTreeMap<String, u64>);

impl Numbers {
    fn of(&mut self, name: &str) -> u64 {
        if let Some(&number) = self.0.get(name) {
            return number;
        }
        let number = self.0.len() as u64 + 1;
        self.0.insert(name.to_owned(), number);
        number
    }
}

#[cfg(test)]
mod tests {
    use pinfold_cluster::dispatch::Dispatch;
    use pinfold_cluster::metrics::Span;
    use pinfold_cluster::play::{Options, play};
    use pinfold_cluster::runtimes::Runtimes;

    use super::*;

    fn arranged(text: &str) -> Result<Arranged, ListError> {
        let mut list = List::default();
        text.lines().try_for_each(|line| list.line(line))?;
        list.arrange(&Fleet::pool(4))
    }

    #[track_caller]
    fn wrong(text: &str, want: &str) {
        let error = arranged(text).expect_err(text).to_string();
        assert!(error.contains(want), "{error}, and {want} was expected");
    }

    #[test]
    fn faults_are_named() {
        wrong("{", "line 1: EOF");
        wrong("\n{\"submit_s\":1}", "line 2: missing field `wall_s` (column 14)");
        wrong("[1,2]", "line 1: it is no JSON object");
        wrong(r#"{"wall_s":1,"core":2}"#, "unknown field `core`");
        wrong(r#"{"wall_s":-1}"#, "job 1: wall_s is -1");
        wrong("{\"job\":3,\"wall_s\":1}\n{\"job\":3,\"wall_s\":1}", "there are two jobs 3");
        wrong(r#"{"wall_s":1,"memory_ramp":0}"#, "job 1: memory_ramp is 0");
        wrong(r#"{"wall_s":1,"memory_ramp":1.5}"#, "above 0, up to 1");
        wrong(r#"{"wall_s":1,"after":[9]}"#, "job 1 waits for job 9, which is not in the list");
        wrong(
            "{\"wall_s\":1,\"after\":[2],\"name\":\"a\"}\n{\"wall_s\":1,\"after\":[1]}",
            "in a circle: 1 (a) waits for 2 waits for 1 (a)",
        );
    }

    #[test]
    fn a_run_too_long_to_be_played_is_left_out_however_its_memory_grows() {
        let dropped =
            arranged(r#"{"wall_s":1e12,"memory_ramp":1,"ramp_cpu_s":1e12,"cores":4}"#).unwrap().dropped;
        assert_eq!((dropped.too_long, dropped.total()), (1, 1));
    }

    #[test]
    fn a_line_is_parsed() {
        let line = r#"{"job":7,"submit_s":2.5,"wall_s":10,"requested_s":5,"cores":4,"cpu_s":20,"memory_peak_bytes":4096,"memory_ramp":0.5,"ramp_cpu_s":5,"memory_request_bytes":8192,"io_bytes":400,"user":"u","name":"n","list":"l","runs_before":3}"#;
        let jobs = arranged(line).unwrap().jobs;
        let want = Job {
            number: 7,
            submit_us: 2_500_000,
            run_us: 10 * SECOND,
            requested_us: 10 * SECOND,
            processors: 4,
            busy_milli: 500,
            memory: 2048,
            memory_peak: 1024,
            ramp_milli: 500,
            ramp_busy_milli: Some(250),
            io_rate: 10,
            user: 1,
            program: 1,
            list: 0,
            runs_before: 3,
        };
        assert_eq!(jobs, [want]);
        assert_eq!(want.grown_busy_milli(), 750);
    }

    #[test]
    fn a_list_is_one_users_and_only_where_no_dispatcher_splits_it() {
        let line = |user: &str, list: &str| format!("{{\"wall_s\":1,\"user\":\"{user}\"{list}}}\n");
        let named = r#","list":"l""#;
        let text = line("u", named) + &line("v", named) + &line("u", named) + &line("u", "");
        let mut list = List::default();
        text.lines().try_for_each(|line| list.line(line)).unwrap();
        let lists = |fleet: Fleet| {
            let arranged = list.arrange(&fleet).unwrap();
            arranged.jobs.iter().map(|job| job.list).collect::<Vec<_>>()
        };
        assert_eq!(lists(Fleet::own_host(2, u64::MAX)), [1, 2, 1, 0]);
        assert_eq!(lists(Fleet::pool(2)), [0; 4]);
    }

    fn options() -> Options {
        Options { fleet: Fleet::pool(4), dispatch: Dispatch::Easy, runtimes: Runtimes::Requested }
    }

    /// When each job that is played starts and ends.
    fn spans(arranged: &Arranged) -> Vec<(u64, Span)> {
        let played = play(&arranged.jobs, &arranged.graph, &options(), |_| {});
        arranged.jobs.iter().map(|job| job.number).zip(played.spans).collect()
    }

    #[test]
    fn followers_of_an_unplayed_job_wait_for_its_predecessors() {
        let text = "{\"wall_s\":1}\n{\"wall_s\":0,\"after\":[1]}\n{\"wall_s\":1,\"after\":[2]}\n\
                    {\"wall_s\":1e300}\n{\"wall_s\":1,\"cores\":9}\n{\"wall_s\":1,\"submit_s\":-0.0,\"after\":[4,5]}";
        let arranged = arranged(text).unwrap();
        let starts: Vec<_> = spans(&arranged).into_iter().map(|(job, span)| (job, span.start_us)).collect();
        assert_eq!(starts, [(1, 0), (3, SECOND), (6, 0)]);
        let dropped = arranged.dropped;
        assert_eq!((dropped.no_run_time, dropped.too_long, dropped.too_wide), (1, 1, 1));
    }

    #[test]
    fn a_barrier_between_wide_layers_costs_an_edge_for_each_job() {
        const WIDE: u64 = 300;
        let mut list = List::default();
        let job = |wall_s: f64, after: Vec<u64>| Entry { wall_s, after, ..Entry::default() };
        (0..WIDE).for_each(|_| list.add(job(1.0, Vec::new())));
        list.add(job(0.0, (1..=WIDE).collect()));
        (0..WIDE).for_each(|_| list.add(job(1.0, vec![WIDE + 1])));
        let arranged = list.arrange(&Fleet::pool(4)).unwrap();
        assert_eq!(arranged.graph.edges(), 600);
        let spans = spans(&arranged);
        let first_end = spans[..300].iter().map(|(_, span)| span.end_us).max();
        assert_eq!(first_end, spans[300..].iter().map(|(_, span)| span.start_us).min());
    }

    /// The predecessors of each job of a list, through jobs that are not played.
    fn through(entries: &[Entry], played: &[bool]) -> Vec<Vec<usize>> {
        let mut found: Vec<Vec<usize>> = Vec::new();
        // Each waits for earlier jobs alone.
        for entry in entries {
            let of = |&after: &u64| {
                let place = usize::try_from(after - 1).unwrap();
                if played[place] { vec![place] } else { found[place].clone() }
            };
            let all = entry.after.iter().flat_map(of).collect();
            found.push(all);
        }
        found
    }

    #[test]
    fn barriers_play_as_if_each_job_named_what_it_waits_for() {
        let mut drawn = 1_u64;
        let mut draw = |below: u64| {
            drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (drawn >> 33) % below
        };
        for _ in 0..200 {
            let mut list = List::default();
            for number in 1..=40 {
                let after = (0..draw(4)).filter(|_| number > 1).map(|_| draw(number - 1) + 1).collect();
                let wall_s = if draw(2) == 0 { 0.0 } else { (draw(5) + 1) as f64 };
                list.add(Entry { wall_s, submit_s: draw(9) as f64, after, ..Entry::default() });
            }
            let arranged = list.arrange(&Fleet::pool(4)).unwrap();
            let played: Vec<bool> = list.entries().iter().map(|entry| entry.wall_s > 0.0).collect();
            let numbers: Vec<usize> =
                arranged.jobs.iter().map(|job| usize::try_from(job.number).unwrap() - 1).collect();
            let place = |old: &usize| numbers.iter().position(|number| number == old).unwrap();
            let through = through(list.entries(), &played);
            let after = numbers.iter().map(|&old| through[old].iter().map(place).collect()).collect();
            let graph = Graph::new(after).unwrap();
            let direct = play(&arranged.jobs, &graph, &options(), |_| {});
            let spans: Vec<Span> = spans(&arranged).into_iter().map(|(_, span)| span).collect();
            assert_eq!(spans, direct.spans, "{:?}", list.entries());
        }
    }
}
