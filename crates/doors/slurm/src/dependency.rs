//! `--dependency`: parses the conditions of a job, and checks whether the job still waits.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::Cluster;
use crate::jobs::Job;
use crate::select::{members, names};
use crate::trouble::{Trouble, words};

/// A condition.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Term {
    /// A word for the required ending, and names of jobs.
    After(&'static str, Vec<String>),
    /// All jobs of the same name and user.
    Singleton,
}

fn parse(text: &str) -> Result<Vec<Term>, String> {
    let invalid = || format!("Job dependency problem: {text}");
    if text.contains('?') {
        return Err(format!("{}: `?` (any one of them) is not supported", invalid()));
    }
    let mut terms = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let mut parts = part.split(':');
        let end = match parts.next() {
            Some("singleton") => {
                terms.push(Term::Singleton);
                continue;
            }
            Some("afterany") => "any",
            Some("afterok") => "ok",
            Some("afternotok") => "failed",
            Some(word @ ("after" | "aftercorr" | "afterburstbuffer" | "expand")) => {
                return Err(format!("{}: `{word}` is not supported", invalid()));
            }
            // As in Slurm, of old: bare numbers are `afterany`.
            Some(number) if number.starts_with(|c: char| c.is_ascii_digit()) => {
                terms.push(Term::After("any", vec![number.to_owned()]));
                continue;
            }
            _ => return Err(invalid()),
        };
        let jobs: Vec<String> = parts.map(str::to_owned).collect();
        if jobs.is_empty() || jobs.iter().any(String::is_empty) {
            return Err(invalid());
        }
        terms.push(Term::After(end, jobs));
    }
    Ok(terms)
}

/// The value of `--after`.
///
/// # Errors
/// In sbatch's words, for a condition that is invalid or not supported, or names an unknown job.
pub(crate) fn after(text: &str, name: &str, cluster: &mut Cluster) -> Result<String, Trouble> {
    let failed = |why: String| Trouble::new(format!("Batch job submission failed: {why}"));
    let mut all = Vec::new();
    for term in parse(text).map_err(failed)? {
        match term {
            Term::After(end, jobs) => {
                let named =
                    names(&jobs.join(",")).map_err(|bad| failed(format!("Job dependency problem: {bad}")))?;
                let found = members(cluster, &named).map_err(|failure| failed(words(&failure)))?;
                for (one, jobs) in named.iter().zip(found) {
                    let known = cluster.named(&jobs).map_err(|failure| failed(words(&failure)))?;
                    if known.is_empty() {
                        return Err(failed("Job dependency problem".to_owned()));
                    }
                    all.push(format!("{end}:{}", one.job));
                }
            }
            Term::Singleton => {
                let user = pinfold_sys::peer::user(pinfold_sys::peer::own_uid()).map(|user| user.name);
                let jobs = cluster.jobs(false).map_err(|failure| failed(words(&failure)))?;
                all.extend(same_name(&jobs, name, user.as_deref()).map(|job| format!("any:{job}")));
            }
        }
    }
    Ok(all.join(","))
}

/// The numbers of living jobs with this name and user; an array counts as its number, because thousands of members
/// would not fit into a command line.
fn same_name(jobs: &[Job], name: &str, user: Option<&str>) -> impl Iterator<Item = u64> {
    let same = |job: &&Job| !job.state.is_over() && job.name == name && Some(job.user.as_str()) == user;
    jobs.iter().filter(same).map(Job::array).collect::<BTreeSet<u64>>().into_iter()
}

/// Living jobs, indexed for conditions.
pub(crate) struct Live {
    /// Their numbers, and the numbers of their arrays.
    numbers: BTreeSet<u64>,
    /// The first job of each user and name; an array counts as its number.
    first: BTreeMap<(String, String), u64>,
}

impl Live {
    pub(crate) fn of(jobs: impl Iterator<Item = Job>) -> Self {
        let mut live = Self { numbers: BTreeSet::new(), first: BTreeMap::new() };
        for job in jobs {
            let array = job.array();
            live.numbers.extend([job.job, array]);
            let first = live.first.entry((job.user, job.name)).or_insert(array);
            *first = array.min(*first);
        }
        live
    }

    /// Whether a job waits for a living job.
    pub(crate) fn keep(&self, job: &Job) -> bool {
        let earlier =
            || self.first.get(&(job.user.clone(), job.name.clone())).is_some_and(|&it| it < job.array());
        job.label.named_in_dependency().any(|job| self.numbers.contains(&job))
            || (job.label.is_singleton() && earlier())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::{Known, Label};

    #[test]
    fn conditions() {
        let after = |end, jobs: &[&str]| Term::After(end, jobs.iter().map(|job| (*job).to_owned()).collect());
        let check = |text: &str, want: &[Term]| assert_eq!(parse(text).as_deref(), Ok(want), "{text}");
        check("afterok:1:2_3,afterany:4", &[after("ok", &["1", "2_3"]), after("any", &["4"])]);
        check("afternotok:5,singleton", &[after("failed", &["5"]), Term::Singleton]);
        check("7", &[after("any", &["7"])]);
        for bad in ["afterany", "afterany:", "after:1", "aftercorr:1", "afterany:1?afterany:2", "x:1"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    fn job(job: u64, array: &str, name: &str, state: &str) -> Job {
        let text = format!(
            r#"{{"job":{job},"name":"{name}","user":"u","state":"{state}","class":"primary","priority":10,"pids":[],
                "submitted_s":1.0,"exit_code":0{array}}}"#
        );
        Job::new(&serde_json::from_str(&text).expect("a view"), &Known::default())
    }

    fn of(index: u32) -> String {
        format!(r#","array_id":5,"array_index":{index}"#)
    }

    #[test]
    fn waiting_follows_living_predecessors() {
        let live =
            || [job(4, "", "a", "running"), job(5, &of(0), "b", "held"), job(6, &of(1), "b", "queued")];
        let check = |dependency: &str, one: Job, waits: bool| {
            let label = Label { dependency: dependency.to_owned(), ..Label::default() };
            let one = Job { label: label.into(), ..one };
            let all = Live::of(live().into_iter().chain([one.clone()]));
            assert_eq!(all.keep(&one), waits, "{dependency} {}", one.name);
        };
        check("afterok:3:4", job(9, "", "x", "queued"), true);
        check("afterok:3,afterany:5_1", job(9, "", "x", "queued"), true);
        check("afterok:3", job(9, "", "a", "queued"), false);
        // A singleton waits for all of its name that were there before, and not for itself or for its own array.
        check("singleton", job(9, "", "a", "queued"), true);
        check("afterok:3,singleton", job(9, "", "b", "queued"), true);
        check("singleton", job(9, "", "x", "queued"), false);
        check("singleton", job(3, "", "a", "queued"), false);
        check("singleton", job(7, &of(2), "b", "queued"), false);
        let other = Job { user: "v".to_owned(), ..job(9, "", "a", "queued") };
        check("singleton", other, false);
    }

    #[test]
    fn members_of_an_array_are_one_predecessor() {
        let jobs = [
            job(3, "", "a", "exited"),
            job(4, "", "a", "running"),
            job(5, &of(0), "a", "running"),
            job(6, &of(1), "a", "queued"),
            job(7, "", "b", "queued"),
        ];
        assert_eq!(same_name(&jobs, "a", Some("u")).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(same_name(&jobs, "a", Some("v")).count(), 0);
    }
}
