//! Makes users' texts safe to show to other users. Absent here: tables and colours.

/// The text with control characters and direction marks replaced, because a terminal would act on them.
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if acts(c) { '?' } else { c }).collect()
}

/// Equivalent JSON text with the characters that [`plain`] replaces as escapes (`\u009b`), so that a terminal acts on
/// line ends only. Outside of strings JSON has no such characters.
#[must_use]
pub fn plain_json(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for c in text.chars() {
        // Lower characters in strings are escaped already.
        if c >= '\u{7F}' && acts(c) {
            // All these characters are below 2^16: a single escape each.
            all.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            all.push(c);
        }
    }
    all
}

/// Whether a terminal would act on the character.
fn acts(c: char) -> bool {
    let turns =
        matches!(c, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_codes_are_replaced() {
        assert_eq!(plain("a\nb\u{1b}[2J\u{9b}m\u{202e}c\u{2028}d\u{2066}\u{feff}"), "a?b?[2J?m?c?d??");
        assert_eq!(plain("a\u{200e}b\u{200f}c\u{61c}d\u{2029}"), "a?b?c?d?");
        assert_eq!(
            plain_json("[\"a\u{9b}m\u{202e}\u{7f}ä\\u001b\"]\n"),
            "[\"a\\u009bm\\u202e\\u007fä\\u001b\"]\n"
        );
        assert_eq!(plain("naïve \u{1f600} e\u{301}"), "naïve \u{1f600} e\u{301}");
    }
}
