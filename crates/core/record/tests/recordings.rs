//! A host's days, recorded and played again: the same decisions, whatever the recording began in the middle of.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::time::Duration;

use pinfold_policy::{
    Action, Aside, Claim, Command, Decision, Event, Instant, JobId, JobMemory, Kind, Machine, MemorySample,
    MemorySettings, Place, Policy, Preemption, Project, Request, Sample, Settings,
};
use pinfold_record::frame::Step;
use pinfold_record::keep::Recorder;
use pinfold_record::play::Player;
use pinfold_record::write::Writer;
use pinfold_record::{mask, ring};
use pinfold_topo::CpuSet;
use proptest::prelude::*;

const GIB: u64 = 1 << 30;
/// Of all files together in the test of that.
const BOUND: u64 = 1 << 16;

/// Something that happens to the host, before the jobs that there are have a say in it.
#[derive(Debug, Clone)]
enum Happening {
    Submit { priority: u8, cores: u32, memory: Option<u64>, project: u8, aside: bool, class: u8 },
    Exit(usize),
    Command(usize, u8),
    Memory { short: bool, held: u64 },
    Busy(u16),
    Learned(u8, u64),
    Settings { factor: u32, hard: bool },
    Tick,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (1u8..=16, 1u32..=3, proptest::option::of(1u64..4), 0u8..3, proptest::bool::weighted(0.1), 0u8..4)
            .prop_map(|(priority, cores, memory, project, aside, class)| {
                Happening::Submit { priority, cores, memory, project, aside, class }
            }),
        3 => (0usize..64).prop_map(Happening::Exit),
        1 => (0usize..64, 0u8..6).prop_map(|(job, what)| Happening::Command(job, what)),
        3 => (any::<bool>(), 0u64..4).prop_map(|(short, held)| Happening::Memory { short, held }),
        1 => (0u16..=1000).prop_map(Happening::Busy),
        1 => (0u8..4, 1u64..4).prop_map(|(class, most)| Happening::Learned(class, most)),
        1 => (0u32..=3000, any::<bool>()).prop_map(|(factor, hard)| Happening::Settings { factor, hard }),
        1 => Just(Happening::Tick),
    ]
}

/// A host on which jobs do what they are told.
#[derive(Default)]
struct Host {
    policy: Policy,
    now_us: u64,
    submitted: u64,
    live: BTreeSet<JobId>,
    steps: Vec<Step>,
    recorder: Option<Recorder>,
}

impl Host {
    fn new() -> Self {
        let mut host = Self::default();
        let core = |os: u32| format!("{os}").parse::<CpuSet>().expect("a set");
        host.step(Event::Configure(settings(1500, false)));
        let asides = vec![Aside { name: "nightly".to_owned(), cores: vec![core(4)], ..Aside::default() }];
        host.step(Event::Machine(Machine { asides, ..Machine::flat((0..4).map(core).collect()) }));
        host
    }

    fn step(&mut self, event: Event) {
        self.now_us += 137_000;
        let now = Instant(self.now_us);
        let kept = self.recorder.as_mut().is_some_and(|recorder| recorder.before(&self.policy, now.0));
        let decisions = self.policy.step(now, event.clone());
        let step = Step { now, event, decisions: decisions.clone() };
        match &mut self.recorder {
            Some(recorder) if kept => recorder.step(step),
            Some(_) => {}
            None => self.steps.push(step),
        }
        decisions.into_iter().for_each(|decision| self.obey(decision));
    }

    fn obey(&mut self, Decision { job, action, .. }: Decision) {
        match action {
            Action::Start { .. } => {
                self.live.insert(job);
                self.step(Event::Started(job));
            }
            Action::Requeue => {
                self.live.remove(&job);
                self.step(Event::Requeued(job));
            }
            Action::Signal { .. } => self.exit(job),
            _ => {}
        }
    }

    fn exit(&mut self, job: JobId) {
        if self.live.remove(&job) {
            self.step(Event::Exited(job));
        }
    }

    fn happens(&mut self, what: Happening) {
        match what {
            Happening::Submit { priority, cores, memory, project, aside, class } => {
                self.submitted += 1;
                let request = Request {
                    priority,
                    cores,
                    memory: memory.map(|gib| gib * GIB),
                    project: [None, Some("genome".to_owned()), Some("climate".to_owned())]
                        [usize::from(project)]
                    .clone(),
                    aside: aside.then(|| "nightly".to_owned()),
                    kind: Some(Kind::of(class.into())),
                    requeue: class == 3,
                    place: (class == 2).then_some(Place::Spread),
                    ttl: (class == 1).then_some(Duration::from_secs(20)),
                    after: if class == 0 { vec![JobId(self.submitted / 2)] } else { Vec::new() },
                    ..Request::plain(JobId(self.submitted))
                };
                self.step(Event::Submit(request));
            }
            Happening::Exit(nth) => {
                if let Some(&job) = self.live.iter().nth(nth % self.live.len().max(1)) {
                    self.exit(job);
                }
            }
            Happening::Command(nth, what) => {
                let job = JobId(1 + nth as u64 % self.submitted.max(1));
                let commands = [
                    Command::Suspend,
                    Command::Resume,
                    Command::Hold,
                    Command::Release,
                    Command::SetPriority(14),
                    Command::SetMemory(GIB),
                ];
                self.step(Event::Command(job, commands[usize::from(what)]));
            }
            Happening::Memory { short, held } => {
                let of = |&job| JobMemory {
                    job,
                    resident_bytes: held * GIB,
                    swapped_bytes: GIB / 8,
                    cache_bytes: 0,
                    waited_milli: Some(5),
                };
                let jobs = self.live.iter().map(of).collect();
                self.step(Event::Memory(MemorySample {
                    available_bytes: if short { GIB / 16 } else { 6 * GIB },
                    swap_free_bytes: 8 * GIB,
                    swap_bytes_per_s: GIB / 4,
                    stalled_milli: if short { 300 } else { 0 },
                    jobs,
                }));
            }
            Happening::Busy(idle) => self.step(Event::Sample(Sample {
                idle_milli: vec![idle; 4],
                backfill_milli: idle.into(),
                stalled_milli: self.live.iter().map(|&job| (job, idle / 4)).collect(),
            })),
            Happening::Learned(class, most) => {
                self.step(Event::Learned(Kind::of(class.into()), Claim::of(most * GIB)));
            }
            Happening::Settings { factor, hard } => self.step(Event::Configure(settings(factor, hard))),
            Happening::Tick => self.step(Event::Tick),
        }
    }
}

fn settings(factor_milli: u32, hard: bool) -> Settings {
    let project = |name: &str| Project { name: name.to_owned(), cores: Some(1), memory_bytes: Some(GIB) };
    Settings {
        factor_milli,
        preemption: if hard { Preemption::Hard } else { Preemption::Soft },
        memory: MemorySettings { budget_bytes: 8 * GIB, steers: true, ..MemorySettings::default() },
        projects: vec![project("genome"), project("climate")],
        ..Settings::default()
    }
}

/// A recording that begins after the first `before` things that happened.
fn recording(days: &[Happening], before: usize) -> Vec<u8> {
    let mut host = Host::new();
    let (first, then) = days.split_at(before.min(days.len()));
    first.iter().for_each(|what| host.happens(what.clone()));
    host.steps.clear();
    let mut writer = Writer::begin(Vec::new(), host.policy.clone(), host.now_us).expect("it is written");
    then.iter().for_each(|what| host.happens(what.clone()));
    host.steps.into_iter().for_each(|step| writer.step(step).expect("it is written"));
    writer.finish().expect("it is written")
}

/// Plays to the end; gives the steps, and the first that differs.
fn play(recording: &[u8]) -> (u64, Option<u64>) {
    let mut player = Player::open(recording).expect("a recording");
    while let Some(played) = player.step().expect("a step") {
        if !played.agrees() {
            return (player.steps(), Some(played.step));
        }
    }
    (player.steps(), None)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_replay_decides_as_recorded(
        days in proptest::collection::vec(happening(), 1..120),
        before in 0usize..100,
    ) {
        let recording = recording(&days, before);
        prop_assert_eq!(play(&recording).1, None);
    }

    #[test]
    fn without_names_the_same_is_decided(days in proptest::collection::vec(happening(), 40..80), before in 0usize..40) {
        let recording = recording(&days, before);
        let copy = mask::copy(&recording[..], &recording[..], Vec::new()).expect("a copy");
        prop_assert_eq!(play(&copy), play(&recording));
        let mut plain = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&copy[..]), &mut plain).expect("it unpacks");
        for name in ["genome", "climate", "nightly"] {
            prop_assert!(!plain.windows(name.len()).any(|bytes| bytes == name.as_bytes()), "{} is left", name);
        }
    }

    /// A recording is cut anywhere, or has a byte that is another: no step is wrong before the damage shows.
    #[test]
    fn damage_is_told(at in 0.0..1.0f64, flip in 1u8.., cut in any::<bool>()) {
        let days = vec![
            Happening::Submit { priority: 3, cores: 1, memory: None, project: 1, aside: false, class: 2 },
            Happening::Memory { short: true, held: 2 },
            Happening::Exit(0),
        ];
        let mut damaged = recording(&days, 1);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a length")]
        let at = (damaged.len() as f64 * at) as usize;
        if cut { damaged.truncate(at) } else { damaged[at] ^= flip }
        if let Ok(mut player) = Player::open(&damaged[..]) {
            while let Ok(Some(_)) = player.step() {}
        }
    }
}

#[test]
fn the_first_that_differs_is_named() {
    let mut host = Host::new();
    host.steps.clear();
    let mut writer = Writer::begin(Vec::new(), host.policy.clone(), 0).expect("it is written");
    for class in [2, 2, 2] {
        let (memory, aside) = (None, false);
        host.happens(Happening::Submit { priority: 10, cores: 1, memory, project: 0, aside, class });
    }
    let last = host.steps.iter().rposition(|step| !step.decisions.is_empty()).expect("a job starts");
    host.steps[last].decisions.clear();
    host.steps.into_iter().for_each(|step| writer.step(step).expect("it is written"));
    let recording = writer.finish().expect("it is written");
    assert_eq!(play(&recording).1, Some(last as u64 + 1));
}

#[test]
fn invalid_recordings_are_refused() {
    for (bytes, words) in [(&b"job,start_s\n1,2\n"[..], "gzip"), (&[][..], "holds nothing yet")] {
        let error = Player::open(bytes).expect_err("no recording").to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// The thread writes files, each of which plays, and all together stay below the bound.
/// A head is short: one that goes on is not read to its end.
#[test]
fn a_head_without_end_is_no_recording() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // A map of one entry, `Head`, whose only field is a text of 2^40 bytes.
    packed.write_all(b"\xa1\x64Head\xa1\x67program\x7b\x00\x00\x01\x00\x00\x00\x00\x00").unwrap();
    (0..64).for_each(|_| packed.write_all(&vec![b'x'; 1 << 20]).unwrap());
    let packed = packed.finish().unwrap();
    let error = Player::open(&packed[..]).map(drop).unwrap_err().to_string();
    assert_eq!(error, "it is no recording: a frame of more than 1048576 bytes, and that is the most here");
}

#[test]
fn a_host_keeps_recordings_below_a_bound() {
    let dir = tempfile::tempdir().expect("a directory");
    let ring_dir = dir.path().join("events");
    let failed = Box::new(|words: &str| panic!("{words}"));
    let mut host = Host::new();
    host.recorder = Some(Recorder::start(&ring_dir, BOUND, failed).expect("a thread"));
    for round in 0u64..12_000 {
        host.happens(match round % 4 {
            0 => Happening::Submit {
                priority: 1 + u8::try_from(round % 16).expect("small"),
                cores: 1,
                memory: Some(round % 7),
                project: 0,
                aside: false,
                class: 2,
            },
            1 => Happening::Memory { short: round % 3 == 0, held: round % 5 },
            2 => Happening::Exit(usize::try_from(round).expect("small")),
            _ => Happening::Busy(u16::try_from(round * 7919 % 1000).expect("small")),
        });
        // A host has pauses, in which the thread catches up.
        while round % 64 == 0 && host.recorder.as_ref().is_some_and(Recorder::is_behind) {
            std::thread::yield_now();
        }
    }
    drop(host);
    let files = ring::files(&ring_dir).expect("files");
    assert!(files.len() > 1, "{files:?}");
    let bytes: u64 = files.iter().map(|path| path.metadata().expect("a file").len()).sum();
    assert!(bytes <= BOUND + BOUND / 4, "{bytes} bytes in {files:?}");
    for path in files {
        let (steps, differs) = play(&std::fs::read(&path).expect("a file"));
        assert!(steps > 0 && differs.is_none(), "{}: {steps} {differs:?}", path.display());
    }
}
