//! Random jobs with resources: nobody gets what is not there, nobody starves, and nothing is kept for nobody.

use std::collections::BTreeMap;

use pinfold_topo::{CpuSet, PuOs};
use proptest::prelude::*;

use crate::{
    Action, Adopted, Amount, ArrayLimit, Class, Command, Event, Instant, JobId, Machine, Policy, Request,
    Running, Settings,
};

const TOTALS: [(&str, u64); 3] = [("gpu", 4), ("licence", 2), ("disk", 9)];

fn amounts(list: &[(usize, u64)]) -> Vec<Amount> {
    let mut by_name = BTreeMap::new();
    for &(which, count) in list {
        let (name, total) = TOTALS[which % TOTALS.len()];
        by_name.insert(name, 1 + count % total);
    }
    by_name.into_iter().map(|(name, count)| Amount { name: name.to_owned(), count }).collect()
}

/// A host of four cores.
fn host(schedule: bool) -> Policy {
    let mut policy = Policy::default();
    let resources = TOTALS.iter().map(|&(name, count)| Amount { name: name.to_owned(), count }).collect();
    policy.step(Instant(0), Event::Configure(Settings { resources, schedule, ..Settings::default() }));
    let cores = (0..4).map(|pu| CpuSet::single(PuOs(pu))).collect();
    policy.step(Instant(0), Event::Machine(Machine::flat(cores)));
    policy
}

#[derive(Debug, Clone)]
enum Step {
    Submit {
        resources: Vec<(usize, u64)>,
        cores: u32,
        priority: u8,
    },
    /// The job of this place among those that run ends.
    Exit(usize),
    Suspend(usize),
    Resume(usize),
    /// The start of a job fails that was just submitted.
    Fails {
        resources: Vec<(usize, u64)>,
    },
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let resources = prop::collection::vec((0usize..3, 0u64..9), 0..3);
    let failing = resources.clone();
    let step = prop_oneof![
        6 => (resources, 1u32..4, 1u8..=16)
            .prop_map(|(resources, cores, priority)| Step::Submit { resources, cores, priority }),
        4 => any::<usize>().prop_map(Step::Exit),
        1 => any::<usize>().prop_map(Step::Suspend),
        1 => any::<usize>().prop_map(Step::Resume),
        1 => failing.prop_map(|resources| Step::Fails { resources }),
    ];
    prop::collection::vec((0u64..200_000_000, step), 1..80)
}

/// A host, and what its jobs hold by what was decided and told alone.
struct Run {
    policy: Policy,
    now: u64,
    asked: BTreeMap<JobId, Vec<Amount>>,
    started: Vec<JobId>,
    /// The next start fails.
    fails: bool,
}

impl Run {
    fn new(schedule: bool) -> Self {
        Self { policy: host(schedule), now: 0, asked: BTreeMap::new(), started: Vec::new(), fails: false }
    }

    fn send(&mut self, event: Event) {
        let decisions = self.policy.step(Instant(self.now), event);
        let starts = |action: &Action| matches!(action, Action::Start { .. });
        let begun: Vec<JobId> =
            decisions.iter().filter(|one| starts(&one.action)).map(|one| one.job).collect();
        self.started.extend(&begun);
        for (name, total) in TOTALS {
            let asked =
                |job: &JobId| self.asked[job].iter().find(|one| one.name == name).map_or(0, |one| one.count);
            let held: u64 = self.started.iter().map(asked).sum();
            assert!(held <= total, "{held} of {total} {name} are held");
            assert_eq!(self.policy.rooms().jobs.taken(name), held, "{name}");
        }
        for job in begun {
            if std::mem::take(&mut self.fails) {
                self.started.retain(|&other| other != job);
                let action = Action::Start { class: Class::Primary, cpus: CpuSet::new(), priority: 10 };
                self.send(Event::Failed { job, action, error: "EIO".to_owned() });
                continue;
            }
            self.send(Event::Started(job));
        }
    }

    fn any(&self, at: usize) -> Option<JobId> {
        self.started.get(at.checked_rem(self.started.len())?).copied()
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Submit { resources, cores, priority } => {
                let job = JobId(self.asked.len() as u64 + 1);
                let resources = amounts(&resources);
                self.asked.insert(job, resources.clone());
                self.send(Event::Submit(Request { resources, cores, priority, ..Request::plain(job) }));
            }
            Step::Exit(at) => {
                if let Some(job) = self.any(at) {
                    self.exit(job);
                }
            }
            Step::Suspend(at) => self.command(at, Command::Suspend),
            Step::Resume(at) => self.command(at, Command::Resume),
            Step::Fails { resources } => {
                self.fails = true;
                self.step(Step::Submit { resources, cores: 1, priority: 16 });
                self.fails = false;
            }
        }
    }

    fn exit(&mut self, job: JobId) {
        self.started.retain(|&other| other != job);
        self.send(Event::Exited(job));
    }

    fn command(&mut self, at: usize, command: Command) {
        if let Some(job) = self.any(at) {
            self.send(Event::Command(job, command));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// No two jobs have the same, whatever happens; once nobody new comes, all that wait get their turn.
    #[test]
    fn nobody_gets_what_is_not_there_and_all_get_their_turn(steps in steps(), schedule in prop::bool::weighted(0.8)) {
        let mut run = Run::new(schedule);
        for (pause, step) in steps {
            run.now += pause;
            run.step(step);
        }
        for _ in 0..run.asked.len() + 1 {
            // A start that failed rests for a minute at most.
            run.now += 120_000_000;
            run.send(Event::Tick);
            for job in run.started.clone() {
                run.send(Event::Command(job, Command::Resume));
            }
            let Some(job) = run.any(0) else { break };
            run.exit(job);
        }
        let left: Vec<_> = run.policy.jobs().map(|job| (job.job, job.state)).collect();
        prop_assert!(left.is_empty(), "{left:?} were never started");
    }
}

/// However many small jobs come later, one that wants all GPUs has them after a bounded number of others' starts.
#[test]
fn many_small_ones_do_not_starve_a_large_one() {
    let gpus = |count| vec![Amount { name: "gpu".to_owned(), count }];
    let mut run = Run::new(true);
    let submit = |run: &mut Run, count| {
        let job = JobId(run.asked.len() as u64 + 1);
        run.asked.insert(job, gpus(count));
        run.send(Event::Submit(Request { resources: gpus(count), ..Request::plain(job) }));
        job
    };
    for _ in 0..3 {
        submit(&mut run, 1);
    }
    let large = submit(&mut run, 4);
    let mut others = 0;
    while !run.started.contains(&large) {
        let small = submit(&mut run, 1);
        others += usize::from(run.started.contains(&small));
        assert!(others <= 8, "{others} later jobs were started before job {large}");
        let oldest = run.any(0).expect("some run");
        run.exit(oldest);
    }
    assert!(others > 0, "what is free is used meanwhile");
}

/// One that was found running when there is none of what it has waits once it was ended for others, until there is.
#[test]
fn what_was_found_and_requeued_waits_for_its_resources() {
    for schedule in [true, false] {
        let mut policy = Policy::default();
        let resources = vec![Amount { name: "a".to_owned(), count: 0 }];
        policy.step(Instant(0), Event::Configure(Settings { resources, schedule, ..Settings::default() }));
        policy.step(Instant(0), Event::Machine(Machine::flat(vec![CpuSet::single(PuOs(0))])));
        let request = Request {
            resources: vec![Amount { name: "a".to_owned(), count: 1 }],
            array: Some(ArrayLimit { array: 0, at_most: 1 }),
            list: Some(0),
            ..Request::plain(JobId(6))
        };
        let running = Running {
            started: Instant(0),
            class: Class::Primary,
            cpus: CpuSet::default(),
            frozen: true,
            suspended: false,
        };
        let adopted = Adopted {
            request,
            submitted: Instant(0),
            waits_since: None,
            array_room_since: None,
            running: Some(running),
        };
        policy.step(Instant(0), Event::Adopt(adopted));
        let decisions = policy.step(Instant(0), Event::Requeued(JobId(6)));
        assert!(
            !decisions.iter().any(|one| matches!(one.action, Action::Start { .. })),
            "{schedule} {decisions:?}"
        );
    }
}
