//! A job as a dispatcher sees it, and which jobs of a log are played.

use crate::Seconds;
use crate::swf::Record;

/// A job of a simulated cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Its number in the log.
    pub number: u64,
    /// When it is submitted.
    pub submit_s: Seconds,
    /// How long it runs, above 0.
    pub run_s: Seconds,
    /// The run time that its user asks for, at least `run_s`.
    pub requested_s: Seconds,
    /// Processors that it takes, above 0.
    pub processors: u32,
    /// Its user's number in the log.
    pub user: u64,
}

/// Why a line of a log is not played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unfit {
    TooWide,
    NoProcessors,
    NoRunTime,
    NoRequest,
    NoSubmission,
}

/// How many lines of a log are not played, by why.
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
}

impl Dropped {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.too_wide + self.no_processors + self.no_run_time + self.no_request + self.no_submission
    }

    fn count(&mut self, why: Unfit) {
        let count = match why {
            Unfit::TooWide => &mut self.too_wide,
            Unfit::NoProcessors => &mut self.no_processors,
            Unfit::NoRunTime => &mut self.no_run_time,
            Unfit::NoRequest => &mut self.no_request,
            Unfit::NoSubmission => &mut self.no_submission,
        };
        *count += 1;
    }
}

/// Jobs of a log that are played on a machine of so many processors, in order of submission.
///
/// The filter is the strong one of Gaussier, Glesser, Reis and Trystram, "Improving backfilling by using machine
/// learning to predict running times", SC'15. In this order: a job wider than the machine is dropped. Where one of
/// the two numbers of processors is known, it stands for both; a job without any is dropped, as is one without a run
/// time or a request. A job that ran beyond its request ends at its request, as if it was killed there. A job without a time
/// of submission is dropped.
#[derive(Debug, Default)]
pub struct Filter {
    processors: u64,
    jobs: Vec<Job>,
    dropped: Dropped,
}

impl Filter {
    /// For a machine of so many processors.
    #[must_use]
    pub fn new(processors: u32) -> Self {
        Self { processors: processors.into(), ..Self::default() }
    }

    /// Takes a line of the log in.
    pub fn take(&mut self, record: &Record) {
        match self.job(record) {
            Ok(job) => self.jobs.push(job),
            Err(why) => self.dropped.count(why),
        }
    }

    /// The jobs in order of submission, those of one second in the order of the log; and what was dropped.
    #[must_use]
    pub fn finish(mut self) -> (Vec<Job>, Dropped) {
        self.jobs.sort_by_key(|job| job.submit_s);
        (self.jobs, self.dropped)
    }

    fn job(&self, record: &Record) -> Result<Job, Unfit> {
        let known = |value: Option<u64>| value.filter(|&value| value > 0);
        let (allocated, requested) = (known(record.allocated), known(record.requested));
        if allocated.max(requested).is_some_and(|most| most > self.processors) {
            return Err(Unfit::TooWide);
        }
        let processors = requested.or(allocated).and_then(|count| u32::try_from(count).ok());
        let processors = processors.ok_or(Unfit::NoProcessors)?;
        let run_s = known(record.run_s).ok_or(Unfit::NoRunTime)?;
        let requested_s = known(record.requested_s).ok_or(Unfit::NoRequest)?;
        // Its user would have had it killed at the limit.
        let run_s = run_s.min(requested_s);
        let submit_s = record.submit_s.ok_or(Unfit::NoSubmission)?;
        let user = record.user.unwrap_or(u64::MAX);
        Ok(Job { number: record.job, submit_s, run_s, requested_s, processors, user })
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
    fn check(record: Record, want: Result<(Seconds, u32), Unfit>) {
        let got = Filter::new(16).job(&record).map(|job| (job.run_s, job.processors));
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
    }

    #[test]
    fn in_order_of_submission() {
        let mut filter = Filter::new(16);
        for (job, submit_s) in [(1, Some(9)), (2, Some(3)), (3, Some(9)), (4, None)] {
            filter.take(&Record { job, submit_s, ..record() });
        }
        let (jobs, dropped) = filter.finish();
        assert_eq!(jobs.iter().map(|job| job.number).collect::<Vec<_>>(), [2, 1, 3]);
        assert_eq!((dropped.total(), dropped.no_submission), (1, 1));
    }
}
