//! The rules of the house that no compiler knows: which crate may use which, how long a file may be, which words
//! are not ours, and that generated and copied files are in place.

mod house;
mod paths;
mod rooms;
mod size;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use cargo_metadata::DependencyKind;

use house::{House, is_test};
use size::Ceilings;
pub(crate) use size::{SizeArgs, size};

/// Crates that know no file, clock, thread or hash order: each bans them in a `clippy.toml` of its own.
const PURE: &[&str] = &["topo", "place", "policy", "cluster", "advise"];

/// The floors of the house, the lowest first. A crate uses crates of its own floor and of those below it; `hub` and `sim`
/// lie beside each other.
const FLOORS: &[(&str, u8)] = &[
    ("crates/core", 0),
    ("crates/host", 1),
    ("crates/hub", 2),
    ("crates/sim", 2),
    ("crates/doors", 3),
    ("tools", 4),
];

/// The longest file, in lines; tests in files of their own may be longer.
const LINES_MAX: usize = 500;

/// Words that have another name here (GLOSSARY.md), as they would stand in code. In two pieces, so that this
/// table does not find itself.
const WORDS: &[(&str, &str, &str)] = &[
    ("hyper", "thread", "PU"),
    ("white", "list", "allowed"),
    ("black", "list", "refused"),
    ("todo", "!(", "the real thing"),
    ("#[ig", "nore]", "the reason: a test without its prerequisites is ignored for a reason"),
];

/// Test programs with a list of their own (`harness = false`): the compiler drops a function with the attribute there.
const TRIALS: &[&str] = &[
    "crates/doors/cli/tests/e2e",
    "crates/host/sys/tests/contract",
    "crates/host/sys/tests/faults.rs",
    "crates/host/sys/tests/records.rs",
    "crates/host/sys/tests/strangers.rs",
];

/// Crates that call the kernel by themselves: the one that is there for it, and the kernel that tests are given in its place.
/// The tests of all crates, the bench and this program may as well.
const KERNEL: &[&str] = &["sys", "testkit"];
const KERNEL_CALLS: &[&str] = &["rustix", "libc", "nix"];

/// Checks everything, and names everything that is wrong.
pub(crate) fn tidy() -> anyhow::Result<()> {
    let house = House::read()?;
    let (root, files) = (&house.root, &house.tracked);
    let mut wrong = Vec::new();
    dependencies(&house, &mut wrong)?;
    for file in files {
        if file.extension().is_some_and(|ending| ending == "rs") {
            source(root, file, &mut wrong)?;
        }
    }
    for pure in PURE {
        if !house.folders.get(*pure).is_some_and(|folder| root.join(folder).join("clippy.toml").exists()) {
            wrong.push(format!(
                "{pure} is pure and has no clippy.toml that bans files, clocks and hash order"
            ));
        }
    }
    let kept = Ceilings::kept(root)?;
    wrong.extend(Ceilings::of(&house).above(&kept));
    for of in house.crates.values() {
        wrong.extend(rooms::check(of));
        wrong.extend(rooms::told_loops(of, kept.widest_loop(&of.name)));
    }
    for data in files.iter().filter(|file| file.starts_with("fixtures") && file.components().count() > 2) {
        let origin: PathBuf = data.components().take(2).collect::<PathBuf>().join("ORIGIN.md");
        if !root.join(&origin).exists() {
            wrong.push(format!(
                "{} comes from somewhere, and {} does not say where",
                data.display(),
                origin.display()
            ));
        }
    }
    wrong.sort();
    wrong.dedup();
    if wrong.is_empty() {
        println!("tidy: {} files, nothing to object to", files.len());
        return Ok(());
    }
    bail!("{}", wrong.join("\n"))
}

/// The floor that a folder lies on, and its height.
fn floor(folder: &Path) -> Option<(&'static str, u8)> {
    FLOORS.iter().copied().find(|(floor, _)| folder.parent() == Some(Path::new(floor)))
}

/// Whether a crate may use another by where they lie: on the same floor, or on one below.
fn is_downward(from: (&str, u8), to: (&str, u8)) -> bool {
    from.0 == to.0 || from.1 > to.1
}

/// Compares the dependencies between the project's crates with their floors and with the table of ARCHITECTURE.md.
fn dependencies(house: &House, wrong: &mut Vec<String>) -> anyhow::Result<()> {
    let House { root, metadata, folders, .. } = house;
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    let allowed = arrows(&text);
    let mut used_crates = BTreeSet::new();
    for package in &metadata.packages {
        let name = package.name.trim_start_matches("pinfold-");
        let Some(may_use) = allowed.get(name) else {
            wrong.push(format!("{name} is not in the table of crates of ARCHITECTURE.md"));
            continue;
        };
        let Some(own_floor) = folders.get(name).and_then(|folder| floor(folder)) else {
            wrong.push(format!("{name} lies on no floor (crates/core, host, hub, sim, doors; tools)"));
            continue;
        };
        let in_product = own_floor.0 != "tools";
        if in_product && !KERNEL.contains(&name) {
            let of_normal = package.dependencies.iter().filter(|used| used.kind == DependencyKind::Normal);
            let calls = of_normal.filter(|used| KERNEL_CALLS.contains(&used.name.as_str()));
            wrong.extend(calls.map(|used| {
                format!(
                    "{name} depends on {}; only sys calls the kernel: give it a function there",
                    used.name
                )
            }));
        }
        for used in &package.dependencies {
            let ours = used.path.is_some();
            // For tests a crate may also use the kit made for them, and what it is itself tested through.
            let for_tests = used.kind == DependencyKind::Development;
            let used = used.name.trim_start_matches("pinfold-");
            if ours && !for_tests {
                used_crates.insert((name.to_owned(), used.to_owned()));
                if !may_use.contains(used) {
                    wrong.push(format!(
                        "{name} uses {used}, which the table of ARCHITECTURE.md does not allow"
                    ));
                }
                let used_floor = folders.get(used).and_then(|folder| floor(folder));
                if used_floor.is_some_and(|below| !is_downward(own_floor, below)) {
                    wrong.push(format!("{name} uses {used}, which lies on a floor beside or above its own"));
                }
            }
        }
    }
    for (name, may_use) in &allowed {
        for idle in may_use.iter().filter(|used| !used_crates.contains(&(name.clone(), (**used).to_owned())))
        {
            wrong.push(format!("ARCHITECTURE.md lets {name} use {idle}, which it does not"));
        }
    }
    Ok(())
}

/// The table of crates: each with those that it may use. Rows of what is no crate have none and harm nothing.
fn arrows(text: &str) -> BTreeMap<String, BTreeSet<&str>> {
    let rows = text.lines().skip_while(|line| !line.starts_with("| crate | what | may use |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let name = cells.first()?.trim_matches('`').trim_end_matches('/');
        let used = cells.last()?.split(", ").filter(|used| *used != "-");
        Some((name.to_owned(), used.collect()))
    })
    .collect()
}

fn source(root: &Path, file: &Path, wrong: &mut Vec<String>) -> anyhow::Result<()> {
    let text = fs::read_to_string(root.join(file)).with_context(|| file.display().to_string())?;
    let name = file.display();
    let lines = text.lines().count();
    let is_test = is_test(file);
    if lines > LINES_MAX && !is_test {
        wrong.push(format!("{name}: {lines} lines; divide it (at most {LINES_MAX})"));
    }
    if !is_test && !text.starts_with("//!") {
        wrong.push(format!("{name}: begins without saying what it is for (`//!`)"));
    }
    let unsafe_word = concat!("unsafe", " {");
    if text.contains(unsafe_word) && !file.starts_with("crates/host/sys") {
        wrong.push(format!("{name}: unsafe code outside crates/host/sys"));
    }
    if TRIALS.iter().any(|place| file.starts_with(place)) && text.contains(concat!("#[", "test]")) {
        wrong.push(format!("{name}: the list of tests in this program is its own; no attribute makes one"));
    }
    for (number, line) in (1..).zip(text.lines()) {
        let lower = line.to_lowercase();
        for (head, tail, better) in WORDS {
            if lower.contains(&format!("{head}{tail}")) {
                wrong.push(format!("{name}:{number}: `{head}{tail}`; we say: {better}"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_go_down_the_floors() {
        let on = |folder: &str| floor(Path::new(folder)).expect("a floor");
        assert!(is_downward(on("crates/doors/cli"), on("crates/hub/hubwire")));
        assert!(is_downward(on("crates/sim/whatif"), on("crates/sim/sim")));
        assert!(!is_downward(on("crates/hub/hub"), on("crates/sim/sim")), "beside each other");
        assert!(!is_downward(on("crates/core/policy"), on("crates/host/proto")));
        assert_eq!(floor(Path::new("crates/policy")), None);
    }

    #[test]
    fn the_table_is_read() {
        let text = "words\n| crate | what | may use |\n| --- | --- | --- |\n| `topo` | a, b | - |\n\
                    | `bench/` | c | topo, place |\nmore\n| `later` | d | topo |\n";
        let table = arrows(text);
        assert_eq!(table.keys().collect::<Vec<_>>(), ["bench", "topo"]);
        assert_eq!(table["bench"], BTreeSet::from(["place", "topo"]));
        assert!(table["topo"].is_empty());
    }
}
