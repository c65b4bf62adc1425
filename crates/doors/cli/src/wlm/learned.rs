//! `pinfold wlm learned`: memory needs of classes of jobs, in the words of a workload manager.
//!
//! Classes have users' names and the names of their jobs: the daemon tells of them to operators alone, and an operator
//! sets up the hook that asks.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use pinfold_proto::quantity::whole;
use serde_json::json;

use crate::advise::sizes::{Size, sizes};
use crate::print::{JSON_VERSION, print_json, print_text};
use pinfold_client::{Dial, Failure};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// HTCondor's startd cron: NAME = MEBIBYTES
    Htcondor,
}

#[derive(Debug, Args)]
pub(crate) struct LearnedArgs {
    /// Lines for this manager
    #[arg(long, value_enum, value_name = "MANAGER", default_value = "htcondor", conflicts_with = "json")]
    format: Format,
    /// So many classes at most, those with the latest runs
    #[arg(long, value_name = "N", default_value = "64", value_parser = whole::<u16>(1..=1000))]
    most: u16,
    /// Jobs asked for since then: so long ago (30d), a date (2026-11-21) or Unix seconds (@1790000000)
    #[arg(long, value_name = "WHEN", default_value = "30d")]
    since: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// `pinfold wlm learned`.
pub(super) fn learned(dial: &Dial, args: &LearnedArgs) -> Result<(), Failure> {
    let mut all = sizes(dial, &args.since)?;
    if args.json {
        all.truncate(usize::from(args.most));
        let one = |size: &Size| {
            json!({
                "user": size.user,
                "class": size.class,
                "cores": size.cores,
                "memory_bytes": size.memory_bytes,
                "jobs": size.jobs,
            })
        };
        let classes: Vec<_> = all.iter().map(one).collect();
        return print_json(&json!({ "version": JSON_VERSION, "classes": classes }));
    }
    let text = match args.format {
        Format::Htcondor => for_htcondor(&all, usize::from(args.most)),
    };
    print_text(|out| out.write_all(text.as_bytes()))
}

/// An attribute for each user and class, and how many there are. Names of attributes have ASCII letters and digits
/// alone, in either case: if several classes share a name, the largest size counts.
fn for_htcondor(sizes: &[Size], most: usize) -> String {
    let mut named: BTreeMap<String, u64> = BTreeMap::new();
    for size in sizes {
        let name = attribute(&size.user, &size.class);
        if named.len() == most && !named.contains_key(&name) {
            continue;
        }
        let mib = size.memory_bytes.div_ceil(1 << 20);
        let known = named.entry(name).or_default();
        *known = mib.max(*known);
    }
    let lines = named.iter().map(|(name, mib)| format!("{name} = {mib}\n"));
    format!("Count = {}\n{}", named.len(), lines.collect::<String>())
}

/// The end of an attribute's name: a byte that no name may have is `_`, as in the expression that docs give.
fn attribute(user: &str, class: &str) -> String {
    let safe =
        |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte).to_ascii_lowercase() } else { '_' };
    format!("_{user}_{class}").bytes().map(safe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(user: &str, class: &str, mib: u64) -> Size {
        let memory_bytes = mib << 20;
        Size { user: user.to_owned(), class: class.to_owned(), cores: 1, memory_bytes, jobs: 3 }
    }

    #[test]
    fn names_are_safe_for_class_ads() {
        for (class, want) in [
            ("align", "_ann_align"),
            ("Align-2.1", "_ann_align_2_1"),
            ("x = 1\n]; Open = True", "_ann_x___1____open___true"),
            ("$(id) \"'\\", "_ann___id_____"),
            ("\u{fc}n", "_ann___n"),
            ("", "_ann_"),
        ] {
            assert_eq!(attribute("ann", class), want, "{class:?}");
        }
    }

    #[test]
    fn the_largest_of_one_name_counts_and_the_latest_are_kept() {
        let all =
            [size("ann", "a-b", 10), size("ann", "A.b", 30), size("ben", "c", 5), size("ann", "a b", 20)];
        assert_eq!(for_htcondor(&all, 64), "Count = 2\n_ann_a_b = 30\n_ben_c = 5\n");
        assert_eq!(for_htcondor(&all, 1), "Count = 1\n_ann_a_b = 30\n");
        assert_eq!(for_htcondor(&[], 64), "Count = 0\n");
    }
}
