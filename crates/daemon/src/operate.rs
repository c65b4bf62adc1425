//! What operators ask of the host as a whole: the configuration as a file, draining, and who changed what.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use pinfold_proto::config::{Config, Project};
use pinfold_proto::wire::{ErrorCode, Reply};
use pinfold_sys::peer::Peer;
use toml_edit::{DocumentMut, Item, Table};

use crate::audit::{Act, Concern};
use crate::daemon::Daemon;
use crate::rights::{self, Refusal, denied};

/// In the state directory while the host is drained.
const DRAINED: &str = "drained";

impl Daemon {
    /// Notes who changed what. It is on disk before an effect of this turn, if it concerns others.
    pub(crate) fn note(&mut self, user: Peer, concern: Concern, action: &str, detail: &str) {
        let time_s = pinfold_proto::view::seconds(self.clock.now_us());
        let (action, detail) = (action.to_owned(), detail.to_owned());
        let act = Act { time_s, uid: user.uid, user: self.user_name(user.uid), action, detail };
        self.audit.note(concern, act);
    }

    /// Whose concern an act on what is this user's own is: an operator acts for the host.
    pub(crate) fn concern_of(&self, user: Peer) -> Concern {
        if rights::is_operator(&self.configured.config, user) { Concern::Others } else { Concern::Own }
    }

    pub(crate) fn operators_only(&self, user: Peer, what: &str) -> Result<(), Refusal> {
        if rights::is_operator(&self.configured.config, user) {
            return Ok(());
        }
        Err(denied(&format!("{what} is for operators (`access.operators`)")))
    }

    /// `pinfold config save`.
    pub(crate) fn save_config(
        &mut self,
        user: Peer,
        write: bool,
        text: Option<String>,
    ) -> Result<Reply, Refusal> {
        self.operators_only(user, "the configuration")?;
        let path = self.options.config_file();
        if write && path.is_none() {
            let hint =
                "pinfoldd was started without a configuration file; `pinfold config save FILE` writes one";
            return Err((ErrorCode::Failed, hint.to_owned()));
        }
        let name = match (&text, &path) {
            (None, Some(path)) => path.display().to_string(),
            _ => "the file".to_owned(),
        };
        let old = match (text, &path) {
            (Some(text), _) => text,
            (None, Some(path)) => match std::fs::read_to_string(path) {
                Ok(text) => text,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
                // What cannot be read must not be written over.
                Err(error) => return Err((ErrorCode::Failed, format!("failed to read {name}: {error}"))),
            },
            (None, None) => String::new(),
        };
        let text = with_values(&old, &self.configured.config).map_err(|error| {
            let way_out = "nothing is written; mend it or move it away, then save again";
            (ErrorCode::Failed, format!("{name}: {}; {way_out}", error.trim_end()))
        })?;
        let mut written = None;
        if let Some(path) = path.filter(|_| write) {
            self.note(user, Concern::Others, "save", &path.display().to_string());
            self.audit.flush();
            if let Err(error) = replace(&path, &text) {
                let text = format!("failed to write {}: {error}", path.display());
                self.note(user, Concern::Others, "save", &text);
                return Err((ErrorCode::Failed, text));
            }
            written = Some(path.display().to_string());
        }
        Ok(Reply::Saved { text, path: written })
    }

    /// `pinfold drain` and `undrain`.
    pub(crate) fn drain(&mut self, user: Peer, on: bool) -> Result<Reply, Refusal> {
        self.operators_only(user, "draining the host")?;
        if self.draining != on {
            self.note(user, Concern::Others, if on { "drain" } else { "undrain" }, "");
            self.audit.flush();
            let marker = self.state.join(DRAINED);
            let kept = if on { std::fs::write(&marker, "") } else { std::fs::remove_file(&marker) };
            if let Err(error) = kept {
                tracing::warn!(%error, "a restart will not know whether the host is drained");
            }
            self.draining = on;
            self.apply_configuration();
        }
        Ok(Reply::Done)
    }

    /// `pinfold audit`.
    pub(crate) fn audited(&mut self, user: Peer, verify: bool) -> Result<Reply, Refusal> {
        self.operators_only(user, "the audit")?;
        self.audit.keep_up(pinfold_proto::view::seconds(self.clock.now_us()));
        Ok(Reply::Audit(self.audit.view(verify)))
    }
}

/// Whether the host was drained when the last daemon ended.
pub(crate) fn was_drained(state: &Path) -> bool {
    state.join(DRAINED).exists()
}

/// A configuration file's text with the values of `config`: what it says else, comments too, stays as it is. Keys that
/// have their defaults are written only where the file names them already.
fn with_values(text: &str, config: &Config) -> Result<String, String> {
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
fn replace(path: &PathBuf, text: &str) -> std::io::Result<()> {
    let mut beside = path.clone().into_os_string();
    beside.push(".new");
    let beside = PathBuf::from(beside);
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
