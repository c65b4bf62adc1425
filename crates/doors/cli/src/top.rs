//! `pinfold top`: views from the daemon, again and again, of now or of a moment in the past.
//!
//! The daemon tells the content of the screen, `profile` draws it, `terminal` owns the terminal; here are
//! the keys: [`act`] has the keys that change a job, [`cores`] how busy the cores are. Owner of state: [`Watch`].

mod act;
mod cores;

use std::io::{self, IsTerminal};
use std::time::{Duration, SystemTime};

use clap::Args;
use pinfold_profile::report::{self, CoreUse, Load, Screen, Sort};
use pinfold_proto::view::{MapView, ReportView, StatusView};
use pinfold_proto::wire::{Request, Select, Verb};
use pinfold_proto::{ExitCode, JobState};

use crate::again::interval;
use crate::print::{colours, is_dumb, moment_as_of, print_json, print_text, rows, say, screen, width};
use crate::show::say_why;
use crate::terminal::{Key, Terminal};
use pinfold_client::{Client, Dial, Failure};

use act::Act;
use cores::Cores;

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Time between two looks
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = interval)]
    pub every: Duration,
    /// Print one screen and end
    #[arg(long)]
    pub once: bool,
    /// The host as it was, from the store: so long ago (2h), at a date (2026-11-21 22:10) or at Unix seconds (@1790000000)
    #[arg(long, value_name = "WHEN")]
    pub at: Option<String>,
    /// Begin with the cores and the jobs on them
    #[arg(long)]
    pub cores: bool,
    /// Print one JSON object, as `status` does, and end
    #[arg(long, conflicts_with = "once")]
    pub json: bool,
}

/// How many jobs that wait are asked about at each look; the screen has few lines, and the next look comes soon.
const WHY_MAX: usize = 20;

/// The source of the shown data.
pub(crate) trait Told {
    /// The host, now or at an earlier moment.
    fn status(&mut self, at_us: Option<u64>) -> Result<StatusView, Failure>;

    /// Its cores.
    fn map(&mut self) -> Result<MapView, Failure>;

    /// A job with its processes.
    fn job(&mut self, job: u64) -> Result<Option<ReportView>, Failure>;

    /// Controls a job; gives the daemon's remark.
    fn control(&mut self, job: u64, verb: Verb) -> Result<Option<String>, Failure>;

    /// Whether the data is of this host, with known cores, processes and earlier moments.
    fn is_here(&self) -> bool;
}

impl Told for Client {
    fn status(&mut self, at_us: Option<u64>) -> Result<StatusView, Failure> {
        let mut view = status(self, at_us)?;
        if at_us.is_none() {
            say_why(self, &mut view.jobs, WHY_MAX)?;
        }
        Ok(view)
    }

    fn map(&mut self) -> Result<MapView, Failure> {
        answer!(self.ask(&Request::Map)?, Map)
    }

    fn job(&mut self, job: u64) -> Result<Option<ReportView>, Failure> {
        Ok(processes(self, vec![job])?.pop())
    }

    fn control(&mut self, job: u64, verb: Verb) -> Result<Option<String>, Failure> {
        crate::control::change(self, job, verb)
    }

    fn is_here(&self) -> bool {
        true
    }
}

/// `pinfold top`.
pub(crate) fn top(dial: &Dial, args: &TopArgs) -> Result<(), Failure> {
    watch(Box::new(dial.connect()?), args)
}

/// As above, for data of any source.
pub(crate) fn watch(told: Box<dyn Told + '_>, args: &TopArgs) -> Result<(), Failure> {
    let at_us = args.at.as_deref().map(moment_before).transpose()?;
    let mut watch = Watch::new(told, args.every.max(Duration::from_millis(100)), at_us);
    if args.json {
        watch.look()?;
        return print_json(&watch.now);
    }
    let is_screen = io::stdout().is_terminal() && !is_dumb();
    if !args.once && !is_screen && io::stdout().is_terminal() {
        say("this terminal (TERM=dumb) cannot show a screen that changes; here is one look");
    }
    if args.once || !is_screen {
        watch.look()?;
        if at_us.is_none() {
            std::thread::sleep(watch.interval.min(Duration::from_secs(1)));
            watch.look()?;
        }
        let size = (width(), usize::MAX);
        (watch.screen.width, watch.screen.height, watch.screen.selected) = (size.0, size.1, usize::MAX - 1);
        watch.showing = if args.cores { Showing::Cores } else { Showing::Jobs };
        if args.cores {
            (watch.screen.height, watch.screen.selected) = (rows().max(24), 0);
        }
        let lines = watch.lines()?;
        return print_text(|out| lines.iter().try_for_each(|line| writeln!(out, "{line}")));
    }
    let mut terminal = Terminal::open("top")?;
    watch.look()?;
    watch.showing = if args.cores { Showing::Cores } else { Showing::Jobs };
    loop {
        (watch.screen.width, watch.screen.height) = screen();
        let lines = watch.lines()?;
        terminal.draw(&report::with_said(lines, &watch.screen))?;
        let key = terminal.key(watch.interval)?;
        if key.is_some() {
            watch.screen.said.clear();
        }
        match key {
            None if watch.at_us.is_none() => watch.look()?,
            None => {}
            Some(Key::Quit) => return Ok(()),
            Some(Key::Sign('/')) => {
                if let Some(filter) = terminal.line("only what holds: ")? {
                    watch.screen.filter = filter;
                }
            }
            Some(Key::Sign(sign @ ('s' | 'x' | '+' | '-'))) => watch.change(sign, &mut terminal)?,
            Some(key) if watch.typed(key)? => return Ok(()),
            Some(_) => {}
        }
    }
}

/// The moment that `--at` names. A future moment has nothing to see.
fn moment_before(when: &str) -> Result<u64, Failure> {
    let now = SystemTime::now();
    let at_us = moment_as_of(now, "--at", when)?;
    if u128::from(at_us) > now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros() {
        return Err(Failure::new(ExitCode::Usage, format!("--at {when}: that is in the future")));
    }
    Ok(at_us)
}

/// The subject of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Showing {
    Jobs,
    Cores,
    /// The processes of a job.
    Inside(u64),
    /// The keys.
    Help,
}

/// The watched jobs, and the view of them.
struct Watch<'a> {
    told: Box<dyn Told + 'a>,
    interval: Duration,
    screen: Screen,
    showing: Showing,
    /// The screen below the help.
    behind: Showing,
    /// The mark on the jobs, while something else is shown.
    marked: usize,
    /// The job under the mark.
    marked_job: Option<u64>,
    /// The moment that is shown; `None`: now.
    at_us: Option<u64>,
    now: StatusView,
    before: Option<StatusView>,
    cores: Cores,
}

impl<'a> Watch<'a> {
    fn new(told: Box<dyn Told + 'a>, interval: Duration, at_us: Option<u64>) -> Self {
        let screen = Screen { colour: colours(), ..Screen::default() };
        Self {
            told,
            interval,
            screen,
            showing: Showing::Jobs,
            behind: Showing::Jobs,
            marked: 0,
            marked_job: None,
            at_us,
            now: nothing(),
            before: None,
            cores: Cores::default(),
        }
    }

    /// Asks the daemon.
    fn look(&mut self) -> Result<(), Failure> {
        let now = self.told.status(self.at_us)?;
        let before = std::mem::replace(&mut self.now, now);
        self.before = Some(before).filter(|before| self.at_us.is_none() && !before.host.is_empty());
        self.screen.load = Load::default();
        if !self.told.is_here() || self.at_us.is_some() {
            return Ok(());
        }
        if !self.cores.is_known()
            && let Ok(map) = self.told.map()
        {
            // Where the machine cannot be read there are no meters; the view of the cores says why.
            let _ = self.cores.learn(&map);
        }
        self.cores.look(&self.now);
        self.screen.load = self.cores.load();
        Ok(())
    }

    fn lines(&mut self) -> Result<Vec<String>, Failure> {
        match self.showing {
            Showing::Jobs => {
                self.follow();
                Ok(report::frame(&self.now, self.before.as_ref(), &self.screen))
            }
            Showing::Cores => {
                let cores = self.core_uses()?;
                Ok(report::cores_frame(&self.now, &cores, &self.screen))
            }
            Showing::Help => Ok(report::help_frame(&self.screen)),
            Showing::Inside(job) => {
                let view = self.told.job(job)?;
                let at_s = self.now.at_s;
                Ok(view.map_or_else(Vec::new, |view| report::process_frame(&view, at_s, &self.screen)))
            }
        }
    }

    /// Carries out a key; `true`: to end.
    fn typed(&mut self, key: Key) -> Result<bool, Failure> {
        let page = self.screen.height.saturating_sub(5).max(1);
        let of_here =
            matches!(key, Key::Enter | Key::Left | Key::Right | Key::Sign('v' | '[' | ']' | '{' | '}'));
        if of_here && !self.told.is_here() {
            return Ok(false);
        }
        match key {
            Key::Sign('?' | 'h') if self.showing != Showing::Help => {
                self.behind = self.showing;
                self.show(Showing::Help);
            }
            Key::Sign('q' | '?' | 'h') | Key::Escape if self.showing == Showing::Help => {
                self.show(self.behind)
            }
            Key::Sign('q') | Key::Escape if self.showing == Showing::Jobs => return Ok(key != Key::Escape),
            Key::Sign('q') | Key::Escape => self.show(Showing::Jobs),
            Key::Sign('v') if self.showing == Showing::Cores => self.show(Showing::Jobs),
            Key::Sign('v') => self.show(Showing::Cores),
            Key::Enter => self.enter(),
            Key::Sign('c') => self.screen.sort = Sort::Cpu,
            Key::Sign('m') => self.screen.sort = Sort::Memory,
            Key::Sign('n') => self.screen.sort = Sort::Number,
            Key::Sign('t') => self.screen.sort = Sort::Time,
            Key::Up | Key::Sign('k') => self.scroll(|at| at.saturating_sub(1)),
            Key::Down | Key::Sign('j') => self.scroll(|at| at.saturating_add(1)),
            Key::PageUp => self.scroll(|at| at.saturating_sub(page)),
            Key::PageDown => self.scroll(|at| at.saturating_add(page)),
            Key::Home => self.scroll(|_| 0),
            Key::Left => self.go(self.interval, true)?,
            Key::Right => self.go(self.interval, false)?,
            Key::Sign('[') => self.go(Duration::from_secs(60), true)?,
            Key::Sign(']') => self.go(Duration::from_secs(60), false)?,
            Key::Sign('{') => self.go(Duration::from_secs(3600), true)?,
            Key::Sign('}') => self.go(Duration::from_secs(3600), false)?,
            Key::Sign('l') | Key::End => {
                self.at_us = None;
                self.look()?;
            }
            _ => {}
        }
        Ok(false)
    }

    fn show(&mut self, showing: Showing) {
        if self.showing == Showing::Jobs {
            self.marked = self.screen.selected;
        }
        self.screen.selected = if showing == Showing::Jobs { self.marked } else { 0 };
        self.showing = showing;
    }

    /// Into the marked job, and back.
    fn enter(&mut self) {
        if self.showing != Showing::Jobs {
            return self.show(Showing::Jobs);
        }
        let jobs = report::shown(&self.now, self.before.as_ref(), &self.screen);
        if let Some(job) = jobs.get(self.screen.selected).map(|job| job.job) {
            // The text that jobs were filtered by does not fit processes.
            self.screen.filter.clear();
            self.show(Showing::Inside(job));
        }
    }

    /// Keeps the mark on its job; once that is no longer shown, on the job in its place.
    fn follow(&mut self) {
        let shown = report::shown(&self.now, self.before.as_ref(), &self.screen);
        let jobs: Vec<u64> = shown.iter().map(|job| job.job).collect();
        if let Some(marked) = self.marked_job {
            let place = self.screen.selected.min(jobs.len().saturating_sub(1));
            self.screen.selected = jobs.iter().position(|&job| job == marked).unwrap_or(place);
        }
        self.marked_job = jobs.get(self.screen.selected).copied();
    }

    fn scroll(&mut self, to: impl Fn(usize) -> usize) {
        let most = match self.showing {
            Showing::Jobs => report::shown(&self.now, self.before.as_ref(), &self.screen).len(),
            // A list that is scrolled too far stays at its end.
            Showing::Cores | Showing::Inside(_) | Showing::Help => usize::from(u16::MAX),
        };
        self.screen.selected = to(self.screen.selected).min(most.saturating_sub(1));
        if self.showing == Showing::Jobs {
            self.marked_job = None;
            self.follow();
        }
    }

    /// Asks whether to change the marked job, and does.
    fn change(&mut self, sign: char, terminal: &mut Terminal) -> Result<(), Failure> {
        self.screen.said = match self.wished(sign) {
            Err(why) => why,
            Ok(act) if !terminal.confirm(&format!("{}? y/n ", act.question))? => {
                "nothing was changed".to_owned()
            }
            Ok(act) => match self.told.control(act.job, act.verb) {
                Ok(note) => note.unwrap_or(act.done),
                Err(failure) if failure.code == ExitCode::NoDaemon => return Err(failure),
                Err(failure) => failure.message,
            },
        };
        self.look()
    }

    fn wished(&self, sign: char) -> Result<Act, String> {
        if self.at_us.is_some() {
            return Err("this moment is over: l shows the jobs as they are now".to_owned());
        }
        let job = match self.showing {
            Showing::Jobs => report::shown(&self.now, self.before.as_ref(), &self.screen)
                .get(self.screen.selected)
                .copied(),
            Showing::Inside(job) => self.now.jobs.iter().find(|one| one.job == job),
            Showing::Cores | Showing::Help => None,
        };
        Act::of(sign, job.ok_or("no job is marked: q shows the jobs, up and down mark one")?)
    }

    /// To an earlier or later moment; a moment after the end is now.
    fn go(&mut self, by: Duration, back: bool) -> Result<(), Failure> {
        let by_us = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        let from_us = self.at_us.unwrap_or(now_us);
        let to_us = if back { from_us.saturating_sub(by_us) } else { from_us.saturating_add(by_us) };
        self.at_us = Some(to_us).filter(|&to_us| to_us < now_us);
        self.look()
    }

    /// The cores and the jobs on them.
    fn core_uses(&mut self) -> Result<Vec<CoreUse>, Failure> {
        let now = self.at_us.is_none();
        let map = if now || !self.cores.is_known() { Some(self.told.map()?) } else { None };
        if let Some(map) = map.as_ref().filter(|_| !self.cores.is_known()) {
            self.cores.learn(map)?;
        }
        Ok(self.cores.uses(&self.now, map.as_ref().filter(|_| now)))
    }
}

/// The state before the first look.
fn nothing() -> StatusView {
    StatusView {
        version: pinfold_proto::view::VERSION,
        host: String::new(),
        mode: String::new(),
        slots: pinfold_proto::view::SlotsView { cores: 0, factor: 0.0, total: 0, used: 0, waiting: 0 },
        memory: pinfold_proto::view::MemoryView {
            budget_bytes: 0,
            held_bytes: 0,
            swap_held_bytes: 0,
            pressure_full_avg10: None,
        },
        projects: Vec::new(),
        at_s: None,
        reading: None,
        resources: Vec::new(),
        other_load: None,
        neighbours: None,
        draining: false,
        jobs: Vec::new(),
        warnings: Vec::new(),
    }
}

pub(crate) fn status(client: &mut Client, at_us: Option<u64>) -> Result<StatusView, Failure> {
    answer!(client.ask(&Request::Status { jobs: Vec::new(), all: false, at_us })?, Status)
}

pub(crate) fn running(client: &mut Client) -> Result<Vec<u64>, Failure> {
    let lives = |state| matches!(state, JobState::Running | JobState::Frozen | JobState::Parked);
    Ok(status(client, None)?.jobs.iter().filter(|job| lives(job.state)).map(|job| job.job).collect())
}

pub(crate) fn processes(client: &mut Client, jobs: Vec<u64>) -> Result<Vec<ReportView>, Failure> {
    let (series, processes, threads, files, all, pieces) = (false, true, false, false, false, false);
    let select = Select::Jobs(jobs);
    let request = Request::Report { select, series, processes, threads, files, all, pieces };
    answer!(client.ask(&request)?, Report)
}

#[cfg(test)]
mod tests;
