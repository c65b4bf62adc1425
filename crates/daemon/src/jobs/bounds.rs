//! How much a job may be asked for with: `pinfold` cuts what is only for the record, others may not.

use pinfold_proto::JobSpec;
use pinfold_proto::array::JobName;
use pinfold_proto::wire::ErrorCode;

use crate::core::Refusal;
use crate::jobs::arrays;

/// How long the name of a job or a project may be, in bytes.
const NAME_MAX_BYTES: usize = 512;

/// Refuses what `pinfold` never asks for: it cuts what is only for the record, and each job that waits is held in
/// memory as a whole.
pub(crate) fn within_bounds(spec: &JobSpec) -> Result<(), Refusal> {
    let layout: usize = spec
        .layout
        .iter()
        .flat_map(|layout| &layout.options)
        .map(|(name, value)| name.len() + value.len())
        .sum();
    // What the names stand for, which is listed only after this.
    let after = spec.after.iter().map(JobName::count).sum();
    let bounds = [
        ("name", spec.name.len(), NAME_MAX_BYTES),
        ("project", spec.project.as_ref().map_or(0, String::len), NAME_MAX_BYTES),
        ("directory", spec.directory.len(), 5 * 1024),
        ("command", spec.command.iter().map(|word| word.len() + 8).sum(), 40 * 1024),
        ("layout", layout, 128 * 1024),
        ("checkpoint command", spec.checkpoint.as_ref().map_or(0, |one| one.command.len()), 5 * 1024),
        ("list of jobs that must be over before", after, arrays::NAMES_MAX),
    ];
    if spec.checkpoint.as_ref().is_some_and(|one| one.command.trim().is_empty()) {
        let message = "the job's checkpoint command is empty, and would have it ended for nothing written: name one \
                       (--checkpoint), or ask for none";
        return Err((ErrorCode::Usage, message.to_owned()));
    }
    match bounds.into_iter().find(|&(_, has, most)| has > most) {
        None => Ok(()),
        Some((what, has, most)) => {
            Err((ErrorCode::Usage, format!("the job's {what} is {has} long, and {most} is the most")))
        }
    }
}
