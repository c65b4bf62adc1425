//! Telling the number of a job that was accepted. It runs, whether or not its number can be told: who hears no more than
//! that the command failed hands it over again. Absent here: how a job is accepted.

use std::fmt::Display;
use std::io::{self, Write};

use pinfold_proto::ExitCode;
use pinfold_sys::stdout;

use crate::Failure;

/// Writes the line that has the number to standard output.
///
/// # Errors
/// When nobody has it then; the failure names the number.
pub fn tell(what: &str, job: impl Display, line: &str) -> Result<(), Failure> {
    tell_to(&mut io::stdout().lock(), stdout::is_open(), what, job, line)
}

/// `is_open`: what is written to a closed one seems to be written.
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
