//! Lines that are added to a file of somebody else's, marked so that they can be taken out again: what is left then is the
//! file as it was, byte for byte, whatever else was changed in it meanwhile.

const BEGIN: &str = "# pinfold: begin; `pinfold wlm uninstall` removes these lines\n";
/// The file's last line had no end, which it got for ours to begin on one of their own.
const BEGIN_JOINED: &str = "# pinfold: begin, with the end of the line before\n";
const END: &str = "# pinfold: end\n";

/// The text with these lines at its end; those that were added before are replaced.
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

/// The text without what was added.
#[must_use]
pub fn remove(text: &str) -> String {
    let Some((before, rest)) = begin(text) else { return text.to_owned() };
    // Without an end only the mark goes: what follows may be anybody's.
    let after = rest.split_once(END).map_or(rest, |(_, after)| after);
    format!("{before}{after}")
}

/// Whether lines were added.
#[must_use]
pub fn is_there(text: &str) -> bool {
    begin(text).is_some()
}

/// What is before the lines that were added, and what follows their mark.
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
        fn what_was_added_can_be_taken_out(text in "[a-c# \\n]{0,40}", lines in "[a-c =\\n]{1,20}", more in "[x\\n]{0,9}") {
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
