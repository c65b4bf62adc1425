//! Places for connections, bounded in all and by address; many people may share an address (a proxy, the loopback
//! address). An IPv6 address counts with its whole /64, the usual share of a subscriber. When places run out, the first
//! connection ends that is idle, or that still waits for a body while the request's taker is unknown: neither silent
//! nor slow connections keep others out.
//!
//! Absent here: the time limits of a connection (`listen`).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Concurrent connections.
const CONNECTIONS_MAX: usize = 1_024;

/// Concurrent connections of an address; many hosts may share an address.
const OF_AN_ADDRESS_MAX: usize = 256;

/// A connection's activity.
#[derive(Debug, Default)]
pub(super) struct Doing {
    requests: AtomicU32,
    awaits: AtomicBool,
    writes: AtomicBool,
    leave: Notify,
}

impl Doing {
    /// Notes a running request, until the returned value is dropped.
    pub(super) fn request(self: &Arc<Self>) -> impl Drop + use<> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        Answering(Arc::clone(self))
    }

    /// Notes whether the request waits for its body while its taker is unknown.
    pub(super) fn awaits_stranger(&self, awaits: bool) {
        self.awaits.store(awaits, Ordering::Relaxed);
    }

    /// Notes whether an answer waits for the client to read it.
    pub(super) fn writes(&self, writes: bool) {
        self.writes.store(writes, Ordering::Relaxed);
    }

    /// Ends when the connection has to make room.
    pub(super) async fn has_to_leave(&self) {
        self.leave.notified().await;
    }

    fn may_make_room(&self) -> bool {
        let asks = self.requests.load(Ordering::Relaxed) > 0 && !self.awaits.load(Ordering::Relaxed);
        !asks && !self.writes.load(Ordering::Relaxed)
    }
}

struct Answering(Arc<Doing>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// See the module's page.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<All>);

#[derive(Debug, Default)]
struct All {
    next: u64,
    /// Connections by number, which is the order of arrival, with the address that each counts for.
    held: BTreeMap<u64, (IpAddr, Arc<Doing>)>,
}

/// The address that a connection counts for: for IPv6 the first address of its /64.
fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address @ IpAddr::V4(_) => address,
    }
}

impl Places {
    /// A place for a connection of this address; `None`: no connection can make room.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let (mut all, address) = (self.all(), counted(address));
        if all.count(address) >= OF_AN_ADDRESS_MAX {
            all.make_room(address)?;
        } else if all.held.len() >= CONNECTIONS_MAX {
            let most = all.most()?;
            all.make_room(most)?;
        }
        let (number, doing) = (all.next, Arc::new(Doing::default()));
        all.next += 1;
        all.held.insert(number, (address, Arc::clone(&doing)));
        drop(all);
        Some(Place { places: Arc::clone(self), number, doing })
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl All {
    fn count(&self, address: IpAddr) -> usize {
        self.held.values().filter(|(own, _)| *own == address).count()
    }

    /// The address with the most connections.
    fn most(&self) -> Option<IpAddr> {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        self.held.values().for_each(|(address, _)| *counts.entry(*address).or_default() += 1);
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(address, _)| address)
    }

    /// Ends the first connection of an address that can make room.
    fn make_room(&mut self, of: IpAddr) -> Option<()> {
        let first = self.held.iter().find(|(_, (address, doing))| *address == of && doing.may_make_room())?;
        let number = *first.0;
        let (_, doing) = self.held.remove(&number)?;
        doing.leave.notify_one();
        Some(())
    }
}

/// A connection's place, until it is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    /// The connection's activity.
    pub doing: Arc<Doing>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.all().held.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn has_to_leave(place: &Place) -> bool {
        !place.places.all().held.contains_key(&place.number)
    }

    #[test]
    fn the_first_that_asks_for_nothing_makes_room() {
        let places = Arc::new(Places::default());
        let mut held: Vec<Place> =
            (0..OF_AN_ADDRESS_MAX).map(|_| places.enter(address(1)).unwrap()).collect();
        let asks = held[0].doing.request();
        held[1].doing.writes(true);
        held.push(places.enter(address(1)).unwrap());
        let left: Vec<usize> = (0..held.len()).filter(|&at| has_to_leave(&held[at])).collect();
        assert_eq!(left, [2], "the first two are served");
        drop(asks);
        held.push(places.enter(address(1)).unwrap());
        assert!(has_to_leave(&held[0]));
        let _asking: Vec<_> = held.iter().map(|place| place.doing.request()).collect();
        assert!(places.enter(address(1)).is_none(), "all of them are served");
        assert!(places.enter(address(2)).is_some(), "which is no matter of another address");
    }

    #[test]
    fn a_request_makes_room_while_a_body_of_a_stranger_is_awaited() {
        let places = Arc::new(Places::default());
        let held: Vec<Place> = (0..OF_AN_ADDRESS_MAX).map(|_| places.enter(address(1)).unwrap()).collect();
        let _asking: Vec<_> = held.iter().map(|place| place.doing.request()).collect();
        assert!(places.enter(address(1)).is_none());
        held[3].doing.awaits_stranger(true);
        held[4].doing.awaits_stranger(true);
        held[4].doing.awaits_stranger(false);
        assert!(places.enter(address(1)).is_some());
        let left: Vec<usize> = (0..held.len()).filter(|&at| has_to_leave(&held[at])).collect();
        assert_eq!(left, [3], "the body of the other came");
    }

    #[test]
    fn addresses_of_ipv6_count_by_their_64_bits() {
        let check = |one: &str, other: &str, same: bool| {
            let of = |text: &str| counted(text.parse().unwrap());
            assert_eq!(of(one) == of(other), same, "{one} {other}");
        };
        check("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true);
        check("2001:db8:1:2::1", "2001:db8:1:3::1", false);
        check("::ffff:10.0.0.1", "10.0.0.1", true);
        check("::ffff:10.0.0.1", "::ffff:10.0.0.2", false);
        check("10.0.0.1", "10.0.0.2", false);
    }

    #[test]
    fn room_for_one_more_is_made_by_who_has_the_most() {
        let places = Arc::new(Places::default());
        let few = places.enter(address(9)).unwrap();
        let many =
            (0..CONNECTIONS_MAX - 1).map(|at| places.enter(address(u8::try_from(at % 5).unwrap())).unwrap());
        let many: Vec<Place> = many.collect();
        let one = places.enter(address(8)).unwrap();
        assert!(!has_to_leave(&few) && !has_to_leave(&one));
        assert_eq!(many.iter().filter(|place| has_to_leave(place)).count(), 1);
        drop((few, many, one));
        assert!(places.all().held.is_empty());
    }
}
