//! How a batch ends before its lines are over: it is told to, gives up after failures, or its user's command is gone.

use std::io::PipeReader;
use std::time::{Duration, Instant};

use pinfold_client::Dial;
use pinfold_proto::wire::Request;
use pinfold_sys::ready::{self, Wanted};
use pinfold_sys::signals::{SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP};
use pinfold_sys::spawn;

use super::joblog::JobLog;
use super::{Batch, ticket};
use crate::keeper::{Told, send_signal_to_group};

/// The time between telling lines to end and killing them: as for cancelled jobs.
const KILLED_AFTER: Duration = Duration::from_secs(10);

/// The signals that end a batch.
const ENDS: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// The interval of looks at the lines that were told to end.
const LEFTOVERS_PAUSE: Duration = Duration::from_millis(20);

impl Batch {
    pub(super) fn count_failure(&mut self) {
        self.failures += 1;
        let Some(halt) = self.halt.filter(|halt| self.failures >= halt.failures) else { return };
        if self.is_over_early() {
            return;
        }
        self.halted = true;
        self.withdraw_waiting("the batch gave up before the job started (--halt)");
        if halt.now {
            self.signal_running(SIGTERM);
        }
        let running = if halt.now { "those that run are ended" } else { "those that run go on" };
        let failures = self.failures;
        self.progress.note(&format!("{failures} failed: no more is started, {running} (--halt)"));
    }

    /// Kills lines that run on after they were told to end.
    pub(super) fn kill_late_lines(&mut self) {
        if self.kill_at.take_if(|at| *at <= Instant::now()).is_some() {
            self.signal_running(SIGKILL);
        }
    }

    fn signal_running(&mut self, signal: i32) {
        let running: Vec<(u64, u32)> = self.keeper.running().collect();
        for (ticket, pid) in running {
            self.outcome(ticket).was_told_to_end = true;
            send_signal_to_group(pid, signal);
            self.keeper.interrupted(ticket);
        }
        if signal == SIGKILL {
            self.told_to_end().into_iter().for_each(|job| self.keeper.cancel(job, SIGKILL));
        } else {
            self.kill_at.get_or_insert_with(|| Instant::now() + KILLED_AFTER);
        }
    }

    /// The jobs that were told to end.
    fn told_to_end(&self) -> Vec<u64> {
        let told = self.outcomes.iter().filter(|outcome| outcome.was_told_to_end);
        told.filter_map(|outcome| outcome.job).collect()
    }

    /// Waits until no process is left of the lines that were told to end; a line's command may end before a process that
    /// handles the signal.
    pub(super) fn await_leftovers(&mut self, dial: Dial) {
        let jobs = self.told_to_end();
        if jobs.is_empty() || self.keeper.alone_for().is_some() {
            return;
        }
        let over = std::thread::spawn(move || dial.connect()?.ask(&Request::Wait { jobs }));
        while !over.is_finished() {
            for told in self.keeper.wait(Vec::new(), Some(LEFTOVERS_PAUSE)) {
                match told {
                    Told::Signal(arrived) => self.signal(arrived.signal),
                    told => self.hear(told),
                }
            }
            self.kill_late_lines();
        }
    }

    /// A signal for the batch is for its lines: the signals in [`ENDS`] end the batch, signals of job control stop and continue
    /// all lines, every other signal goes to each running line.
    pub(super) fn signal(&mut self, signal: i32) {
        match signal {
            SIGTSTP => {
                self.keeper.pause_starts();
                self.pass_on(SIGSTOP);
            }
            SIGCONT => {
                self.pass_on(SIGCONT);
                self.keeper.allow_starts();
            }
            _ if ENDS.contains(&signal) => self.end(signal),
            _ => self.pass_on(signal),
        }
    }

    fn pass_on(&self, signal: i32) {
        self.keeper.running().for_each(|(_, pid)| send_signal_to_group(pid, signal));
    }

    /// The user wants it to end: waiting jobs are withdrawn, running jobs get the signal, and from the third time on
    /// SIGKILL.
    pub(super) fn end(&mut self, signal: i32) {
        let times = self.ending.map_or(1, |(_, times)| times + 1);
        self.ending = Some((signal, times));
        self.withdraw_waiting("the batch was told to end before the job started");
        let sent = if times >= 3 { SIGKILL } else { signal };
        self.signal_running(sent);
        self.pass_on(SIGCONT);
        self.progress.note(match times {
            1 => "ending: running jobs got the signal, waiting ones are withdrawn",
            2 => "the signal was sent again; once more kills",
            _ => "killed what was left",
        });
    }

    /// The command that waits for the result was killed: running lines go on, the rest is not started.
    pub(super) fn orphan(&mut self) {
        self.orphaned = true;
        self.withdraw_waiting("the batch command was killed before the job started");
        // The reader of the outputs must not wait for lines that run on.
        self.work.printer.give_up();
        let _ = spawn::null_streams();
    }

    /// No daemon reports how lines ended: the exit codes of their commands count.
    pub(super) fn over_without_word(&mut self) {
        let waiting: Vec<usize> =
            (0..self.outcomes.len()).filter(|&index| self.outcomes[index].awaits_word()).collect();
        waiting.into_iter().for_each(|index| self.over(ticket(index)));
    }

    /// All lines are over. The rest of their outputs, or of the log, is waited for, until a signal ends
    /// that; if a signal ended the lines, not for long.
    pub(super) fn drain(&mut self, alive: &PipeReader, with_log: bool) {
        let mut until = self.ending.map(|_| Instant::now() + KILLED_AFTER);
        loop {
            if self.orphaned {
                until.get_or_insert_with(|| Instant::now() + KILLED_AFTER);
            }
            self.print();
            let work = &mut self.work;
            work.log.iter_mut().for_each(JobLog::write);
            let waits = with_log && work.log.as_mut().is_some_and(JobLog::waits);
            if !waits && work.printer.wanted().is_none() {
                return;
            }
            if until.is_some_and(|at| at <= Instant::now()) {
                return self.give_up();
            }
            let left = until.map(|at| at.saturating_duration_since(Instant::now()));
            let alive_still = (!self.orphaned).then(|| Wanted::end(alive));
            for told in self.keeper.wait(alive_still.into_iter().chain(work.unread()).collect(), left) {
                if let Told::Signal(arrived) = &told
                    && ENDS.contains(&arrived.signal)
                {
                    self.ending = Some((arrived.signal, 1));
                    return self.give_up();
                }
                self.hear(told);
            }
            if !self.orphaned && ready::is_hung_up(alive) {
                self.orphan();
            }
        }
    }

    fn give_up(&mut self) {
        if self.work.printer.give_up() {
            self.progress.note("nobody reads the outputs: what was not read of them is lost");
        }
        self.work.log.iter_mut().for_each(JobLog::give_up);
    }

    fn withdraw_waiting(&mut self, reason: &str) {
        for ticket in self.keeper.waiting() {
            if self.keeper.withdraw(ticket, reason) {
                self.outcome(ticket).never_starts(reason.to_owned());
            }
        }
        for index in std::mem::take(&mut self.again) {
            self.outcomes[index].never_starts(reason.to_owned());
        }
        self.again_at = None;
        for &index in &self.work.order[self.next..] {
            self.outcomes[index].never_starts(reason.to_owned());
        }
        self.next = self.work.order.len();
    }
}
