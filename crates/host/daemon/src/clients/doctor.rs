//! What `doctor` says of the host, and what is too long for one answer.

use pinfold_proto::quantity::show_size;
use pinfold_proto::view::{AbilityView, DoctorView, FindingView, VERSION};
use pinfold_proto::wire::ErrorCode;
use pinfold_sys::mode::{self, Ability, Mode, Outside, Plan};
use pinfold_sys::records::{Records, Source};

use crate::clients::cost::ANSWER_MAX_BYTES;
use crate::core::Refusal;

/// What doctor says, of the facts and the plan.
pub(crate) fn doctor_view(facts: &mode::Facts, plan: &Plan) -> DoctorView {
    DoctorView {
        version: VERSION,
        mode: plan.mode.as_str().to_owned(),
        reason: plan.why.clone(),
        turns: None,
        abilities: abilities(plan),
        findings: pinfold_sys::doctor::examine(facts, plan)
            .into_iter()
            // Mode and abilities come first there, and have fields of their own here.
            .skip(1 + plan.abilities.len())
            .map(|finding| FindingView {
                subject: finding.subject.to_owned(),
                ok: finding.ok,
                found: finding.found,
                change: finding.change,
            })
            .chain([crate::host::isolated::finding(facts, plan), processes_finding()])
            .chain(inherited_finding())
            .collect(),
    }
}

fn abilities(plan: &Plan) -> Vec<AbilityView> {
    let view = |ability: &Ability| AbilityView {
        ability: ability.name.as_str().to_owned(),
        real: ability.real,
        how: ability.how.clone(),
        change: ability.change.clone(),
    };
    plan.abilities.iter().map(view).collect()
}

/// For a client whose processes cannot be put into the delegated group only that is real which processes allow.
pub(crate) fn tell_outside(view: &mut DoctorView, plan: &Plan, place: &Outside) {
    // No mode is refused that needs nothing.
    let Ok(without) = mode::decide(&plan.facts, Some(Mode::Rootless)) else { return };
    view.abilities = abilities(&without);
    let found = format!(
        "this command runs in {}, out of reach for the daemon in {}: its jobs are held by their processes",
        place.group,
        place.delegated.display()
    );
    let change = "run it from within what is delegated to you, as below `systemd-run --user --scope $SHELL`";
    view.findings.retain(|finding| finding.subject != "delegation");
    let change = Some(change.to_owned());
    view.findings.push(FindingView { subject: "delegation".to_owned(), ok: false, found, change });
}

/// The bounds that the daemon inherited and has no right to lift; `None`: there is none.
fn inherited_finding() -> Option<FindingView> {
    let bounds = pinfold_sys::inherited::bounds();
    let found = format!("the shell that started the daemon bounds it: {}", bounds.join(", "));
    let change =
        "start the daemon from a shell without these bounds; a private daemon ends by itself once it is idle";
    let finding =
        FindingView { subject: "inherited".to_owned(), ok: false, found, change: Some(change.to_owned()) };
    (!bounds.is_empty()).then_some(finding)
}

/// How processes are found here.
fn processes_finding() -> FindingView {
    let records = Records::open();
    let source = records.source();
    let found = match (source.loss(), records.why_not()) {
        ("", _) => format!("{}: none is missed", source.as_str()),
        (loss, why) => format!("{}: {loss} ({why})", source.as_str()),
    };
    let ok = source == Source::Full;
    let change =
        "run the daemon as root, outside containers, on a kernel with taskstats and the process connector";
    FindingView { subject: "processes".to_owned(), ok, found, change: (!ok).then(|| change.to_owned()) }
}

/// The words for jobs that are too long for one answer.
pub(crate) fn too_long() -> Refusal {
    let text = format!("jobs of more than {} are too much for one answer", show_size(ANSWER_MAX_BYTES));
    (ErrorCode::Refused, format!("{text}: name fewer, or ask for it in pieces"))
}
