//! The interface for programs in a single table: the source of the router and of its description (`/api/openapi.json`,
//! OpenAPI 3.1), so that both have the same endpoints. Absent here: the answers.

use axum::Json;
use axum::routing::{MethodRouter, get, post};
use serde_json::{Map, Value, json};
use std::sync::Arc;

use super::{api, sums, why};
use crate::hub::Hub;
use crate::metrics;

/// The callers of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// A host, by its token.
    Host,
    /// A reader by its token, or a user by a voucher.
    Viewer,
    /// A reader alone.
    Reader,
    /// Any holder of a token or a voucher.
    Any,
    /// Everybody, without a token.
    Everybody,
}

/// An endpoint's handler.
#[derive(Debug, Clone, Copy)]
enum Call {
    Bundles,
    Live,
    Key,
    Learned,
    Me,
    Hosts,
    Status,
    Map,
    Reports,
    Why,
    Workflows,
    Run,
    Weekly,
    Class,
    Login,
    Metrics,
    Description,
}

/// A query parameter: name, type, whether required, meaning.
type Parameter = (&'static str, &'static str, bool, &'static str);

struct Endpoint {
    call: Call,
    method: &'static str,
    path: &'static str,
    whose: Whose,
    what: &'static str,
    parameters: &'static [Parameter],
    /// The type of the request's body; empty: no body.
    sent: &'static str,
}

const fn endpoint(
    call: Call,
    method: &'static str,
    path: &'static str,
    whose: Whose,
    what: &'static str,
) -> Endpoint {
    Endpoint { call, method, path, whose, what, parameters: &[], sent: "" }
}

const HOST: Parameter = ("host", "string", false, "The host's name, by its token.");

const HOST_NAMED: Parameter = ("host", "string", true, "The host's name, by its token.");

const USER: Parameter = ("user", "string", false, "Whose jobs.");

const PROJECT: Parameter = ("project", "string", false, "The project of the jobs.");

const ENDPOINTS: [Endpoint; 17] = [
    Endpoint {
        sent: "application/gzip",
        ..endpoint(
            Call::Bundles,
            "post",
            "/api/v1/bundles",
            Whose::Host,
            "Hand over jobs that are over. What comes again changes nothing. When this is answered, they are on the hub's disk.",
        )
    },
    Endpoint {
        sent: "application/gzip",
        ..endpoint(
            Call::Live,
            "post",
            "/api/v1/live",
            Whose::Host,
            "Say how the host is now. The answer's `generation` is another one once an earlier copy of the database was \
             put back.",
        )
    },
    Endpoint {
        sent: "application/json",
        ..endpoint(
            Call::Key,
            "post",
            "/api/v1/key",
            Whose::Host,
            "Make the key known with which the host's daemon vouches for its users.",
        )
    },
    Endpoint {
        parameters: &[("above", "integer", false, "Only a table with a higher number.")],
        ..endpoint(
            Call::Learned,
            "get",
            "/api/v1/learned",
            Whose::Host,
            "What classes of jobs held on hosts that the hub trusts, as a signed table; null: the hub makes none, it has no \
             higher number, or the hub does not trust this host.",
        )
    },
    endpoint(Call::Me, "get", "/api/v1/me", Whose::Any, "Who asks, and what may be seen."),
    endpoint(
        Call::Hosts,
        "get",
        "/api/v1/hosts",
        Whose::Viewer,
        "All hosts, whether they are heard, and what waits there.",
    ),
    Endpoint {
        parameters: &[HOST],
        ..endpoint(
            Call::Status,
            "get",
            "/api/v1/status",
            Whose::Viewer,
            "How hosts are now, with those of their jobs that may be seen, as `pinfold status --json` has it.",
        )
    },
    Endpoint {
        parameters: &[HOST_NAMED],
        ..endpoint(
            Call::Map,
            "get",
            "/api/v1/map",
            Whose::Viewer,
            "Which core of a host belongs to what, of which jobs those are told that may be seen (`map`), and how the cores \
             lie (`topology`); null: the host tells neither.",
        )
    },
    Endpoint {
        parameters: &[
            HOST,
            ("job", "integer", false, "The job's number on its host."),
            ("since_us", "integer", false, "Asked for since then, in microseconds since the Unix epoch."),
            ("last", "integer", false, "The last so many by their end; up to 10,000, with series up to 100."),
            ("series", "boolean", false, "With each sample."),
        ],
        ..endpoint(
            Call::Reports,
            "get",
            "/api/v1/reports",
            Whose::Viewer,
            "Jobs that are over and may be seen, oldest first, as `pinfold report --json` has them, with `host`. `cut`: there \
             are more.",
        )
    },
    Endpoint {
        parameters: &[HOST_NAMED, ("job", "integer", true, "The job's number on its host.")],
        ..endpoint(
            Call::Why,
            "get",
            "/api/v1/why",
            Whose::Viewer,
            "What was decided about a job, and why, as `pinfold why --json` has it, with `host`. Hosts do not tell the numbers \
             behind a state: `numbers` and `figures` are empty, and so is `change` of a job that is not over, \
             whose `cause` says so where its host told none; decisions have no codes. `left_out`: between which two moments decisions were not kept; absent: none.",
        )
    },
    Endpoint {
        parameters: &[
            HOST,
            USER,
            PROJECT,
            ("workflow", "string", false, "The workflow; `*` stands for anything."),
            ("since_us", "integer", false, "Over since then, in microseconds since the Unix epoch."),
            ("last", "integer", false, "The last so many by their end; up to 1,000."),
        ],
        ..endpoint(
            Call::Workflows,
            "get",
            "/api/v1/workflows",
            Whose::Viewer,
            "Runs of workflows, as far as their jobs may be seen, the last first.",
        )
    },
    Endpoint {
        parameters: &[
            ("workflow", "string", true, "The workflow."),
            ("user", "string", true, "Whose run it is."),
            ("run", "string", true, "The run."),
        ],
        ..endpoint(
            Call::Run,
            "get",
            "/api/v1/run",
            Whose::Viewer,
            "A run of a workflow by its steps, each beside the runs before: `change` is `more` or `less` beyond what those \
             differ by, `within`, or `too_few` of them.",
        )
    },
    Endpoint {
        parameters: &[
            USER,
            PROJECT,
            (
                "week",
                "string",
                false,
                "As 2026-W47, from Monday on, UTC; the last one that is over unless it is said.",
            ),
        ],
        ..endpoint(
            Call::Weekly,
            "get",
            "/api/v1/weekly",
            Whose::Viewer,
            "What a week was like for all, a user or a project, as far as the jobs may be seen: sums, what to ask for, what \
             failed.",
        )
    },
    Endpoint {
        parameters: &[
            HOST,
            USER,
            PROJECT,
            ("name", "string", true, "The name of the class's jobs; `*` stands for anything."),
            (
                "since_us",
                "integer",
                false,
                "Over since then, in microseconds since the Unix epoch; a year unless it is said. Days count whole.",
            ),
        ],
        ..endpoint(
            Call::Class,
            "get",
            "/api/v1/class",
            Whose::Viewer,
            "A class by week, host and version, as far as its jobs may be seen: memory and wall time, and whether the last weeks \
             differ from those before: `change` is `more` or `less` beyond what weeks differ by, `within`, or `too_few` of them.",
        )
    },
    endpoint(
        Call::Login,
        "post",
        "/api/v1/login",
        Whose::Viewer,
        "A link that signs its user in on the page, once, within ten minutes.",
    ),
    endpoint(Call::Metrics, "get", "/metrics", Whose::Reader, "The hub's own figures as OpenMetrics text."),
    endpoint(Call::Description, "get", "/api/openapi.json", Whose::Everybody, "This description."),
];

impl Call {
    fn route(self) -> MethodRouter<Arc<Hub>> {
        match self {
            Self::Bundles => post(api::bundles),
            Self::Live => post(api::live),
            Self::Key => post(api::key),
            Self::Learned => get(api::learned),
            Self::Me => get(api::me),
            Self::Hosts => get(api::hosts),
            Self::Status => get(api::status),
            Self::Map => get(api::map),
            Self::Reports => get(api::reports),
            Self::Why => get(why::why),
            Self::Workflows => get(sums::workflows),
            Self::Run => get(sums::run),
            Self::Weekly => get(sums::weekly),
            Self::Class => get(sums::class),
            Self::Login => post(api::login),
            Self::Metrics => get(metrics::metrics),
            Self::Description => get(answer),
        }
    }
}

/// The paths for programs.
pub(super) fn routes() -> axum::Router<Arc<Hub>> {
    ENDPOINTS.iter().fold(axum::Router::new(), |router, one| router.route(one.path, one.call.route()))
}

async fn answer() -> Json<Value> {
    Json(description())
}

/// The OpenAPI document.
#[must_use]
pub fn description() -> Value {
    let mut paths = Map::new();
    for one in &ENDPOINTS {
        paths.insert(one.path.to_owned(), json!({ one.method: operation(one) }));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "pinfold hub",
            "version": "1",
            "description": "What many hosts' jobs used. Keys are in snake_case with the unit last; what is not known is null. \
                            A refusal is a sentence of plain text.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": { "securitySchemes": {
            "token": { "type": "http", "scheme": "bearer", "description": "A host's or a reader's token, of `pinfold-hub token`." },
            "voucher": { "type": "apiKey", "in": "header", "name": "Authorization",
                "description": "`Pinfold HEX`: what the daemon of a host signed for this request; `pinfold --host` sends it." },
        } },
    })
}

fn operation(one: &Endpoint) -> Value {
    let parameters: Vec<Value> = one
        .parameters
        .iter()
        .map(|(name, form, required, words)| {
            json!({ "name": name, "in": "query", "required": required, "description": words, "schema": { "type": form } })
        })
        .collect();
    let (token, voucher) = (json!({ "token": [] }), json!({ "voucher": [] }));
    let security = match one.whose {
        Whose::Host | Whose::Reader => json!([token]),
        Whose::Viewer | Whose::Any => json!([token, voucher]),
        Whose::Everybody => json!([]),
    };
    let form =
        if matches!(one.call, Call::Metrics) { "application/openmetrics-text" } else { "application/json" };
    let text = |words: &str| json!({ "description": words, "content": { "text/plain": {} } });
    let mut responses = Map::new();
    responses.insert("200".to_owned(), json!({ "description": "Done.", "content": { form: {} } }));
    if one.whose != Whose::Everybody {
        responses.insert(
            "401".to_owned(),
            text("The token or the voucher is missing, unknown or revoked, or the voucher is for something else."),
        );
        responses.insert("503".to_owned(), text("The hub is busy, or the question takes too long."));
    }
    if matches!(one.whose, Whose::Host | Whose::Viewer | Whose::Reader) {
        responses.insert("403".to_owned(), text("The token is for something else."));
    }
    if one.whose != Whose::Everybody {
        let words = match one.whose {
            Whose::Host => "Too many messages of this host are on their way, or answers to it.",
            _ => "Too many requests of one user or host, long answers that are not read, or unused links.",
        };
        responses.insert("429".to_owned(), text(words));
    }
    if !one.parameters.is_empty() {
        responses.insert("400".to_owned(), text("The question makes no sense."));
        responses.insert("404".to_owned(), text("It is not here, or not visible to this user."));
    }
    match one.call {
        Call::Bundles | Call::Live => {
            responses.insert(
                "409".to_owned(),
                text("It is of a later version than this hub: send it again later."),
            );
            responses.insert("422".to_owned(), text("It is not what it should be."));
        }
        Call::Key => {
            responses.insert("400".to_owned(), text("That is no voucher."));
            responses.insert("409".to_owned(), text("Another host has this key."));
        }
        _ => {}
    }
    if !one.sent.is_empty() {
        responses.insert("408".to_owned(), text("It took too long to come."));
        responses.insert("413".to_owned(), text("It is too long."));
        responses.insert("507".to_owned(), text("There is no room for more."));
    }
    let operation_id = one.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".json");
    let mut operation = json!({ "operationId": operation_id, "summary": one.what, "security": security, "responses": responses });
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
    if !one.sent.is_empty() {
        operation["requestBody"] = json!({ "required": true, "content": { one.sent: {} } });
    }
    operation
}
