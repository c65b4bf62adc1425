//! The queue in order of submission, and the next job of it that fits into a hole, found without looking at each.
//!
//! A complete binary tree over the places of the queue; each node holds the least number of processors and the
//! shortest estimate below it. A search leaves out every subtree in which nothing can fit.

use crate::Seconds;

/// What a job of the queue asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Its place in the list of jobs.
    pub index: usize,
    /// Processors.
    pub processors: u32,
    /// How long it is believed to take.
    pub estimate_s: Seconds,
}

/// Processors that are free for some time, and fewer of them for as long as one likes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hole {
    /// Free now.
    pub free: u32,
    /// For how long all of them are.
    pub window_s: Seconds,
    /// How many of them are free beyond that.
    pub beyond: u32,
}

impl Hole {
    /// Whether something with these least figures may fit; for a single job, whether it does.
    fn takes(&self, processors: u32, estimate_s: Seconds) -> bool {
        processors <= self.free && (estimate_s <= self.window_s || processors <= self.beyond)
    }
}

/// An empty place.
const NONE: (u32, Seconds) = (u32::MAX, Seconds::MAX);

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Line {
    /// The tree, its root at 1; the places are the second half.
    least: Vec<(u32, Seconds)>,
    places: Vec<Option<Waiting>>,
    /// The first place that may be taken, and the first that was never taken.
    first: usize,
    next: usize,
    length: usize,
}

impl Line {
    pub(crate) fn new() -> Self {
        Self::with_room(64)
    }

    fn with_room(room: usize) -> Self {
        Self { least: vec![NONE; 2 * room], places: vec![None; room], first: 0, next: 0, length: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Puts a job at the end.
    pub(crate) fn push(&mut self, job: Waiting) {
        if self.next == self.places.len() {
            self.make_room();
        }
        let place = self.next;
        self.next += 1;
        self.length += 1;
        self.places[place] = Some(job);
        self.update(place, (job.processors, job.estimate_s));
    }

    /// The first job, with its place.
    pub(crate) fn head(&mut self) -> Option<(usize, Waiting)> {
        while self.first < self.next {
            if let Some(job) = self.places[self.first] {
                return Some((self.first, job));
            }
            self.first += 1;
        }
        None
    }

    /// Takes a job out.
    pub(crate) fn remove(&mut self, place: usize) {
        if self.places[place].take().is_some() {
            self.length -= 1;
            self.update(place, NONE);
        }
    }

    /// The first job behind `after` that fits into the hole, with its place.
    pub(crate) fn next_that_fits(&self, after: usize, hole: &Hole) -> Option<(usize, Waiting)> {
        let place = self.search(1, 0, self.places.len(), after + 1, hole)?;
        self.places[place].map(|job| (place, job))
    }

    /// All jobs in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, Waiting)> {
        let taken = self.places[..self.next].iter().enumerate().skip(self.first);
        taken.filter_map(|(place, job)| job.map(|job| (place, job)))
    }

    /// Searches the subtree of `node`, which stands for places `from` up to `until`, from place `after` on.
    fn search(&self, node: usize, from: usize, until: usize, after: usize, hole: &Hole) -> Option<usize> {
        let (processors, estimate_s) = self.least[node];
        if until <= after || !hole.takes(processors, estimate_s) {
            return None;
        }
        if until - from == 1 {
            return Some(from);
        }
        let middle = usize::midpoint(from, until);
        self.search(2 * node, from, middle, after, hole)
            .or_else(|| self.search(2 * node + 1, middle, until, after, hole))
    }

    fn update(&mut self, place: usize, figures: (u32, Seconds)) {
        let mut node = self.places.len() + place;
        self.least[node] = figures;
        while node > 1 {
            node /= 2;
            let (left, right) = (self.least[2 * node], self.least[2 * node + 1]);
            self.least[node] = (left.0.min(right.0), left.1.min(right.1));
        }
    }

    /// Moves what waits to the front, with as much room behind it.
    fn make_room(&mut self) {
        let waiting: Vec<Waiting> = self.iter().map(|(_, job)| job).collect();
        *self = Self::with_room((2 * waiting.len()).next_power_of_two().max(64));
        waiting.into_iter().for_each(|job| self.push(job));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The same as looking at each job.
        #[test]
        fn finds_what_a_walk_finds(
            jobs in prop::collection::vec((1u32..9, 1u64..9, any::<bool>()), 1..200),
            (free, window_s, beyond) in (0u32..9, 0u64..9, 0u32..9),
            after in 0usize..200,
        ) {
            let mut line = Line::new();
            for (index, &(processors, estimate_s, _)) in jobs.iter().enumerate() {
                line.push(Waiting { index, processors, estimate_s });
            }
            let places: Vec<usize> = line.iter().map(|(place, _)| place).collect();
            for (&place, &(.., gone)) in places.iter().zip(&jobs) {
                if gone {
                    line.remove(place);
                }
            }
            let hole = Hole { free, window_s, beyond };
            let fits = |job: &Waiting| hole.takes(job.processors, job.estimate_s);
            let walked = line.iter().find(|(place, job)| *place > after && fits(job));
            prop_assert_eq!(line.next_that_fits(after, &hole), walked);
            prop_assert_eq!(line.head(), line.iter().next());
        }
    }
}
