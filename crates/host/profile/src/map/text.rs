//! The map in characters: a letter per core for its job, a bracket per cache, a line per NUMA node or socket, and a
//! legend below.

use std::io::{self, Write};

use pinfold_proto::view::{ChunkView, SetAsideView, SetKind};

use super::model::{Core, Group, Inside, Map};
use crate::report::{plain, resource_lines, size};

/// The letters of sets in order; further sets share a sign.
const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwyz0123456789";
const MANY: char = '#';
const FREE: char = '.';
const BARRED: char = 'x';

/// The colours of sets in rotation, by ANSI number.
const COLOURS: [u8; 12] = [34, 32, 33, 35, 36, 31, 94, 92, 93, 95, 96, 91];

/// How many processes of a set are named.
const PIDS_NAMED: usize = 4;

/// Writes the map in lines of up to `width` characters.
///
/// # Errors
/// When `out` fails.
pub fn write(map: &Map, width: usize, colour: bool, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", map.summary())?;
    writeln!(out, "{}", bar(map, width.min(100)))?;
    writeln!(out)?;
    for socket in &map.sockets {
        for (name, caches) in lines(socket, "") {
            write_line(map, &name, &caches, width, colour, out)?;
        }
    }
    write_legend(map, width, colour, out)
}

/// The machine in a line: used, free, not for jobs.
fn bar(map: &Map, width: usize) -> String {
    let room = map.cores().min(width - 2).max(1);
    let part = |count: usize| (count * room).div_ceil(map.cores().max(1));
    let used = part(map.used());
    let barred = part(map.cores() - map.usable()).min(room - used.min(room));
    let free = room.saturating_sub(used + barred);
    format!("[{}{}{}]", "#".repeat(used), ".".repeat(free), "x".repeat(barred))
}

/// The lines of a box: the name of each, and its cores by cache.
fn lines(group: &Group, above: &str) -> Vec<(String, Vec<Vec<usize>>)> {
    let name = format!("{above}{}", group.name);
    match &group.inside {
        Inside::Cores(cores) => vec![(name, vec![cores.clone()])],
        Inside::Groups(groups) => {
            let caches: Option<Vec<Vec<usize>>> = groups
                .iter()
                .map(|group| match &group.inside {
                    Inside::Cores(cores) if group.name.contains("L3") => Some(cores.clone()),
                    _ => None,
                })
                .collect();
            match caches {
                Some(caches) => vec![(name, caches)],
                None => groups.iter().flat_map(|group| lines(group, &format!("{name} "))).collect(),
            }
        }
    }
}

fn write_line(
    map: &Map,
    name: &str,
    caches: &[Vec<usize>],
    width: usize,
    colour: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    const NAME: usize = 18;
    let room = width.saturating_sub(NAME + 2).max(16);
    let mut rows: Vec<Vec<&[usize]>> = vec![Vec::new()];
    let mut used = 0;
    for piece in caches.iter().flat_map(|cache| cache.chunks(room)) {
        if used > 0 && used + piece.len() + 2 > room {
            rows.push(Vec::new());
            used = 0;
        }
        used += piece.len() + 3;
        rows.last_mut().expect("never empty").push(piece);
    }
    for (number, row) in rows.iter().enumerate() {
        let name = if number == 0 { name } else { "" };
        write!(out, "{name:<NAME$}")?;
        write_cores(map, row, colour, out, |core| core.sets.first().copied(), true)?;
        // Further jobs of shared cores stand below.
        let deepest = row.iter().flat_map(|piece| piece.iter()).map(|&core| map.core(core).sets.len()).max();
        for depth in 1..deepest.unwrap_or(0).min(4) {
            write!(out, "{:<NAME$}", "")?;
            write_cores(map, row, colour, out, |core| core.sets.get(depth).copied(), false)?;
        }
    }
    Ok(())
}

fn write_cores(
    map: &Map,
    row: &[&[usize]],
    colour: bool,
    out: &mut dyn Write,
    set: impl Fn(&Core) -> Option<usize>,
    first: bool,
) -> io::Result<()> {
    let brackets = if first { ["[", "]"] } else { [" ", " "] };
    for (at, piece) in row.iter().enumerate() {
        write!(out, "{}{}", if at == 0 { "" } else { " " }, brackets[0])?;
        for &core in *piece {
            let core = map.core(core);
            match set(core) {
                Some(set) => write_letter(set, colour, out)?,
                None if !first => write!(out, " ")?,
                None => write!(out, "{}", if core.usable { FREE } else { BARRED })?,
            }
        }
        write!(out, "{}", brackets[1])?;
    }
    writeln!(out)
}

fn letter(set: usize) -> char {
    LETTERS.get(set).map_or(MANY, |&letter| char::from(letter))
}

fn write_letter(set: usize, colour: bool, out: &mut dyn Write) -> io::Result<()> {
    if colour {
        write!(out, "\x1b[{}m{}\x1b[0m", COLOURS[set % COLOURS.len()], letter(set))
    } else {
        write!(out, "{}", letter(set))
    }
}

fn write_legend(map: &Map, width: usize, colour: bool, out: &mut dyn Write) -> io::Result<()> {
    write_jobs(map, width, colour, out)?;
    let words = map.asides.iter().map(set_words).chain(map.chunks.iter().map(chunk_words));
    let words = words.chain(map.resources.iter().flat_map(resource_lines));
    for words in words {
        writeln!(out, "{}", plain(&words).chars().take(width).collect::<String>())?;
    }
    Ok(())
}

/// A chunk of NUMA nodes with its jobs, in words.
pub(super) fn chunk_words(chunk: &ChunkView) -> String {
    let jobs: Vec<String> = chunk.jobs.iter().map(ToString::to_string).collect();
    let jobs = if jobs.is_empty() { "others' jobs".to_owned() } else { format!("jobs {}", jobs.join(" ")) };
    format!(
        "memory of NUMA nodes {}: {jobs}, which may need {} of {}",
        chunk.nodes,
        size(chunk.claimed_bytes),
        size(chunk.usable_bytes)
    )
}

/// A set of cores in words.
pub(super) fn set_words(set: &SetAsideView) -> String {
    let jobs: Vec<String> = set.jobs.iter().map(ToString::to_string).collect();
    let jobs = if jobs.is_empty() { "no job".to_owned() } else { format!("jobs {}", jobs.join(" ")) };
    format!(
        "set {}: PUs {} ({} cores), {}, {}, {jobs}",
        set.set,
        set.cpus,
        set.cores,
        kind_word(set.kind),
        if set.shared { "shared" } else { "for its jobs alone" },
    )
}

fn write_jobs(map: &Map, width: usize, colour: bool, out: &mut dyn Write) -> io::Result<()> {
    if map.sets.is_empty() {
        return writeln!(out, "\nno job has a core");
    }
    writeln!(out)?;
    for (number, set) in map.sets.iter().enumerate() {
        let view = &set.view;
        let pids: Vec<String> = view.pids.iter().take(PIDS_NAMED).map(ToString::to_string).collect();
        let more = if view.pids.len() > PIDS_NAMED { " ..." } else { "" };
        let processes = match view.pids.len() {
            0 => String::new(),
            count => format!(", {count} processes: {}{more}", pids.join(" ")),
        };
        let shared = if view.shared { ", shared" } else { "" };
        let class = view.class.word();
        let state = view.state.word();
        let text = format!(
            "{}: PUs {} ({} cores), {class}, {state}{shared}{processes}",
            set.title(),
            view.cpus,
            view.cores
        );
        write_letter(number, colour, out)?;
        let text = plain(&text);
        writeln!(out, "  {}", text.chars().take(width.saturating_sub(3)).collect::<String>())?;
    }
    Ok(())
}

/// The kind of a set, in a word.
#[must_use]
pub const fn kind_word(kind: SetKind) -> &'static str {
    match kind {
        SetKind::Static => "static",
        SetKind::Idle => "idle",
        SetKind::Housekeeping => "housekeeping",
        SetKind::Isolated => "isolated",
    }
}
