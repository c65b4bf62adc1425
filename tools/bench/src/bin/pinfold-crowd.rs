//! One of many users who ask a daemon as much as they may: fills the queue with held jobs, and then sends requests on
//! several connections at once: each kind of request in an expensive form, including some that the daemon refuses.
//!
//! Speaks the wire by itself, so that the command line adds no time. Prints `ready` once its jobs are queued, sends
//! requests from the next line of standard input on, and prints its counts as a JSON object. Owns nothing.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Parser;
use pinfold_proto::JobSpec;
use pinfold_proto::array::JobName;
use pinfold_proto::wire::{
    Adoptee, Decoder, REPLY_MAX_BYTES, Reply, Request, Select, SetAside, Verb, WIRE_VERSION, encode,
};
use serde::Serialize;

#[path = "work/dice.rs"]
mod dice;
use dice::Dice;

/// Asks a daemon as much as a user may.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// The daemon's socket.
    #[arg(long)]
    socket: PathBuf,
    /// Held jobs to queue first.
    #[arg(long, default_value_t = 500)]
    jobs: u64,
    /// Connections that ask at once.
    #[arg(long, default_value_t = 5)]
    connections: u64,
    /// Duration of the requests, in seconds.
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    /// Draws the order of requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The requests of a kind.
#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Asked {
    requests: u64,
    refused: u64,
    /// The longest time from a request to its reply, seconds, including the daemon's work for other users meanwhile.
    slowest_s: f64,
}

type Counts = BTreeMap<&'static str, Asked>;
type Fault = Box<dyn Error + Send + Sync>;

/// A greeted connection.
#[derive(Debug)]
struct Wire {
    stream: UnixStream,
    decoder: Decoder,
}

impl Wire {
    fn connect(socket: &Path) -> Result<Self, Fault> {
        let stream = UnixStream::connect(socket)?;
        let mut wire = Self { stream, decoder: Decoder::new(REPLY_MAX_BYTES) };
        wire.say(&Request::Hello { version: WIRE_VERSION })?;
        match wire.hear()? {
            Reply::Welcome { .. } => Ok(wire),
            other => Err(format!("the greeting was answered by {other:?}").into()),
        }
    }

    fn say(&mut self, request: &Request) -> Result<(), Fault> {
        let mut frame = Vec::new();
        encode(request, &mut frame)?;
        Ok(self.stream.write_all(&frame)?)
    }

    fn hear(&mut self) -> Result<Reply, Fault> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            if let Some(reply) = self.decoder.take()? {
                return Ok(reply);
            }
            let count = self.stream.read(&mut buffer)?;
            if count == 0 {
                return Err("the daemon closed the connection".into());
            }
            self.decoder.push(&buffer[..count]);
        }
    }
}

fn spec(name: &str) -> JobSpec {
    JobSpec {
        name: name.to_owned(),
        command: vec!["sleep".to_owned(), "1".to_owned()],
        directory: "/".to_owned(),
        cores: 1,
        held: true,
        ..JobSpec::default()
    }
}

/// Queues the jobs, some hundred at a time; gives their numbers.
fn fill(wire: &mut Wire, count: u64) -> Result<Vec<u64>, Fault> {
    let mut jobs = Vec::new();
    for first in (0..count).step_by(100) {
        let tickets = first..(first + 100).min(count);
        for ticket in tickets.clone() {
            wire.say(&Request::Submit {
                ticket,
                spec: Box::new(spec(&format!("crowd-{ticket}"))),
                pid: None,
            })?;
        }
        for _ in tickets {
            match wire.hear()? {
                Reply::Queued { job, .. } => jobs.push(job),
                other => return Err(format!("a held job was answered by {other:?}").into()),
            }
        }
    }
    Ok(jobs)
}

/// The state of a connection's requests.
#[derive(Debug)]
struct Asker<'a> {
    jobs: &'a [u64],
    dice: Dice,
    ticket: u64,
}

impl Asker<'_> {
    fn job(&mut self) -> u64 {
        let place = self.dice.below(self.jobs.len() as u64);
        usize::try_from(place).ok().and_then(|place| self.jobs.get(place)).copied().unwrap_or(1)
    }

    /// The next request, and its kind.
    fn next(&mut self) -> (&'static str, Request) {
        match self.dice.below(18) {
            0 => ("status", Request::Status { jobs: Vec::new(), all: false, at_us: None }),
            1 => ("status all", Request::Status { jobs: Vec::new(), all: true, at_us: None }),
            2 => ("status of jobs", Request::Status { jobs: self.jobs.to_vec(), all: false, at_us: None }),
            3 => ("members", Request::Members { names: self.names(4096) }),
            4 => ("why", Request::Why { job: self.job(), at_us: None }),
            5 => ("report", self.report(Select::Last(1000))),
            6 => ("report of jobs", self.report(Select::Jobs(self.jobs.to_vec()))),
            7 => ("lengths", self.lengths()),
            8 => ("starts", Request::Starts),
            9 => ("map", Request::Map),
            10 => ("doctor", Request::Doctor),
            11 => ("config", Request::ConfigGet),
            12 => ("priority", self.control(Verb::Priority(5))),
            13 => ("hold", self.control(Verb::Hold)),
            14 => ("set aside", Request::SetAside(SetAside { cores: Some(1), ..SetAside::default() })),
            15 => ("adopt", self.adopt()),
            16 => (
                "submit, after many",
                self.submit(JobSpec {
                    after: self.names(256).into_iter().map(Into::into).collect(),
                    ..spec("after")
                }),
            ),
            _ => ("submit, large", {
                let command = vec!["x".repeat(4000); 48];
                self.submit(JobSpec { command, ..spec("large") })
            }),
        }
    }

    fn names(&self, count: usize) -> Vec<JobName> {
        let numbers = self.jobs.iter().cycle().take(count);
        numbers.filter_map(|job| job.to_string().parse().ok()).collect()
    }

    fn report(&self, select: Select) -> Request {
        Request::Report {
            select,
            series: false,
            processes: false,
            threads: false,
            files: false,
            all: false,
            pieces: false,
        }
    }

    fn lengths(&self) -> Request {
        let commands = (0..4096).map(|number| vec!["/bin/sh".to_owned(), format!("-c {number}")]);
        Request::Lengths { commands: commands.collect() }
    }

    fn control(&mut self, verb: Verb) -> Request {
        Request::Control { job: self.job(), verb }
    }

    fn adopt(&self) -> Request {
        Request::Adopt {
            which: Adoptee::Process(std::process::id()),
            spec: Box::new(spec("adopted")),
            in_place: false,
        }
    }

    fn submit(&mut self, spec: JobSpec) -> Request {
        self.ticket += 1;
        Request::Submit { ticket: self.ticket, spec: Box::new(spec), pid: None }
    }
}

/// Sends requests until the time is over. A taken job is returned at once, so that the queue keeps its length.
fn ask(socket: &Path, jobs: &[u64], seed: u64, limit: Duration) -> Result<Counts, Fault> {
    let mut wire = Wire::connect(socket)?;
    let mut asker = Asker { jobs, dice: Dice(seed), ticket: 0 };
    let mut counts = Counts::new();
    let begun = Instant::now();
    while begun.elapsed() < limit {
        let (kind, request) = asker.next();
        let asked = Instant::now();
        wire.say(&request)?;
        let reply = wire.hear()?;
        let count = counts.entry(kind).or_default();
        count.requests += 1;
        count.slowest_s = count.slowest_s.max(asked.elapsed().as_secs_f64());
        match reply {
            Reply::Refused { .. } | Reply::Error { .. } => count.refused += 1,
            Reply::Queued { job, .. } => {
                let ended = Request::Withdraw { job, reason: "asked for the load's sake".to_owned() };
                wire.say(&ended)?;
                wire.hear()?;
            }
            _ => {}
        }
    }
    Ok(counts)
}

fn main() -> Result<(), Fault> {
    let args = Args::parse();
    let mut keeper = Wire::connect(&args.socket)?;
    let jobs = fill(&mut keeper, args.jobs)?;
    let mut out = std::io::stdout();
    writeln!(out, "ready")?;
    out.flush()?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    let limit = Duration::try_from_secs_f64(args.seconds)?;
    let mut all = Counts::new();
    std::thread::scope(|scope| {
        let asking = |number| {
            let (socket, jobs, seed) = (&args.socket, &jobs, args.seed.wrapping_mul(1000) + number);
            scope.spawn(move || ask(socket, jobs, seed, limit))
        };
        let threads: Vec<_> = (0..args.connections).map(asking).collect();
        for thread in threads {
            let counts = thread.join().map_err(|_| "a connection's thread panicked")??;
            for (kind, one) in counts {
                let sum: &mut Asked = all.entry(kind).or_default();
                sum.requests += one.requests;
                sum.refused += one.refused;
                sum.slowest_s = sum.slowest_s.max(one.slowest_s);
            }
        }
        Ok::<(), Fault>(())
    })?;
    serde_json::to_writer(&mut out, &all)?;
    writeln!(out)?;
    // The jobs are held for as long as this connection is there.
    drop(keeper);
    Ok(())
}
