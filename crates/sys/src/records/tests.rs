//! What the kernel sends, read; and what it never would, passed over.

use super::netlink::{attribute, attributes, messages};
use super::*;
use proptest::prelude::*;

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
fn what_never_gave_the_processor_up_ran_whenever_it_did_not_wait_for_it() {
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
