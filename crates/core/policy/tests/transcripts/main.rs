//! The rules as transcripts: what happens, and what is decided in answer. A file has a subject; in it `## name` begins a
//! transcript, and `#` a comment. With `BLESS=1` the files are written anew, with the decisions of now: the difference is
//! to be read.
#![expect(clippy::disallowed_methods, reason = "BLESS=1 writes the files of this directory")]

mod script;

use std::fmt::Write as _;

use script::{Words, play};

/// The text of a file with the decisions of now.
fn played(text: &str, words: &mut Words) -> String {
    let mut parts = text.split("\n## ");
    let mut all = format!("{}\n", parts.next().unwrap_or_default().trim_end());
    for part in parts {
        let (name, transcript) = part.split_once('\n').expect("a transcript below its name");
        write!(all, "\n## {name}\n{}", play(transcript, words)).expect("text");
    }
    all
}

#[track_caller]
fn check(name: &str, expected: &str, found: &str) {
    if std::env::var_os("BLESS").is_some() {
        let path = format!("{}/tests/transcripts/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        return std::fs::write(path, found).expect("the file is written");
    }
    let mut differ = Vec::new();
    for (expected, found) in expected.split("\n## ").zip(found.split("\n## ")) {
        if expected.trim_end() != found.trim_end() {
            differ.push(format!("what happened:\n## {found}\nwhat was expected:\n## {expected}"));
        }
    }
    assert!(differ.is_empty(), "{name}.txt\n{}\nIf that is meant, BLESS=1", differ.join("\n"));
    assert_eq!(expected, found);
}

macro_rules! transcripts {
    ($($name:ident),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                let text = include_str!(concat!(stringify!($name), ".txt"));
                check(stringify!($name), text, &played(text, &mut Words::new()));
            }
        )+

        /// Each form of a sentence that comes in some transcript, once.
        #[test]
        fn words() {
            let mut words = Words::new();
            $( played(include_str!(concat!(stringify!($name), ".txt")), &mut words); )+
            let said: String = words.iter().map(|((code, _), said)| format!("{code}: {said}\n")).collect();
            check("words", include_str!("words.txt"), &said);
        }
    };
}

transcripts! {
    ahead, arrays, asides, best_effort, borders, changes, checkpoints, cold, commands, conditions, drift,
    early, even, exclusive, faults, interference, memory, nested, others, preemption, projects, protect,
    queue_order, repack, resources, restart, shapes, slots, throttle, token,
}
