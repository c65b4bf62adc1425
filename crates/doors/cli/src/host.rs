//! The host: `doctor`, `rescue`.

use std::io::{self, Write};

use clap::Args;
use pinfold_proto::ExitCode;
use pinfold_proto::view::DoctorView;
use pinfold_proto::wire::Request;
use pinfold_sys::container;

use pinfold_sys::mode::Roots;
use serde_json::json;

use crate::print::{JSON_VERSION, print_json, print_text, say};
use pinfold_client::{Dial, Failure};

/// `pinfold doctor`: asks the daemon, which knows its abilities; without a daemon looks for itself.
pub(crate) fn doctor(dial: &Dial, json: bool) -> Result<(), Failure> {
    let view = match dial.connect_if_there() {
        Some(mut client) => answer!(client.ask(&Request::Doctor)?, Doctor)?,
        None => own_doctor()?,
    };
    if json { print_json(&view) } else { print_text(|out| write_doctor(&view, out)) }
}

/// The answer of this user's daemon, without starting a daemon.
fn own_doctor() -> Result<DoctorView, Failure> {
    let program = pinfold_client::dial::daemon_program();
    let said = std::process::Command::new(&program).arg("--examine").output();
    let said =
        said.map_err(|error| Failure::doing(format!("failed to run {}", program.display()), &error))?;
    serde_json::from_slice(&said.stdout).map_err(|error| {
        let text = String::from_utf8_lossy(&said.stderr);
        Failure::new(ExitCode::Failed, format!("{} --examine: {error}: {}", program.display(), text.trim()))
    })
}

fn write_doctor(view: &DoctorView, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "mode: {} ({})\n", view.mode, view.reason)?;
    for ability in &view.abilities {
        let mark = if ability.real { "yes" } else { "no " };
        writeln!(out, "{mark}  {:<11} {}", ability.ability, ability.how)?;
        if let Some(change) = &ability.change {
            writeln!(out, "                 -> {change}")?;
        }
    }
    writeln!(out)?;
    for finding in &view.findings {
        let mark = if finding.ok { "ok " } else { "!! " };
        writeln!(out, "{mark}  {}: {}", finding.subject, finding.found)?;
        if let Some(change) = &finding.change {
            writeln!(out, "     -> {change}")?;
        }
    }
    Ok(())
}

#[derive(Debug, Args)]
pub(crate) struct RescueArgs {
    /// Let go of what this instance holds, though its daemon lives; `pinfold doctor` and the names of its groups tell it
    #[arg(long, value_name = "INSTANCE")]
    pub force: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `pinfold admin rescue`.
pub(crate) fn rescue(args: &RescueArgs) -> Result<(), Failure> {
    let container::Rescue { rescued, alive, of_others, is_roots_alive } = match &args.force {
        None => container::rescue(&Roots::default()),
        Some(instance) => container::rescue_instance(&Roots::default(), instance),
    };
    // The caller with `--force` knows of the other instances, or meant no other.
    for instance in alive.iter().filter(|_| args.force.is_none()) {
        let way = match of_others.contains(instance) {
            true => "only its user and root may let go of that".to_owned(),
            false => format!("`pinfold admin rescue --force {instance}` lets go of that too"),
        };
        say(&format!("the daemon of instance {instance} lives, and what it holds is left to it; {way}"));
    }
    // Threads that a live daemon has moved aside are not put back behind it. Only root's daemon can move any.
    let back = match (!is_roots_alive, pinfold_sys::procfs::Proc::open(&Roots::default().proc)) {
        (true, Ok(proc)) => pinfold_sys::housekeeping::put_back_all(&proc),
        _ => 0,
    };
    let moved = (back > 0).then(|| format!("{back} interrupts and threads put back where they were"));
    let failed = rescued.iter().filter(|one| one.failure.is_some()).count();
    let rescued: Vec<String> = rescued.iter().map(ToString::to_string).chain(moved).collect();
    if args.json {
        print_json(&json!({ "version": JSON_VERSION, "rescued": rescued, "alive": alive }))?;
    } else {
        print_text(|out| {
            if rescued.is_empty() {
                writeln!(out, "nothing of pinfold's is frozen or limited on this host")?;
            }
            rescued.iter().try_for_each(|done| writeln!(out, "{done}"))
        })?;
    }
    match failed {
        0 => Ok(()),
        1 => Err(Failure::new(ExitCode::Failed, "one of these could not be let go".to_owned())),
        _ => Err(Failure::new(ExitCode::Failed, format!("{failed} of these could not be let go"))),
    }
}
