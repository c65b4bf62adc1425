//! `pinfold top` and `pinfold ps`: views from the daemon, again and again, on a terminal that is put back as it was.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use pinfold_profile::report::{self, Screen, Sort};
use pinfold_proto::view::{ReportView, StatusView};
use pinfold_proto::wire::{Reply, Request, Select};
use pinfold_proto::{ExitCode, JobState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::args::{PsArgs, TopArgs};
use crate::client::{Client, Dial, unexpected};
use crate::failure::Failure;
use crate::show::{print_json, print_text, rows, width};

/// `pinfold ps`.
pub(crate) fn ps(dial: &Dial, args: &PsArgs) -> Result<(), Failure> {
    let mut client = dial.connect()?;
    let jobs = if args.jobs.is_empty() { running(&mut client)? } else { args.jobs.clone() };
    let views = if jobs.is_empty() { Vec::new() } else { processes(&mut client, jobs)? };
    if args.json {
        return views.iter().try_for_each(print_json);
    }
    print_text(|out| report::write_ps(&views, width(), out))
}

/// `pinfold top`.
pub(crate) fn top(dial: &Dial, args: &TopArgs) -> Result<(), Failure> {
    let mut client = dial.connect()?;
    let interval = args.every.max(Duration::from_millis(100));
    let mut screen = Screen { colour: io::stdout().is_terminal(), ..Screen::default() };
    if args.once || !io::stdout().is_terminal() {
        let first = status(&mut client)?;
        std::thread::sleep(interval.min(Duration::from_secs(1)));
        let now = status(&mut client)?;
        (screen.width, screen.height, screen.selected) = (width(), usize::MAX, usize::MAX - 1);
        let lines = report::frame(&now, Some(&first), &screen);
        return print_text(|out| lines.iter().try_for_each(|line| writeln!(out, "{line}")));
    }
    let terminal = Terminal::open()?;
    let (mut before, mut now) = (None, status(&mut client)?);
    loop {
        (screen.width, screen.height) = (width(), rows());
        terminal.draw(&report::frame(&now, before.as_ref(), &screen))?;
        let jobs = report::shown(&now, before.as_ref(), &screen);
        match terminal.key(interval)? {
            None => before = Some(std::mem::replace(&mut now, status(&mut client)?)),
            Some(Key::Quit) => return Ok(()),
            Some(Key::Sort(sort)) => screen.sort = sort,
            Some(Key::Up) => screen.selected = screen.selected.saturating_sub(1),
            Some(Key::Down) => screen.selected = (screen.selected + 1).min(jobs.len().saturating_sub(1)),
            Some(Key::Filter) => screen.filter = terminal.line("only jobs whose name or user holds: ")?,
            Some(Key::Enter) => {
                let job = jobs.get(screen.selected).map(|job| job.job);
                if let Some(view) = job
                    .map(|job| processes(&mut client, vec![job]))
                    .transpose()?
                    .and_then(|mut all| all.pop())
                {
                    terminal.draw(&report::process_frame(&view, &screen))?;
                    terminal.key(Duration::from_secs(3600))?;
                }
            }
            Some(Key::Other) => {}
        }
    }
}

fn status(client: &mut Client) -> Result<StatusView, Failure> {
    match client.ask(&Request::Status { jobs: Vec::new(), all: false })? {
        Reply::Status(view) => Ok(view),
        other => Err(unexpected(&other)),
    }
}

fn running(client: &mut Client) -> Result<Vec<u64>, Failure> {
    let lives = |state| matches!(state, JobState::Running | JobState::Frozen | JobState::Parked);
    Ok(status(client)?.jobs.iter().filter(|job| lives(job.state)).map(|job| job.job).collect())
}

fn processes(client: &mut Client, jobs: Vec<u64>) -> Result<Vec<ReportView>, Failure> {
    let select = Select::Jobs(jobs);
    let request = Request::Report { select, series: false, processes: true, threads: false, all: false };
    match client.ask(&request)? {
        Reply::Report(views) => Ok(views),
        other => Err(unexpected(&other)),
    }
}

enum Key {
    Quit,
    Up,
    Down,
    Enter,
    Filter,
    Sort(Sort),
    Other,
}

/// A terminal that hands keys over as they are typed and shows a screen of its own; put back when dropped.
struct Terminal {
    before: Termios,
}

impl Terminal {
    fn open() -> Result<Self, Failure> {
        let failed = |errno: rustix::io::Errno| {
            Failure::new(
                ExitCode::Failed,
                format!("top needs a terminal to read keys from: {errno}; --once does not"),
            )
        };
        let before = tcgetattr(rustix::stdio::stdin()).map_err(failed)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &raw).map_err(failed)?;
        let terminal = Self { before };
        // The other screen, without a cursor.
        terminal.write("\x1b[?1049h\x1b[?25l")?;
        Ok(terminal)
    }

    fn write(&self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .map_err(|error| Failure::doing("standard output", &error))
    }

    fn draw(&self, lines: &[String]) -> Result<(), Failure> {
        // Each line is cleared behind its end, and what is below the last one.
        self.write(&format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n")))
    }

    /// The next key, if one comes in time.
    fn key(&self, limit: Duration) -> Result<Option<Key>, Failure> {
        let limit = Timespec::try_from(limit).ok();
        let stdin = rustix::stdio::stdin();
        let ready = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], limit.as_ref()).unwrap_or(0);
        if ready == 0 {
            return Ok(None);
        }
        let mut bytes = [0u8; 8];
        let count = rustix::io::read(stdin, &mut bytes[..])
            .map_err(|errno| Failure::new(ExitCode::Failed, format!("standard input: {errno}")))?;
        Ok(Some(match &bytes[..count] {
            // Ctrl-C and Ctrl-D, and the end of the terminal.
            b"q" | b"\x03" | b"\x04" | b"" => Key::Quit,
            b"\x1b[A" | b"k" => Key::Up,
            b"\x1b[B" | b"j" => Key::Down,
            b"\r" | b"\n" => Key::Enter,
            b"/" => Key::Filter,
            b"c" => Key::Sort(Sort::Cpu),
            b"m" => Key::Sort(Sort::Memory),
            b"n" => Key::Sort(Sort::Number),
            _ => Key::Other,
        }))
    }

    /// A line typed at the foot of the screen.
    fn line(&self, prompt: &str) -> Result<String, Failure> {
        self.write(&format!("\x1b[{};1H\x1b[K{prompt}\x1b[?25h", rows()))?;
        let asked = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.before);
        let mut text = String::new();
        let read = io::stdin().read_line(&mut text);
        let mut raw = self.before.clone();
        raw.make_raw();
        let back = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &raw);
        self.write("\x1b[?25l\x1b[2J")?;
        asked.and(back).map_err(|errno| Failure::new(ExitCode::Failed, format!("the terminal: {errno}")))?;
        read.map_err(|error| Failure::doing("standard input", &error))?;
        Ok(text.trim().to_owned())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.write("\x1b[?25h\x1b[?1049l");
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.before);
    }
}
