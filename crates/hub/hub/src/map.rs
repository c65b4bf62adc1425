//! The use of a host's cores within the viewer's access: other users' jobs appear without details, as by the host's own
//! daemon. Absent here: the drawing.

use std::collections::HashMap;

use pinfold_proto::view::{JobView, MapView};

use crate::hub::HostNow;
use crate::store::Access;

/// The last map of a host; `None`: the host sends no map.
#[must_use]
pub fn seen_by(host: &HostNow, access: &Access) -> Option<MapView> {
    let live = host.live.as_ref()?;
    let mut map = live.map.clone()?;
    map.host.clone_from(&host.name);
    // Each job is looked up once: a map may name many thousands of numbers.
    let allows = |job: &JobView| access.allows(&host.name, &job.user, job.project.as_deref());
    let jobs: HashMap<u64, (&JobView, bool)> =
        live.status.jobs.iter().map(|job| (job.job, (job, allows(job)))).collect();
    // The project of a job outside the status is unknown.
    let mine = |number: u64| jobs.get(&number).map_or_else(|| access.is_all(), |&(_, mine)| mine);
    for set in &mut map.sets {
        match set.job.filter(|&number| mine(number)) {
            Some(number) => set.pids = jobs.get(&number).map_or_else(Vec::new, |(job, _)| job.pids.clone()),
            None => {
                "job".clone_into(&mut set.set);
                (set.job, set.name, set.user, set.pids) = (None, None, None, Vec::new());
            }
        }
    }
    map.set_asides.iter_mut().for_each(|set| set.jobs.retain(|&number| mine(number)));
    map.chunks.iter_mut().for_each(|chunk| chunk.jobs.retain(|&number| mine(number)));
    for resource in &mut map.resources {
        resource.jobs.retain(|&number| mine(number));
        resource.devices.iter_mut().for_each(|device| device.job = device.job.filter(|&number| mine(number)));
    }
    Some(map)
}
