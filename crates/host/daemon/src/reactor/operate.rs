//! What operators ask of the host as a whole: the configuration as a file, draining, and who changed what.

use pinfold_proto::config::Config;
use pinfold_proto::learned::Signed;
use pinfold_proto::view::SetKind;
use pinfold_proto::wire::{ErrorCode, Reply, SetAside};
use pinfold_sys::files;
use pinfold_sys::peer::{self, Peer};

use crate::clients::audit::{self, Concern};
use crate::clients::config_file::{DRAINED, replace, with_values};
use crate::clients::{projects, rights};
use crate::core::options::read_config;
use crate::core::{Next, Refusal, denied};
use crate::reactor::Daemon;

impl Daemon {
    /// `pinfold set-aside`.
    pub(super) fn set_aside(&mut self, user: Peer, asked: SetAside) -> Result<Reply, Refusal> {
        let never = self.host.sets.never_idle(&self.ctx, user, &asked);
        let Some(mut set) =
            self.host.sets.wanted(&self.ctx, &self.jobs.table, &self.meters.jobs_nodes, user, asked)?
        else {
            return Ok(Reply::SetMade { name: None, never });
        };
        if set.kind == SetKind::Idle && set.users.is_empty() {
            set.users.push(self.clients.names.name(user.uid));
        }
        let (name, detail) = (set.name.clone(), format!("{}: PUs {}", set.name, set.cpus));
        self.note(user, audit::concern_of(&self.ctx, user), "set-aside", &detail);
        // Kept before the scheduler knows of it.
        self.host.sets.make(set)?;
        self.outbox.then(Next::SetsChanged);
        Ok(Reply::SetMade { name: Some(name), never: None })
    }

    /// `pinfold set-aside NAME --remove`.
    pub(super) fn remove_set(&mut self, user: Peer, name: &str) -> Result<Reply, Refusal> {
        self.host.sets.may_remove(&self.ctx, &self.jobs.table, user, name)?;
        self.note(user, audit::concern_of(&self.ctx, user), "set-aside", &format!("{name}: removed"));
        self.host.sets.remove(name)?;
        self.outbox.then(Next::SetsChanged);
        self.outbox.then(Next::Isolate);
        Ok(Reply::Done)
    }

    /// What a hub learned from other hosts.
    pub(super) fn learn_elsewhere(&mut self, user: Peer, signed: &Signed) -> Result<Reply, Refusal> {
        rights::operators_only(&self.ctx, user, "what is learned from other hosts")?;
        let now_us = self.ctx.clock.now_us();
        self.meters.elsewhere.take(&self.ctx.configured.config, signed, now_us).map(|()| Reply::Done)
    }

    /// Notes who changed what. It is on disk before an effect of this turn, if it concerns others.
    pub(super) fn note(&mut self, user: Peer, concern: Concern, action: &str, detail: &str) {
        self.clients.audit.note(&self.ctx, &mut self.clients.names, user, concern, action, detail);
    }

    /// `pinfold config save`.
    pub(super) fn save_config(
        &mut self,
        user: Peer,
        write: bool,
        text: Option<String>,
    ) -> Result<Reply, Refusal> {
        rights::operators_only(&self.ctx, user, "the configuration")?;
        let path = self.ctx.options.config_file();
        if write && path.is_none() {
            // A user without a home.
            let hint = "this pinfoldd reads no configuration file; `pinfold config save FILE` writes one, and \
                        `pinfoldd --config FILE` reads it at the next start";
            return Err((ErrorCode::Failed, hint.to_owned()));
        }
        let name = match (&text, &path) {
            (None, Some(path)) => path.display().to_string(),
            _ => "the file".to_owned(),
        };
        let old = match (text, &path) {
            (Some(text), _) => text,
            // A pipe may have been named at the start. Nobody writes to it now.
            (None, Some(path)) => match files::open_regular(path).and_then(read_config) {
                Ok(text) => text,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
                // What cannot be read must not be written over.
                Err(error) => return Err((ErrorCode::Failed, format!("failed to read {name}: {error}"))),
            },
            (None, None) => String::new(),
        };
        let text = with_values(&old, &self.ctx.configured.config).map_err(|error| {
            let way_out = "nothing is written; mend it or move it away, then save again";
            (ErrorCode::Failed, format!("{name}: {}; {way_out}", error.trim_end()))
        })?;
        let mut written = None;
        if let Some(path) = path.filter(|_| write) {
            self.note(user, Concern::Others, "save", &path.display().to_string());
            self.clients.audit.flush();
            if let Err(error) = replace(&path, &text) {
                let text = format!("failed to write {}: {error}", path.display());
                self.note(user, Concern::Others, "save", &text);
                return Err((ErrorCode::Failed, text));
            }
            written = Some(path.display().to_string());
            // From now on the file has them.
            for origin in self.ctx.configured.origins.values_mut().filter(|origin| **origin == "set") {
                *origin = "file";
            }
            self.keep_settings();
        }
        Ok(Reply::Saved { text, path: written })
    }

    /// Writes the keys that `config set` changed where the next private daemon finds them.
    fn keep_settings(&self) {
        let Some(file) = self.ctx.options.settings() else { return };
        let configured = &self.ctx.configured;
        let set = configured.origins.iter().filter(|(_, origin)| **origin == "set");
        let line = |(key, _): (&String, _)| {
            format!("{key}={}\n", configured.config.value(key).unwrap_or_default().replace('\n', " "))
        };
        let text: String = set.map(line).collect();
        let kept = match text.is_empty() {
            true => std::fs::remove_file(&file).or_else(|error| match error.kind() {
                std::io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            }),
            false => replace(&file, &text),
        };
        if let Err(error) = kept {
            tracing::warn!(file = %file.display(), %error, "the settings end with this daemon");
        }
    }

    /// `pinfold drain` and `undrain`.
    pub(super) fn drain(&mut self, user: Peer, on: bool) -> Result<Reply, Refusal> {
        rights::operators_only(&self.ctx, user, "draining the host")?;
        if self.ctx.draining != on {
            self.note(user, Concern::Others, if on { "drain" } else { "undrain" }, "");
            self.clients.audit.flush();
            let marker = self.ctx.state.join(DRAINED);
            let kept = if on { std::fs::write(&marker, "") } else { std::fs::remove_file(&marker) };
            if let Err(error) = kept {
                tracing::warn!(%error, "a restart will not know whether the host is drained");
            }
            self.ctx.draining = on;
            self.apply_configuration();
        }
        Ok(Reply::Done)
    }

    /// `pinfold audit`.
    pub(super) fn audited(&mut self, user: Peer, verify: bool) -> Result<Reply, Refusal> {
        rights::operators_only(&self.ctx, user, "the audit")?;
        self.clients.audit.keep_up(pinfold_proto::view::seconds(self.ctx.clock.now_us()));
        Ok(Reply::Audit(self.clients.audit.view(verify)))
    }

    pub(super) fn configure(&mut self, user: Peer, changes: &[String]) -> Result<(), Refusal> {
        if !rights::is_operator(&self.ctx.configured.config, user) {
            return Err(denied("the configuration is for operators (`access.operators`)"));
        }
        // A user who names a program that this daemon starts can do what it can.
        let starts = |change: &String| change.trim_start().starts_with("modules.");
        if changes.iter().any(starts) && user.uid != 0 && user.uid != peer::own_uid() {
            return Err(denied("`modules` is for the daemon's own user to set"));
        }
        let changed = self.ctx.configured.config.with_changes(changes.iter().map(String::as_str));
        let (config, set) = changed.map_err(|error| (ErrorCode::Usage, error.to_string()))?;
        // Files may name PUs that are off line for now; who sets it now means some that are there.
        let usable = self.ctx.topology.usable();
        if let Some(cpus) = config.host_cpus.as_ref().filter(|cpus| cpus.is_disjoint(&usable))
            && set.iter().any(|key| key == "host.cpus")
        {
            let text =
                format!("`host.cpus` is {cpus}, and of those there is none here; pinfold may have {usable}");
            return Err((ErrorCode::Usage, text));
        }
        if let Some(refusal) = rights::named_in_vain(&config, &set) {
            return Err(refusal);
        }
        if let Some(wrong) = projects::overcommitted(&self.ctx, &config) {
            return Err((ErrorCode::Usage, wrong));
        }
        let old = std::mem::replace(&mut self.ctx.configured.config, config);
        if let Err(error) = self.open_metrics() {
            self.ctx.configured.config = old;
            return Err((ErrorCode::Usage, error));
        }
        let new = &self.ctx.configured.config;
        let changed: Vec<String> = set.into_iter().filter(|key| old.value(key) != new.value(key)).collect();
        for key in &changed {
            let value = |config: &Config| {
                config.value(key).filter(|value| !value.is_empty()).unwrap_or_else(|| "unset".to_owned())
            };
            let detail = format!("{key}: {} -> {}", value(&old), value(&self.ctx.configured.config));
            self.note(user, Concern::Others, "config", &detail);
        }
        self.ctx.configured.origins.extend(changed.into_iter().map(|key| (key, "set")));
        self.keep_settings();
        tracing::info!(uid = user.uid, ?changes, "configuration changed");
        self.clients.names.look_up_configured(&self.ctx);
        self.clients.names.look_up_reserved(self.host.sets.users());
        self.apply_configuration();
        Ok(())
    }
}
