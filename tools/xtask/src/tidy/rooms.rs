//! What holds of rooms: no wide loop of uses, few fields in the structs that hold the rooms together, uses that go down.
//!
//! Works on the code of files without comments and tests. Absent: which files there are.

use std::collections::{BTreeMap, BTreeSet};

use super::house::Crate;
use super::source::Source;

/// The files of a crate by their paths below its `src`.
type Files = BTreeMap<String, Source>;

/// Structs that hold rooms together: crate, struct, and whether its fields are all private.
const HEARTS: &[(&str, &str, bool)] =
    &[("daemon", "Daemon", true), ("policy", "Policy", true), ("policy", "Rooms", false)];

/// Folders of a crate in order, the highest first: a file uses files of its own level and of those below.
const LEVELS: &[(&str, &[&[&str]])] = &[
    ("daemon", &[&["reactor"], &["jobs", "host", "meters", "surroundings", "clients", "store"], &["core"]]),
    (
        "policy",
        &[
            &["step"],
            &["explain"],
            &["schedule"],
            &["memory"],
            &["shares"],
            &["queue"],
            &["cores"],
            &["apply"],
            &["jobs"],
            &["api"],
        ],
    ),
];

/// The most files that use each other in a loop.
pub(super) const LOOP_MAX: usize = 3;
/// The most fields of a struct that holds rooms together.
const FIELDS_MAX: usize = 10;

/// Places in the policy where all rooms are taken to be changed, at most,
const ALL_ROOMS_MAX: usize = 79;
/// and the files that may: where an event is routed, where what follows from it is put together, and what takes memory
/// and slots back for a pool.
const ALL_ROOMS_IN: [&str; 3] = ["schedule/", "shares/reclaim", "step.rs"];

/// Names everything that is wrong with a crate.
pub(super) fn check(of: &Crate) -> Vec<String> {
    let (name, files) = (of.name.as_str(), &of.files);
    let mut wrong = Vec::new();
    if name == "policy" {
        let handed_on = |(path, file): (&String, &Source)| {
            file.code.lines().any(hands_on_a_job).then(|| {
                format!("{name}: {path} gives other rooms a job to change; make it a change with a name in jobs/changes")
            })
        };
        wrong.extend(files.iter().filter(|(path, _)| path.starts_with("jobs")).filter_map(handed_on));
        wrong.extend(beyond_its_room(files));
    }
    for &(_, heart, is_private) in HEARTS.iter().filter(|(of, ..)| *of == name) {
        match files.values().find_map(|file| fields(&file.code, heart)) {
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
    wrong
}

/// Each group of files that use each other in a loop wider than a bound, with its uses.
pub(super) fn told_loops(of: &Crate, most: usize) -> Vec<String> {
    let told = |group: Vec<String>| {
        let uses = |path: &String| {
            let used = used(path, &of.files);
            let within: Vec<String> = used.into_iter().filter(|used| group.contains(used)).collect();
            format!("  {path} uses {}", within.join(", "))
        };
        let uses: Vec<String> = group.iter().map(uses).collect();
        let name = &of.name;
        format!(
            "{name}: {} files use each other in a loop (at most {most}):\n{}",
            group.len(),
            uses.join("\n")
        )
    };
    loops(&of.files).into_iter().filter(|group| group.len() > most).map(told).collect()
}

/// The uses of a crate from a level to one above it, each as `crate: file -> level`.
pub(super) fn upward(of: &Crate) -> Vec<String> {
    let Some((_, levels)) = LEVELS.iter().find(|(name, _)| *name == of.name) else { return Vec::new() };
    let level = |path: &str| {
        let folder = path.split('/').next().unwrap_or(path).trim_end_matches(".rs").to_owned();
        levels.iter().position(|names| names.contains(&folder.as_str())).map(|height| (height, folder))
    };
    let mut found = BTreeSet::new();
    for path in of.files.keys() {
        let Some((own, _)) = level(path) else { continue };
        for (height, folder) in used(path, &of.files).iter().filter_map(|used| level(used)) {
            if height < own {
                found.insert(format!("{}: {path} -> {folder}", of.name));
            }
        }
    }
    found.into_iter().collect()
}

/// Whether a line is a function through which a room beside `jobs` could change a job.
fn hands_on_a_job(line: &str) -> bool {
    let changeable = ["&mut Job>", "&mut Job ", "&mut Live", "&mut Waiting", "&mut Stage"];
    let returned = line.split_once("->").map_or("", |(_, returned)| returned);
    line.trim().starts_with("pub(crate) fn") && changeable.iter().any(|one| returned.contains(one))
}

/// How often each file takes all rooms of the policy to change them.
pub(super) fn takes_all_rooms(files: &Files) -> BTreeMap<&str, usize> {
    let counts = files.iter().map(|(path, file)| (path.as_str(), file.code.matches("&mut Rooms").count()));
    counts.filter(|(_, count)| *count > 0).collect()
}

/// What takes all rooms of the policy though it may not.
fn beyond_its_room(files: &Files) -> Vec<String> {
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
pub(super) fn loops(files: &Files) -> Vec<Vec<String>> {
    let uses: BTreeMap<&str, BTreeSet<String>> =
        files.keys().map(|path| (path.as_str(), used(path, files))).collect();
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

/// The files that a file uses: those in which the names are defined that it has by paths from the root, from the modules
/// around it, and from its own child modules. A name that a module hands on counts where it is defined.
fn used(path: &str, files: &Files) -> BTreeSet<String> {
    let (own, file) = (module(path), &files[path]);
    let paths = file.imports.iter().chain(&file.named).filter_map(|path| absolute(&own, path, files));
    let mut used: BTreeSet<String> = paths.filter_map(|path| defined_in(&path, files, 0)).collect();
    used.remove(path);
    used
}

/// The path of a file's module from the root.
fn module(path: &str) -> Vec<String> {
    let names = path.trim_end_matches(".rs").split('/').map(str::to_owned);
    if matches!(path, "lib.rs" | "main.rs") { Vec::new() } else { names.collect() }
}

/// A path as it stands in a module, from the root; `None`: it begins with the name of another crate.
fn absolute(own: &[String], path: &[String], files: &Files) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([own, rest].concat()),
        "super" => {
            let above = rest.iter().take_while(|name| *name == "super").count();
            let base = own.get(..own.len().checked_sub(above + 1)?)?;
            Some([base, &rest[above..]].concat())
        }
        _ => {
            let child = [own, path].concat();
            files.contains_key(&file_of(&child[..=own.len()], files)).then_some(child)
        }
    }
}

/// The file of a module by its path from the root.
fn file_of(module: &[String], files: &Files) -> String {
    match module {
        [] if files.contains_key("lib.rs") => "lib.rs".to_owned(),
        [] => "main.rs".to_owned(),
        names => format!("{}.rs", names.join("/")),
    }
}

/// How many modules hand a name on at most before it is defined.
const HANDED_ON_MAX: usize = 8;

/// The file in which the name is defined that a path from the root leads to.
fn defined_in(path: &[String], files: &Files, handed_on: usize) -> Option<String> {
    let module =
        (0..=path.len()).rev().find(|length| files.contains_key(&file_of(&path[..*length], files)))?;
    let (module, rest) = path.split_at(module);
    let file = file_of(module, files);
    let further = rest.first().filter(|_| handed_on < HANDED_ON_MAX).and_then(|name| {
        let mut handed = files[&file].imports.iter().filter(|import| import.last() == Some(name));
        let import = handed.find_map(|import| absolute(module, import, files))?;
        defined_in(&[&import, &rest[1..]].concat(), files, handed_on + 1)
    });
    further.or(Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn house(name: &str, files: &[(&str, &str)]) -> Crate {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), Source::read(text, false)));
        Crate { name: name.to_owned(), files: files.collect(), tests: 0 }
    }

    #[test]
    fn a_wide_loop_is_found_and_a_narrow_one_is_not() {
        let wide = [
            ("main.rs", ""),
            ("a.rs", "use crate::b::{self, B};\n"),
            ("b.rs", "use crate::c::C;\nuse crate::heart::Heart;\n"),
            ("c.rs", "fn c() {\n    crate::d::d()\n}\n"),
            ("d.rs", "use crate::{a::A, heart::Heart};\n"),
            ("heart.rs", ""),
        ];
        let told = |files: &[(&str, &str)]| told_loops(&house("house", files), 3);
        let one = "house: 4 files use each other in a loop (at most 3):\n  a.rs uses b.rs\n  b.rs uses c.rs\n  c.rs uses \
                   d.rs\n  d.rs uses a.rs";
        assert_eq!(told(&wide), [one]);
        let mut narrow = wide;
        narrow[4].1 = "// crate::d::d()\nuse crate::a::A;\n";
        narrow[3].1 = "";
        assert!(told(&narrow).is_empty());
        let mut tests = wide;
        tests[3].1 = "fn c() {}\n#[cfg(test)]\nmod tests {\n    use crate::d::d;\n}\n";
        assert!(told(&tests).is_empty());
    }

    #[test]
    fn a_name_that_modules_hand_on_counts_where_it_is_defined() {
        let files = [
            ("lib.rs", "pub use room::X;\n"),
            ("room.rs", "mod x;\nmod y;\npub use x::X;\npub(crate) use y::{Y, Z};\n"),
            ("room/x.rs", "use crate::room::Y;\n"),
            ("room/y.rs", "use crate::X;\n"),
        ];
        let of = house("house", &files);
        assert_eq!(loops(&of.files), [["room/x.rs", "room/y.rs"]]);
    }

    #[test]
    fn uses_of_the_modules_around_are_found() {
        let files = [
            ("lib.rs", ""),
            ("room.rs", "use x::X;\nuse std::fmt;\n"),
            ("room/x.rs", "use super::y::{self, Y};\nfn f(room: &super::Room) {}\n"),
            ("room/y.rs", "use super::super::other::Other;\nuse super::{X, fmt};\n"),
            ("other.rs", "use super::*;\n"),
        ];
        let of = house("house", &files);
        let uses = |path: &str| used(path, &of.files).into_iter().collect::<Vec<_>>();
        assert_eq!(uses("room/x.rs"), ["room.rs", "room/y.rs"]);
        assert_eq!(uses("room/y.rs"), ["other.rs", "room.rs", "room/x.rs"]);
        assert_eq!(uses("other.rs"), ["lib.rs"]);
        assert_eq!(uses("room.rs"), ["room/x.rs"]);
    }

    #[test]
    fn uses_of_a_level_above_are_found() {
        let files = [
            ("main.rs", ""),
            ("core.rs", ""),
            ("core/outbox.rs", "use crate::store::Store;\n"),
            ("store.rs", "use crate::core::Clock;\nuse crate::jobs::Jobs;\n"),
            ("jobs.rs", "use super::reactor::Daemon;\n"),
            ("reactor.rs", "use crate::jobs::Jobs;\n"),
        ];
        let up = upward(&house("daemon", &files));
        assert_eq!(up, ["daemon: core/outbox.rs -> store", "daemon: jobs.rs -> reactor"]);
    }

    #[test]
    fn a_heart_with_many_or_open_fields_is_found() {
        let many: String = (0..11).map(|at| format!("    /// A: field.\n    f{at}: u8,\n")).collect();
        let daemon = |text: &str| check(&house("daemon", &[("h.rs", text)]));
        assert_eq!(
            daemon(&format!("struct Daemon {{\n{many}}}\n")),
            ["daemon: Daemon has 11 fields (at most 10)"]
        );
        let found = daemon("struct Daemon {\n    pub(crate) a: u8,\n    b: u8,\n}\n");
        assert_eq!(found, ["daemon: Daemon: the field `pub(crate) a` is not private"]);
        assert_eq!(daemon(""), ["daemon has no struct Daemon, which holds its rooms"]);
    }

    /// What is wrong with a file of the policy beside the structs that hold its rooms.
    fn policy(files: &[(&str, &str)]) -> Vec<String> {
        let hearts = [("hearts.rs", "struct Policy {\n    a: u8,\n}\nstruct Rooms {\n    a: u8,\n}\n")];
        check(&house("policy", &[&hearts, files].concat()))
    }

    #[test]
    fn a_job_that_others_could_change_is_found() {
        let file = |text: &str| policy(&[("jobs/table.rs", text)]);
        let found = file("    pub(crate) fn get_mut(&mut self, id: &JobId) -> Option<&mut Job> {\n");
        assert!(found.len() == 1 && found[0].contains("jobs/table.rs gives other rooms a job"), "{found:?}");
        assert!(file("    pub(super) fn live_mut(&mut self, id: JobId) -> Option<&mut Live> {\n").is_empty());
        assert!(file("    pub(crate) fn fire(&mut self, id: JobId) -> Fired {\n").is_empty());
    }

    #[test]
    fn functions_that_take_all_rooms_are_found() {
        let takes = "fn f(rooms: &mut Rooms) {}\n";
        let found = policy(&[("cores/slots.rs", takes), ("step.rs", takes)]);
        assert!(found.len() == 1 && found[0].contains("cores/slots.rs takes `&mut Rooms`"), "{found:?}");
        let many = takes.repeat(ALL_ROOMS_MAX + 1);
        let found = policy(&[("schedule/pass.rs", &many)]);
        assert!(found.len() == 1 && found[0].contains("(at most "), "{found:?}");
        let not = "/// `&mut Rooms`\nfn f(rooms: &Rooms) {}\n#[cfg(test)]\nmod tests {\n    fn g(r: &mut Rooms) {}\n}\n";
        assert!(policy(&[("cores/slots.rs", not)]).is_empty());
    }
}
