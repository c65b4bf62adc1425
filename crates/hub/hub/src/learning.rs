//! Learning across hosts: if the operator enables it, the hub makes a table of the memory of job classes, signs it with
//! its own key, and serves it to hosts. Key and table are in the database: hubs that share it serve the same table.
//!
//! Absent here: the learning ([`crate::store`]), and the use of the table on hosts.

use pinfold_proto::learned::{self, Signed, Table, VERSION};
use pinfold_proto::voucher::{hex, unhex};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde::{Deserialize, Serialize};

use crate::hub::Hub;
use crate::store::{Store, StoreError, Whose, now_us};

/// Keys of the seed and the table in the database.
const SEED: &str = "learning_seed";
const CURRENT: &str = "learning_table";

/// Age at which jobs stop counting, in microseconds: 90 days.
const SINCE_US: u64 = 90 * 86_400_000_000;

/// The table in force, in its stored form.
#[derive(Debug, Serialize, Deserialize)]
struct Current {
    number: u64,
    signed: Signed,
}

/// The reason for the lack of a table.
#[derive(Debug, thiserror::Error)]
pub enum LearningError {
    /// The database refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The key is missing or damaged.
    #[error("the hub's key in the database: {0}")]
    Key(&'static str),
    /// The stored table is unreadable.
    #[error("the table in the database: {0}")]
    Kept(#[from] serde_json::Error),
}

/// The hub's key, drawn from the kernel the first time.
fn key(store: &Store) -> Result<Ed25519KeyPair, LearningError> {
    let kept = match store.meta(SEED)? {
        Some(kept) => kept,
        None => {
            let mut seed = [0u8; 32];
            SystemRandom::new().fill(&mut seed).map_err(|_| LearningError::Key("the kernel gives none"))?;
            store.set_meta_once(SEED, &hex(&seed))?
        }
    };
    let seed = unhex(&kept).ok_or(LearningError::Key("it cannot be read"))?;
    Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| LearningError::Key("it is none"))
}

/// The public key in hexadecimal, by which hosts know the hub.
///
/// # Errors
/// When the database refuses, or its value is no key.
pub fn public_key(store: &Store) -> Result<String, LearningError> {
    Ok(hex(key(store)?.public_key().as_ref()))
}

/// The table in force for a host, if its number is above this and the hub trusts that host about users elsewhere. An
/// untrusted host could learn the jobs of users elsewhere: a class is a digest that can be guessed.
///
/// # Errors
/// When the database refuses, or its value cannot be read.
pub fn current(hub: &Hub, host: &str, above: u64) -> Result<Option<Signed>, LearningError> {
    if !hub.trust.hosts.iter().any(|name| name == "*" || name == host) {
        return Ok(None);
    }
    let Some(text) = hub.store.meta(CURRENT)? else { return Ok(None) };
    let current: Current = serde_json::from_str(&text)?;
    Ok((current.number > above).then_some(current.signed))
}

/// Removes the table in force. Hosts keep their copies until their own configuration ends the use.
///
/// # Errors
/// When the database refuses.
pub fn stop(store: &Store) -> Result<(), LearningError> {
    Ok(store.remove_meta(CURRENT)?)
}

/// Makes a new table unless it equals the table in force. Returns the new table's number of classes.
///
/// # Errors
/// When the database refuses.
pub fn renew(hub: &Hub, whose: Whose) -> Result<Option<usize>, LearningError> {
    let (store, made_us) = (&hub.store, now_us());
    let rows = store.learned(&hub.trust.hosts, whose, made_us.saturating_sub(SINCE_US))?;
    let kept = store.meta(CURRENT)?.and_then(|text| serde_json::from_str::<Current>(&text).ok());
    let before = kept.as_ref().and_then(|kept| Table::read(&kept.signed.table).ok());
    if before.as_ref().map_or(rows.is_empty(), |before| before.rows == rows) {
        return Ok(None);
    }
    // A restored database has a lower number than hosts have seen: the time is above all numbers.
    let number = kept.map_or(0, |kept| kept.number).saturating_add(1).max(made_us / 1_000_000);
    let table = Table { version: VERSION, number, made_us, hub: hub.origin.clone(), rows };
    let text = serde_json::to_string(&table)?;
    let signature = hex(key(store)?.sign(&learned::signed_text(&text)).as_ref());
    let current = Current { number, signed: Signed { table: text, signature } };
    store.set_meta(CURRENT, &serde_json::to_string(&current)?)?;
    Ok(Some(table.rows.len()))
}
