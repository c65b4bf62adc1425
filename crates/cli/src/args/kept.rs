//! The options of what draws, or writes as a table, what is kept in the store: `plot` and `export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pinfold_proto::array::JobName;

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub which: ExportWhich,
    /// The form
    #[arg(long, value_enum, default_value_t = ExportForm::Csv)]
    pub format: ExportForm,
    /// What the lines are
    #[arg(long, value_enum, default_value_t = ExportWhat::Jobs, conflicts_with = "host")]
    pub what: ExportWhat,
    /// Also other users' jobs, for operators; with --last or --since
    #[arg(short, long, conflicts_with = "host")]
    pub all: bool,
    /// Write into this file instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportForm {
    /// Comma-separated values
    Csv,
    /// A JSON object a line
    Jsonl,
    /// Apache Parquet
    Parquet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportWhat {
    /// A line a job
    Jobs,
    /// A line a sample
    Samples,
    /// A line a process
    Processes,
    /// A line a thread, of jobs that run
    Threads,
    /// A line a file that a job was seen to have open (`profile.files=on`)
    Files,
}

#[derive(Debug, Args)]
#[group(id = "exported", required = true, multiple = true)]
pub(crate) struct ExportWhich {
    /// These jobs
    #[arg(value_name = "JOB", conflicts_with_all = ["last", "since", "host"])]
    pub jobs: Vec<JobName>,
    /// The last N jobs
    #[arg(long, value_name = "N", conflicts_with_all = ["since", "host"],
          value_parser = clap::value_parser!(u32).range(1..))]
    pub last: Option<u32>,
    /// Jobs asked for since then, or the host since then: so long ago (2h), a date (2026-11-21 22:10, UTC) or Unix
    /// seconds (@1790000000)
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// What the host as a whole did while jobs ran, a line a reading: all that is kept, or from --since to --until
    #[arg(long)]
    pub host: bool,
    /// The host up to then, named as for --since
    #[arg(long, value_name = "WHEN", requires = "host", conflicts_with_all = ["jobs", "last"])]
    pub until: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PlotArgs {
    #[command(flatten)]
    pub which: PlotWhich,
    /// Draw several jobs one after the other instead of together
    #[arg(long, conflicts_with_all = ["class", "output", "host"])]
    pub each: bool,
    /// Also other users' jobs, for operators; with --last, --since or --class
    #[arg(short, long, conflicts_with = "host")]
    pub all: bool,
    /// Write a picture: FILE.svg or FILE.png; without it, draw in characters
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Width and height of the picture
    #[arg(long, value_name = "WxH", default_value = "1000x700")]
    pub size: String,
}

#[derive(Debug, Args)]
#[group(id = "drawn", required = true, multiple = true)]
pub(crate) struct PlotWhich {
    /// This job, or two to four jobs beside each other
    #[arg(value_name = "JOB", conflicts_with_all = ["last", "since", "class", "host"])]
    pub jobs: Vec<JobName>,
    /// The last N jobs
    #[arg(long, value_name = "N", conflicts_with_all = ["since", "host"],
          value_parser = clap::value_parser!(u32).range(1..))]
    pub last: Option<u32>,
    /// Jobs asked for since then, or the host since then: so long ago (2h), a date (2026-11-21 22:10, UTC) or Unix
    /// seconds (@1790000000)
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// How memory, CPU time and run time of all jobs by this name are spread; of the last 1000 jobs unless --last or
    /// --since says otherwise
    #[arg(long, value_name = "NAME", conflicts_with = "host")]
    pub class: Option<String>,
    /// What the host as a whole did while jobs ran: PUs busy, memory, stalls, temperature and frequency where it tells
    /// them; in the last hour, or from --since to --until
    #[arg(long)]
    pub host: bool,
    /// The host up to then, named as for --since
    #[arg(long, value_name = "WHEN", requires = "host", conflicts_with_all = ["jobs", "last", "class"])]
    pub until: Option<String>,
}
