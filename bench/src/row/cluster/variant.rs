//! The hosts that stand beside each other, and one run on so many of them.

use pinfold_cluster::dispatch::Dispatch;
use pinfold_cluster::fleet::Fleet;
use pinfold_cluster::graph::Graph;
use pinfold_cluster::job::Job;
use pinfold_cluster::metrics::{Metrics, Span, metrics};
use pinfold_cluster::play::Options;
use pinfold_cluster::runtimes::Runtimes;
use pinfold_proto::config::Config;
use pinfold_whatif::play::{Hardware, Hosts, Toll, play};

/// What decides on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A job has its hosts for itself.
    Whole,
    /// Jobs share hosts by cores and memory asked for.
    Plain,
    /// The same, and pinfold with so many slots for a thousand cores. `predicts`: as by default, a job starts where
    /// what all are expected to come to hold fits.
    Pinfold { factor_milli: u32, swap: Swap, predicts: bool },
}

/// The swap of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Swap {
    None,
    /// As large as RAM; the dispatcher hands out RAM alone.
    Kept,
    /// As large as RAM; the dispatcher hands out both.
    Given,
}

/// See the module's page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Variant {
    pub kind: Kind,
    pub rule: Dispatch,
    /// Jobs ask for what is advised.
    pub advised: bool,
}

/// Slots for a thousand cores that are tried.
const FACTORS_MILLI: [u32; 3] = [1000, 1500, 2000];

impl Variant {
    /// What the others are measured by: EASY on plain hosts, shared by cores and memory.
    pub(super) fn measure() -> Self {
        Self { kind: Kind::Plain, rule: Dispatch::Easy, advised: false }
    }

    /// All, in the order of the table.
    pub(super) fn all() -> Vec<Self> {
        let plain = |kind, rule| Self { kind, rule, advised: false };
        let mut all = vec![
            plain(Kind::Whole, Dispatch::Fcfs),
            plain(Kind::Whole, Dispatch::Easy),
            plain(Kind::Plain, Dispatch::Fcfs),
            Self::measure(),
            Self { advised: true, ..Self::measure() },
        ];
        let pinfold = |swap, predicts, advised| {
            FACTORS_MILLI.map(|factor_milli| Self {
                kind: Kind::Pinfold { factor_milli, swap, predicts },
                rule: Dispatch::Easy,
                advised,
            })
        };
        for advised in [false, true] {
            for swap in [Swap::None, Swap::Kept, Swap::Given] {
                all.extend(pinfold(swap, true, advised));
            }
        }
        all.extend(pinfold(Swap::Given, false, false));
        all
    }

    /// In words.
    pub(super) fn name(&self) -> String {
        let rule = if self.rule == Dispatch::Fcfs { "FCFS" } else { "EASY" };
        let hosts = match self.kind {
            Kind::Whole => format!("whole hosts, {rule}"),
            Kind::Plain => format!("plain, {rule}"),
            Kind::Pinfold { factor_milli, swap, predicts } => {
                let swap = match swap {
                    Swap::None => "no swap",
                    Swap::Kept => "swap kept",
                    Swap::Given => "swap given out",
                };
                let predicts = if predicts { "" } else { ", no prediction" };
                format!("pinfold {}, {swap}{predicts}", f64::from(factor_milli) / 1000.0)
            }
        };
        if self.advised { format!("{hosts}, advised") } else { hosts }
    }
}

/// What each host is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Site {
    pub cores: u32,
    pub ram: u64,
    swap_rate: u64,
}

/// What came of a run.
#[derive(Debug)]
pub(super) struct Figures {
    pub metrics: Metrics,
    pub toll: Toll,
    /// Jobs that never ended.
    pub stuck: usize,
    pub spans: Vec<Span>,
}

impl Site {
    pub(super) fn new(cores: u32, ram_per_core: u64, swap_rate: u64) -> Self {
        Self { cores, ram: ram_per_core.saturating_mul(cores.into()), swap_rate: swap_rate.max(1) }
    }

    /// One run on so many hosts; `None`: some job has no room on them.
    pub(super) fn play(&self, variant: &Variant, hosts: u32, jobs: &[Job]) -> Option<Figures> {
        let each = self.hosts(variant.kind);
        let given = matches!(variant.kind, Kind::Pinfold { swap: Swap::Given, .. });
        let fleet = Fleet {
            hosts,
            cores: self.cores,
            slots: each.slots(self.cores),
            memory: Some(self.ram.saturating_mul(if given { 2 } else { 1 })),
            job_memory: self.ram,
        };
        let whole: Vec<Job>;
        let played = if variant.kind == Kind::Whole {
            whole = jobs.iter().map(|job| self.alone(job)).collect();
            &whole
        } else {
            jobs
        };
        if played.iter().any(|job| fleet.room(job) < job.processors) {
            return None;
        }
        let options = Options { fleet, dispatch: variant.rule, runtimes: Runtimes::Requested };
        let outcome = play(played, &Graph::default(), &options, &each, |_| {});
        // A job has done its own work, on however many cores it was.
        let metrics = metrics(jobs, &outcome.played.spans, fleet.all_cores());
        Some(Figures { metrics, toll: outcome.toll, stuck: outcome.stuck, spans: outcome.played.spans })
    }

    fn hosts(&self, kind: Kind) -> Hosts {
        let hardware =
            |swap| Some(Hardware { ram: self.ram, swap, out_rate: self.swap_rate, in_rate: self.swap_rate });
        match kind {
            Kind::Whole => Hosts::plain(None),
            Kind::Plain => Hosts::plain(hardware(0)),
            Kind::Pinfold { factor_milli, swap, predicts } => {
                // Plain hosts keep nothing back of what jobs may have, so these do not either.
                let config = Config {
                    slots_factor_milli: factor_milli,
                    host_memory_reserve: Some(0),
                    memory_prediction: predicts,
                    ..Config::default()
                };
                let swap = if swap == Swap::None { 0 } else { self.ram };
                Hosts::pinfold(&config, None, self.cores, hardware(swap))
            }
        }
    }

    /// The job as one that has whole hosts: as many as its cores or its memory need.
    fn alone(&self, job: &Job) -> Job {
        let by_memory = self.ram.checked_div(job.memory).unwrap_or(u64::MAX);
        let each = self.cores.min(u32::try_from(by_memory).unwrap_or(u32::MAX)).max(1);
        let processors = job.processors.div_ceil(each).saturating_mul(self.cores);
        Job { processors, memory: 0, memory_peak: 0, ..*job }
    }
}

#[cfg(test)]
mod tests {
    use pinfold_cluster::SECOND;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn site() -> Site {
        Site::new(4, GIB, 500 << 20)
    }

    /// Jobs of a minute, one a second, that ask for 2 GiB a processor and hold a half.
    fn jobs(count: u64, processors: u32, busy_milli: u16) -> Vec<Job> {
        let job = |number| Job {
            number,
            submit_us: number * SECOND,
            run_us: 60 * SECOND,
            requested_us: 60 * SECOND,
            processors,
            busy_milli,
            memory: 2 * GIB,
            memory_peak: GIB / 2,
            user: 1,
            program: 1,
            ..Job::default()
        };
        (0..count).map(job).collect()
    }

    #[test]
    fn a_job_with_hosts_for_itself_has_as_many_as_it_needs() {
        let alone = |processors| site().alone(&jobs(1, processors, 1000)[0]).processors;
        // Two processors fill a host's memory.
        assert_eq!([alone(1), alone(2), alone(3)], [4, 4, 8]);
    }

    #[test]
    fn sharing_and_slots_shorten_waits_and_what_has_no_room_is_not_played() {
        let wait = |kind, jobs: &[Job]| {
            let figures = site().play(&Variant { kind, ..Variant::measure() }, 2, jobs).unwrap();
            assert_eq!((figures.stuck, figures.toll.killed), (0, 0));
            figures.metrics.mean_wait_s
        };
        let list = jobs(24, 1, 400);
        let (whole, plain) = (wait(Kind::Whole, &list), wait(Kind::Plain, &list));
        assert!(plain < whole, "{plain} {whole}");
        let suspended = wait(Kind::Pinfold { factor_milli: 2000, swap: Swap::Given, predicts: false }, &list);
        assert!(suspended < plain, "{suspended} {plain}");
        assert!(site().play(&Variant::measure(), 1, &jobs(1, 3, 1000)).is_none());
    }

    #[test]
    fn each_variant_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<String> = Variant::all().iter().map(Variant::name).collect();
        assert_eq!(names.len(), Variant::all().len());
        assert!(Variant::all().contains(&Variant::measure()));
    }
}
