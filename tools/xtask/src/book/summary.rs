//! `docs/SUMMARY.md`: the order of the pages, as mdBook reads it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::links::resolve;
use super::pages::Page;

/// A line of the summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// A heading of several pages.
    Part(String),
    /// A page: how deep, its title, its path in the project.
    Page(usize, String, PathBuf),
}

/// Reads the summary.
pub(super) fn read(root: &Path) -> anyhow::Result<Vec<Entry>> {
    let path = root.join("docs/SUMMARY.md");
    parse(&fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?)
}

fn parse(text: &str) -> anyhow::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    // The first heading is the page's own.
    for line in text.lines().skip(1).filter(|line| !line.trim().is_empty()) {
        if let Some(part) = line.strip_prefix("# ") {
            entries.push(Entry::Part(part.to_owned()));
            continue;
        }
        let bare = line.trim_start();
        let depth = (line.len() - bare.len()) / 2;
        let link = bare.strip_prefix("- ").unwrap_or(bare);
        let parts = link
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(')'))
            .and_then(|rest| rest.split_once("]("));
        let Some((title, target)) = parts else { bail!("docs/SUMMARY.md: `{line}` is no link to a page") };
        entries.push(Entry::Page(depth, title.to_owned(), resolve(Path::new("docs/SUMMARY.md"), target)));
    }
    Ok(entries)
}

/// Orphaned pages: neither listed nor linked from another page.
pub(super) fn faults(summary: &[Entry], pages: &[Page]) -> Vec<String> {
    let listed = summary.iter().filter_map(|entry| match entry {
        Entry::Page(_, _, path) => Some(path.clone()),
        Entry::Part(_) => None,
    });
    let linked = pages.iter().flat_map(|page| {
        page.links.iter().map(|link| resolve(&page.path, link)).filter(|target| *target != page.path)
    });
    let found: BTreeSet<PathBuf> = listed.chain(linked).collect();
    let lost =
        pages.iter().filter(|page| page.path.starts_with("docs") && !page.path.ends_with("SUMMARY.md"));
    lost.filter(|page| !found.contains(&page.path))
        .map(|page| format!("{}: no page and no line of docs/SUMMARY.md leads to it", page.path.display()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_pages() {
        let text = "# Summary\n\n# Start\n\n- [Install](install.md)\n  - [More](more/a.md)\n- [House](../ARCHITECTURE.md)\n";
        let page = |depth, title: &str, path: &str| Entry::Page(depth, title.to_owned(), PathBuf::from(path));
        let want = [
            Entry::Part("Start".to_owned()),
            page(0, "Install", "docs/install.md"),
            page(1, "More", "docs/more/a.md"),
            page(0, "House", "ARCHITECTURE.md"),
        ];
        assert_eq!(parse(text).unwrap(), want);
        assert!(parse("# Summary\n- nothing\n").is_err());
    }
}
