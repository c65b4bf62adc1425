//! Advice in words: a table of classes, and the history of each. Absent: figures ([`super::classes`]).

use std::io::{self, Write};

use pinfold_profile::report::{Align, Cell, Column, Table, duration, plain, size};

use super::classes::{ClassView, whole};
use super::months::Sheet;
use super::replay::RUNS_MIN;
use pinfold_advise::Verdict;

const fn column(head: &'static str, align: Align, leave_out: u8) -> Column {
    Column { head, align, leave_out }
}

const COLUMNS: [Column; 13] = [
    column("JOBS", Align::Right, 2),
    column("REQUESTED", Align::Right, 0),
    column("USED median", Align::Right, 4),
    column("99 of 100", Align::Right, 0),
    column("ADVISED", Align::Right, 0),
    column("RISK", Align::Right, 3),
    column("SAVED GBh", Align::Right, 0),
    column("of all", Align::Right, 5),
    column("CORES", Align::Right, 6),
    column("RAN median", Align::Right, 8),
    column("TIME advised", Align::Right, 7),
    column("USER", Align::Left, 1),
    column("CLASS", Align::Left, 0),
];

/// Writes the table, and below it the sentences on each class.
///
/// # Errors
/// Errors of `out`.
pub(super) fn write(views: &[ClassView], width: usize, out: &mut dyn Write) -> io::Result<()> {
    if views.is_empty() {
        return writeln!(out, "no job that is over");
    }
    let several = views.iter().any(|view| view.user != views[0].user);
    let mut table = Table::new(&COLUMNS);
    for view in views {
        let bytes = |bytes: Option<u64>| bytes.map_or("-".to_owned(), size);
        let time = |seconds: Option<f64>| seconds.map_or("-".to_owned(), duration);
        let cores = match view.cores {
            asked if asked == view.cores_advised => asked.to_string(),
            asked => format!("{asked} -> {}", view.cores_advised),
        };
        let cells = [
            view.jobs.to_string(),
            bytes(view.requested_bytes),
            bytes(view.peak_p50_bytes),
            bytes(view.peak_p99_bytes),
            bytes(view.advised_bytes),
            view.risk.map_or(String::new(), percent),
            if view.requested_gbh > 0.0 { format!("{:.2}", view.saved_gbh) } else { "-".to_owned() },
            view.saved_share.map_or(String::new(), percent),
            cores,
            time(view.wall_p50_s),
            time(view.wall_advised_s),
            if several { view.user.clone() } else { String::new() },
            view.class.clone(),
        ];
        table.push(cells.map(|text| Cell::new(&text)).into());
    }
    table.write(width, false, out)?;
    writeln!(out)?;
    views.iter().try_for_each(|view| {
        let user = if several { format!("{}: ", plain(&view.user)) } else { String::new() };
        writeln!(out, "{user}{}: {}", plain(&view.class), view.why)
    })
}

const MONTH_COLUMNS: [Column; 12] = [
    column("MONTH", Align::Left, 0),
    column("JOBS", Align::Right, 0),
    column("REQUESTED GBh", Align::Right, 0),
    column("USED GBh", Align::Right, 0),
    column("of request", Align::Right, 3),
    column("SAVING GBh", Align::Right, 0),
    column("of request", Align::Right, 4),
    column("FAILED", Align::Right, 2),
    column("AT LIMIT", Align::Right, 0),
    column("CORES", Align::Right, 5),
    column("USER", Align::Left, 1),
    column("CLASS", Align::Left, 0),
];

/// Writes requests, use and possible savings, a line for each class and month, and the sums below.
///
/// # Errors
/// Errors of `out`.
pub(super) fn write_months(sheet: &Sheet, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let Some(first) = sheet.months.first() else { return writeln!(out, "no job that is over") };
    let several = sheet.months.iter().any(|row| row.user != first.user);
    let mut table = Table::new(&MONTH_COLUMNS);
    for row in &sheet.months {
        let asked = row.requested_gbh > 0.0;
        let gbh = |gbh: f64| if asked { format!("{gbh:.2}") } else { "-".to_owned() };
        let of_request = |gbh: f64| if asked { percent(gbh / row.requested_gbh) } else { String::new() };
        let cells = [
            row.month.clone(),
            row.jobs.to_string(),
            gbh(row.requested_gbh),
            gbh(row.used_gbh),
            of_request(row.used_gbh),
            gbh(row.saved_gbh),
            of_request(row.saved_gbh),
            row.failed.to_string(),
            row.failed_at_limit.to_string(),
            row.cores.to_string(),
            if several { row.user.clone() } else { String::new() },
            row.class.clone(),
        ];
        table.push(cells.map(|text| Cell::new(&text)).into());
    }
    table.write(width, false, out)?;
    writeln!(
        out,
        "\nall: {:.2} GBh requested, {:.2} used; advice would have saved {:.2}",
        sheet.requested_gbh, sheet.used_gbh, sheet.saved_gbh
    )
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent.abs() < 9.95 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// The verdict on a class, its basis, and other faults. `learned`: the estimate's own reason.
pub(super) fn why(view: &ClassView, learned: Option<&str>) -> String {
    let runs = |count: usize| if count == 1 { "1 run".to_owned() } else { format!("{count} runs") };
    let most = size(view.peak_p99_bytes.unwrap_or(0));
    let advised = view.advised_bytes.map_or(String::new(), |bytes| ask_for(bytes).replacen(' ', "", 1));
    let asked = size(view.requested_bytes.unwrap_or(0));
    let mut why = match view.verdict {
        Verdict::Unknown => match view.jobs {
            0 => "no run of it has ended well, so there is nothing to go by".to_owned(),
            few if few < RUNS_MIN => format!(
                "only {} of it ended well, and advice takes {RUNS_MIN}: keep what you ask for",
                runs(few)
            ),
            _ if view.failed_at_limit > 0 => {
                "a memory limit ended a run that held more than advice from the others: ask for more than that limit"
                    .to_owned()
            }
            _ => "nothing can be said of its memory: keep what you ask for".to_owned(),
        },
        Verdict::Unasked => {
            format!("it asks for no memory, and 99 of 100 runs held {most}: ask for {advised}")
        }
        Verdict::TooMuch => {
            format!("it asks for {asked}, and 99 of 100 runs held {most} or less: {advised} would do")
        }
        Verdict::TooLittle => {
            format!(
                "it asks for {asked}, and needs more (99 of 100 runs held {most} or less): ask for {advised}"
            )
        }
        Verdict::Fits => format!("it asks for {asked}, which is about what it needs: leave it as it is"),
    };
    if view.failed_at_limit > 0 {
        why.push_str(&format!("; {} failed at its memory limit", runs(view.failed_at_limit)));
    }
    if view.cores_advised < view.cores {
        why.push_str(&format!(
            "; of its {} cores never more than {} were busy",
            view.cores, view.cores_advised
        ));
    }
    if let Some(learned) = learned {
        why.push_str(&format!(" ({learned})"));
    }
    why
}

/// A size as in a request: whole MiB.
pub(super) fn ask_for(bytes: u64) -> String {
    format!("{} MiB", mebibytes(bytes))
}

/// Whole MiB, rounded up.
pub(super) fn mebibytes(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

/// Whole minutes, rounded up, at least 1.
pub(super) fn minutes(seconds: f64) -> u64 {
    whole(seconds / 60.0).max(1)
}
