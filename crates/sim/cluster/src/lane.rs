//! Jobs of similar size in order of submission, with a search for the next job that may fit into a hole, without visiting
//! each.
//!
//! A complete binary tree over the places; each node holds the least number of processors, the least memory and the
//! shortest estimate below it. A search skips every subtree in which nothing can fit.

use crate::line::{Bounds, Least, Waiting};

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Lane {
    /// The tree, its root at 1; the places are the second half.
    least: Vec<Least>,
    places: Vec<Option<Waiting>>,
    /// The number in the whole queue of each present or past job here, ascending.
    numbers: Vec<u64>,
    /// The first place that may be taken.
    first: usize,
}

impl Lane {
    pub(crate) fn new() -> Self {
        Self::with_room(16)
    }

    fn with_room(room: usize) -> Self {
        let least = vec![Least::NONE; 2 * room];
        Self { least, places: vec![None; room], numbers: Vec::with_capacity(room), first: 0 }
    }

    /// The least request among its jobs.
    pub(crate) fn least(&self) -> Least {
        self.least[1]
    }

    /// Puts a job at the end.
    pub(crate) fn push(&mut self, number: u64, job: Waiting) {
        if self.numbers.len() == self.places.len() {
            self.make_room();
        }
        let place = self.numbers.len();
        self.numbers.push(number);
        self.places[place] = Some(job);
        self.update(place, Least::from(&job));
    }

    /// The first job, with its number and place.
    pub(crate) fn head(&mut self) -> Option<(u64, usize, Waiting)> {
        while self.first < self.numbers.len() {
            if let Some(job) = self.places[self.first] {
                return Some((self.numbers[self.first], self.first, job));
            }
            self.first += 1;
        }
        None
    }

    /// Removes a job; returns whether it was there.
    pub(crate) fn remove(&mut self, place: usize) -> bool {
        let was = self.places[place].take().is_some();
        if was {
            self.update(place, Least::NONE);
        }
        was
    }

    /// The first job behind the number `after` that may fit within these bounds, with its number and place.
    pub(crate) fn next_that_may_fit(&self, after: u64, bounds: &Bounds) -> Option<(u64, usize, Waiting)> {
        if !bounds.takes(self.least[1]) {
            return None;
        }
        let from = self.numbers.partition_point(|&number| number <= after);
        let place = self.search(1, 0, self.places.len(), from, bounds)?;
        self.places[place].map(|job| (self.numbers[place], place, job))
    }

    /// All jobs in order, with their numbers and places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, usize, Waiting)> {
        let taken = self.places.iter().zip(&self.numbers).enumerate().skip(self.first);
        taken.filter_map(|(place, (job, &number))| job.map(|job| (number, place, job)))
    }

    /// Searches the subtree of `node`, which stands for places `from` up to `until`, from place `first` on.
    fn search(&self, node: usize, from: usize, until: usize, first: usize, bounds: &Bounds) -> Option<usize> {
        if until <= first || !bounds.takes(self.least[node]) {
            return None;
        }
        if until - from == 1 {
            return Some(from);
        }
        let middle = usize::midpoint(from, until);
        self.search(2 * node, from, middle, first, bounds)
            .or_else(|| self.search(2 * node + 1, middle, until, first, bounds))
    }

    fn update(&mut self, place: usize, least: Least) {
        let mut node = self.places.len() + place;
        self.least[node] = least;
        while node > 1 {
            node /= 2;
            self.least[node] = self.least[2 * node].of_both(self.least[2 * node + 1]);
        }
    }

    /// Moves the waiting jobs to the front, with as much room behind them.
    fn make_room(&mut self) {
        let waiting: Vec<_> = self.iter().collect();
        *self = Self::with_room((2 * waiting.len()).next_power_of_two().max(16));
        waiting.into_iter().for_each(|(number, _, job)| self.push(number, job));
    }
}
