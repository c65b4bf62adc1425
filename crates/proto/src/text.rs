//! Texts of users' own as others may read them. Absent here: tables and colours.

/// The text with everything replaced that a terminal would act upon: control characters, and those that turn
/// the direction of writing.
#[must_use]
pub fn plain(text: &str) -> String {
    let acts = |c: char| {
        let turns = matches!(c, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
        c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}' | '\u{FEFF}')
    };
    text.chars().map(|c| if acts(c) { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_acts_upon_is_replaced() {
        assert_eq!(plain("a\nb\u{1b}[2J\u{9b}m\u{202e}c\u{2028}d\u{2066}\u{feff}"), "a?b?[2J?m?c?d??");
        assert_eq!(plain("a\u{200e}b\u{200f}c\u{61c}d\u{2029}"), "a?b?c?d?");
        assert_eq!(plain("naïve \u{1f600} e\u{301}"), "naïve \u{1f600} e\u{301}");
    }
}
