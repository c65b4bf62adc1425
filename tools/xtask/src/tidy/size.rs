//! How large each crate is and how its comments speak, against ceilings that only go down (`tools/xtask/ceilings.toml`).
//!
//! Absent here: how a file is read ([`super::source`]), and which files use which ([`super::rooms`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::house::{Crate, House};
use super::rooms::{self, takes_all_rooms};

/// Pronouns that stand in place of a noun, by the group that has one ceiling.
const PRONOUNS: [(&str, &[&str]); 4] = [
    ("what", &["what", "whatever"]),
    ("one", &["one", "ones"]),
    ("those", &["those", "such"]),
    ("who", &["whose", "whom", "who", "whoever", "nobody", "somebody", "anybody"]),
];
/// A crate with fewer words of comments has no ceilings for pronouns: one sentence would decide.
const WORDS_MIN: usize = 500;

#[derive(Debug, Args)]
pub(crate) struct SizeArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write the present figures into the file of ceilings, each where it is lower
    #[arg(long)]
    lower: bool,
}

/// What is counted of a crate, and what it may come to at most.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Figures {
    /// Lines with code outside of tests.
    product: usize,
    /// Pronouns in a thousand words of comments, in tenths, by group; none: too few words.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pronouns: BTreeMap<String, usize>,
    /// Files of the widest loop of uses.
    widest_loop: usize,
}

/// The file of ceilings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Ceilings {
    /// Methods of the daemon's own type.
    daemon_methods: usize,
    /// Open fields of the daemon's record of a job.
    record_open_fields: usize,
    /// Functions of the policy that take all rooms, to read or to change.
    functions_with_rooms: usize,
    /// Uses from a room to a room above it, as `crate: file -> room`.
    upward: BTreeSet<String>,
    crates: BTreeMap<String, Figures>,
}

const FILE: &str = "tools/xtask/ceilings.toml";
const HEAD: &str = "# Ceilings of `cargo xtask tidy`, which only go down: `cargo xtask size --lower` writes lower ones.\n\
                    # `pronouns`: tenths in a thousand words of comments.\n\n";

/// `cargo xtask size`.
pub(crate) fn size(args: &SizeArgs) -> anyhow::Result<()> {
    let house = House::read()?;
    let (now, kept) = (Ceilings::of(&house), Ceilings::kept(&house.root)?);
    if args.lower {
        let text = HEAD.to_owned() + &toml::to_string(&now.lowered(kept)).context("ceilings as text")?;
        return std::fs::write(house.root.join(FILE), text).context(FILE);
    }
    if args.json {
        println!("{}", serde_json::to_string(&json(&house, &kept)).context("sizes as JSON")?);
    } else {
        print!("{}", table(&house, &now, &kept));
    }
    let wrong = now.above(&kept);
    if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("\n")) }
}

impl Ceilings {
    /// The figures of now.
    pub(super) fn of(house: &House) -> Self {
        let policy = house.crates.get("policy");
        let daemon = house.crates.get("daemon");
        let record = daemon.into_iter().flat_map(|daemon| daemon.files.values());
        let record =
            record.filter_map(|file| rooms::fields(&file.code, "JobRecord")).next().unwrap_or_default();
        Self {
            daemon_methods: daemon.map_or(0, |daemon| methods(daemon, "Daemon")),
            record_open_fields: record.iter().filter(|field| field.starts_with("pub")).count(),
            functions_with_rooms: policy
                .map_or(0, |policy| policy.files.values().map(|file| with_rooms(&file.code)).sum()),
            upward: house.crates.values().flat_map(rooms::upward).collect(),
            crates: house.crates.values().map(|one| (one.name.clone(), figures(one))).collect(),
        }
    }

    pub(super) fn kept(root: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(root.join(FILE)).context(FILE)?;
        toml::from_str(&text).context(FILE)
    }

    /// The most files of a crate that may use each other in a loop.
    pub(super) fn widest_loop(&self, name: &str) -> usize {
        self.crates.get(name).map_or(0, |most| most.widest_loop).max(rooms::LOOP_MAX)
    }

    /// Each figure that is above its ceiling, in words.
    pub(super) fn above(&self, kept: &Self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut check = |name: &str, now: usize, most: usize| {
            if now > most {
                wrong.push(format!("{name}: {now} (at most {most}, {FILE})"));
            }
        };
        check("methods of Daemon", self.daemon_methods, kept.daemon_methods);
        check("open fields of JobRecord", self.record_open_fields, kept.record_open_fields);
        check("functions of policy that take Rooms", self.functions_with_rooms, kept.functions_with_rooms);
        for (name, now) in &self.crates {
            let most = kept.crates.get(name).cloned().unwrap_or_default();
            check(&format!("{name}: product lines"), now.product, most.product);
            for (group, count) in &now.pronouns {
                let most = most.pronouns.get(group).copied().unwrap_or(0);
                check(&format!("{name}: `{group}` in 10,000 words of comments"), *count, most);
            }
        }
        wrong.extend(
            self.upward
                .difference(&kept.upward)
                .map(|used| format!("{used} goes up: a file uses its own level and those below")),
        );
        wrong
    }

    /// The lower of each figure and its ceiling; a crate that has no ceiling yet gets the figures of now.
    fn lowered(mut self, kept: Self) -> Self {
        self.daemon_methods = self.daemon_methods.min(kept.daemon_methods);
        self.record_open_fields = self.record_open_fields.min(kept.record_open_fields);
        self.functions_with_rooms = self.functions_with_rooms.min(kept.functions_with_rooms);
        self.upward = if kept.crates.is_empty() { self.upward } else { &self.upward & &kept.upward };
        for (name, now) in &mut self.crates {
            let Some(most) = kept.crates.get(name) else { continue };
            now.product = now.product.min(most.product);
            now.widest_loop = now.widest_loop.min(most.widest_loop);
            for (group, count) in &mut now.pronouns {
                *count = (*count).min(most.pronouns.get(group).copied().unwrap_or(*count));
            }
        }
        self
    }
}

fn figures(of: &Crate) -> Figures {
    let words: String = of.files.values().map(|file| file.words.to_lowercase()).collect();
    let count = words.split_whitespace().count();
    let mut used: BTreeMap<&str, usize> = BTreeMap::new();
    for word in words.split(|letter: char| !letter.is_alphanumeric() && letter != '_') {
        *used.entry(word).or_default() += 1;
    }
    let tenths = |group: &[&str]| {
        let found: usize = group.iter().filter_map(|word| used.get(word)).sum();
        (10_000 * found).div_ceil(count.max(1))
    };
    let pronouns = PRONOUNS.iter().map(|(group, words)| ((*group).to_owned(), tenths(words)));
    Figures {
        product: of.files.values().map(|file| file.product).sum(),
        pronouns: if count < WORDS_MIN { BTreeMap::new() } else { pronouns.collect() },
        widest_loop: rooms::loops(&of.files).iter().map(Vec::len).max().unwrap_or(0),
    }
}

/// The functions in blocks `impl NAME {`.
fn methods(of: &Crate, name: &str) -> usize {
    let begins = format!("impl {name} {{");
    let in_blocks = |code: &str| {
        let mut inside = false;
        code.lines()
            .filter(|line| {
                inside = (inside || line.trim_end() == begins) && *line != "}";
                inside && line.split_whitespace().any(|word| word == "fn")
            })
            .count()
    };
    of.files.values().map(|file| in_blocks(&file.code)).sum()
}

/// The functions that take all rooms.
fn with_rooms(code: &str) -> usize {
    let heads = code.split("fn ").skip(1).map(|rest| rest.split(['{', ';']).next().unwrap_or_default());
    heads.filter(|head| head.contains("&Rooms") || head.contains("&mut Rooms")).count()
}

fn table(house: &House, now: &Ceilings, kept: &Ceilings) -> String {
    let mut out =
        format!("{:<10} {:>7} {:>8} {:>6} {:>8}", "crate", "product", "ceiling", "tests", "comments");
    for (group, _) in PRONOUNS {
        let _ = write!(out, " {group:>6}");
    }
    out.push_str("   loop\n");
    let (mut product, mut tests) = (0, 0);
    for (name, figures) in &now.crates {
        let files = &house.crates[name].files;
        let test: usize = files.values().map(|file| file.test).sum::<usize>() + house.crates[name].tests;
        let comment: usize = files.values().map(|file| file.comment).sum();
        let most = kept.crates.get(name).map_or(0, |most| most.product);
        let _ = write!(out, "{name:<10} {:>7} {most:>8} {test:>6} {comment:>8}", figures.product);
        for (group, _) in PRONOUNS {
            let count = figures.pronouns.get(group).map(|tenths| format!("{}.{}", tenths / 10, tenths % 10));
            let _ = write!(out, " {:>6}", count.unwrap_or_default());
        }
        let _ = writeln!(out, " {:>6}", figures.widest_loop);
        (product, tests) = (product + figures.product, tests + test);
    }
    let _ = writeln!(out, "{:<10} {product:>7} {:>8} {tests:>6}", "all", "");
    let _ = writeln!(
        out,
        "methods of Daemon {}, open fields of JobRecord {}, functions of policy that take Rooms {}, uses of rooms above {}",
        now.daemon_methods,
        now.record_open_fields,
        now.functions_with_rooms,
        now.upward.len()
    );
    if let Some(policy) = house.crates.get("policy") {
        let all: usize = takes_all_rooms(&policy.files).values().sum();
        let _ = writeln!(out, "functions of policy that change all rooms {all}");
    }
    out
}

fn json(house: &House, kept: &Ceilings) -> serde_json::Value {
    let one = |of: &Crate| {
        let now = figures(of);
        serde_json::json!({
            "crate": of.name,
            "product_lines": now.product,
            "product_lines_ceiling": kept.crates.get(&of.name).map(|most| most.product),
            "test_lines": of.files.values().map(|file| file.test).sum::<usize>() + of.tests,
            "pronouns": now.pronouns,
            "widest_loop": now.widest_loop,
        })
    };
    serde_json::json!({ "version": 1, "crates": house.crates.values().map(one).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::*;

    fn one(name: &str, text: &str) -> Crate {
        let file = ("a.rs".to_owned(), Source::read(text, false));
        Crate { name: name.to_owned(), files: BTreeMap::from([file]), tests: 0 }
    }

    #[test]
    fn pronouns_are_counted_by_the_thousand_words() {
        let text = format!("//! What he said: one, ones. {}\nfn f() {{}}\n", "word ".repeat(995));
        let now = figures(&one("a", &text));
        let group = |name: &str| now.pronouns[name];
        assert_eq!((group("what"), group("one"), group("those"), group("who")), (10, 20, 0, 0));
        assert!(figures(&one("a", "// what\nfn f() {}\n")).pronouns.is_empty(), "too few words");
    }

    #[test]
    fn methods_and_functions_with_rooms_are_counted() {
        let text = "impl Daemon {\n    fn a(&self) {}\n    pub(crate) fn b(rooms: &Rooms) {}\n}\nimpl Other {\n    fn c() {}\n}\nfn d(rooms: &mut Rooms) {}\n";
        let of = one("daemon", text);
        assert_eq!(methods(&of, "Daemon"), 2);
        assert_eq!(with_rooms(&of.files["a.rs"].code), 2);
    }

    #[test]
    fn a_figure_above_its_ceiling_is_named_and_a_ceiling_never_rises() {
        let figures = |product| Figures { product, ..Figures::default() };
        let ceilings = |product, methods| Ceilings {
            daemon_methods: methods,
            crates: BTreeMap::from([("policy".to_owned(), figures(product))]),
            ..Ceilings::default()
        };
        let (now, kept) = (ceilings(11, 3), ceilings(10, 5));
        assert_eq!(now.above(&kept), ["policy: product lines: 11 (at most 10, tools/xtask/ceilings.toml)"]);
        assert_eq!(now.lowered(kept), ceilings(10, 3));
    }
}
