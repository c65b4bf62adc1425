//! `squeue`: waiting and running jobs, and for a short while ended jobs.

use std::collections::BTreeSet;
use std::ffi::OsString;

use pinfold_proto::text::plain;
use pinfold_sys::peer::own_name;

use crate::cluster::Cluster;
use crate::fields::{self, Around};
use crate::form::{Column, of_letters, of_names};
use crate::getopt::{Given, Order, parse};
use crate::jobs::{CLUSTER, Job, in_rows};
use crate::options;
use crate::request::cluster as only_cluster;
use crate::say;
use crate::select::{self, Named};
use crate::state::State;
use crate::trouble::{INVALID_JOB, Trouble};
use crate::units::now_s;
use crate::users::known_users;

const USUAL: &str = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
const LONG: &str = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";
const START: &str = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";

/// The failed operation in error messages.
const LOAD: &str = "slurm_load_jobs";

/// The selection and display of jobs.
#[derive(Debug, Default)]
struct Asked {
    columns: Vec<Column>,
    /// Whether columns have names; else letters.
    named: bool,
    heads: bool,
    long: bool,
    each_member: bool,
    jobs: Option<Vec<Named>>,
    /// `None`: all.
    states: Option<Vec<State>>,
    users: Option<Vec<String>>,
    names: Option<Vec<String>>,
    partitions: Option<Vec<String>>,
    accounts: Option<Vec<String>>,
    qos: Option<Vec<String>>,
    /// Sort keys, most significant first; true sorts descending.
    sort: Vec<(char, bool)>,
    cluster: bool,
    /// Whether the requested nodes include this host.
    here: Option<bool>,
    help: Option<&'static str>,
}

/// The parts of a list.
pub(crate) fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// States by long or short word in any case; `None`: all.
///
/// # Errors
/// For an unknown word.
pub(crate) fn states(text: &str) -> Result<Option<Vec<State>>, String> {
    let mut all = Vec::new();
    for word in list(text) {
        if word.eq_ignore_ascii_case("all") {
            return Ok(None);
        }
        let is = |state: &State| {
            word.eq_ignore_ascii_case(state.long()) || word.eq_ignore_ascii_case(state.compact())
        };
        // States of Slurm's in which no job is here.
        const OTHERS: &[&str] = &[
            "CG",
            "COMPLETING",
            "CF",
            "CONFIGURING",
            "PR",
            "PREEMPTED",
            "RQ",
            "REQUEUED",
            "RS",
            "RESIZING",
            "SE",
            "SPECIAL_EXIT",
            "SI",
            "SIGNALING",
            "SO",
            "STAGE_OUT",
            "ST",
            "STOPPED",
            "BF",
            "BOOT_FAIL",
            "DL",
            "DEADLINE",
            "RD",
            "RESV_DEL_HOLD",
            "RF",
            "REQUEUE_FED",
            "RH",
            "REQUEUE_HOLD",
            "RV",
            "REVOKED",
            "LF",
            "LAUNCH_FAILED",
            "RECONFIG_FAIL",
            "EX",
            "EXPEDITING",
            "POWER_UP_NODE",
        ];
        match State::ALL.into_iter().find(is) {
            Some(state) => all.push(state),
            None if OTHERS.iter().any(|other| word.eq_ignore_ascii_case(other)) => {}
            None => return Err(format!("Invalid job state specified: {word}")),
        }
    }
    Ok(Some(all))
}

/// Slurm's sort letters; `A` and `F` are this program's own.
const SORTS: &str = "ABCDFGHIJLMNOPQSTUVbcdefghijlmnptuvz";

/// Parses sort keys: letters, optionally separated by commas, each descending after `-`.
fn sort_keys(text: &str) -> Result<Vec<(char, bool)>, String> {
    let (mut keys, mut down) = (Vec::new(), false);
    // There is only one cluster.
    for letter in text.replace("cluster", "").chars() {
        match letter {
            '-' => down = true,
            ',' | '+' | ' ' => down = false,
            _ if SORTS.contains(letter) => keys.push((letter, std::mem::take(&mut down))),
            _ => return Err(format!("Invalid sort specification: {letter}")),
        }
    }
    Ok(keys)
}

impl Asked {
    fn of(given: &[Given], environment: impl Fn(&str) -> Option<String>) -> Result<Self, Trouble> {
        let mut asked = Self { heads: true, ..Self::default() };
        let (mut letters, mut names) = (environment("SQUEUE_FORMAT"), environment("SQUEUE_FORMAT2"));
        // Empty if no job can be in any of the requested states.
        let mut wanted = environment("SQUEUE_STATES").map(|text| states(&text)).transpose()?;
        let listed = |name: &str| environment(name).map(|text| list(&text));
        asked.users = environment("SQUEUE_USERS").map(|text| known_users(&text));
        asked.partitions = listed("SQUEUE_PARTITION");
        asked.accounts = listed("SQUEUE_ACCOUNT");
        asked.names = listed("SQUEUE_NAMES");
        asked.qos = listed("SQUEUE_QOS");
        asked.each_member =
            ["SQUEUE_ARRAY", "SQUEUE_ARRAY_UNIQUE"].iter().any(|it| environment(it).is_some());
        let mut sort = environment("SQUEUE_SORT").unwrap_or_default();
        let (mut start, mut said) = (false, false);
        for option in given {
            let value = option.value.clone().unwrap_or_default();
            match option.name.as_str() {
                "Format" => (names, letters, said) = (Some(value), None, true),
                "format" => (letters, names, said) = (Some(value), None, true),
                "account" => asked.accounts = Some(list(&value)),
                "array" | "array-unique" => asked.each_member = true,
                "clusters" => {
                    only_cluster(&value)?;
                    asked.cluster = true;
                }
                "jobs" if !value.is_empty() => {
                    let jobs = select::names(&value).map_err(|bad| format!("Invalid job id: {bad}"))?;
                    asked.jobs = Some(jobs);
                }
                "long" => asked.long = true,
                "me" => asked.users = Some(vec![own_name()]),
                "name" => asked.names = Some(list(&value)),
                "noheader" => asked.heads = false,
                "partition" => asked.partitions = Some(list(&value)),
                "qos" => asked.qos = Some(list(&value)),
                "sort" => sort = value,
                "start" => start = true,
                "states" => wanted = Some(states(&value)?),
                "user" => asked.users = Some(known_users(&value)),
                "nodelist" => asked.here = Some(is_here(&value)),
                "help" => asked.help = Some("help"),
                "usage" => asked.help = Some("usage"),
                "version" => asked.help = Some("version"),
                _ => {}
            }
        }
        asked.sort = sort_keys(&sort)?;
        let usual = if start {
            START
        } else if asked.long {
            LONG
        } else {
            USUAL
        };
        asked.states = wanted.unwrap_or_else(|| {
            let shown = |state: &State| if start { *state == State::Pending } else { !state.is_over() };
            Some(State::ALL.into_iter().filter(shown).collect())
        });
        // Options win over the environment's formats.
        let by_itself = said || !(asked.long || start);
        let (letters, names) = (letters.filter(|_| by_itself), names.filter(|_| by_itself));
        match (letters, names) {
            (Some(letters), _) => asked.columns = of_letters(&letters, |c| fields::of_letter(c).is_some())?,
            (None, Some(names)) => (asked.columns, asked.named) = (of_names(&names)?, true),
            (None, None) => asked.columns = of_letters(usual, |_| true)?,
        }
        Ok(asked)
    }

    /// Whether ended jobs are selected.
    fn wants_over(&self) -> bool {
        self.states.as_ref().is_none_or(|states| states.iter().any(|state| state.is_over()))
    }

    fn wants(&self, job: &Job) -> bool {
        let of = |list: &Option<Vec<String>>, value: &str| {
            list.as_ref().is_none_or(|list| list.iter().any(|one| one == value))
        };
        let qos = if job.label.qos.is_empty() { "normal" } else { &job.label.qos };
        self.states.as_ref().is_none_or(|states| states.contains(&job.state))
            // A waiting job has no node yet.
            && self.here.is_none_or(|here| here && job.has_node())
            && of(&self.users, &job.user)
            && of(&self.names, &job.name)
            && of(&self.partitions, job.partition())
            && of(&self.accounts, &job.label.account)
            && of(&self.qos, qos)
    }

    fn field(&self, column: &Column) -> String {
        match self.named {
            true => fields::of_long_name(&column.field),
            false => {
                let letter = column.field.chars().next().and_then(fields::of_letter);
                letter.unwrap_or_default().to_owned()
            }
        }
    }
}

/// Whether a list of nodes includes this host.
pub(crate) fn is_here(nodes: &str) -> bool {
    let host = pinfold_sys::peer::host_name();
    list(nodes).iter().any(|node| *node == host || node == "localhost")
}

/// Shows jobs.
///
/// # Errors
/// In squeue's words.
pub(crate) fn squeue(arguments: &[OsString]) -> Result<u8, Trouble> {
    let (given, operands) =
        parse(&options::squeue(), arguments, Order::Free).map_err(say::usage("squeue"))?;
    let mut asked = Asked::of(&given, |name| std::env::var(name).ok().filter(|text| !text.is_empty()))?;
    // As of old, `-j 12` with the number apart.
    let bare = given.iter().any(|option| option.name == "jobs" && option.value.is_none());
    if bare && let Some(word) = operands.first() {
        let text = word.to_string_lossy();
        asked.jobs = Some(select::names(&text).map_err(|bad| format!("Invalid job id: {bad}"))?);
    } else if let Some(word) = operands.first() {
        return Err(Trouble::new(format!("Unrecognized option: {}", word.display())));
    }
    if let Some(what) = asked.help {
        return say::help("squeue", what, &options::squeue());
    }
    let failed = |failure| Trouble::of_load(LOAD, &failure);
    let mut cluster = Cluster::connect().map_err(failed)?;
    let jobs = chosen(&mut cluster, &asked)?;
    let mut jobs: Vec<Job> = jobs.into_iter().filter(|job| asked.wants(job)).collect();
    if !asked.each_member {
        jobs = in_rows(jobs);
    }
    sort(&mut jobs, &asked.sort);
    say::out(&written(&asked, &jobs))?;
    Ok(0)
}

fn chosen(cluster: &mut Cluster, asked: &Asked) -> Result<Vec<Job>, Trouble> {
    let failed = |failure| Trouble::of_load(LOAD, &failure);
    let Some(names) = &asked.jobs else { return cluster.jobs(asked.wants_over()).map_err(failed) };
    let numbers = select::members(cluster, names).map_err(failed)?;
    let numbers: BTreeSet<u64> = numbers.into_iter().flatten().collect();
    let numbers: Vec<u64> = numbers.into_iter().collect();
    let mut jobs = cluster.named(&numbers).map_err(failed)?;
    let since = now_s() - std::time::Duration::from_secs(crate::cluster::MIN_JOB_AGE_S).as_secs_f64();
    jobs.retain(|job| !job.state.is_over() || job.ended_s.is_none_or(|ended| ended >= since));
    match jobs.is_empty() && names.len() == 1 {
        true => Err(Trouble::bare(format!("{LOAD} error: {INVALID_JOB}"))),
        false => Ok(jobs),
    }
}

fn sort(jobs: &mut [Job], by: &[(char, bool)]) {
    let around = around();
    for &(letter, down) in by.iter().rev() {
        let numbered = |job: &Job| match letter {
            'i' | 'A' | 'F' => Some(job.job),
            'p' | 'Q' => Some(job.priority.into()),
            'M' => Some(job.elapsed_s(around.now_s)),
            'C' => Some(job.cores.into()),
            'm' => Some(job.claim_bytes.unwrap_or(0)),
            'l' => Some(job.limit_s.unwrap_or(u64::MAX)),
            _ => None,
        };
        let worded = |job: &Job| {
            fields::of_letter(letter).map(|field| fields::squeue(job, field, &around)).unwrap_or_default()
        };
        jobs.sort_by(|one, two| {
            let order = match (numbered(one), numbered(two)) {
                (Some(one), Some(two)) => one.cmp(&two),
                _ => worded(one).cmp(&worded(two)),
            };
            if down { order.reverse() } else { order }
        });
    }
}

/// The context of fields.
pub(crate) fn around() -> Around {
    let gid = pinfold_sys::own::group();
    Around {
        host: pinfold_sys::peer::host_name(),
        now_s: now_s(),
        uid: pinfold_sys::peer::own_uid(),
        group: group_name(gid),
        gid,
        unit: None,
        plain: false,
    }
}

/// A group's name from `/etc/group`.
fn group_name(gid: u32) -> String {
    let text = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let found = text.lines().find_map(|line| {
        let mut parts = line.split(':');
        let name = parts.next()?;
        (parts.nth(1)?.parse() == Ok(gid)).then(|| name.to_owned())
    });
    found.unwrap_or_else(|| gid.to_string())
}

fn written(asked: &Asked, jobs: &[Job]) -> String {
    let around = around();
    let mut text = String::new();
    if asked.cluster {
        text.push_str(&format!("CLUSTER: {CLUSTER}\n"));
    }
    if asked.long && asked.heads {
        text.push_str(&format!("{}\n", crate::units::date(around.now_s)));
    }
    let fields: Vec<String> = asked.columns.iter().map(|column| asked.field(column)).collect();
    if asked.heads {
        for (column, field) in asked.columns.iter().zip(&fields) {
            column.write(&fields::squeue_head(field), &mut text);
        }
        text.push('\n');
    }
    for job in jobs {
        for (column, field) in asked.columns.iter().zip(&fields) {
            column.write(&plain(&fields::squeue(job, field, &around)), &mut text);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn asked(line: &str, environment: &[(&str, &str)]) -> Asked {
        let words = crate::getopt::words_of(line.as_bytes());
        let (given, _) = parse(&options::squeue(), &words, Order::Free).expect("options");
        let get = |name: &str| environment.iter().find(|(known, _)| *known == name).map(|it| it.1.to_owned());
        Asked::of(&given, get).expect(line)
    }

    #[test]
    fn states_that_are_meant() {
        use State::{Pending, Running, Suspended};
        let usual = Some(vec![Pending, Running, Suspended]);
        let check = |line: &str, environment: &[(&str, &str)], want: &Option<Vec<State>>| {
            assert_eq!(asked(line, environment).states, *want, "{line}");
        };
        check("-h", &[], &usual);
        check("-t all", &[], &None);
        check("-t r,S", &[], &Some(vec![Running, Suspended]));
        // In these no job is here, and none is shown.
        check("-t CG", &[], &Some(Vec::new()));
        check("--states=PREEMPTED,COMPLETING", &[], &Some(Vec::new()));
        check("--start", &[], &Some(vec![Pending]));
        check("--start -t R", &[], &Some(vec![Running]));
        check("", &[("SQUEUE_STATES", "R")], &Some(vec![Running]));
        check("-t PD", &[("SQUEUE_STATES", "R")], &Some(vec![Pending]));
    }

    #[test]
    fn sort_keys_of_squeue() {
        let check = |text: &str, want: Result<&[(char, bool)], &str>| {
            assert_eq!(sort_keys(text), want.map(<[_]>::to_vec).map_err(str::to_owned), "{text}");
        };
        check("", Ok(&[]));
        check("P,t,-p", Ok(&[('P', false), ('t', false), ('p', true)]));
        check("+i-M", Ok(&[('i', false), ('M', true)]));
        check("-cluster,i", Ok(&[('i', false)]));
        check("nope", Err("Invalid sort specification: o"));
    }

    #[test]
    fn users_are_known() {
        let check = |line: &str, want: &[&str]| {
            let want: Vec<String> = want.iter().map(|&user| user.to_owned()).collect();
            assert_eq!(asked(line, &[]).users, Some(want), "{line}");
        };
        check("-u root,0,4000000000", &["root", "root", "4000000000"]);
        check("-u no-such-user,root", &["root"]);
        // Nobody's jobs, not everybody's.
        check("-u no-such-user", &[]);
        assert_eq!(asked("", &[("SQUEUE_USERS", "no-such-user")]).users, Some(Vec::new()));
    }

    #[test]
    fn options_win_over_the_environments_formats() {
        let fields = |line: &str, environment: &[(&str, &str)]| {
            asked(line, environment).columns.iter().map(|it| it.field.clone()).collect::<String>()
        };
        let own = [("SQUEUE_FORMAT", "%A")];
        assert_eq!(fields("", &own), "A");
        assert_eq!(fields("-o %i%b", &own), "ib");
        assert_eq!(fields("-l", &own), "iPjuTMlDR");
        assert_eq!(fields("--start", &own), "iPjutSDYR");
        assert_eq!(fields("-O JobID", &own), "JobID");
    }

    #[test]
    fn lists_by_slurms_other_names_and_by_the_environment() {
        let of = asked("--accounts=a --users root --partitions p,q --nodes localhost", &[]);
        let one = |text: &str| Some(vec![text.to_owned()]);
        assert_eq!((of.accounts, of.users, of.here), (one("a"), one("root"), Some(true)));
        assert_eq!(of.partitions, Some(vec!["p".to_owned(), "q".to_owned()]));
        let of = asked("", &[("SQUEUE_NAMES", "n"), ("SQUEUE_QOS", "q"), ("SQUEUE_ARRAY", "1")]);
        assert_eq!((of.names, of.qos, of.each_member), (one("n"), one("q"), true));
    }
}
