//! The cores with their load and their jobs.

use pinfold_proto::JobClass;
use pinfold_proto::view::StatusView;

use super::super::table::{columns, cut, plain};
use super::super::units::rounded;
use super::head::{Head, Line};
use super::{Load, Screen, bar, filtered};

/// A core's load and jobs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CoreUse {
    /// Its PUs, as a kernel list.
    pub cpus: String,
    /// The busy part of the time, by any process; `None`: unknown, as for a past moment.
    pub busy: Option<f64>,
    /// The jobs of the view that are bound to it.
    pub jobs: Vec<u64>,
    /// How many jobs of other users are bound to it.
    pub others: usize,
}

/// The least useful width of a cell.
const CELL: usize = 26;

/// The screen: at most `height` lines of at most `width` columns. Cores are listed downwards, in several columns
/// where there are more cores than lines; `selected` counts scrolled lines.
#[must_use]
pub fn cores_frame(now: &StatusView, cores: &[CoreUse], screen: &Screen) -> Vec<String> {
    let most = (screen.width / CELL).max(1);
    let across = |room: usize| cores.len().div_ceil(room.max(1)).clamp(1, most);
    // The table below shows each core's load.
    let screen = &Screen { load: Load { cores: Vec::new(), ..screen.load.clone() }, ..screen.clone() };
    let mut head = Head::of_host(now, screen);
    head.without_load(screen.height.saturating_sub(cores.len().div_ceil(most).saturating_add(1)));
    head.push(Line::Order, String::new());
    let least = cores.len().div_ceil(most).clamp(1, (screen.height / 3).max(2));
    let mut lines = head.above(least, screen, |room| {
        let count = match room.saturating_mul(across(room)) {
            shown if shown < cores.len() => format!("{shown} of {} cores", cores.len()),
            _ => "cores".to_owned(),
        };
        format!("{count}{}   ? help  / filter  v jobs  up down  q quit", filtered(screen))
    });
    let room = screen.height.saturating_sub(lines.len()).max(1);
    let beside = across(room);
    let wide = screen.width / beside;
    let rows = cores.len().div_ceil(beside);
    let label = cores.iter().map(|core| core.cpus.chars().count()).max().unwrap_or(1).min(wide / 3);
    let first = screen.selected.min(rows.saturating_sub(room));
    for row in first..rows.min(first.saturating_add(room)) {
        let cell = |column: usize| {
            let core = cores.get(column * rows + row)?;
            let text = cut(&cell(now, core, label, screen), wide.saturating_sub(1));
            Some(text.clone() + &" ".repeat(wide.saturating_sub(columns(&text))))
        };
        let line: String = (0..beside).filter_map(cell).collect();
        lines.push(line.trim_end().to_owned());
    }
    lines.truncate(screen.height);
    lines
}

fn cell(now: &StatusView, core: &CoreUse, label: usize, screen: &Screen) -> String {
    let busy = match core.busy {
        Some(part) => format!("[{}]{:>4} %", bar(part, 6), rounded(part.clamp(0.0, 1.0) * 100.0)),
        None => "[      ]      ".to_owned(),
    };
    let mut on: Vec<String> = Vec::new();
    for number in &core.jobs {
        let Some(job) = now.jobs.iter().find(|job| job.job == *number) else { continue };
        let fits = screen.filter.is_empty()
            || job.name.contains(&screen.filter)
            || job.user.contains(&screen.filter);
        if !fits {
            continue;
        }
        let sign = match job.class {
            JobClass::Backfill => "~",
            JobClass::Exclusive => "!",
            JobClass::Primary => "",
        };
        on.push(format!("{sign}{number} {}", plain(job.external.as_ref().unwrap_or(&job.name))));
    }
    on.extend((core.others > 0).then(|| format!("{} of others", core.others)));
    let on = if on.is_empty() { "-".to_owned() } else { on.join(", ") };
    format!("{:>label$} {busy} {on}", cut(&core.cpus, label.max(1)))
}
