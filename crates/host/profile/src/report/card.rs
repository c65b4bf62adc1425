//! A job on a page: `report` and `why`. Each figure names its quantity.

use std::io::{self, Write};

use pinfold_proto::JobState;
use pinfold_proto::view::{NodeView, ReportView, WhyView};

use crate::store::details::{DECISIONS_FIRST, DECISIONS_LAST};

use super::resources::resource_words;
use super::table::{cut, plain};
use super::units::{clock_here, counted, date_here, duration, precise, size, with_dates_here};

/// The longest command that is shown whole.
const COMMAND_MAX: usize = 200;

/// Width of a bar, in characters.
const BAR: usize = 24;

/// `pinfold report` as text: a job, followed by an empty line.
///
/// # Errors
/// When `out` fails.
pub fn write_report(view: &ReportView, out: &mut dyn Write) -> io::Result<()> {
    let member = match (view.array_id, view.array_index) {
        (Some(array), Some(index)) => format!(" ({array}_{index})"),
        _ => view.external.as_ref().map_or(String::new(), |name| format!(" ({})", plain(name))),
    };
    writeln!(out, "job {}{member}  {}  {}", view.job, plain(&view.name), end(view))?;
    let mut line = |name: &str, text: String| writeln!(out, "  {name:<10} {text}");
    line("command", cut(&plain(&view.command.join(" ")), COMMAND_MAX))?;
    if let Some(reason) = &view.reason {
        line("why", plain(&with_dates_here(reason)))?;
    }
    if let Some(comment) = &view.comment {
        line("comment", plain(comment))?;
    }
    let project =
        view.project.as_ref().map_or(String::new(), |project| format!(", project {}", plain(project)));
    line("user", format!("{}{project}", plain(&view.user)))?;
    line("class", class(view))?;
    resource_words(&view.resources).map_or(Ok(()), |text| line("resources", text))?;
    line("time", times(view))?;
    line("asked for", date_here(view.submitted_s))?;
    if view.checkpoints > 0 {
        let times =
            if view.checkpoints == 1 { "once".to_owned() } else { format!("{} times", view.checkpoints) };
        line(
            "checkpointed",
            format!("{times}: ended and begun anew from there; the figures are those of the last part"),
        )?;
    }
    if view.requeues > 0 {
        let times = if view.requeues == 1 { "once".to_owned() } else { format!("{} times", view.requeues) };
        line("requeued", format!("{times}: ended to be begun anew; the figures are those of the last time"))?;
    }
    if view.started_s.is_some() {
        line("CPU", cpu(view))?;
        memory(view).into_iter().try_for_each(|(name, text)| line(name, text))?;
        nodes(view).map_or(Ok(()), |text| line("NUMA", text))?;
        line("storage", storage(view))?;
        counts(view).map_or(Ok(()), |text| line("counted", text))?;
        stalls(view).map_or(Ok(()), |text| line("stalled", text))?;
        line("processes", processes(view))?;
        view.notes.iter().try_for_each(|note| line("note", plain(note)))?;
    }
    writeln!(out)
}

/// A job's ending, or its state.
pub(crate) fn end(view: &ReportView) -> String {
    match (view.state, view.signal, view.exit_code) {
        // A program may exit with 0 on the signal.
        (JobState::Exited, ..) if let (Some(end), Some(0)) = (view.end, view.exit_code) => {
            format!("{}, then exited 0", end.words())
        }
        (JobState::Exited, Some(signal), _) => format!("ended by signal {signal}"),
        (JobState::Exited, None, Some(code)) => format!("exited {code}"),
        (JobState::Exited, None, None) if view.started_s.is_none() => "not run".to_owned(),
        (state, _, _) => state.word().to_owned(),
    }
}

fn class(view: &ReportView) -> String {
    let class = format!("{:?}", view.class).to_lowercase();
    let cpus =
        view.cpus.as_ref().map_or("not bound to CPUs".to_owned(), |cpus| format!("on CPUs {}", plain(cpus)));
    format!("{class}, priority {}, {cpus}", view.priority)
}

fn times(view: &ReportView) -> String {
    let waited = if view.started_s.is_some() { "queued" } else { "queued for" };
    let mut text = format!("{waited} {}", duration(view.queued_s));
    if let Some(wall_s) = view.wall_s {
        let verb = if view.state == JobState::Exited { "ran" } else { "has run" };
        text.push_str(&format!(", {verb} {}", duration(wall_s)));
        if view.suspended_s > 0.0 {
            text.push_str(&format!(", {} of that frozen", duration(view.suspended_s)));
        }
    }
    text
}

fn cpu(view: &ReportView) -> String {
    let (user, system) = (view.cpu_user_s, view.cpu_system_s);
    let ran_s = view.wall_s.unwrap_or(0.0) - view.suspended_s;
    let cores = if ran_s > 0.0 {
        format!("; {:.2} cores on average while it was not frozen", (user + system) / ran_s)
    } else {
        String::new()
    };
    format!("{} ({} user, {} system){cores}", duration(user + system), duration(user), duration(system))
}

fn memory(view: &ReportView) -> Vec<(&'static str, String)> {
    let mut peak = format!(
        "peak {}, mean {}; anonymous and shared, without page cache",
        size(view.memory_peak_bytes),
        size(view.memory_mean_bytes)
    );
    let mut lines = Vec::new();
    if let Some(claim) = view.claim_bytes.filter(|&claim| claim > 0) {
        let part = precise(view.memory_peak_bytes) / precise(claim);
        let percent = part * 100.0;
        lines.push(("", format!("[{}] {percent:.0} % of the {} it claimed", bar(part), size(claim))));
    } else {
        peak.push_str("; no claim");
    }
    lines.insert(0, ("memory", peak));
    let kinds: Vec<String> = [
        ("anonymous", view.anonymous_peak_bytes),
        ("shared", view.shared_peak_bytes),
        ("mapped files", view.mapped_peak_bytes),
    ]
    .into_iter()
    .filter_map(|(kind, bytes)| Some(format!("{kind} {}", size(bytes.filter(|&bytes| bytes > 0)?))))
    .collect();
    if !kinds.is_empty() {
        lines.push(("", format!("at samples up to: {}", kinds.join(", "))));
    }
    if let Some(limit) = view.limit_bytes {
        let percent = 100.0 * precise(view.memory_peak_bytes) / precise(limit.max(1));
        lines.push(("", format!("limit {}; the peak is {percent:.0} % of it", size(limit))));
    }
    if let Some(cache) = view.cache_peak_bytes {
        lines.push(("cache", format!("peak {}; page cache, which goes when memory is needed", size(cache))));
    }
    if view.swap_peak_bytes > 0 {
        lines.push(("swap", format!("peak {}", size(view.swap_peak_bytes))));
    }
    if view.virtual_peak_bytes > 0 {
        lines.push(("virtual", format!("peak {} of address space", size(view.virtual_peak_bytes))));
    }
    lines
}

/// Its memory per NUMA node, where the host has several nodes.
fn nodes(view: &ReportView) -> Option<String> {
    let nodes = view.numa.as_deref().filter(|nodes| !nodes.is_empty())?;
    let one = |node: &NodeView| {
        let (mean, peak) = (size(node.memory_mean_bytes), size(node.memory_peak_bytes));
        format!("node {}: mean {mean}, peak {peak}", node.node)
    };
    let local = view
        .numa_local
        .map_or(String::new(), |part| format!("; {:.0} % of it on the nodes of its cores", part * 100.0));
    Some(format!("{}{local}", nodes.iter().map(one).collect::<Vec<_>>().join("; ")))
}

/// A fraction as a bar; the last place of the bar marks more than 1.
fn bar(part: f64) -> String {
    let filled = usize::try_from(super::units::rounded(part * precise(BAR as u64))).unwrap_or(BAR).min(BAR);
    let mut bar = format!("{}{}", "#".repeat(filled), ".".repeat(BAR - filled));
    if part > 1.0 {
        bar.replace_range(BAR - 1.., "!");
    }
    bar
}

fn processes(view: &ReportView) -> String {
    let found = super::processes::found(view.processes_from.as_deref());
    format!(
        "{} in all{found}, at most {} with {} at once; {}",
        view.processes_total,
        view.processes_peak,
        counted(view.threads_peak, "thread"),
        counted(view.samples, "sample")
    )
}

fn storage(view: &ReportView) -> String {
    let mut text = format!("{} read, {} written", size(view.io_read_bytes), size(view.io_write_bytes));
    if let Some((reads, writes)) = view.io_read_calls.zip(view.io_write_calls) {
        text.push_str(&format!("; {reads} calls that read and {writes} that wrote, from and to anywhere"));
    }
    text
}

/// Page faults, context switches and waits, where known.
fn counts(view: &ReportView) -> Option<String> {
    let mut parts = Vec::new();
    if let Some((minor, major)) = view.faults_minor.zip(view.faults_major) {
        parts.push(format!("{minor} page faults met from memory, {major} from storage"));
    }
    if let Some((voluntary, forced)) = view.switches_voluntary.zip(view.switches_forced) {
        parts.push(format!("{voluntary} times a processor given up, {forced} times taken away"));
    }
    if let Some(waited_s) = view.waited_s {
        parts.push(format!("{} of waits for one in all its threads", duration(waited_s)));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Its stall times, where the kernel reports stalls per job.
fn stalls(view: &ReportView) -> Option<String> {
    let parts: Vec<String> = [
        ("a processor", view.cpu_stalled_s),
        ("memory", view.memory_stalled_s),
        ("storage", view.io_stalled_s),
    ]
    .into_iter()
    .filter_map(|(what, stalled_s)| {
        stalled_s.filter(|&s| s >= 0.001).map(|s| format!("{} for {what}", duration(s)))
    })
    .collect();
    (!parts.is_empty()).then(|| format!("some of it waited {}", parts.join(", ")))
}

/// `pinfold why` as text; `name`: the displayed name of the job, `12` or `12_3`.
///
/// # Errors
/// When `out` fails.
pub fn write_why(view: &WhyView, name: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "job {name} is {}: {}", view.state_words(), plain(&with_dates_here(&view.cause)))?;
    let wide = view.numbers.iter().map(|number| number.name.chars().count()).max().unwrap_or(0);
    for number in &view.numbers {
        writeln!(out, "  {:<wide$}  {}", plain(&number.name), plain(&with_dates_here(&number.text)))?;
    }
    if !view.change.is_empty() {
        writeln!(out, "what would change it: {}", plain(&with_dates_here(&view.change)))?;
    }
    if !view.decisions.is_empty() {
        writeln!(out, "decisions so far")?;
    }
    let mut day = None;
    for (number, decision) in (1..).zip(&view.decisions) {
        let date = date_here(decision.time_s);
        let today = date.split(' ').next().map(str::to_owned);
        if today != day {
            writeln!(out, "  {}", today.as_deref().unwrap_or(""))?;
            day = today;
        }
        writeln!(
            out,
            "    {}  {}: {}",
            clock_here(decision.time_s),
            plain(&decision.action),
            plain(&with_dates_here(&decision.reason))
        )?;
        if number == DECISIONS_FIRST && view.left_out.is_some() {
            // Otherwise this decision would seem to hold until the next.
            let most = DECISIONS_FIRST.saturating_add(DECISIONS_LAST);
            writeln!(
                out,
                "    (of more than {most} only the first {DECISIONS_FIRST} and the last {DECISIONS_LAST} are kept)"
            )?;
        }
    }
    Ok(())
}
