//! `pinfold set-aside` and `pinfold sets`: cores that are kept for the jobs that ask for them by name.

use std::time::{Duration, Instant};

use clap::Args;
use pinfold_profile::map::text::kind_word;
use pinfold_profile::report::{clock_here, size};
use pinfold_proto::quantity::{parse_duration, parse_size, whole};
use pinfold_proto::view::{JobView, SetAsideView, SetsView};
use pinfold_proto::wire::{Reply, Request, SetAside};
use pinfold_proto::{ExitCode, JobState};
use pinfold_topo::backoff::Backoff;

use crate::print::{print_json, print_text, say};
use pinfold_client::{Client, Dial, Failure, unexpected};

#[derive(Debug, Args)]
pub(crate) struct SetAsideArgs {
    /// Its name: up to 32 letters, digits, `-`, `_` and `.`
    #[arg(value_name = "NAME", required_unless_present = "idle", conflicts_with = "idle")]
    pub name: Option<String>,
    /// These PUs, as a kernel list
    #[arg(long, value_name = "CPUSET", required_unless_present_any = ["cores", "remove"],
          conflicts_with_all = ["cores", "remove"])]
    pub cpus: Option<String>,
    /// So many whole cores, close together
    #[arg(long, value_name = "N", conflicts_with = "remove", value_parser = whole::<u32>(1..=65536))]
    pub cores: Option<u32>,
    /// Memory that other jobs leave free for those in it
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with_all = ["idle", "remove"])]
    pub memory: Option<u64>,
    /// Cores that no job is on now: prints the name of the set, or nothing when there are not so many
    #[arg(long, conflicts_with_all = ["cpus", "remove"])]
    pub idle: bool,
    /// With --idle, wait until there are so many idle cores, for so long at most [default: as long as it takes]; refused at
    /// once where there can never be so many
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, value_parser = parse_duration,
          requires = "idle")]
    pub wait: Option<Option<Duration>>,
    /// How long idle cores stay set aside without a job in them [default: 1m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "idle")]
    pub hold: Option<Duration>,
    /// Other jobs may be on its cores as well; those in it are on no others
    #[arg(long, conflicts_with_all = ["idle", "remove"])]
    pub shared: bool,
    /// No job is ever on its cores: they are for the host itself
    #[arg(long, conflicts_with_all = ["idle", "remove", "shared", "memory", "users"])]
    pub housekeeping: bool,
    /// Who may use it [default: everybody; of idle cores, you]
    #[arg(long, value_name = "USER[,USER]", value_delimiter = ',', conflicts_with = "remove")]
    pub users: Vec<String>,
    /// Give its cores back
    #[arg(long)]
    pub remove: bool,
}

/// `pinfold set-aside`.
pub(crate) fn set_aside(dial: &Dial, args: &SetAsideArgs) -> Result<(), Failure> {
    let mut client = dial.connect()?;
    if let (true, Some(name)) = (args.remove, &args.name) {
        return answer!(client.ask(&Request::SetRemove { name: name.clone() })?, Done);
    }
    let hold_us = args.hold.map(|hold| u64::try_from(hold.as_micros()).unwrap_or(u64::MAX));
    let asked = SetAside {
        name: args.name.clone(),
        cpus: args.cpus.clone(),
        cores: args.cores,
        memory_bytes: args.memory,
        shared: args.shared,
        housekeeping: args.housekeeping,
        users: args.users.clone(),
        hold_us,
    };
    if let Some(limit) = args.wait {
        return wait_for_idle(&mut client, &asked, limit);
    }
    match client.ask(&Request::SetAside(asked))? {
        // Only a caller that does not know the name needs it.
        Reply::SetMade { name: Some(name), .. } if args.idle => print_text(|out| writeln!(out, "{name}")),
        Reply::SetMade { never, .. } => {
            // A script wants a name or nothing; a person wants to know.
            never.iter().for_each(|why| say(why));
            Ok(())
        }
        other => Err(unexpected(&other)),
    }
}

/// The intervals of asking for idle cores, at first and at last.
const ASK_FIRST: Duration = Duration::from_millis(100);
const ASK_LAST: Duration = Duration::from_secs(2);

/// Asks again until enough cores are idle.
fn wait_for_idle(client: &mut Client, asked: &SetAside, limit: Option<Duration>) -> Result<(), Failure> {
    let (began, mut pauses) = (Instant::now(), Backoff::new(ASK_FIRST, ASK_LAST));
    loop {
        match client.ask(&Request::SetAside(asked.clone()))? {
            Reply::SetMade { name: Some(name), .. } => return print_text(|out| writeln!(out, "{name}")),
            Reply::SetMade { never: Some(why), .. } => return Err(Failure::new(ExitCode::Refused, why)),
            Reply::SetMade { .. } => {}
            other => return Err(unexpected(&other)),
        }
        let pause = pauses.pause();
        let left = limit.map_or(pause, |limit| limit.saturating_sub(began.elapsed()));
        if left.is_zero() {
            let cores = asked.cores.unwrap_or(1);
            let text = format!("--wait: there were not {cores} idle cores within the time");
            return Err(Failure::new(ExitCode::Refused, text));
        }
        std::thread::sleep(pause.min(left));
    }
}

/// The states of a set's jobs that this user may see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Figures {
    running: u64,
    waiting: u64,
    memory_bytes: u64,
}

fn figures<'a>(set: &str, jobs: impl IntoIterator<Item = &'a JobView>) -> Figures {
    let mut figures = Figures::default();
    for job in jobs.into_iter().filter(|job| job.set.as_deref() == Some(set)) {
        match job.state {
            JobState::Queued | JobState::Held => figures.waiting += 1,
            JobState::Running | JobState::Frozen | JobState::Parked => figures.running += 1,
            JobState::Exited => {}
        }
        figures.memory_bytes += job.memory_bytes.unwrap_or(0);
    }
    figures
}

/// `pinfold sets`.
pub(crate) fn sets(dial: &Dial, json: bool) -> Result<(), Failure> {
    let mut client = dial.connect()?;
    let view = answer!(client.ask(&Request::Sets)?, Sets)?;
    let jobs =
        answer!(client.ask(&Request::Status { jobs: Vec::new(), all: false, at_us: None })?, Status)?.jobs;
    if !json {
        return print(&view, &jobs);
    }
    let sets = view.sets.iter().map(|set| {
        let Figures { running, waiting, memory_bytes } = figures(&set.set, &jobs);
        let mut value = serde_json::json!(set);
        value["jobs_started"] = running.into();
        value["jobs_waiting"] = waiting.into();
        value["memory_held_bytes"] = memory_bytes.into();
        value
    });
    print_json(&serde_json::json!({ "version": view.version, "sets": sets.collect::<Vec<_>>() }))
}

fn print(view: &SetsView, jobs: &[JobView]) -> Result<(), Failure> {
    print_text(|out| {
        if view.sets.is_empty() {
            return writeln!(out, "no cores are set aside");
        }
        writeln!(
            out,
            "{:<16} {:<14} {:>5}  {:<12} {:<9} {:<10} {:>4} {:>5} {:>10}  JOBS",
            "SET", "PUS", "CORES", "KIND", "USE", "OWNER", "RUN", "WAIT", "MEMORY"
        )?;
        for set in &view.sets {
            writeln!(out, "{}", line(set, figures(&set.set, jobs)))?;
        }
        Ok(())
    })
}

fn line(set: &SetAsideView, figures: Figures) -> String {
    let jobs: Vec<String> = set.jobs.iter().map(ToString::to_string).collect();
    let jobs = if jobs.is_empty() { "-".to_owned() } else { jobs.join(" ") };
    let mut line = format!(
        "{:<16} {:<14} {:>5}  {:<12} {:<9} {:<10} {:>4} {:>5} {:>10}  {jobs}",
        set.set,
        set.cpus,
        set.cores,
        kind_word(set.kind),
        if set.shared { "shared" } else { "exclusive" },
        set.owner,
        figures.running,
        figures.waiting,
        size(figures.memory_bytes),
    );
    if let Some(bytes) = set.memory_bytes {
        line += &format!(", memory {}", pinfold_proto::quantity::show_size(bytes));
    }
    if !set.users.is_empty() {
        line += &format!(", for {}", set.users.join(" "));
    }
    if set.usable_cpus != set.cpus {
        let left = if set.usable_cpus.is_empty() { "none" } else { &set.usable_cpus };
        line += &format!(", of its PUs the host has {left}");
    }
    if let Some(expires_s) = set.expires_s {
        line += &format!(", goes at {}", clock_here(expires_s));
    }
    line
}
