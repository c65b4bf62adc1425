//! A line in a job's standard error about a fact that no daemon reports: the daemon that had the job is gone for good.
//!
//! Nothing waits for the line: a FIFO takes it if it is read at that moment and has room, a terminal or another device
//! gets none. Absent here: when there is no daemon for a job (`keeper`).

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileTypeExt as _;

use pinfold_proto::Ending;
use pinfold_sys::{files, signals};

use crate::notify;
use crate::output;
use pinfold_client::Dial;

/// The number of the job with this ticket, and its standard error.
pub(crate) type ErrorOf = Box<dyn Fn(u64) -> Option<(u64, File)>>;

/// The longest line, in bytes: a FIFO takes it as a whole.
const LINE_MAX_BYTES: usize = 1024;

/// See the module's page.
pub(crate) struct Notes {
    error_of: ErrorOf,
    /// The command of `--notify`.
    notify: Option<String>,
}

impl Notes {
    /// For jobs with these standard errors.
    pub(crate) fn new(error_of: ErrorOf) -> Self {
        Self { error_of, notify: None }
    }

    /// A job that no daemon reports ended, for this reason.
    pub(crate) fn ended(&self, ticket: u64, ending: &Ending, why: &str) {
        let how = match (ending.exit_code, ending.signal) {
            (_, Some(signal)) => format!("was ended by signal {}", signal_name(signal)),
            (Some(code), None) => format!("ended with exit code {code}"),
            (None, None) => "ended".to_owned(),
        };
        self.leave(ticket, &how, why);
    }

    /// A job that no daemon reports was not started, for this reason.
    pub(crate) fn not_started(&self, ticket: u64, why: &str) {
        self.leave(ticket, "was not started", why);
    }

    /// Has this command run when all jobs are over.
    pub(crate) fn with_notify(self, command: Option<&str>) -> Self {
        Self { notify: command.map(str::to_owned), ..self }
    }

    /// Runs the command of `--notify`: all jobs are over. A failure is written to the standard error of the first job
    /// (its number is the array's).
    pub(crate) fn notify(&self, dial: &Dial) {
        let Some((command, (job, file))) = self.notify.as_ref().zip((self.error_of)(1)) else { return };
        if let Err(failure) = notify::of_job(command, dial, job) {
            // The keeper has no other place to report that this line cannot be written.
            let _ = write_line(&file, &format!("pinfold: {}", failure.message));
        }
    }

    fn leave(&self, ticket: u64, what: &str, why: &str) {
        if let Some((job, file)) = (self.error_of)(ticket) {
            // The keeper has no other place to report that this line cannot be written.
            let _ = write_line(&file, &format!("pinfold: job {job} {what}: {why}"));
        }
    }
}

/// The name of a signal, or its number.
pub(crate) fn signal_name(signal: i32) -> String {
    signals::name(signal).map_or_else(|| signal.to_string(), str::to_owned)
}

/// Writes a line, cut to its bound, at the end of a file, or to a FIFO with a reader and room.
fn write_line(file: &File, line: &str) -> io::Result<()> {
    let plain: String = line.chars().map(|sign| if sign.is_control() { ' ' } else { sign }).collect();
    let mut line = plain[..plain.floor_char_boundary(LINE_MAX_BYTES - 1)].to_owned();
    line.push('\n');
    let found = file.metadata()?.file_type();
    if found.is_file() {
        (&*file).write_all(line.as_bytes())
    } else if found.is_fifo() {
        // Opened for itself: the job's own writes wait for their reader as before.
        let mut pipe = files::open_pipe_with_reader(&output::own_path(file))?;
        files::set_nonblocking(&pipe)?;
        pipe.write(line.as_bytes()).map(drop)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::path::Path;

    use rustix::fs::{CWD, FileType, Mode};

    use super::*;
    use crate::output::Named;

    fn notes(path: &Path) -> Notes {
        let path = path.to_owned();
        Notes::new(Box::new(move |ticket| {
            let file = output::append_for_job(&path, Named::ByUser).ok()?;
            Some((ticket + 11, file))
        }))
    }

    #[test]
    fn a_line_goes_behind_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("err");
        std::fs::write(&path, "of the job\n").unwrap();
        let ending = |exit_code, signal| Ending { exit_code, signal, ..Ending::default() };
        notes(&path).ended(1, &ending(None, Some(15)), "no daemon");
        notes(&path).ended(1, &ending(Some(3), None), "two\nlines\u{1b}[m");
        notes(&path).not_started(1, &"ä".repeat(5_000));
        let said = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(
            lines[..3],
            [
                "of the job",
                "pinfold: job 12 was ended by signal TERM: no daemon",
                "pinfold: job 12 ended with exit code 3: two lines [m"
            ]
        );
        let long = lines[3];
        assert!(long.starts_with("pinfold: job 12 was not started: ä") && long.len() < LINE_MAX_BYTES);
        assert!(said.ends_with("ä\n") && lines.len() == 4);
    }

    /// Nobody reads, or what is read is full: the line is not written, and nothing waits.
    #[test]
    fn a_fifo_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        notes(&path).not_started(1, "nobody reads");
        let mut both = File::options().read(true).write(true).open(&path).unwrap();
        notes(&path).not_started(1, "it is read");
        let want = "pinfold: job 12 was not started: it is read\n";
        let mut said = vec![0; want.len()];
        both.read_exact(&mut said).unwrap();
        assert_eq!(String::from_utf8(said).unwrap(), want);
        let full = files::open_pipe_with_reader(&path).unwrap();
        files::set_nonblocking(&full).unwrap();
        while (&full).write(&[b'x'; 4096]).is_ok() {}
        notes(&path).not_started(1, "there is no room");
        notes(Path::new("/dev/null")).not_started(1, "a device");
        notes(Path::new("/nowhere/err")).not_started(1, "nothing is there");
    }
}
