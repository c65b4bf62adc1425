//! What a service manager is told, as `sd_notify(3)` has it: that the daemon is ready, that it is alive, that it ends.
//! Without `NOTIFY_SOCKET` nobody is told anything.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The service manager's socket, and how often it wants to hear.
#[derive(Debug, Default)]
pub(crate) struct Manager {
    manager: Option<(UnixDatagram, SocketAddr)>,
    /// Half of what the manager waits for a sign of life, as `sd_watchdog_enabled(3)` advises; in microseconds.
    beat_us: Option<u64>,
    due_us: u64,
}

impl Manager {
    /// The manager of this process, by its environment.
    pub(crate) fn of_environment() -> Self {
        let name = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty());
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        // Meant for another process of the same service.
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let wanted_us = number("WATCHDOG_USEC").filter(|&us| is_ours && us > 0);
        Self::new(name.as_deref(), wanted_us)
    }

    fn new(name: Option<&OsStr>, wanted_us: Option<u64>) -> Self {
        let manager = name.and_then(|name| {
            let address = match name.as_bytes() {
                [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest),
                _ => SocketAddr::from_pathname(name),
            };
            let socket = UnixDatagram::unbound().ok()?;
            // A manager that does not listen must not hold the daemon.
            socket.set_nonblocking(true).ok()?;
            Some((socket, address.ok()?))
        });
        let beat_us = wanted_us.filter(|_| manager.is_some()).map(|us| (us / 2).max(1000));
        Self { manager, beat_us, due_us: 0 }
    }

    /// The daemon serves.
    pub(crate) fn ready(&self) {
        self.tell("READY=1");
    }

    /// The daemon ends in order.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// When the next sign of life is due, if any is wanted.
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.beat_us.map(|_| self.due_us)
    }

    /// Gives a sign of life, if it is due.
    pub(crate) fn beat(&mut self, now_us: u64) {
        if let Some(beat_us) = self.beat_us.filter(|_| self.due_us <= now_us) {
            self.tell("WATCHDOG=1");
            self.due_us = now_us.saturating_add(beat_us);
        }
    }

    fn tell(&self, words: &str) {
        if let Some((socket, address)) = &self.manager {
            // Nobody listens: then nobody wanted to know.
            let _ = socket.send_to_addr(words.as_bytes(), address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 64];
        let count = socket.recv(&mut buffer).unwrap_or(0);
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    }

    #[test]
    fn the_manager_hears_in_time() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("bound");
        manager.set_nonblocking(true).expect("set");
        let mut service = Manager::new(Some(path.as_os_str()), Some(2_000_000));
        service.ready();
        assert_eq!(heard(&manager), "READY=1");
        service.beat(5_000_000);
        assert_eq!(heard(&manager), "WATCHDOG=1");
        assert_eq!(service.due_us(), Some(6_000_000));
        service.beat(5_999_999);
        assert_eq!(heard(&manager), "", "not before its time");
        service.beat(6_000_000);
        assert_eq!(heard(&manager), "WATCHDOG=1");
        service.stopping();
        assert_eq!(heard(&manager), "STOPPING=1");
    }

    #[test]
    fn names_without_a_file_are_heard_as_well() {
        let name = format!("pinfold-service-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let manager = UnixDatagram::bind_addr(&address).expect("bound");
        manager.set_nonblocking(true).expect("set");
        Manager::new(Some(OsStr::new(&format!("@{name}"))), None).ready();
        assert_eq!(heard(&manager), "READY=1");
    }

    #[test]
    fn nobody_is_told_nothing() {
        let mut service = Manager::new(None, Some(1_000));
        service.ready();
        service.beat(1);
        assert_eq!(service.due_us(), None);
    }
}
