//! Which program of a line does its work: measured once a job ended, remembered for the user's next jobs with the same
//! programs. A job without `--name` is called after it.
//!
//! Owner of state: the remembered programs, made anew from the store at each start. Absent here: how a line is read
//! ([`pinfold_proto::program`]), and what is learned of a class ([`super::learn`]).

use std::collections::{BTreeMap, BTreeSet};

use pinfold_proto::program::{self, Program, programs};
use pinfold_proto::row::{JobRow, ProcessRow};

use crate::meters::learn::hash;

/// So many lines are remembered; further ones go by their last program.
const LINES_MAX: usize = 10_000;

/// A program that used or held less than this more than another does not take its place: short runs differ by chance.
const CPU_MARGIN_US: u64 = 20_000;
const HELD_MARGIN_BYTES: u64 = 16 << 20;

/// The kernel cuts the name of a process that nothing else tells of.
const KERNEL_NAME_BYTES: usize = 15;

/// Programs that did the work, by user and by the programs of the line.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    known: BTreeMap<(u32, u64), String>,
}

impl Workers {
    /// The name of a new job: where the user gave none, the program that did the work of such lines.
    pub(crate) fn name(&self, uid: u32, command: &[String], name: String) -> String {
        match several(command, &name) {
            Some(programs) if programs.last().is_some_and(|last| last.name == name) => {
                self.known.get(&(uid, hash(&programs))).cloned().unwrap_or(name)
            }
            _ => name,
        }
    }

    /// Renames a job that ended after the program that did its work, and remembers it.
    pub(crate) fn ended(&mut self, row: &mut JobRow, processes: impl FnOnce() -> Vec<ProcessRow>) {
        let Some(programs) = several(&row.spec.command, &row.spec.name) else { return };
        if let Some(name) = worker(&programs, &processes(), &row.spec.name) {
            row.spec.name = name;
        }
        self.remember(row);
    }

    /// Remembers what an ended job was called after.
    pub(crate) fn remember(&mut self, row: &JobRow) {
        if let Some(programs) = several(&row.spec.command, &row.spec.name) {
            let line = (row.uid, hash(&programs));
            if self.known.len() < LINES_MAX || self.known.contains_key(&line) {
                self.known.insert(line, row.spec.name.clone());
            }
        }
    }
}

/// The programs of a command that names more than one, if the job is called after one of them.
fn several(command: &[String], name: &str) -> Option<Vec<Program>> {
    let programs = programs(command);
    let is_of_them = programs.iter().any(|program| program.name == name);
    (programs.len() > 1 && is_of_them).then_some(programs)
}

/// The program whose processes, with their descendants, used most CPU time, or held most where none used much.
fn worker(programs: &[Program], rows: &[ProcessRow], now: &str) -> Option<String> {
    let by_pid: BTreeMap<u32, &ProcessRow> = rows.iter().map(|row| (row.pid, row)).collect();
    let named = |row: &ProcessRow| {
        let name = program::of_process(&row.command)?;
        let is_it = |full: &str| name == full || name.len() == KERNEL_NAME_BYTES && full.starts_with(&name);
        programs.iter().position(|program| is_it(&program.name))
    };
    let mut used = vec![(0, 0); programs.len()];
    for row in rows {
        let (mut at, mut seen) = (Some(row), BTreeSet::new());
        let program = loop {
            let Some(ancestor) = at.filter(|row| seen.insert(row.pid)) else { break None };
            match named(ancestor) {
                None => at = ancestor.parent.and_then(|parent| by_pid.get(&parent).copied()),
                found => break found,
            }
        };
        if let Some((cpu_us, peak_bytes)) = program.and_then(|at| used.get_mut(at)) {
            *cpu_us += row.used.cpu_user_us + row.used.cpu_system_us;
            *peak_bytes = row.used.memory_peak_bytes.max(*peak_bytes);
        }
    }
    let now = used[programs.iter().rposition(|program| program.name == now)?];
    let busiest = (0..used.len()).max_by_key(|&at| used[at].0).filter(|&at| used[at].0 >= CPU_MARGIN_US);
    let most = match busiest {
        Some(at) => Some(at).filter(|&at| used[at].0 >= now.0 + CPU_MARGIN_US),
        None => {
            (0..used.len()).max_by_key(|&at| used[at].1).filter(|&at| used[at].1 >= now.1 + HELD_MARGIN_BYTES)
        }
    };
    Some(programs[most?].name.clone())
}

#[cfg(test)]
mod tests {
    use pinfold_proto::JobSpec;

    use super::*;

    fn command(line: &str) -> Vec<String> {
        ["/bin/sh", "-c", line].map(str::to_owned).to_vec()
    }

    fn process(pid: u32, parent: u32, command: &str, cpu_ms: u64, held_mib: u64) -> ProcessRow {
        let mut row =
            ProcessRow { pid, parent: Some(parent), command: command.to_owned(), ..ProcessRow::default() };
        row.used.cpu_user_us = cpu_ms * 1_000;
        row.used.memory_peak_bytes = held_mib << 20;
        row
    }

    #[track_caller]
    fn check(line: &str, processes: &[(u32, u32, &str, u64, u64)], want: &str) {
        let rows: Vec<ProcessRow> = processes
            .iter()
            .map(|&(pid, parent, name, cpu, held)| process(pid, parent, name, cpu, held))
            .collect();
        let name = program::default_name(&command(line));
        let spec = JobSpec { command: command(line), name: name.clone(), ..JobSpec::default() };
        let mut row = JobRow::asked_for(1, 7, "ada".to_owned(), spec, 1);
        let mut workers = Workers::default();
        workers.ended(&mut row, || rows);
        assert_eq!(row.spec.name, want, "{line}");
        assert_eq!(workers.name(7, &command(line), name.clone()), want, "the next one: {line}");
        assert_eq!(workers.name(8, &command(line), name.clone()), name, "another user's: {line}");
        assert_eq!(workers.name(7, &command(line), "mine".to_owned()), "mine", "--name: {line}");
    }

    #[test]
    fn the_program_that_used_most_names_a_line() {
        let shell = (1, 9, "/bin/sh -c align x | gzip", 3, 1);
        check("align x | gzip", &[shell, (2, 1, "align x", 900, 50), (3, 1, "gzip", 200, 1)], "align");
        check("align x | gzip", &[shell, (2, 1, "align x", 100, 50), (3, 1, "gzip", 200, 1)], "gzip");
        check("./run.sh && rm x", &[(2, 1, "/bin/sh ./run.sh", 1, 1), (4, 2, "align", 900, 1)], "run.sh");
        check("python3 a.py; rm x", &[(2, 1, "python3 -u a.py", 500, 1), (3, 1, "rm x", 1, 1)], "a.py");
        check("a_long_name_of_17 x; rm x", &[(2, 1, "a_long_name_of_", 500, 1)], "a_long_name_of_17");
        check("hold x; rm x", &[(2, 1, "hold x", 5, 800), (3, 1, "rm x", 1, 1)], "hold");
    }

    #[test]
    fn a_difference_that_is_noise_renames_nothing() {
        check("align x | gzip", &[(2, 1, "align x", 15, 2), (3, 1, "gzip", 2, 1)], "gzip");
        check("align x | gzip", &[], "gzip");
        check("align x", &[(2, 1, "rm", 900, 1)], "align");
    }
}
