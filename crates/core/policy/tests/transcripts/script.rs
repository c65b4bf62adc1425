//! A transcript: lines that begin with `>` are events, the lines below each are the decisions it brings about.
//!
//! `> TIME EVENT ARGUMENTS`, where `TIME` is `+SECONDS` since the last event, or nothing. Starts are answered
//! at once unless the transcript says `> slow`. A decision has its reason's code and figures; `words.txt` has the sentences.

#![expect(clippy::unwrap_used, reason = "a transcript that cannot be read fails its test")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use pinfold_policy::code::Value;
use pinfold_policy::{
    Action, Adopted, Amount, ArrayLimit, Aside, Claim, Class, Command, Decision, EVIDENCE_RUNS, Event,
    Instant, JobId, JobMemory, Kind, Machine, MemorySample, Place, Policy, Preemption, Project, Ran, Request,
    Running, Sample, Settings, Shape, Wish,
};
use pinfold_topo::synthetic::facts_of;
use pinfold_topo::{CpuSet, PuOs};

/// A scheduler that is fed from a transcript.
#[derive(Debug, Default)]
struct Script {
    policy: Policy,
    now_us: u64,
    slow: bool,
    out: String,
    words: Words,
}

/// The sentences of reasons by code, each once for all numbers that it may name.
pub(crate) type Words = BTreeMap<(&'static str, String), String>;

/// What happens in a transcript: its comments and events, and the decisions of now in place of those that it has.
pub(crate) fn play(transcript: &str, words: &mut Words) -> String {
    let mut script = Script { now_us: 1_000_000_000, words: std::mem::take(words), ..Script::default() };
    for line in transcript.lines() {
        if line.starts_with(['#', '>']) {
            writeln!(script.out, "{line}").unwrap();
        }
        if let Some(event) = line.strip_prefix('>') {
            script.feed(event.trim());
        }
    }
    *words = script.words;
    script.out
}

impl Script {
    fn now(&self) -> Instant {
        Instant(self.now_us)
    }

    fn feed(&mut self, line: &str) {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        if let Some(seconds) = words[0].strip_prefix('+') {
            let us = seconds.parse::<f64>().unwrap() * 1e6;
            self.now_us += format!("{us:.0}").parse::<u64>().unwrap();
            words.remove(0);
        }
        match words.first().copied() {
            Some("slow") => self.slow = true,
            Some("why") => self.why(&words[1..]),
            Some("wakeup") => {
                let in_us = self.policy.next_wakeup().map(|at| at.0.saturating_sub(self.now_us));
                writeln!(self.out, "{}", in_us.map_or("never".into(), |us| format!("{} ms", us / 1000)))
                    .unwrap();
            }
            Some(_) => {
                let event = self.event(&words);
                self.send(event);
            }
            None => self.send(Event::Tick),
        }
    }

    fn why(&mut self, words: &[&str]) {
        let explanation = self.policy.explain(self.now(), job(words[0])).expect("the job is known");
        let numbers: Vec<String> =
            explanation.numbers.iter().map(|number| format!("{} {}", number.name, number.text)).collect();
        writeln!(self.out, "{} [{}] change: {}", explanation.cause, numbers.join(", "), explanation.change)
            .unwrap();
    }

    fn send(&mut self, event: Event) {
        let decisions = self.policy.step(self.now(), event);
        for decision in &decisions {
            writeln!(self.out, "{}", line(decision)).unwrap();
            let sentence = decision.reason.to_string();
            let form = sentence.replace(|letter: char| letter.is_ascii_digit(), "");
            self.words.entry((decision.reason.code(), form)).or_insert(sentence);
        }
        for decision in decisions {
            if matches!(decision.action, Action::Start { .. }) && !self.slow {
                self.send(Event::Started(decision.job));
            }
        }
    }

    fn event(&self, words: &[&str]) -> Event {
        let command = |command| Event::Command(job(words[1]), command);
        match words[0] {
            "machine" => {
                let neighbours_cores = words.get(2).map_or(0, |cores| cores[1..].parse().unwrap());
                let machine = machine(words.get(1).copied().unwrap_or(""));
                Event::Machine(Machine { neighbours_cores, ..machine })
            }
            "set" => Event::Configure(self.settings(&words[1..])),
            "submit" => Event::Submit(request(&words[1..])),
            "adopt" => Event::Adopt(adopted(self.now(), &words[1..])),
            "started" => Event::Started(job(words[1])),
            "exit" => Event::Exited(job(words[1])),
            "requeued" => Event::Requeued(job(words[1])),
            "checkpointed" => {
                let error = (words.len() > 2).then(|| words[2..].join(" "));
                Event::Checkpointed { job: job(words[1]), error }
            }
            "withdraw" => Event::Withdrawn(job(words[1])),
            "gate" => Event::Gate { job: job(words[1]), closed: words[2] == "closed" },
            "tick" => Event::Tick,
            "suspend" => command(Command::Suspend),
            "resume" => command(Command::Resume),
            "hold" => command(Command::Hold),
            "release" => command(Command::Release),
            "again" => command(Command::Requeue),
            "need" => command(Command::SetMemory(mib(words[2]))),
            "cancel" => command(Command::Cancel { signal: 15 }),
            "class" => command(Command::SetClass(match words[2] {
                "any" => None,
                word => Some(class(word)),
            })),
            "priority" => command(Command::SetPriority(words[2].parse().unwrap())),
            "idle" => {
                let (stalled, words): (Vec<&str>, Vec<&str>) =
                    words[1..].iter().copied().partition(|word| word.contains(':'));
                let stall = |word: &&str| {
                    let (number, milli) = word.split_once(':').unwrap();
                    (job(number), milli.parse().unwrap())
                };
                let stalled_milli = stalled.iter().map(stall).collect();
                let (used, cores): (Vec<&str>, Vec<&str>) =
                    words.into_iter().partition(|word| word.starts_with('+'));
                let idle_milli = cores.iter().map(|word| word.parse().unwrap()).collect();
                let backfill_milli = used.first().map_or(0, |word| word[1..].parse().unwrap());
                Event::Sample(Sample { idle_milli, backfill_milli, stalled_milli })
            }
            "waits" => Event::Idle(words[1..].iter().map(|word| job(word)).collect()),
            "others" => Event::Others(words[1].parse().ok()),
            "memory" => Event::Memory(readings(&words[1..])),
            "learned" => {
                let usual_bytes = mib(words[2]);
                let runs = words.get(4).map_or(EVIDENCE_RUNS, |runs| runs.parse().unwrap());
                let claim = Claim { usual_bytes, held_bytes: usual_bytes, most_bytes: mib(words[3]), runs };
                Event::Learned(Kind::of(words[1].parse().unwrap()), claim)
            }
            "ran" => Event::Ran(Ran {
                kind: Kind::of(words[1].parse().unwrap()),
                shape: if words[2] == "apart" { Shape::Spread } else { Shape::Compact },
                length_us: words[3].parse::<u64>().unwrap() * 1000,
            }),
            "fail" => Event::Failed { job: job(words[1]), action: action(&words[2..]), error: "EIO".into() },
            other => panic!("no event `{other}`"),
        }
    }

    fn settings(&self, words: &[&str]) -> Settings {
        let mut settings = self.policy.settings().clone();
        for word in words {
            let (key, value) = word.split_once('=').unwrap();
            let on = value == "on";
            match key {
                "hold_back" => settings.hold_back = on,
                "protect" => settings.protect_milli = value.parse().unwrap(),
                "factor" => settings.factor_milli = value.parse().unwrap(),
                "depth" => settings.queue_depth = value.parse().unwrap(),
                "ttl" => settings.queue_ttl = Some(Duration::from_secs(value.parse().unwrap())),
                "budget" => settings.memory.budget_bytes = mib(value),
                "governor" => settings.memory.governor = on,
                "prediction" => settings.memory.prediction = on,
                "steers" => settings.memory.steers = on,
                "tmp" => settings.tmp_total_bytes = mib(value),
                "drain" => settings.drain = on,
                "place" => settings.place = place(value),
                "affinity" => settings.affinity = on,
                "backfill" => settings.backfill = on,
                "schedule" => settings.schedule = on,
                "resources" => settings.resources = amounts(value),
                "projects" => {
                    settings.projects = value.split(',').filter(|p| !p.is_empty()).map(project).collect()
                }
                "preemption" => {
                    settings.preemption = match value {
                        "hard" => Preemption::Hard,
                        "soft" => Preemption::Soft,
                        _ => Preemption::Off,
                    }
                }
                other => panic!("no setting `{other}`"),
            }
        }
        settings
    }
}

/// `web:2`, `web:2:512`, `web::512`: home cores, and memory in MiB.
fn project(text: &str) -> Project {
    let mut parts = text.split(':');
    let name = parts.next().unwrap().to_owned();
    let mut amount = || parts.next().filter(|part| !part.is_empty());
    let cores = amount().map(|cores| cores.parse().unwrap());
    Project { name, cores, memory_bytes: amount().map(mib) }
}

/// `gpu:2,licence:1`: so many of each resource.
fn amounts(text: &str) -> Vec<Amount> {
    let amount = |one: &str| {
        let (name, count) = one.split_once(':').unwrap();
        Amount { name: name.to_owned(), count: count.parse().unwrap() }
    };
    text.split(',').filter(|one| !one.is_empty()).map(amount).collect()
}

fn mib(word: &str) -> u64 {
    word.parse::<u64>().unwrap() << 20
}

/// `free=MIB swap=MIB stalled=MILLI JOB:MIB JOB:MIB+MIB+MIB`: what the host has, what each job holds in RAM and in swap,
/// and its page cache; `JOB~MILLI` for what part of the time it waited for memory, else that is not told.
/// The swap device takes 200 MiB a second.
fn readings(words: &[&str]) -> MemorySample {
    let mut sample = MemorySample { swap_bytes_per_s: 200 << 20, ..MemorySample::default() };
    for word in words {
        if let Some((key, value)) = word.split_once('=') {
            match key {
                "free" => sample.available_bytes = mib(value),
                "swap" => sample.swap_free_bytes = mib(value),
                "stalled" => sample.stalled_milli = value.parse().unwrap(),
                other => panic!("no reading `{other}`"),
            }
            continue;
        }
        if let Some((number, waited)) = word.split_once('~') {
            let one = sample.jobs.iter_mut().find(|one| one.job == job(number)).unwrap();
            one.waited_milli = Some(waited.parse().unwrap());
            continue;
        }
        let (number, held) = word.split_once(':').unwrap();
        let mut sizes = held.split('+').map(mib);
        let mut next = || sizes.next().unwrap_or(0);
        let (resident_bytes, swapped_bytes, cache_bytes) = (next(), next(), next());
        sample.jobs.push(JobMemory {
            job: job(number),
            resident_bytes,
            swapped_bytes,
            cache_bytes,
            waited_milli: None,
        });
    }
    sample
}

fn job(word: &str) -> JobId {
    JobId(word.parse().unwrap())
}

/// `4`: cores 0 to 3 of one PU each; `0,2-3`: one core for each piece. `4/a:2,3/b:1`: of these, the cores set aside
/// under names; one that begins with `~` gives its cores back by itself.
fn machine(text: &str) -> Machine {
    let (text, sets) = text.split_once('/').unwrap_or((text, ""));
    let mut machine = plain(text);
    for set in sets.split('/').filter(|set| !set.is_empty()) {
        let (name, pus) = set.split_once(':').unwrap();
        let (pus, memory) = pus.split_once('+').unwrap_or((pus, "0"));
        let cores = plain(&format!("{pus},")).cores;
        machine.cores.retain(|core| !cores.contains(core));
        machine.asides.push(Aside {
            name: name.into(),
            cores,
            memory_bytes: mib(memory),
            passes: name.starts_with('~'),
            ..Aside::default()
        });
    }
    machine
}

fn plain(text: &str) -> Machine {
    if text.starts_with("pack:") {
        let topology = facts_of(&text.replace(',', " ")).unwrap().assemble().unwrap();
        return Machine::of(&topology, &topology.usable());
    }
    if let Ok(count) = text.parse::<u32>() {
        return Machine::flat((0..count).map(|pu| CpuSet::single(PuOs(pu))).collect());
    }
    Machine::flat(text.split(',').filter(|p| !p.is_empty()).map(|piece| piece.parse().unwrap()).collect())
}

fn place(word: &str) -> Place {
    match word {
        "apart" => Place::Spread,
        "close" => Place::Compact,
        _ => Place::Auto,
    }
}

fn request(words: &[&str]) -> Request {
    let mut request = Request::plain(job(words[0]));
    for word in &words[1..] {
        match *word {
            "primary" => request.class = Some(Class::Primary),
            "backfill" => request.class = Some(Class::Backfill),
            "exclusive" => request.class = Some(Class::Exclusive),
            "held" => request.held = true,
            "gated" => request.gated = true,
            "nosuspend" => request.no_suspend = true,
            "requeue" => request.requeue = true,
            "checkpoint" => request.checkpoint = Some(Duration::from_secs(60)),
            word => match word.split_at(1) {
                ("p", n) => request.priority = n.parse().unwrap(),
                ("u", parent) => request.parent = Some(job(parent)),
                ("s", name) => request.aside = Some(name.into()),
                ("o", n) => request.owner = n.parse().unwrap(),
                ("j", name) => request.project = Some(name.into()),
                ("c", n) => request.cores = n.parse().unwrap(),
                ("e", n) => request.expected = Some(Duration::from_secs(n.parse().unwrap())),
                ("a", n) => request.after = n.split(',').map(job).collect(),
                ("x", limit) => {
                    let (array, at_most) = limit.split_once(':').unwrap();
                    let (array, at_most) = (array.parse().unwrap(), at_most.parse().unwrap());
                    request.array = Some(ArrayLimit { array, at_most });
                }
                ("w", pus) => {
                    let within = pus.parse().unwrap();
                    request.wish = Some(Box::new(Wish { within, ..Wish::default() }));
                }
                ("l", n) => request.list = Some(n.parse().unwrap()),
                ("m", n) => request.memory = Some(mib(n)),
                ("d", n) => request.tmp_bytes = mib(n),
                ("r", list) => request.resources = amounts(list),
                ("y", how) => request.place = Some(place(how)),
                ("k", n) => request.kind = Some(Kind::of(n.parse().unwrap())),
                ("z", n) => request.checkpoints = n.parse().unwrap(),
                ("t", n) => request.ttl = Some(Duration::from_secs(n.parse().unwrap())),
                _ => panic!("no option `{word}`"),
            },
        }
    }
    request
}

/// `N OPTIONS`, with `ago:SECONDS` since it was asked for, `anew` for one that waits from now on and `room:SECONDS` since
/// its array has had room; and for a running one `/ CLASS CPUS [frozen] [suspended]`.
fn adopted(now: Instant, words: &[&str]) -> Adopted {
    let (asked, has) = match words.iter().position(|&word| word == "/") {
        Some(at) => (&words[..at], Some(&words[at + 1..])),
        None => (words, None),
    };
    let running = has.map(|has| Running {
        started: now,
        class: class(has[0]),
        cpus: if has[1] == "any" { CpuSet::new() } else { has[1].parse().unwrap() },
        frozen: has.contains(&"frozen"),
        suspended: has.contains(&"suspended"),
    });
    let before = |prefix: &str| {
        let seconds = asked.iter().find_map(|word| word.strip_prefix(prefix))?;
        Some(Instant(now.0 - seconds.parse::<u64>().unwrap() * 1_000_000))
    };
    let (submitted, array_room_since) = (before("ago:").unwrap_or(now), before("room:"));
    let waits_since = asked.contains(&"anew").then_some(now);
    let is_option = |word: &&str| *word != "anew" && !word.starts_with("ago:") && !word.starts_with("room:");
    let asked: Vec<&str> = asked.iter().copied().filter(is_option).collect();
    Adopted { request: request(&asked), submitted, waits_since, array_room_since, running }
}

fn class(word: &str) -> Class {
    match word {
        "primary" => Class::Primary,
        "backfill" => Class::Backfill,
        "exclusive" => Class::Exclusive,
        other => panic!("no class `{other}`"),
    }
}

fn action(words: &[&str]) -> Action {
    let cpus = |text: &str| if text == "any" { CpuSet::new() } else { text.parse().unwrap() };
    match words[0] {
        "freeze" => Action::Freeze,
        "thaw" => Action::Thaw,
        "bind" => Action::Bind { cpus: cpus(words[1]) },
        "weigh" => Action::Weigh {
            class: class(words[1]),
            priority: words[2].parse().unwrap(),
            even: words.get(3) == Some(&"even"),
        },
        "signal" => Action::Signal { signal: 15 },
        "slow" => Action::Slow { allowance: Some(mib(words[1])) },
        "grow" => Action::Slow { allowance: None },
        "checkpoint" => Action::Checkpoint,
        "start" => Action::Start { class: Class::Primary, cpus: CpuSet::new(), priority: 10 },
        other => panic!("no action `{other}`"),
    }
}

fn line(decision: &Decision) -> String {
    let name = |class: &Class| match class {
        Class::Primary => "primary",
        Class::Backfill => "backfill",
        Class::Exclusive => "exclusive",
    };
    let list = |cpus: &CpuSet| if cpus.is_empty() { "any".to_owned() } else { cpus.to_string() };
    let action = match &decision.action {
        Action::Start { class, cpus, priority } => {
            format!("start {} {} p{priority}", name(class), list(cpus))
        }
        Action::Bind { cpus } => format!("bind {}", list(cpus)),
        Action::Weigh { class, priority, even } => {
            format!("weigh {} p{priority}{}", name(class), if *even { " even" } else { "" })
        }
        Action::Freeze => "freeze".into(),
        Action::Thaw => "thaw".into(),
        Action::PageOut { bytes } => format!("page out {}", bytes >> 20),
        Action::Signal { signal } => format!("signal {signal}"),
        Action::Checkpoint => "checkpoint".into(),
        Action::Requeue => "requeue".into(),
        Action::Slow { allowance: Some(bytes) } => format!("slow after {}", bytes >> 20),
        Action::Slow { allowance: None } => "let grow".into(),
        Action::Protect { bytes } => format!("protect {}", bytes >> 20),
        Action::Near { nodes } => format!("near {nodes:?}"),
        Action::Drop { refused } => format!("drop{}", if *refused { " refused" } else { "" }),
    };
    let mut said = format!("{} {action}: {}", decision.job, decision.reason.code());
    for figure in decision.reason.figures() {
        let value = match figure.value {
            Value::Number(bytes) if figure.name.ends_with("bytes") && bytes % (1 << 20) == 0 => {
                format!("{}MiB", bytes >> 20)
            }
            Value::Number(number) => number.to_string(),
            Value::Signed(number) => number.to_string(),
            Value::Time(time) => format!("{time:?}"),
            Value::Job(job) => job.to_string(),
            Value::Code(code) => code.to_owned(),
            Value::Text(text) => text.unwrap_or_else(|| "-".to_owned()),
            Value::Cpus(cpus) => cpus.to_string(),
            Value::Nodes(nodes) => format!("{nodes:?}"),
        };
        write!(said, " {}={value}", figure.name).unwrap();
    }
    said
}
