//! `--what-if`: a question about jobs as people ask it, and the jobs' new requests.
//!
//! Absent here: the advised memory ([`pinfold_advise::applied`]), and the results.

use pinfold_advise::applied::{Past, requests};
use pinfold_proto::quantity::parse_size;
use pinfold_whatif::list::{Entry, List};

/// The memory that jobs ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Mem {
    /// The job's own request.
    #[default]
    Asked,
    /// The advice of `pinfold advise` at each submission; the job's own request where there is no advice.
    Advised,
    /// This many bytes each.
    Bytes(u64),
}

impl Mem {
    /// From words; the error is for people.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "asked" => Ok(Self::Asked),
            "advised" => Ok(Self::Advised),
            _ => match parse_size(text) {
                Ok(0) => Err("a job asks for more than 0 bytes".to_owned()),
                Ok(bytes) => Ok(Self::Bytes(bytes)),
                Err(error) => Err(format!("{error}; `asked` and `advised` are known as well")),
            },
        }
    }
}

/// Which jobs ask for how much.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Question {
    pub mem: Mem,
    /// Only these jobs change; the others keep their requests.
    pub name: Option<String>,
    pub user: Option<String>,
}

/// The changed list.
#[derive(Debug)]
pub(super) struct Answered {
    pub list: List,
    /// Jobs that ask for something else than they did.
    pub changed: usize,
    /// Jobs that came to hold more than they ask for now.
    pub below_peak: usize,
}

impl Question {
    /// From words: `my jobs with --mem 2GiB`, `--mem advised --name align`. `own`: the calling user.
    pub(super) fn parse(text: &str, own: &str) -> Result<Self, String> {
        let mut question = Self::default();
        let mut asked = false;
        let mut words = text.split_whitespace().peekable();
        while let Some(word) = words.next() {
            let (option, inline) =
                word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
            let mut value =
                || inline.or_else(|| words.next()).ok_or_else(|| format!("{option} wants a value"));
            match option {
                "my" => question.user = Some(own.to_owned()),
                "jobs" | "all" | "with" | "the" => {}
                "--mem" => (question.mem, asked) = (Mem::parse(value()?)?, true),
                "--name" => question.name = Some(value()?.to_owned()),
                "--user" => question.user = Some(value()?.to_owned()),
                _ => {
                    return Err(format!(
                        "`{word}` is not understood; --mem SIZE or --mem advised, --name NAME and --user USER are, as \
                         in \"my jobs with --mem 2GiB\""
                    ));
                }
            }
        }
        if asked { Ok(question) } else { Err("it says nothing of --mem".to_owned()) }
    }

    /// Whether no request changes.
    pub(super) fn is_idle(&self) -> bool {
        self.mem == Mem::Asked
    }

    fn means(&self, entry: &Entry) -> bool {
        self.name.as_ref().is_none_or(|name| *name == entry.name)
            && self.user.as_ref().is_none_or(|user| *user == entry.user)
    }

    /// The list with the changed requests. `ended_s`: when each job ended, where known.
    pub(super) fn answer(&self, list: &List, ended_s: &[f64]) -> Answered {
        let entries = list.entries();
        let advised = match self.mem {
            Mem::Advised => requests(&past(entries, ended_s)),
            _ => Vec::new(),
        };
        let mut answered = Answered { list: List::default(), changed: 0, below_peak: 0 };
        for (place, entry) in entries.iter().enumerate() {
            let request = match self.mem {
                _ if !self.means(entry) => None,
                Mem::Asked => None,
                Mem::Advised => advised[place],
                Mem::Bytes(bytes) => Some(bytes),
            };
            let mut entry = entry.clone();
            if let Some(bytes) = request {
                answered.changed += usize::from(entry.memory_request_bytes != Some(bytes));
                answered.below_peak += usize::from(entry.memory_peak_bytes > Some(bytes));
                entry.memory_request_bytes = Some(bytes);
            }
            answered.list.add(entry);
        }
        answered
    }
}

fn past<'a>(entries: &'a [Entry], ended_s: &[f64]) -> Vec<Past<'a>> {
    let one = |(place, entry): (usize, &'a Entry)| Past {
        user: &entry.user,
        name: &entry.name,
        cores: entry.cores.unwrap_or(1),
        submitted_s: entry.submit_s,
        // Where nothing is known of waits, it ran at once.
        ended_s: ended_s.get(place).copied().unwrap_or(entry.submit_s + entry.wall_s),
        wall_s: entry.wall_s,
        peak_bytes: entry.memory_peak_bytes,
    };
    entries.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn questions_are_understood_or_named() {
        let parse = |text| Question::parse(text, "me");
        let want = Question { mem: Mem::Bytes(2 * GIB), user: Some("me".to_owned()), name: None };
        assert_eq!(parse("my jobs with --mem 2GiB"), Ok(want));
        let want = Question { mem: Mem::Advised, user: None, name: Some("align".to_owned()) };
        assert_eq!(parse("--mem=advised --name align"), Ok(want));
        for (text, words) in [
            ("", "it says nothing of --mem"),
            ("my jobs", "it says nothing of --mem"),
            ("with --mem", "--mem wants a value"),
            ("with --mem 0", "more than 0"),
            ("with --mem much", "`asked` and `advised`"),
            ("with --cores 3", "`--cores` is not understood"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn the_jobs_that_are_meant_ask_for_something_else() {
        let mut list = List::default();
        for (user, name, asked, peak) in [
            ("me", "a", Some(8 * GIB), 3 * GIB),
            ("me", "b", None, GIB),
            ("you", "a", Some(8 * GIB), GIB),
            ("me", "a", Some(2 * GIB), GIB),
        ] {
            list.add(Entry {
                user: user.to_owned(),
                name: name.to_owned(),
                memory_request_bytes: asked,
                memory_peak_bytes: Some(peak),
                wall_s: 1.0,
                ..Entry::default()
            });
        }
        let answer = |text: &str| {
            let question = Question::parse(text, "me").expect(text);
            let answered = question.answer(&list, &[]);
            let asked: Vec<_> =
                answered.list.entries().iter().map(|entry| entry.memory_request_bytes).collect();
            (asked, answered.changed, answered.below_peak)
        };
        let (two, eight) = (Some(2 * GIB), Some(8 * GIB));
        assert_eq!(answer("my jobs with --mem 2GiB"), (vec![two, two, eight, two], 2, 1));
        assert_eq!(answer("--mem 2GiB --name b"), (vec![eight, two, eight, two], 1, 0));
        // Nothing had ended when they were submitted.
        assert_eq!(answer("--mem advised"), (vec![eight, None, eight, two], 0, 0));
    }
}
