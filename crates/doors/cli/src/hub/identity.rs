//! The identity at a hub: the holder of a reader's token if a token is kept, else this user by the word of this host's
//! daemon, which signs each request. Owner of state: the file with the hub's address. Absent here: the hub's use of it.

use std::fs::set_permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pinfold_hubwire::courier::{ClientError, Courier, Identity, Method};
use pinfold_hubwire::settings::Settings;
use pinfold_proto::ExitCode;
use pinfold_proto::voucher::{Voucher, hex};
use pinfold_proto::wire::Request;
use pinfold_sys::peer;
use serde::{Deserialize, Serialize};

use super::{of_settings, reader_dir, reader_file};
use pinfold_client::{Client, Dial, Failure};

/// The file with the hub's address, beside a reader's token or for the whole host.
const ADDRESS: &str = "hub-address.json";

/// Where the whole host's is.
const OF_HOST: &str = "/etc/pinfold";

/// A hub that can be asked.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Address {
    /// The hub's address, or several hubs' addresses with a common database, with commas between.
    pub(super) url: String,
    /// Certificates that the hub's own is signed by, as PEM text, where no public authority did.
    pub(super) authority: Option<String>,
}

impl Address {
    /// The address kept for this user, else for the host.
    fn load() -> Result<Option<Self>, Failure> {
        for path in [reader_dir()?.join(ADDRESS), Path::new(OF_HOST).join(ADDRESS)] {
            let failed = |error: &dyn std::error::Error| Failure::doing(path.display(), error);
            match std::fs::read(&path) {
                Ok(text) => return serde_json::from_slice(&text).map(Some).map_err(|error| failed(&error)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(&error)),
            }
        }
        Ok(None)
    }

    /// Keeps it; root for all users.
    pub(super) fn save(&self) -> Result<(), Failure> {
        let for_all = std::env::var_os("PINFOLD_HUB_READER_DIR").is_none() && peer::own_uid() == 0;
        let dir = if for_all { PathBuf::from(OF_HOST) } else { reader_dir()? };
        let (path, new) = (dir.join(ADDRESS), dir.join("hub-address.json.new"));
        let text = serde_json::to_vec(self).unwrap_or_default();
        let kept = std::fs::create_dir_all(&dir)
            .and_then(
                |()| if for_all { set_permissions(&dir, PermissionsExt::from_mode(0o755)) } else { Ok(()) },
            )
            .and_then(|()| std::fs::write(&new, text))
            .and_then(|()| set_permissions(&new, PermissionsExt::from_mode(0o644)))
            .and_then(|()| std::fs::rename(&new, &path));
        kept.map_err(|error| Failure::doing(format!("failed to write {}", path.display()), &error))
    }

    /// The hub, for this user.
    pub(super) fn courier<'a>(&self, dial: &'a Dial) -> Hub<'a> {
        let identity = Vouched { dial, daemon: None };
        Courier::new(&self.url, self.authority.as_deref(), Box::new(identity))
    }
}

/// A hub, asked under an identity.
pub(super) type Hub<'a> = Courier<Box<dyn Identity + 'a>>;

/// The hub that is known.
pub(super) fn hub(dial: &Dial) -> Result<Hub<'_>, Failure> {
    if let Some(reader) = Settings::load(&reader_file()?).map_err(of_settings)? {
        return Ok(reader.courier().boxed());
    }
    let none = "no hub is known: `pinfold hub use URL` has it asked as the user you are, where this host has joined it; \
                `pinfold hub reader URL --token TOKEN` with a token of `pinfold-hub token --reader NAME`";
    let address = Address::load()?.ok_or_else(|| Failure::new(ExitCode::Usage, none))?;
    Ok(address.courier(dial))
}

/// This user's identity, by the daemon's word.
#[derive(Debug)]
struct Vouched<'a> {
    dial: &'a Dial,
    daemon: Option<Client>,
}

impl Identity for Vouched<'_> {
    fn authorization(&mut self, url: &str, method: Method, path: &str) -> Result<String, ClientError> {
        let failed = |failure: Failure| ClientError::Identity(failure.message);
        let mut daemon = match self.daemon.take() {
            Some(daemon) => daemon,
            None => self.dial.connect_if_there().ok_or_else(|| {
                let socket = self.dial.socket().display();
                ClientError::Identity(format!("no daemon that can be asked listens on {socket}"))
            })?,
        };
        let voucher = vouch(&mut daemon, url, &format!("{} {path}", method.word())).map_err(failed)?;
        self.daemon = Some(daemon);
        Ok(format!("Pinfold {}", hex(&serde_json::to_vec(&voucher).unwrap_or_default())))
    }
}

/// The daemon's signed word on this user's name, for a hub and a request.
pub(super) fn vouch(daemon: &mut Client, url: &str, request: &str) -> Result<Voucher, Failure> {
    let asked =
        Request::Vouch { audience: url.trim_end_matches('/').to_owned(), request: request.to_owned() };
    answer!(daemon.ask(&asked)?, Vouched)
}
