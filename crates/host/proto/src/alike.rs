//! What was perhaps meant by a word that nothing is called.

/// Below this (Jaro and Winkler) two words look alike to nobody.
const ALIKE: f64 = 0.9;

/// Longer words are compared with none: a comparison takes the product of both lengths.
const LENGTH_MAX: usize = 64;

/// The name that is written most alike to a word, from 0.9 on by the measure of Jaro and Winkler (1990); none where
/// they have more than 64 bytes.
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
