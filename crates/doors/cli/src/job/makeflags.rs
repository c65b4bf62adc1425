//! `MAKEFLAGS`: options that make hands to the makes below it, among them the address of a jobserver that lives as long as the
//! make that opened it.

/// `MAKEFLAGS` of a build: the present flags, without jobs and jobservers of others, and these words.
pub(crate) fn flags(present: &str, own: &str) -> String {
    let (options, variables) = match present.split_once("-- ") {
        Some((options, variables)) if options.is_empty() || options.ends_with(' ') => {
            (options, Some(variables))
        }
        _ => (present, None),
    };
    let is_jobs =
        |word: &str| word.starts_with("-j") || word.starts_with("--jobs") || word.starts_with("--jobserver");
    let kept = split(options).into_iter().filter(|word| !is_jobs(word));
    let mut words: Vec<String> = kept.map(str::to_owned).collect();
    words.extend(Some(own.to_owned()).filter(|own| !own.is_empty()));
    words.extend(variables.map(|variables| format!("-- {variables}")));
    words.join(" ")
}

/// Words, between which are spaces without a backslash before.
fn split(text: &str) -> Vec<&str> {
    let (mut words, mut start) = (Vec::new(), 0);
    for (at, _) in text.match_indices(' ') {
        if !text[..at].ends_with('\\') {
            words.push(&text[start..at]);
            start = at + 1;
        }
    }
    words.push(&text[start..]);
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_keep_what_is_not_about_jobs() {
        let own = "-j4 --jobserver-auth=3,4";
        for (present, want) in [
            ("", "-j4 --jobserver-auth=3,4"),
            ("ks", "ks -j4 --jobserver-auth=3,4"),
            (
                " -j8 --jobserver-auth=fifo:/tmp/x --no-print-directory",
                "--no-print-directory -j4 --jobserver-auth=3,4",
            ),
            ("w -j --jobserver-fds=5,6 -- A=1 B=-j8", "w -j4 --jobserver-auth=3,4 -- A=1 B=-j8"),
            ("--eval=x:\\ -j9 k", "--eval=x:\\ -j9 k -j4 --jobserver-auth=3,4"),
        ] {
            assert_eq!(flags(present, own), want, "{present}");
        }
        assert_eq!(flags("s -j4 --jobserver-auth=fifo:/tmp/x -- A=1", ""), "s -- A=1");
    }
}
