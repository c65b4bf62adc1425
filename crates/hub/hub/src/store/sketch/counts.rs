//! Counts by range, for many merged sketches: memory only for the ranges used, and fast addition when most ranges
//! between the lowest and the highest are used. Absent here: the ranges' meaning.

#[derive(Debug, Clone)]
pub(super) enum Counts {
    /// Nonzero ranges, the lowest first.
    Few(Vec<(u32, u64)>),
    /// A place for each range from the lowest on, `used` of them nonzero.
    Most { lowest: u32, places: Vec<u64>, used: usize },
}

/// Below this number of ranges a search is fast.
const FEW: usize = 8;

impl Default for Counts {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Counts {
    /// Adds a count of at least 1 to a range.
    pub(super) fn add(&mut self, range: u32, count: u64) {
        match self {
            Self::Few(pairs) => match pairs.binary_search_by_key(&range, |(range, _)| *range) {
                Ok(at) => pairs[at].1 = pairs[at].1.saturating_add(count),
                Err(at) => {
                    pairs.insert(at, (range, count));
                    if let Some(most) = most(pairs) {
                        *self = most;
                    }
                }
            },
            Self::Most { lowest, places, used } => {
                let first = range.min(*lowest);
                let below = (*lowest - first) as usize;
                let wanted = (below + places.len()).max((range - first) as usize + 1);
                if wanted > places.len() && wanted > 4 * (*used + 1) {
                    // A distant range must not allocate all places between.
                    *self = Self::Few(self.pairs().collect());
                    return self.add(range, count);
                }
                if below > 0 {
                    places.splice(..0, std::iter::repeat_n(0, below));
                    *lowest = first;
                }
                places.resize(wanted, 0);
                let place = &mut places[(range - first) as usize];
                *used += usize::from(*place == 0);
                *place = place.saturating_add(count);
            }
        }
    }

    /// Nonzero ranges with their counts, the lowest first.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (u32, u64)> {
        let (few, most, lowest) = match self {
            Self::Few(pairs) => (&pairs[..], &[][..], 0),
            Self::Most { lowest, places, .. } => (&[][..], &places[..], *lowest),
        };
        let most = (lowest..).zip(most).map(|(range, count)| (range, *count));
        few.iter().copied().chain(most.filter(|(_, count)| *count > 0))
    }

    /// Their memory in bytes.
    pub(super) const fn bytes(&self) -> usize {
        match self {
            Self::Few(pairs) => size_of::<(u32, u64)>() * pairs.len(),
            Self::Most { places, .. } => size_of::<u64>() * places.len(),
        }
    }
}

/// The dense form with a place for each range, if half the ranges are used.
fn most(pairs: &[(u32, u64)]) -> Option<Counts> {
    let (lowest, highest) = (pairs.first()?.0, pairs.last()?.0);
    let ranges = (highest - lowest) as usize + 1;
    if pairs.len() < FEW || pairs.len() * 2 < ranges {
        return None;
    }
    let mut places = vec![0; ranges];
    pairs.iter().for_each(|(range, count)| places[(range - lowest) as usize] = *count);
    Some(Counts::Most { lowest, places, used: pairs.len() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn they_are_those_that_were_added_in_little_memory() {
        let mut seed = 7u32;
        let mut draw = |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) % below
        };
        for (from, width) in [(0, 3), (990, 20), (0, 900), (300, 100)] {
            let (mut counts, mut want) = (Counts::default(), BTreeMap::<u32, u64>::new());
            for round in 0..600u32 {
                // Now and then a distant range.
                let range = if round % 97 == 0 { draw(2_000) } else { from + draw(width) };
                let count = u64::from(1 + draw(5));
                counts.add(range, count);
                *want.entry(range).or_default() += count;
                assert!(counts.pairs().eq(want.iter().map(|(range, count)| (*range, *count))));
                assert!(counts.bytes() <= 32 * (want.len() + 1), "{} for {}", counts.bytes(), want.len());
            }
        }
    }

    #[test]
    fn two_far_apart_take_no_places_between() {
        let mut counts = Counts::default();
        (100..140).for_each(|range| counts.add(range, 1));
        assert!(matches!(counts, Counts::Most { .. }));
        let mut apart = Counts::default();
        [0, 800].into_iter().for_each(|range| apart.add(range, u64::MAX));
        assert_eq!(apart.bytes(), 32);
        apart.add(800, 1);
        assert!(apart.pairs().eq([(0, u64::MAX), (800, u64::MAX)]));
    }
}
