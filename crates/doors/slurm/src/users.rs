//! Users as options name them. Absent here: permissions.

use pinfold_proto::text::plain;

use crate::say;
use crate::squeue::list;

/// Users by name or number.
fn users(text: &str) -> Vec<String> {
    let name = |user: String| {
        let number = user.parse::<u32>().ok().and_then(pinfold_sys::peer::user);
        number.map_or(user, |user| user.name)
    };
    list(text).into_iter().map(name).collect()
}

/// The users that exist on this host. Unknown users are reported on standard error and dropped, as in Slurm: an empty
/// list then matches no jobs.
pub(crate) fn known_users(text: &str) -> Vec<String> {
    let (known, unknown) = by_whether_known(users(text), exists);
    unknown.iter().for_each(|user| say::error("squeue", &format!("Invalid user: {}", plain(user))));
    known
}

/// Users by name or number; all must exist on this host. A refusal begins with `words`.
pub(crate) fn users_that_exist(text: &str, words: &str) -> Result<Vec<String>, String> {
    let (known, unknown) = by_whether_known(users(text), exists);
    unknown.first().map_or(Ok(known), |user| Err(format!("{words}: {}", plain(user))))
}

fn exists(name: &str) -> std::io::Result<bool> {
    pinfold_sys::peer::look_up_name(name).map(|user| user.is_some())
}

/// Splits users into known and certainly unknown users: a temporary failure of a name service must not hide jobs.
fn by_whether_known(
    users: Vec<String>,
    exists: impl Fn(&str) -> std::io::Result<bool>,
) -> (Vec<String>, Vec<String>) {
    users.into_iter().partition(|user| user.parse::<u32>().is_ok() || exists(user).unwrap_or(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_user_is_refused() {
        let check = |text: &str, want: Result<&[&str], &str>| {
            let found = users_that_exist(text, "Invalid user");
            let want = want.map(|users| users.iter().map(|&user| user.to_owned()).collect());
            assert_eq!(found, want.map_err(str::to_owned), "{text}");
        };
        check("root,0,4000000000", Ok(&["root", "root", "4000000000"]));
        check("root,no-such-user", Err("Invalid user: no-such-user"));
    }

    #[test]
    fn users_are_unknown_only_by_the_name_services_word() {
        let exists = |name: &str| match name {
            "away" => Err(std::io::ErrorKind::TimedOut.into()),
            name => Ok(name == "here"),
        };
        let (known, unknown) = by_whether_known(list("here,gone,away,12"), exists);
        assert_eq!((known, unknown), (list("here,away,12"), list("gone")));
    }
}
