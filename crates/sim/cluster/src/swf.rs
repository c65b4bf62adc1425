//! The Standard Workload Format: a job per line, eighteen fields separated by blanks, -1 for unknown values, header
//! comments behind `;`.
//!
//! Source: D. Feitelson, "The Standard Workload Format", Parallel Workloads Archive. Absent: which of a log's jobs are
//! worth playing ([`crate::job`]).

/// Times of a log, in whole seconds.
pub type Seconds = u64;

/// A line of a log, as it is. `None` is -1 in the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Record {
    /// The job's number in the log.
    pub job: u64,
    /// The time of submission; `None` where the log has a negative time.
    pub submit_s: Option<Seconds>,
    /// The wait on the machine of the log.
    pub wait_s: Option<Seconds>,
    /// The run time.
    pub run_s: Option<Seconds>,
    /// Processors that it got.
    pub allocated: Option<u64>,
    /// Processor time that it used on each of them, on average.
    pub cpu_s: Option<Seconds>,
    /// Memory that it used, in KiB per processor.
    pub memory_used_kib: Option<u64>,
    /// Processors that it asked for.
    pub requested: Option<u64>,
    /// Run time that it asked for.
    pub requested_s: Option<Seconds>,
    /// Memory that it asked for, in KiB per processor.
    pub memory_requested_kib: Option<u64>,
    /// Its user's number in the log.
    pub user: Option<u64>,
    /// The program's number in the log.
    pub program: Option<u64>,
}

/// The used facts from the comments at the head of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// `MaxProcs`: processors of the machine.
    pub processors: Option<u64>,
}

/// A line that is no job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// Fields are missing or too many.
    #[error("line {line} has {fields} fields, and a job has 18")]
    Fields {
        /// The line number, from 1.
        line: u64,
        /// The number of its fields.
        fields: usize,
    },
    /// A field is no number.
    #[error("line {line}, field {field}: `{text}` is no number")]
    Number {
        /// The line number, from 1.
        line: u64,
        /// The field number, from 1.
        field: usize,
        /// The field's text.
        text: String,
    },
}

/// The number of fields of a job.
const FIELDS: usize = 18;
/// A field's text in an error message is cut to this many characters.
const SHOWN: usize = 40;

/// Reads a log line by line.
#[derive(Debug, Default)]
pub struct Reader {
    line: u64,
    header: Header,
}

impl Reader {
    /// The header so far.
    #[must_use]
    pub fn header(&self) -> Header {
        self.header
    }

    /// Reads the next line; returns its job, `None` for a comment or an empty line.
    ///
    /// # Errors
    /// The line is neither a comment nor a job.
    pub fn line(&mut self, text: &str) -> Result<Option<Record>, LineError> {
        self.line += 1;
        let text = text.trim();
        if text.is_empty() {
            return Ok(None);
        }
        if let Some(comment) = text.strip_prefix(';') {
            self.comment(comment);
            return Ok(None);
        }
        let mut fields = [""; FIELDS];
        let mut count = 0;
        for field in text.split_ascii_whitespace() {
            if let Some(place) = fields.get_mut(count) {
                *place = field;
            }
            count += 1;
        }
        if count != FIELDS {
            return Err(LineError::Fields { line: self.line, fields: count });
        }
        self.record(&fields).map(Some)
    }

    fn comment(&mut self, comment: &str) {
        let Some((key, value)) = comment.split_once(':') else { return };
        if key.trim() == "MaxProcs" {
            // Some logs add words behind the number.
            let number = value.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
            self.header.processors = number.or(self.header.processors);
        }
    }

    fn record(&self, fields: &[&str; FIELDS]) -> Result<Record, LineError> {
        let number = |field: usize| self.number(field, fields[field - 1]);
        Ok(Record {
            job: number(1)?.unwrap_or(0),
            submit_s: number(2)?,
            wait_s: number(3)?,
            run_s: number(4)?,
            allocated: number(5)?,
            cpu_s: number(6)?,
            memory_used_kib: number(7)?,
            requested: number(8)?,
            requested_s: number(9)?,
            memory_requested_kib: number(10)?,
            user: number(12)?,
            program: number(14)?,
        })
    }

    /// A field's number: whole, or with a fraction that is cut off; negative is unknown.
    fn number(&self, field: usize, text: &str) -> Result<Option<u64>, LineError> {
        let wrong = || LineError::Number { line: self.line, field, text: text.chars().take(SHOWN).collect() };
        let whole = match text.split_once('.') {
            Some((whole, fraction)) if fraction.bytes().all(|byte| byte.is_ascii_digit()) => whole,
            Some(_) => return Err(wrong()),
            None => text,
        };
        match whole.strip_prefix('-') {
            Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Ok(None)
            }
            Some(_) => Err(wrong()),
            None => whole.parse().map(Some).map_err(|_| wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "3 10 -1 60 4 45 2048 8 120 4096 1 7 1 9 -1 -1 -1 -1";

    #[track_caller]
    fn check(text: &str, want: Result<Option<u64>, &str>) {
        let got = Reader::default().line(text).map(|record| record.map(|record| record.job));
        assert_eq!(got.map_err(|error| error.to_string()), want.map_err(str::to_owned), "{text:?}");
    }

    #[test]
    fn lines() {
        check(LINE, Ok(Some(3)));
        check("  ", Ok(None));
        check("; MaxProcs: 4", Ok(None));
        check("1 2 3", Err("line 1 has 3 fields, and a job has 18"));
        check(&format!("{LINE} 5"), Err("line 1 has 19 fields, and a job has 18"));
        check(&LINE.replacen("10", "ten", 1), Err("line 1, field 2: `ten` is no number"));
        check(&LINE.replacen("10", "1.5", 1), Ok(Some(3)));
        check(&LINE.replacen("10", "1e5", 1), Err("line 1, field 2: `1e5` is no number"));
        check(&LINE.replacen("10", "1.5.2", 1), Err("line 1, field 2: `1.5.2` is no number"));
        check(&LINE.replacen("10", "-", 1), Err("line 1, field 2: `-` is no number"));
        let huge = "9".repeat(30);
        check(&LINE.replacen("10", &huge, 1), Err(&format!("line 1, field 2: `{huge}` is no number")));
    }

    #[test]
    fn a_line_is_parsed() {
        let record = Reader::default().line(LINE).unwrap().unwrap();
        assert_eq!((record.submit_s, record.wait_s, record.run_s), (Some(10), None, Some(60)));
        assert_eq!((record.allocated, record.requested, record.requested_s), (Some(4), Some(8), Some(120)));
        assert_eq!((record.memory_used_kib, record.memory_requested_kib), (Some(2048), Some(4096)));
        assert_eq!((record.user, record.program, record.cpu_s), (Some(7), Some(9), Some(45)));
    }

    #[test]
    fn the_machine_in_the_header() {
        let mut reader = Reader::default();
        for line in ["; Note: none", ";MaxProcs:  128 (batch)", "; MaxProcs: many"] {
            assert_eq!(reader.line(line), Ok(None));
        }
        assert_eq!(reader.header().processors, Some(128));
    }
}
