//! `pinfold wlm enter`: a workload manager's hook before a job executes. The job is asked for in place, and waits until
//! it may go; without a daemon it goes on unmanaged, or waits for a daemon, as its operator chose.
//!
//! Its exit status is the hook's to go by: 5, the job was struck off and must not run; all else, it may.

use std::time::Duration;

use clap::{Args, ValueEnum};
use pinfold_proto::quantity::{parse_size, whole};
use pinfold_proto::wire::{Adoptee, Reply, Request};
use pinfold_proto::{ExitCode, ExternalName, JobSpec};
use pinfold_sys::discover;
use pinfold_sys::procfs::Proc;
use pinfold_topo::CpuSet;
use pinfold_wlm::identify;

use crate::job::{self, JobOptions};
use crate::print::{print_text, say};
use pinfold_client::{Client, Dial, Failure, unexpected};

/// How long between two looks for a daemon.
const LOOK: Duration = Duration::from_millis(500);
/// Looks for a daemon that was there a moment ago: it is restarted, or upgraded.
const LOOKS_FOR_ANOTHER: u32 = 120;

/// What becomes of a job while there is no daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Down {
    /// It runs unmanaged
    Run,
    /// It waits for one
    Wait,
}

#[derive(Debug, Args)]
pub(crate) struct EnterArgs {
    /// The job's name in its manager, such as slurm:1234.batch [default: by the environment]
    #[arg(long, value_name = "NAME")]
    external: Option<ExternalName>,
    /// The process that is about to execute the job; its descendants come with it
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=u32::MAX))]
    pid: u32,
    /// The processors (PUs) that the manager gave to the job here [default: by the environment]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=u32::MAX), conflicts_with = "cores")]
    pus: Option<u32>,
    /// The cores that the manager gave to the job here, as a list such as 0-3,8; they are counted, as the manager numbers
    /// them in its own way
    #[arg(long, value_name = "LIST", value_parser = listed, conflicts_with_all = ["cores", "pus"])]
    allocated_cores: Option<Listed>,
    /// The memory that the manager gave to the job here: what it asks for, unless --mem says so. All of the host's counts as
    /// none
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    allocated_mem: Option<u64>,
    /// What becomes of the job while there is no daemon
    #[arg(long, value_enum, default_value = "run")]
    down: Down,
    #[command(flatten)]
    options: JobOptions,
    /// The job's command, which is shown where its manager gives the job no name
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The number of cores in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Listed(u32);

fn listed(text: &str) -> Result<Listed, String> {
    let cores: CpuSet = text.parse().map_err(|error| format!("{error}"))?;
    match u32::try_from(cores.len()) {
        Ok(count @ 1..) => Ok(Listed(count)),
        _ => Err("it names no core".to_owned()),
    }
}

/// Why a job goes on without pinfold.
struct Unmanaged(String);

/// `pinfold wlm enter`.
pub(super) fn enter(dial: &Dial, args: &EnterArgs) -> Result<(), Failure> {
    let environment = identify(&|name| std::env::var(name).ok());
    let told = environment.as_ref().map(|found| found.external.clone());
    let Some(name) = args.external.clone().or(told) else {
        let text =
            "no workload manager is known by this environment; say the job's name there with --external";
        return Err(Failure::new(ExitCode::Usage, text));
    };
    let pus = args.pus.or(environment.as_ref().and_then(|found| found.pus));
    let title = args.options.name.clone().or(environment.and_then(|found| found.title));
    match entered(dial, args, &name, spec(args, &name, title, pus))? {
        Ok(variables) => {
            let plain = |text: &String| !text.contains(['\n', '\0']);
            let lines = variables.iter().filter(|(name, value)| plain(name) && plain(value));
            print_text(|out| lines.into_iter().try_for_each(|(name, value)| writeln!(out, "{name}={value}")))
        }
        Err(Unmanaged(why)) => {
            say(&format!("{name} runs unmanaged: {why}"));
            Ok(())
        }
    }
}

type Variables = Vec<(String, String)>;

fn entered(
    dial: &Dial,
    args: &EnterArgs,
    name: &ExternalName,
    mut spec: JobSpec,
) -> Result<Result<Variables, Unmanaged>, Failure> {
    let mut looks = 0;
    let (mut client, job) = loop {
        let adopt = Request::Adopt {
            which: Adoptee::Process(args.pid),
            spec: Box::new(spec.clone()),
            in_place: true,
        };
        let asked = dial.connect().and_then(|mut client| Ok((client.ask(&adopt)?, client)));
        match asked {
            Ok((Reply::Adopted { job, .. }, client)) => break (client, job),
            Ok((other, _)) => return Err(unexpected(&other)),
            // A user's options must not be a way past pinfold.
            Err(failure) if failure.code != ExitCode::NoDaemon && asks(&spec) => {
                say(&format!("{name}: {}: what it asks of pinfold counts as none", failure.message));
                spec = without_wishes(spec);
            }
            Err(failure) if args.down == Down::Run || failure.code == ExitCode::Usage => {
                return Ok(Err(Unmanaged(failure.message)));
            }
            Err(failure) => wait_for_daemon(args.pid, &mut looks, name, &failure)?,
        }
    };
    let mut lost = 0;
    loop {
        match client.ask(&Request::Begin { job }) {
            Ok(Reply::Begun { variables, .. }) => return Ok(Ok(variables)),
            Ok(other) => return Err(unexpected(&other)),
            Err(failure) if failure.code == ExitCode::NoDaemon => {}
            Err(failure) if failure.code == ExitCode::Refused => return Err(failure),
            Err(failure) => return Ok(Err(Unmanaged(failure.message))),
        }
        client = match another(dial, args, &mut lost)? {
            Some(client) => client,
            None => {
                return Ok(Err(Unmanaged(format!(
                    "the daemon went away while job {job} waited for its turn"
                ))));
            }
        };
    }
}

/// A connection to the daemon that replaces a lost daemon; `None`: no daemon came for some time.
fn another(dial: &Dial, args: &EnterArgs, lost: &mut u32) -> Result<Option<Client>, Failure> {
    loop {
        *lost += 1;
        if *lost > LOOKS_FOR_ANOTHER && args.down == Down::Run {
            return Ok(None);
        }
        std::thread::sleep(LOOK);
        lives(args.pid)?;
        if let Some(client) = dial.connect_if_there() {
            return Ok(Some(client));
        }
    }
}

/// Waits before the next look; the first time with the reason printed.
fn wait_for_daemon(pid: u32, looks: &mut u32, name: &ExternalName, failure: &Failure) -> Result<(), Failure> {
    if *looks == 0 {
        say(&format!("{name} waits: {}", failure.message));
    }
    *looks += 1;
    std::thread::sleep(LOOK);
    lives(pid)
}

/// Whether the process that is waited for still lives.
fn lives(pid: u32) -> Result<(), Failure> {
    let proc = Proc::open("/proc".as_ref()).map_err(|error| Failure::doing("/proc", &error))?;
    match proc.stat(pid) {
        Ok(Some(stat)) if !stat.is_ended() => Ok(()),
        _ => Err(Failure::new(ExitCode::Failed, format!("process {pid} has ended"))),
    }
}

fn spec(args: &EnterArgs, name: &ExternalName, title: Option<String>, pus: Option<u32>) -> JobSpec {
    let asked = job::spec(&args.options, &[]);
    let listed = args.allocated_cores.and_then(|Listed(count)| Some(count.min(all_cores()?)));
    let cores = args.options.cores.or(listed).or_else(|| cores_of(pus?));
    JobSpec {
        directory: String::new(),
        // The adopted process is still the manager's own, for example `slurmstepd`.
        command: title.clone().map_or_else(|| args.command.clone(), |title| vec![title]),
        name: title.unwrap_or_default(),
        cores: cores.unwrap_or(1).max(1),
        external: Some(name.clone()),
        allocation: None,
        claim_bytes: asked.claim_bytes.or_else(|| part_of_memory(args.allocated_mem?)),
        ..asked
    }
}

/// Whether anything is asked for that the daemon may refuse, and without which the job can be managed.
fn asks(spec: &JobSpec) -> bool {
    *spec != without_wishes(spec.clone())
}

/// The same job, without requests beyond its turn on its manager's cores.
fn without_wishes(spec: JobSpec) -> JobSpec {
    let JobSpec { name, cores, external, command, .. } = spec;
    JobSpec { name, cores, external, command, ..JobSpec::default() }
}

/// A manager's memory for a job, if less than the host's: a job that asks for none may be given all memory.
fn part_of_memory(bytes: u64) -> Option<u64> {
    let info = Proc::open("/proc".as_ref()).ok()?.memory_info().ok()?;
    (1..info.total_bytes).contains(&bytes).then_some(bytes)
}

/// The cores of the host; a manager's figure may be higher.
fn all_cores() -> Option<u32> {
    Some(discover::host().ok()?.cores().max(1))
}

/// Whole cores for this many PUs, bounded by the host: a manager's figure may be higher.
fn cores_of(pus: u32) -> Option<u32> {
    let topology = discover::host().ok()?;
    // Not the usable PUs: the hook is bound as its job is.
    let (cores, all) = (topology.cores().max(1), u32::try_from(topology.pus().len()).ok()?.max(1));
    Some(u32::try_from((u64::from(pus) * u64::from(cores)).div_ceil(u64::from(all))).ok()?.clamp(1, cores))
}
