//! Ports of loopback for programs that tests start.

use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};

/// The first port that is given out. The kernel gives away those from 32,768 on (`ip_local_port_range`).
const FIRST: u32 = 12_000;
const COUNT: u32 = 20_000;

/// A port of loopback on which nobody listens. The kernel gives it to nobody who does not name it, so that it stays free
/// until it is used, and while its program is dead. A process gets each of 20,000 ports once before any comes again.
///
/// # Panics
/// If somebody listens on each of them.
#[must_use]
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Tests that run at once are in several processes: each begins elsewhere.
    let nth = || std::process::id().wrapping_mul(97).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
    let candidate = || u16::try_from(FIRST + nth() % COUNT).expect("below 65,536");
    // Asked, not bound: what another thread starts at this moment would have it open for an instant longer.
    let is_free = |port: &u16| TcpStream::connect(("127.0.0.1", *port)).is_err();
    let mut free = std::iter::repeat_with(candidate).take(COUNT as usize).filter(is_free);
    free.next().expect("one of so many is free")
}

/// The same as an address: `127.0.0.1:PORT`.
#[must_use]
pub fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_free_and_given_out_once() {
        let (one, other) = (free_port(), free_port());
        assert_ne!(one, other);
        for port in [one, other] {
            assert!((FIRST..FIRST + COUNT).contains(&u32::from(port)), "{port}");
        }
    }
}
