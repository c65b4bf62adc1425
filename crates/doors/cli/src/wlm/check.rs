//! `pinfold wlm check`: a job through a workload manager, and which promises of its hooks held.

use std::process::{Command, ExitCode as ProcessExit, Stdio};

use clap::Args;
use pinfold_proto::view::ReportView;
use pinfold_proto::wire::{Reply, Request};
use pinfold_proto::{ExitCode, ExternalName};
use pinfold_wlm::Manager;
use serde_json::json;

use crate::names::{self, JobRef};
use crate::print::{JSON_VERSION, print_json, print_text};
use crate::show::figures;
use pinfold_client::{Dial, Failure};

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// slurm, gridengine, htcondor, pbs or generic
    #[arg(value_name = "MANAGER", value_parser = super::manager)]
    manager: Manager,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Something that was to hold.
struct Claim {
    what: &'static str,
    held: bool,
    found: String,
}

/// The job's script: long enough to be seen, and it ends with a status of its own.
const SCRIPT: &str = "sleep 1; exit 7";
const STATUS: i32 = 7;

/// `pinfold wlm check`; ends with 1 if something did not hold.
pub(super) fn check(dial: &Dial, args: &CheckArgs) -> Result<ProcessExit, Failure> {
    let (name, status) = match args.manager {
        Manager::Slurm => slurm()?,
        Manager::GridEngine => grid_engine()?,
        Manager::Pbs => pbs()?,
        Manager::Generic => generic(dial)?,
        Manager::Htcondor => {
            let text = "HTCondor has no command that submits a job, waits and tells its status: submit one, and ask \
                        `pinfold report condor:CLUSTER.PROCESS`";
            return Err(Failure::new(ExitCode::Usage, text));
        }
    };
    let report = report_of(dial, &name)?;
    let claims = claims(status, report.as_ref());
    let all = claims.iter().all(|claim| claim.held);
    if args.json {
        let claims: Vec<_> = claims
            .iter()
            .map(|one| json!({ "what": one.what, "held": one.held, "found": one.found }))
            .collect();
        print_json(&json!({ "version": JSON_VERSION, "external": name, "held": all, "claims": claims }))?;
    } else {
        print_text(|out| {
            claims.iter().try_for_each(|one| {
                let word = if one.held { "held" } else { "NOT HELD" };
                writeln!(out, "{word:<8}  {}: {}", one.what, one.found)
            })
        })?;
    }
    Ok(if all { ProcessExit::SUCCESS } else { ProcessExit::from(ExitCode::Failed.code()) })
}

fn claims(status: Option<i32>, report: Option<&ReportView>) -> Vec<Claim> {
    let claim = |what, held, found: String| Claim { what, held, found };
    let ended = status.map_or_else(|| "no status".to_owned(), |status| format!("status {status}"));
    let mut all = vec![claim("the manager tells the job's own status", status == Some(STATUS), ended)];
    let Some(report) = report else {
        let text = "no job of that name: the hook did not run, or there was no daemon (`pinfold wlm detect`)";
        all.push(claim("pinfold knows the job by the manager's name", false, text.to_owned()));
        return all;
    };
    all.push(claim(
        "pinfold knows the job by the manager's name",
        true,
        format!("job {} is {}", report.job, report.external.as_deref().unwrap_or_default()),
    ));
    let started = report.started_s.is_some();
    let waited = format!("it waited {:.3} s in the hook", report.queued_s);
    all.push(claim("pinfold released it", started, waited));
    let wall = report.wall_s.unwrap_or(0.0);
    all.push(claim("it was known while it ran", wall >= 0.9, format!("for {wall:.3} s")));
    all
}

/// Pinfold's report of the job; `None`: unknown.
fn report_of(dial: &Dial, name: &ExternalName) -> Result<Option<ReportView>, Failure> {
    let mut client = dial.connect()?;
    let names = [JobRef::External(name.clone())];
    let Ok(found) = names::resolve(&mut client, &names) else { return Ok(None) };
    let Some(job) = found.concat().first().map(|name| name.job) else { return Ok(None) };
    // The manager may know of its end before pinfold does.
    if !matches!(client.ask(&Request::Wait { jobs: vec![job] })?, Reply::Report(_)) {
        return Ok(None);
    }
    figures(&mut client, job)
}

/// Runs a manager's command; gives its output and its status.
fn said(words: &[&str]) -> Result<(String, Option<i32>), Failure> {
    let (program, rest) = words.split_first().unwrap_or((&"true", &[]));
    let output = Command::new(program).args(rest).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| Failure::doing(*program, &error))?;
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code()))
}

fn named(manager: &str, id: &str) -> Result<ExternalName, Failure> {
    let name = format!("{manager}:{}", id.trim());
    name.parse().map_err(|error| Failure::doing("the manager named no job", &error))
}

fn slurm() -> Result<(ExternalName, Option<i32>), Failure> {
    let wrap = format!("--wrap={SCRIPT}");
    let (said, status) =
        said(&["sbatch", "--parsable", "--wait", "--ntasks=1", "--output=/dev/null", &wrap])?;
    let job = said.lines().next().unwrap_or_default();
    Ok((named("slurm", &format!("{}.batch", job.split(';').next().unwrap_or_default().trim()))?, status))
}

fn grid_engine() -> Result<(ExternalName, Option<i32>), Failure> {
    let words =
        ["qsub", "-terse", "-sync", "y", "-b", "y", "-N", "pinfold-check", "-o", "/dev/null", "-j", "y"];
    let (said, status) = said(&[&words[..], &["/bin/sh", "-c", &format!("'{SCRIPT}'")]].concat())?;
    Ok((named("sge", said.lines().next().unwrap_or_default())?, status))
}

fn pbs() -> Result<(ExternalName, Option<i32>), Failure> {
    let words = ["qsub", "-W", "block=true", "-j", "oe", "-o", "/dev/null", "--", "/bin/sh", "-c", SCRIPT];
    let (said, status) = said(&words)?;
    Ok((named("pbs", said.lines().next().unwrap_or_default().split('.').next().unwrap_or_default())?, status))
}

/// Plays a job of LSF by its environment, and its starter by the same effect.
fn generic(dial: &Dial) -> Result<(ExternalName, Option<i32>), Failure> {
    let own = std::env::current_exe().map_err(|error| Failure::doing("the path of pinfold", &error))?;
    let place = pinfold_wlm::Place {
        dir: String::new(),
        pinfold: own.display().to_string(),
        socket: Some(dial.socket().display().to_string()),
        waits_for_daemon: false,
    };
    let id = std::process::id();
    let starter =
        pinfold_wlm::hooks(Manager::Generic, &place).pop().map(|hook| hook.text).unwrap_or_default();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &starter, "starter", "/bin/sh", "-c", SCRIPT]).env("LSB_JOBID", id.to_string());
    let status = command.stdin(Stdio::null()).status().map_err(|error| Failure::doing("/bin/sh", &error))?;
    Ok((named("lsf", &id.to_string())?, status.code()))
}
