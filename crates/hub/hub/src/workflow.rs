//! A job's workflow and run, by the job's own data. Words in its comment name both, in any order:
//! `workflow=rnaseq run=42 version=1.4 step=align`. Jobs of Snakemake's plugin for Slurm do so too: their name is the
//! run's UUID, and their comment has the rule. These words are a mere label: they grant nothing. The analysis of a run
//! is in [`steps`] (each step beside earlier runs) and [`chain`] (the spending of its time). Absent here: the store.

pub mod chain;
pub mod steps;

use pinfold_proto::view::ReportView;

/// The longest word, in bytes.
const WORD_MAX: usize = 100;

/// The workflow of jobs that name only a run.
const UNNAMED: &str = "unnamed";

/// A job's words about its workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Name of the workflow.
    pub workflow: String,
    /// The version, if named.
    pub version: Option<String>,
    /// Name of the run.
    pub run: String,
    /// The job's step.
    pub step: String,
}

impl Run {
    /// The run of a job; `None`: the job names no run.
    #[must_use]
    pub fn of(view: &ReportView) -> Option<Self> {
        let comment = view.comment.as_deref().unwrap_or_default();
        let of_project = || view.project.as_deref().filter(|name| is_word(name)).map(str::to_owned);
        if let Some(run) = said(comment, "run") {
            return Some(Self {
                workflow: said(comment, "workflow").or_else(of_project).unwrap_or_else(|| UNNAMED.to_owned()),
                version: said(comment, "version"),
                run,
                step: said(comment, "step").unwrap_or_else(|| step_of(&view.name)),
            });
        }
        let rule = comment.strip_prefix("rule_").filter(|_| is_uuid(&view.name))?;
        let rule = rule.split_once("_wildcards_").map_or(rule, |(rule, _)| rule);
        Some(Self {
            workflow: of_project().unwrap_or_else(|| "snakemake".to_owned()),
            version: None,
            run: view.name.clone(),
            step: cut(rule),
        })
    }
}

/// The value of a word `KEY=VALUE` in a comment.
fn said(comment: &str, key: &str) -> Option<String> {
    let words = comment.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';'));
    let values = words.filter_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    values.into_iter().find(|value| is_word(value)).map(str::to_owned)
}

fn is_word(text: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | ':' | '/' | '@' | '+');
    (1..=WORD_MAX).contains(&text.len()) && text.chars().all(fits)
}

/// The default step of a job: its name, without Nextflow's decoration of a process.
fn step_of(name: &str) -> String {
    let name = match name.strip_prefix("nf-") {
        Some(task) => task.split_once("_(").map_or(task, |(process, _)| process),
        None => name,
    };
    cut(name)
}

fn cut(text: &str) -> String {
    text.chars().take(WORD_MAX).collect()
}

fn is_uuid(text: &str) -> bool {
    let digits = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(name: &str, comment: &str, project: Option<&str>) -> ReportView {
        let value = serde_json::json!({
            "version": 1, "job": 1, "name": name, "command": [], "user": "ann", "project": project, "state": "exited",
            "class": "primary", "priority": 10, "cpus": null, "comment": comment, "submitted_s": 1.0, "started_s": 1.0,
            "ended_s": 1.0, "exit_code": 0, "signal": null, "reason": null, "queued_s": 0.0, "wall_s": 0.0, "suspended_s": 0.0,
            "cpu_user_s": 0.0, "cpu_system_s": 0.0, "claim_bytes": null, "memory_peak_bytes": 0, "memory_mean_bytes": 0,
            "cache_peak_bytes": null, "swap_peak_bytes": 0, "virtual_peak_bytes": 0, "io_read_bytes": 0, "io_write_bytes": 0,
            "processes_total": 1, "processes_peak": 1, "threads_peak": 1, "samples": 0,
        });
        serde_json::from_value(value).expect("a view")
    }

    #[track_caller]
    fn check(view: &ReportView, want: Option<(&str, Option<&str>, &str, &str)>) {
        let found = Run::of(view);
        let found = found.as_ref().map(|found| {
            (found.workflow.as_str(), found.version.as_deref(), found.run.as_str(), found.step.as_str())
        });
        assert_eq!(found, want);
    }

    #[test]
    fn a_comment_says_the_run_in_any_order() {
        let all = "night shift; run=42, workflow=rnaseq version=1.4 step=align";
        check(&view("job", all, None), Some(("rnaseq", Some("1.4"), "42", "align")));
        check(&view("align", "run=42", Some("web")), Some(("web", None, "42", "align")));
        check(&view("align", "run=42", None), Some(("unnamed", None, "42", "align")));
        check(
            &view("nf-NFCORE_RNASEQ_STAR_(s1)", "workflow=r run=x", None),
            Some(("r", None, "x", "NFCORE_RNASEQ_STAR")),
        );
    }

    #[test]
    fn snakemake_says_it_by_name_and_comment() {
        let run = "0f8fad5b-d9cb-469f-a165-70867728950e";
        check(&view(run, "rule_map_wildcards_s1", None), Some(("snakemake", None, run, "map")));
        check(&view(run, "rule_map", Some("web")), Some(("web", None, run, "map")));
        check(&view("align", "rule_map", None), None);
    }

    #[test]
    fn what_is_no_word_is_none() {
        for comment in ["", "run", "run=", "rerun=1", "run=<b>", "run='; DROP TABLE jobs; --", "workflow=x"] {
            check(&view("align", comment, None), None);
        }
        check(&view("align", &format!("run={}", "x".repeat(101)), None), None);
        check(&view("align", "run=<b> run=7", None), Some(("unnamed", None, "7", "align")));
    }
}
