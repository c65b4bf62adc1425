//! Indexes of an array as ranges. A name like `12_[0-9999]` stays as short in memory and on the wire as its text:
//! ranges are never expanded, so reading a request costs no more than its bytes.
//!
//! Absent here: the most members of an array (`array`), and the existing members (the daemon).

use std::fmt;

use super::{ArrayError, INDEX_MAX, MEMBERS_MAX, digits};

/// Indexes, as ascending ranges. Ranges without a step neither overlap nor touch each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Indexes {
    ranges: Vec<Range>,
}

/// The indexes `first` to `last` inclusive, by `step`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    first: u32,
    last: u32,
    step: u32,
}

impl Range {
    fn count(self) -> usize {
        ((self.last - self.first) / self.step) as usize + 1
    }

    fn contains(self, index: u32) -> bool {
        (self.first..=self.last).contains(&index) && (index - self.first).is_multiple_of(self.step)
    }
}

impl Indexes {
    /// Reads a list of indexes and ranges: `0-3,7,10-20:5`.
    ///
    /// # Errors
    /// When the text is malformed, or covers more than [`MEMBERS_MAX`] indexes.
    pub fn parse(list: &str) -> Result<Self, ArrayError> {
        if list.trim().is_empty() {
            return Err(ArrayError::Empty(list.to_owned()));
        }
        let ranges = list.split(',').map(range).collect::<Result<Vec<_>, _>>()?;
        let indexes = Self::of(ranges);
        if indexes.count() > MEMBERS_MAX {
            return Err(ArrayError::Many);
        }
        Ok(indexes)
    }

    /// Sorted; overlapping or adjacent ranges without a step are merged.
    fn of(mut ranges: Vec<Range>) -> Self {
        ranges.sort_unstable();
        let (mut plain, stepped): (Vec<Range>, Vec<Range>) =
            ranges.into_iter().partition(|range| range.step == 1);
        plain.dedup_by(|next, before| {
            let joins = next.first <= before.last.saturating_add(1);
            if joins {
                before.last = before.last.max(next.last);
            }
            joins
        });
        plain.extend(stepped);
        plain.sort_unstable();
        plain.dedup();
        plain.shrink_to_fit();
        Self { ranges: plain }
    }

    /// How many indexes; an index in several stepped ranges counts once per range.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ranges.iter().map(|range| range.count()).fold(0, usize::saturating_add)
    }

    /// How many ranges: the cost of a look-up.
    #[must_use]
    pub fn ranges(&self) -> usize {
        self.ranges.len()
    }

    /// Whether the ranges include an index.
    #[must_use]
    pub fn contains(&self, index: u32) -> bool {
        self.ranges.iter().any(|range| range.contains(index))
    }

    /// Each index, ascending within each range.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let all = |range: &Range| (range.first..=range.last).step_by(range.step as usize);
        self.ranges.iter().flat_map(all)
    }
}

impl FromIterator<u32> for Indexes {
    fn from_iter<I: IntoIterator<Item = u32>>(indexes: I) -> Self {
        Self::of(indexes.into_iter().map(|index| Range { first: index, last: index, step: 1 }).collect())
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Range { first, last, step }) in self.ranges.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match (first == last, step) {
                (true, _) => write!(f, "{comma}{first}")?,
                (false, 1) => write!(f, "{comma}{first}-{last}")?,
                (false, _) => write!(f, "{comma}{first}-{last}:{step}")?,
            }
        }
        Ok(())
    }
}

/// Reads an index or a range.
fn range(piece: &str) -> Result<Range, ArrayError> {
    let bad = || ArrayError::Piece(piece.to_owned());
    let index = |text: &str| {
        let text = digits(text).ok_or_else(bad)?;
        let index = text.parse::<u32>().ok().filter(|&index| index <= INDEX_MAX);
        index.ok_or_else(|| ArrayError::Large(text.to_owned()))
    };
    let (ends, step) = piece.split_once(':').map_or((piece, None), |(ends, step)| (ends, Some(step)));
    let (first, last) = match ends.split_once('-') {
        Some((first, last)) => (index(first)?, index(last)?),
        None if step.is_some() => return Err(bad()),
        None => (index(ends)?, index(ends)?),
    };
    let step = step.map_or(Ok(1), index)?;
    if step == 0 {
        return Err(ArrayError::Step(piece.to_owned()));
    }
    if last < first {
        return Err(ArrayError::Reversed(ends.to_owned()));
    }
    // The last index that the step meets, so that equal indexes are equal ranges.
    let last = last - (last - first) % step;
    Ok(Range { first, last, step: if last == first { 1 } else { step } })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn read(list: &str) -> Indexes {
        Indexes::parse(list).expect(list)
    }

    #[test]
    fn ranges_stay_ranges() {
        for (list, shown, ranges, count) in [
            ("0-9999", "0-9999", 1, 10_000),
            ("0-3,2-5,6", "0-6", 1, 7),
            ("7,7,7", "7", 1, 1),
            ("0-10:5", "0-10:5", 1, 3),
            ("0-9:20,4", "0,4", 2, 2),
            ("0-9:7", "0-7:7", 1, 2),
            ("0-9999,0-9999,0-9998", "0-9999", 1, 10_000),
        ] {
            let indexes = read(list);
            assert_eq!((indexes.to_string().as_str(), indexes.ranges()), (shown, ranges), "{list}");
            assert_eq!(indexes.count(), count, "{list}");
        }
        assert_eq!(Indexes::parse("0-9999,20000"), Err(ArrayError::Many));
        assert_eq!(Indexes::parse("0-4000000:1,0-4000000:2"), Err(ArrayError::Many));
    }

    proptest! {
        /// The ranges stand for what the list says, and are read again as they are written.
        #[test]
        fn ranges_are_what_they_say(pieces in prop::collection::vec((0u32..60, 0u32..60, 1u32..9), 1..8)) {
            let text: Vec<String> =
                pieces.iter().map(|(first, more, step)| format!("{first}-{}:{step}", first + more)).collect();
            let indexes = read(&text.join(","));
            let plain: BTreeSet<u32> = pieces
                .iter()
                .flat_map(|&(first, more, step)| (first..=first + more).step_by(step as usize))
                .collect();
            prop_assert_eq!(indexes.iter().collect::<BTreeSet<_>>(), plain.clone());
            prop_assert!((0..200).all(|index| indexes.contains(index) == plain.contains(&index)));
            prop_assert!(indexes.count() >= plain.len() && indexes.ranges() <= pieces.len());
            prop_assert_eq!(read(&indexes.to_string()), indexes);
        }
    }
}
