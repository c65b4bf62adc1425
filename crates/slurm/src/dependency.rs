//! `--dependency`: after which jobs one starts.

use std::collections::BTreeSet;

use crate::cluster::Cluster;
use crate::jobs::Job;
use crate::select::{members, names};
use crate::trouble::{Trouble, words};

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Term {
    /// A word for how they end, and their names.
    After(&'static str, Vec<String>),
    /// All of the same name and user.
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
/// In sbatch's words, for what means nothing, is not supported, or names a job that nobody knows.
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

/// The numbers of the jobs of this name and user that are not over; of members their array's, which may have thousands:
/// they are one word of a command line.
fn same_name(jobs: &[Job], name: &str, user: Option<&str>) -> impl Iterator<Item = u64> {
    let same = |job: &&Job| !job.state.is_over() && job.name == name && Some(job.user.as_str()) == user;
    jobs.iter().filter(same).map(Job::array).collect::<BTreeSet<u64>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Known;

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

    #[test]
    fn members_of_an_array_are_one_predecessor() {
        let job = |job: u64, array: &str, name: &str, state: &str| -> Job {
            let text = format!(
                r#"{{"job":{job},"name":"{name}","user":"u","state":"{state}","class":"primary","priority":10,"pids":[],
                    "submitted_s":1.0,"exit_code":0{array}}}"#
            );
            Job::new(&serde_json::from_str(&text).expect("a view"), &Known::default())
        };
        let of = |index: u32| format!(r#","array_id":5,"array_index":{index}"#);
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
