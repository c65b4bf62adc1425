//! Parts of jobs on their way into the spool, and the progress of a job with more parts than fit. Absent here: the
//! spool.

use crate::bundle::Part;

/// Parts for a bundle.
#[derive(Debug, Default)]
pub(crate) struct Load {
    pub(crate) parts: Vec<Part>,
    /// Jobs with complete parts.
    pub(crate) done: Vec<u64>,
    /// The parts' size, unpacked and estimated.
    pub(crate) bytes: usize,
}

impl Load {
    pub(crate) fn add(&mut self, part: Part) {
        let head = part.head.as_ref().map_or(0, |head| {
            let words: usize = head.report.command.iter().map(|word| in_json(word) + 3).sum();
            let acts: usize =
                head.acts.iter().map(|act| in_json(&act.action) + in_json(&act.reason) + 60).sum();
            4_000 + words + acts
        });
        let points = part.series.as_ref().map_or(0, |series| series.time_s.len());
        self.bytes += head + points * 150;
        self.parts.push(part);
    }
}

/// How long a text is in JSON, without quotes: a control character takes six bytes.
fn in_json(text: &str) -> usize {
    let bytes = |byte: u8| match byte {
        0..0x20 => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    };
    text.bytes().map(bytes).sum()
}

/// A job with its first parts, but not all parts, in the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Partly {
    job: u64,
    submitted_us: u64,
    parts: u32,
    done: u32,
}

impl Partly {
    /// The progress after putting this part into the spool; `None` after the last part.
    pub(crate) fn until(part: &Part) -> Option<Self> {
        let Part { job, submitted_us, parts, part, .. } = *part;
        let done = part + 1;
        (done < parts).then_some(Self { job, submitted_us, parts, done })
    }

    /// How many of these parts are in the spool; 0 for another job.
    pub(crate) fn done_of(self, parts: &[Part]) -> usize {
        let is = |part: &Part| {
            (part.job, part.submitted_us, part.parts) == (self.job, self.submitted_us, self.parts)
        };
        if parts.first().is_some_and(is) { self.done as usize } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_as_long_as_in_json() {
        for text in ["", "plain", "\"\\", "\u{1}\u{1f}", "\u{e9}\u{1f600}"] {
            assert_eq!(in_json(text) + 2, serde_json::to_string(text).unwrap().len(), "{text:?}");
        }
        // The short ones are counted as the others.
        assert_eq!(in_json("\n"), 6);
    }
}
