//! Users vouched for by a host: `Authorization: Pinfold HEX`, a [`Voucher`] as JSON in hexadecimal. A voucher is valid
//! if its key belongs to a host with a valid token, and if it was signed for this hub and this request within the last
//! minutes and was not used before. It grants the user's view of that host, and more where the hub's configuration
//! trusts the host.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode, header};
use pinfold_proto::voucher::{self, Statement, Voucher, unhex};
use ring::signature::{ED25519, UnparsedPublicKey};

use super::auth::Viewer;
use super::problem::Problem;
use super::seen::{Unseen, Whose};
use crate::hub::{Counters, Hub};
use crate::store::{Access, Grant, now_us};

/// The largest distance of a voucher's time from now, by the host's clock as the hub knows it, in microseconds.
const GOOD_US: u64 = 300 * 1_000_000;

/// The longest vouched name of a user or project, in bytes, and the most projects of a user.
const NAME_MAX_BYTES: usize = 256;
const PROJECTS_MAX: usize = 200;

/// Hosts trusted about users elsewhere, and users with more access there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    /// Hosts with the same people as users on all hosts; `*`: all hosts.
    pub hosts: Vec<String>,
    /// Users of these hosts that are operators of the hub.
    pub operators: Vec<String>,
    /// Users of these hosts that manage a project on all hosts: project, user.
    pub managers: Vec<(String, String)>,
}

impl Trust {
    fn has(&self, host: &str) -> bool {
        self.hosts.iter().any(|name| name == "*" || name == host)
    }

    /// The access of a host's user.
    pub fn access(&self, host: &str, statement: &Statement) -> Access {
        let trusted = self.has(host);
        let user = &statement.user;
        if trusted && self.operators.contains(user) {
            return Access::All;
        }
        let here = || Some(host.to_owned());
        let mut grants = vec![Grant {
            user: Some(user.clone()),
            host: if trusted { None } else { here() },
            ..Grant::default()
        }];
        let steered = statement.projects.iter().map(|project| (project, here()));
        let managed = self.managers.iter().filter(|(_, manager)| trusted && manager == user);
        let projects = steered.chain(managed.map(|(project, _)| (project, None)));
        grants.extend(projects.map(|(project, host)| Grant {
            project: Some(project.clone()),
            host,
            ..Grant::default()
        }));
        if statement.operator {
            grants.push(Grant { host: here(), ..Grant::default() });
        }
        Access::Some(grants)
    }
}

fn denied(hub: &Hub, words: impl Into<String>) -> Problem {
    Counters::count(&hub.counters.denied);
    Problem::new(StatusCode::UNAUTHORIZED, words)
}

/// The voucher in the headers, if present.
pub(super) fn sent(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Pinfold ")
}

/// The content of a voucher whose signature is valid.
///
/// # Errors
/// When the signature is wrong, or for another hub or request.
pub fn verified(hub: &Hub, voucher: &Voucher, request: &str) -> Result<(Statement, Vec<u8>), Problem> {
    let bad = || denied(hub, "the voucher is not signed as it should be");
    let (key, signature) = unhex(&voucher.key).zip(unhex(&voucher.signature)).ok_or_else(bad)?;
    let text = voucher::signed_text(&voucher.statement);
    UnparsedPublicKey::new(&ED25519, &key).verify(&text, &signature).map_err(|_| bad())?;
    let statement: Statement = serde_json::from_str(&voucher.statement).map_err(|_| bad())?;
    if statement.version != voucher::VERSION {
        return Err(denied(hub, "the voucher is of another version: use programs of one version"));
    }
    if statement.audience.trim_end_matches('/') != hub.origin {
        let words = format!(
            "the voucher is for another address than this hub's: `pinfold hub use {}` is wanted on that host",
            hub.origin
        );
        return Err(denied(hub, words));
    }
    if statement.request != request {
        return Err(denied(hub, "the voucher is for another request"));
    }
    if let Err(words) = within_bounds(&statement) {
        return Err(denied(hub, words));
    }
    Ok((statement, key))
}

/// Whether names fit a host's users and projects. A host chooses them, and the hub stores and shows them.
fn within_bounds(statement: &Statement) -> Result<(), String> {
    // Names possible in `passwd`, and names of a domain as in `LAB\ann`.
    let is_name = |name: &str| {
        (1..=NAME_MAX_BYTES).contains(&name.len())
            && !name.chars().any(|c| c.is_control() || matches!(c, ':' | '/'))
    };
    if !is_name(&statement.user) {
        return Err(format!(
            "the voucher's user has no name of up to {NAME_MAX_BYTES} bytes without `:`, `/` and control characters"
        ));
    }
    if statement.projects.len() > PROJECTS_MAX {
        return Err(format!("the voucher is for a manager of more than {PROJECTS_MAX} projects"));
    }
    if statement.projects.iter().any(|name| name.len() > NAME_MAX_BYTES) {
        return Err(format!("the voucher has a project with a name of more than {NAME_MAX_BYTES} bytes"));
    }
    Ok(())
}

/// A user vouched for by a host.
pub(super) async fn viewer(hub: &Arc<Hub>, sent: &str, request: &str) -> Result<Viewer, Problem> {
    let voucher: Option<Voucher> = unhex(sent).and_then(|text| serde_json::from_slice(&text).ok());
    let voucher = voucher.ok_or_else(|| denied(hub, "the voucher cannot be read"))?;
    let (statement, key) = verified(hub, &voucher, request)?;
    let of_key = key.clone();
    let host = hub.look_up(move |hub| hub.store.host_of_key(&of_key)).await??;
    let unknown =
        "no host of this hub has the key of this voucher: its operator's `pinfold hub push` makes it known";
    let (id, host, kept_us) = host.ok_or_else(|| denied(hub, unknown))?;
    let ahead_us = hub.clock_ahead_us(id, kept_us);
    let signed = i128::from(statement.signed_us) - i128::from(ahead_us);
    if signed.abs_diff(i128::from(now_us())) > u128::from(GOOD_US) {
        return Err(denied(hub, "the voucher is too old, or that host's clock is wrong"));
    }
    if signed < i128::from(hub.started_us) {
        return Err(denied(hub, "the voucher was signed before this hub was started: ask again"));
    }
    // A voucher dated in the future stays valid for longer.
    let now_us = now_us();
    let whose = (key.as_slice(), statement.uid);
    match hub.seen.use_up(whose, &voucher.statement, now_us, now_us.saturating_add(2 * GOOD_US)) {
        Ok(()) => {}
        Err(Unseen::Used) => {
            return Err(denied(hub, "the voucher was used before: each is good for one request"));
        }
        Err(Unseen::Many { of, most, after_us }) => {
            let words = too_many((of, most), after_us, &statement.user, &host);
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, words));
        }
    }
    Ok(Viewer {
        name: format!("{}@{host}", statement.user),
        via: format!("host {host}"),
        kind: "user",
        access: hub.trust.access(&host, &statement),
    })
}

/// Message about the exceeded bound and the time of the next answer.
fn too_many((of, most): (Whose, usize), after_us: u64, user: &str, host: &str) -> String {
    let whose = match of {
        Whose::User => format!("{user}@{host}"),
        Whose::Host => format!("users of host {host}"),
        Whose::All => "users of all hosts together".to_owned(),
    };
    let minutes = 2 * GOOD_US / 60_000_000;
    let after_s = after_us.div_ceil(1_000_000).max(1);
    format!(
        "{whose} asked {most} times within {minutes} minutes, and that is the most: ask again in {after_s} s, or with a \
         reader's token"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asked_too_often_is_told_so_and_until_when() {
        let said = |of| too_many((of, 5_000), 1_500_000, "ann", "n1");
        assert_eq!(
            said(Whose::User),
            "ann@n1 asked 5000 times within 10 minutes, and that is the most: ask again in 2 s, or with a reader's token"
        );
        assert!(said(Whose::Host).starts_with("users of host n1 asked 5000 times"));
        assert!(said(Whose::All).starts_with("users of all hosts together asked"));
    }

    fn statement(operator: bool, projects: &[&str]) -> Statement {
        Statement {
            version: 1,
            audience: String::new(),
            request: String::new(),
            signed_us: 0,
            uid: 1,
            user: "ann".into(),
            operator,
            projects: projects.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    #[test]
    fn names_of_users_and_projects_are_bounded() {
        let user = |user: &str| within_bounds(&Statement { user: user.into(), ..statement(false, &[]) });
        for good in
            ["ann", "LAB\\domain user", "ann@lab.example", "m$", "j\u{f6}rg", "1234", &"x".repeat(256)]
        {
            assert_eq!(user(good), Ok(()), "{good}");
        }
        for bad in ["", "a\nb", "a:b", "../a", "\u{7f}", &"x".repeat(257)] {
            assert!(user(bad).unwrap_err().contains("256 bytes"), "{bad:?}");
        }
        assert_eq!(within_bounds(&statement(false, &["p"; 200])), Ok(()));
        assert!(within_bounds(&statement(false, &["p"; 201])).is_err());
        assert!(within_bounds(&statement(false, &[&"p".repeat(257)])).is_err());
    }

    #[track_caller]
    fn check(trust: &Trust, statement: &Statement, words: &str) {
        assert_eq!(trust.access("n1", statement).words(), words);
    }

    #[test]
    fn a_host_is_believed_about_itself_and_only_a_trusted_one_about_others() {
        let lists = |hosts: &[&str]| Trust {
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
            operators: vec!["root".into()],
            managers: vec![("web".into(), "ann".into()), ("lab".into(), "bea".into())],
        };
        let (none, trusted) = (lists(&["n2"]), lists(&["n1"]));
        check(&none, &statement(false, &[]), "jobs of ann on n1");
        check(&none, &statement(true, &["p"]), "jobs of ann on n1, project p on n1, operator of n1");
        check(&trusted, &statement(false, &[]), "jobs of ann, project web");
        check(
            &trusted,
            &statement(true, &["p"]),
            "jobs of ann, project p on n1, project web, operator of n1",
        );
        check(&lists(&["*"]), &statement(false, &[]), "jobs of ann, project web");
        let root = Statement { user: "root".into(), ..statement(true, &[]) };
        check(&none, &root, "jobs of root on n1, operator of n1");
        check(&trusted, &root, "operator of the hub");
    }
}
