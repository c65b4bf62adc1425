//! `pinfold advise`: what classes of jobs need of memory, with a stated risk.
//!
//! [`replay`] tells what would have been advised for the jobs of a table. What to advise is decided in the crate
//! `advise`; absent here: any decision.

mod replay;
mod table;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use pinfold_proto::ExitCode;

use crate::failure::Failure;

/// Options of `advise`.
#[derive(Debug, clap::Args)]
pub(crate) struct AdviseArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Tell what would have been advised for the jobs of a table, one after the other, and what that would have cost
    Replay(ReplayArgs),
}

/// Options of `advise replay`.
#[derive(Debug, clap::Args)]
struct ReplayArgs {
    /// The table, with the header class,submit_s,end_s,train,input_bytes,request_bytes,peak_bytes,wall_s; only class,
    /// peak_bytes and wall_s are needed; - for standard input
    #[arg(value_name = "FILE.csv|-")]
    file: PathBuf,
    /// The largest share of jobs that may need more than advised, between 0 and 1 [default: 0.1]; the cost of
    /// failures keeps it lower
    #[arg(long, value_name = "F", value_parser = share)]
    risk: Option<f64>,
    /// Chooses which runs of a long history are scored
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Print one JSON object for each scored job and one for all
    #[arg(long)]
    json: bool,
}

/// A share between 0 and 1, neither of them.
fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => Err("a number between 0 and 1 is expected, as in 0.05".to_owned()),
    }
}

/// Runs `pinfold advise`.
pub(crate) fn advise(args: &AdviseArgs) -> Result<(), Failure> {
    match &args.verb {
        Verb::Replay(args) => replay_table(args),
    }
}

fn replay_table(args: &ReplayArgs) -> Result<(), Failure> {
    let name = args.file.display();
    let text = read(&args.file).map_err(|error| Failure::doing(format!("failed to read {name}"), &error))?;
    let wrong = |error: String| Failure::new(ExitCode::Failed, format!("{name}: {error}"));
    let table = table::Table::read(&text).map_err(wrong)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let summary = replay::replay(&table, args.risk, args.seed, |scored| {
        if !args.json {
            return Ok(());
        }
        let line = serde_json::to_string(scored).map_err(|error| error.to_string())?;
        writeln!(out, "{line}").map_err(|error| format!("failed to print: {error}"))
    });
    let summary = summary.map_err(wrong)?;
    let told = if args.json {
        serde_json::to_string(&summary).map_err(|error| wrong(error.to_string()))?
    } else {
        format!(
            "{} jobs of {} classes: {:.2} GB x hours wasted, {} attempts failed",
            summary.jobs, summary.classes, summary.wastage_gbh, summary.failures
        )
    };
    writeln!(out, "{told}")
        .and_then(|()| out.flush())
        .map_err(|error| Failure::doing("failed to print", &error))
}

fn read(file: &Path) -> std::io::Result<String> {
    if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    }
}
