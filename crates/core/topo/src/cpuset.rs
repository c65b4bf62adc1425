//! Sets of PUs by OS index, and the kernel's list syntax (`0-3,8`) for them.

use std::fmt;
use std::str::FromStr;

use crate::index::PuOs;

/// The highest OS index a set may hold. The largest stock kernels have `CONFIG_NR_CPUS` 8192; the bound keeps
/// a hostile list like `0-4294967295` from filling the memory.
pub const PU_OS_MAX: u32 = 65_535;

/// A set of PUs, each by its OS index (0 to [`PU_OS_MAX`]).
///
/// Written and read as the kernel's lists: `0-3,8`; the empty set is the empty string.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CpuSet {
    /// Bit `i % 64` of word `i / 64` stands for PU `i`. No trailing zero words, so that equal sets are equal
    /// values.
    words: Vec<u64>,
}

impl CpuSet {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// The set with the single PU `pu`.
    #[must_use]
    pub fn single(pu: PuOs) -> Self {
        Self::from_iter([pu])
    }

    /// Adds `pu`; true if it was absent.
    ///
    /// # Panics
    /// If `pu` is above [`PU_OS_MAX`]; the parsers check indexes from outside.
    pub fn insert(&mut self, pu: PuOs) -> bool {
        assert!(pu.0 <= PU_OS_MAX, "PU {pu} is above {PU_OS_MAX}");
        let (word, bit) = place(pu);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let absent = self.words[word] & bit == 0;
        self.words[word] |= bit;
        absent
    }

    /// Adds the PUs `first` to `last` word by word; returns the number of words written.
    fn insert_range(&mut self, first: u32, last: u32) -> u32 {
        let ((low, _), (high, _)) = (place(PuOs(first)), place(PuOs(last)));
        if self.words.len() <= high {
            self.words.resize(high + 1, 0);
        }
        let (from, to) = (u64::MAX << (first % 64), u64::MAX >> (63 - last % 64));
        if low == high {
            self.words[low] |= from & to;
        } else {
            self.words[low] |= from;
            self.words[low + 1..high].fill(u64::MAX);
            self.words[high] |= to;
        }
        last / 64 - first / 64 + 1
    }

    /// Removes `pu`; true if it was present.
    pub fn remove(&mut self, pu: PuOs) -> bool {
        let (word, bit) = place(pu);
        let present = self.contains(pu);
        if present {
            self.words[word] &= !bit;
            self.trim();
        }
        present
    }

    /// Whether `pu` is in the set.
    #[must_use]
    pub fn contains(&self, pu: PuOs) -> bool {
        let (word, bit) = place(pu);
        self.words.get(word).is_some_and(|w| w & bit != 0)
    }

    /// How many PUs the set holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether the set holds no PU.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The PUs in ascending order of their OS index.
    pub fn iter(&self) -> impl Iterator<Item = PuOs> + '_ {
        (0u32..).zip(&self.words).flat_map(|(i, &word)| {
            // Visits set bits only: single-core sets of large machines are nearly empty.
            let next = |rest: &u64| Some(rest & (rest - 1)).filter(|&rest| rest != 0);
            std::iter::successors(Some(word).filter(|&word| word != 0), next)
                .map(move |rest| PuOs(i * 64 + rest.trailing_zeros()))
        })
    }

    /// The lowest PU, if any.
    #[must_use]
    pub fn first(&self) -> Option<PuOs> {
        self.iter().next()
    }

    /// The highest PU, if any.
    #[must_use]
    pub fn last(&self) -> Option<PuOs> {
        let top = self.words.last()?;
        let word = u32::try_from(self.words.len() - 1).expect("bounded by PU_OS_MAX");
        Some(PuOs(word * 64 + (63 - top.leading_zeros())))
    }

    /// PUs in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a | b)
    }

    /// PUs in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a & b)
    }

    /// PUs in this set and not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a & !b)
    }

    /// Whether every PU of this set is in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        let beyond = |(i, &word): (usize, &u64)| word & !other.words.get(i).copied().unwrap_or(0) != 0;
        !self.words.iter().enumerate().any(beyond)
    }

    /// Whether the two sets share no PU.
    #[must_use]
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(one, other)| one & other == 0)
    }

    fn combine(&self, other: &Self, op: impl Fn(u64, u64) -> u64) -> Self {
        let len = self.words.len().max(other.words.len());
        let word = |set: &Self, i: usize| set.words.get(i).copied().unwrap_or(0);
        let mut set = Self { words: (0..len).map(|i| op(word(self, i), word(other, i))).collect() };
        set.trim();
        set
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

fn place(pu: PuOs) -> (usize, u64) {
    ((pu.0 / 64) as usize, 1 << (pu.0 % 64))
}

impl FromIterator<PuOs> for CpuSet {
    fn from_iter<I: IntoIterator<Item = PuOs>>(pus: I) -> Self {
        let mut set = Self::new();
        for pu in pus {
            set.insert(pu);
        }
        set
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pus = self.iter().map(|pu| pu.0).peekable();
        let mut comma = "";
        while let Some(first) = pus.next() {
            let mut last = first;
            while pus.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            write!(f, "{comma}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

/// Why a text is not a list of PUs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseCpuSetError {
    /// A piece between commas is neither a number nor a range.
    #[error("`{0}` is not a PU number or a range such as 0-3")]
    Piece(String),
    /// A range runs downwards.
    #[error("the range `{0}` runs downwards")]
    Downwards(String),
    /// A PU number above [`PU_OS_MAX`].
    #[error("PU {0} is above the highest possible, {PU_OS_MAX}")]
    TooHigh(u64),
    /// The list costs more to read than a list that names every PU once.
    #[error("the list of PUs names the same ones over and over: it has more ranges than there can be PUs")]
    Repeats,
}

/// Work bound: the words that all ranges of a list may write together. A range writes at most as many words
/// as it has PUs, so every list without duplicates stays within the bound.
const WORDS_MAX: u32 = PU_OS_MAX + 1;

impl FromStr for CpuSet {
    type Err = ParseCpuSetError;

    /// Reads a kernel list: numbers and ranges `A-B`, optionally `A-B:USED/GROUP` (the first USED of each
    /// GROUP PUs), separated by commas; surrounding blanks and the newline of a kernel file are ignored. See
    /// the kernel's `Documentation/core-api/kernel-api` on `bitmap_parselist`. The cost is bounded for a list
    /// of any length, because any user or another host may send the list.
    fn from_str(text: &str) -> Result<Self, ParseCpuSetError> {
        let mut set = Self::new();
        let mut left = WORDS_MAX;
        if text.trim().is_empty() {
            return Ok(set);
        }
        for piece in text.trim().split(',') {
            let piece = piece.trim();
            let (range, stride) = piece.split_once(':').map_or((piece, None), |(r, s)| (r, Some(s)));
            let (first, last) = range.split_once('-').map_or((range, range), |(a, b)| (a, b));
            let (first, last) = (number(first, piece)?, number(last, piece)?);
            if last < first {
                return Err(ParseCpuSetError::Downwards(piece.to_owned()));
            }
            let (used, group) = match stride {
                None => (1, 1),
                Some(stride) => {
                    let bad = || ParseCpuSetError::Piece(piece.to_owned());
                    let (used, group) = stride.split_once('/').ok_or_else(bad)?;
                    let (used, group) = (number(used, piece)?, number(group, piece)?);
                    if used > group || group == 0 {
                        return Err(bad());
                    }
                    (used, group)
                }
            };
            // A range without a stride is a single group.
            let (used, group) = if used == group { (PU_OS_MAX + 1, PU_OS_MAX + 1) } else { (used, group) };
            let groups = (first..=last).step_by(group as usize).take_while(|_| used > 0);
            let mut words = u32::from(used == 0);
            for first in groups {
                words += set.insert_range(first, last.min(first + used - 1));
            }
            left = left.checked_sub(words).ok_or(ParseCpuSetError::Repeats)?;
        }
        Ok(set)
    }
}

fn number(text: &str, piece: &str) -> Result<u32, ParseCpuSetError> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let value: u64 = digits
        .then(|| text.parse().ok())
        .flatten()
        .ok_or_else(|| ParseCpuSetError::Piece(piece.to_owned()))?;
    u32::try_from(value).ok().filter(|&pu| pu <= PU_OS_MAX).ok_or(ParseCpuSetError::TooHigh(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[track_caller]
    fn check(text: &str, want: Result<&str, ParseCpuSetError>) {
        assert_eq!(text.parse::<CpuSet>().map(|set| set.to_string()), want.map(str::to_owned), "{text:?}");
    }

    #[test]
    fn lists() {
        check("", Ok(""));
        check("\n", Ok(""));
        check("0-3,8\n", Ok("0-3,8"));
        check("8,0,1,2,3", Ok("0-3,8"));
        check("0-7:2/4", Ok("0-1,4-5"));
        check("63-64", Ok("63-64"));
        check("64-127:0/4,3", Ok("3"));
        check("0-300:300/300", Ok("0-300"));
        check("60-200:3/70", Ok("60-62,130-132,200"));
        check("0-65535", Ok("0-65535"));
        check("3-1", Err(ParseCpuSetError::Downwards("3-1".into())));
        check("0,,2", Err(ParseCpuSetError::Piece(String::new())));
        check("-1", Err(ParseCpuSetError::Piece("-1".into())));
        check("0-3:3/2", Err(ParseCpuSetError::Piece("0-3:3/2".into())));
        check("0-3:0/0", Err(ParseCpuSetError::Piece("0-3:0/0".into())));
        check("all", Err(ParseCpuSetError::Piece("all".into())));
        check("0-4294967295", Err(ParseCpuSetError::TooHigh(4_294_967_295)));
        check("99999999999999999999", Err(ParseCpuSetError::Piece("99999999999999999999".into())));
    }

    /// What names each PU once is read, in whatever form; what names the same over and over is not read to its end.
    #[test]
    fn cost_of_a_list_is_bounded() {
        let each = |step: usize| (0..=PU_OS_MAX).step_by(step).map(|pu| pu.to_string());
        let once = each(1).collect::<Vec<_>>().join(",");
        check(&once, Ok("0-65535"));
        let whole = vec!["0-65535"; 64].join(",");
        check(&whole, Ok("0-65535"));
        check("0-65535:1/2,1-65535:1/2", Ok("0-65535"));
        let pairs = each(64).map(|at| format!("{at}-{}", at.parse::<u32>().unwrap() + 63));
        check(&pairs.collect::<Vec<_>>().join(","), Ok("0-65535"));
        for long in [
            format!("{once},0"),
            format!("{whole},0,what is behind is not looked at"),
            "0,".repeat(65_537),
            "0-65534:1/65535,".repeat(65_537),
            "0-9:0/3,".repeat(65_537),
            "0-65535:1/2,0-65535:1/2,1".to_owned(),
        ] {
            assert_eq!(long.parse::<CpuSet>(), Err(ParseCpuSetError::Repeats), "{long:.30}");
        }
    }

    fn set_of(pus: &BTreeSet<u32>) -> CpuSet {
        pus.iter().map(|&pu| PuOs(pu)).collect()
    }

    fn pus() -> impl Strategy<Value = BTreeSet<u32>> {
        proptest::collection::btree_set(0u32..300, 0..40)
    }

    proptest! {
        #[test]
        fn round_trip(a in pus()) {
            let set = set_of(&a);
            prop_assert_eq!(&set.to_string().parse::<CpuSet>().unwrap(), &set);
            prop_assert_eq!(set.len(), a.len());
            prop_assert_eq!(set.first().map(|p| p.0), a.first().copied());
            prop_assert_eq!(set.last().map(|p| p.0), a.last().copied());
            prop_assert!(set.iter().map(|pu| pu.0).eq(a.iter().copied()));
        }

        #[test]
        fn algebra(a in pus(), b in pus()) {
            let (x, y) = (set_of(&a), set_of(&b));
            prop_assert_eq!(x.union(&y), set_of(&a.union(&b).copied().collect()));
            prop_assert_eq!(x.intersection(&y), set_of(&a.intersection(&b).copied().collect()));
            prop_assert_eq!(x.difference(&y), set_of(&a.difference(&b).copied().collect()));
            prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
            prop_assert_eq!(x.is_disjoint(&y), a.is_disjoint(&b));
        }

        #[test]
        fn insert_and_remove(a in pus(), pu in 0u32..300) {
            let mut set = set_of(&a);
            prop_assert_eq!(set.insert(PuOs(pu)), !a.contains(&pu));
            prop_assert!(set.remove(PuOs(pu)));
            prop_assert!(!set.contains(PuOs(pu)));
            prop_assert_eq!(set, set_of(&a.into_iter().filter(|&p| p != pu).collect()));
        }

        #[test]
        fn ranges_and_strides(first in 0u32..200, more in 0u32..200, group in 1u32..150, used in 0u32..150) {
            let last = first + more;
            prop_assume!(used <= group);
            let set: CpuSet = format!("{first}-{last}:{used}/{group}").parse().unwrap();
            let want = (first..=last).filter(|pu| (pu - first) % group < used).map(PuOs).collect();
            prop_assert_eq!(set, want);
        }

        #[test]
        fn never_panics(text in "[0-9,:/ -]{0,24}") {
            let _ = text.parse::<CpuSet>();
        }
    }
}
