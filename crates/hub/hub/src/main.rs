//! `pinfold-hub`: serves the hub, and manages its tokens and its database.
//!
//! Absent here: the hub itself, which is the library.

mod commands;
mod manual;
mod print;
mod serve;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use pinfold_hub::store::{Location, location};
use pinfold_hub::weekly::Week;
use pinfold_proto::quantity::whole;

/// What many hosts' jobs used, in one store and on one page.
#[derive(Debug, Parser)]
#[command(name = "pinfold-hub", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Take what hosts push, answer programs, and show the page
    Serve(ServeArgs),
    /// Make a token for one host, or for a reader; prints it once, and keeps its hash
    Token(TokenArgs),
    /// List tokens
    Tokens(TokensArgs),
    /// Revoke tokens: the next request with one is refused
    Revoke(RevokeArgs),
    /// Give a host another name; its jobs and tokens stay its own
    Rename(RenameArgs),
    /// Print a link that signs somebody in on the page, once, within ten minutes
    Login(LoginArgs),
    /// Copy the database into a file, also while the hub serves; the copy is verified
    Backup(CopyArgs),
    /// Put a verified copy in the place of the database, while no hub serves it; tokens that were revoked stay revoked
    Restore(CopyArgs),
    /// Have hosts send again what their daemons have, after the database was put back by other means than restore
    Resend(Database),
    /// Print what a week was like for a user or a project as the text of a mail: waste, failures, what to ask for
    Weekly(WeeklyArgs),
    /// Make the sums over days and the top lists anew from the jobs, after some were changed or removed by hand
    Resum(Database),
    /// Look through the whole database for damage
    Check(Database),
    /// Serve a hub with simulated hosts, in a directory of its own, to look at the page
    Demo(DemoArgs),
    /// Write the manual page into this directory
    #[command(hide = true)]
    Manual {
        /// The directory
        dir: PathBuf,
    },
}

/// Where the database is.
#[derive(Debug, Args)]
struct Database {
    /// The database: sqlite:FILE, or postgres://USER@/NAME (several hubs may share it; a password: PGPASSWORD)
    #[arg(long, value_name = "URL", value_parser = location)]
    database: Location,
}

#[derive(Debug, Args)]
struct ServeArgs {
    #[command(flatten)]
    at: Database,
    /// Listen here; plain HTTP on loopback addresses only, others need --cert and --key
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8470")]
    listen: String,
    /// Read this configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where people reach the page: what links say [default: `public_url` of the file, or the address listened on]
    #[arg(long, value_name = "URL", value_parser = pinfold_hub::settings::public_url)]
    url: Option<String>,
    /// The certificate for TLS and those it is signed by, as PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The certificate's key, as PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[group(id = "whose", required = true, multiple = false)]
struct Whose {
    /// A host: it may push its own jobs, and read nothing
    #[arg(long, value_name = "NAME", group = "whose")]
    host: Option<String>,
    /// A reader: it may read all, and push nothing
    #[arg(long, value_name = "NAME", group = "whose")]
    reader: Option<String>,
}

#[derive(Debug, Args)]
struct TokenArgs {
    #[command(flatten)]
    at: Database,
    #[command(flatten)]
    whose: Whose,
}

#[derive(Debug, Args)]
struct TokensArgs {
    #[command(flatten)]
    at: Database,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct RevokeArgs {
    #[command(flatten)]
    at: Database,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
#[group(id = "which", required = true, multiple = false)]
struct Which {
    /// The token of this number, as `tokens` lists it
    #[arg(long, value_name = "N", group = "which")]
    token: Option<i64>,
    /// All tokens of this host
    #[arg(long, value_name = "NAME", group = "which")]
    host: Option<String>,
    /// All tokens of this reader
    #[arg(long, value_name = "NAME", group = "which")]
    reader: Option<String>,
}

#[derive(Debug, Args)]
struct RenameArgs {
    #[command(flatten)]
    at: Database,
    /// The name that it has
    #[arg(value_name = "FROM")]
    from: String,
    /// The name that it gets; a host of that name, for which a token was made, was never heard
    #[arg(value_name = "TO")]
    to: String,
}

#[derive(Debug, Args)]
struct LoginArgs {
    #[command(flatten)]
    at: Database,
    /// Who signs in, for the audit [default: the user's number]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Where the page is reached [default: where the hub was served last]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

#[derive(Debug, Args)]
struct WeeklyArgs {
    #[command(flatten)]
    at: Database,
    /// Of this user's jobs [default: of all jobs]
    #[arg(long, value_name = "NAME", conflicts_with = "project")]
    user: Option<String>,
    /// Of this project's jobs
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Which week, from Monday on, UTC [default: the last one that is over]
    #[arg(long, value_name = "YEAR-Wnn", value_parser = week)]
    week: Option<Week>,
    /// Begin with a head for this mailbox, as sendmail -t reads it
    #[arg(long, value_name = "NAME@HOST")]
    to: Option<String>,
    /// Print one JSON object
    #[arg(long, conflicts_with = "to")]
    json: bool,
    /// Print the names of users that had jobs in the week, one a line; with `projects` those of projects
    #[arg(long, value_name = "users|projects", num_args = 0..=1, require_equals = true, default_missing_value = "users",
          value_parser = ["users", "projects"], conflicts_with_all = ["user", "project", "to"])]
    list: Option<String>,
}

fn week(text: &str) -> Result<Week, String> {
    Week::read(text).ok_or_else(|| "a week is wanted, as in 2026-W47".to_owned())
}

#[derive(Debug, Args)]
struct CopyArgs {
    #[command(flatten)]
    at: Database,
    /// The copy
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, Args)]
struct DemoArgs {
    /// How many hosts
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 5, value_parser = whole::<u32>(1..=200))]
    hosts: u32,
    /// How many days of jobs each has behind it
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 14, value_parser = whole::<u32>(1..=365))]
    days: u32,
    /// Listen here; a loopback address
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8470")]
    listen: String,
    /// Keep the database and the spools here
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return told(&error),
    };
    // A page has readers in many zones: it shows UTC.
    if !matches!(cli.command, Command::Serve(_) | Command::Demo(_)) {
        pinfold_profile::report::show_times_in_system_zone();
    }
    ended(dispatch(cli.command))
}

/// Help and version are answers; anything else is wrong usage.
fn told(error: &clap::Error) -> ExitCode {
    let printed = error.print();
    if error.use_stderr() { ExitCode::from(2) } else { ended(print::answered(printed)) }
}

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(args) => serve::serve(&args),
        Command::Demo(args) => serve::demo(&args),
        Command::Manual { dir } => manual::write(&dir),
        Command::Token(args) => commands::token(&args),
        Command::Tokens(args) => commands::tokens(&args),
        Command::Revoke(args) => commands::revoke(&args),
        Command::Rename(args) => commands::rename(&args),
        Command::Login(args) => commands::login(&args),
        Command::Backup(args) => commands::backup(&args),
        Command::Restore(args) => commands::restore(&args),
        Command::Resend(args) => commands::resend(&args),
        Command::Weekly(args) => commands::weekly(&args),
        Command::Resum(args) => commands::resum(&args),
        Command::Check(args) => commands::check(&args),
    }
}

fn ended(done: Result<(), Failure>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            print::say(&failure.words);
            ExitCode::from(failure.code)
        }
    }
}

/// A command's failure: an exit code as of `pinfold`, and the message.
#[derive(Debug)]
struct Failure {
    code: u8,
    words: String,
}

impl Failure {
    fn usage(words: impl Into<String>) -> Self {
        Self { code: 2, words: words.into() }
    }

    fn failed(words: impl Into<String>) -> Self {
        Self { code: 1, words: words.into() }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::failed(pinfold_hub::server::problem::chain(&error))
    }
}
