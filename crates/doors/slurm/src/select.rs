//! Which jobs people name: `12`, `12_3`, `12_[0-3,7]`, `12.batch`, in lists.

use pinfold_client::{Failure, unexpected};
use pinfold_proto::array::JobName;
use pinfold_proto::wire::{Reply, Request};

use crate::cluster::{Cluster, is_unknown};

/// A name of jobs, and of a step of theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// As typed.
    pub text: String,
    /// The job or jobs.
    pub job: JobName,
    /// The text behind the dot.
    pub step: Option<String>,
}

/// Splits a list of names; commas within brackets do not split.
///
/// # Errors
/// With the invalid name.
pub(crate) fn names(list: &str) -> Result<Vec<Named>, String> {
    let (mut all, mut word, mut inside) = (Vec::new(), String::new(), false);
    for c in list.chars().chain([',']) {
        match c {
            ',' if !inside => {
                let text = std::mem::take(&mut word);
                if !text.trim().is_empty() {
                    all.push(name(text.trim())?);
                }
            }
            c => {
                inside = c == '[' || (inside && c != ']');
                word.push(c);
            }
        }
    }
    if word.is_empty() { Ok(all) } else { Err(word) }
}

fn name(text: &str) -> Result<Named, String> {
    let (job, step) = match text.split_once('.') {
        Some((job, step)) => (job, Some(step.to_owned())),
        None => (text, None),
    };
    // As in Slurm, `12_*` is the whole array.
    let job: JobName = job.strip_suffix("_*").unwrap_or(job).parse().map_err(|_| text.to_owned())?;
    Ok(Named { text: text.to_owned(), job, step })
}

/// The numbers of the jobs of each name; empty for an unknown name.
pub(crate) fn members(cluster: &mut Cluster, names: &[Named]) -> Result<Vec<Vec<u64>>, Failure> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let asked: Vec<JobName> = names.iter().map(|named| named.job.clone()).collect();
    match cluster.client.ask(&Request::Members { names: asked }) {
        Ok(Reply::Members(members)) if members.len() == names.len() => {
            let numbers =
                members.into_iter().map(|it| it.jobs.into_iter().map(|member| member.job).collect());
            Ok(numbers.collect())
        }
        Ok(other) => Err(unexpected(&other)),
        Err(failure) if is_unknown(&failure) && names.len() > 1 => {
            let mut all = Vec::new();
            for one in names {
                all.extend(members(cluster, std::slice::from_ref(one))?);
            }
            Ok(all)
        }
        Err(failure) if is_unknown(&failure) => Ok(vec![Vec::new()]),
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_jobs() {
        let check = |list: &str, want: Result<&[&str], &str>| {
            let got = names(list).map(|all| {
                let shown = |it: &Named| format!("{}/{}", it.job, it.step.as_deref().unwrap_or("-"));
                all.iter().map(shown).collect::<Vec<_>>()
            });
            let got = got.as_ref().map(|all| all.iter().map(String::as_str).collect::<Vec<_>>());
            match want {
                Ok(want) => assert_eq!(got.as_deref(), Ok(want), "{list}"),
                Err(want) => assert_eq!(got.map_err(String::as_str), Err(want), "{list}"),
            }
        };
        check("1,2", Ok(&["1/-", "2/-"]));
        check("3_[0-2,5],4_1.batch", Ok(&["3_[0-2,5]/-", "4_1/batch"]));
        check("", Ok(&[]));
        check("5.0,", Ok(&["5/0"]));
        check("6_*,7_*.batch", Ok(&["6/-", "7/batch"]));
        check("x", Err("x"));
        check("1_[", Err("1_[,"));
        check("-1", Err("-1"));
    }
}
