//! The streams of a task.
//!
//! This process opens regular files, but not FIFOs: opening blocks until the other end opens, and the opening process
//! would miss its blocked signals meanwhile. The task's own process, which blocks no signals, opens FIFOs and then
//! becomes the command (`--fifos`).

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::inside::open;
use crate::pattern::{Meant, expand};
use crate::request::Request;
use crate::trouble::{Trouble, failed_to_execute};

use super::step::Of;

/// The word before a task's FIFOs and its command.
pub(crate) const FIFOS: &str = "--fifos";

/// Where a stream leads.
enum Stream {
    /// This process's stream, or a pipe read here.
    Usual,
    File(File),
    /// A FIFO by its absolute path.
    Fifo(PathBuf),
}

impl Stream {
    /// The stream with this file name.
    fn named(name: &str, open: impl FnOnce(&str) -> Result<File, Trouble>) -> Result<Self, Trouble> {
        if !std::fs::metadata(name).is_ok_and(|found| found.file_type().is_fifo()) {
            return open(name).map(Self::File);
        }
        let path = std::path::absolute(name).map_err(|error| format!("{name}: {error}"))?;
        Ok(Self::Fifo(path))
    }

    /// The same for another stream.
    fn shared(&self) -> Result<Self, Trouble> {
        Ok(match self {
            Self::Usual => Self::Usual,
            Self::File(file) => Self::File(file.try_clone().map_err(|error| error.to_string())?),
            Self::Fifo(path) => Self::Fifo(path.clone()),
        })
    }

    fn fifo(&self) -> &OsStr {
        if let Self::Fifo(path) = self { path.as_os_str() } else { OsStr::new("") }
    }

    fn is_fifo(&self) -> bool {
        matches!(self, Self::Fifo(_))
    }

    fn stdio(self, usual: impl FnOnce() -> Stdio) -> Stdio {
        match self {
            Self::Usual => usual(),
            Self::File(file) => file.into(),
            // Until the task opens the FIFO.
            Self::Fifo(_) => Stdio::inherit(),
        }
    }
}

/// The streams of a task: standard input, output and error.
pub(super) struct Streams([Stream; 3]);

impl Streams {
    /// Opens the files of a task.
    ///
    /// # Errors
    /// With the file that cannot be opened.
    pub(super) fn open(of: &Of, request: &Request, task: u32, step: u32) -> Result<Self, Trouble> {
        let user = pinfold_sys::peer::own_name();
        let name = std::env::var("SLURM_JOB_NAME").unwrap_or_default();
        let meant = Meant {
            job: of.job,
            array: of.member.map_or(of.job, |(array, _)| array),
            index: of.member.map(|(_, index)| index),
            user: &user,
            name: &name,
            host: &of.host,
            task,
            step: Some(step),
        };
        let output = |stream: &str, pattern: &String| {
            // Tasks that share a file append; the first task truncates it.
            let shared = !pattern.contains("%t") && task > 0;
            let append = shared || request.append.unwrap_or(false);
            Stream::named(&expand(pattern, &meant), |name| open(stream, name, append))
        };
        let out = request
            .output
            .as_ref()
            .filter(|it| *it != "all")
            .map_or(Ok(Stream::Usual), |pattern| output("stdout", pattern))?;
        let err = match &request.error {
            Some(error) if Some(error) != request.output.as_ref() => output("stderr", error)?,
            // As in Slurm, both go to the same file by default.
            _ => out.shared()?,
        };
        let input = match &request.input {
            Some(input) => Stream::named(&expand(input, &meant), |name| input_file(Path::new(name)))?,
            None if task > 0 => File::open("/dev/null").map_or(Stream::Usual, Stream::File),
            None => Stream::Usual,
        };
        Ok(Self([input, out, err]))
    }

    /// The command line of a program, or of the helper that opens FIFOs and becomes the program.
    ///
    /// # Errors
    /// When this program is not found.
    pub(super) fn command(&self, program: &Path) -> Result<Command, Trouble> {
        if !self.0.iter().any(Stream::is_fifo) {
            return Ok(Command::new(program));
        }
        let own = std::env::current_exe().map_err(|error| format!("failed to find this program: {error}"))?;
        let mut command = Command::new(own);
        command.arg(FIFOS).args(self.0.iter().map(Stream::fifo)).arg(program);
        Ok(command)
    }

    /// Sets the streams of a command; `read`: output without a file is piped to this process.
    pub(super) fn give(self, command: &mut Command, read: bool) {
        let Self([input, out, err]) = self;
        let usual = || if read { Stdio::piped() } else { Stdio::inherit() };
        command.stdin(input.stdio(Stdio::inherit)).stdout(out.stdio(usual)).stderr(err.stdio(usual));
    }
}

fn input_file(name: &Path) -> Result<File, Trouble> {
    let failed = |error| Trouble::new(format!("Could not open stdin file {}: {error}", name.display()));
    File::open(name).map_err(failed)
}

/// `--fifos INPUT OUTPUT ERROR COMMAND...`: a task that opens FIFOs as its streams; an empty word keeps the present
/// stream.
///
/// # Errors
/// When a FIFO cannot be opened, or the command cannot be executed.
pub(crate) fn fifos(words: &[OsString]) -> Result<u8, Trouble> {
    let [input, out, err, program, rest @ ..] = words else { return Err(Trouble::new("no command")) };
    let mut command = Command::new(program);
    command.args(rest);
    if !input.is_empty() {
        command.stdin(input_file(Path::new(input))?);
    }
    let out_file = (!out.is_empty()).then(|| open("stdout", out, true)).transpose()?;
    let err_file = match &out_file {
        Some(file) if err == out => Some(file.try_clone().map_err(|error| error.to_string())?),
        _ => (!err.is_empty()).then(|| open("stderr", err, true)).transpose()?,
    };
    if let Some(file) = out_file {
        command.stdout(file);
    }
    if let Some(file) = err_file {
        command.stderr(file);
    }
    let error = command.exec();
    Err(failed_to_execute(Path::new(program), &error))
}
