//! `pinfold make`: a build as one job in the foreground, with a jobserver that follows the host's free cores and memory.
//!
//! Reading order: [`words`] (how many jobs it was told, and how it is told where the tokens are), [`allowance`] (how many
//! commands may run now), [`ledger`] (how many tokens there are), [`server`] (keeps them so). Absent here: the FIFO
//! (`pinfold_sys::jobserver`) and how a job runs in the foreground ([`crate::run`]).

mod allowance;
mod ledger;
mod server;
mod words;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode as ProcessExit, Stdio};

use clap::ValueEnum;
use pinfold_proto::ExitCode;
use pinfold_proto::quantity::whole;
use pinfold_proto::view::SlotsView;
use pinfold_proto::wire::Request;
use pinfold_sys::jobserver::Pool;
use pinfold_sys::own_dir::OwnDir;
use pinfold_sys::{affinity, files, paths, peer};
use pinfold_topo::CpuSet;

use crate::job::{self, JobOptions, makeflags, part};
use crate::launch::LaunchPlan;
use crate::run::{self, Alone, RunArgs};
use crate::tasks::Asked;
use pinfold_client::{Client, Dial, Failure};

use server::Server;
use words::{Told, Tool};

/// The most jobs of a build: this many tokens fit into a FIFO of any size.
const JOBS_MAX: u32 = 4096;

/// The FIFO's name.
const TOKENS: &str = "tokens";

/// Variables with jobservers and numbers of jobs for a command.
const FLAGS: [&str; 3] = ["MAKEFLAGS", "MFLAGS", "CARGO_MAKEFLAGS"];

/// Options of `make`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "`-jN` of make and ninja is taken as the most commands at once; of other commands say it as `pinfold make -j N`."
)]
pub(crate) struct MakeArgs {
    /// Most commands at once [default: -jN of make or ninja, else the number of PUs for jobs]
    #[arg(short, long, value_name = "N", value_parser = whole::<u32>(1..=JOBS_MAX))]
    jobs: Option<u32>,
    /// How commands reach the jobserver: by a FIFO's path (GNU make 4.4, ninja 1.13) or by descriptors that they inherit
    /// (GNU make 4.2)
    #[arg(long, value_enum, default_value_t = Style::Auto)]
    jobserver: Style,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// The form in which a jobserver is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Style {
    /// As this command understands it
    Auto,
    /// `--jobserver-auth=fifo:PATH`
    Fifo,
    /// `--jobserver-auth=R,W`
    Pipe,
}

/// Runs the build as a job; ends with its status.
pub(crate) fn make(dial: Dial, args: &MakeArgs) -> Result<ProcessExit, Failure> {
    let usage = |text: String| Failure::new(ExitCode::Usage, text);
    if args.run.options.tasks.ntasks.as_deref().is_some_and(|tasks| tasks != "1") {
        return Err(usage("-n: a build is one task; -j says how many commands it runs at once".to_owned()));
    }
    let tool = Tool::of(&args.run.command[0]);
    let (command, told) = tool.without_jobs(&args.run.command).map_err(usage)?;
    let most = args.jobs.or(match told {
        Some(Told::Number(number)) => Some(number.min(JOBS_MAX)),
        Some(Told::Unbounded) | None => None,
    });
    let mut build = RunArgs { command, ..args.run.clone() };
    if part::of_unless(&dial, build.fallback)?.is_some() {
        return within_a_job(dial, tool, most, &build);
    }
    let mut client = match dial.connect() {
        Err(failure) if build.fallback && failure.without_daemon => {
            return within_a_job(dial, tool, most, &build);
        }
        client => client?,
    };
    let cpus = client.welcome.cpus.clone();
    let most = most.unwrap_or_else(|| count(&cpus)).clamp(1, JOBS_MAX);
    let fifo = match args.jobserver {
        Style::Auto => speaks_fifo(tool, &job::resolve(&build.command[0])?)?,
        style => style == Style::Fifo,
    };
    let dir = directory()?;
    let path = dir.path().join(TOKENS);
    if fifo && build.options.private_tmp && is_hidden(&path) {
        let text = format!(
            "--private-tmp: the build would not see the jobserver's FIFO, {}; say --jobserver pipe, or have \
             XDG_RUNTIME_DIR name a directory elsewhere",
            path.display()
        );
        return Err(usage(text));
    }
    let doing = |error: std::io::Error| Failure::doing(format!("the FIFO {}", path.display()), &error);
    let pool = Pool::make(&path, !fifo).map_err(doing)?;
    let auth = match pool.inherited() {
        Some((read, write)) => format!("{read},{write}"),
        None => format!("fifo:{}", path.display()),
    };
    if Asked::of(&build.options)?.is_none() {
        choose_cores(&mut build.options, most, &slots(&mut client)?);
    }
    drop(client);
    let mut plan = plan(&build, &format!("-j{most} --jobserver-auth={auth}"))?;
    plan.lay_on(&cpus)?;
    let own_slots = u64::from(plan.spec.cores);
    let mut server = Server::new(dial.clone(), pool, most, own_slots, cpus.len() as u64)?;
    let ended = run::in_foreground(dial, plan, &build, &mut server);
    drop(dir);
    ended
}

/// The build where it stands: a part of a job has that job's cores, and others' need of them is the job's matter.
fn within_a_job(dial: Dial, tool: Tool, most: Option<u32>, build: &RunArgs) -> Result<ProcessExit, Failure> {
    let cpus = affinity::of(std::process::id());
    let cpus = cpus.map_err(|error| Failure::doing("which PUs this process may use", &error))?;
    let jobs = most.unwrap_or(JOBS_MAX).min(cpus.as_ref().map_or(1, count)).max(1);
    let mut build = build.clone();
    if tool == Tool::Ninja {
        build.command.insert(1, OsString::from(format!("-j{jobs}")));
    }
    let plan = plan(&build, &format!("-j{jobs}"))?;
    run::in_foreground(dial, plan, &build, &mut Alone)
}

fn plan(build: &RunArgs, flags: &str) -> Result<LaunchPlan, Failure> {
    let present = match std::env::var("MAKEFLAGS") {
        Ok(present) => present,
        Err(std::env::VarError::NotPresent) => String::new(),
        Err(error) => return Err(Failure::new(ExitCode::Usage, format!("MAKEFLAGS: {error}"))),
    };
    let flags = makeflags::flags(&present, flags);
    let environment = job::environment_without(&FLAGS).with(format!("MAKEFLAGS={flags}"));
    LaunchPlan::of_command(&build.options, &build.command, environment, false)
}

/// Without an option for cores: the free cores, if there are several, or the rest behind a cache that other jobs leave.
fn choose_cores(options: &mut JobOptions, most: u32, slots: &SlotsView) {
    let is_said = options.cores.is_some()
        || options.primary
        || options.backfill
        || options.exclusive
        || options.isolated
        || options.set.is_some();
    if is_said || most < 2 {
        return;
    }
    let busy = slots.used.saturating_add(slots.waiting);
    let free = u32::try_from(slots.cores.saturating_sub(busy)).unwrap_or(u32::MAX);
    if free >= 2 {
        options.cores = Some(free.min(most));
    } else {
        options.backfill = true;
    }
}

fn slots(client: &mut Client) -> Result<SlotsView, Failure> {
    // Without jobs: only the host's slots count here.
    Ok(answer!(client.ask(&Request::Status { jobs: Vec::new(), all: false, at_us: None })?, Status)?.slots)
}

/// Whether a command understands `fifo:PATH`. Others than make and ninja are expected to go by the make that is here.
fn speaks_fifo(tool: Tool, path: &Path) -> Result<bool, Failure> {
    if tool == Tool::Other {
        let make = job::resolve("make".as_ref()).ok();
        return Ok(make.and_then(|make| version_of(&make)).is_some_and(|version| version >= (4, 4)));
    }
    let version = version_of(path);
    let shown = version.map_or("unknown".to_owned(), |(major, minor)| format!("{major}.{minor}"));
    let refuse = |wants: &str| {
        let text =
            format!("{}: its version is {shown}, and jobservers are understood by {wants}", path.display());
        Err(Failure::new(ExitCode::Refused, text))
    };
    match (tool, version) {
        (Tool::Ninja, Some(version)) if version >= (1, 13) => Ok(true),
        (Tool::Ninja, _) => refuse("ninja 1.13 and later (pip install ninja)"),
        (_, Some(version)) if version >= (4, 2) => Ok(version >= (4, 4)),
        _ => refuse("GNU make 4.2 and later"),
    }
}

fn version_of(path: &Path) -> Option<(u32, u32)> {
    let asked = Command::new(path).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    words::version(&String::from_utf8_lossy(&asked.ok()?.stdout))
}

/// A directory for the FIFO, this user's alone. Directories of killed builds are removed.
fn directory() -> Result<OwnDir, Failure> {
    use std::os::unix::fs::MetadataExt as _;
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let own = |dir: &PathBuf| std::fs::metadata(dir).is_ok_and(|found| found.uid() == peer::own_uid());
    let usable = |place: &PathBuf| files::may_make_in(place) && is_word(place);
    let place = runtime
        .filter(own)
        .into_iter()
        .chain(paths::temporary())
        .find(usable)
        .unwrap_or_else(|| "/tmp".into());
    OwnDir::make(&place, "pinfold-make-", &[TOKENS]).map_err(|error| {
        Failure::doing(format!("a directory for the jobserver in {}", place.display()), &error)
    })
}

/// Whether a path is a single word of `MAKEFLAGS`, in which ninja knows no quotes.
fn is_word(place: &Path) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=~".contains(c);
    place.to_str().is_some_and(|text| text.chars().all(plain))
}

fn count(cpus: &CpuSet) -> u32 {
    u32::try_from(cpus.len()).unwrap_or(JOBS_MAX)
}

/// Whether a job with a `/tmp` of its own does not see this.
fn is_hidden(path: &Path) -> bool {
    ["/tmp", "/var/tmp"].iter().any(|place| path.starts_with(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_tokens_is_one_word() {
        for word in ["/run/user/7", "/t\u{e9}mp", "/tmp/x"] {
            assert!(is_word(Path::new(word)), "{word}");
        }
        for odd in ["/run/my dir", "/tmp/a b", "/tmp/a\tb", "/tmp/a\\b", "/tmp/$x", "/tmp/'x'", "/tmp/#x"] {
            assert!(!is_word(Path::new(odd)), "{odd}");
        }
    }

    #[test]
    fn a_build_gets_what_is_free() {
        let slots = |used, waiting| SlotsView { cores: 8, factor: 1.5, total: 12, used, waiting };
        let chosen = |options: JobOptions, most, slots: &SlotsView| {
            let mut options = options;
            choose_cores(&mut options, most, slots);
            (options.cores, options.backfill)
        };
        let plain = JobOptions::default;
        assert_eq!(chosen(plain(), 16, &slots(0, 0)), (Some(8), false));
        assert_eq!(chosen(plain(), 4, &slots(2, 1)), (Some(4), false));
        assert_eq!(chosen(plain(), 16, &slots(7, 0)), (None, true));
        assert_eq!(chosen(plain(), 16, &slots(2, 9)), (None, true));
        assert_eq!(chosen(plain(), 1, &slots(0, 0)), (None, false));
        let said = JobOptions { cores: Some(3), ..plain() };
        assert_eq!(chosen(said, 16, &slots(8, 0)), (Some(3), false));
        let primary = JobOptions { primary: true, ..plain() };
        assert_eq!(chosen(primary, 16, &slots(8, 0)), (None, false));
    }
}
