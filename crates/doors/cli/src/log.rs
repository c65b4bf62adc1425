//! `pinfold log`: the output of a submitted job, or of a line of a batch with files.
//!
//! The daemon never learns the names of output files. Clients note them for their user ([`pinfold_client::outputs`]); of a
//! job that runs, the kernel tells them as well.

use std::path::{Path, PathBuf};

use clap::Args;
use pinfold_proto::ExitCode;
use pinfold_proto::array::called;
use pinfold_proto::view::VERSION;
use serde_json::json;

use crate::names;
use crate::pick::Pick;
use crate::print::{print_json, print_text};
use pinfold_client::{
    Dial, Failure,
    outputs::{Meant, Outputs},
};

mod tail;

use tail::Jobs;

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    #[command(flatten)]
    pub pick: Pick,
    /// Go on with what it writes until it is over
    #[arg(short, long, conflicts_with = "json")]
    pub follow: bool,
    /// Only standard output. Without --stdout and --stderr both: the errors behind the output and a heading on a terminal,
    /// else on standard error
    #[arg(long, conflicts_with = "stderr")]
    pub stdout: bool,
    /// Only standard error
    #[arg(long)]
    pub stderr: bool,
    /// Print where its output goes as one JSON object a job
    #[arg(long)]
    pub json: bool,
}

impl LogArgs {
    /// The files to print, out of the files of standard output and standard error.
    fn wanted(&self, [out, err]: [PathBuf; 2]) -> Vec<PathBuf> {
        match (self.stdout, self.stderr) {
            (true, _) => vec![out],
            (_, true) => vec![err],
            _ if out == err || err == Path::new("/dev/null") => vec![out],
            _ => vec![out, err],
        }
    }
}

/// `pinfold log`.
pub(crate) fn log(dial: &Dial, args: &LogArgs) -> Result<(), Failure> {
    let mut jobs = Jobs::of(dial)?;
    let mut all = Vec::new();
    for name in args.pick.meant(&mut jobs.client)? {
        let members = names::members(&mut jobs.client, &[name.clone().into()])?;
        all.extend(members.into_iter().flat_map(|members| members.jobs).map(|member| (name.job, member)));
    }
    let many = all.len() > 1;
    if args.follow && many {
        let text = format!("--follow: these are {} jobs; name one of them", all.len());
        return Err(Failure::new(ExitCode::Usage, text));
    }
    let outputs = Outputs::of(dial.socket());
    for (number, member) in all {
        let files = files_of(&mut jobs, &outputs, number, member.job, member.index)?;
        if args.json {
            let [out, err] = files.map(|file| file.to_string_lossy().into_owned());
            print_json(&json!({ "version": VERSION, "job": member.job, "output": out, "error": err }))?;
            continue;
        }
        let name = called(member.job, Some(number), member.index);
        if many {
            print_text(|to| writeln!(to, "==> {name} <=="))?;
        }
        jobs.print(member.job, &name, &args.wanted(files), args.follow)?;
    }
    Ok(())
}

/// Where output and errors of a job went.
fn files_of(
    jobs: &mut Jobs<'_>,
    outputs: &Outputs,
    name: u64,
    job: u64,
    index: Option<u32>,
) -> Result<[PathBuf; 2], Failure> {
    let view = jobs.status(job)?;
    let named = Meant { named: name, job, index, submitted_s: 0.0 };
    if let Some(files) = outputs.find(view.as_ref().map_or(named, Meant::of_job)) {
        return Ok(files);
    }
    let of_kernel = view.iter().flat_map(|view| &view.pids).find_map(|&pid| streams_of(pid));
    if let Some(files) = of_kernel {
        return Ok(files);
    }
    let by_rule = ["out", "err"].map(|ending| PathBuf::from(format!("pinfold-{job}.{ending}")));
    if by_rule.iter().all(|path| path.is_file()) {
        return Ok(by_rule);
    }
    let text = format!(
        "it is not known where the output of job {job} went: only of the last some thousand jobs of `submit` and `sbatch` \
         and lines of `batch --output`, and of jobs that run and write to files; `run` and other batches print it"
    );
    Err(Failure::new(ExitCode::Failed, text))
}

/// Regular files that a process writes to.
fn streams_of(pid: u32) -> Option<[PathBuf; 2]> {
    let file = |stream: u32| {
        let path = std::fs::read_link(format!("/proc/{pid}/fd/{stream}")).ok()?;
        path.is_file().then_some(path)
    };
    Some([file(1)?, file(2)?])
}
