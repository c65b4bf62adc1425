//! Job classes that run faster spread, and others that do not: whether the policy places them as the best choice would.
//!
//! Each class has a gain by a spread placement, and scatters; its jobs come in turn, on a machine of four caches that
//! others use too. The best is known beforehand, by comparing both placements without any scatter.
#![expect(clippy::unwrap_used, reason = "a test stops where its own input is not as it should be")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "lengths of some seconds, and counts of some thousands"
)]

use std::fmt::Write as _;

use pinfold_policy::{Action, Event, Instant, JobId, Kind, Known, Machine, Policy, Ran, Request, Shape};
use pinfold_topo::synthetic::facts_of;

/// The gain of a spread run, in thousandths; LS-Dyna is published with 105 and -52. Gains between 0 and the required 3 %
/// are left out: there both placements are equal to the policy.
const GAINS: [i32; 8] = [-200, -100, -52, -20, 60, 105, 150, 250];
/// The deviation of a run's length, in thousandths.
const SCATTERS: [u32; 5] = [2, 10, 20, 50, 100];
const KINDS: u64 = 40;
const RUNS: usize = 32;
const CORES: u32 = 4;

/// A number of a seed, from 0 to 1.
fn part(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    f64::from((*state >> 33) as u32) / f64::from(1u32 << 31)
}

struct World {
    policy: Policy,
    now: u64,
    next: u64,
    dice: u64,
}

impl World {
    /// Two sockets, each of two caches of four cores, on which some other jobs are all the time.
    fn new() -> Self {
        let topology = facts_of("pack:2 numa:1 l3:2 core:4 pu:1").unwrap().assemble().unwrap();
        let mut world = Self { policy: Policy::default(), now: 1_000_000, next: 1, dice: 12 };
        world.step(Event::Machine(Machine::of(&topology, &topology.usable())));
        for _ in 0..3 {
            world.start(Request::plain(JobId(0)));
        }
        world
    }

    fn step(&mut self, event: Event) -> Vec<pinfold_policy::Decision> {
        self.policy.step(Instant(self.now), event)
    }

    fn start(&mut self, request: Request) -> JobId {
        let job = JobId(self.next);
        self.next += 1;
        let decisions = self.step(Event::Submit(Request { job, ..request }));
        assert!(matches!(decisions[..], [pinfold_policy::Decision { action: Action::Start { .. }, .. }]));
        self.step(Event::Started(job));
        job
    }

    /// A run of a kind, from its start to its end, as the daemon tells of it.
    fn run(&mut self, kind: Kind, gain: f64, scatter: f64) -> (Option<Known>, u64) {
        let job = self.start(Request { cores: CORES, kind: Some(kind), ..Request::plain(JobId(0)) });
        let lay = self.policy.job(job).unwrap().lay.unwrap();
        let factor = if lay.shape == Shape::Spread { 1.0 - gain } else { 1.0 };
        // About normal: the sum of twelve.
        let normal = (0..12).map(|_| part(&mut self.dice)).sum::<f64>() - 6.0;
        let length_us = (6e7 * factor * (scatter * normal).exp()) as u64;
        self.now += length_us;
        if lay.pure {
            self.step(Event::Ran(Ran { kind, shape: lay.shape, length_us }));
        }
        let known = self.policy.known_of(job);
        self.step(Event::Exited(job));
        (known, (6e7 * factor) as u64)
    }
}

#[test]
fn kinds_lie_as_the_best_choice_would_lay_them() {
    let mut world = World::new();
    let mut number = 0;
    let mut table = String::from(
        "| gain | scatter | decided | as the best | runs until then | time lost to the best |\n",
    );
    let (mut decided, mut right, mut kinds) = (0u64, 0u64, 0u64);
    for gain in GAINS {
        for scatter in SCATTERS {
            let (mut ours, mut best, mut until, mut here, mut good) = (0, 0, 0, 0, 0);
            let part = f64::from(gain) / 1000.0;
            for _ in 0..KINDS {
                number += 1;
                let kind = Kind::of(number);
                let mut settled = None;
                for run in 0..RUNS {
                    let (known, length_us) = world.run(kind, part, f64::from(scatter) / 1000.0);
                    (ours, best) = (ours + length_us, best + (6e7 * (1.0 - part.max(0.0))) as u64);
                    if let Some(known) = known.filter(|known| settled.is_none() && known.is_sure()) {
                        settled = Some((run + 1, known.usual));
                    }
                }
                if let Some((runs, usual)) = settled {
                    let wanted = if gain > 0 { Shape::Spread } else { Shape::Compact };
                    (here, until, good) = (here + 1, until + runs, good + u64::from(usual == wanted));
                }
            }
            (decided, right, kinds) = (decided + here, right + good, kinds + KINDS);
            let mean = if here > 0 { format!("{:.1}", until as f64 / here as f64) } else { "-".to_owned() };
            let lost = 100.0 * (ours as f64 / best as f64 - 1.0);
            writeln!(
                table,
                "| {:+.1} % | {:.1} % | {here} of {KINDS} | {good} | {mean} | {lost:.1} % |",
                f64::from(gain) / 10.0,
                f64::from(scatter) / 10.0
            )
            .unwrap();
        }
    }
    println!("{table}{right} of {decided} decided kinds, of {kinds} in all");
    assert!(decided * 10 >= kinds * 7, "{decided} of {kinds} are decided\n{table}");
    assert!(right * 1000 >= decided * 999, "{right} of {decided}\n{table}");
}
