//! Fits a host's state into a message: a hub refuses longer messages, and the host would seem absent. Absent here:
//! the time of sending.

use pinfold_proto::JobState;
use pinfold_proto::view::{MapView, StatusView};

use crate::bundle::{self, LIVE_JOBS_MAX, LIVE_MAX_BYTES, Live, PACKED_MAX_BYTES, Part, SETS_MAX};
use crate::series::Thinned;
use crate::source::Source;

/// Packs the state. If too long, drops jobs that have not started or started last, and then the cores.
pub(crate) fn pack(live: &mut Live) -> Result<Vec<u8>, serde_json::Error> {
    let (jobs, warnings) = (live.status.jobs.len(), live.status.warnings.len());
    let mut most = LIVE_JOBS_MAX;
    loop {
        keep_first(&mut live.status, most);
        let told = live.status.jobs.len();
        live.status.warnings.truncate(warnings);
        if told < jobs {
            let words = format!("{} more jobs are not told to the hub: it is told of {told}", jobs - told);
            live.status.warnings.push(words);
        }
        let (packed, plain_bytes) = bundle::pack_measured(live)?;
        let fits = packed.len() <= PACKED_MAX_BYTES && plain_bytes <= LIVE_MAX_BYTES;
        if !fits && !live.asked.is_empty() {
            live.asked.clear();
            continue;
        }
        // Without jobs and cores no further cut is possible: the hub reports the fault.
        if fits || (told == 0 && live.map.take().is_none()) {
            return Ok(packed);
        }
        most = told / 2;
    }
}

/// The most points and decisions in the report of a living job.
const RUNNING_POINTS: usize = 1_000;
const RUNNING_ACTS: usize = 200;

/// The report of a living job; `None`: the job has ended, or the daemon does not answer.
pub(crate) fn running(source: &mut dyn Source, job: u64) -> Option<Part> {
    let (mut report, mut acts) = source.job(job).ok()??;
    if report.state == JobState::Exited {
        return None;
    }
    let mut series = Thinned::within(RUNNING_POINTS);
    report.series.take().into_iter().flatten().for_each(|point| series.push(point));
    report.series = Some(series.into_points());
    acts.drain(..acts.len().saturating_sub(RUNNING_ACTS));
    bundle::parts(report, acts).into_iter().next()
}

/// Keeps at most `most` jobs: started jobs first.
fn keep_first(status: &mut StatusView, most: usize) {
    if status.jobs.len() > most {
        status.jobs.sort_by_key(|job| (job.started_s.is_none(), job.job));
        status.jobs.truncate(most);
        status.jobs.sort_by_key(|job| job.job);
    }
}

/// The map without data of the status, and with a bounded number of sets.
pub(crate) fn bounded_map(mut map: MapView) -> MapView {
    map.sets.truncate(LIVE_JOBS_MAX);
    map.sets.iter_mut().for_each(|set| set.pids.clear());
    map.set_asides.truncate(SETS_MAX);
    map.chunks.truncate(SETS_MAX);
    map.resources.truncate(SETS_MAX);
    map
}
