//! `cargo xtask cost`: the scheduler's time for an event, on a full machine with many jobs waiting.
//!
//! In CPU time of this thread: on a shared machine the wall clock includes other load.

use std::time::Duration;

use pinfold_policy::{
    Action, Class, Decision, Event, Instant, JobId, Machine, Policy, Request, Sample, Settings,
};
use pinfold_topo::{CpuSet, PuOs};

#[derive(Debug, clap::Args)]
pub(crate) struct CostArgs {
    /// Events to measure for each line
    #[arg(long, default_value_t = 200_000)]
    events: u64,
}

pub(crate) fn cost(args: &CostArgs) -> anyhow::Result<()> {
    println!("cores  waiting  per exit, refill and submission  per sample");
    for cores in [2, 8, 64] {
        for waiting in [0, 1_000, 100_000] {
            let mut bench = Bench::new(cores, waiting);
            let turnover_us = bench.turnover(args.events / 3);
            let sample_us = bench.samples(args.events / 100);
            println!("{cores:5}  {waiting:7}  {turnover_us:26.2} us/event  {sample_us:7.2} us");
        }
    }
    Ok(())
}

struct Bench {
    policy: Policy,
    now: u64,
    next: u64,
    cores: u32,
    running: Vec<JobId>,
}

impl Bench {
    /// A full machine with this many jobs waiting, of several priorities, widths and classes.
    fn new(cores: u32, waiting: u64) -> Self {
        let mut bench = Self { policy: Policy::default(), now: 1, next: 1, cores, running: Vec::new() };
        bench.step(Event::Configure(Settings::default()));
        let cores = (0..cores).map(|pu| CpuSet::single(PuOs(pu))).collect();
        bench.step(Event::Machine(Machine::flat(cores)));
        let (_, total) = bench.policy.slots();
        for _ in 0..waiting + total as u64 {
            bench.submit();
        }
        bench
    }

    fn step(&mut self, event: Event) {
        self.now += 1;
        let decisions = self.policy.step(Instant(self.now), event);
        self.answer(decisions);
    }

    fn answer(&mut self, decisions: Vec<Decision>) {
        for Decision { job, action, .. } in decisions {
            if let Action::Start { .. } = action {
                self.running.push(job);
                self.step(Event::Started(job));
            }
        }
    }

    fn submit(&mut self) {
        let number = self.next;
        self.next += 1;
        let class = match number % 11 {
            0 => Some(Class::Backfill),
            1 => Some(Class::Primary),
            _ => None,
        };
        let priority = [8, 10, 10, 10, 12][usize::try_from(number % 5).unwrap_or(0)];
        self.step(Event::Submit(Request {
            priority,
            cores: if number.is_multiple_of(7) { 2 } else { 1 },
            class,
            ..Request::plain(JobId(number))
        }));
    }

    /// Microseconds per event while jobs end, others start and new jobs come.
    fn turnover(&mut self, rounds: u64) -> f64 {
        let began = cpu_time();
        let mut events: u64 = 0;
        for round in 0..rounds {
            let before = self.running.len();
            if before > 0 {
                let index = usize::try_from(round).unwrap_or(0) * 7 % before;
                let job = self.running.swap_remove(index);
                self.step(Event::Exited(job));
            }
            self.submit();
            // The exit, the submission, and the answer to each start.
            events += 2 + (self.running.len() + 1).saturating_sub(before) as u64;
        }
        per_event_us(began, events)
    }

    /// Microseconds per sample, by turns without and with a job that moves.
    fn samples(&mut self, rounds: u64) -> f64 {
        let began = cpu_time();
        for round in 0..rounds {
            let idle =
                |core: u32| u16::try_from((u64::from(core) * 37 + round / 4 * 300) % 1000).unwrap_or(0);
            let idle_milli = (0..self.cores).map(idle).collect();
            self.now += 250_000;
            self.step(Event::Sample(Sample { idle_milli, backfill_milli: 0, stalled_milli: Vec::new() }));
        }
        per_event_us(began, rounds)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count of events is far below 2^52")]
fn per_event_us(began: Duration, events: u64) -> f64 {
    cpu_time().saturating_sub(began).as_secs_f64() * 1e6 / events.max(1) as f64
}

/// The CPU time this thread has used.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
