//! Options without effect on this host: a warning on standard error, or with `--strict` a reason to refuse.
//!
//! The daemon knows its abilities here; it is asked only about options that it may not be able to enforce. Absent here:
//! a host's abilities, and how to change them (`pinfold doctor`).

use pinfold_profile::report::size;
use pinfold_proto::ExitCode;
use pinfold_proto::view::DoctorView;
use pinfold_proto::wire::{Reply, Request};

use crate::job::JobOptions;
use crate::print::say;
use pinfold_client::{Client, Failure};

/// An option, and the ability or finding of `doctor` that the option needs.
fn wanted(options: &JobOptions) -> Vec<(&'static str, &'static str)> {
    let wanted = [
        (options.mem_limit.is_some(), "--mem-limit", "limit"),
        (options.tmp.is_some_and(|bytes| bytes > 0), "--tmp", "tmp"),
        (options.isolated, "--isolated", "isolation"),
    ];
    wanted.into_iter().filter(|(asked, ..)| *asked).map(|(_, option, subject)| (option, subject)).collect()
}

/// Whether the daemon has to be asked about these options.
pub(crate) fn asks_daemon(options: &JobOptions) -> bool {
    !wanted(options).is_empty()
}

/// Whether these options are to be looked at, by the daemon or on this host.
pub(crate) fn is_to_be_checked(options: &JobOptions) -> bool {
    !wanted(options).is_empty() || options.mem.is_some()
}

/// Warns of options without effect here, or refuses them. The client is needed where [`asks_daemon`] says so.
pub(crate) fn check(client: Option<&mut Client>, options: &JobOptions) -> Result<(), Failure> {
    if !is_to_be_checked(options) {
        return Ok(());
    }
    let mut lacking = Vec::new();
    let wanted = wanted(options);
    if let Some(client) = client.filter(|_| !wanted.is_empty())
        && let Reply::Doctor(view) = client.ask(&Request::Doctor)?
    {
        lacking = lacks(&view, &wanted);
    }
    // The daemon refuses requests beyond RAM and swap.
    let refused = options.mem > of_host("MemTotal:").zip(of_host("SwapTotal:")).map(|(ram, swap)| ram + swap);
    lacking.extend(beyond(options.mem, of_host("MemTotal:")).filter(|_| options.strict || !refused));
    if options.strict && !lacking.is_empty() {
        return Err(Failure::new(ExitCode::Refused, format!("{} (--strict)", lacking.join("; "))));
    }
    lacking.iter().for_each(|text| say(&format!("warning: {text}")));
    Ok(())
}

fn lacks(view: &DoctorView, wanted: &[(&str, &str)]) -> Vec<String> {
    let words = |(option, subject): &(&str, &str)| {
        let ability = view.abilities.iter().find(|one| one.ability == *subject && !one.real);
        let finding = view.findings.iter().find(|one| one.subject == *subject && !one.ok);
        let why = ability.map(|one| &one.how).or_else(|| finding.map(|one| &one.found))?;
        Some(format!("{option} does not hold here: {why}; see `{subject}` in `pinfold doctor`"))
    };
    wanted.iter().filter_map(words).collect()
}

fn beyond(mem: Option<u64>, host: Option<u64>) -> Option<String> {
    let (mem, host) = (mem?, host?);
    (mem > host).then(|| {
        format!(
            "--mem {}: this host has {} of memory, so the job can only run alone and with swap",
            size(mem),
            size(host)
        )
    })
}

/// A line of `/proc/meminfo`, in bytes.
fn of_host(line: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let value = text.lines().find_map(|each| each.strip_prefix(line))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use pinfold_proto::view::{AbilityView, FindingView};

    use super::*;

    #[test]
    fn what_doctor_calls_not_real_is_named() {
        let ability = |name: &str, real| AbilityView {
            ability: name.to_owned(),
            real,
            how: "by nobody".to_owned(),
            change: None,
        };
        let tmp = FindingView {
            subject: "tmp".to_owned(),
            ok: false,
            found: "a directory".to_owned(),
            change: None,
        };
        let view = DoctorView {
            version: 1,
            mode: "rootless".to_owned(),
            reason: String::new(),
            abilities: vec![ability("limit", false), ability("freeze", true)],
            findings: vec![tmp],
            turns: None,
        };
        let said =
            lacks(&view, &[("--mem-limit", "limit"), ("--tmp", "tmp"), ("--x", "freeze"), ("--y", "none")]);
        assert_eq!(
            said,
            [
                "--mem-limit does not hold here: by nobody; see `limit` in `pinfold doctor`",
                "--tmp does not hold here: a directory; see `tmp` in `pinfold doctor`",
            ]
        );
        assert_eq!(beyond(Some(1 << 30), Some(2 << 30)), None);
        assert!(beyond(Some(3 << 30), Some(2 << 30)).is_some_and(|text| text.contains("3.00 GiB")));
    }
}
