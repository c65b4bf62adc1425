//! `pinfold advise`: the needs of classes of jobs for memory, cores and time, with a stated risk.
//!
//! Reading order: [`history`] and [`sampled`] (the runs, from the daemon's store), [`classes`] (the advice for their
//! classes), [`text`] (the same in words), [`format`] (the same in the words of other systems), [`picture`], [`months`]
//! (requests, use and possible savings, by month); [`numbers`] reads numbers in commands; [`replay`] gives the advice
//! for the jobs of a [`table`]. How memory is estimated is decided in the crate `advise`; [`sizes`] is for workload
//! managers. Absent here: any write to the daemon.

mod classes;
mod format;
mod history;
mod months;
mod numbers;
mod picture;
mod replay;
mod sampled;
pub(crate) mod sizes;
mod table;
mod text;

use std::io::{self, BufWriter, StdoutLock, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pinfold_proto::ExitCode;
use pinfold_proto::quantity::parse_size;
use pinfold_proto::view::ReportView;
use serde::Serialize;

use crate::input;
use crate::print::{JSON_VERSION, print_json, print_text, printed, width, write_json};
use crate::show::picture_kind;
use pinfold_client::{Dial, Failure};

use classes::ClassView;
use format::{Consent, Format};

/// Options of `advise`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AdviseArgs {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    classes: OfClasses,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Tell what would have been advised for the jobs of a table, one after the other, and what that would have cost
    Replay(ReplayArgs),
}

/// Which classes, and how they are told.
#[derive(Debug, clap::Args)]
struct OfClasses {
    /// The class by this name alone
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Jobs of this project alone
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Jobs of this user alone; of another, for operators
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// All users' jobs, for operators; a class is a user's still
    #[arg(short, long, conflicts_with = "user")]
    all: bool,
    /// Jobs asked for since then: so long ago (30d), a date (2026-11-21) or Unix seconds (@1790000000)
    #[arg(long, value_name = "WHEN", default_value = "90d")]
    since: String,
    /// The largest share of jobs that may need more than advised, between 0 and 1 [default: 0.1]; the cost of
    /// failures keeps it lower
    #[arg(long, value_name = "F", value_parser = share)]
    risk: Option<f64>,
    /// For a job whose input files have this size together; else for the class as a whole
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "format")]
    input: Option<u64>,
    /// For a job with this command, as far as numbers in it tell what is needed (--name sim --command "sim --size
    /// 40")
    #[arg(long, value_name = "LINE", requires = "name", conflicts_with = "format")]
    command: Option<String>,
    /// In the words of a workload manager or a workflow engine, to paste or to apply
    #[arg(long, value_enum, value_name = "SYSTEM", conflicts_with = "json")]
    format: Option<Format>,
    /// How far it is applied there
    #[arg(long, value_enum, value_name = "HOW", requires = "format", default_value_t)]
    apply: Consent,
    /// Write the files into this directory, which is made if it is not there
    #[arg(long, value_name = "DIR", requires = "format")]
    to: Option<PathBuf>,
    /// Draw one class over time, with what it asks for and what is advised: FILE.svg or FILE.png
    #[arg(short, long, value_name = "FILE", requires = "name", conflicts_with_all = ["format", "json"])]
    output: Option<PathBuf>,
    /// What was requested, used and could have been saved, for each class and period
    #[arg(long, value_enum, value_name = "PERIOD", conflicts_with_all = ["input", "command", "format", "output"])]
    by: Option<Period>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Period {
    /// Months, UTC
    Month,
}

/// Options of `advise replay`.
#[derive(Debug, clap::Args)]
struct ReplayArgs {
    /// The table, with the header class,submit_s,end_s,train,input_bytes,request_bytes,peak_bytes,wall_s,numbers;
    /// only class, peak_bytes and wall_s are needed; - for standard input. Files that end in .gz are read as well
    #[arg(value_name = "FILE.csv|-")]
    file: PathBuf,
    /// The largest share of jobs that may need more than advised, between 0 and 1 [default: 0.1]; the cost of
    /// failures keeps it lower
    #[arg(long, value_name = "F", value_parser = share)]
    risk: Option<f64>,
    /// What a failed attempt costs besides the memory that it held, in GB x hours [default: 10, in a table without
    /// times 1.1]
    #[arg(long, value_name = "GBH", value_parser = price)]
    price: Option<f64>,
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

/// A price in GB x hours: nothing or more.
fn price(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(price) if price >= 0.0 && price.is_finite() => Ok(price),
        _ => Err("a number of GB x hours is expected, as in 10".to_owned()),
    }
}

/// Runs `pinfold advise`.
pub(crate) fn advise(dial: &Dial, args: &AdviseArgs) -> Result<(), Failure> {
    match &args.verb {
        Some(Verb::Replay(args)) => replay_table(args),
        None => of_classes(dial, &args.classes),
    }
}

fn of_classes(dial: &Dial, args: &OfClasses) -> Result<(), Failure> {
    args.output.as_deref().map(picture_kind).transpose()?;
    let mut client = dial.connect()?;
    let runs = history::runs(&mut client, args)?;
    drop(client);
    tell(&runs, args)
}

impl AdviseArgs {
    /// The moment from which on jobs of other hosts count, in microseconds since the Unix epoch.
    pub(crate) fn of_elsewhere(&self) -> Result<u64, Failure> {
        if self.verb.is_some() {
            return Err(Failure::new(ExitCode::Usage, "advise replay is about a table: leave --host out"));
        }
        if let Some(file) = &self.classes.output {
            picture_kind(file)?;
        }
        crate::print::moment("--since", &self.classes.since)
    }

    /// Whether all users' jobs are asked for.
    pub(crate) fn is_of_all(&self) -> bool {
        self.classes.all
    }
}

/// `pinfold --host NAME advise`: advice on jobs that a hub reports.
pub(crate) fn advise_elsewhere(reports: &[ReportView], args: &AdviseArgs) -> Result<(), Failure> {
    tell(&history::runs_of(reports, &args.classes), &args.classes)
}

fn tell(runs: &[history::Run], args: &OfClasses) -> Result<(), Failure> {
    let kind = args.output.as_deref().map(picture_kind).transpose()?;
    let failed = |error| Failure::new(ExitCode::Failed, format!("failed to replay the history: {error}"));
    if let Some(Period::Month) = args.by {
        let sheet = months::sheet(runs, args.risk).map_err(failed)?;
        return if args.json {
            print_json(&sheet)
        } else {
            print_text(|out| text::write_months(&sheet, width(), out))
        };
    }
    let command: Vec<String> =
        args.command.as_deref().unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    let next = classes::Next { input_bytes: args.input, numbers: &numbers::of(&command) };
    let views = classes::classes(runs, args.risk, next).map_err(failed)?;
    if let (Some(file), Some(kind)) = (&args.output, kind) {
        return picture::write(file, kind, runs, &views);
    }
    match args.format {
        Some(format) => in_words_of(format, args, &views),
        None if args.json => print_json(&serde_json::json!({
            "version": JSON_VERSION,
            "requested_gbh": views.iter().map(|view| view.requested_gbh).sum::<f64>(),
            "saved_gbh": views.iter().map(|view| view.saved_gbh).sum::<f64>(),
            "classes": views,
        })),
        None => print_text(|out| text::write(&views, width(), out)),
    }
}

/// Prints, or writes, the classes in a `format`; parts that it lacks are listed on standard error.
fn in_words_of(format: Format, args: &OfClasses, views: &[ClassView]) -> Result<(), Failure> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let made = format::render(format, args.apply, views, now)
        .map_err(|error| Failure::new(ExitCode::Usage, format!("--format with --apply: {error}")))?;
    for class in &made.left_out {
        crate::print::say(&format!(
            "{} is left out: its name cannot be told in that format",
            pinfold_profile::report::plain(class)
        ));
    }
    let unknown = views.iter().filter(|view| view.advised_bytes.is_none()).count();
    if unknown > 0 {
        crate::print::say(&format!(
            "{unknown} of {} classes are left out: their history cannot say what they need",
            views.len()
        ));
    }
    let Some(dir) = &args.to else {
        return match &made.files[..] {
            [file] => print_text(|out| out.write_all(file.text.as_bytes())),
            files => {
                let names: Vec<&str> = files.iter().map(|file| file.name).collect();
                let text = format!("{} go into a directory: name one by --to DIR", names.join(", "));
                Err(Failure::new(ExitCode::Usage, text))
            }
        };
    };
    let failed = |path: &Path, error: &std::io::Error| {
        Failure::doing(format!("failed to write {}", path.display()), error)
    };
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, &error))?;
    for file in &made.files {
        let path = dir.join(file.name);
        crate::output::write(&path, file.text.as_bytes()).map_err(|error| failed(&path, &error))?;
        if file.runs {
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(&path, mode).map_err(|error| failed(&path, &error))?;
        }
    }
    let paths = made.files.iter().map(|file| dir.join(file.name));
    print_text(|out| paths.into_iter().try_for_each(|path| writeln!(out, "{}", path.display())))
}

fn replay_table(args: &ReplayArgs) -> Result<(), Failure> {
    let text = read(&args.file)?;
    let table = table::Table::read(&text).map_err(|error| wrong(args, error))?;
    let mut printed = Printed::new(args.json);
    let summary = replay::replay(&table, args.asked(), |scored| printed.line(scored));
    let words = |it: &replay::Summary| {
        let asked = it.requested.map_or(String::new(), |asked| {
            format!(
                "; the requests of {} jobs: {:.2} wasted, {} attempts failed",
                asked.jobs, asked.wastage_gbh, asked.failures
            )
        });
        format!(
            "{} jobs of {} classes: {:.2} GB x hours wasted, {} attempts failed{asked}",
            it.jobs, it.classes, it.wastage_gbh, it.failures
        )
    };
    printed.end(args, summary, words)
}

fn wrong(args: &ReplayArgs, error: String) -> Failure {
    Failure::new(ExitCode::Failed, format!("{}: {error}", args.file.display()))
}

/// The printed part of a replay.
struct Printed {
    json: bool,
    out: BufWriter<StdoutLock<'static>>,
    /// Why no more could be written.
    failed: Option<io::Error>,
}

impl Printed {
    fn new(json: bool) -> Self {
        Self { json, out: BufWriter::new(io::stdout().lock()), failed: None }
    }

    /// Prints a line of JSON for a scored job, if JSON is wanted. Where that cannot be written the replay ends.
    fn line(&mut self, of: &impl Serialize) -> Result<(), String> {
        let written = if self.json { write_json(of, &mut self.out) } else { Ok(()) };
        written.map_err(|error| self.failed.insert(error).to_string())
    }

    /// Prints the last line. A reader that has seen enough (`| head`) is success, as everywhere.
    fn end(
        mut self,
        args: &ReplayArgs,
        summary: Result<replay::Summary, String>,
        words: impl FnOnce(&replay::Summary) -> String,
    ) -> Result<(), Failure> {
        printed(match (self.failed.take(), summary) {
            (Some(error), _) => Err(error),
            (None, Err(error)) => return Err(wrong(args, error)),
            (None, Ok(summary)) => {
                let written = match self.json {
                    true => write_json(&summary, &mut self.out),
                    false => writeln!(self.out, "{}", words(&summary)),
                };
                written.and_then(|()| self.out.flush())
            }
        })
    }
}

impl ReplayArgs {
    fn asked(&self) -> replay::Asked {
        replay::Asked { risk: self.risk, price_gbh: self.price, seed: self.seed }
    }
}

/// All of a file, uncompressed; `-` is standard input.
fn read(file: &Path) -> Result<String, Failure> {
    let bytes = if file.extension().is_some_and(|ending| ending == "gz") {
        let compressed = std::fs::File::open(file);
        compressed.and_then(|file| input::list(flate2::read::MultiGzDecoder::new(file)))
    } else {
        input::list_in(file)
    };
    let no_text = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).map_err(no_text));
    text.map_err(|error| Failure::doing(format!("failed to read {}", file.display()), &error))
}
