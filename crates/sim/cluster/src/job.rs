//! A job as a dispatcher sees it, and which jobs of a list are played.

use crate::fleet::Fleet;
use crate::swf::Record;
use crate::{Micros, SECOND};

/// The part of its run over which a job grows to its peak, in thousandths, by default.
///
/// Source: the toy model of the memory governor (`pinfold_sim::pressure::toy`), a third.
pub const RAMP_MILLI: u16 = 333;

/// A job of a simulated cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Its number in the list.
    pub number: u64,
    /// The time of submission.
    pub submit_us: Micros,
    /// The run time on processors of its own, above 0.
    pub run_us: Micros,
    /// The run time that its user asks for, at least `run_us`.
    pub requested_us: Micros,
    /// Processors that it takes, above 0.
    pub processors: u32,
    /// The part of the time in which each of them computes, in thousandths: 1 to 1000.
    pub busy_milli: u16,
    /// Memory that the dispatcher keeps free for it, in bytes for each processor; 0: no request.
    pub memory: u64,
    /// Its peak of memory, in bytes for each processor; 0: unknown.
    pub memory_peak: u64,
    /// The part of its run, in thousandths, over which it grows to the peak: 1 to 1000.
    pub ramp_milli: u16,
    /// The part of that time in which each processor computes, in thousandths: 1 to 1000; `None`: as over all of its run.
    pub ramp_busy_milli: Option<u16>,
    /// Its disk reads and writes in a second of its run, in bytes for each processor; 0: unknown.
    pub io_rate: u64,
    /// Its user's number in the list.
    pub user: u64,
    /// Its program: jobs of the same user and program are alike; 0: unknown.
    pub program: u64,
    /// The number of its list, a batch or an array; 0: a single job.
    pub list: u32,
    /// The number of earlier runs, from which its hosts know its peak.
    pub runs_before: u16,
}

impl Default for Job {
    /// A job of a second on one processor.
    fn default() -> Self {
        Self {
            number: 0,
            submit_us: 0,
            run_us: SECOND,
            requested_us: SECOND,
            processors: 1,
            busy_milli: 1000,
            memory: 0,
            memory_peak: 0,
            ramp_milli: RAMP_MILLI,
            ramp_busy_milli: None,
            io_rate: 0,
            user: 0,
            program: 0,
            list: 0,
            runs_before: 0,
        }
    }
}

impl Job {
    /// The part of the time in which each processor computes once it has grown, in thousandths.
    #[must_use]
    pub fn grown_busy_milli(&self) -> u16 {
        let Some(ramp_busy) = self.ramp_busy_milli else { return self.busy_milli };
        let ramp = u32::from(self.ramp_milli.min(1000));
        let left = (u32::from(self.busy_milli) * 1000).saturating_sub(u32::from(ramp_busy) * ramp);
        let busy = left.checked_div(1000 - ramp).unwrap_or(1000);
        u16::try_from(busy.clamp(1, 1000)).unwrap_or(1000)
    }

    /// The memory that the dispatcher keeps free for this many of its processors, in bytes.
    #[must_use]
    pub fn memory_of(&self, processors: u32) -> u64 {
        self.memory.saturating_mul(processors.into())
    }
}

/// A run time, request or time of submission beyond this, some 1,000 years in seconds, is an error of the list.
pub const LONGEST_S: u64 = 32_000_000_000;

/// Why a line of a list is not played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unfit {
    TooWide,
    NoProcessors,
    NoRunTime,
    NoRequest,
    NoSubmission,
    TooLong,
    TooLarge,
}

/// The numbers of lines of a list that are not played, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// More processors than the machine has.
    pub too_wide: u64,
    /// No number of processors.
    pub no_processors: u64,
    /// No run time, or 0.
    pub no_run_time: u64,
    /// No requested run time, or 0.
    pub no_request: u64,
    /// No time of submission.
    pub no_submission: u64,
    /// A time beyond [`LONGEST_S`].
    pub too_long: u64,
    /// More memory than the hosts have for it.
    pub too_large: u64,
}

impl Dropped {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.too_wide
            + self.no_processors
            + self.no_run_time
            + self.no_request
            + self.no_submission
            + self.too_long
            + self.too_large
    }

    /// Checks whether a job can be played on these hosts, and counts a job that cannot.
    pub fn check(&mut self, fleet: &Fleet, job: &Job) -> bool {
        let longest_us = LONGEST_S * SECOND;
        let why = if u64::from(job.processors) > fleet.all_cores() {
            Unfit::TooWide
        } else if job.processors == 0 {
            Unfit::NoProcessors
        } else if job.run_us == 0 {
            Unfit::NoRunTime
        } else if job.requested_us.max(job.submit_us) > longest_us {
            Unfit::TooLong
        } else if fleet.room(job) < job.processors {
            Unfit::TooLarge
        } else {
            return true;
        };
        self.count(why);
        false
    }

    fn count(&mut self, why: Unfit) {
        let count = match why {
            Unfit::TooWide => &mut self.too_wide,
            Unfit::NoProcessors => &mut self.no_processors,
            Unfit::NoRunTime => &mut self.no_run_time,
            Unfit::NoRequest => &mut self.no_request,
            Unfit::NoSubmission => &mut self.no_submission,
            Unfit::TooLong => &mut self.too_long,
            Unfit::TooLarge => &mut self.too_large,
        };
        *count += 1;
    }
}

/// Jobs of a list that are played on a cluster, in order of submission.
///
/// The filter is the strong filter of Gaussier, Glesser, Reis and Trystram, "Improving backfilling by using machine
/// learning to predict running times", SC'15. In this order: a job wider than the machine is dropped. If only the allocated
/// or the requested number of processors is known, it stands for both; a job without either is dropped, as is a job without
/// a run time or a request. A job that ran beyond its request ends at its request, as if it was killed there. A job without
/// a time of submission is dropped. Added here: so is a job with a time beyond [`LONGEST_S`], and a job that needs more
/// memory than the hosts have for it.
#[derive(Debug)]
pub struct Filter {
    fleet: Fleet,
    jobs: Vec<Job>,
    dropped: Dropped,
}

impl Filter {
    /// For a cluster of these hosts.
    #[must_use]
    pub fn new(fleet: Fleet) -> Self {
        Self { fleet, jobs: Vec::new(), dropped: Dropped::default() }
    }

    /// Takes a line of a log in.
    pub fn take(&mut self, record: &Record) {
        match self.job(record) {
            Ok(job) => self.jobs.push(job),
            Err(why) => self.dropped.count(why),
        }
    }

    /// The jobs in order of submission, at equal times in the order of the list; and the counts of dropped jobs.
    #[must_use]
    pub fn finish(mut self) -> (Vec<Job>, Dropped) {
        self.jobs.sort_by_key(|job| job.submit_us);
        self.jobs.shrink_to_fit();
        (self.jobs, self.dropped)
    }

    fn job(&self, record: &Record) -> Result<Job, Unfit> {
        let known = |value: Option<u64>| value.filter(|&value| value > 0);
        let (allocated, requested) = (known(record.allocated), known(record.requested));
        if allocated.max(requested).is_some_and(|most| most > self.fleet.all_cores()) {
            return Err(Unfit::TooWide);
        }
        let processors = requested.or(allocated).and_then(|count| u32::try_from(count).ok());
        let processors = processors.ok_or(Unfit::NoProcessors)?;
        let run_s = known(record.run_s).ok_or(Unfit::NoRunTime)?;
        let requested_s = known(record.requested_s).ok_or(Unfit::NoRequest)?;
        // Its user would have had it killed at the limit.
        let run_s = run_s.min(requested_s);
        let submit_s = record.submit_s.ok_or(Unfit::NoSubmission)?;
        if requested_s.max(submit_s) > LONGEST_S {
            return Err(Unfit::TooLong);
        }
        // No job computes longer than it runs; some machines that did not count wrote 0.
        let busy = known(record.cpu_s).map_or(1000, |cpu_s| (cpu_s.min(run_s) * 1000).div_ceil(run_s));
        let bytes = |kib: Option<u64>| known(kib).map(|kib| kib.saturating_mul(1024));
        let peak = bytes(record.memory_used_kib);
        let job = Job {
            number: record.job,
            submit_us: submit_s * SECOND,
            run_us: run_s * SECOND,
            requested_us: requested_s * SECOND,
            processors,
            busy_milli: u16::try_from(busy.clamp(1, 1000)).unwrap_or(1000),
            memory: bytes(record.memory_requested_kib).or(peak).unwrap_or(0),
            memory_peak: peak.unwrap_or(0),
            ramp_milli: RAMP_MILLI,
            ramp_busy_milli: None,
            io_rate: 0,
            user: record.user.unwrap_or(u64::MAX),
            program: record.program.unwrap_or(0),
            list: 0,
            runs_before: 0,
        };
        if self.fleet.room(&job) < processors { Err(Unfit::TooLarge) } else { Ok(job) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            job: 1,
            submit_s: Some(5),
            run_s: Some(60),
            requested: Some(8),
            requested_s: Some(90),
            ..Record::default()
        }
    }

    #[track_caller]
    fn check(record: Record, want: Result<(u64, u32), Unfit>) {
        let got = Filter::new(Fleet::pool(16)).job(&record);
        let got = got.map(|job| (job.run_us / SECOND, job.processors));
        assert_eq!(got, want, "{record:?}");
    }

    #[test]
    fn which_jobs_are_played() {
        check(record(), Ok((60, 8)));
        check(Record { allocated: Some(17), ..record() }, Err(Unfit::TooWide));
        check(Record { requested: Some(u64::MAX), ..record() }, Err(Unfit::TooWide));
        check(Record { requested: None, allocated: Some(4), ..record() }, Ok((60, 4)));
        check(Record { requested: Some(0), allocated: None, ..record() }, Err(Unfit::NoProcessors));
        check(Record { run_s: Some(0), ..record() }, Err(Unfit::NoRunTime));
        check(Record { requested_s: None, ..record() }, Err(Unfit::NoRequest));
        check(Record { requested_s: Some(30), ..record() }, Ok((30, 8)));
        check(Record { submit_s: None, ..record() }, Err(Unfit::NoSubmission));
        check(Record { submit_s: Some(u64::MAX), ..record() }, Err(Unfit::TooLong));
        check(Record { requested_s: Some(u64::MAX), ..record() }, Err(Unfit::TooLong));
    }

    #[track_caller]
    fn check_memory(asked_kib: u64, used_kib: u64, want: Result<(u64, u64), Unfit>) {
        let fleet = Fleet { hosts: 4, cores: 4, slots: 4, memory: Some(8 << 20), job_memory: u64::MAX };
        let memory =
            Record { memory_requested_kib: Some(asked_kib), memory_used_kib: Some(used_kib), ..record() };
        let got = Filter::new(fleet).job(&memory).map(|job| (job.memory >> 10, job.memory_peak >> 10));
        assert_eq!(got, want);
    }

    #[test]
    fn memory_requests_of_a_record_are_read_and_bounded() {
        check_memory(0, 0, Ok((0, 0)));
        check_memory(100, 50, Ok((100, 50)));
        check_memory(0, 50, Ok((50, 50)));
        check_memory(4096, 0, Ok((4096, 0)));
        check_memory(4097, 0, Err(Unfit::TooLarge));
        check_memory(u64::MAX, 0, Err(Unfit::TooLarge));
    }

    #[test]
    fn how_busy_a_job_is() {
        let busy =
            |cpu_s| Filter::new(Fleet::pool(16)).job(&Record { cpu_s, ..record() }).unwrap().busy_milli;
        assert_eq!([None, Some(0), Some(15), Some(60), Some(999)].map(busy), [1000, 1000, 250, 1000, 1000]);
    }

    #[test]
    fn in_order_of_submission() {
        let mut filter = Filter::new(Fleet::pool(16));
        for (job, submit_s) in [(1, Some(9)), (2, Some(3)), (3, Some(9)), (4, None)] {
            filter.take(&Record { job, submit_s, ..record() });
        }
        let (jobs, dropped) = filter.finish();
        assert_eq!(jobs.iter().map(|job| job.number).collect::<Vec<_>>(), [2, 1, 3]);
        assert_eq!((dropped.total(), dropped.no_submission), (1, 1));
    }
}
