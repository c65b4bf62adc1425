//! Advice in the words of workload managers and workflow engines: to paste, or as files that apply it at submission.
//!
//! Consent decides how advice is applied ([`Consent`]): lines to paste; filled in where a job asks for no memory;
//! lowered where a job asks for too much, with a margin, and back to the job's request after a failure. Pure: classes
//! go in, texts come out. The names of users and classes are data: each format quotes them, or leaves the class out
//! where its words cannot carry the name, and says so. Absent: files and processes.
//!
//! `pinfold`, `slurm`, `gridengine`, `htcondor`, `nextflow`, `snakemake`; `scripts` tests the texts by their
//! managers' interpreters.

mod gridengine;
mod htcondor;
mod nextflow;
mod pinfold;
mod slurm;
mod snakemake;

use super::classes::{ClassView, whole};
use super::text::{mebibytes, minutes};

/// Whose words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// `pinfold run` with the options
    Pinfold,
    /// `#SBATCH` lines; applied: job_submit.lua, its table, an EpilogSlurmctld
    Slurm,
    /// `#$` lines; applied: a JSV script, its table, an epilog
    Gridengine,
    /// Lines of a submit description; applied: JOB_TRANSFORMs
    Htcondor,
    /// A configuration with memory by process
    Nextflow,
    /// A profile with resources by rule
    Snakemake,
}

/// How far advice is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Consent {
    /// Not at all: lines to paste
    #[default]
    Report,
    /// Where a job asks for no memory
    Fill,
    /// Also where it asks for more than advised; back after one failure
    Lower,
}

/// A text and the name of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) name: &'static str,
    pub(super) text: String,
    /// Whether the file is a program.
    pub(super) runs: bool,
}

/// The rendered advice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Made {
    pub(super) files: Vec<File>,
    /// Classes that the format cannot name.
    pub(super) left_out: Vec<String>,
}

/// The request that a class should make.
#[derive(Debug, Clone, PartialEq)]
struct Need<'a> {
    user: &'a str,
    class: &'a str,
    cores: u32,
    /// The advised memory, in MiB.
    memory_mib: u64,
    /// The present request of its jobs.
    requested_mib: Option<u64>,
    wall_min: Option<u64>,
    /// The runs behind the advice.
    jobs: usize,
    risk: f64,
    /// Days since its last run.
    age_d: u64,
    /// A run failed for want of memory: the old request holds again.
    is_kept: bool,
}

/// The files of `format` for the classes with known needs. `now_s`: Unix seconds. The error names the format's limits.
pub(super) fn render(
    format: Format,
    consent: Consent,
    views: &[ClassView],
    now_s: f64,
) -> Result<Made, &'static str> {
    let needs = views.iter().filter_map(|view| need(view, now_s)).collect();
    let needs = largest(needs, consent, matches!(format, Format::Nextflow | Format::Snakemake));
    let mut left_out = Vec::new();
    let mut named = |may: fn(&str) -> bool| -> Vec<&Need<'_>> {
        let (named, not): (Vec<&Need<'_>>, Vec<&Need<'_>>) =
            needs.iter().partition(|need| may(need.user) && may(need.class));
        left_out = not.iter().map(|need| need.class.to_owned()).collect();
        named
    };
    let files = match (format, consent) {
        (Format::Pinfold, Consent::Report) => pinfold::lines(&named(is_text)),
        (Format::Pinfold, _) => {
            return Err(
                "pinfold learns what classes need by itself (memory.prediction): there is nothing to apply",
            );
        }
        (Format::Slurm, Consent::Report) => slurm::lines(&named(|_| true)),
        (Format::Slurm, consent) => slurm::files(&named(is_cell), consent),
        (Format::Gridengine, Consent::Report) => gridengine::lines(&named(|_| true)),
        (Format::Gridengine, consent) => gridengine::files(&named(is_cell), consent),
        (Format::Htcondor, Consent::Report) => htcondor::lines(&named(|_| true)),
        (Format::Htcondor, consent) => htcondor::transforms(&named(htcondor::may_name), consent),
        (Format::Nextflow | Format::Snakemake, Consent::Fill) => {
            return Err(
                "it cannot be told where nothing was asked for: there, configuration comes before what a \
                        process or rule says; take --apply lower, or write the lines that --apply report gives",
            );
        }
        (Format::Nextflow, consent) => nextflow::config(&named(nextflow::may_name), consent),
        (Format::Snakemake, consent) => snakemake::profile(&named(snakemake::may_name), consent),
    };
    Ok(Made { files, left_out })
}

fn need(view: &ClassView, now_s: f64) -> Option<Need<'_>> {
    let advised = view.advised_bytes?;
    Some(Need {
        user: &view.user,
        class: &view.class,
        cores: view.cores_advised,
        memory_mib: mebibytes(advised).max(1),
        requested_mib: view.requested_bytes.map(mebibytes),
        wall_min: view.wall_advised_s.map(minutes),
        jobs: view.jobs,
        risk: view.risk.unwrap_or(1.0),
        age_d: whole(((now_s - view.last_s) / 86_400.0).floor().max(0.0)),
        is_kept: view.failed_at_limit > 0,
    })
}

/// The largest need for each name that jobs are looked up by: classes differ by cores too, which are not part of that
/// name; nor is the user where a file has `by_class` alone. Lines to paste stay apart otherwise.
fn largest<'a>(needs: Vec<Need<'a>>, consent: Consent, by_class: bool) -> Vec<Need<'a>> {
    if consent == Consent::Report && !by_class {
        return needs;
    }
    let mut kept: Vec<Need<'a>> = Vec::new();
    for need in needs {
        let is_same =
            |other: &&mut Need<'a>| other.class == need.class && (by_class || other.user == need.user);
        match kept.iter_mut().find(is_same) {
            Some(other) => {
                let is_kept = other.is_kept || need.is_kept;
                if need.memory_mib > other.memory_mib {
                    *other = need;
                }
                other.is_kept = is_kept;
            }
            None => kept.push(need),
        }
    }
    kept
}

/// A text that a terminal or an editor shows unchanged.
fn is_text(name: &str) -> bool {
    pinfold_profile::report::plain(name) == name
}

/// A text that fits into a single cell of a flat table, and does not make its line a comment.
fn is_cell(name: &str) -> bool {
    is_text(name) && !name.is_empty() && !name.starts_with('#') && name.trim() == name
}

/// A name within a comment: on a single line, without an end of the comment.
fn comment(name: &str) -> String {
    pinfold_profile::report::plain(name)
}

/// The comment above the lines of a class.
fn head(need: &Need<'_>) -> String {
    let asked = need.requested_mib.map_or("nothing".to_owned(), |mib| format!("{mib} MiB"));
    format!(
        "{}: {} runs, risk {:.1} %; asks for {asked} now",
        comment(need.class),
        need.jobs,
        need.risk * 100.0
    )
}

/// The flat table that scripts look jobs up in: a line a class, cells between tabs.
fn table(needs: &[&Need<'_>]) -> String {
    let mut text = "# user\tclass\tmemory_mib\tkeep\tjobs\trisk\tage_d\n".to_owned();
    for need in needs {
        text.push_str(&format!(
            "{}\t{}\t{}\t{}\t{}\t{:.4}\t{}\n",
            need.user,
            need.class,
            need.memory_mib,
            u8::from(need.is_kept),
            need.jobs,
            need.risk,
            need.age_d
        ));
    }
    text
}

/// A script with its mode filled in.
fn script(text: &str, consent: Consent) -> String {
    let mode = if consent == Consent::Lower { "lower" } else { "fill" };
    text.replace("@MODE@", mode)
}

const TABLE: &str = "pinfold-advice.tsv";

fn one(name: &'static str, text: String) -> Vec<File> {
    vec![File { name, text, runs: false }]
}

#[cfg(test)]
mod scripts;
#[cfg(test)]
mod tests;
