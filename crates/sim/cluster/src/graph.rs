//! Jobs that may start only after others have ended.

/// Dependencies among jobs, by their places in the list. A job without any starts as soon as it may.
///
/// Places beyond the list of jobs are barriers: a barrier is over as soon as everything before it is over. A barrier
/// between two layers of jobs needs as many edges as both layers have jobs, instead of an edge for each pair.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Graph {
    /// For how many others each job waits; empty where none does.
    waits_for: Vec<u32>,
    followers: Vec<Vec<usize>>,
}

/// Jobs that wait for each other in a circle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("jobs wait for each other in a circle: {members:?}")]
pub struct Cycle {
    /// Their places in the list, each waits for the next, and the last for the first.
    pub members: Vec<usize>,
}

impl Graph {
    /// `after[i]` are the jobs and barriers that have to be over before job `i` starts, or barrier `i` is over; duplicates
    /// count once.
    ///
    /// # Errors
    /// Jobs wait for each other in a circle.
    ///
    /// # Panics
    /// A place is beyond the list.
    pub fn new(mut after: Vec<Vec<usize>>) -> Result<Self, Cycle> {
        let mut followers = vec![Vec::new(); after.len()];
        let mut waits_for = Vec::with_capacity(after.len());
        for (job, before) in after.iter_mut().enumerate() {
            before.sort_unstable();
            before.dedup();
            waits_for.push(u32::try_from(before.len()).unwrap_or(u32::MAX));
            before.iter().for_each(|&other| followers[other].push(job));
        }
        let graph = Self { waits_for, followers };
        match graph.never_free() {
            Some(stuck) => Err(cycle(&after, &stuck)),
            None => Ok(graph),
        }
    }

    /// The number of edges, which determines the cost of storing and walking the graph.
    #[must_use]
    pub fn edges(&self) -> usize {
        self.followers.iter().map(Vec::len).sum()
    }

    /// The number of predecessors of each job, in the order of the list, then of each barrier.
    pub(crate) fn waits_for(&self, jobs: usize) -> Vec<u32> {
        if self.waits_for.is_empty() { vec![0; jobs] } else { self.waits_for.clone() }
    }

    /// The jobs and barriers that wait for this one.
    pub(crate) fn followers(&self, job: usize) -> &[usize] {
        self.followers.get(job).map_or(&[], Vec::as_slice)
    }

    /// The jobs that never become free, if any.
    fn never_free(&self) -> Option<Vec<bool>> {
        let mut waits_for = self.waits_for.clone();
        let mut free: Vec<usize> = (0..waits_for.len()).filter(|&job| waits_for[job] == 0).collect();
        let mut count = 0;
        while let Some(job) = free.pop() {
            count += 1;
            for &follower in &self.followers[job] {
                waits_for[follower] -= 1;
                if waits_for[follower] == 0 {
                    free.push(follower);
                }
            }
        }
        (count < waits_for.len()).then(|| waits_for.iter().map(|&count| count > 0).collect())
    }
}

/// A cycle among the stuck jobs.
fn cycle(after: &[Vec<usize>], stuck: &[bool]) -> Cycle {
    let mut way: Vec<usize> = stuck.iter().position(|&stuck| stuck).into_iter().collect();
    let mut place = vec![None; after.len()];
    while let Some(&job) = way.last() {
        if let Some(first) = place[job] {
            way.pop();
            return Cycle { members: way.split_off(first) };
        }
        place[job] = Some(way.len() - 1);
        way.extend(after[job].iter().find(|&&other| stuck[other]));
    }
    Cycle { members: way }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_named() {
        assert!(Graph::new(vec![vec![], vec![0], vec![0, 1, 1]]).is_ok());
        let members = |after| Graph::new(after).unwrap_err().members;
        assert_eq!(members(vec![vec![0]]), [0]);
        assert_eq!(members(vec![vec![], vec![0, 3], vec![1], vec![2]]), [1, 3, 2]);
        // A job that only waits for a cycle is no member of it.
        assert_eq!(members(vec![vec![1], vec![2], vec![1]]), [1, 2]);
    }
}
