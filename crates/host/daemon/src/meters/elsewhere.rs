//! What classes of jobs held on other hosts, by the table of a hub whose key an operator named (`learning.from_hub`): taken only
//! with that key's signature and a number that is higher than the last one's, and only for classes of which no run is known
//! here.
//!
//! Owner of state: the table in force, and its file in the state directory, so that no lower number is taken after a restart.
//! Absent here: how the table comes here (an operator hands it over), and what is learned from jobs of this host ([`super::learn`]).

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use pinfold_policy::claims::Prior;
use pinfold_proto::JobSpec;
use pinfold_proto::config::{Config, Learn};
use pinfold_proto::learned::{self, CLASS_BYTES, EVERYBODY, Row, Signed, Table, likeness};
use pinfold_proto::voucher::{hex, unhex};
use pinfold_proto::wire::ErrorCode;
use ring::signature::{ED25519, UnparsedPublicKey};
use sha2::{Digest as _, Sha256};

use crate::core::Refusal;

/// The file of the table in force.
const FILE: &str = "learned.json";

/// A table is not taken that was made so much later than now, in microseconds: a day.
const AHEAD_US: u64 = 86_400_000_000;

/// The table in force.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere {
    file: PathBuf,
    known: Option<Known>,
}

#[derive(Debug)]
struct Known {
    /// The hub's key by which it was verified.
    key: String,
    number: u64,
    hub: String,
    rows: BTreeMap<String, Row>,
}

/// What is known of a class, and where from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) prior: Prior,
    pub(crate) words: String,
}

impl Elsewhere {
    /// The table that was in force before, if its signature is still that of the key that is named.
    pub(crate) fn open(state: &Path, config: &Config) -> Self {
        let file = state.join(FILE);
        let (Some(key), Ok(text)) = (&config.learning_from_hub, pinfold_sys::files::read_regular(&file))
        else {
            return Self { file, known: None };
        };
        let signed = serde_json::from_slice::<Signed>(&text).map_err(|error| error.to_string());
        let known = signed.and_then(|signed| known(key, &signed));
        if let Err(error) = &known {
            tracing::warn!(file = %file.display(), error, "what was learned elsewhere is not used");
        }
        Self { file, known: known.ok() }
    }

    /// Takes a table. It is on disk before it is in force.
    pub(crate) fn take(&mut self, config: &Config, signed: &Signed, now_us: u64) -> Result<(), Refusal> {
        let Some(key) = &config.learning_from_hub else {
            let off = "estimates of a hub are not taken: `pinfold config set learning.from_hub=KEY` names whose are";
            return Err((ErrorCode::Refused, off.to_owned()));
        };
        let refuse = |words: String| (ErrorCode::Refused, format!("the hub's table: {words}"));
        let new = known(key, signed).map_err(refuse)?;
        let made_us = made_us(signed);
        if made_us > now_us.saturating_add(AHEAD_US) {
            return Err(refuse(
                "it was made more than a day from now; one of the clocks is wrong".to_owned(),
            ));
        }
        match self.known.as_ref().filter(|known| known.key == new.key) {
            Some(known) if new.number == known.number => return Ok(()),
            Some(known) if new.number < known.number => {
                let words =
                    format!("it has number {}, and number {} was taken before", new.number, known.number);
                return Err(refuse(words));
            }
            _ => {}
        }
        let failed = |error: std::io::Error| {
            (ErrorCode::Failed, format!("failed to keep {}: {error}", self.file.display()))
        };
        keep(&self.file, signed).map_err(failed)?;
        self.known = Some(new);
        Ok(())
    }

    /// What the jobs that this one is like held on other hosts.
    pub(crate) fn find(&self, config: &Config, user: &str, spec: &JobSpec) -> Option<Found> {
        let known =
            self.known.as_ref().filter(|known| config.learning_from_hub.as_ref() == Some(&known.key))?;
        let user = match config.memory_learn {
            Learn::User => user,
            Learn::Site => EVERYBODY,
        };
        let row = known.rows.get(&class_of(user, spec)?)?;
        let prior = Prior {
            p50_held_bytes: row.held_p50_bytes,
            p99_held_bytes: row.held_p99_bytes,
            runs: usize::try_from(row.runs).unwrap_or(usize::MAX),
        };
        let hosts = if row.hosts == 1 { "1 host".to_owned() } else { format!("{} hosts", row.hosts) };
        let words = format!("{} on {hosts}, by table {} of {}", row.runs, known.number, known.hub);
        Some(Found { prior, words: pinfold_profile::report::plain(&words) })
    }
}

/// The class of a job of this user, as tables name it.
fn class_of(user: &str, spec: &JobSpec) -> Option<String> {
    let likeness = Sha256::digest(likeness(&spec.command, &spec.name, spec.cores)?);
    let class = Sha256::digest(learned::of_user(&likeness, user));
    Some(hex(&class[..CLASS_BYTES]))
}

/// A table with this key's signature.
fn known(key: &str, signed: &Signed) -> Result<Known, String> {
    let bytes = |text: &str| unhex(text).unwrap_or_default();
    let verified = UnparsedPublicKey::new(&ED25519, bytes(key))
        .verify(&learned::signed_text(&signed.table), &bytes(&signed.signature));
    if verified.is_err() {
        return Err("its signature is not of the key that `learning.from_hub` names".to_owned());
    }
    let Table { number, hub, rows, .. } = Table::read(&signed.table).map_err(|error| error.to_string())?;
    let rows = rows.into_iter().map(|row| (row.class.clone(), row)).collect();
    Ok(Known { key: key.to_owned(), number, hub: hub.chars().take(200).collect(), rows })
}

fn made_us(signed: &Signed) -> u64 {
    Table::read(&signed.table).map_or(u64::MAX, |table| table.made_us)
}

fn keep(file: &Path, signed: &Signed) -> std::io::Result<()> {
    let beside = file.with_extension("new");
    let _ = std::fs::remove_file(&beside);
    let mut new = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    new.write_all(&serde_json::to_vec(signed).map_err(std::io::Error::from)?)?;
    new.sync_all()?;
    std::fs::rename(&beside, file)
}

#[cfg(test)]
mod tests {
    use ring::signature::{Ed25519KeyPair, KeyPair as _};

    use super::*;

    const NOW_US: u64 = 1_795_000_000_000_000;

    fn key(seed: u8) -> Ed25519KeyPair {
        Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
    }

    fn config(changes: &[&str]) -> Config {
        let own = format!("learning.from_hub={}", hex(key(1).public_key().as_ref()));
        let changes = std::iter::once(own.as_str()).chain(changes.iter().copied());
        Config::default().with_changes(changes).unwrap().0
    }

    fn spec() -> JobSpec {
        let command = vec!["/usr/bin/align".to_owned(), "-x".to_owned()];
        JobSpec { name: "align".into(), command, cores: 2, ..JobSpec::default() }
    }

    fn table(number: u64, users: &[&str]) -> Table {
        let row = |user: &&str| Row {
            class: class_of(user, &spec()).unwrap(),
            runs: 12,
            hosts: 3,
            held_p50_bytes: 1 << 30,
            held_p99_bytes: 2 << 30,
        };
        let rows = users.iter().map(row).collect();
        Table { version: learned::VERSION, number, made_us: NOW_US, hub: "https://hub.example".into(), rows }
    }

    fn signed(seed: u8, table: &Table) -> Signed {
        let table = serde_json::to_string(table).unwrap();
        let signature = hex(key(seed).sign(&learned::signed_text(&table)).as_ref());
        Signed { table, signature }
    }

    #[test]
    fn a_table_tells_users_of_their_own_classes_and_outlives_a_restart() {
        let (dir, config) = (tempfile::tempdir().unwrap(), config(&[]));
        let mut elsewhere = Elsewhere::open(dir.path(), &config);
        assert_eq!(elsewhere.find(&config, "ann", &spec()), None);
        elsewhere.take(&config, &signed(1, &table(7, &["ann"])), NOW_US).unwrap();
        for elsewhere in [elsewhere, Elsewhere::open(dir.path(), &config)] {
            let found = elsewhere.find(&config, "ann", &spec()).unwrap();
            assert_eq!(found.prior.p99_held_bytes, 2 << 30);
            assert_eq!(found.words, "12 on 3 hosts, by table 7 of https://hub.example");
            assert_eq!(elsewhere.find(&config, "bea", &spec()), None, "another user's");
            let other = JobSpec { cores: 3, ..spec() };
            assert_eq!(elsewhere.find(&config, "ann", &other), None, "another class");
            let off = Config::default();
            assert_eq!(elsewhere.find(&off, "ann", &spec()), None, "it is off");
        }
        // The site's own is for hosts where the site is learned from.
        let site = self::config(&["memory.learn=site"]);
        let mut elsewhere = Elsewhere::open(dir.path(), &site);
        assert_eq!(elsewhere.find(&site, "ann", &spec()), None);
        elsewhere.take(&site, &signed(1, &table(8, &[EVERYBODY])), NOW_US).unwrap();
        assert!(elsewhere.find(&site, "ann", &spec()).is_some());
    }

    #[test]
    fn what_is_not_the_hub_s_is_refused_and_so_is_what_was_replaced() {
        let (dir, config) = (tempfile::tempdir().unwrap(), config(&[]));
        let mut elsewhere = Elsewhere::open(dir.path(), &config);
        let good = signed(1, &table(7, &["ann"]));
        elsewhere.take(&config, &good, NOW_US).unwrap();
        let mut check = |signed: &Signed, words: &str| {
            let (_, why) = elsewhere.take(&config, signed, NOW_US).unwrap_err();
            assert!(why.contains(words), "{why}");
        };
        check(&signed(2, &table(9, &["ann"])), "signature");
        check(&Signed { table: good.table.replace("12", "13"), ..good.clone() }, "signature");
        check(&Signed { signature: String::new(), ..good.clone() }, "signature");
        check(&signed(1, &table(6, &["ann"])), "number 7 was taken before");
        check(&signed(1, &Table { made_us: u64::MAX, ..table(9, &[]) }), "clocks");
        check(&signed(1, &Table { version: 2, ..table(9, &[]) }), "version 2");
        check(&signed(1, &Table { hub: "x".repeat(1 << 20), ..table(9, &[]) }), "are the most");
        let row = Row { runs: 0, ..table(1, &["ann"]).rows.remove(0) };
        check(&signed(1, &Table { rows: vec![row], ..table(9, &[]) }), "rests on nothing");
        // The same again changes nothing; a lower number is refused after a restart as well.
        elsewhere.take(&config, &good, NOW_US).unwrap();
        let mut again = Elsewhere::open(dir.path(), &config);
        assert!(again.take(&config, &signed(1, &table(6, &["ann"])), NOW_US).is_err());
        assert!(
            again.take(&Config::default(), &good, NOW_US).unwrap_err().1.contains("learning.from_hub=KEY")
        );
        // A file that somebody changed is not believed, and one of another key is not either.
        let text = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        std::fs::write(dir.path().join(FILE), text.replace("https://hub.example", "https://evil.example"))
            .unwrap();
        assert_eq!(Elsewhere::open(dir.path(), &config).find(&config, "ann", &spec()), None);
        std::fs::write(dir.path().join(FILE), "{").unwrap();
        assert_eq!(Elsewhere::open(dir.path(), &config).find(&config, "ann", &spec()), None);
        let other = format!("learning.from_hub={}", hex(key(2).public_key().as_ref()));
        let other = Config::default().with_changes([other.as_str()]).unwrap().0;
        assert!(
            again.take(&other, &signed(2, &table(1, &[])), NOW_US).is_ok(),
            "another hub's numbers are its own"
        );
    }
}
