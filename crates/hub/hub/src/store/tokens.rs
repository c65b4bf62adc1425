//! Tokens, one-time codes, sessions, and the audit. The store keeps only hashes of secrets. Absent here: drawing
//! secrets, and HTTP.

use super::db::{Connection, DbError, Row, values};
use super::{Access, Stopped, Store, StoreError};

/// The purpose of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bundles of one host.
    Host,
    /// Reading of all data.
    Reader,
}

impl Kind {
    /// The word in the database.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Reader => "reader",
        }
    }
}

/// The holder of a valid token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The purpose of the token.
    pub kind: Kind,
    /// The host's name, or the reader's.
    pub name: String,
    /// The host; of a reader 0.
    pub host: i64,
}

/// A listed token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    /// The token's number.
    pub id: i64,
    /// `host` or `reader`.
    pub kind: String,
    /// The holder's name.
    pub name: String,
    /// Time of creation, in microseconds since the Unix epoch.
    pub made_us: u64,
    /// Time of revocation.
    pub revoked_us: Option<u64>,
}

/// A signed-in session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The person's name. Free text: it says nothing of a host.
    pub name: String,
    /// The token behind the session's link, as in [`LinkFor`].
    pub via: String,
    /// The secret that each form repeats to show that the hub's own page sent it.
    pub csrf: String,
    /// The viewer's access.
    pub access: Access,
    /// Whether a proxy names the person anew with each request.
    pub by_proxy: bool,
}

/// The person that a link signs in.
#[derive(Debug, Clone, Copy)]
pub struct LinkFor<'a> {
    /// The person's name.
    pub name: &'a str,
    /// The token behind the link, as `reader NAME` or `host NAME`, which ends the link; empty for the hub.
    pub via: &'a str,
    /// The person's access.
    pub access: &'a Access,
}

/// An audited action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// The row's number.
    pub id: i64,
    /// Time of the action, in microseconds since the Unix epoch.
    pub time_us: u64,
    /// The actor.
    pub who: String,
    /// The action.
    pub action: String,
    /// The action's object.
    pub detail: String,
}

/// Most usable codes of a name and token, and most sessions of both; beyond these the oldest session ends.
const CODES_MAX: i64 = 20;
const SESSIONS_MAX: u32 = 20;

/// The same bounds for a host, over all names that the host vouches for.
const CODES_OF_HOST_MAX: i64 = 200;
const SESSIONS_OF_HOST_MAX: u32 = 1_000;

/// The longest name, in characters.
const NAME_MAX: usize = 64;

/// Whether a host or reader can have the name: letters, digits, `.`, `-` and `_`, the first a letter or digit.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let rest = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    (1..=NAME_MAX).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(rest)
}

impl Store {
    /// Stores a token by its hash. A new host's token makes the host known.
    ///
    /// # Errors
    /// When the name is invalid, or the database refuses.
    pub fn add_token(
        &self,
        kind: Kind,
        name: &str,
        hash: &[u8],
        who: &str,
        now_us: u64,
    ) -> Result<i64, StoreError> {
        if !is_name(name) {
            return Err(StoreError::Refused(format!(
                "{name:?} is no name: letters, digits, `.`, `-` and `_`, at most {NAME_MAX}, the first a letter or digit"
            )));
        }
        self.write("add a token", |connection| {
            if kind == Kind::Host {
                connection.execute(
                    "INSERT INTO hosts (name, made_us) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                    &values![name, now_us],
                )?;
            }
            let add = "INSERT INTO tokens (hash, kind, name, made_us) VALUES (?1, ?2, ?3, ?4) RETURNING id";
            let added =
                connection.first(add, &values![hash, kind.word(), name, now_us], |row| row.get::<i64>(0))?;
            let id = added.ok_or(DbError::Exists)?;
            note(connection, now_us, who, "token", &format!("{} {name}, token {id}", kind.word()))?;
            Ok(id)
        })
    }

    /// Revokes a token by number, or all valid tokens of a kind and name, and returns the revoked tokens.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn revoke(&self, which: Revoked<'_>, who: &str, now_us: u64) -> Result<Vec<TokenRow>, StoreError> {
        self.write("revoke a token", |connection| {
            let all = list(connection)?.into_iter().filter(|token| token.revoked_us.is_none());
            let meant: Vec<TokenRow> = all
                .filter(|token| match which {
                    Revoked::Number(id) => token.id == id,
                    Revoked::Name(kind, name) => token.kind == kind.word() && token.name == name,
                })
                .collect();
            for token in &meant {
                let set = "UPDATE tokens SET revoked_us = ?2 WHERE id = ?1";
                connection.execute(set, &values![token.id, now_us])?;
                note(
                    connection,
                    now_us,
                    who,
                    "revoke",
                    &format!("{} {}, token {}", token.kind, token.name, token.id),
                )?;
                // Codes and sessions that the token made end with the token.
                for table in ["codes", "sessions"] {
                    let end = format!("DELETE FROM {table} WHERE via = ?1");
                    connection.execute(&end, &values![format!("{} {}", token.kind, token.name)])?;
                }
            }
            Ok(meant)
        })
    }

    /// Renames a host, which keeps its jobs, key and tokens. A never heard host of the new name, known only by its
    /// token, is taken to be the same host.
    ///
    /// # Errors
    /// When the host does not exist, the new name is invalid, a heard host has the name, or the database refuses.
    pub fn rename_host(&self, from: &str, to: &str, who: &str, now_us: u64) -> Result<(), StoreError> {
        if !is_name(to) || from == to {
            return Err(StoreError::Refused(format!("{to:?} is no new name for a host")));
        }
        self.write_or("rename a host", false, |connection| {
            let host = host_of(connection, from)?
                .ok_or_else(|| Stopped::Own(StoreError::Refused(format!("no host {from} is known"))))?;
            if let Some(other) = host_of(connection, to)? {
                // A hub that heard the host knows it by its number, which another host may get.
                let heard = "SELECT 1 FROM hosts WHERE id = ?1 AND seen_us IS NOT NULL";
                if connection.first(heard, &values![other], |_| Ok(()))?.is_some() {
                    let words = format!("{to} is a host that was heard: two hosts do not become one");
                    return Err(Stopped::Own(StoreError::Taken(words)));
                }
                connection.execute("DELETE FROM hosts WHERE id = ?1", &values![other])?;
            }
            connection.execute("UPDATE hosts SET name = ?2 WHERE id = ?1", &values![host, to])?;
            let tokens = "UPDATE tokens SET name = ?2 WHERE kind = 'host' AND name = ?1";
            connection.execute(tokens, &values![from, to])?;
            // The access of these sessions names the host's former name.
            for table in ["codes", "sessions"] {
                let end = format!("DELETE FROM {table} WHERE via = ?1");
                connection.execute(&end, &values![format!("host {from}")])?;
            }
            Ok(note(connection, now_us, who, "rename", &format!("host {from} is {to}"))?)
        })
    }

    /// All tokens, by number.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        self.read("list tokens", list)
    }

    /// The holder of the token of this hash, unless the token was revoked.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn holder(&self, hash: &[u8]) -> Result<Option<Holder>, StoreError> {
        let find = "SELECT kind, tokens.name, coalesce(hosts.id, 0) FROM tokens \
                    LEFT JOIN hosts ON kind = 'host' AND hosts.name = tokens.name \
                    WHERE hash = ?1 AND revoked_us IS NULL";
        self.first("look for a token", find, &values![hash], |row| {
            let kind = if row.get::<&str>(0)? == "host" { Kind::Host } else { Kind::Reader };
            Ok(Holder { kind, name: row.get(1)?, host: row.get(2)? })
        })
    }

    /// Stores a code for a single sign-in.
    ///
    /// # Errors
    /// When the database refuses, or too many codes are usable: 20 of the name and token, or 200 of the host. Codes by
    /// a host count toward the part of the database that hosts may fill.
    pub fn add_code(
        &self,
        hash: &[u8],
        whose: LinkFor<'_>,
        expires_us: u64,
        now_us: u64,
    ) -> Result<(), StoreError> {
        let LinkFor { name, via, access } = whose;
        let access = serde_json::to_string(access).map_err(|error| StoreError::Refused(error.to_string()))?;
        self.write_or("add a sign-in", is_of_host(via), |connection| {
            connection.execute("DELETE FROM codes WHERE expires_us <= ?1", &values![now_us])?;
            let count = "SELECT count(*), coalesce(sum(CASE WHEN name = ?2 THEN 1 ELSE 0 END), 0) FROM codes WHERE via = ?1";
            let found = connection.first(count, &values![via, name], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let (all, codes): (i64, i64) = found.unwrap_or_default();
            if codes >= CODES_MAX {
                return Err(Stopped::Own(StoreError::TooMany(format!(
                    "there are {CODES_MAX} unused links already: use one, or ask again in ten minutes"
                ))));
            }
            if is_of_host(via) && all >= CODES_OF_HOST_MAX {
                return Err(Stopped::Own(StoreError::TooMany(format!(
                    "there are {CODES_OF_HOST_MAX} unused links of users of {via} already: ask again in ten minutes"
                ))));
            }
            let add = "INSERT INTO codes (hash, name, via, access, expires_us) VALUES (?1, ?2, ?3, ?4, ?5)";
            connection.execute(add, &values![hash, name, via, access, expires_us])?;
            Ok(note(connection, now_us, name, "login-link", "a one-time link was made")?)
        })
    }

    /// Uses up a code and begins a session of this hash. `None`: the code does not exist any more.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn sign_in(
        &self,
        code: &[u8],
        session: &[u8],
        csrf: &str,
        expires_us: u64,
        now_us: u64,
    ) -> Result<Option<String>, StoreError> {
        self.write("sign in", |connection| {
            let take = "DELETE FROM codes WHERE hash = ?1 AND expires_us > ?2 RETURNING name, via, access";
            let who = |row: &Row| Ok((row.get::<String>(0)?, row.get::<String>(1)?, row.get::<String>(2)?));
            let found = connection.first(take, &values![code, now_us], who)?;
            let Some((name, via, access)) = found else { return Ok(None) };
            connection.execute("DELETE FROM sessions WHERE expires_us <= ?1", &values![now_us])?;
            end_oldest(connection, &via, &name)?;
            let add = "INSERT INTO sessions (hash, name, via, access, csrf, expires_us) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            connection.execute(add, &values![session, &name, via, access, csrf, expires_us])?;
            note(connection, now_us, &name, "login", "signed in on the page")?;
            Ok(Some(name))
        })
    }

    /// The session of this hash, unless expired.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn session(&self, hash: &[u8], now_us: u64) -> Result<Option<Session>, StoreError> {
        let find = "SELECT name, csrf, access, via FROM sessions WHERE hash = ?1 AND expires_us > ?2";
        self.first("look for a session", find, &values![hash, now_us], |row| {
            // Unreadable access grants nothing.
            let access = serde_json::from_str(row.get(2)?).unwrap_or_default();
            Ok(Session { name: row.get(0)?, via: row.get(3)?, csrf: row.get(1)?, access, by_proxy: false })
        })
    }

    /// Stores the key with which a host's daemon vouches for its users.
    ///
    /// # Errors
    /// When another host has the key, or the database refuses.
    pub fn set_key(&self, host: i64, key: &[u8]) -> Result<(), StoreError> {
        self.write_or("keep a host's key", false, |connection| {
            let find = "SELECT name FROM hosts WHERE key = ?1 AND id <> ?2";
            if let Some(other) = connection.first(find, &values![key, host], |row| row.get::<String>(0))? {
                return Err(Stopped::Own(StoreError::Taken(format!(
                    "host {other} has the same key: if that is this host's former name, `pinfold-hub rename {other} NAME` \
                     at the hub keeps its jobs together; if its state directory was copied, remove `voucher.key` from \
                     the daemon's state directory on one of them"
                ))));
            }
            let set = "UPDATE hosts SET key = ?2 WHERE id = ?1";
            Ok(connection.execute(set, &values![host, key]).map(drop)?)
        })
    }

    /// The host of this key: number, name, and the lead of its clock at its last message, in microseconds; `None`:
    /// unknown key, or all the host's tokens are revoked.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn host_of_key(&self, key: &[u8]) -> Result<Option<(i64, String, Option<i64>)>, StoreError> {
        self.read("look for a host's key", |connection| {
            let find = "SELECT id, name, clock_ahead_us FROM hosts WHERE key = ?1 AND EXISTS (SELECT 1 FROM tokens WHERE kind = 'host' AND \
                        tokens.name = hosts.name AND revoked_us IS NULL)";
            connection.first(find, &values![key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        })
    }

    /// Ends a session.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn sign_out(&self, hash: &[u8], name: &str, now_us: u64) -> Result<(), StoreError> {
        self.write("sign out", |connection| {
            connection.execute("DELETE FROM sessions WHERE hash = ?1", &values![hash])?;
            note(connection, now_us, name, "logout", "signed out")
        })
    }

    /// Notes an act.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn note(&self, who: &str, action: &str, detail: &str, now_us: u64) -> Result<(), StoreError> {
        self.write("note an act", |connection| note(connection, now_us, who, action, detail))
    }

    /// Acts, the last first.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn audit(&self, limit: u32, offset: u32) -> Result<Vec<AuditRow>, StoreError> {
        self.read("list acts", |connection| {
            let find =
                "SELECT id, time_us, who, action, detail FROM audit ORDER BY id DESC LIMIT ?1 OFFSET ?2";
            connection.all(find, &values![limit, offset], |row| {
                Ok(AuditRow {
                    id: row.get(0)?,
                    time_us: row.get(1)?,
                    who: row.get(2)?,
                    action: row.get(3)?,
                    detail: row.get(4)?,
                })
            })
        })
    }

    /// The stored value of this name, if present.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn meta(&self, key: &str) -> Result<Option<String>, StoreError> {
        self.read("read a value", |connection| {
            let find = "SELECT value FROM meta WHERE key = ?1";
            connection.first(find, &values![key], |row| row.get(0))
        })
    }

    /// Stores a named value.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn set_meta(&self, key: &str, value: &str) -> Result<(), StoreError> {
        self.write("keep a value", |connection| {
            let set = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
            connection.execute(set, &values![key, value])
        })
        .map(drop)
    }

    /// Stores a named value unless the name has a value; returns the stored value.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn set_meta_once(&self, key: &str, value: &str) -> Result<String, StoreError> {
        self.write("keep a value", |connection| {
            let set = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO NOTHING";
            connection.execute(set, &values![key, value])?;
            let find = "SELECT value FROM meta WHERE key = ?1";
            Ok(connection.first(find, &values![key], |row| row.get(0))?.unwrap_or_default())
        })
    }

    /// Forgets a value.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn remove_meta(&self, key: &str) -> Result<(), StoreError> {
        let remove = "DELETE FROM meta WHERE key = ?1";
        self.write("forget a value", |connection| connection.execute(remove, &values![key])).map(drop)
    }
}

/// The tokens to revoke.
#[derive(Debug, Clone, Copy)]
pub enum Revoked<'a> {
    /// The token of this number.
    Number(i64),
    /// All tokens of this kind and name.
    Name(Kind, &'a str),
}

/// Whether a host vouches for the session: the host chooses the session's name.
fn is_of_host(via: &str) -> bool {
    via.starts_with("host ")
}

/// Ends the oldest sessions of this name and token to make room for a new session.
fn end_oldest(connection: &mut dyn Connection, via: &str, name: &str) -> Result<(), DbError> {
    let end = |words: &str, most: u32| {
        format!(
            "DELETE FROM sessions WHERE hash IN (SELECT hash FROM sessions WHERE via = ?1{words} \
             ORDER BY expires_us DESC, hash LIMIT 1000000 OFFSET {})",
            most - 1
        )
    };
    connection.execute(&end(" AND name = ?2", SESSIONS_MAX), &values![via, name])?;
    if is_of_host(via) {
        connection.execute(&end("", SESSIONS_OF_HOST_MAX), &values![via])?;
    }
    Ok(())
}

/// The number of the host of this name.
fn host_of(connection: &mut dyn Connection, name: &str) -> Result<Option<i64>, DbError> {
    let find = "SELECT id FROM hosts WHERE name = ?1";
    connection.first(find, &values![name], |row| row.get(0))
}

fn list(connection: &mut dyn Connection) -> Result<Vec<TokenRow>, DbError> {
    let find = "SELECT id, kind, name, made_us, revoked_us FROM tokens ORDER BY id";
    connection.all(find, &[], |row| {
        Ok(TokenRow {
            id: row.get(0)?,
            kind: row.get(1)?,
            name: row.get(2)?,
            made_us: row.get(3)?,
            revoked_us: row.get(4)?,
        })
    })
}

pub(super) fn note(
    connection: &mut dyn Connection,
    now_us: u64,
    who: &str,
    action: &str,
    detail: &str,
) -> Result<(), DbError> {
    let add = "INSERT INTO audit (time_us, who, action, detail) VALUES (?1, ?2, ?3, ?4)";
    connection.execute(add, &values![now_us, who, action, detail]).map(drop)
}
