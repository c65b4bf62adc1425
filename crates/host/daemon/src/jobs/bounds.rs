//! How much a job may be asked for with: `pinfold` cuts what is only for the record, others may not.

use pinfold_proto::array::JobName;
use pinfold_proto::resource::check_resources;
use pinfold_proto::wire::ErrorCode;
use pinfold_proto::{After, AfterEnd, JobSpec, Resource, Terms};
use pinfold_topo::CpuSet;

use crate::core::Refusal;
use crate::jobs::arrays;
use crate::jobs::gates::CONDITIONS_MAX;

/// How long the name of a job or a project may be, in bytes.
const NAME_MAX_BYTES: usize = 512;

/// How long a comment may be, in bytes.
const COMMENT_MAX_BYTES: usize = 1024;

/// How long a list of PUs may be, in bytes: that of every second of 16,384 PUs is shorter.
const PUS_MAX_BYTES: usize = 64 * 1024;

/// Checks whether the terms of a job make sense together.
pub(crate) fn terms_hold(terms: &Terms) -> Result<(), Refusal> {
    let refuse = |text: String| Err((ErrorCode::Usage, text));
    if terms.timeout_us == Some(0) {
        return refuse("--timeout 0 would end the job as it starts; name how long it may run".to_owned());
    }
    if terms.cpu_limit_us == Some(0) {
        return refuse("--cpu-limit 0 would end the job as it starts; name how much it may use".to_owned());
    }
    if terms.comment.as_ref().is_some_and(|text| text.len() > COMMENT_MAX_BYTES) {
        return refuse(format!("the comment is longer than {COMMENT_MAX_BYTES} bytes"));
    }
    if let Err(error) = check_resources(&terms.resources) {
        return refuse(format!("--resource: {error}"));
    }
    let Some(signal) = terms.timeout_signal else { return Ok(()) };
    if pinfold_sys::signals::name(signal.signal).is_none() {
        return refuse(format!("--timeout-signal: there is no signal {}", signal.signal));
    }
    match terms.timeout_us {
        None => {
            refuse("--timeout-signal comes before a timeout, and there is none: add --timeout".to_owned())
        }
        Some(timeout_us) if signal.before_us >= timeout_us => {
            let text = "--timeout-signal: the job would get it as it starts; it must come later than that";
            refuse(format!("{text}, after less than its timeout of {}", seconds(timeout_us)))
        }
        Some(_) => Ok(()),
    }
}

/// Which of several alike a job gets is decided when it starts, whatever a client wrote.
pub(crate) fn forget_numbers(spec: &mut JobSpec) {
    spec.terms.resources.iter_mut().for_each(|one| *one = Resource::asked(&one.name, one.count));
    spec.terms.resources.sort();
}

/// A time in words.
pub(crate) fn seconds(us: u64) -> String {
    pinfold_profile::report::duration(pinfold_proto::view::seconds(us))
}

/// Refuses what `pinfold` never asks for: it cuts what is only for the record, and each job that waits is held in
/// memory as a whole.
pub(crate) fn within_bounds(spec: &JobSpec) -> Result<(), Refusal> {
    let layout: usize = spec
        .layout
        .iter()
        .flat_map(|layout| &layout.options)
        .map(|(name, value)| name.len() + value.len() + 16)
        .sum();
    // What the names stand for, which is listed only after this.
    let after = spec.after.iter().flat_map(After::jobs).map(JobName::count).sum();
    let conditions =
        spec.after.iter().filter(|after| after.end != AfterEnd::Any).flat_map(After::jobs).count();
    let named = spec.layout.as_ref().and_then(|layout| layout.cpus.as_deref()).unwrap_or_default();
    let given = spec.allocation.as_ref().and_then(|given| given.cpus.as_deref()).unwrap_or_default();
    let bounds = [
        ("name", spec.name.len(), NAME_MAX_BYTES),
        ("project", spec.project.as_ref().map_or(0, String::len), NAME_MAX_BYTES),
        ("directory", spec.directory.len(), 5 * 1024),
        ("command", spec.command.iter().map(|word| word.len() + 8).sum(), 40 * 1024),
        ("layout", layout, 128 * 1024),
        ("list of PUs to run on", named.len(), PUS_MAX_BYTES),
        ("list of PUs that its client may use", given.len(), PUS_MAX_BYTES),
        ("checkpoint command", spec.checkpoint.as_ref().map_or(0, |one| one.command.len()), 5 * 1024),
        ("list of jobs that must be over before", after, arrays::NAMES_MAX),
        ("list of conditions of how other jobs end (--after ok:, failed:)", conditions, CONDITIONS_MAX),
        ("comment", spec.terms.comment.as_ref().map_or(0, String::len), COMMENT_MAX_BYTES),
    ];
    if spec.checkpoint.as_ref().is_some_and(|one| one.command.trim().is_empty()) {
        let message = "the job's checkpoint command is empty, and would have it ended for nothing written: name one \
                       (--checkpoint), or ask for none";
        return Err((ErrorCode::Usage, message.to_owned()));
    }
    // One of no size counts for nothing, and there would be no end of them.
    let sizes = [("--tmp", spec.tmp_bytes), ("--disk", spec.disk_bytes)];
    if let Some((what, _)) = sizes.into_iter().find(|&(_, bytes)| bytes == Some(0)) {
        return Err((
            ErrorCode::Usage,
            format!("{what} 0: a directory needs a size; ask for none, or for a byte or more"),
        ));
    }
    terms_hold(&spec.terms)?;
    if let Some((what, has, most)) = bounds.into_iter().find(|&(_, has, most)| has > most) {
        return Err((ErrorCode::Usage, format!("the job's {what} is {has} long, and {most} is the most")));
    }
    let unreadable = [named, given].into_iter().find_map(|text| text.parse::<CpuSet>().err());
    match unreadable {
        None => Ok(()),
        Some(error) => Err((ErrorCode::Usage, format!("the job's PUs: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use pinfold_proto::JobLayout;
    use pinfold_proto::job::Allocation;

    use super::*;

    #[test]
    fn directories_have_a_size() {
        let refused = |bytes| {
            [(Some(bytes), None), (None, Some(bytes))].map(|(tmp_bytes, disk_bytes)| {
                within_bounds(&JobSpec { tmp_bytes, disk_bytes, ..JobSpec::default() }).is_err()
            })
        };
        assert_eq!((refused(0), refused(1)), ([true; 2], [false; 2]));
    }

    /// A list is read several times on its way, by the loop: one that is long, or long to read, or none goes no further.
    #[test]
    fn lists_of_pus_are_bounded() {
        let named = |cpus: &str| {
            let layout = JobLayout { cpus: Some(cpus.to_owned()), ..JobLayout::default() };
            within_bounds(&JobSpec { layout: Some(layout), ..JobSpec::default() })
        };
        let given = |cpus: &str| {
            let allocation = Allocation { cpus: Some(cpus.to_owned()), ..Allocation::default() };
            within_bounds(&JobSpec { allocation: Some(allocation), ..JobSpec::default() })
        };
        let every_second: Vec<String> = (0..16_384).step_by(2).map(|pu| pu.to_string()).collect();
        for fits in ["", "0-3,8", "0-65535", &every_second.join(",")] {
            assert_eq!((named(fits), given(fits)), (Ok(()), Ok(())), "{fits:.20}");
        }
        for (wrong, words) in [
            ("0-65535,".repeat(28_000), " is 224000 long, and 65536 is the most"),
            (
                vec!["0-65535"; 6_000].join(","),
                "the job's PUs: the list of PUs names the same ones over and over",
            ),
            ("some".to_owned(), "the job's PUs: `some` is not a PU number"),
        ] {
            for refused in [named(&wrong), given(&wrong)] {
                let (code, text) = refused.expect_err("it is refused");
                assert!(code == ErrorCode::Usage && text.contains(words), "{text}");
            }
        }
    }
}
