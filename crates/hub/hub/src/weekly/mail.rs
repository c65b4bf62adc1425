//! The report of a week as the text of a mail, and its headers. Users choose the names: each name stands within a line,
//! behind other words, without control characters, so that it can forge neither a line nor a header.

use std::fmt::Write as _;

use pinfold_profile::report::{plain, size};

use super::{Ask, Report, Subject, Week};
use crate::advice::mebibytes;

/// The longest name in a line, in characters.
const NAME_MAX: usize = 60;

/// The recipient's address is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address of a mailbox: NAME@HOST is wanted, one, without spaces")]
pub struct MailError(String);

fn name(text: &str) -> String {
    let text = plain(text);
    match text.char_indices().nth(NAME_MAX) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

fn whose(subject: &Subject) -> String {
    match subject {
        Subject::All => "all jobs".to_owned(),
        Subject::User(user) => format!("jobs of {}", name(user)),
        Subject::Project(project) => format!("jobs of project {}", name(project)),
    }
}

/// A sum compared with the sum of the week before.
fn beside(now: f64, before: f64) -> String {
    if before > 0.0 {
        format!("{:+.0} % on the week before", (now / before - 1.0) * 100.0)
    } else {
        "nothing the week before".to_owned()
    }
}

/// The mail's head: recipient, subject, and UTF-8 as the encoding.
///
/// # Errors
/// When the address is invalid, so that it cannot inject header lines.
pub fn headers(report: &Report, to: &str) -> Result<String, MailError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+');
    let good = to.split_once('@').is_some_and(|(user, host)| {
        let word = |text: &str| !text.is_empty() && text.chars().all(fits) && !text.starts_with(['-', '.']);
        word(user) && word(host)
    });
    if !good || to.len() > 254 {
        return Err(MailError(to.to_owned()));
    }
    // Headers are ASCII; the text repeats the subject in full.
    let subject = format!("pinfold: week {} of {}", report.week, whose(&report.subject));
    let subject: String = subject.chars().map(|c| if matches!(c, ' '..='~') { c } else { '?' }).collect();
    Ok(format!(
        "To: {to}\nSubject: {subject}\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n\
         Content-Transfer-Encoding: 8bit\nAuto-Submitted: auto-generated\n\n"
    ))
}

/// The mail's text.
#[must_use]
pub fn text(report: &Report) -> String {
    let Report { week, subject, now, before, asks, short, failing } = report;
    let mut out = format!("Week {week}, {}\n\n", whose(subject));
    if now.jobs == 0 {
        out.push_str("  No job ended in this week.\n");
        return out;
    }
    let part = |part: f64, all: f64| if all > 0.0 { part / all * 100.0 } else { 0.0 };
    let _ = writeln!(
        out,
        "  Jobs               {:>10}   {} failed ({} of {} the week before)",
        now.jobs, now.failed, before.failed, before.jobs
    );
    let _ = writeln!(out, "  CPU hours          {:>10.1}   {}", now.cpu_h, beside(now.cpu_h, before.cpu_h));
    let _ = writeln!(out, "  Idle core hours    {:>10.1}   cores asked for and not used", now.idle_core_h);
    let _ = writeln!(
        out,
        "  Claimed GiB hours  {:>10.1}   {}",
        now.claimed_gibh,
        beside(now.claimed_gibh, before.claimed_gibh)
    );
    let _ = writeln!(
        out,
        "  Unused GiB hours   {:>10.1}   {:.0} % of what was claimed; others could have had it",
        now.unused_gibh,
        part(now.unused_gibh, now.claimed_gibh)
    );
    let _ = writeln!(
        out,
        "  Waited hours       {:>10.1}   {}",
        now.queued_h,
        beside(now.queued_h, before.queued_h)
    );
    let _ = writeln!(out, "  Suspended hours    {:>10.1}", now.suspended_h);
    if !asks.is_empty() {
        out.push_str(
            "\nWhat to ask for next time (by the jobs of 90 days that ended well, as pinfold advise)\n\n",
        );
        for ask in asks {
            let free = format!("leaves free most of {:.1} GiB h unused", ask.unused_gibh);
            line(ask, &free, &mut out);
        }
    }
    if !short.is_empty() {
        out.push_str("\nWhat claims less than it needs, and may be stopped for want of memory\n\n");
        short.iter().for_each(|ask| line(ask, "covers it", &mut out));
    }
    if !failing.is_empty() {
        out.push_str("\nWhat failed\n\n");
        for class in failing {
            let _ = writeln!(out, "  {}: {} of {} jobs", name(&class.name), class.failed, class.jobs);
        }
    }
    out
}

fn line(ask: &Ask, what: &str, out: &mut String) {
    let _ = writeln!(
        out,
        "  {} ({} jobs of {}): held {} at most, claimed {}. --mem {} {what}",
        name(&ask.name),
        ask.jobs,
        name(&ask.user),
        size(ask.held_bytes),
        size(ask.claim_bytes),
        mebibytes(ask.ask_bytes),
    );
}

/// The default week of a mail: the last full week.
#[must_use]
pub fn last(now_us: u64) -> Week {
    Week::of(now_us).before()
}

#[cfg(test)]
mod tests {
    use super::super::NOTHING;
    use super::*;
    use crate::store::{ClassRow, Spread, UsageRow};

    fn report() -> Report {
        let evil = "x\r\nBcc: all@example.org\n.\n\u{1b}[31m";
        let ask = Ask {
            name: evil.into(),
            jobs: 12,
            user: evil.into(),
            cores: 1,
            claim_bytes: 8 << 30,
            held_bytes: 3 << 29,
            ask_bytes: 29 << 26,
            unused_gibh: 78.0,
        };
        let class = ClassRow {
            name: format!(".{evil}"),
            hosts: 1,
            jobs: 12,
            failed: 3,
            wall_s: Spread::default(),
            memory_peak_bytes: Spread::default(),
            claim_p50_bytes: None,
            claim_most_bytes: None,
            cores_used_part: 0.0,
            unused_gibh: 0.0,
            suspended_h: 0.0,
        };
        Report {
            week: Week::read("2026-W47").unwrap(),
            subject: Subject::User(evil.into()),
            now: UsageRow {
                jobs: 12,
                failed: 3,
                claimed_gibh: 100.0,
                unused_gibh: 78.0,
                cpu_h: 12.0,
                ..NOTHING
            },
            before: UsageRow { jobs: 9, failed: 1, claimed_gibh: 80.0, cpu_h: 10.0, ..NOTHING },
            asks: vec![ask],
            short: Vec::new(),
            failing: vec![class],
        }
    }

    #[test]
    fn the_text_says_what_to_ask_for() {
        let text = text(&report());
        for words in [
            "Week 2026-W47",
            "+20 % on the week before",
            "78 % of what was claimed",
            "--mem 1856MiB",
            "3 of 12 jobs",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(super::text(&Report { now: NOTHING, ..report() }).contains("No job ended"));
    }

    #[test]
    fn names_are_no_lines_and_no_heads() {
        let (head, text) = (headers(&report(), "ann@example.org").unwrap(), text(&report()));
        assert_eq!(head.lines().count(), 7, "{head}");
        assert!(head.is_ascii() && head.lines().all(|line| !line.starts_with("Bcc")), "{head}");
        assert!(
            text.lines().all(|line| !line.starts_with(['.', 'B']) && !line.starts_with("From ")),
            "{text}"
        );
        assert!(
            !text.contains('\u{1b}') && !text.contains('\r') && text.lines().all(|line| line.len() < 998),
            "{text}"
        );
        for bad in [
            "",
            "ann",
            "ann@x\nBcc: b@y",
            "ann@x, bea@x",
            "Ann <ann@x>",
            "@x",
            "ann@",
            "-oX@x",
            "ann@-x",
            "a@b@c",
        ] {
            assert!(headers(&report(), bad).is_err(), "{bad:?}");
        }
    }
}
