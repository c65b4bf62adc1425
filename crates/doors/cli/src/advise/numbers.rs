//! Numbers in commands, by their place: a job's needs may follow from such a number.
//!
//! `--size 40`, `size=40` and a plain `40` are looked for, sizes as `400M` in bytes. Only places that all runs of a
//! class fill, and at which they differ, count. Absent: which number predicts the needs (crate `advise`), and files
//! (their sizes are [`crate::job`]'s).

use std::collections::BTreeMap;

use pinfold_advise::NUMBERS;
use pinfold_proto::program::is_shell;
use pinfold_proto::quantity::parse_size;

/// The most words of a command that are read.
const WORDS_MAX: usize = 64;

/// A number of a command, and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Number {
    place: String,
    value: f64,
}

/// The numbers of a command, in their order.
pub(super) fn of(command: &[String]) -> Vec<Number> {
    let words: Vec<&str> = match command {
        [shell, option, line] if option == "-c" && is_shell(shell) => line.split_whitespace().collect(),
        _ => command.iter().map(String::as_str).collect(),
    };
    let mut found: Vec<Number> = Vec::new();
    let mut before = "";
    for (at, word) in words.iter().enumerate().skip(1).take(WORDS_MAX) {
        let (place, value) = match word.split_once('=') {
            Some((key, value)) => (key.to_owned(), value),
            None if is_option(before) => (before.to_owned(), *word),
            None => (at.to_string(), *word),
        };
        before = word;
        if let Some(value) = value_of(value)
            && found.iter().all(|number| number.place != place)
        {
            found.push(Number { place, value });
        }
    }
    found
}

/// Whether a word names the number that comes after it: none of its own, and no value.
fn is_option(word: &str) -> bool {
    word.starts_with('-') && !word.contains('=') && value_of(word).is_none()
}

fn value_of(word: &str) -> Option<f64> {
    let word = word.trim_matches(['\'', '"', ';']);
    let digits = word.trim_start_matches(['-', '+', '.']);
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let plain = word.parse::<f64>().ok().filter(|value| value.is_finite());
    plain.or_else(|| Some(parse_size(word).ok()? as f64))
}

/// The places of a class's numbers that count.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Places(Vec<String>);

impl Places {
    /// The first places that all these commands fill, and not all with the same number.
    pub(super) fn of<'a>(commands: impl ExactSizeIterator<Item = &'a [Number]> + Clone) -> Self {
        let all = commands.len();
        let mut filled: BTreeMap<&str, (usize, f64, bool)> = BTreeMap::new();
        for number in commands.clone().flatten() {
            let place = filled.entry(&number.place).or_insert((0, number.value, false));
            place.0 += 1;
            place.2 |= place.1.total_cmp(&number.value).is_ne();
        }
        let counts =
            |number: &&Number| filled.get(&*number.place).is_some_and(|place| place.0 == all && place.2);
        let first = commands.clone().next().unwrap_or_default();
        Self(first.iter().filter(counts).take(NUMBERS).map(|number| number.place.clone()).collect())
    }

    /// A command's numbers at these places.
    pub(super) fn values(&self, numbers: &[Number]) -> [Option<f64>; NUMBERS] {
        let value = |at: usize| {
            let place = self.0.get(at)?;
            Some(numbers.iter().find(|number| number.place == *place)?.value)
        };
        std::array::from_fn(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(line: &str) -> Vec<Number> {
        of(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[track_caller]
    fn check(line: &str, want: &[(&str, f64)]) {
        let got: Vec<(String, f64)> =
            numbers(line).into_iter().map(|number| (number.place, number.value)).collect();
        let want: Vec<(String, f64)> = want.iter().map(|&(place, value)| (place.to_owned(), value)).collect();
        assert_eq!(got, want, "{line}");
    }

    #[test]
    fn numbers_have_places() {
        check("sim --size 40 -n 3 run", &[("--size", 40.0), ("-n", 3.0)]);
        check("sim size=1e3 --rate=0.5 7 8 x9 9x", &[("size", 1e3), ("--rate", 0.5), ("3", 7.0), ("4", 8.0)]);
        check("sort -S 400M -t , f", &[("-S", 400.0 * 1_048_576.0)]);
        check("sim -v -5 6 inf nan - -- 1.2.3", &[("-v", -5.0), ("3", 6.0)]);
        check("sim -n 1 -n 2", &[("-n", 1.0)]);
        check("40", &[]);
        let shell = ["/bin/sh", "-c", "sim --size 40;"].map(str::to_owned);
        assert_eq!(of(&shell), numbers("sim --size 40"));
        assert!(of(&[]).is_empty());
    }

    #[test]
    fn places_count_that_all_fill_and_that_differ() {
        let lines =
            ["sim --size 40 --port 7 --deep 3 x", "sim --size 50 --port 7 y", "sim --port 7 --size 60 z"];
        let commands: Vec<Vec<Number>> = lines.iter().map(|line| numbers(line)).collect();
        let places = Places::of(commands.iter().map(Vec::as_slice));
        assert_eq!(places, Places(vec!["--size".to_owned()]));
        assert_eq!(places.values(&commands[2]), [Some(60.0), None, None, None]);
        assert_eq!(places.values(&[]), [None; NUMBERS]);
        assert_eq!(
            Places::of(commands[..1].iter().map(Vec::as_slice)),
            Places::default(),
            "one alone differs in nothing"
        );
        assert_eq!(Places::of(std::iter::empty::<&[Number]>()), Places::default());
        let many = |n: u32| numbers(&format!("sim {n} {n} {n} {n} {n} {n}"));
        let many = [many(1), many(2)];
        let places = Places::of(many.iter().map(Vec::as_slice));
        assert_eq!(places.values(&many[1]), [Some(2.0); NUMBERS]);
    }
}
