//! TLS to PostgreSQL: the server that is named, with a certificate of the authority that is named, and no other. And to the
//! hub itself.

use std::path::{Path, PathBuf};

use pinfold_hub::store::{Store, location};
use pinfold_hubclient::HubClient;
use pinfold_hubwire::courier::{Errand, Method};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::program::Serving;
use crate::server::Server;

/// An authority of a test's own.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate for this name, and its key.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    fn file(&self, dir: &Path, name: &str) -> PathBuf {
        let file = dir.join(name);
        std::fs::write(&file, self.0.pem()).unwrap();
        file
    }
}

/// Opens the database at this address; on failure the error and its causes.
fn open(url: &str) -> Result<(), String> {
    let store = Store::open(&location(url)?, None).map_err(|error| {
        let mut words = error.to_string();
        let mut next = std::error::Error::source(&error);
        while let Some(cause) = next {
            words.push_str(&format!(": {cause}"));
            next = cause.source();
        }
        words
    })?;
    // Writing and both ways of reading go by the same connections.
    store.set_meta("url", "x").unwrap();
    assert_eq!(store.meta("url").unwrap().as_deref(), Some("x"));
    assert_eq!(store.holder(&[1; 32]).unwrap(), None);
    Ok(())
}

#[test]
fn a_server_is_believed_by_its_name_and_its_authority_alone() {
    let (right, wrong, dir) = (Authority::new(), Authority::new(), tempfile::tempdir().unwrap());
    let (certificate, key) = right.issue("localhost");
    let Some(server) = Server::with_certificate(&certificate, &key) else { return };
    let (right, wrong) = (right.file(dir.path(), "right.pem"), wrong.file(dir.path(), "wrong.pem"));
    let port = server.address().rsplit(':').next().unwrap().to_owned();
    let url = |host: &str, authority: &Path| {
        let file = authority.display();
        format!("postgres://hub@{host}:{port}/postgres?sslmode=verify-full&sslrootcert={file}")
    };
    open(&url("localhost", &right)).unwrap();
    let by = |url: &str| open(url).unwrap_err();
    // An authority of the same name with another key.
    let said = by(&url("localhost", &wrong));
    assert!(said.contains("BadSignature"), "{said}");
    // It answers there, and its certificate is for another name.
    let said = by(&url("127.0.0.1", &right));
    assert!(said.contains("not valid for"), "{said}");
    // The server takes nothing without TLS here: the connections above had it.
    let said = by(&format!("postgres://hub@localhost:{port}/postgres"));
    assert!(said.contains("pg_hba.conf") && said.contains("no encryption"), "{said}");
    // In a file without a certificate, and in none, nothing is believed.
    std::fs::write(dir.path().join("empty.pem"), "nothing").unwrap();
    let said = by(&url("localhost", &dir.path().join("empty.pem")));
    assert!(said.contains("empty.pem") && said.contains("no certificate"), "{said}");
}

#[test]
fn a_server_without_tls_is_not_spoken_to_where_tls_is_wanted() {
    let Some((server, _standby)) = Server::with_standby() else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = Authority::new().file(dir.path(), "a.pem");
    let url = format!(
        "postgres://hub@{}/postgres?sslmode=verify-full&sslrootcert={}",
        server.address(),
        file.display()
    );
    let said = open(&url).unwrap_err();
    assert!(said.contains("does not support TLS"), "{said}");
}

/// A hub whose certificate is its own and none of an authority is reached; of one that is an authority's it is said what to
/// do.
#[test]
fn a_hub_s_own_certificate_is_none_of_an_authority() {
    let dir = tempfile::tempdir().unwrap();
    let reached = |name: &str, is_ca: IsCa| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.is_ca = is_ca;
        let pem = params.self_signed(&key).unwrap().pem();
        let file = |ending: &str| dir.path().join(format!("{name}.{ending}")).display().to_string();
        std::fs::write(file("pem"), &pem).unwrap();
        std::fs::write(file("key"), key.serialize_pem()).unwrap();
        let database = format!("sqlite:{}", file("db"));
        let hub =
            Serving::start_with(&database, "127.0.0.1:0", &["--cert", &file("pem"), "--key", &file("key")]);
        let url = hub.url().replace("127.0.0.1", "localhost");
        let errand = Errand {
            url: url.clone(),
            authority: None,
            authorization: String::new(),
            method: Method::Get,
            path: "/api/openapi.json".to_owned(),
            bytes: 0,
        };
        let client = HubClient::new(&url, Some(&pem)).unwrap();
        client.exchange(&errand, b"").map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(reached("own", IsCa::ExplicitNoCa), Ok(()));
    let said = reached("authority", IsCa::Ca(BasicConstraints::Unconstrained)).unwrap_err();
    assert!(said.contains("basicConstraints=critical,CA:FALSE"), "{said}");
}
