//! The documentation as a site: renders `docs/SUMMARY.md` and all linked pages, and checks every link and anchor.
//!
//! The sources have mdBook's form (`book.toml`, `docs/SUMMARY.md`), so that mdBook renders them too; this renderer is small
//! enough to run in each suite, also checks the pages outside of `docs/` (README, ARCHITECTURE and so on), and keeps the
//! reference pages that are made from the code. Absent here: the network; links to other hosts are not followed.

mod links;
mod pages;
mod reference;
mod summary;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use pages::Page;

#[derive(Debug, clap::Args)]
pub(crate) struct BookArgs {
    /// Directory of the site
    #[arg(long, value_name = "DIR", default_value = "target/book")]
    out: PathBuf,
    /// Write the pages that are made from the code anew
    #[arg(long)]
    bless: bool,
}

/// Pages outside of `docs/` that are part of the site.
const ROOTS: [&str; 6] =
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "GLOSSARY.md", "CHANGELOG.md", "docs/SUMMARY.md"];

pub(crate) fn book(args: &BookArgs) -> anyhow::Result<()> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("xtask lies in the project")?;
    let mut faults = reference::hold(root, args.bless)?;
    let summary = summary::read(root)?;
    let pages = read_all(root)?;
    faults.extend(links::faults(root, &pages));
    faults.extend(summary::faults(&summary, &pages));
    if !faults.is_empty() {
        for fault in &faults {
            eprintln!("book: {fault}");
        }
        bail!("{} faults in the documentation", faults.len());
    }
    let out = root.join(&args.out);
    pages::write(root, &out, &pages, &summary)?;
    println!("book: {} pages in {}, every link and anchor leads somewhere", pages.len(), out.display());
    Ok(())
}

/// All pages: the pages outside of `docs/`, and all pages below it.
fn read_all(root: &Path) -> anyhow::Result<Vec<Page>> {
    let mut paths: Vec<PathBuf> = ROOTS.iter().map(PathBuf::from).collect();
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        let listed = fs::read_dir(root.join(&folder))
            .with_context(|| format!("failed to list {}", folder.display()))?;
        for entry in listed {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") && !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths.into_iter().map(|path| Page::read(root, path)).collect()
}
