//! The crates of the workspace with their sources, as the checks of this folder read them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use super::source::Source;

/// The workspace.
pub(super) struct House {
    pub(super) root: PathBuf,
    /// Files that git knows, from the root.
    pub(super) tracked: Vec<PathBuf>,
    pub(super) metadata: cargo_metadata::Metadata,
    /// The folder of each crate, from the root.
    pub(super) folders: BTreeMap<String, PathBuf>,
    pub(super) crates: BTreeMap<String, Crate>,
}

/// A crate: its files below `src` by path, but for tests in files of their own.
pub(super) struct Crate {
    pub(super) name: String,
    pub(super) files: BTreeMap<String, Source>,
    /// Lines of tests in files of their own.
    pub(super) tests: usize,
}

impl House {
    pub(super) fn read() -> anyhow::Result<Self> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = here.ancestors().nth(2).map(Path::to_path_buf).context("xtask lies in the project")?;
        let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec().context("cargo metadata")?;
        let folders = folders(&root, &metadata);
        let tracked = tracked(&root)?;
        let crates =
            folders.iter().map(|(name, folder)| Ok((name.clone(), read(&root, name, folder, &tracked)?)));
        let crates = crates.collect::<anyhow::Result<_>>()?;
        Ok(Self { root, tracked, metadata, folders, crates })
    }
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

/// The folder of each of the project's crates, from the root.
fn folders(root: &Path, metadata: &cargo_metadata::Metadata) -> BTreeMap<String, PathBuf> {
    let folder = |package: &cargo_metadata::Package| {
        let folder = package.manifest_path.as_std_path().parent()?.strip_prefix(root).ok()?;
        Some((package.name.trim_start_matches("pinfold-").to_owned(), folder.to_path_buf()))
    };
    metadata.packages.iter().filter_map(folder).collect()
}

fn read(root: &Path, name: &str, folder: &Path, tracked: &[PathBuf]) -> anyhow::Result<Crate> {
    let mut read = Crate { name: name.to_owned(), files: BTreeMap::new(), tests: 0 };
    let source_folder = folder.join("src");
    for file in tracked
        .iter()
        .filter(|file| file.starts_with(folder) && file.extension().is_some_and(|ending| ending == "rs"))
    {
        let text = fs::read_to_string(root.join(file)).with_context(|| file.display().to_string())?;
        // The kit for tests has no product.
        let tests_alone = is_test(file) || name == "testkit";
        let source = Source::read(&text, tests_alone);
        match file.strip_prefix(&source_folder) {
            Ok(path) if !tests_alone => drop(read.files.insert(path.display().to_string(), source)),
            _ => read.tests += source.test,
        }
    }
    let tests = modules_of_tests(&read.files);
    for path in tests {
        read.tests += read.files.remove(&path).map_or(0, |file| file.product + file.test);
    }
    Ok(read)
}

/// Files, and folders of files, that are compiled for tests alone.
fn modules_of_tests(files: &BTreeMap<String, Source>) -> BTreeSet<String> {
    let declared = files.iter().flat_map(|(path, file)| {
        let own = path.trim_end_matches(".rs");
        let own = if matches!(own, "lib" | "main") { String::new() } else { format!("{own}/") };
        file.test_modules.iter().map(move |module| format!("{own}{module}"))
    });
    let declared: Vec<String> = declared.collect();
    let inside = |path: &&String| {
        declared.iter().any(|module| {
            path.strip_prefix(module.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        })
    };
    files.keys().filter(inside).cloned().collect()
}

/// Whether a file is a test as a whole, by its path.
pub(super) fn is_test(file: &Path) -> bool {
    file.components().any(|part| part.as_os_str() == "tests")
        || file.display().to_string().ends_with("tests.rs")
}
