//! How large the crates of rooms are and how far their files are entangled, as `tidy` prints it beside what they were
//! before they had rooms.
//!
//! Works on texts alone. Absent here: what is allowed ([`super::rooms`]).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::rooms::{ROOMS, Rooms, code, fields, loops, takes_all_rooms};

/// The crates that had no rooms before commit `9ed7388`,
const WITHOUT_ROOMS: [&str; 3] = ["policy", "daemon", "cli"];

/// the fields that their hearts had then,
const FIELDS_BEFORE: [(&str, usize); 2] = [("Policy", 29), ("Daemon", 55)];

/// the functions of the policy that took all of its rooms to change them, once it had rooms,
const ALL_ROOMS_BEFORE: usize = 143;

/// and the source lines that they had together, counted in the same way.
const LINES_BEFORE: usize = 31_496;

/// The files of each crate, by their paths below its `src`.
pub(super) type Crates = BTreeMap<&'static str, BTreeMap<String, String>>;

/// The sources of a crate without tests.
struct Measured {
    files: usize,
    lines: usize,
    /// The longest file, tests inside of it included, as its length is bounded.
    longest: (String, usize),
    /// How many files the largest group has that use each other in a loop.
    in_loop: usize,
}

fn measured(files: &BTreeMap<String, String>) -> Measured {
    let lines = |text: &String| text.lines().count();
    let longest =
        files.iter().map(|(path, text)| (path.clone(), lines(text))).max_by_key(|(_, lines)| *lines);
    Measured {
        files: files.len(),
        lines: files.values().map(|text| code(text).lines().count()).sum(),
        longest: longest.unwrap_or_default(),
        in_loop: loops(files).iter().map(Vec::len).max().unwrap_or(0),
    }
}

/// The figures as text.
pub(super) fn numbers(crates: &Crates) -> String {
    let mut out = format!("{:<10} {:>5} {:>6} {:>7}  longest file\n", "crate", "files", "lines", "in loop");
    for Rooms { name, .. } in ROOMS {
        let Some(files) = crates.get(name) else { continue };
        let Measured { files, lines, longest: (path, length), in_loop } = measured(files);
        let _ = writeln!(out, "{name:<10} {files:>5} {lines:>6} {in_loop:>7}  {path} ({length})");
    }
    for Rooms { name, hearts } in ROOMS {
        for &(heart, _) in *hearts {
            let found = crates.get(name).into_iter().flat_map(BTreeMap::values);
            let Some(fields) = found.filter_map(|text| fields(text, heart)).next() else { continue };
            let before = FIELDS_BEFORE.iter().find(|(known, _)| *known == heart);
            let before = before.map(|(_, before)| format!(" ({before} before)")).unwrap_or_default();
            let _ = writeln!(out, "fields of {heart}: {}{before}", fields.len());
        }
    }
    if let Some(policy) = crates.get("policy") {
        let (mut all, mut places) = (0, BTreeMap::new());
        for (path, count) in takes_all_rooms(policy) {
            all += count;
            *places.entry(path.split('/').next().unwrap_or(path)).or_insert(0) += count;
        }
        let places: Vec<String> = places.iter().map(|(place, count)| format!("{place} {count}")).collect();
        let places = places.join(", ");
        let _ = writeln!(
            out,
            "functions of policy that take all rooms: {all} ({ALL_ROOMS_BEFORE} before): {places}"
        );
    }
    let files = WITHOUT_ROOMS.iter().filter_map(|name| crates.get(name));
    let together: usize = files.map(|files| measured(files).lines).sum();
    let names = WITHOUT_ROOMS.join(" + ");
    let _ = writeln!(out, "source lines of {names}: {together} ({LINES_BEFORE} before they had rooms)");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_sources_without_tests() {
        let heart = "struct Policy {\n    a: u8,\n}\nfn step(rooms: &mut Rooms) {}\n#[cfg(test)]\nmod tests {\n    // x\n}\n";
        let one = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let policy = BTreeMap::from([
            one("a.rs", heart),
            one("b.rs", "use crate::c::C;\n"),
            one("c.rs", "use crate::b::B;\n"),
        ]);
        let cli = BTreeMap::from([one("main.rs", "//! x\n")]);
        let said = numbers(&BTreeMap::from([("policy", policy), ("cli", cli)]));
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[1].split_whitespace().collect::<Vec<_>>(), ["cli", "1", "1", "0", "main.rs", "(1)"]);
        let policy = ["policy", "3", "6", "2", "a.rs", "(8)"];
        assert_eq!(lines[2].split_whitespace().collect::<Vec<_>>(), policy);
        assert_eq!(lines[3], "fields of Policy: 1 (29 before)");
        assert_eq!(lines[4], "functions of policy that take all rooms: 1 (143 before): a.rs 1");
        assert!(lines[5].starts_with("source lines of policy + daemon + cli: 7 (31496 "), "{said}");
    }
}
