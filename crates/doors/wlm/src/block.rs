//! Marked lines added to another program's file. Removing them restores the file byte for byte, including later
//! changes elsewhere in the file.

const BEGIN: &str = "# pinfold: begin; `pinfold wlm uninstall` removes these lines\n";
/// Mark for a file that got a newline behind its last line.
const BEGIN_JOINED: &str = "# pinfold: begin, with the end of the line before\n";
const END: &str = "# pinfold: end\n";

/// The text with these lines at its end; replaces lines added before.
#[must_use]
pub fn add(text: &str, lines: &str) -> String {
    let mut text = remove(text);
    let joined = !text.is_empty() && !text.ends_with('\n');
    if joined {
        text.push('\n');
    }
    text.push_str(if joined { BEGIN_JOINED } else { BEGIN });
    text.push_str(lines);
    if !lines.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(END);
    text
}

/// The text without the added lines.
#[must_use]
pub fn remove(text: &str) -> String {
    let Some((before, rest)) = begin(text) else { return text.to_owned() };
    // Without an end mark only the begin mark is removed: later lines may be the user's.
    let after = rest.split_once(END).map_or(rest, |(_, after)| after);
    format!("{before}{after}")
}

/// Whether lines were added.
#[must_use]
pub fn is_there(text: &str) -> bool {
    begin(text).is_some()
}

/// The text before the added lines, and the text behind their begin mark.
fn begin(text: &str) -> Option<(&str, &str)> {
    if let Some((before, rest)) = text.split_once(BEGIN) {
        return Some((before, rest));
    }
    let (before, rest) = text.split_once(BEGIN_JOINED)?;
    Some((before.strip_suffix('\n').unwrap_or(before), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn added_lines_can_be_removed(text in "[a-c# \\n]{0,40}", lines in "[a-c =\\n]{1,20}", more in "[x\\n]{0,9}") {
            let added = add(&text, &lines);
            prop_assert!(is_there(&added) && added.contains(&lines));
            prop_assert_eq!(remove(&added), text.clone());
            prop_assert_eq!(add(&added, &lines), added.clone(), "twice is once");
            prop_assert_eq!(remove(&format!("{added}{more}")), format!("{text}{more}"), "and what came later stays");
        }
    }

    #[test]
    fn a_file_without_them_stays() {
        for text in ["", "a", "a\n", "# pinfold: end\n"] {
            assert_eq!(remove(text), text);
        }
    }
}
