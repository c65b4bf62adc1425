//! Vouches for users elsewhere: who asks, by the kernel's word, signed by a key of this daemon's own. Owner of state: the
//! file `voucher.key` in the state directory. Absent here: for whom and for what, which the client says and the statement
//! repeats; the reader compares that.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use pinfold_proto::config::Config;
use pinfold_proto::voucher::{self, Statement, Voucher, WORD_MAX_BYTES, hex};
use pinfold_proto::wire::ErrorCode;
use pinfold_sys::peer::Peer;
use ring::signature::{Ed25519KeyPair, KeyPair as _};

use super::rights;
use crate::core::Refusal;

/// The file of the key: 32 random bytes.
const KEY: &str = "voucher.key";

/// A voucher for this user.
pub(crate) fn vouch(
    state: &Path,
    config: &Config,
    (user, name): (Peer, String),
    (audience, request): (String, String),
    now_us: u64,
) -> Result<Voucher, Refusal> {
    if audience.len() > WORD_MAX_BYTES || request.len() > WORD_MAX_BYTES {
        let words = format!("what is vouched for has at most {WORD_MAX_BYTES} bytes");
        return Err((ErrorCode::Usage, words));
    }
    let steered = config.projects.iter().filter(|(_, project)| rights::named(&project.operators, user.uid));
    let statement = Statement {
        version: voucher::VERSION,
        audience,
        request,
        signed_us: now_us,
        uid: user.uid,
        user: name,
        operator: rights::is_operator(config, user),
        projects: steered.map(|(name, _)| name.clone()).collect(),
    };
    let failed = |error: String| (ErrorCode::Failed, format!("the daemon's key {KEY}: {error}"));
    let seed = seed(&state.join(KEY)).map_err(|error| failed(error.to_string()))?;
    let key = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|error| failed(error.to_string()))?;
    let statement = serde_json::to_string(&statement).map_err(|error| failed(error.to_string()))?;
    let signature = hex(key.sign(&voucher::signed_text(&statement)).as_ref());
    Ok(Voucher { statement, signature, key: hex(key.public_key().as_ref()) })
}

/// The key's bytes, drawn from the kernel the first time. A file that is not whole, after a power cut, is drawn anew: the
/// pusher makes the new key known.
fn seed(path: &Path) -> std::io::Result<[u8; 32]> {
    match pinfold_sys::files::read_regular(path) {
        Ok(bytes) => {
            if let Ok(seed) = bytes.try_into() {
                return Ok(seed);
            }
        }
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    let mut seed = [0u8; 32];
    pinfold_sys::files::random(&mut seed)?;
    let beside = path.with_extension("new");
    let _ = std::fs::remove_file(&beside);
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(&seed)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    Ok(seed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use ring::signature::{ED25519, UnparsedPublicKey};

    use super::*;

    fn ask(state: &Path, changes: &[&str], uid: u32) -> (Voucher, Statement) {
        let (config, _) = Config::default().with_changes(changes.iter().copied()).unwrap();
        let who = (Peer { pid: 1, uid }, "ann".to_owned());
        let what = ("https://hub".to_owned(), "GET /x".to_owned());
        let voucher = vouch(state, &config, who, what, 7).unwrap();
        let statement = serde_json::from_str(&voucher.statement).unwrap();
        (voucher, statement)
    }

    #[test]
    fn users_are_what_the_kernel_and_the_configuration_say() {
        let dir = tempfile::tempdir().unwrap();
        let stranger = 4_000_000_000;
        let (voucher, statement) =
            ask(dir.path(), &["projects.web.operators=*", "projects.lab={}"], stranger);
        assert_eq!((statement.uid, statement.operator), (stranger, false));
        assert_eq!((statement.user.as_str(), statement.projects), ("ann", vec!["web".to_owned()]));
        assert_eq!((statement.audience.as_str(), statement.request.as_str()), ("https://hub", "GET /x"));
        let mode = std::fs::metadata(dir.path().join(KEY)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let verify = |statement: &str| {
            let key = UnparsedPublicKey::new(&ED25519, voucher::unhex(&voucher.key).unwrap());
            key.verify(&voucher::signed_text(statement), &voucher::unhex(&voucher.signature).unwrap()).is_ok()
        };
        assert!(verify(&voucher.statement));
        assert!(!verify(&voucher.statement.replace("false", "true")));
        // The same key each time, until its file is not whole.
        let (again, root) = ask(dir.path(), &[], 0);
        assert!(root.operator && again.key == voucher.key);
        std::fs::write(dir.path().join(KEY), "half").unwrap();
        assert_ne!(ask(dir.path(), &[], 0).0.key, voucher.key);
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let who = (Peer { pid: 1, uid: 1 }, "ann".to_owned());
        let long = ("x".repeat(WORD_MAX_BYTES + 1), String::new());
        assert!(vouch(dir.path(), &Config::default(), who, long, 7).is_err());
    }
}
