//! The kernel's messages are read, and impossible messages skipped.

use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};

use super::netlink::{HEAD, Netlink, Portion, attribute, attributes, messages};
use super::*;
use proptest::prelude::*;

const FAMILY: u16 = 30;

/// A socket like netlink's: whole messages, each read once. Returns its sending end as well.
fn netlink() -> (OwnedFd, Netlink) {
    let (kernel, here) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a pair");
    (kernel, Netlink::of(here))
}

fn says(kernel: &OwnedFd, kind: u16, body: &[u8]) {
    let mut message = u32::try_from(HEAD + body.len()).unwrap().to_ne_bytes().to_vec();
    message.extend_from_slice(&kind.to_ne_bytes());
    message.resize(HEAD, 0);
    message.extend_from_slice(body);
    send(kernel, &message, SendFlags::empty()).expect("it is sent");
}

/// A process is forked, at this time of the monotonic clock in nanoseconds.
fn forks(kernel: &OwnedFd, pid: u32, at_ns: u64) {
    let mut body = vec![0; 20];
    body.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]);
    body.extend_from_slice(&at_ns.to_ne_bytes());
    [1, 1, pid, pid].iter().for_each(|word: &u32| body.extend_from_slice(&word.to_ne_bytes()));
    says(kernel, 3, &body);
}

/// It ends.
fn ends(kernel: &OwnedFd, pid: u32) {
    let mut record = vec![0; 384];
    record[368..372].copy_from_slice(&pid.to_ne_bytes());
    let mut body = vec![0; 4];
    body.extend(attribute(4, &attribute(3, &record)));
    says(kernel, FAMILY, &body);
}

/// Records with two sources, and their sending ends: births, and ends.
fn records() -> (Records, OwnedFd, OwnedFd) {
    let ((births, connector), (ends, taskstats)) = (netlink(), netlink());
    let (connector, taskstats) = (Connector::of(connector, false), Taskstats::of(taskstats, FAMILY));
    let (connector, taskstats) = (Some(connector), Some(taskstats));
    (Records { connector, taskstats, ahead: None, why_not: Vec::new() }, births, ends)
}

/// The births, the ends, and whether more may wait.
fn told(taken: &Taken) -> (Vec<u32>, Vec<u32>, bool) {
    let births = taken.births.iter().map(|birth| birth.pid).collect();
    (births, taken.ends.iter().map(|end| end.process).collect(), taken.more)
}

#[test]
fn records_are_taken_in_portions_and_in_order() {
    let (mut records, births, over) = records();
    (1..=5).for_each(|pid| forks(&births, pid, u64::from(pid)));
    (1..=5).for_each(|pid| ends(&over, pid));
    let check = |records: &mut Records, born: &[u32], ended: &[u32], more: bool| {
        let taken = records.take(2);
        assert_eq!(told(&taken), (born.to_vec(), ended.to_vec(), more));
        assert!(taken.messages <= 4 && !taken.lost);
    };
    // Two ends were read as well. Whether their births were among these is not known before all of then are read.
    check(&mut records, &[1, 2], &[], true);
    check(&mut records, &[3, 4], &[], true);
    check(&mut records, &[5], &[1, 2], true);
    check(&mut records, &[], &[3, 4], true);
    check(&mut records, &[], &[5], false);
    check(&mut records, &[], &[], false);
}

#[test]
fn ends_wait_for_no_birth_that_came_after_them() {
    let (mut records, births, over) = records();
    let now_ns = connector::monotonic_ns();
    forks(&births, 1, now_ns);
    ends(&over, 1);
    // Records arrive as fast as they are read: earlier records are complete once a later record is read.
    (2..9).for_each(|pid| forks(&births, pid, now_ns + 3_600_000_000_000));
    assert_eq!(told(&records.take(1)), (vec![1], vec![], true));
    assert_eq!(told(&records.take(1)), (vec![2], vec![1], true));
}

#[test]
fn dropped_records_are_reported_until_all_are_read() {
    let (kernel, mut netlink) = netlink();
    netlink.drops = true;
    [1, 2, 3].iter().for_each(|pid| ends(&kernel, *pid));
    let portion = |messages, lost, more| Portion { messages, lost, more };
    assert_eq!(netlink.hear_up_to(2, |_| {}), portion(2, false, true));
    assert_eq!(netlink.hear_up_to(2, |_| {}), portion(1, true, false), "more may have been dropped since");
    assert_eq!(netlink.hear_up_to(2, |_| {}), portion(0, false, false));
}

#[test]
fn attributes_round_trip_with_their_padding() {
    let mut bytes = attribute(3, b"abcde");
    bytes.extend(attribute(0x8004, b""));
    bytes.extend(attribute(1, &7u32.to_ne_bytes()));
    let read: Vec<(u16, &[u8])> = attributes(&bytes).collect();
    assert_eq!(read, [(3, b"abcde".as_slice()), (4, b""), (1, &7u32.to_ne_bytes())]);
}

#[test]
fn statuses_as_wait_has_them() {
    for (status, expected) in [
        (0, (Some(0), None)),
        (3 << 8, (Some(3), None)),
        (9, (None, Some(9))),
        (0x80 | 11, (None, Some(11))),
        (255 << 8, (Some(255), None)),
    ] {
        assert_eq!(taskstats::ending(status), expected, "{status:#x}");
    }
}

#[test]
fn a_thread_without_voluntary_switches_ran_when_it_did_not_wait() {
    assert_eq!(taskstats::ran_us(55, 500, 60, 0), 440);
    assert_eq!(taskstats::ran_us(450, 500, 60, 0), 450);
    assert_eq!(taskstats::ran_us(55, 500, 60, 1), 55, "it may have slept");
    assert_eq!(taskstats::ran_us(55, 500, 600, 0), 55);
}

#[test]
fn a_source_that_misses_nothing_says_nothing() {
    assert!(Source::Full.loss().is_empty());
    assert!(!Source::Births.loss().is_empty() && !Source::Samples.loss().is_empty());
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        for (_, body) in messages(&bytes) {
            attributes(body).for_each(drop);
        }
        attributes(&bytes).for_each(drop);
    }
}
