//! Jobs by the names that they have in the workload managers which dispatched them.
//!
//! A name is data of the user who claimed it: it means a job only among those that the asking user may see. Absent here: which
//! processes may claim one (`reactor::in_place`).

use pinfold_policy::JobId;
use pinfold_proto::ExternalName;
use pinfold_proto::row::JobRow;
use pinfold_proto::wire::ErrorCode;
use pinfold_sys::peer::Peer;

use crate::clients::rights;
use crate::core::{Ctx, Refusal};
use crate::jobs::table::JobTable;
use crate::store::journal::Journal;

/// So many names may be asked about at once.
pub(crate) const NAMES_MAX: usize = 256;
/// So many jobs that are over are looked at for one name.
const OVER_MAX: u32 = 256;
/// So many jobs are told of a name that means several.
const TOLD_MAX: usize = 8;

/// The job that each of these names means.
pub(crate) fn jobs_named(
    ctx: &Ctx,
    table: &JobTable,
    journal: &mut Journal,
    user: Peer,
    names: &[ExternalName],
) -> Result<Vec<u64>, Refusal> {
    names.iter().map(|name| job_named(ctx, table, journal, user, name)).collect()
}

/// One that is not over goes before all that are; of those, the last.
fn job_named(
    ctx: &Ctx,
    table: &JobTable,
    journal: &mut Journal,
    user: Peer,
    name: &ExternalName,
) -> Result<u64, Refusal> {
    let means = |row: &&JobRow| row.spec.external.as_ref().is_some_and(|its| name.means(its));
    let may = |row: &&JobRow| rights::may_touch(&ctx.configured.config, user, row);
    let live: Vec<&JobRow> = table.adopted().map(|(_, live)| &live.row).filter(means).filter(may).collect();
    if let Some(job) = only_one(name, &live, true)? {
        return Ok(job);
    }
    let mut over: Vec<JobRow> = journal.all_unwritten().filter(means).cloned().collect();
    over.extend(journal.store().external(name.as_str(), OVER_MAX).unwrap_or_default());
    let mut over: Vec<&JobRow> = over.iter().filter(may).collect();
    over.sort_by_key(|row| std::cmp::Reverse(row.job));
    let none = || {
        let text =
            format!("no job that you may see is called {name}; `pinfold status --all --json` has the names");
        (ErrorCode::Failed, text)
    };
    only_one(name, &over, false)?.ok_or_else(none)
}

/// The job of these that a name means: those called just so go before those of which it names the whole. Of several, the
/// first if they have one name, one owner and are over.
fn only_one(name: &ExternalName, found: &[&JobRow], live: bool) -> Result<Option<u64>, Refusal> {
    let exact: Vec<&JobRow> =
        found.iter().copied().filter(|row| row.spec.external.as_ref() == Some(name)).collect();
    let found = if exact.is_empty() { found } else { &exact };
    let Some(first) = found.first() else { return Ok(None) };
    let same = |row: &&JobRow| row.uid == first.uid && row.spec.external == first.spec.external;
    if found.len() == 1 || (!live && found.iter().all(same)) {
        return Ok(Some(first.job));
    }
    let told = found.iter().take(TOLD_MAX).map(|row| {
        let its = row.spec.external.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("job {} ({its} of {})", row.job, row.user)
    });
    let told: Vec<String> = told.collect();
    let text = format!("{name} means several jobs: {}; name one by its number", told.join(", "));
    Err((ErrorCode::Usage, text))
}

/// The job of this user that waits or runs, and is the manager's job that a name is part of.
pub(crate) fn joined(table: &JobTable, uid: u32, name: &ExternalName) -> Option<JobId> {
    let its = |row: &JobRow| {
        row.uid == uid && row.spec.external.as_ref().is_some_and(|other| other.whole() == name.whole())
    };
    table.adopted().find(|(_, live)| its(&live.row)).map(|(job, _)| job)
}

/// Checks a claimed name against what the kernel says of a process: `manager`, as [`pinfold_sys::managers`] has it. Where
/// the kernel says nothing, the owner of the process is believed.
pub(crate) fn agrees(name: &ExternalName, manager: Option<&str>) -> bool {
    let Some((word, id)) = manager.and_then(|manager| manager.split_once(' ')) else { return true };
    match word {
        "Slurm" => name.whole() == format!("slurm:{id}"),
        "PBS" => ["pbs", "torque"].contains(&name.manager()) && same_number(name.id(), id),
        "LSF" => name.manager() == "lsf" && same_number(name.id(), id),
        _ => true,
    }
}

/// Whether two names begin with the same number: servers and tasks may follow it.
fn same_number(one: &str, other: &str) -> bool {
    let number = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    number(one) == number(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_proto::JobSpec;

    fn row(job: u64, uid: u32, name: &str) -> JobRow {
        let spec = JobSpec { external: Some(name.parse().unwrap()), ..JobSpec::default() };
        JobRow::asked_for(job, uid, format!("user{uid}"), spec, 0)
    }

    #[track_caller]
    fn check(typed: &str, rows: &[JobRow], live: bool, want: Result<Option<u64>, &str>) {
        let found: Vec<&JobRow> = rows.iter().collect();
        let got = only_one(&typed.parse().unwrap(), &found, live);
        match want {
            Ok(want) => assert_eq!(got.unwrap(), want, "{typed}"),
            Err(words) => {
                let (_, text) = got.expect_err(typed);
                assert!(text.contains(words), "{typed}: {text}");
            }
        }
    }

    #[test]
    fn a_name_means_one_job_or_is_refused() {
        let steps = [row(7, 1, "slurm:12.0"), row(6, 1, "slurm:12.1")];
        check("slurm:12", &[], true, Ok(None));
        check("slurm:12", &steps[..1], true, Ok(Some(7)));
        check("slurm:12", &steps, false, Err("job 7 (slurm:12.0 of user1), job 6"));
        check("slurm:12.1", &[row(6, 1, "slurm:12.1")], true, Ok(Some(6)));
        let again = [row(9, 1, "sge:3"), row(4, 1, "sge:3")];
        check("sge:3", &again, false, Ok(Some(9)));
        check("sge:3", &again, true, Err("several jobs"));
        let claimed = [row(9, 1, "sge:3"), row(4, 2, "sge:3")];
        check("sge:3", &claimed, false, Err("user2"));
    }

    #[test]
    fn the_kernels_word_goes_before_a_claim() {
        for (name, manager, want) in [
            ("slurm:12.batch", None, true),
            ("slurm:12.batch", Some("Slurm 12"), true),
            ("slurm:13.batch", Some("Slurm 12"), false),
            ("sge:12", Some("Slurm 12"), false),
            ("pbs:9", Some("PBS 9.server"), true),
            ("pbs:91", Some("PBS 9.server"), false),
            ("lsf:9[2]", Some("LSF 9"), true),
            ("condor:12.0", Some("HTCondor"), true),
            ("sge:12.1", Some("Grid Engine"), true),
        ] {
            assert_eq!(agrees(&name.parse().unwrap(), manager), want, "{name} {manager:?}");
        }
    }
}
