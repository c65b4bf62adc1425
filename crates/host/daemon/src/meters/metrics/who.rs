//! Who is at the other end of a connection on this host: the kernel's list of sockets says whose each is. Absent here:
//! what that user may see.

use std::net::{IpAddr, SocketAddr};

/// The user at the other end; `None`: not on this host, or not to be known.
pub(super) fn user_of(peer: SocketAddr, own: SocketAddr) -> Option<u32> {
    // A client that uses the older protocol on a socket of both is in the older list.
    let (peer, own) = (canonical(peer), canonical(own));
    let table = if peer.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    owner(&std::fs::read_to_string(table).ok()?, peer, own)
}

/// The owner of the socket from `from` to `to`, by `/proc/net/tcp`.
fn owner(table: &str, from: SocketAddr, to: SocketAddr) -> Option<u32> {
    let (from, to) = (written(from), written(to));
    table.lines().find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        // A socket that nobody has any more, waiting for its last packets, is shown as root's and without a file.
        let is_it = words.get(1) == Some(&from.as_str()) && words.get(2) == Some(&to.as_str());
        (is_it && words.get(9).is_some_and(|file| *file != "0")).then(|| words.get(7)?.parse().ok())?
    })
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// An address as the kernel writes it there: words of four bytes in the processor's own order.
fn written(address: SocketAddr) -> String {
    let word = |bytes: &[u8]| {
        let bytes = bytes.try_into().expect("chunks of four");
        format!("{:08X}", u32::from_ne_bytes(bytes))
    };
    let ip = match address.ip() {
        IpAddr::V4(ip) => word(&ip.octets()),
        IpAddr::V6(ip) => ip.octets().chunks_exact(4).map(word).collect(),
    };
    format!("{ip}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_socket_that_nobody_has_is_nobodys() {
        let from: SocketAddr = "127.0.0.1:8080".parse().unwrap();
        let to: SocketAddr = "127.0.0.1:9464".parse().unwrap();
        let row = |state: &str, uid: u32, file: u32| {
            format!(
                "   0: {} {} {state} 00000000:00000000 00:00000000 00000000 {uid:>5}        0 {file} 1 0 20 4 30 10 -1\n",
                written(from),
                written(to)
            )
        };
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
        assert_eq!(owner(&format!("{head}{}", row("01", 65534, 4711)), from, to), Some(65534));
        assert_eq!(owner(&row("06", 0, 0), from, to), None);
        assert_eq!(owner(&row("01", 65534, 4711), to, from), None);
        assert_eq!(owner("", from, to), None);
    }

    #[test]
    fn the_other_end_is_known() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                eprintln!("skipped: no {address} here");
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let reach = if address.starts_with("[::1]") { "::1" } else { "127.0.0.1" };
            let Ok(_client) = TcpStream::connect((reach, port)) else {
                eprintln!("skipped: {address} is not reached by {reach}");
                continue;
            };
            let (accepted, peer) = listener.accept().unwrap();
            let found = user_of(peer, accepted.local_addr().unwrap());
            assert_eq!(found, Some(pinfold_sys::peer::own_uid()), "{address}");
        }
    }
}
