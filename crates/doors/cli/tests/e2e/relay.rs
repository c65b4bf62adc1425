//! Somebody between a daemon and its clients, who passes on what both say and may change it: a test has things happen at a
//! moment of its choice. Files that a daemon sends along are not passed on.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use pinfold_proto::wire::{self, Decoder, REPLY_MAX_BYTES, Reply, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::host::Host;
use crate::wait::{PATIENCE, eventually};

/// See the module's page. Dropped, it leaves, and clients reach the daemon itself again.
pub(crate) struct Between {
    listener: UnixListener,
    socket: PathBuf,
    /// Where the daemon is meanwhile.
    daemon: PathBuf,
}

impl Between {
    /// Takes the place of the daemon's socket.
    pub(crate) fn stand(host: &Host) -> Self {
        let (socket, daemon) = (host.socket(), host.path("behind.sock"));
        std::fs::rename(&socket, &daemon).expect("the daemon's socket");
        let listener = UnixListener::bind(&socket).expect("a socket in its place");
        std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o777)).expect("it is ours");
        listener.set_nonblocking(true).expect("a socket");
        Self { listener, socket, daemon }
    }

    /// The next client that comes.
    #[track_caller]
    pub(crate) fn client(&self) -> UnixStream {
        let client = eventually("a client comes", || self.listener.accept()).0;
        client.set_nonblocking(false).expect("a socket");
        client.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        client
    }

    /// Passes on the questions of a client and their answers, which `change` sees before the client, until the client
    /// leaves.
    pub(crate) fn pass_on(&self, client: UnixStream, mut change: impl FnMut(&mut Reply)) {
        let daemon = UnixStream::connect(&self.daemon).expect("the daemon listens");
        daemon.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        let (mut client, mut daemon) = (Speaker::new(client), Speaker::new(daemon));
        while let Some(request) = client.hear::<Request>() {
            daemon.say(&request);
            let mut reply = daemon.hear::<Reply>().expect("the daemon answers");
            change(&mut reply);
            client.say(&reply);
        }
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        let _ = std::fs::rename(&self.daemon, &self.socket);
    }
}

struct Speaker {
    stream: UnixStream,
    decoder: Decoder,
}

impl Speaker {
    fn new(stream: UnixStream) -> Self {
        Self { stream, decoder: Decoder::new(REPLY_MAX_BYTES) }
    }

    fn say(&mut self, words: &impl Serialize) {
        let mut bytes = Vec::new();
        wire::encode(words, &mut bytes).expect("short");
        self.stream.write_all(&bytes).expect("it is taken");
    }

    /// `None`: it has left.
    fn hear<T: DeserializeOwned>(&mut self) -> Option<T> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(words) = self.decoder.take().expect("clear words") {
                return Some(words);
            }
            match self.stream.read(&mut buffer).expect("words within the deadline") {
                0 => return None,
                count => self.decoder.push(&buffer[..count]),
            }
        }
    }
}
