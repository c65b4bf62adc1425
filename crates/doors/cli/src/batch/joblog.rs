//! The job log: a line for each job that ended, in the columns of GNU parallel's `--joblog`, and the lines that
//! have run already according to a log.
//!
//! A log may go to a pipe or a terminal with a reader that may stop. The rest is kept until it reads on: the keeper has
//! jobs to wait for, and signals to hear.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pinfold_proto::ExitCode;
use pinfold_sys::files;
use pinfold_sys::ready::Wanted;

use super::lines::Lines;
use super::outcome::Outcome;
use crate::input;
use crate::output::{self, Named};
use crate::print::say;
use pinfold_client::Failure;

const HEAD: &str = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n";

/// A job log that is written.
pub(super) struct JobLog {
    path: PathBuf,
    /// `None`: it was given up.
    file: Option<File>,
    /// Bytes that the file does not take yet.
    unwritten: Vec<u8>,
    /// Whether the wait for the log's reader was reported.
    told: bool,
}

impl JobLog {
    /// Begins a log, or continues a log.
    pub(super) fn open(path: &Path, resumes: bool) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::doing(format!("failed to write {}", path.display()), &error);
        let mut file = if resumes {
            let file = output::append(path, Named::ByUser).map_err(failed)?;
            remove_torn_end(&file).map_err(failed)?;
            file
        } else {
            // The content of an open file of this process (`/dev/stdout`) is kept, and is no part of the log.
            output::create(path, Named::ByUser).map_err(failed)?
        };
        if file.metadata().map_err(failed)?.len() == 0 {
            file.write_all(HEAD.as_bytes()).map_err(failed)?;
        }
        // No other process shares this open file description.
        files::set_nonblocking(&file).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file: Some(file), unwritten: Vec::new(), told: false })
    }

    /// Writes down a line that is over, if it ran. As with GNU parallel, a line that the batch told to end is not in the log:
    /// it is done when it is resumed.
    pub(super) fn over(&mut self, index: usize, outcome: &Outcome, command: &[u8]) {
        let Some(started) = outcome.started_at.filter(|_| !outcome.was_told_to_end) else { return };
        if self.file.is_none() {
            return;
        }
        let head = format!(
            "{}\t:\t{:.3}\t{:10.3}\t0\t{}\t{}\t{}\t",
            index + 1,
            started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
            outcome.ran().as_secs_f64(),
            outcome.received.unwrap_or_default(),
            outcome.exit_value().unwrap_or(0),
            outcome.signal.unwrap_or(0)
        );
        self.unwritten.extend_from_slice(head.as_bytes());
        self.unwritten.extend(one_line(command));
        self.unwritten.push(b'\n');
        self.write();
    }

    /// Writes as much as is taken now. A log that cannot be written is given up with a word, and the jobs go on.
    pub(super) fn write(&mut self) {
        let Some(file) = &mut self.file else { return };
        while !self.unwritten.is_empty() {
            match file.write(&self.unwritten) {
                Ok(count) => drop(self.unwritten.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.file = None;
                    self.unwritten.clear();
                    let text = format!(
                        "warning: failed to write {}: {error}; no more is logged",
                        self.path.display()
                    );
                    return say(&text);
                }
            }
        }
    }

    /// The file to wait for before more is written.
    pub(super) fn wanted(&self) -> Option<Wanted<'_>> {
        self.file.as_ref().filter(|_| !self.unwritten.is_empty()).map(Wanted::output)
    }

    /// Whether its reader is waited for now that all jobs are over. Prints that, once.
    pub(super) fn waits(&mut self) -> bool {
        let waits = !self.unwritten.is_empty();
        if waits && !std::mem::replace(&mut self.told, true) {
            let path = self.path.display();
            say(&format!(
                "all lines are over; waiting for the reader of {path}, which has not read all of the job log"
            ));
        }
        waits
    }

    /// Its reader is waited for no longer.
    pub(super) fn give_up(&mut self) {
        let lines = self.unwritten.split_inclusive(|&byte| byte == b'\n').count();
        if lines > 0 {
            self.file = None;
            self.unwritten.clear();
            say(&format!("warning: {lines} lines of the job log were not read from {}", self.path.display()));
        }
    }
}

/// A command as it stands in the log: a line stays a line, as GNU parallel has it.
fn one_line(command: &[u8]) -> impl Iterator<Item = u8> + '_ {
    command.iter().map(|&byte| if byte == b'\n' { 0 } else { byte })
}

/// A log's whole lines, and the rest behind them.
fn whole_lines(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1))
}

/// Whether the rest behind a log's whole lines is the beginning of a line that was torn: its disk was full, or its writer
/// was killed. Anything else is no job log's.
fn is_torn_line(whole: &[u8], rest: &[u8]) -> bool {
    if whole.is_empty() {
        return HEAD.as_bytes().starts_with(rest);
    }
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    whole.starts_with(HEAD.as_bytes()) && digits > 0 && matches!(rest.get(digits), None | Some(b'\t'))
}

/// A log goes on with a line of its own.
fn remove_torn_end(log: &File) -> io::Result<()> {
    if !log.metadata()?.is_file() {
        return Ok(());
    }
    let text = input::list(File::open(output::own_path(log))?)?;
    let (whole, rest) = whole_lines(&text);
    match !rest.is_empty() && is_torn_line(whole, rest) {
        true => log.set_len(whole.len() as u64),
        false => Ok(()),
    }
}

/// The places in the list, from 0, of the jobs that need not run by the log.
pub(super) fn done(path: &Path, lines: &Lines, failed_again: bool) -> Result<Vec<usize>, Failure> {
    let text = match File::open(path).and_then(input::list) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Failure::doing(format!("failed to read {}", path.display()), &error)),
    };
    let mut ended = BTreeMap::new();
    let (whole, rest) = whole_lines(&text);
    // A job with a torn line has not run, as far as the log says.
    let is_read = rest.is_empty() || is_torn_line(whole, rest);
    let lines_read = whole.split_inclusive(|&byte| byte == b'\n').chain((!is_read).then_some(rest));
    for (number, line) in (1..).zip(lines_read) {
        let bad = |what: &str| {
            let text = format!("{}, line {number}: {what}", path.display());
            Failure::new(ExitCode::Usage, text)
        };
        let no_line = || bad("not a line of a job log");
        let line = line.strip_suffix(b"\n").ok_or_else(no_line)?;
        if line.is_empty() || line.starts_with(b"Seq\t") {
            continue;
        }
        let (seq, success, command) = read(line).ok_or_else(no_line)?;
        if lines.count() < seq || !one_line(lines.line(seq - 1).as_bytes()).eq(command) {
            return Err(bad("another command than the list has there: the log is of another list"));
        }
        // The last word on a job counts.
        ended.insert(seq - 1, success);
    }
    Ok(ended.into_iter().filter(|(_, success)| *success || !failed_again).map(|(place, _)| place).collect())
}

/// Its place from 1, whether it succeeded, and the command.
fn read(line: &[u8]) -> Option<(usize, bool, Vec<u8>)> {
    let fields: Vec<&[u8]> = line.splitn(9, |&byte| byte == b'\t').collect();
    let [seq, _, _, _, _, _, exit, signal, command] = fields[..] else { return None };
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.trim().parse::<i64>().ok();
    let seq = usize::try_from(number(seq)?).ok().filter(|&seq| seq > 0)?;
    Some((seq, number(exit)? == 0 && number(signal)? == 0, command.to_vec()))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// A line that ended after this time.
    fn ended(ran: Duration, exit_code: Option<i32>, signal: Option<i32>) -> Outcome {
        let now = Instant::now();
        Outcome {
            started: Some(now),
            ended: Some(now + ran),
            started_at: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1_790_000_000_250)),
            received: Some(7),
            exit_code,
            signal,
            ..Outcome::default()
        }
    }

    #[test]
    fn what_is_not_read_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let reader = File::options().read(true).write(true).open(&path).unwrap();
        let mut log = JobLog::open(&path, false).unwrap();
        let command = vec![b'x'; 10_000];
        for seq in 1..=20 {
            log.over(seq - 1, &ended(Duration::ZERO, Some(0), None), &command);
        }
        assert!(log.wanted().is_some() && log.waits());
        let mut lines = io::BufRead::lines(io::BufReader::new(reader));
        let mut read = 0;
        while read < 21 {
            assert!(lines.next().unwrap().unwrap().len() > 60);
            read += 1;
            log.write();
        }
        assert!(log.wanted().is_none() && !log.waits());
    }

    #[test]
    fn a_log_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let lines = Lines::of(b"true\n\nexit 3\nkill -9 $$\nnever\n");
        assert_eq!(done(&path, &lines, false).unwrap(), Vec::<usize>::new());
        let mut log = JobLog::open(&path, false).unwrap();
        let mut add = |place: usize, exit_code, signal| {
            let outcome = ended(Duration::from_millis(1_500), exit_code, signal);
            log.over(place, &outcome, lines.line(place).as_bytes());
        };
        add(0, Some(0), None);
        add(1, Some(3), None);
        add(2, None, Some(9));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(HEAD), "{text}");
        assert!(text.contains("2\t:\t1790000000.250\t     1.500\t0\t7\t3\t0\texit 3\n"), "{text}");
        assert_eq!(done(&path, &lines, false).unwrap(), [0, 1, 2]);
        assert_eq!(done(&path, &lines, true).unwrap(), [0]);
        // The second try counts.
        drop(log);
        JobLog::open(&path, true).unwrap().over(1, &ended(Duration::ZERO, Some(0), None), b"exit 3");
        assert_eq!(done(&path, &lines, true).unwrap(), [0, 1]);
        // Torn within the number, the command, or the head: the job has not run, and the log stays readable.
        let whole = std::fs::read(&path).unwrap();
        for torn in ["4", "4\t:\t1790000000.250\t     1.500\t0\t7\t3\t0\tnev"] {
            std::fs::write(&path, [&whole, torn.as_bytes()].concat()).unwrap();
            assert_eq!(done(&path, &lines, false).unwrap(), [0, 1, 2], "{torn}");
            drop(JobLog::open(&path, true).unwrap());
            assert_eq!(std::fs::read(&path).unwrap(), whole, "{torn}");
        }
        std::fs::write(&path, "Seq\tHo").unwrap();
        assert_eq!(done(&path, &lines, false).unwrap(), Vec::<usize>::new());
        drop(JobLog::open(&path, true).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), HEAD);
        std::fs::write(&path, &whole).unwrap();
        let other = Lines::of(b"true\nexit 4\n");
        assert!(done(&path, &other, false).unwrap_err().message.contains("another list"));
        std::fs::write(&path, "what\n").unwrap();
        assert!(done(&path, &lines, false).unwrap_err().message.contains("line 1"));
    }

    /// Neither counts as done when the list is resumed.
    #[test]
    fn lines_that_were_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let lines = Lines::of(b"one\ntwo\n");
        let mut log = JobLog::open(&path, false).unwrap();
        let ended = Outcome { started_at: Some(SystemTime::now()), exit_code: Some(0), ..Outcome::default() };
        log.over(0, &Outcome { end: Some(pinfold_proto::End::Timeout), ..ended.clone() }, b"one");
        log.over(1, &Outcome { was_told_to_end: true, ..ended }, b"two");
        assert_eq!(done(&path, &lines, false).unwrap(), [0]);
        assert_eq!(done(&path, &lines, true).unwrap(), Vec::<usize>::new());
    }

    #[test]
    fn what_is_no_torn_line_of_a_log_is_refused_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let lines = Lines::of(b"true\nfalse\n");
        let entry = "1\t:\t1790000000.250\t     1.500\t0\t7\t0\t0\ttrue";
        for (text, number) in [
            ("{\"key\": 1}".to_owned(), 1),
            ("key = 1".to_owned(), 1),
            ("12".to_owned(), 1),
            (entry.to_owned(), 1),
            (format!("{entry}\n2\t:"), 2),
            (format!("{HEAD}{entry}\nnote"), 3),
            (format!("{HEAD}{entry}\n2 notes"), 3),
        ] {
            std::fs::write(&path, &text).unwrap();
            let refused = done(&path, &lines, false).expect_err(&text).message;
            assert!(
                refused.ends_with(&format!("line {number}: not a line of a job log")),
                "{text}: {refused}"
            );
            remove_torn_end(&File::options().append(true).open(&path).unwrap()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn a_log_that_begins_in_an_open_file_keeps_what_is_there() {
        use std::os::fd::AsRawFd as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        for text in ["note", "1", "Seq\tHo"] {
            std::fs::write(&path, text).unwrap();
            let out = File::options().append(true).open(&path).unwrap();
            // As a shell hands it on.
            rustix::io::fcntl_setfd(&out, rustix::io::FdFlags::empty()).unwrap();
            drop(JobLog::open(Path::new(&format!("/dev/fd/{}", out.as_raw_fd())), false).unwrap());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}
