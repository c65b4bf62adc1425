//! What `why` says of countable resources.

use crate::api::JobId;
use crate::api::code::figures;
use crate::explain::words::{Numbers, any_of, some_of};
use crate::jobs::Job;
use crate::queue::resources;
use crate::rooms::Rooms;

/// How many jobs are named that have some of a resource.
const HOLDERS_NAMED: usize = 20;

/// What a job asks for of them; `None`: nothing.
pub(crate) fn asked_for(job: &Job) -> Option<String> {
    let words: Vec<String> =
        job.request.resources.iter().map(|one| format!("{}={}", one.name, one.count)).collect();
    (!words.is_empty()).then(|| words.join(","))
}

/// For a job that waits for a resource: cause, and what would change it.
pub(crate) fn explain_lacking(rooms: &Rooms, job: &Job, numbers: &mut Numbers) -> Option<(String, String)> {
    let lacking = resources::lacking(rooms, job.id())?;
    let (name, asked) = (&lacking.name, lacking.count);
    let (total, free) = (resources::total(rooms, name), resources::free(rooms, name));
    numbers.say("waits for the resource", name.clone());
    numbers.part("of it free", (free, total), ["resource_free", "resource_total"]);
    if asked > total {
        return Some((
            format!("it asks for {asked} of the resource {name}, and the host has {total} now"),
            format!("the host must have more of it (`resources.{name}`), or a job must ask for less"),
        ));
    }
    if asked <= free
        && let Some(first) = resources::kept_for(rooms, job.request.owner, name)
    {
        return Some((
            format!(
                "what is free of the resource {name} is kept for job {first}, which is before it and waited long enough"
            ),
            format!("job {first} must have started"),
        ));
    }
    let holders: Vec<JobId> = rooms.jobs.with_resource(name).map(Job::id).collect();
    let named: Vec<String> = holders.iter().take(HOLDERS_NAMED).map(ToString::to_string).collect();
    let more = if holders.len() > HOLDERS_NAMED { " ..." } else { "" };
    let figures = figures!["resource_jobs": Number(holders.len() as u64)];
    numbers.put("jobs that have it", format!("{}{more}", named.join(" ")), figures);
    let hold = if holders.len() == 1 { "holds" } else { "hold" };
    Some((
        format!(
            "it asks for {asked} of the resource {name}, of which {free} of {total} are free; {} {hold} the rest",
            some_of(&holders)
        ),
        format!("{} must end", if asked == free + 1 { any_of(&holders) } else { enough_of(&holders) }),
    ))
}

fn enough_of(holders: &[JobId]) -> String {
    match holders {
        [one] => format!("job {one}"),
        _ => format!("enough of {}", some_of(holders)),
    }
}
