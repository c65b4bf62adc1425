//! What is held of crates that have rooms: no wide loop of `use crate::`, few fields in their hearts, short files.
//!
//! Works on texts alone. Tests inside of files and test files are not looked at. Absent: which files there are.

use std::collections::{BTreeMap, BTreeSet};

/// A crate that is held to it.
pub(super) struct Rooms {
    /// Its name, without `pinfold-`.
    pub(super) name: &'static str,
    /// Structs that hold the rooms together, and whether their fields are all private.
    pub(super) hearts: &'static [(&'static str, bool)],
}

/// The crates that are held to it; others are added once they reach it.
pub(super) const ROOMS: &[Rooms] = &[
    Rooms { name: "advise", hearts: &[] },
    Rooms { name: "cli", hearts: &[] },
    Rooms { name: "client", hearts: &[] },
    Rooms { name: "cluster", hearts: &[] },
    Rooms { name: "daemon", hearts: &[("Daemon", true)] },
    Rooms { name: "hub", hearts: &[] },
    Rooms { name: "hubclient", hearts: &[] },
    Rooms { name: "hubwire", hearts: &[] },
    Rooms { name: "place", hearts: &[] },
    Rooms { name: "policy", hearts: &[("Policy", true), ("Rooms", false)] },
    Rooms { name: "profile", hearts: &[] },
    Rooms { name: "proto", hearts: &[] },
    Rooms { name: "record", hearts: &[] },
    Rooms { name: "sim", hearts: &[] },
    Rooms { name: "slurm", hearts: &[] },
    Rooms { name: "sys", hearts: &[] },
    Rooms { name: "testkit", hearts: &[] },
    Rooms { name: "topo", hearts: &[] },
    Rooms { name: "whatif", hearts: &[] },
    Rooms { name: "wlm", hearts: &[] },
];

/// The most files that may use each other in a loop.
const LOOP_MAX: usize = 3;
/// The most fields of a heart.
const FIELDS_MAX: usize = 10;
/// The longest file.
const LINES_MAX: usize = 500;

/// Places in the policy where all rooms are taken to be changed, at most,
const ALL_ROOMS_MAX: usize = 79;
/// and the files that may: where an event is routed, where what follows from it is put together, and what takes memory
/// and slots back for a pool.
const ALL_ROOMS_IN: [&str; 3] = ["schedule/", "shares/reclaim", "step.rs"];

/// Names everything that is wrong with a crate; `files`: by their path below its `src`.
pub(super) fn check(rooms: &Rooms, files: &BTreeMap<String, String>) -> Vec<String> {
    let name = rooms.name;
    let mut wrong = Vec::new();
    for (path, text) in files {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            wrong.push(format!("{name}: {path} has {lines} lines; divide it (at most {LINES_MAX})"));
        }
    }
    if name == "policy" {
        let handed_on = |(path, text): (&String, &String)| {
            text.lines().any(hands_on_a_job).then(|| {
                format!("{name}: {path} gives other rooms a job to change; make it a change with a name in jobs/changes")
            })
        };
        wrong.extend(files.iter().filter(|(path, _)| path.starts_with("jobs")).filter_map(handed_on));
        wrong.extend(beyond_its_room(files));
    }
    for &(heart, is_private) in rooms.hearts {
        match files.values().find_map(|text| fields(text, heart)) {
            None => wrong.push(format!("{name} has no struct {heart}, which holds its rooms")),
            Some(fields) => {
                if fields.len() > FIELDS_MAX {
                    wrong.push(format!("{name}: {heart} has {} fields (at most {FIELDS_MAX})", fields.len()));
                }
                let public = fields.iter().filter(|field| is_private && field.starts_with("pub"));
                wrong.extend(
                    public.map(|field| format!("{name}: {heart}: the field `{field}` is not private")),
                );
            }
        }
    }
    for group in loops(files).into_iter().filter(|group| group.len() > LOOP_MAX) {
        let uses = |path: &String| {
            let used = used(path, &files[path], files);
            let within: Vec<String> = used.into_iter().filter(|used| group.contains(used)).collect();
            format!("  {path} uses {}", within.join(", "))
        };
        let uses: Vec<String> = group.iter().map(uses).collect();
        wrong.push(format!(
            "{name}: {} files use each other in a loop (at most {LOOP_MAX}):\n{}",
            group.len(),
            uses.join("\n")
        ));
    }
    wrong
}

/// Whether a line is a function through which a room beside `jobs` could change a job.
fn hands_on_a_job(line: &str) -> bool {
    let changeable = ["&mut Job>", "&mut Job ", "&mut Live", "&mut Waiting", "&mut Stage"];
    let returned = line.split_once("->").map_or("", |(_, returned)| returned);
    line.trim().starts_with("pub(crate) fn") && changeable.iter().any(|one| returned.contains(one))
}

/// How often each file takes all rooms of the policy to change them.
pub(super) fn takes_all_rooms(files: &BTreeMap<String, String>) -> BTreeMap<&str, usize> {
    let counted = |text: &String| without_tests(text).matches("&mut Rooms").count();
    let counts = files.iter().map(|(path, text)| (path.as_str(), counted(text)));
    counts.filter(|(_, count)| *count > 0).collect()
}

/// What takes all rooms of the policy though it may not.
fn beyond_its_room(files: &BTreeMap<String, String>) -> Vec<String> {
    let all = takes_all_rooms(files);
    let may = |path: &str| ALL_ROOMS_IN.iter().any(|place| path.starts_with(place));
    let beyond = all.keys().filter(|path| !may(path)).map(|path| {
        format!("policy: {path} takes `&mut Rooms`; take the own room, read others, and return a transition")
    });
    let count: usize = all.values().sum();
    let too_many = (count > ALL_ROOMS_MAX)
        .then(|| format!("policy: `&mut Rooms` is taken {count} times (at most {ALL_ROOMS_MAX})"));
    beyond.chain(too_many).collect()
}

/// The fields of a struct, each as `pub(crate) name`; `None`: the text has no such struct.
pub(super) fn fields(text: &str, name: &str) -> Option<Vec<String>> {
    let begins = |line: &&str| line.trim_end().ends_with(&format!("struct {name} {{"));
    let inside = text.lines().skip_while(|line| !begins(line)).skip(1).take_while(|line| *line != "}");
    text.lines().find(begins)?;
    let field = |line: &str| {
        let (head, _) = line.trim().split_once(':')?;
        (!head.starts_with("//") && !head.starts_with('#')).then(|| head.to_owned())
    };
    Some(inside.filter_map(field).collect())
}

/// Groups of files that use each other, directly or through others.
pub(super) fn loops(files: &BTreeMap<String, String>) -> Vec<Vec<String>> {
    let uses: BTreeMap<&str, BTreeSet<String>> =
        files.iter().map(|(path, text)| (path.as_str(), used(path, text, files))).collect();
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        uses.keys().map(|path| (*path, reach(path, &uses))).collect();
    let mut groups: BTreeSet<Vec<String>> = BTreeSet::new();
    for (path, from) in &reached {
        let both = from.iter().filter(|other| reached[**other].contains(path));
        let group: Vec<String> = both.map(|other| (*other).to_owned()).collect();
        if group.len() > 1 {
            groups.insert(group);
        }
    }
    groups.into_iter().collect()
}

/// The files that can be reached from one by uses.
fn reach<'a>(from: &str, uses: &'a BTreeMap<&str, BTreeSet<String>>) -> BTreeSet<&'a str> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(path) = open.pop() {
        for next in uses.get(path).into_iter().flatten() {
            if reached.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    reached
}

/// The files that one uses: by paths from the root of the crate, and by names of its own child modules.
fn used(path: &str, text: &str, files: &BTreeMap<String, String>) -> BTreeSet<String> {
    let root = if files.contains_key("lib.rs") { "lib.rs" } else { "main.rs" };
    let own = if path == root { "" } else { path.trim_end_matches(".rs") };
    let text = without_tests(text);
    let mut used = BTreeSet::new();
    for line in statements(&text) {
        let from_child = line.strip_prefix("pub use ").or_else(|| line.strip_prefix("use "));
        let from_child = from_child.or_else(|| line.strip_prefix("pub(crate) use "));
        for path in from_child.map(paths).into_iter().flatten() {
            let child = [own, &path.join("/")].join("/");
            used.extend(file_of(child.trim_start_matches('/'), files, own));
        }
        for (at, _) in line.match_indices("crate::") {
            for path in paths(&line[at + "crate::".len()..]) {
                let found = file_of(&path.join("/"), files, "");
                used.insert(found.unwrap_or_else(|| root.to_owned()));
            }
        }
    }
    used.remove(path);
    used
}

/// The file of the longest part of a path that is a module, if that is more than `above`.
fn file_of(path: &str, files: &BTreeMap<String, String>, above: &str) -> Option<String> {
    let mut path = path;
    while path.len() > above.len() {
        let file = format!("{path}.rs");
        if files.contains_key(&file) {
            return Some(file);
        }
        path = path.rsplit_once('/')?.0;
    }
    None
}

/// The text without its inner tests.
pub(super) fn code(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// The text without its inner tests, comments and words in quotes.
fn without_tests(text: &str) -> String {
    let lines = code(text).lines().map(|line| line.split("//").next().unwrap_or_default());
    let lines = lines.map(|line| line.split('"').step_by(2).collect::<Vec<_>>().join("\"\""));
    lines.collect::<Vec<_>>().join("\n")
}

/// The text in pieces that end with `;`, on one line each.
fn statements(text: &str) -> Vec<String> {
    text.split(';').map(|one| one.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The paths that a use tree names: `a::{b, c::d}` are a, b and a, c, d.
fn paths(tree: &str) -> Vec<Vec<String>> {
    let (mut paths, mut prefix, mut word) = (Vec::new(), vec![Vec::new()], String::new());
    let mut here: Vec<String> = Vec::new();
    for letter in tree.chars() {
        match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => word.push(letter),
            ':' => {
                if !word.is_empty() {
                    here.push(std::mem::take(&mut word));
                }
            }
            '{' => prefix.push(here.clone()),
            ',' | '}' => {
                if !word.is_empty() {
                    here.push(std::mem::take(&mut word));
                    paths.push(here.clone());
                }
                if letter == '}' {
                    prefix.pop();
                }
                here = prefix.last().cloned().unwrap_or_default();
            }
            ' ' if prefix.len() > 1 => {}
            _ => break,
        }
        if prefix.is_empty() || (prefix.len() == 1 && letter == ',') {
            break;
        }
    }
    if !word.is_empty() {
        here.push(word);
        paths.push(here);
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUSE: Rooms = Rooms { name: "house", hearts: &[("Heart", true)] };

    fn files(files: &[(&str, &str)]) -> BTreeMap<String, String> {
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn use_trees_are_read() {
        let words = |tree: &str| paths(tree).iter().map(|path| path.join("/")).collect::<Vec<_>>();
        assert_eq!(words("a::b"), ["a/b"]);
        assert_eq!(words("a::{b, c::{d, e}, f}"), ["a/b", "a/c/d", "a/c/e", "a/f"]);
        assert_eq!(words("{a::b, c}"), ["a/b", "c"]);
        assert_eq!(words("a::b::new(x, y)"), ["a/b/new"]);
    }

    #[test]
    fn a_wide_loop_is_found_and_a_narrow_one_is_not() {
        let heart = ("heart.rs", "pub struct Heart {\n    one: u8,\n}\n");
        let wide = [
            heart,
            ("a.rs", "use crate::b::{self, B};\n"),
            ("b.rs", "use crate::c::C;\nuse crate::heart::Heart;\n"),
            ("c.rs", "fn c() {\n    crate::d::d()\n}\n"),
            ("d.rs", "use crate::{a::A, heart::Heart};\n"),
        ];
        let found = check(&HOUSE, &files(&wide));
        let told = "house: 4 files use each other in a loop (at most 3):\n  a.rs uses b.rs\n  b.rs uses c.rs\n  c.rs uses \
                    d.rs\n  d.rs uses a.rs";
        assert_eq!(found, [told]);
        let mut narrow = wide;
        narrow[3].1 = "// crate::d::d()\nuse crate::a::A;\n";
        assert!(check(&HOUSE, &files(&narrow)).is_empty());
        let mut tests = wide;
        tests[3].1 = "fn c() {}\n#[cfg(test)]\nmod tests {\n    use crate::d::d;\n}\n";
        assert!(check(&HOUSE, &files(&tests)).is_empty());
    }

    #[test]
    fn a_loop_through_names_that_a_folder_hands_on_is_found() {
        let three = [
            ("lib.rs", "pub use room::X;\n"),
            ("room.rs", "mod x;\nmod y;\npub use x::X;\npub(crate) use y::{Y, Z};\n"),
            ("room/x.rs", "use crate::room::Y;\n"),
            ("room/y.rs", "use crate::X;\n"),
        ];
        assert_eq!(loops(&files(&three)), [["lib.rs", "room.rs", "room/x.rs", "room/y.rs"]]);
    }

    #[test]
    fn a_heart_with_many_or_open_fields_is_found() {
        let many: String = (0..11).map(|at| format!("    /// A: field.\n    f{at}: u8,\n")).collect();
        let found = check(&HOUSE, &files(&[("h.rs", &format!("struct Heart {{\n{many}}}\n"))]));
        assert_eq!(found, ["house: Heart has 11 fields (at most 10)"]);
        let found =
            check(&HOUSE, &files(&[("h.rs", "struct Heart {\n    pub(crate) a: u8,\n    b: u8,\n}\n")]));
        assert_eq!(found, ["house: Heart: the field `pub(crate) a` is not private"]);
        assert_eq!(
            check(&HOUSE, &files(&[("h.rs", "")])),
            ["house has no struct Heart, which holds its rooms"]
        );
    }

    #[test]
    fn a_job_that_others_could_change_is_found() {
        let policy = Rooms { name: "policy", hearts: &[] };
        let file = |text: &str| check(&policy, &files(&[("jobs/table.rs", text)]));
        let found = file("    pub(crate) fn get_mut(&mut self, id: &JobId) -> Option<&mut Job> {\n");
        assert!(found.len() == 1 && found[0].contains("jobs/table.rs gives other rooms a job"), "{found:?}");
        assert!(file("    pub(super) fn live_mut(&mut self, id: JobId) -> Option<&mut Live> {\n").is_empty());
        assert!(file("    pub(crate) fn fire(&mut self, id: JobId) -> Fired {\n").is_empty());
    }

    #[test]
    fn what_takes_all_rooms_is_found() {
        let policy = Rooms { name: "policy", hearts: &[] };
        let takes = "fn f(rooms: &mut Rooms) {}\n";
        let found = check(&policy, &files(&[("cores/slots.rs", takes), ("step.rs", takes)]));
        assert!(found.len() == 1 && found[0].contains("cores/slots.rs takes `&mut Rooms`"), "{found:?}");
        let many = takes.repeat(ALL_ROOMS_MAX + 1);
        let found = check(&policy, &files(&[("schedule/pass.rs", &many)]));
        assert!(found.len() == 1 && found[0].contains("(at most "), "{found:?}");
        let not = "/// `&mut Rooms`\nfn f(rooms: &Rooms) {}\n#[cfg(test)]\nmod tests {\n    fn g(r: &mut Rooms) {}\n}\n";
        assert!(check(&policy, &files(&[("cores/slots.rs", not)])).is_empty());
    }

    #[test]
    fn a_long_file_is_found() {
        let long = format!("struct Heart {{\n    a: u8,\n}}\n{}", "// x\n".repeat(500));
        let found = check(&HOUSE, &files(&[("h.rs", &long)]));
        assert_eq!(found, ["house: h.rs has 503 lines; divide it (at most 500)"]);
    }
}
