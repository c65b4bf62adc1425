//! How jobs end, in words.

use pinfold_policy::JobId;
use pinfold_proto::End;
use pinfold_proto::row::JobRow;
use pinfold_proto::wire::Reply;

/// Why a job ended that was cancelled and did not end by itself.
pub(crate) const KILLED: &str = "killed: it did not end within 10 s of being cancelled";
/// Why a job is over that ran when the host was restarted.
pub(crate) const RESTARTED: &str =
    "the host was restarted while it ran; hand it over again if it is still wanted";

/// Why one is that waited.
pub(crate) const RESTARTED_BEFORE: &str =
    "the host was restarted before it started; hand it over again if it is still wanted";

/// Why such a job is over, where the kernel did not tell how it ended.
pub(crate) const END_UNKNOWN: &str =
    "it ended; how is not known, for it was adopted, and only a parent is told the exit status";

/// Why one is over whose processes ended while it waited.
pub(crate) const ENDED_BEFORE: &str = "its processes ended before its turn came";

/// When a job ended, if its keeper says so: not before it began, and not later than now. One that ended long ago would be
/// struck off as too old.
pub(crate) fn plausible_end(row: &JobRow, told_us: u64, now_us: u64) -> u64 {
    told_us.min(now_us).max(row.started_us.unwrap_or(row.submitted_us))
}

/// Why a job ends that ran for too long.
fn timed_out(row: &JobRow) -> String {
    let most = crate::jobs::bounds::seconds(row.spec.terms.timeout_us.unwrap_or(0));
    format!("it ran for longer than its timeout of {most}")
}

/// Why a job ends that used too much CPU time.
fn used_up(row: &JobRow) -> String {
    let most = crate::jobs::bounds::seconds(row.spec.terms.cpu_limit_us.unwrap_or(0));
    format!("it used more CPU time than its limit of {most} (--cpu-limit)")
}

/// Why a job ends that has had its time; `None`: it has not.
pub(crate) fn at_limit(row: &JobRow) -> Option<String> {
    match row.end? {
        End::Timeout => Some(timed_out(row)),
        End::CpuLimit => Some(used_up(row)),
        End::Dependency | End::Cancelled => None,
    }
}

/// The code of such a cause.
pub(crate) fn limit_code(row: &JobRow) -> &'static str {
    match row.end {
        Some(End::CpuLimit) => "cpu_limit",
        Some(End::Timeout | End::Dependency | End::Cancelled) | None => "timeout",
    }
}

/// What there is to tell of a job whose command ended before all of its processes did.
pub(crate) fn lives_on(row: &JobRow) -> String {
    if let Some(killed) = row.reason.as_ref().filter(|reason| reason.starts_with("killed:")) {
        return killed.clone();
    }
    let how = match how_it_ended(row) {
        done if done == DONE => "its command ended with exit code 0".to_owned(),
        other => other,
    };
    format!("{how}; processes that it started live on")
}

/// What there is to tell of a job whose keeper is gone: one whose command ended has told how, and may go while processes
/// of the job live on.
pub(crate) fn without_keeper(row: &JobRow, unknown: String) -> String {
    if row.ending.is_some() { lives_on(row) } else { unknown }
}

/// What is said of a job that ended with exit code 0.
const DONE: &str = "done";

/// What is said of one that did so only once it was cancelled.
const DONE_CANCELLED: &str = "it was cancelled; its command ended with exit code 0";

/// How a job ended, in words, beside its status.
pub(crate) fn how_it_ended(row: &JobRow) -> String {
    if let Some(limit) = at_limit(row) {
        return limit;
    }
    let Some(ending) = row.ending else {
        let restarted = row.reason.as_deref().is_some_and(|reason| reason == RESTARTED);
        if row.spec.adopted.is_some() && row.started_us.is_some() && !restarted {
            return END_UNKNOWN.to_owned();
        }
        return row
            .reason
            .clone()
            .unwrap_or_else(|| "its keeper was killed; how it ended is not known".to_owned());
    };
    let cancelled = row.reason.as_deref().filter(|reason| reason.starts_with("killed:"));
    match (cancelled, ending.exit_code, ending.signal) {
        (Some(reason), ..) => reason.to_owned(),
        (_, Some(0), _) if row.end == Some(End::Cancelled) => DONE_CANCELLED.to_owned(),
        (_, Some(0), _) => DONE.to_owned(),
        (_, Some(code), _) => format!("its command ended with exit code {code}"),
        (_, _, Some(signal)) => {
            let name = pinfold_sys::signals::name(signal).map_or(signal.to_string(), str::to_owned);
            format!("its command was ended by signal {name}")
        }
        (_, None, None) => "its command ended".to_owned(),
    }
}

/// The reply that says a job's end is on disk.
pub(crate) fn recorded(job: JobId, row: Option<&JobRow>) -> Reply {
    Reply::Recorded {
        job: job.0,
        suspended_us: row.map_or(0, |row| row.suspended_us),
        memory_peak_bytes: row.map_or(0, |row| row.usage.memory_peak_bytes),
        // Older keepers know no other word.
        end: row.and_then(|row| row.end).filter(|end| end.is_limit()),
        cancelled: row.is_some_and(|row| row.end == Some(End::Cancelled)),
    }
}
