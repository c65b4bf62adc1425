//! The rules of the house that no compiler knows: which crate may use which, how long a file may be, which words
//! are not ours, and that generated and copied files are in place.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

/// What each crate may use of the project's own; ARCHITECTURE.md shows the same.
const MAY_USE: &[(&str, &[&str])] = &[
    ("pinfold-topo", &[]),
    ("pinfold-place", &["pinfold-topo"]),
    ("pinfold-policy", &["pinfold-topo", "pinfold-place"]),
    ("pinfold-proto", &["pinfold-topo"]),
    ("pinfold-sys", &["pinfold-topo"]),
    ("pinfold-profile", &["pinfold-proto"]),
    ("pinfold-cluster", &[]),
    ("pinfold-sim", &["pinfold-policy", "pinfold-topo"]),
    (
        "pinfold-daemon",
        &[
            "pinfold-topo",
            "pinfold-place",
            "pinfold-policy",
            "pinfold-proto",
            "pinfold-sys",
            "pinfold-profile",
        ],
    ),
    (
        "pinfold-cli",
        &[
            "pinfold-cluster",
            "pinfold-topo",
            "pinfold-place",
            "pinfold-proto",
            "pinfold-sys",
            "pinfold-profile",
        ],
    ),
    ("pinfold-testkit", &["pinfold-topo", "pinfold-sys"]),
    ("pinfold-bench", &["pinfold-topo", "pinfold-place", "pinfold-proto", "pinfold-profile", "pinfold-sim"]),
    ("xtask", &["pinfold-topo", "pinfold-policy", "pinfold-proto", "pinfold-sim", "pinfold-sys"]),
];

/// Crates that know no file, clock, thread or hash order: each bans them in a `clippy.toml` of its own.
const PURE: &[&str] = &["topo", "place", "policy", "cluster"];

/// The longest file, in lines; tests in files of their own may be longer.
const LINES_MAX: usize = 800;

/// Words that have another name here (GLOSSARY.md), as they would stand in code. In two pieces, so that this
/// table does not find itself.
const WORDS: &[(&str, &str, &str)] = &[
    ("hyper", "thread", "PU"),
    ("white", "list", "allowed"),
    ("black", "list", "refused"),
    ("todo", "!(", "the real thing"),
    ("#[ig", "nore", "a test that says why it is skipped"),
];

/// Checks everything, and names everything that is wrong.
pub(crate) fn tidy() -> anyhow::Result<()> {
    let root = root()?;
    let files = tracked(&root)?;
    let mut wrong = Vec::new();
    dependencies(&mut wrong)?;
    for file in &files {
        if file.extension().is_some_and(|ending| ending == "rs") {
            source(&root, file, &mut wrong)?;
        }
    }
    for pure in PURE {
        if !root.join("crates").join(pure).join("clippy.toml").exists() {
            wrong.push(format!(
                "crates/{pure} is pure and has no clippy.toml that bans files, clocks and hash order"
            ));
        }
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

fn root() -> anyhow::Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(Path::to_path_buf).context("xtask lies in the project")
}

fn tracked(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let listed =
        Command::new("git").args(["ls-files", "-z"]).current_dir(root).output().context("git ls-files")?;
    if !listed.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim());
    }
    let names = String::from_utf8(listed.stdout).context("file names")?;
    // A file that was removed and not yet committed is listed still.
    Ok(names
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        .filter(|f| root.join(f).exists())
        .collect())
}

/// Holds the dependencies between the project's crates against [`MAY_USE`].
fn dependencies(wrong: &mut Vec<String>) -> anyhow::Result<()> {
    let allowed: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec().context("cargo metadata")?;
    for package in &metadata.packages {
        let Some(may_use) = allowed.get(package.name.as_str()) else {
            wrong.push(format!("{} is not in the list of crates of xtask/src/tidy.rs", package.name));
            continue;
        };
        for used in &package.dependencies {
            let ours = used.path.is_some();
            // For tests a crate may also use the kit made for them, and what it is itself tested through.
            let for_tests = used.kind == cargo_metadata::DependencyKind::Development;
            if ours && !for_tests && !may_use.contains(&used.name.as_str()) {
                wrong.push(format!("{} uses {}, which lies beside or above it", package.name, used.name));
            }
        }
    }
    Ok(())
}

fn source(root: &Path, file: &Path, wrong: &mut Vec<String>) -> anyhow::Result<()> {
    let text = fs::read_to_string(root.join(file)).with_context(|| file.display().to_string())?;
    let name = file.display();
    let lines = text.lines().count();
    let is_test =
        file.components().any(|part| part.as_os_str() == "tests") || name.to_string().ends_with("tests.rs");
    if lines > LINES_MAX && !is_test {
        wrong.push(format!("{name}: {lines} lines; divide it (at most {LINES_MAX})"));
    }
    if !is_test && !text.starts_with("//!") {
        wrong.push(format!("{name}: begins without saying what it is for (`//!`)"));
    }
    let unsafe_word = concat!("unsafe", " {");
    if text.contains(unsafe_word) && !file.starts_with("crates/sys") {
        wrong.push(format!("{name}: unsafe code outside crates/sys"));
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
