//! The manual pages: a page for the program and for each command, from the tree of commands and [`examples`]; and
//! pinfold.toml(5), from the table of keys. Absent here: pinfoldd(8), which the daemon writes of its own options.

mod examples;

use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use pinfold_proto::config::{KEYS, PROJECT_KEYS};
use roff::{Roff, bold, roman};

use crate::{help, output};
pub(crate) use examples::{EXAMPLES, examples};
use pinfold_client::Failure;

/// A configuration as people write them.
const CONFIGURATION: &str = "[host]
memory = \"48GiB\"

[slots]
factor = 1.5

[access]
operators = [\"alice\"]

[projects.genome]
cores = 8
memory = \"32GiB\"
";

/// `pinfold man`: writes all pages into this directory.
pub(crate) fn manual(dir: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::doing(format!("failed to write manual pages into {}", dir.display()), &error)
    };
    std::fs::create_dir_all(dir).map_err(failed)?;
    for (name, text) in pages().map_err(failed)? {
        // Others may write there, too (/tmp): a link of theirs is not followed.
        output::replace(&dir.join(name), &text, None).map_err(failed)?;
    }
    Ok(())
}

/// The pages, by the names of their files.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut tree = help::tree().disable_help_subcommand(true);
    tree.build();
    let mut pages = vec![("pinfold.toml.5".to_owned(), configuration()?)];
    add(&tree, "", &mut pages)?;
    Ok(pages)
}

/// The page of a command and the pages of its subcommands; `path`: its words behind `pinfold`.
fn add(command: &Command, path: &str, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        let path = format!("{path} {}", below.get_name());
        add(below, path.trim_start(), pages)?;
    }
    // Administrators' commands have pages of their own section.
    let section_of = if path.split(' ').next() == Some("admin") { "8" } else { "1" };
    let version = concat!("pinfold ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).manual("pinfold").section(section_of).source(version);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(text) = command.get_after_help() {
        section(&mut page, "NOTES", |roff| {
            roff.text([roman(text.to_string())]);
        })?;
    }
    if examples(path).next().is_some() {
        section(&mut page, "EXAMPLES", |roff| {
            for (example, what) in examples(path) {
                tagged(roff, example, what);
            }
        })?;
    }
    let others = if path.is_empty() { "" } else { "pinfold(1), " };
    section(&mut page, "SEE ALSO", |roff| {
        roff.text([roman(format!("{others}pinfoldd(8), pinfold.toml(5)"))]);
    })?;
    pages.push((man.get_filename(), page));
    Ok(())
}

/// pinfold.toml(5).
fn configuration() -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let mut roff = Roff::new();
    let source = format!("pinfold {}", env!("CARGO_PKG_VERSION"));
    roff.control("TH", ["pinfold.toml", "5", "", &source, "pinfold"]);
    roff.to_writer(&mut page)?;
    section(&mut page, "NAME", |roff| {
        roff.text([roman("pinfold.toml - configuration of pinfoldd")]);
    })?;
    section(&mut page, "SYNOPSIS", |roff| {
        roff.text([roman("/etc/pinfold/pinfold.toml, ~/.config/pinfold/pinfold.toml")]);
    })?;
    section(&mut page, "DESCRIPTION", |roff| {
        roff.text([roman(
            "TOML. Root's daemon reads /etc/pinfold/pinfold.toml, a user's daemon the file in ~/.config (below \
             $XDG_CONFIG_HOME if that is set); with --socket or --state-dir a daemon reads pinfold.toml in its state \
             directory, if root's file is not there; --config names another. Each key is also given once as pinfoldd --set \
             KEY=VALUE, or changed while jobs run by pinfold config set KEY=VALUE, which pinfold config save writes into \
             the file. Sizes take KiB MiB GiB TiB, durations ms s m h d, sets of PUs kernel lists such as 0-3,8.",
        )]);
        roff.control("PP", []);
        roff.text([roman(
            "pinfold config check FILE names each wrong key and value. A daemon with a wrong file does not start; one that \
             reads its file again (SIGHUP) takes it whole or not at all.",
        )]);
    })?;
    section(&mut page, "KEYS", |roff| {
        for key in KEYS {
            let default = if key.default.is_empty() { "unset" } else { key.default };
            tagged(roff, key.name, &format!("{} [default: {default}]", key.meaning));
        }
    })?;
    section(&mut page, "PROJECTS", |roff| {
        roff.text([roman("Each project has a section [projects.NAME] with any of these keys:")]);
        for (name, meaning) in PROJECT_KEYS {
            tagged(roff, name, meaning);
        }
    })?;
    section(&mut page, "EXAMPLES", |roff| {
        roff.control("nf", []);
        roff.text([roman(CONFIGURATION)]);
        roff.control("fi", []);
    })?;
    section(&mut page, "SEE ALSO", |roff| {
        roff.text([roman("pinfold-config(1), pinfoldd(8)")]);
    })?;
    Ok(page)
}

fn section(page: &mut Vec<u8>, title: &str, write: impl FnOnce(&mut Roff)) -> io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    write(&mut roff);
    let mut text = Vec::new();
    roff.to_writer(&mut text)?;
    page.write_all(&text)
}

/// A word with its meaning.
fn tagged(roff: &mut Roff, word: &str, meaning: &str) {
    roff.control("TP", []);
    roff.text([bold(word)]);
    roff.text([roman(meaning)]);
}

#[cfg(test)]
mod tests {
    use pinfold_proto::config::Config;

    use super::*;

    /// The words of an example; quotes are the only signs of a shell in them.
    fn words(example: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (at, part) in example.split('\'').enumerate() {
            match at % 2 {
                1 => words.push(part.to_owned()),
                _ => words.extend(part.split_whitespace().map(str::to_owned)),
            }
        }
        words
    }

    #[test]
    fn a_link_where_a_page_goes_is_not_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (link, secret) = (dir.path().join("pinfold.1"), dir.path().join("secret"));
        std::fs::write(&secret, "secret").expect("a file");
        std::os::unix::fs::symlink(&secret, &link).expect("a link");
        manual(dir.path()).expect("pages are written");
        assert_eq!(std::fs::read_to_string(&secret).expect("it is there"), "secret");
        assert!(std::fs::read_to_string(&link).expect("it is there").contains(".TH pinfold"));
    }

    #[test]
    fn each_example_is_read() {
        for (of, examples) in EXAMPLES {
            for (example, what) in *examples {
                let words = words(example);
                assert_eq!(words[0], "pinfold");
                assert!(example.starts_with(&format!("pinfold {of}")), "{of}: {example}");
                assert!(what.ends_with('.'), "{what}");
                let read = help::tree().try_get_matches_from(&words);
                assert!(read.is_ok(), "{example}: {}", read.expect_err("it was not read"));
            }
        }
    }

    #[test]
    fn each_command_has_a_page_with_an_example() {
        let pages = pages().expect("pages are made in memory");
        for (name, text) in &pages {
            let text = String::from_utf8_lossy(text);
            assert!(text.contains(".TH pinfold") && text.contains("SEE ALSO"), "{name}: {text}");
        }
        let mut tree = help::tree();
        tree.build();
        let of = |command: &Command| -> Vec<String> {
            let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
            shown.map(|below| below.get_name().to_owned()).filter(|name| name != "help").collect()
        };
        let admin = of(tree.find_subcommand("admin").expect("it is a command"));
        let top = of(&tree).into_iter().filter(|name| name != "admin");
        for name in top.chain(admin.into_iter().map(|name| format!("admin-{name}"))) {
            let file = format!("pinfold-{name}.{}", if name.starts_with("admin-") { 8 } else { 1 });
            let page = pages
                .iter()
                .find(|(known, _)| *known == file)
                .unwrap_or_else(|| panic!("{file} is not made"));
            assert!(String::from_utf8_lossy(&page.1).contains("EXAMPLES"), "{file}");
        }
        assert!(!pages.iter().any(|(name, _)| name == "pinfold-drain.1"), "the old spelling has no page");
    }

    #[test]
    fn the_page_of_the_configuration_has_each_key_and_its_example_is_good() {
        let page = String::from_utf8(configuration().expect("made in memory")).expect("it is text");
        for key in KEYS {
            assert!(page.replace("\\-", "-").contains(key.name), "{}", key.name);
        }
        let (_, set) = Config::default().with_file(CONFIGURATION).expect("the example is good");
        assert_eq!(set.len(), 5, "{set:?}");
    }
}
