//! A primary and its standby: the primary is lost while hosts push, the standby is promoted, and all that was acknowledged is
//! there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pinfold_hub::store::Store;
use pinfold_hubclient::HubClient;
use pinfold_hubwire::bundle::{Receipt, pack};
use pinfold_hubwire::push::{Uplink as _, UplinkError};
use pinfold_testkit::free_address;

use crate::common::{bundle_of, report};
use crate::program::{Serving, token};
use crate::server::Server;

/// How long it takes at the most until something is acknowledged again, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A host that sends one job after the other, each until it is acknowledged.
struct Host {
    /// Jobs that were acknowledged.
    acknowledged: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<u64>,
}

impl Host {
    /// Sends to the first hub, and to the second what the first does not answer, until it is told to stop.
    fn start(urls: [String; 2], token: &str, stop: &Arc<AtomicBool>) -> Self {
        let acknowledged = Arc::new(AtomicU64::new(0));
        let [one, other] = urls.map(|url| HubClient::new(&url, None).unwrap());
        let mut uplink = one.with_token(token).or(other);
        let (count, stop) = (Arc::clone(&acknowledged), Arc::clone(stop));
        let thread = std::thread::spawn(move || {
            let mut job = 0;
            while !stop.load(Ordering::Relaxed) {
                job += 1;
                let packed = pack(&bundle_of(vec![report(job, "x", 3)])).unwrap();
                let until = Instant::now() + PATIENCE;
                loop {
                    match uplink.bundle(&packed) {
                        // Known: it was written, and the answer was lost.
                        Ok(Receipt { new, known }) => {
                            assert_eq!(new + known, 1);
                            break;
                        }
                        Err(UplinkError::Later(why)) => assert!(Instant::now() < until, "{why}"),
                        Err(error) => panic!("{error}"),
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
                count.store(job, Ordering::Relaxed);
            }
            job
        });
        Self { acknowledged, thread }
    }

    /// Waits until so many more jobs were acknowledged.
    fn go_on(&self, more: u64) {
        let (from, until) = (self.acknowledged.load(Ordering::Relaxed), Instant::now() + PATIENCE);
        while self.acknowledged.load(Ordering::Relaxed) < from + more {
            assert!(!self.thread.is_finished(), "the host stopped");
            assert!(Instant::now() < until, "nothing is acknowledged");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_primary_is_lost_and_nothing_that_was_acknowledged() {
    let Some((mut primary, standby)) = Server::with_standby() else { return };
    let database = format!(
        "postgres://hub@{},{}/postgres?target_session_attrs=read-write",
        primary.address(),
        standby.address()
    );
    let tokens = ["alpha", "beta", "gamma"].map(|name| token(&database, "--host", name));
    let mut hubs = [(); 2].map(|()| Serving::start(&database, &free_address()));
    let urls = [hubs[0].url().to_owned(), hubs[1].url().to_owned()];
    let stop = Arc::new(AtomicBool::new(false));
    let hosts = tokens.map(|token| Host::start(urls.clone(), &token, &stop));
    hosts.iter().for_each(|host| host.go_on(20));
    primary.kill();
    standby.promote();
    hosts.iter().for_each(|host| host.go_on(20));
    // One of the hubs is lost as well, the one that hosts ask first.
    hubs[0].kill();
    hosts.iter().for_each(|host| host.go_on(20));
    stop.store(true, Ordering::Relaxed);
    let sent: u64 = hosts.map(|host| host.thread.join().unwrap()).into_iter().sum();
    drop(hubs);
    // Each once: those that were acknowledged by the lost primary among them.
    let store = Store::open(&standby.at(), None).unwrap();
    assert_eq!(store.totals().unwrap().0, sent);
}

#[test]
fn servers_that_wait_for_no_standby_are_told_of() {
    let Some((primary, standby)) = Server::with_standby() else { return };
    let at = pinfold_hub::store::location(&format!(
        "postgres://hub@{},{}/postgres",
        primary.address(),
        standby.address()
    ));
    let at = at.unwrap();
    assert!(!Store::open(&at, None).unwrap().is_alone().unwrap());
    primary.set("synchronous_standby_names", "");
    assert!(Store::open(&at, None).unwrap().is_alone().unwrap());
    // With one server there is nothing to lose.
    assert!(!Store::open(&primary.at(), None).unwrap().is_alone().unwrap());
}
