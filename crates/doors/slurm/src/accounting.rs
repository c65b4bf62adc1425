//! `sacctmgr` and `sshare` for engines, which ask whether an account exists and which accounts a user has. Accounts
//! are labels here: the lists are empty, and changes are refused.

use std::ffi::OsString;

use crate::trouble::Trouble;

/// `sacctmgr show|list ...`: prints an empty list.
///
/// # Errors
/// For any other verb.
pub(crate) fn sacctmgr(arguments: &[OsString]) -> Result<u8, Trouble> {
    let words = arguments.iter().map(|word| word.to_string_lossy().to_ascii_lowercase());
    let verb = words.into_iter().find(|word| !word.starts_with('-')).unwrap_or_default();
    match verb.as_str() {
        verb if verb.len() > 1 && ("show".starts_with(verb) || "list".starts_with(verb)) => Ok(0),
        "" => Err(Trouble::new("there is no interactive form: sacctmgr show ENTITY")),
        other => Err(Trouble::new(format!(
            "{other}: there are no accounts to manage: --account is a label here, see docs/slurm.md"
        ))),
    }
}

/// `sshare ...`: prints an empty list.
///
/// # Errors
/// None.
pub(crate) fn sshare(_arguments: &[OsString]) -> Result<u8, Trouble> {
    Ok(0)
}
