//! What a host or a question can take of the hub is bounded, the same over both databases.

use pinfold_hub::store::{Access, LinkFor, Store};

use crate::server::Server;
use crate::store::known;

fn link<'a>(name: &'a str, via: &'a str) -> LinkFor<'a> {
    LinkFor { name, via, access: &Access::All }
}

/// A hash of its own for each number.
fn hash(number: u32) -> [u8; 32] {
    let mut hash = [0; 32];
    hash[..4].copy_from_slice(&number.to_le_bytes());
    hash
}

/// A host chooses the names that it vouches for: they do not multiply its links and sessions.
pub(crate) fn links_and_sessions_of_a_host_are_bounded(store: &Store, _host: i64) {
    let via = "host alpha";
    for number in 0..200 {
        store.add_code(&hash(number), link(&format!("u{number}@alpha"), via), 900, 1).unwrap();
    }
    let more = store.add_code(&hash(200), link("more@alpha", via), 900, 1).unwrap_err().to_string();
    assert!(more.contains("200 unused links of users of host alpha"), "{more}");
    // Others have theirs, and one that was used makes room.
    store.add_code(&hash(201), link("ann@beta", "host beta"), 900, 1).unwrap();
    store.sign_in(&hash(0), &hash(1_000), "c", 5_000, 2).unwrap().unwrap();
    store.add_code(&hash(202), link("more@alpha", via), 900, 2).unwrap();
    // Of one name and token the oldest session ends, and no other's.
    store.sign_in(&hash(201), &hash(1_001), "c", 4_000, 2).unwrap().unwrap();
    store.sign_in(&hash(202), &hash(2_000), "c", 6_000, 2).unwrap().unwrap();
    for number in 1..=20u32 {
        store.add_code(&hash(202), link("more@alpha", via), 900, 2).unwrap();
        let expires_us = 6_000 + u64::from(number);
        store.sign_in(&hash(202), &hash(2_000 + number), "c", expires_us, 2).unwrap().unwrap();
    }
    let is_there = |number: u32| store.session(&hash(number), 3).unwrap().is_some();
    assert!(!is_there(2_000) && (2_001..=2_020).all(is_there) && is_there(1_000) && is_there(1_001));
}

#[test]
fn sessions_of_all_names_of_a_host_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = known(Store::open_file(&dir.path().join("hub.db"), None).unwrap());
    let beside = rusqlite::Connection::open(dir.path().join("hub.db")).unwrap();
    beside
        .execute_batch(
            "WITH RECURSIVE numbers(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM numbers WHERE x < 1200) \
             INSERT INTO sessions (hash, name, via, csrf, expires_us) \
             SELECT CAST(x AS BLOB), 'u' || x || '@alpha', 'host alpha', 'c', 5000 + x FROM numbers",
        )
        .unwrap();
    store.add_code(&hash(1), link("ann@alpha", "host alpha"), 900, 1).unwrap();
    store.sign_in(&hash(1), &hash(2), "c", 9_000, 2).unwrap().unwrap();
    let count = |words: &str| -> i64 {
        beside
            .query_row(&format!("SELECT count(*) FROM sessions WHERE {words}"), [], |row| row.get(0))
            .unwrap()
    };
    assert_eq!((count("1 = 1"), count("expires_us <= 5201"), count("expires_us = 9000")), (1_000, 0, 1));
}

/// Of a database that is full for hosts.
fn only_hosts_lack_room(store: &Store) {
    let full = store.add_code(&hash(1), link("ann@alpha", "host alpha"), 900, 1).unwrap_err().to_string();
    assert!(full.contains("no room"), "{full}");
    for (number, via) in [(2, ""), (3, "reader ops")] {
        store.add_code(&hash(number), link("ann", via), 900, 1).unwrap();
        store.sign_in(&hash(number), &hash(10 + number), "c", 5_000, 2).unwrap().unwrap();
    }
}

#[test]
fn links_of_hosts_go_where_hosts_may_fill_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hub.db");
    let (store, _) = known(Store::open_file(&file, None).unwrap());
    let bytes = store.bytes().unwrap();
    drop(store);
    only_hosts_lack_room(&Store::open_file(&file, Some(bytes + 4_096)).unwrap());
    let Some(server) = Server::start() else { return };
    only_hosts_lack_room(&known(Store::open(&server.at(), Some(1 << 20)).unwrap()).0);
}
