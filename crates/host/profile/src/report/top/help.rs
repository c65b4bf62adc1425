//! The help on the keys of `pinfold top`.

use super::super::table::cut;
use super::{Screen, Span};

/// The keys by topic. Keys that change a job ask for confirmation.
const KEYS: [(&str, &[(&str, &str)]); 4] = [
    (
        "the marked job; each asks before it does",
        &[
            (
                "s",
                "suspend it if it runs, resume it if it is suspended; hold it if it waits, release it if it is held",
            ),
            ("x", "end it: TERM, and KILL 10 s later"),
            ("+ -", "raise or lower its priority by one"),
        ],
    ),
    (
        "what is shown",
        &[
            ("enter", "the processes of the marked job, and back"),
            ("v", "the cores and what is on them, and back"),
            ("c m n t", "order by cores, memory, number, time"),
            ("/", "only what holds a text"),
        ],
    ),
    (
        "where",
        &[
            ("up down j k", "the mark, or what is scrolled; page up, page down, home"),
            ("<- ->", "an interval earlier or later; [ ] a minute, { } an hour"),
            ("l", "now"),
        ],
    ),
    ("", &[("? h", "this help"), ("q", "back, and out"), ("ctrl-c", "out")]),
];

/// The screen with all keys: at most `height` lines of at most `width` columns; `selected` counts scrolled lines.
#[must_use]
pub fn help_frame(screen: &Screen) -> Vec<String> {
    let mut lines = vec!["keys of pinfold top   q back".to_owned()];
    for (about, keys) in KEYS {
        lines.push(String::new());
        if !about.is_empty() {
            lines.push(format!("{about}:"));
        }
        lines.extend(keys.iter().map(|(key, what)| format!("  {key:<12} {what}")));
    }
    let Span { first, count } = Span::of(lines.len(), screen);
    lines.into_iter().skip(first).take(count).map(|line| cut(&line, screen.width)).collect()
}
