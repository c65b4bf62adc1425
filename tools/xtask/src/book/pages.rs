//! A page of Markdown: its links, its anchors, and its HTML.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use pulldown_cmark::{CowStr, Event, LinkType, Options, Parser, Tag, TagEnd, html};

use super::links::{is_outside, resolve};
use super::summary::Entry;

/// The style of all pages, for light and dark.
const STYLE: &str = include_str!("style.css");

#[derive(Debug)]
pub(super) struct Page {
    /// Its path in the project.
    pub(super) path: PathBuf,
    /// Its first heading.
    pub(super) title: String,
    text: String,
    /// The targets of its links, as written.
    pub(super) links: Vec<String>,
    /// The names of its headings.
    pub(super) anchors: Vec<String>,
}

impl Page {
    pub(super) fn read(root: &Path, path: PathBuf) -> anyhow::Result<Self> {
        let text = fs::read_to_string(root.join(&path))
            .with_context(|| format!("failed to read {}", path.display()))?;
        Ok(Self::parse(path, text))
    }

    fn parse(path: PathBuf, text: String) -> Self {
        let (mut links, mut headings) = (Vec::new(), Vec::new());
        let mut heading: Option<String> = None;
        for event in parser(&text) {
            match event {
                // An address for mail has no `mailto:` here.
                Event::Start(Tag::Link { link_type: LinkType::Email, .. }) => {}
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => headings.extend(heading.take()),
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                _ => {}
            }
        }
        let title = headings.first().cloned().unwrap_or_else(|| path.display().to_string());
        let mut names = Names::default();
        let anchors = headings.iter().map(|heading| names.name(heading)).collect();
        Self { path, title, text, links, anchors }
    }

    fn body(&self, root: &Path) -> String {
        let mut anchors = self.anchors.iter();
        let mut closed = Vec::new();
        let events = parser(&self.text).map(|event| match event {
            Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                let id = anchors.next().map(|anchor| CowStr::from(anchor.clone()));
                Event::Start(Tag::Heading { level, id, classes, attrs })
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) if link_type != LinkType::Email => {
                let dest_url = rendered(root, &self.path, &dest_url);
                // A link to no file of the site, for instance a directory, becomes plain text.
                closed.push(dest_url.is_none());
                match dest_url {
                    Some(dest_url) => {
                        Event::Start(Tag::Link { link_type, dest_url: dest_url.into(), title, id })
                    }
                    None => Event::Text("".into()),
                }
            }
            Event::Start(Tag::Link { .. }) => {
                closed.push(false);
                event
            }
            Event::End(TagEnd::Link) if closed.pop() == Some(true) => Event::Text("".into()),
            event => event,
        });
        let mut body = String::new();
        html::push_html(&mut body, events);
        body
    }
}

fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH)
}

/// A link as it stands in the site; `None` where it leads to a directory.
fn rendered(root: &Path, page: &Path, link: &str) -> Option<String> {
    if is_outside(link) {
        return Some(link.to_owned());
    }
    if root.join(resolve(page, link)).is_dir() {
        return None;
    }
    let (path, anchor) = link.split_once('#').map_or((link, ""), |(path, anchor)| (path, anchor));
    let path = path.strip_suffix(".md").map_or_else(|| path.to_owned(), |stem| format!("{stem}.html"));
    Some(if anchor.is_empty() { path } else { format!("{path}#{anchor}") })
}

/// Names of headings as mdBook and the common forges make them: each once.
#[derive(Debug, Default)]
struct Names {
    seen: BTreeMap<String, u32>,
}

impl Names {
    fn name(&mut self, heading: &str) -> String {
        let kept = heading.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            c if c.is_alphanumeric() => Some(c),
            _ => None,
        });
        let name: String = kept.flat_map(char::to_lowercase).collect();
        let before = self.seen.entry(name.clone()).or_insert(0);
        *before += 1;
        if *before == 1 { name } else { format!("{name}-{}", *before - 1) }
    }
}

/// Writes the site: pages, the project's files that they link, and a first page that leads to the first entry.
pub(super) fn write(root: &Path, out: &Path, pages: &[Page], summary: &[Entry]) -> anyhow::Result<()> {
    for page in pages.iter().filter(|page| !page.path.ends_with("SUMMARY.md")) {
        let target = out.join(page.path.with_extension("html"));
        save(&target, document(root, page, summary).as_bytes())?;
        for link in page.links.iter().filter(|link| !is_outside(link)) {
            let file = resolve(&page.path, link);
            if file.extension().is_none_or(|ending| ending != "md") && root.join(&file).is_file() {
                let bytes = fs::read(root.join(&file))
                    .with_context(|| format!("failed to read {}", file.display()))?;
                save(&out.join(&file), &bytes)?;
            }
        }
    }
    let first = summary.iter().find_map(|entry| match entry {
        Entry::Page(_, _, path) => Some(path.with_extension("html")),
        Entry::Part(_) => None,
    });
    let first = first.context("docs/SUMMARY.md lists no page")?;
    let lead =
        format!("<!doctype html><meta http-equiv=\"refresh\" content=\"0; url={}\">\n", first.display());
    save(&out.join("index.html"), lead.as_bytes())
}

fn save(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let folder = path.parent().context("a page lies in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
    fs::write(path, bytes).with_context(|| format!("failed to write {}", path.display()))
}

fn document(root: &Path, page: &Page, summary: &[Entry]) -> String {
    let up = "../".repeat(page.path.components().count() - 1);
    let mut nav = String::new();
    for entry in summary {
        // Writing into a `String` cannot fail.
        let _ = match entry {
            Entry::Part(part) => writeln!(nav, "<h2>{}</h2>", escaped(part)),
            Entry::Page(depth, title, path) => {
                let here = if *path == page.path { " class=\"here\"" } else { "" };
                let href = path.with_extension("html");
                writeln!(
                    nav,
                    "<a{here} style=\"padding-left:{}em\" href=\"{up}{}\">{}</a>",
                    0.6 + 1.2 * *depth as f64,
                    href.display(),
                    escaped(title)
                )
            }
        };
    }
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{} - pinfold</title>\
         <style>{STYLE}</style></head>\n<body><nav>{nav}</nav><main>{}</main></body></html>\n",
        escaped(&page.title),
        page.body(root)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_names_and_links_lead_to_pages() {
        let text =
            "# A `b` & c\n\n## Why?\n\n## Why?\n\n[x](docs/a.md#b) ![p](p.svg) <https://example.org>\n";
        let page = Page::parse(PathBuf::from("README.md"), text.to_owned());
        assert_eq!(page.title, "A b & c");
        assert_eq!(page.anchors, ["a-b--c", "why", "why-1"]);
        assert_eq!(page.links, ["docs/a.md#b", "p.svg", "https://example.org"]);
        let body = page.body(Path::new("/nonexistent"));
        assert!(body.contains("href=\"docs/a.html#b\"") && body.contains("id=\"why-1\""), "{body}");
    }

    #[test]
    fn a_directory_is_named_and_not_linked() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let page = Page::parse(PathBuf::from("a.md"), "see [the source](src) here".to_owned());
        assert_eq!(page.body(root).trim(), "<p>see the source here</p>");
    }
}
