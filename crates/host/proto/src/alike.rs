//! Suggests the known name that a misspelt word probably meant.

/// Least similarity (Jaro-Winkler) of a suggestion.
const ALIKE: f64 = 0.9;

/// Most bytes of a compared word: the cost of a comparison is the product of both lengths.
const LENGTH_MAX: usize = 64;

/// The most similar name by Jaro-Winkler (1990), if its similarity is at least `ALIKE`; words above `LENGTH_MAX`
/// bytes have none.
#[must_use]
pub fn most<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let is_short = |word: &&str| word.len() <= LENGTH_MAX;
    Some(word).filter(is_short)?;
    let likeness = names.filter(is_short).map(|name| (strsim::jaro_winkler(word, name), name));
    let best = likeness.max_by(|one, other| one.0.total_cmp(&other.0));
    best.filter(|best| best.0 >= ALIKE).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_is_written_most_alike() {
        let names = ["align", "assemble", "call"];
        let meant = |word: &str| most(word, names.into_iter());
        assert_eq!(meant("aling"), Some("align"));
        assert_eq!(meant("asemble"), Some("assemble"));
        assert_eq!(meant("report"), None);
        assert_eq!(most("align", std::iter::empty()), None);
        let long = "a".repeat(LENGTH_MAX + 1);
        assert_eq!(most(&long, [long.as_str()].into_iter()), None);
        assert_eq!(most(&long[1..], [long.as_str(), &long[1..]].into_iter()), Some(&long[1..]));
    }
}
