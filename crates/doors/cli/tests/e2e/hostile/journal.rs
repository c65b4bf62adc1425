//! Requests batched in one turn, and rows that the store refuses: the store stays writable for everybody.

use super::*;
use crate::kind::tests;

tests! {
    Best: ends_a_job_in_the_turn_it_came, says_anything_in_one_turn;
}

/// How many batches are tried, each on a connection of its own.
const BATCHES: u64 = 60;

fn ending(code: i32) -> Ending {
    Ending { exit_code: Some(code), ended_us: 1, ..Ending::default() }
}

fn held() -> JobSpec {
    JobSpec { held: true, ..spec() }
}

fn submit(ticket: u64, spec: JobSpec) -> Request {
    Request::Submit { ticket, spec: Box::new(spec), pid: None }
}

/// The numbers that were given in answer to all that was said before this question.
fn numbers(wire: &mut Wire) -> Vec<u64> {
    wire.send(&Request::Where);
    let mut given = Vec::new();
    loop {
        match wire.hear().expect("the daemon goes on") {
            Reply::Queued { job, .. } => given.push(job),
            Reply::Where { .. } => return given,
            _ => {}
        }
    }
}

/// The store is written; a job of another user's and all these are known after a crash, and their numbers are used up.
fn survives_a_crash(host: &mut Host, given: &[u64]) {
    assert_eq!(host.status(&[]).warnings, Vec::<String>::new());
    let job = victims_job(host, &[], WAIT);
    host.crash();
    host.start_daemon();
    host.until(job, JobState::Running);
    let names = given.iter().map(u64::to_string);
    let report = host.pinfold(["report", "--json"].map(str::to_owned).into_iter().chain(names));
    assert_eq!(report.code, Some(0), "{report:?}");
    assert_eq!(report.out.lines().count(), given.len());
    let next = victims_job(host, &[], WAIT);
    assert!(given.iter().chain([&job]).all(|&number| number < next), "{next} after {given:?} and {job}");
    host.make("go");
    host.until_exit_code(job, 0);
    host.until_exit_code(next, 0);
}

fn ends_a_job_in_the_turn_it_came(kind: Kind) {
    let mut host = shared(kind, &[]);
    let given = speak_as(&host, ATTACKER, |mut wire| {
        wire.send(&submit(1, held()));
        let first = numbers(&mut wire)[0];
        let (mut given, mut job) = (vec![first], first + 1);
        let last_words: [fn(u64) -> Request; 4] = [
            |job| Request::Ended { job, ending: ending(0) },
            |job| Request::Attach { job, phase: Phase::Ended { ending: ending(1), run: None } },
            |job| Request::Attach { job, phase: Phase::Waiting { pid: None } },
            |job| Request::Withdraw { job, reason: "again".to_owned() },
        ];
        for last in last_words {
            let reason = "x".to_owned();
            wire.send_all(&[submit(2, held()), Request::Withdraw { job, reason }, last(job), last(job)]);
            given.extend(numbers(&mut wire));
            job += 1;
        }
        assert_eq!(given, (first..job).collect::<Vec<_>>());
        given
    });
    survives_a_crash(&mut host, &given);
}

/// Numbers that look random, the same in each run.
struct Dice(u64);

impl Dice {
    /// One below `sides`.
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB) % sides
    }
}

/// Something about one of the jobs that are, or are about to be.
fn anything(dice: &mut Dice, next: u64) -> Request {
    let job = next - 1 + dice.roll(4);
    let code = i32::try_from(dice.roll(200)).expect("a small number");
    let start =
        || Box::new(pinfold_proto::start::Start { words: vec!["x".to_owned()], ..Default::default() });
    match dice.roll(16) {
        0..4 => {
            submit(dice.roll(9), JobSpec { held: dice.roll(2) == 0, requeue: dice.roll(2) == 0, ..spec() })
        }
        4..6 => Request::Withdraw { job, reason: format!("{code}") },
        6..8 => Request::Ended { job, ending: ending(code) },
        8 => Request::Attach { job, phase: Phase::Ended { ending: ending(code), run: None } },
        9 => Request::Attach { job, phase: Phase::Waiting { pid: None } },
        10 => Request::Attach { job, phase: Phase::Running { pid: std::process::id() } },
        11 => Request::Control { job, verb: Verb::Cancel { signal: 0 } },
        12 => Request::Control { job, verb: Verb::Release },
        13 => Request::Control { job, verb: Verb::Hold },
        14 => Request::Keep { job, start: start() },
        _ => Request::Presented,
    }
}

fn says_anything_in_one_turn(kind: Kind) {
    let mut host = shared(kind, &["slots.factor=4"]);
    let mut given = Vec::new();
    for seed in 0..BATCHES {
        let (mut dice, next) = (Dice(seed), given.last().map_or(1, |last| last + 1));
        let words: Vec<Request> = (0..12).map(|_| anything(&mut dice, next)).collect();
        let said = format!("{words:?}");
        let new = speak_as(&host, ATTACKER, |mut wire| {
            wire.send_all(&words);
            numbers(&mut wire)
        });
        given.extend(new);
        let warnings = host.status(&[]).warnings;
        assert_eq!(warnings, Vec::<String>::new(), "seed {seed}: {said}");
    }
    assert!(given.len() > usize::try_from(BATCHES).expect("few"), "{}", given.len());
    survives_a_crash(&mut host, &given);
}
