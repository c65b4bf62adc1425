//! The configuration as a file, and the mark of a host that is drained.

use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pinfold_proto::config::{Config, Project};
use toml_edit::{DocumentMut, Item, Table};

/// In the state directory while the host is drained.
pub(crate) const DRAINED: &str = "drained";

/// Whether the host was drained when the last daemon ended.
pub(crate) fn was_drained(state: &Path) -> bool {
    state.join(DRAINED).exists()
}

/// A configuration file's text with the values of `config`: what it says else, comments too, stays as it is. Keys that
/// have their defaults are written only where the file names them already.
pub(crate) fn with_values(text: &str, config: &Config) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error| format!("it is not TOML: {error}"))?;
    let defaults = Config::default();
    // Projects that are gone, and those that have nothing but a name.
    if let Some(projects) = document.get_mut("projects").and_then(Item::as_table_mut) {
        projects.retain(|name, _| config.projects.contains_key(name));
    }
    for (name, project) in &config.projects {
        if *project == Project::default() {
            let projects = document.as_table_mut().entry("projects").or_insert_with(implicit);
            let projects = projects.as_table_mut().ok_or("`projects` is no table in the file")?;
            projects.entry(name).or_insert_with(|| Item::Table(Table::new()));
        }
    }
    for key in config.keys() {
        let value = config.value(&key).unwrap_or_default();
        let path: Vec<&str> = key.split('.').collect();
        let Some((last, tables)) = path.split_last() else { continue };
        let named = tables
            .iter()
            .try_fold(document.as_item(), |item, table| item.get(table))
            .is_some_and(|table| table.get(last).is_some());
        if !named && Some(&value) == defaults.value(&key).as_ref() {
            continue;
        }
        let mut table = document.as_table_mut();
        for name in tables {
            let new = || if *name == "projects" { implicit() } else { Item::Table(Table::new()) };
            let below = table.entry(name).or_insert_with(new);
            table = below.as_table_mut().ok_or_else(|| format!("`{name}` is no table in the file"))?;
        }
        if value.is_empty() {
            table.remove(last);
            continue;
        }
        let mut new: toml_edit::Value =
            value.parse().map_err(|error| format!("the value of `{key}` cannot be written: {error}"))?;
        match table.get_mut(last) {
            // The key keeps the comments above it, the value what stands behind it on its line.
            Some(old) => {
                if let Some(old) = old.as_value() {
                    *new.decor_mut() = old.decor().clone();
                }
                *old = Item::Value(new);
            }
            None => {
                table.insert(last, Item::Value(new));
            }
        }
    }
    Ok(document.to_string())
}

/// A table that is there for those in it, and has no line of its own.
fn implicit() -> Item {
    let mut table = Table::new();
    table.set_implicit(true);
    Item::Table(table)
}

/// Writes a file whole or not at all.
pub(crate) fn replace(path: &PathBuf, text: &str) -> std::io::Result<()> {
    let mut beside = path.clone().into_os_string();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    if let Some(directory) = path.parent().filter(|directory| !directory.exists()) {
        // For the first time: a user's own is nobody else's.
        let mode = if path.starts_with("/etc") { 0o755 } else { 0o700 };
        std::fs::DirBuilder::new().recursive(true).mode(mode).create(directory)?;
    }
    let mut file = std::fs::File::create(&beside)?;
    if let Ok(old) = std::fs::metadata(path) {
        file.set_permissions(old.permissions())?;
    }
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    let done = written.and_then(|()| std::fs::rename(&beside, path));
    if done.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(file: &str, changes: &[&str], want: &str) {
        let (config, _) = Config::default().with_changes(changes.iter().copied()).unwrap();
        let saved = with_values(file, &config).unwrap();
        assert_eq!(saved, want);
        // And it is what the daemon would read.
        assert_eq!(Config::default().with_file(&saved).unwrap().0, config);
    }

    #[test]
    fn comments_and_order_stay() {
        let file = "# ours\nschedule = true # always\n\n[slots]\n# not too many\nfactor = 1.5 # as ever\n";
        check(
            file,
            &["slots.factor=2", "host.memory=8GiB"],
            "# ours\nschedule = true # always\n\n[slots]\n# not too many\nfactor = 2 # as ever\n\n[host]\nmemory = \"8GiB\"\n",
        );
    }

    #[test]
    fn what_is_unset_goes() {
        check("[host]\nmemory = \"8GiB\" # x\ncpus = \"0\"\n", &["host.cpus=0"], "[host]\ncpus = \"0\"\n");
        check("", &[], "");
    }

    #[test]
    fn projects_come_and_go() {
        let file =
            "schedule = true\n\n[projects.old]\ncores = 1\n\n[projects.web] # theirs\ncores = 1 # one\n";
        let saved = "schedule = true\n\n[projects.web] # theirs\ncores = 2 # one\nusers = [\"ann\"]\n";
        check(file, &["projects.web.cores=2", "projects.web.users=ann"], saved);
        check("", &["projects.web.memory=1GiB"], "[projects.web]\nmemory = \"1GiB\"\n");
        check("", &["projects.web={}"], "[projects.web]\n");
    }
}
