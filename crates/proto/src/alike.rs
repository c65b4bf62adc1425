//! What was perhaps meant by a word that nothing is called.

/// Below this (Jaro and Winkler) two words look alike to nobody.
const ALIKE: f64 = 0.9;

/// The name that is written most alike to a word, from 0.9 on by the measure of Jaro and Winkler (1990).
#[must_use]
pub fn most<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = names.map(|name| (strsim::jaro_winkler(word, name), name));
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
    }
}
