//! Reports the number of an accepted job. The job runs even if the report fails, and a caller that saw only a failure
//! would submit it again. Absent here: the submission.

use std::fmt::Display;
use std::io::{self, Write};

use pinfold_proto::ExitCode;
use pinfold_sys::stdout;

use crate::Failure;

/// Writes the line with the number to standard output.
///
/// # Errors
/// When the line cannot be written; the failure names the number.
pub fn tell(what: &str, job: impl Display, line: &str) -> Result<(), Failure> {
    tell_to(&mut io::stdout().lock(), stdout::is_open(), what, job, line)
}

/// `is_open`: writes to a closed standard output seem to succeed.
fn tell_to(
    out: &mut dyn Write,
    is_open: bool,
    what: &str,
    job: impl Display,
    line: &str,
) -> Result<(), Failure> {
    let why = match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) => error.to_string(),
        Ok(()) if !is_open => "it is closed".to_owned(),
        Ok(()) => return Ok(()),
    };
    let text = format!("{what} {job} was accepted, but standard output did not take its number: {why}");
    Err(Failure::new(ExitCode::Failed, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_not_taken_is_in_the_failure() {
        let mut out = Vec::new();
        assert!(tell_to(&mut out, true, "job", 7, "Submitted 7").is_ok());
        assert_eq!(out, b"Submitted 7\n");
        let check = |out: &mut dyn Write, is_open, why: &str| {
            let failure = tell_to(out, is_open, "job", 7, "7").unwrap_err();
            let want = "job 7 was accepted, but standard output did not take its number: ".to_owned() + why;
            assert!(failure.message.starts_with(&want), "{failure}");
            assert_eq!(failure.code, ExitCode::Failed);
        };
        check(&mut Vec::new(), false, "it is closed");
        check(&mut [0_u8; 1].as_mut_slice(), true, "");
    }
}
