//! Pages of reference that are made from the code: configuration, exit codes, the keys of JSON.
//!
//! The texts come from the code's own documentation. A page that differs from the code is a fault; `--bless` writes it
//! anew.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use pinfold_proto::config::{KEYS, PROJECT_KEYS, RESOURCES_MEANING};

/// Writing into a `String` cannot fail.
macro_rules! put {
    ($out:expr, $($text:tt)*) => { let _ = writeln!($out, $($text)*); };
}

/// Compares the pages with the code, or writes them; returns the pages that differ.
pub(super) fn hold(root: &Path, bless: bool) -> anyhow::Result<Vec<String>> {
    let pages = [
        ("docs/reference/configuration.md", configuration()),
        ("docs/reference/exit-codes.md", exit_codes(&source(root, "crates/host/proto/src/exit.rs")?)?),
        ("docs/reference/json.md", json(root)?),
    ];
    let mut faults = Vec::new();
    for (path, text) in pages {
        let file = root.join(path);
        if bless {
            fs::write(&file, &text).with_context(|| format!("failed to write {path}"))?;
        } else if fs::read_to_string(&file).unwrap_or_default() != text {
            faults
                .push(format!("{path} is not what the code says: `cargo xtask book --bless` makes it anew"));
        }
    }
    Ok(faults)
}

fn source(root: &Path, path: &str) -> anyhow::Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| format!("failed to read {path}"))
}

fn configuration() -> String {
    let mut out = String::from(
        "# Configuration\n\nGenerated from the code. Every key stands in a TOML file (`pinfoldd --config FILE`; the \
         package has `/etc/pinfold/pinfold.toml`), is given once as `pinfoldd --set KEY=VALUE`, or is changed while jobs \
         run: `pinfold config set KEY=VALUE`, kept by `pinfold config save`. `pinfold config check FILE` names each wrong \
         key and value.\n\nSizes take `KiB MiB GiB TiB`, durations `ms s m h d`, sets of PUs kernel lists such as \
         `0-3,8`.\n\n| key | default | meaning |\n|---|---|---|\n",
    );
    let default = |value: &str| if value.is_empty() { "unset".to_owned() } else { format!("`{value}`") };
    for key in KEYS {
        put!(out, "| `{}` | {} | {} |", key.name, default(key.default), cell(key.meaning));
    }
    out.push_str("\nKeys of each project, in a section `[projects.NAME]`:\n\n| key | meaning |\n|---|---|\n");
    for (name, meaning) in PROJECT_KEYS {
        put!(out, "| `{name}` | {} |", cell(meaning));
    }
    let meaning = RESOURCES_MEANING.trim_end_matches(':');
    put!(out, "\n{meaning}, in the section `[resources]`:\n\n```toml\n[resources]\nlicence.fluent = 2\n```");
    out
}

fn exit_codes(source: &str) -> anyhow::Result<String> {
    let mut out = String::from(
        "# Exit codes\n\nGenerated from the code. `pinfold run` gives its command's own status, or 128+N when signal N \
         ended it; what is listed here is how pinfold's own commands end.\n\n| code | meaning |\n|---|---|\n",
    );
    let mut docs = String::new();
    let mut meanings: Vec<(String, String)> = Vec::new();
    let mut codes = 0;
    for line in source.lines().map(str::trim) {
        if let Some(doc) = line.strip_prefix("/// ") {
            docs.push_str(doc);
        } else if let Some((name, code)) =
            line.strip_prefix("Self::").and_then(|rest| rest.split_once(" => "))
        {
            let meaning = meanings.iter().find(|(known, _)| known == name);
            let (_, meaning) = meaning.with_context(|| format!("ExitCode::{name} has no documentation"))?;
            put!(out, "| {} | {} |", code.trim_end_matches(','), cell(meaning));
            codes += 1;
        } else {
            if let Some(name) = line.strip_suffix(',') {
                meanings.push((name.to_owned(), docs.clone()));
            }
            docs.clear();
        }
    }
    if codes == 0 {
        bail!("no exit code was found in the code");
    }
    Ok(out)
}

/// The command that prints each object.
const COMMANDS: [(&str, &str); 13] = [
    ("pinfold status --json", "StatusView"),
    ("pinfold why JOB --json", "WhyView"),
    ("pinfold report JOB --json", "ReportView"),
    ("pinfold report --by name --json", "SummaryView"),
    ("pinfold batch --json", "BatchView"),
    ("pinfold map --json", "MapView"),
    ("pinfold sets --json", "SetsView"),
    ("pinfold host --json", "HostView"),
    ("pinfold admin audit --json", "AuditView"),
    ("pinfold doctor --json", "DoctorView"),
    ("pinfold sim --json", "SimView"),
    ("pinfold sim calibrate --json", "Calibration"),
    ("pinfold admin replay FILE --json", "ReplayView"),
];

/// The sources of views: these files, and all below the folder.
const SOURCES: [&str; 8] = [
    "crates/host/proto/src/view.rs",
    "crates/host/proto/src/host.rs",
    "crates/host/proto/src/job.rs",
    "crates/host/proto/src/resource.rs",
    "crates/doors/cli/src/sim/show.rs",
    "crates/doors/cli/src/sim/calibration.rs",
    "crates/doors/cli/src/replay.rs",
    "crates/core/record/src/tell.rs",
];
const FOLDER: &str = "crates/host/proto/src/view";

fn views(root: &Path) -> anyhow::Result<Vec<View>> {
    let listed = fs::read_dir(root.join(FOLDER)).with_context(|| format!("failed to list {FOLDER}"))?;
    let mut paths = SOURCES.map(str::to_owned).to_vec();
    for entry in listed {
        paths.push(format!("{FOLDER}/{}", entry?.file_name().to_string_lossy()));
    }
    // In the same order on each machine.
    paths.sort();
    let mut views = Vec::new();
    for path in paths.iter().filter(|path| path.ends_with(".rs")) {
        views.extend(parse(&source(root, path)?));
    }
    Ok(views)
}

/// A struct that is printed: its documentation and its fields.
#[derive(Debug, Default, PartialEq, Eq)]
struct View {
    name: String,
    about: String,
    fields: Vec<Field>,
}

#[derive(Debug, PartialEq, Eq)]
struct Field {
    name: String,
    kind: String,
    about: String,
}

fn json(root: &Path) -> anyhow::Result<String> {
    let views = views(root)?;
    let mut out = String::from(
        "# Keys of JSON\n\nGenerated from the code. Each command prints one object with `version`; keys are in snake_case \
         with the unit last, and a value that is not known is `null` or its key is missing, never 0. Standard output carries \
         JSON alone.\n\n| command | object |\n|---|---|\n",
    );
    let mut wanted: Vec<&View> = Vec::new();
    for (command, name) in COMMANDS {
        let view = views.iter().find(|view| view.name == name);
        let view = view.with_context(|| format!("`{command}`: the code has no `{name}`"))?;
        put!(out, "| `{command}` | [{name}](#{}) |", name.to_lowercase());
        wanted.push(view);
    }
    // The types of their fields, in order of appearance.
    let mut at = 0;
    while let Some(view) = wanted.get(at) {
        for field in &view.fields {
            for held in views.iter().filter(|held| mentions(&field.kind, &held.name)) {
                if !wanted.iter().any(|known| known.name == held.name) {
                    wanted.push(held);
                }
            }
        }
        at += 1;
    }
    for view in &wanted {
        put!(out, "\n## {}\n\n{}\n\n| key | value | meaning |\n|---|---|---|", view.name, cell(&view.about));
        for field in &view.fields {
            put!(out, "| `{}` | {} | {} |", field.name, kind(&field.kind, &wanted), cell(&field.about));
        }
    }
    Ok(out)
}

/// Structs visible outside their modules, with their documentation; the code is formatted, so a field is a line.
fn parse(source: &str) -> Vec<View> {
    let mut views = Vec::new();
    let mut open: Option<View> = None;
    let mut docs: Vec<&str> = Vec::new();
    for line in source.lines() {
        let bare = line.trim();
        if let Some(doc) = bare.strip_prefix("///") {
            docs.push(doc.trim());
        } else if bare.starts_with("#[") {
            // Attributes stand between the documentation and its item.
        } else if let Some(name) =
            shown(line).and_then(|rest| rest.strip_prefix("struct ")?.strip_suffix(" {"))
        {
            open = Some(View { name: name.to_owned(), about: docs.join(" "), fields: Vec::new() });
            docs.clear();
        } else if line == "}" {
            views.extend(open.take());
            docs.clear();
        } else {
            let field = shown(bare).and_then(|rest| rest.strip_suffix(',')?.split_once(": "));
            if let (Some(view), Some((name, kind))) = (&mut open, field) {
                view.fields.push(Field {
                    name: name.to_owned(),
                    kind: kind.to_owned(),
                    about: docs.join(" "),
                });
            }
            docs.clear();
        }
    }
    views
}

/// The line behind its visibility.
fn shown(line: &str) -> Option<&str> {
    ["pub ", "pub(super) ", "pub(crate) "].into_iter().find_map(|word| line.strip_prefix(word))
}

/// Whether a type is or contains the named type.
fn mentions(kind: &str, name: &str) -> bool {
    kind.split(|c: char| !c.is_alphanumeric()).any(|word| word == name)
}

/// A type in words of JSON.
fn kind(rust: &str, views: &[&View]) -> String {
    let inside = |outer: &str| rust.strip_prefix(outer).and_then(|rest| rest.strip_suffix('>'));
    if let Some(inner) = inside("Option<") {
        return format!("{} or null", kind(inner, views));
    }
    if let Some(inner) = inside("Box<") {
        return kind(inner, views);
    }
    if let Some(inner) = inside("Vec<") {
        return format!("list: {}", kind(inner, views));
    }
    if inside("BTreeMap<").is_some() || rust == "Figures" {
        return "object".to_owned();
    }
    match rust {
        "String" => "string".to_owned(),
        "bool" => "boolean".to_owned(),
        "f64" => "number".to_owned(),
        "serde_json::Value" => "any".to_owned(),
        "u8" | "u32" | "u64" | "i32" | "i64" | "usize" => "integer".to_owned(),
        known if views.iter().any(|view| view.name == known) => {
            format!("[{known}](#{})", known.to_lowercase())
        }
        // Enums and names are words.
        _ => "string".to_owned(),
    }
}

/// Text in a table's cell; links of the code's documentation become names.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace("[`", "`").replace("`]", "`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_are_read_with_what_is_said_of_them() {
        let source = "/// What it is,\n/// in two lines.\n#[derive(Debug)]\npub struct OneView {\n    /// A number.\n    \
                      #[serde(default)]\n    pub count_s: Option<f64>,\n    /// Others.\n    pub held: Vec<TwoView>,\n}\n\n\
                      pub fn other() {}\n";
        let views = parse(source);
        assert_eq!((views.len(), views[0].about.as_str()), (1, "What it is, in two lines."));
        assert_eq!(parse(&source.replace("pub struct", "pub(super) struct")), views);
        assert_eq!(views[0].fields[0].about, "A number.");
        let known: Vec<&View> = views.iter().collect();
        assert_eq!(kind(&views[0].fields[0].kind, &known), "number or null");
        assert_eq!(kind("Vec<OneView>", &known), "list: [OneView](#oneview)");
        assert!(mentions("Option<Box<TwoView>>", "TwoView") && !mentions("TwoViews", "TwoView"));
    }

    #[test]
    fn codes_have_meanings() {
        let source =
            "pub enum ExitCode {\n    /// Done.\n    Done,\n}\n match self {\n Self::Done => 0,\n }\n";
        assert!(exit_codes(source).unwrap().ends_with("| 0 | Done. |\n"));
        assert!(exit_codes("match self {\n Self::Done => 0,\n}").is_err());
        assert!(exit_codes("").is_err());
    }
}
