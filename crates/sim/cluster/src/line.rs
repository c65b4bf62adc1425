//! The queue in order of submission, and the next job of it that may fit into a hole.
//!
//! Jobs of similar size stand in a [`Lane`] of their own. In a tree over all of them a search would visit nearly each job
//! of a long queue: below most nodes one job is narrow enough and another short enough, but none is both.

use std::collections::BTreeMap;

use crate::Micros;
use crate::lane::Lane;

/// The request of a queued job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Its place in the list of jobs.
    pub index: usize,
    pub processors: u32,
    /// Memory for each of them, in bytes.
    pub memory: u64,
    /// The estimated run time.
    pub estimate_us: Micros,
    /// Whether it has to lie on a single host.
    pub on_one_host: bool,
}

/// The least request of a job, or of a subtree's jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Least {
    pub processors: u32,
    pub memory: u64,
    pub estimate_us: Micros,
}

impl Least {
    /// An empty place.
    pub(crate) const NONE: Self = Self { processors: u32::MAX, memory: u64::MAX, estimate_us: Micros::MAX };

    pub(crate) fn of_both(self, other: Self) -> Self {
        Self {
            processors: self.processors.min(other.processors),
            memory: self.memory.min(other.memory),
            estimate_us: self.estimate_us.min(other.estimate_us),
        }
    }
}

impl From<&Waiting> for Least {
    fn from(job: &Waiting) -> Self {
        Self { processors: job.processors, memory: job.memory, estimate_us: job.estimate_us }
    }
}

/// The upper bound on requests of a lane's jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Most {
    pub processors: u32,
    pub memory: u64,
}

/// The free room beside a reservation, for jobs of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bounds {
    pub window_us: Micros,
    /// For jobs that end within the window,
    pub in_time: Most,
    /// and for jobs that outlive it.
    pub outliving: Most,
}

impl Bounds {
    /// Whether something with these least figures may fit.
    pub(crate) fn takes(&self, least: Least) -> bool {
        let most = if least.estimate_us <= self.window_us { self.in_time } else { self.outliving };
        least.processors <= most.processors && least.memory <= most.memory
    }
}

/// Free processors: the most on any host, and on all together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Free {
    pub one: u32,
    pub all: u32,
}

/// The free room beside a reservation. It shows only whether a job may fit; the search for a host follows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hole {
    /// The time until the reservation.
    pub window_us: Micros,
    /// For jobs that end before it,
    pub in_time: Free,
    /// and for jobs that outlive it.
    pub outliving: Free,
    /// The most free memory on any host.
    pub memory: u64,
    /// Jobs that found no host in this pass, and whether they would have been in time.
    pub failed: Vec<(Waiting, bool)>,
}

impl Hole {
    /// The free room for jobs of a lane with these least requests. During a pass free room only shrinks: a job finds no
    /// host if a job with no larger requests found none.
    fn bounds(&self, on_one_host: bool, least: Least) -> Bounds {
        let most = |free: Free| Most {
            processors: if on_one_host { free.one } else { free.all },
            memory: self.memory,
        };
        let mut bounds = Bounds {
            window_us: self.window_us,
            in_time: most(self.in_time),
            outliving: most(self.outliving),
        };
        for (job, in_time) in self.failed.iter().filter(|(job, _)| job.on_one_host == on_one_host) {
            let below = |most: &mut Most| {
                if job.memory <= least.memory {
                    most.processors = most.processors.min(job.processors - 1);
                } else if job.processors <= least.processors {
                    most.memory = most.memory.min(job.memory - 1);
                }
            };
            below(&mut bounds.outliving);
            if *in_time {
                below(&mut bounds.in_time);
            }
        }
        bounds
    }
}

/// The place of a job in the queue, valid until the next insertion; ordered as the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    number: u64,
    lane: Size,
    at: usize,
}

/// Whether its jobs have to lie on a single host, their approximate number of processors, and their memory for each.
type Size = (bool, u32, u32);

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Line {
    lanes: BTreeMap<Size, Lane>,
    next: u64,
    length: usize,
}

impl Line {
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Puts a job at the end.
    pub(crate) fn push(&mut self, job: Waiting) {
        let size = (job.on_one_host, about(job.processors.into()), about(job.memory));
        self.next += 1;
        self.length += 1;
        self.lanes.entry(size).or_insert_with(Lane::new).push(self.next, job);
    }

    /// The first job, with its place.
    pub(crate) fn head(&mut self) -> Option<(Place, Waiting)> {
        let heads = self.lanes.iter_mut().filter_map(|(&size, lane)| Some(placed(size, lane.head()?)));
        heads.min_by_key(|&(place, _)| place)
    }

    /// Takes a job out.
    pub(crate) fn remove(&mut self, place: Place) {
        if self.lanes.get_mut(&place.lane).is_some_and(|lane| lane.remove(place.at)) {
            self.length -= 1;
        }
    }

    /// The first job behind `after` that may fit into the hole, with its place.
    pub(crate) fn next_that_may_fit(&self, after: Place, hole: &Hole) -> Option<(Place, Waiting)> {
        let next = |(&size, lane): (&Size, &Lane)| {
            let bounds = hole.bounds(size.0, lane.least());
            Some(placed(size, lane.next_that_may_fit(after.number, &bounds)?))
        };
        self.lanes.iter().filter_map(next).min_by_key(|&(place, _)| place)
    }

    /// All jobs in order.
    pub(crate) fn all(&self) -> Vec<(Place, Waiting)> {
        let of = |(&size, lane): (&Size, &'_ Lane)| {
            lane.iter().map(move |one| placed(size, one)).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = self.lanes.iter().flat_map(of).collect();
        all.sort_unstable_by_key(|&(place, _)| place);
        all
    }
}

fn placed(lane: Size, (number, at, job): (u64, usize, Waiting)) -> (Place, Waiting) {
    (Place { number, lane, at }, job)
}

/// A number in about its size: four steps for each doubling, and each number up to 8 by itself.
fn about(number: u64) -> u32 {
    let doublings = number.checked_ilog2().unwrap_or(0);
    let quarter = if doublings < 2 { number } else { number >> (doublings - 2) };
    4 * doublings + u32::try_from(quarter % 8).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn most()(processors in 0u32..9, memory in 0u64..4) -> Most {
            Most { processors, memory }
        }
    }

    proptest! {
        /// The same as looking at each job.
        #[test]
        fn finds_what_a_walk_finds(
            jobs in prop::collection::vec((1u32..9, 0u64..4, 1u64..9, any::<(bool, bool)>()), 1..200),
            (window_us, memory) in (0u64..9, 0u64..4),
            ((in_one, in_all), (out_one, out_all)) in ((0u32..9, 0u32..9), (0u32..9, 0u32..9)),
            after in 0usize..200,
        ) {
            let mut line = Line::default();
            for (index, &(processors, memory, estimate_us, (on_one_host, _))) in jobs.iter().enumerate() {
                line.push(Waiting { index, processors, memory, estimate_us, on_one_host });
            }
            let places: Vec<Place> = line.all().into_iter().map(|(place, _)| place).collect();
            prop_assert!(line.all().iter().map(|(_, job)| job.index).eq(0..jobs.len()));
            let after = places[after % places.len()];
            for (&place, &(.., (_, gone))) in places.iter().zip(&jobs) {
                if gone {
                    line.remove(place);
                }
            }
            let outliving = Free { one: out_one.min(in_one), all: out_all.min(in_all) };
            let in_time = Free { one: in_one, all: in_all };
            let hole = Hole { window_us, in_time, outliving, memory, failed: Vec::new() };
            let may_fit = |job: &Waiting| hole.bounds(job.on_one_host, Least::from(job)).takes(Least::from(job));
            let walked = line.all().into_iter().find(|(place, job)| *place > after && may_fit(job));
            prop_assert_eq!(line.next_that_may_fit(after, &hole), walked);
            prop_assert_eq!(line.head(), line.all().first().copied());
        }

        /// A job that is left out for another's failure asks for at least as much of everything.
        #[test]
        fn jobs_that_ask_for_less_than_one_that_failed_may_fit(
            (failed, least, asks) in (most(), most(), most()),
        ) {
            prop_assume!(failed.processors > 0);
            prop_assume!(least.processors <= asks.processors && least.memory <= asks.memory);
            let waiting = |most: Most| Waiting {
                index: 0,
                processors: most.processors,
                memory: most.memory,
                estimate_us: 5,
                on_one_host: true,
            };
            let free = Free { one: 8, all: 8 };
            let failed_one = vec![(waiting(failed), true)];
            let hole =
                Hole { window_us: 9, in_time: free, outliving: free, memory: 4, failed: failed_one };
            let takes = hole.bounds(true, Least::from(&waiting(least))).takes(Least::from(&waiting(asks)));
            let dominates = asks.processors >= failed.processors && asks.memory >= failed.memory;
            prop_assert!(takes || dominates);
        }
    }

    #[test]
    fn sizes_that_are_about_alike() {
        assert_eq!((0..=8).map(about).collect::<Vec<_>>(), [0, 1, 6, 7, 12, 13, 14, 15, 16]);
        assert_eq!([9, 10, 11, 12, 15, 16, u64::MAX].map(about), [16, 17, 17, 18, 19, 20, 259]);
    }
}
