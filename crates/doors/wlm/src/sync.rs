//! Keeps a manager informed of a host: the number of jobs per core, draining, and jobs that have been frozen for long
//! or wait.
//!
//! Absent: executing the manager's commands (the caller does), and the clock.

use std::collections::{BTreeMap, BTreeSet};

/// Slurm's reaction to a job frozen for long, chosen by the site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// A note in its AdminComment.
    Comment,
    /// Slurm suspends the job too, and gives its cores to the next job.
    Suspend,
    /// Slurm ends the job and runs it again later, from its beginning.
    Requeue,
}

/// A change of a job, with its number in Slurm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// The job has been frozen for the configured time.
    Frozen(String),
    /// A job reported as frozen has been thawed.
    Resumed(String),
}

/// Prefix of the note with the host that froze a job.
const FROZEN: &str = "pinfold: frozen on ";
/// Prefix of the note with the extension of a job's limit.
const RAISED: &str = "pinfold: waited ";

/// The number in Slurm of a job with that name; `None`: not a job of Slurm.
#[must_use]
pub fn slurm_job(external: &str) -> Option<&str> {
    let id = external.strip_prefix("slurm:")?.split('.').next()?;
    (!id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit())).then_some(id)
}

/// How many jobs per core Slurm should allow for these slots: a fraction is rounded up, and the excess jobs wait on
/// the host.
#[must_use]
pub fn jobs_a_core(slots: u64, cores: u64) -> u64 {
    slots.div_ceil(cores.max(1)).max(1)
}

/// The word of `OverSubscribe` for so many jobs a core.
#[must_use]
pub fn oversubscribe(jobs_a_core: u64) -> String {
    format!("FORCE:{jobs_a_core}")
}

/// The value of `OverSubscribe` in the output of `scontrol show partition`.
#[must_use]
pub fn oversubscribe_in(text: &str) -> Option<&str> {
    text.split_whitespace().find_map(|word| word.strip_prefix("OverSubscribe="))
}

/// Whether a name is valid for a partition or node of Slurm: letters, digits, and a few signs.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    !name.is_empty() && !name.starts_with('-') && name.bytes().all(good)
}

/// Prefix of Slurm's reason for a node drained by pinfold.
const DRAINED: &str = "pinfold: drained";

/// The command that drains or resumes the host's node in Slurm; `None` if its state, in the output of `scontrol show
/// node`, needs no change. A node drained by other users stays drained.
#[must_use]
pub fn drain(node: &str, shown: &str, draining: bool) -> Option<Vec<String>> {
    let state = shown.split_whitespace().find_map(|word| word.strip_prefix("State=")).unwrap_or_default();
    let drained = state.split('+').any(|part| part.starts_with("DRAIN"));
    let here = shown.lines().any(|line| {
        line.trim_start().strip_prefix("Reason=").is_some_and(|reason| reason.starts_with(DRAINED))
    });
    let values = match (draining, drained) {
        (true, false) => vec!["State=DRAIN".to_owned(), format!("Reason={DRAINED}")],
        (false, true) if here => vec!["State=RESUME".to_owned()],
        _ => return None,
    };
    let update = ["scontrol".to_owned(), "update".to_owned(), format!("NodeName={node}")];
    Some(update.into_iter().chain(values).collect())
}

/// The most jobs of a [`listed`] command.
pub const LISTED_MAX: usize = 500;

/// The command that lists these jobs, or all jobs, a line each, for [`is_of`], [`longer`], [`commands`] and [`told`].
/// The fields include no text of a job's user, which could contain any characters.
#[must_use]
pub fn listed(jobs: &[&str]) -> Vec<String> {
    let format = "JobID:20,UserName:64,State:20,TimeLimit:20,admin_comment:4096";
    let mut words = ["squeue", "-h", "-O", format].map(str::to_owned).to_vec();
    if !jobs.is_empty() {
        words.extend(["-j".to_owned(), jobs.join(",")]);
    }
    words
}

/// The words of a job's line.
fn line<'a>(job: &str, shown: &'a str) -> Option<Vec<&'a str>> {
    let mut lines = shown.lines().map(|line| line.split_whitespace().collect::<Vec<&str>>());
    lines.find(|words| words.first() == Some(&job))
}

/// The notes in a job's AdminComment, including ours; only administrators set an AdminComment.
fn notes(line: &[&str]) -> Vec<String> {
    let text = line.get(4..).unwrap_or_default().join(" ");
    text.split("; ").filter(|note| !["", "(null)", "N/A"].contains(note)).map(str::to_owned).collect()
}

/// An AdminComment with these notes, in which `note` replaces the notes with the prefix `begin`.
fn noted(mut notes: Vec<String>, begin: &str, note: Option<String>) -> String {
    notes.retain(|note| !note.starts_with(begin));
    notes.extend(note);
    format!("AdminComment={}", notes.join("; "))
}

/// Whether a job belongs to this user in Slurm too: on a host any user can claim another job's number.
#[must_use]
pub fn is_of(job: &str, user: &str, shown: &str) -> bool {
    line(job, shown).is_some_and(|words| words.get(1) == Some(&user))
}

/// The jobs noted in Slurm as frozen on this host.
#[must_use]
pub fn told(shown: &str, host: &str) -> Vec<String> {
    let note = format!("{FROZEN}{host}");
    let lines = shown.lines().map(|line| line.split_whitespace().collect::<Vec<&str>>());
    lines
        .filter(|line| notes(line).contains(&note))
        .filter_map(|line| line.first().map(|job| (*job).to_owned()))
        .collect()
}

/// The command that extends the limit of a running job by its waiting time here, at most `most_min` in total; `None`:
/// no extension is due, or no limit. `shown` is the output of [`listed`]. The AdminComment records the extension, so
/// that another run does not repeat it.
#[must_use]
pub fn longer(job: &str, shown: &str, waited_min: u64, most_min: u64) -> Option<Vec<String>> {
    let words = line(job, shown)?;
    let &[_, _, "RUNNING", limit, ..] = &words[..] else { return None };
    if !limit.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let notes = notes(&words);
    let given_min = match notes.iter().find_map(|note| note.strip_prefix(RAISED)) {
        None => 0,
        Some(text) => text.split(' ').next()?.parse::<u64>().ok()?,
    };
    let due_min = waited_min.min(most_min);
    let more_min = due_min.checked_sub(given_min).filter(|more| *more > 0)?;
    Some(vec![
        "scontrol".to_owned(),
        "update".to_owned(),
        format!("JobId={job}"),
        format!("TimeLimit=+{more_min}"),
        noted(notes, RAISED, Some(format!("{RAISED}{due_min} minutes"))),
    ])
}

/// The frozen jobs with the start of their freeze, and the jobs already reported to Slurm.
#[derive(Debug, Default)]
pub struct Watched {
    since_s: BTreeMap<String, f64>,
    told: BTreeSet<String>,
}

impl Watched {
    /// Of these Slurm was told earlier, by another run of the command.
    #[must_use]
    pub fn knowing(told: impl IntoIterator<Item = String>) -> Self {
        Self { since_s: BTreeMap::new(), told: told.into_iter().collect() }
    }

    /// The jobs reported to Slurm as frozen.
    pub fn told(&self) -> impl Iterator<Item = &str> {
        self.told.iter().map(String::as_str)
    }

    /// Updates the frozen jobs at `now_s`; returns news of jobs frozen for `after_s` or longer, and of thawed jobs.
    pub fn step(&mut self, now_s: f64, frozen: &BTreeSet<String>, after_s: f64) -> Vec<News> {
        self.since_s.retain(|job, _| frozen.contains(job));
        let mut news = Vec::new();
        for job in self.told.iter().filter(|job| !frozen.contains(*job)) {
            news.push(News::Resumed(job.clone()));
        }
        self.told.retain(|job| frozen.contains(job));
        for job in frozen {
            let since_s = *self.since_s.entry(job.clone()).or_insert(now_s);
            if now_s - since_s >= after_s && self.told.insert(job.clone()) {
                news.push(News::Frozen(job.clone()));
            }
        }
        news
    }
}

/// The commands that report news to Slurm. `shown` is the output of [`listed`] for the job; the job may have ended.
#[must_use]
pub fn commands(news: &News, policy: Policy, host: &str, shown: &str) -> Vec<Vec<String>> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let (News::Frozen(job) | News::Resumed(job)) = news;
    let Some(line) = line(job, shown) else { return Vec::new() };
    let update =
        |note| words(&["scontrol", "update", &format!("JobId={job}"), &noted(notes(&line), FROZEN, note)]);
    match news {
        News::Frozen(job) => {
            let told = update(Some(format!("{FROZEN}{host}")));
            let verb = match policy {
                Policy::Comment => return vec![told],
                Policy::Suspend => "suspend",
                Policy::Requeue => "requeue",
            };
            vec![told, words(&["scontrol", verb, job])]
        }
        News::Resumed(job) => match policy {
            Policy::Suspend => vec![words(&["scontrol", "resume", job]), update(None)],
            Policy::Comment | Policy::Requeue => vec![update(None)],
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_slurms() {
        for (external, want) in [
            ("slurm:12.batch", Some("12")),
            ("slurm:12", Some("12")),
            ("sge:12", None),
            ("slurm:x.0", None),
            ("slurm:", None),
        ] {
            assert_eq!(slurm_job(external), want, "{external}");
        }
    }

    #[test]
    fn jobs_a_core_are_whole() {
        for (slots, cores, want) in
            [(2, 2, "FORCE:1"), (4, 2, "FORCE:2"), (3, 2, "FORCE:2"), (0, 0, "FORCE:1")]
        {
            assert_eq!(oversubscribe(jobs_a_core(slots, cores)), want);
        }
        assert_eq!(oversubscribe_in("  MaxNodes=1\n   OverSubscribe=FORCE:2\n"), Some("FORCE:2"));
        assert_eq!(oversubscribe_in("OverSubscribes"), None);
        assert!(is_name("main-1") && !is_name("") && !is_name("a b") && !is_name("-x"));
    }

    #[test]
    fn a_node_is_drained_with_its_host_and_no_other() {
        let node = |state: &str, reason: &str| {
            format!("NodeName=n Arch=x86_64\n   State={state} ThreadsPerCore=1\n   {reason}\n")
        };
        let ours = "Reason=pinfold: drained [root@2026-01-01T00:00:00]";
        for (draining, shown, want) in [
            (true, node("MIXED", ""), Some("scontrol update NodeName=n State=DRAIN Reason=pinfold: drained")),
            (true, node("IDLE+DRAIN", ours), None),
            (true, node("IDLE+DRAIN", "Reason=repair [root@x]"), None),
            (false, node("MIXED+DRAIN", ours), Some("scontrol update NodeName=n State=RESUME")),
            (false, node("IDLE+DRAIN", "Reason=repair, not pinfold: drained [root@x]"), None),
            (false, node("IDLE", ours), None),
        ] {
            let told = drain("n", &shown, draining).map(|words| words.join(" "));
            assert_eq!(told.as_deref(), want, "{draining} {shown}");
        }
    }

    #[test]
    fn a_job_gets_the_minutes_back_that_it_waited_once() {
        let line = |state: &str, limit: &str, comment: &str| {
            format!(
                "70 ann RUNNING 1:00\n7           ann     {state}        {limit}    {comment}     \n8 ann RUNNING 1:00\n"
            )
        };
        let ours = |minutes: u64| format!("{RAISED}{minutes} minutes");
        for (shown, waited, want) in [
            (line("RUNNING", "10:00", ""), 5, Some((5, 5))),
            (line("RUNNING", "1-00:00:00", "(null)"), 5, Some((5, 5))),
            (line("RUNNING", "10:00", "N/A"), 5, Some((5, 5))),
            (line("RUNNING", "10:00", ""), 0, None),
            (line("RUNNING", "15:00", &ours(5)), 5, None),
            (line("RUNNING", "15:00", &ours(5)), 8, Some((3, 8))),
            (line("RUNNING", "15:00", &ours(5)), 3, None),
            // No more than its site gives.
            (line("RUNNING", "10:00", ""), 100, Some((60, 60))),
            (line("RUNNING", "1:10:00", &ours(60)), 200, None),
            (line("RUNNING", "UNLIMITED", ""), 5, None),
            (line("RUNNING", "INVALID", ""), 5, None),
            (line("PENDING", "10:00", ""), 5, None),
            (line("COMPLETING", "10:00", ""), 5, None),
            (line("RUNNING", "10:00", "pinfold: waited long"), 5, None),
            (String::new(), 5, None),
        ] {
            let told = longer("7", &shown, waited, 60).map(|words| words.join(" "));
            assert!(!is_of("7", "ben", &shown) && !is_of("70", "ann ", &shown), "{shown}");
            assert_eq!(is_of("7", "ann", &shown), !shown.is_empty());
            let want = want.map(|(more, all): (u64, u64)| {
                format!(
                    "scontrol update JobId=7 TimeLimit=+{more} AdminComment=pinfold: waited {all} minutes"
                )
            });
            assert_eq!(told, want, "{waited} {shown}");
        }
    }

    #[test]
    fn notes_of_others_stay() {
        let shown = "7 ann RUNNING 10:00 see ticket 9; pinfold: waited 2 minutes; pinfold: frozen on node7\n";
        let last = |words: Vec<String>| words.last().cloned().unwrap_or_default();
        assert_eq!(
            longer("7", shown, 5, 60).map(last).as_deref(),
            Some("AdminComment=see ticket 9; pinfold: frozen on node7; pinfold: waited 5 minutes")
        );
        assert_eq!(
            commands(&News::Resumed("7".to_owned()), Policy::Comment, "node7", shown)
                .concat()
                .last()
                .unwrap(),
            "AdminComment=see ticket 9; pinfold: waited 2 minutes"
        );
        // Only of this host, and only by an administrator's word.
        assert_eq!(told(shown, "node7"), ["7"]);
        assert_eq!(told(shown, "node"), [""; 0]);
        assert_eq!(told("7 ann RUNNING 10:00 (null)\n", "node7"), [""; 0]);
    }

    #[test]
    fn slurm_is_told_once_of_each_long_freeze() {
        let set = |jobs: &[&str]| jobs.iter().map(|job| (*job).to_owned()).collect::<BTreeSet<_>>();
        let mut watched = Watched::knowing(["9".to_owned()]);
        assert_eq!(watched.step(0.0, &set(&["7"]), 10.0), [News::Resumed("9".to_owned())]);
        assert_eq!(watched.step(9.0, &set(&["7"]), 10.0), []);
        assert_eq!(watched.step(10.0, &set(&["7", "8"]), 10.0), [News::Frozen("7".to_owned())]);
        assert_eq!(watched.step(15.0, &set(&["7"]), 10.0), []);
        assert_eq!(watched.step(20.0, &set(&["8"]), 10.0), [News::Resumed("7".to_owned())]);
        // A new freeze begins anew.
        assert_eq!(watched.step(25.0, &set(&["8"]), 10.0), []);
    }

    #[test]
    fn policy_is_the_sites_choice() {
        let shown = "7 ann RUNNING 10:00 (null)\n";
        let told = |news: News, policy| {
            let commands = commands(&news, policy, "node7", shown);
            commands.iter().map(|words| words.join(" ")).collect::<Vec<_>>()
        };
        let frozen = || News::Frozen("7".to_owned());
        let comment = "scontrol update JobId=7 AdminComment=pinfold: frozen on node7";
        assert_eq!(told(frozen(), Policy::Comment), [comment]);
        assert_eq!(told(frozen(), Policy::Suspend), [comment, "scontrol suspend 7"]);
        assert_eq!(told(frozen(), Policy::Requeue), [comment, "scontrol requeue 7"]);
        assert_eq!(told(News::Frozen("8".to_owned()), Policy::Requeue), [""; 0], "it is over");
        let resumed = ["scontrol resume 7", "scontrol update JobId=7 AdminComment="];
        assert_eq!(told(News::Resumed("7".to_owned()), Policy::Suspend), resumed);
    }
}
