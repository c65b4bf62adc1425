//! What jobs that are over tell of those to come: what their kind needs of memory, how long they run, and whether they run
//! faster with their cores apart.
//!
//! Owns the first two memories, the judgement the third; all are made anew from the store at each start. What follows from
//! them is decided elsewhere: from the claims in the judgement's governor, from the lengths by who asks for them.

use std::hash::{DefaultHasher, Hash, Hasher};

use pinfold_policy::claims::{Claims, Peak};
use pinfold_policy::lengths::{Lengths, Likeness};
use pinfold_policy::{Event as Judged, JobId, Kind, Lay, Ran, Shape};
use pinfold_proto::row::{self, JobRow};
use pinfold_proto::{JobPlace, JobSpec};
use pinfold_sys::peer::Peer;

use crate::daemon::Daemon;

/// Jobs of earlier lives that are looked at: some tens of milliseconds' worth of reading.
const HISTORY: u32 = 5_000;

/// Runs are compared that took so long at least, in microseconds: of shorter ones most is their start and end.
const COMPARED_MIN_US: u64 = 100_000;
/// The part of its processor time that a run may have waited for a processor, to be compared: one in so many.
const WAITED_PART: u64 = 20;

/// What was learned.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    claims: Claims,
    lengths: Lengths,
}

/// The jobs that this one is like: the same program, under the same name, on as many cores.
pub(crate) fn kind(spec: &JobSpec) -> Option<Kind> {
    let program = program(&spec.command)?;
    Some(Kind(hash(&(program, &spec.name, spec.cores))))
}

/// Programs that run what they are told to: what they will need is told by that, not by them.
const INTERPRETERS: [&str; 16] = [
    "sh", "bash", "dash", "zsh", "ksh", "python", "pypy", "perl", "ruby", "php", "node", "lua", "julia",
    "Rscript", "tclsh", "java",
];

/// The program of a command: its first word, or the script of an interpreter; of a line for a shell that of the line.
fn program(command: &[String]) -> Option<&str> {
    let first = command.first()?;
    let shell = matches!(first.rsplit('/').next(), Some("sh" | "bash" | "dash" | "zsh" | "ksh"));
    Some(match command {
        [_, option, line, ..] if shell && option == "-c" => {
            let words = line.split_ascii_whitespace().skip_while(|word| word.contains('='));
            of_words(words).unwrap_or(line)
        }
        _ => of_words(command.iter().map(String::as_str)).unwrap_or(first),
    })
}

fn of_words<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let first = words.next()?;
    let name = first.rsplit('/').next().unwrap_or(first);
    // `python3.11` is one, too.
    let name = name.trim_end_matches(|char: char| char.is_ascii_digit() || char == '.');
    let script = || words.find(|word| !word.starts_with('-'));
    INTERPRETERS.contains(&name).then(script).flatten().or(Some(first))
}

/// The user's jobs with this very command, and those with its program. One user's jobs say nothing to another.
fn likenesses(uid: u32, command: &[String]) -> [Likeness; 2] {
    [Likeness(hash(&(uid, command))), Likeness(hash(&(uid, program(command))))]
}

/// How a job lay, for its row; nothing where it lay neither closest together nor apart.
fn lay_row(lay: Lay) -> Option<row::Lay> {
    let place = match lay.shape {
        Shape::Compact => JobPlace::Compact,
        Shape::Spread => JobPlace::Spread,
    };
    let domains = u32::try_from(lay.domains).ok()?;
    lay.pure.then_some(row::Lay { place, domains })
}

/// A run to be held against others of its kind: one that was left to pinfold to lay, ended well, never stood still, and
/// hardly waited for a processor.
fn ran(row: &JobRow) -> Option<Ran> {
    let place = row.spec.layout.as_ref().and_then(|layout| layout.place);
    let ended_well = row.ending.is_some_and(|ending| ending.exit_code == Some(0));
    let used_us = row.usage.cpu_user_us.saturating_add(row.usage.cpu_system_us);
    let waited = row.usage.counts.waited_us.is_some_and(|waited_us| waited_us > used_us / WAITED_PART);
    let adopted = row.spec.adopted.is_some();
    let asked = matches!(place, Some(JobPlace::Compact | JobPlace::Spread));
    if asked || adopted || !ended_well || waited || row.suspended_us > 0 {
        return None;
    }
    let shape = if row.lay?.place == JobPlace::Spread { Shape::Spread } else { Shape::Compact };
    let length_us = row.ended_us?.checked_sub(row.started_us?)?;
    let kind = kind(&row.spec)?;
    (length_us >= COMPARED_MIN_US).then_some(Ran { kind, shape, length_us })
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl Daemon {
    /// Notes what the judgement knows of a job that is over, and learns from it.
    pub(crate) fn learn_from_end(&mut self, row: &mut JobRow) {
        let info = self.policy.job(JobId(row.job));
        let held_peak = info.as_ref().map_or(0, |info| info.memory_peak_bytes);
        let needed = info.as_ref().map(|info| info.memory_need_bytes);
        row.needed_bytes = needed.filter(|&needed| needed < held_peak);
        row.lay = info.and_then(|info| info.lay).and_then(lay_row);
        self.learn(row, held_peak);
        self.learn_lay(row);
    }

    /// Learns from a job that is over. Only from those that ended well: one that failed may have done so before it
    /// needed much.
    fn learn(&mut self, row: &JobRow, held_peak: u64) {
        // Of one that was adopted neither its length is known nor what it held before.
        if row.spec.adopted.is_some() || row.ending.is_none_or(|ending| ending.exit_code != Some(0)) {
            return;
        }
        if let (Some(started_us), Some(ended_us)) = (row.started_us, row.ended_us) {
            let length_us = ended_us.saturating_sub(started_us).saturating_sub(row.suspended_us);
            for likeness in likenesses(row.uid, &row.spec.command) {
                self.learned.lengths.ended(likeness, length_us);
            }
        }
        let Some(kind) = kind(&row.spec) else { return };
        let held_bytes = row.usage.memory_peak_bytes.max(held_peak);
        let peak = Peak { held_bytes, needed_bytes: row.needed_bytes.unwrap_or(held_bytes).min(held_bytes) };
        let claim = self.learned.claims.ended(kind, peak, row.spec.claim_bytes);
        self.judge(Judged::Learned(kind, claim));
    }

    /// Learns from how long a job ran that lay one way all the time.
    fn learn_lay(&mut self, row: &JobRow) {
        if let Some(ran) = ran(row) {
            self.judge(Judged::Ran(ran));
        }
    }

    /// Learns from the jobs of earlier lives.
    pub(crate) fn learn_from_history(&mut self) {
        match self.journal.store().laid(HISTORY) {
            Ok(rows) => rows.iter().for_each(|row| self.learn_lay(row)),
            Err(error) => tracing::warn!(%error, "nothing is learned of how earlier jobs lay"),
        }
        match self.journal.store().last(None, HISTORY) {
            Ok(mut rows) => {
                rows.sort_by_key(|row| row.job);
                rows.iter().for_each(|row| self.learn(row, row.usage.swap_peak_bytes));
            }
            Err(error) => tracing::warn!(%error, "nothing is learned from earlier jobs"),
        }
    }

    /// How long the user's jobs with such commands usually ran, in microseconds.
    pub(crate) fn lengths(&self, user: Peer, commands: &[Vec<String>]) -> Vec<Option<u64>> {
        let usual_us = |command: &Vec<String>| {
            likenesses(user.uid, command).into_iter().find_map(|alike| self.learned.lengths.usual_us(alike))
        };
        commands.iter().map(usual_us).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[track_caller]
    fn alike(first: &[&str], second: &[&str], want: bool) {
        let spec = |words: &[&str]| JobSpec {
            command: command(words),
            name: "x".to_owned(),
            cores: 1,
            ..JobSpec::default()
        };
        assert_eq!(kind(&spec(first)) == kind(&spec(second)), want, "{first:?} {second:?}");
    }

    #[test]
    fn kinds_follow_the_program() {
        alike(&["velveth", "out1", "31"], &["velveth", "out2", "25"], true);
        alike(&["velveth"], &["velvetg"], false);
        alike(&["/bin/sh", "-c", "K=31 velveth out"], &["/bin/sh", "-c", "velveth out2 >log"], true);
        alike(&["/bin/sh", "-c", "velveth out"], &["/bin/sh", "-c", "bowtie x"], false);
        alike(&["/bin/sh", "job.sh"], &["/bin/sh", "-c", "x"], false);
        alike(&["python3", "train.py", "1"], &["python3", "train.py", "2"], true);
        alike(&["/usr/bin/python3.11", "-u", "train.py"], &["python3", "train.py"], true);
        alike(&["python3", "train.py"], &["python3", "plot.py"], false);
        alike(&["bash", "-x", "job.sh"], &["/bin/sh", "-c", "bash job.sh 7"], true);
        alike(&["python3"], &["python3", "-V"], true);
        alike(&["java", "-Xmx2g", "-jar", "a.jar"], &["java", "-jar", "b.jar"], false);
    }

    #[test]
    fn lengths_follow_the_command_then_the_program_and_never_another_user() {
        let line = |text: &str| command(&["/bin/sh", "-c", text]);
        let [this, program] = likenesses(7, &line("velveth a 31"));
        assert_ne!(this, likenesses(7, &line("velveth b 31"))[0]);
        assert_eq!(program, likenesses(7, &line("velveth b 31"))[1]);
        assert_ne!(program, likenesses(7, &line("bowtie b"))[1]);
        assert!(likenesses(8, &line("velveth a 31")).iter().all(|other| ![this, program].contains(other)));
    }
    #[test]
    fn runs_that_were_left_alone_are_compared() {
        let lay = Some(row::Lay { place: JobPlace::Spread, domains: 2 });
        let spec = JobSpec { command: command(&["solve"]), cores: 2, ..JobSpec::default() };
        let row =
            JobRow { lay, ..JobRow::asked_for(3, 7, "ada".to_owned(), spec, 1_000_000).ran_until(3_000_000) };
        let want = Ran { kind: kind(&row.spec).unwrap(), shape: Shape::Spread, length_us: 2_000_000 };
        assert_eq!(ran(&row), Some(want));
        let nothing = |what: &str, change: fn(&mut JobRow)| {
            let mut row = row.clone();
            change(&mut row);
            assert_eq!(ran(&row), None, "{what}");
        };
        nothing("it moved", |row| row.lay = None);
        nothing("it stood still", |row| row.suspended_us = 1);
        nothing("it failed", |row| row.ending = None);
        nothing("it was short", |row| row.ended_us = Some(1_050_000));
        nothing("it waited", |row| {
            (row.usage.cpu_user_us, row.usage.counts.waited_us) = (4_000_000, Some(300_000));
        });
        nothing("it said how to lie", |row| {
            let place = Some(JobPlace::Spread);
            row.spec.layout = Some(pinfold_proto::JobLayout { place, ..Default::default() });
        });
        let mut calm = row.clone();
        (calm.usage.cpu_user_us, calm.usage.counts.waited_us) = (4_000_000, Some(100_000));
        assert_eq!(ran(&calm), Some(want), "a little waiting is no matter");
    }
}
