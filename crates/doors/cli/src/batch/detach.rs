//! `batch --detach`: the lines of a list are handed over as the members of an array, with the numbers of the lines as
//! indexes, to a keeper that outlives this command.

use std::path::{Path, PathBuf};
use std::process::ExitCode as ProcessExit;
use std::rc::Rc;

use pinfold_client::{Client, Dial, Failure};
use pinfold_proto::array::{ArraySpec, INDEX_MAX, JobName, MEMBERS_MAX};
use pinfold_proto::{ExitCode, JobSpec};

use super::args::BatchArgs;
use super::direct::Direct;
use super::lines::Lines;
use crate::array;
use crate::job;
use crate::keeper::Keeper;
use crate::launch::LaunchPlan;
use crate::output::Named;
use crate::shell;
use crate::show::figures;
use crate::submit;
use crate::submit::files::Names;
use crate::submit::notes::Notes;

/// Hands the lines over and prints the number of their array.
pub(super) fn detach(dial: Dial, args: &BatchArgs, lines: Lines) -> Result<ProcessExit, Failure> {
    let json = matches!(args.json, Some(None));
    let mut list = List::of(args, lines)?;
    let mut client = list.plan.connect(&dial)?;
    list.plan.resolve(&mut client)?;
    list.bound(args, &client);
    drop(client);
    submit::hand_over(json, || {
        let List { names, spec, plan, lines, named } = list;
        let common = plan.spec.clone();
        let spec_of = |place: usize| spec_of(&common, &lines, named, place);
        let (keeper, notes, said) = array::prepare(dial, names, &spec, plan, &spec_of)?;
        Ok((keeper, notes.with_notify(args.notify.as_deref()), said))
    })
}

/// Keeps lines that were handed over before, in the place of a keeper that is gone.
pub(super) fn keep_anew(dial: Dial, args: &BatchArgs, name: &JobName) -> Result<ProcessExit, Failure> {
    let prepared = prepare_anew(dial.clone(), args, name)
        .map(|(keeper, notes)| (keeper, notes.with_notify(args.notify.as_deref())));
    submit::attend_anew(dial, name, prepared)
}

fn prepare_anew(dial: Dial, args: &BatchArgs, name: &JobName) -> Result<(Keeper, Notes), Failure> {
    let (lines, _) = Lines::of_args(args, shell::of(args.shell.as_deref())?)?;
    let mut list = List::of(args, lines)?;
    let mut client = list.plan.connect(&dial)?;
    list.bound(args, &client);
    let List { names, spec, plan, lines, named } = list;
    for (index, job) in array::members_left(&mut client, name)? {
        let place = spec.indexes.binary_search(&index);
        let now = place.ok().map(|place| job::recorded(&lines.command(place)));
        if figures(&mut client, job)?.map(|report| report.command) != now {
            let text = format!("line {index} of the list is not what it was when the list was handed over");
            return Err(Failure::new(ExitCode::Failed, text));
        }
    }
    let common = plan.spec.clone();
    let spec_of = |place: usize| spec_of(&common, &lines, named, place);
    array::prepare_anew(dial, names, &spec, plan, &spec_of, name)
}

/// A list as an array.
struct List {
    names: Names,
    spec: ArraySpec,
    plan: LaunchPlan,
    lines: Rc<Lines>,
    /// Whether all lines have the name of `--name`.
    named: bool,
}

impl List {
    fn of(args: &BatchArgs, lines: Lines) -> Result<Self, Failure> {
        refuse(args, &lines)?;
        let number = |place: usize| lines.number(place).and_then(|number| u32::try_from(number).ok());
        let indexes = (0..lines.count()).map(|place| number(place).unwrap_or(INDEX_MAX)).collect();
        let lines = Rc::new(lines);
        let (of_ticket, direct) = (lines.clone(), Direct::of_shell(&lines.shell));
        let command = Box::new(move |ticket| of_ticket.program(&direct, array::place(ticket), || 0));
        let mut plan = LaunchPlan::of_many(&args.options, command)?;
        plan.spec.terms.runs_again = true;
        let named = args.options.name.is_some();
        Ok(Self {
            names: names(args.output.as_deref())?,
            spec: ArraySpec { indexes, at_most: None },
            plan,
            lines,
            named,
        })
    }

    /// Sets how many lines run at once (`-j`).
    fn bound(&mut self, args: &BatchArgs, client: &Client) {
        let at_most = args.jobs.map(|jobs| jobs.lines(client.welcome.cpus.len()));
        self.spec.at_most =
            at_most.filter(|&most| most < self.lines.count()).and_then(|most| u32::try_from(most).ok());
    }
}

fn spec_of(common: &JobSpec, lines: &Lines, named: bool, place: usize) -> JobSpec {
    job::of_line(common, named, &lines.command(place), lines.number(place).unwrap_or_default())
}

/// Files of the lines: named as by `submit --array`, or LINE.out and LINE.err in a directory.
fn names(directory: Option<&Path>) -> Result<Names, Failure> {
    let stem = match directory {
        None => "pinfold-%A_%a".to_owned(),
        Some(directory) => {
            let made = std::fs::create_dir_all(directory);
            made.map_err(|error| Failure::doing(format!("--output {}", directory.display()), &error))?;
            let text = directory.to_str().ok_or_else(|| {
                Failure::new(ExitCode::Usage, "--detach: the name of the directory of --output is not UTF-8")
            })?;
            format!("{}/%a", text.replace('%', "%%"))
        }
    };
    let name = |ending: &str| (PathBuf::from(format!("{stem}.{ending}")), Named::ByRule);
    Ok(Names { out: name("out"), err: name("err") })
}

/// Refuses lists that cannot be an array, and options that need a batch which waits.
fn refuse(args: &BatchArgs, lines: &Lines) -> Result<(), Failure> {
    let usage = |text: String| Err(Failure::new(ExitCode::Usage, format!("--detach: {text}")));
    let options = [
        ("--halt", args.halt.is_some()),
        ("--retries", args.retries > 1),
        ("--delay", args.delay.is_some()),
        ("--joblog", args.joblog.is_some()),
        ("--json=FILE", matches!(args.json, Some(Some(_)))),
        ("--tag", args.tag),
        ("--ungroup", args.ungroup),
        ("--keep-order", args.keep_order),
        ("--results", args.results.is_some()),
        ("--eta", args.eta),
        ("--shuf", args.shuf),
        ("{%}", lines.name_slots()),
    ];
    if let Some((option, _)) = options.into_iter().find(|(_, given)| *given) {
        return usage(format!(
            "{option} needs a batch that waits: `nohup pinfold batch {option} ... &` without --detach"
        ));
    }
    let count = lines.count();
    if count > MEMBERS_MAX {
        return usage(format!(
            "{count} lines are more than the {MEMBERS_MAX} members of an array: split the list, or use `nohup pinfold batch ... &`"
        ));
    }
    let nul = |&place: &usize| lines.line(place).as_encoded_bytes().contains(&0);
    match (0..count).find(nul) {
        Some(place) => usage(format!("line {} holds a NUL byte", lines.number(place).unwrap_or_default())),
        None if count == 0 => usage("the list has no command".to_owned()),
        None => Ok(()),
    }
}
