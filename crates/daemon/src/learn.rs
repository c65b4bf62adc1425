//! What jobs that are over tell of those to come: what their kind needs of memory, and how long they run.
//!
//! Owns both memories; they are made anew from the store at each start. What follows from them is decided elsewhere:
//! from the claims in the judgement's governor, from the lengths by who asks for them.

use std::hash::{DefaultHasher, Hash, Hasher};

use pinfold_policy::claims::Claims;
use pinfold_policy::lengths::{Lengths, Likeness};
use pinfold_policy::{Event as Judged, Kind};
use pinfold_proto::JobSpec;
use pinfold_proto::row::JobRow;
use pinfold_sys::peer::Peer;

use crate::daemon::Daemon;

/// Jobs of earlier lives that are looked at: some tens of milliseconds' worth of reading.
const HISTORY: u32 = 5_000;

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

/// The program of a command; of a line for a shell its first word.
fn program(command: &[String]) -> Option<&str> {
    let first = command.first()?;
    let shell = matches!(first.rsplit('/').next(), Some("sh" | "bash" | "dash" | "zsh" | "ksh"));
    Some(match command {
        [_, option, line, ..] if shell && option == "-c" => {
            line.split_ascii_whitespace().find(|word| !word.contains('=')).unwrap_or(line)
        }
        _ => first,
    })
}

/// The user's jobs with this very command, and those with its program. One user's jobs say nothing to another.
fn likenesses(uid: u32, command: &[String]) -> [Likeness; 2] {
    [Likeness(hash(&(uid, command))), Likeness(hash(&(uid, program(command))))]
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl Daemon {
    /// Learns from a job that is over. Only from those that ended well: one that failed may have done so before it
    /// needed much.
    pub(crate) fn learn(&mut self, row: &JobRow, held_peak: u64) {
        if row.ending.is_none_or(|ending| ending.exit_code != Some(0)) {
            return;
        }
        if let (Some(started_us), Some(ended_us)) = (row.started_us, row.ended_us) {
            let length_us = ended_us.saturating_sub(started_us).saturating_sub(row.suspended_us);
            for likeness in likenesses(row.uid, &row.spec.command) {
                self.learned.lengths.ended(likeness, length_us);
            }
        }
        let Some(kind) = kind(&row.spec) else { return };
        let peak = row.usage.memory_peak_bytes.max(held_peak);
        let claim = self.learned.claims.ended(kind, peak, row.spec.claim_bytes);
        self.judge(Judged::Learned(kind, claim));
    }

    /// Learns from the jobs of earlier lives.
    pub(crate) fn learn_from_history(&mut self) {
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
}
