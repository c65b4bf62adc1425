//! The description of the interface says what the hub does: each path answers by its method, to those whom it names, with the
//! parameters that it lists and no others.
use std::collections::BTreeSet;

use pinfold_hub::store::Kind;
use serde_json::Value;

use crate::common::{Served, bearer, token};

fn words(value: &Value) -> BTreeSet<String> {
    let names = value.as_array().into_iter().flatten().filter_map(|one| one["name"].as_str());
    names.map(str::to_owned).collect()
}

/// The names that a query may have, by the hub's own refusal of another.
fn known(refusal: &str) -> BTreeSet<String> {
    let names = refusal.split_once("expected").map_or("", |(_, names)| names);
    names.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn each_path_does_what_is_said_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::new(&dir.path().join("hub.db"), None);
    let host = token(&served.hub.store, Kind::Host, "alpha");
    let reader = token(&served.hub.store, Kind::Reader, "ops");
    let described: Value = serde_json::from_str(&served.get("/api/openapi.json", &[]).body).unwrap();
    assert_eq!(described["openapi"], "3.1.0");
    let paths = described["paths"].as_object().unwrap();
    assert!(paths.len() > 8, "{paths:?}");
    // The page of the documentation is this very text.
    let kept = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/hub-openapi.json");
    let text = format!("{}\n", serde_json::to_string_pretty(&described).unwrap());
    if std::env::var_os("PINFOLD_BLESS").is_some() {
        std::fs::write(&kept, &text).unwrap();
    }
    let found = std::fs::read_to_string(&kept).unwrap();
    assert!(
        found == text,
        "docs/hub-openapi.json is of before: PINFOLD_BLESS=1 cargo test -p pinfold-hub openapi"
    );
    let mut ids = BTreeSet::new();
    for (path, methods) in paths {
        let methods = methods.as_object().unwrap();
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"] {
            let operation = methods.get(&method.to_lowercase());
            let answer = served.request(method, path, &[], b"");
            let Some(operation) = operation else {
                assert_eq!(answer.status, 405, "{method} {path} is not described");
                continue;
            };
            assert!(ids.insert(operation["operationId"].to_string()), "{path}");
            let closed = !operation["security"].as_array().unwrap().is_empty();
            assert_eq!(answer.status, if closed { 401 } else { 200 }, "{method} {path} without a token");
            // Whatever is answered is described.
            let status = |token: &str| {
                let status = served.request(method, path, &[bearer(token)], b"").status;
                assert!(operation["responses"][status.to_string()].is_object(), "{method} {path}: {status}");
                status
            };
            let of_host = operation["requestBody"].is_object() || path == "/api/v1/learned";
            if closed && path != "/api/v1/me" {
                assert_eq!(status(&host) == 403, !of_host, "{method} {path} as a host");
                assert_eq!(status(&reader) == 403, of_host, "{method} {path} as a reader");
            }
            let listed = words(&operation["parameters"]);
            let refusal = served.request(method, &format!("{path}?zz=1"), &[bearer(&reader)], b"").body;
            assert_eq!(known(&refusal), listed, "{path}: {refusal}");
        }
    }
}
