//! Open files that a client sends along with its bytes, and whose last close would wait.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use pinfold_sys::ancillary;
use pinfold_testkit::lingers;
use rustix::net::sockopt;

use super::*;
use crate::kind::tests;

tests! {
    Best: sockets_that_linger;
}

/// The daemon has the last copy, or none: its kernel refuses to pass it. Either way it serves everybody.
fn sockets_that_linger(kind: Kind) {
    let host = shared(kind, &[]);
    let mut others = Vec::new();
    for bytes in [&[0; 1][..], &u32::MAX.to_le_bytes()] {
        // The second has the daemon cut the connection off, so that a third is never read.
        let client = UnixStream::connect(host.socket()).expect("the daemon listens");
        for _ in 0..2 {
            let (one, other) = lingers();
            if ancillary::send(&client, bytes, &[one.as_fd()]).is_err() {
                sockopt::set_socket_linger(&one, None).expect("set");
            }
            drop(one);
            others.push(other);
        }
        Wire::greeted(&host);
        drop(client);
        Wire::greeted(&host);
    }
    assert_eq!(run_as(&host, VICTIM, &["status"]).code, Some(0));
}
