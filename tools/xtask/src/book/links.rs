//! The targets of links: a page, a heading, or a file of the project.

use std::path::{Component, Path, PathBuf};

use super::pages::Page;

/// The path in the project that a link on `page` means, without its anchor.
pub(super) fn resolve(page: &Path, link: &str) -> PathBuf {
    let path = link.split('#').next().unwrap_or_default();
    if path.is_empty() {
        return page.to_path_buf();
    }
    let mut resolved = page.parent().unwrap_or(Path::new("")).to_path_buf();
    for component in Path::new(path).components() {
        match component {
            Component::ParentDir => {
                // A link out of the project keeps its path, and leads nowhere.
                if !resolved.pop() {
                    resolved.push("..");
                }
            }
            Component::Normal(name) => resolved.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    resolved
}

/// Whether a link leads to another host.
pub(super) fn is_outside(link: &str) -> bool {
    ["http://", "https://", "mailto:"].iter().any(|scheme| link.starts_with(scheme))
}

/// Links that lead nowhere.
pub(super) fn faults(root: &Path, pages: &[Page]) -> Vec<String> {
    let mut faults = Vec::new();
    for page in pages {
        for link in page.links.iter().filter(|link| !is_outside(link)) {
            let target = resolve(&page.path, link);
            let at = page.path.display();
            if !root.join(&target).exists() {
                faults.push(format!("{at}: `{link}` leads to {}, which is not there", target.display()));
                continue;
            }
            let Some(anchor) = link.split_once('#').map(|(_, anchor)| anchor) else { continue };
            let known = pages.iter().find(|page| page.path == target);
            if !known.is_some_and(|page| page.anchors.iter().any(|known| known == anchor)) {
                faults.push(format!("{at}: `{link}`: {} has no heading `#{anchor}`", target.display()));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_project() {
        let check = |page: &str, link: &str, want: &str| {
            assert_eq!(resolve(Path::new(page), link), PathBuf::from(want), "{page} {link}");
        };
        check("README.md", "docs/memory.md#the-proof", "docs/memory.md");
        check("docs/bench/README.md", "../../ARCHITECTURE.md", "ARCHITECTURE.md");
        check("docs/a.md", "#here", "docs/a.md");
        check("docs/a.md", "./b/../c.md", "docs/c.md");
        check("README.md", "../x", "../x");
    }
}
