//! Several hubs with a common database: requests go to the next hub if a hub fails. Any hub will do, because they
//! share all acknowledged data. Absent here: the network.

use crate::courier::ClientError;

/// Hubs in turn; the last hub that answered comes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turns {
    urls: Vec<String>,
    at: usize,
}

/// The comma-separated addresses, without trailing slashes.
pub fn addresses(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(|url| url.trim().trim_end_matches('/')).filter(|url| !url.is_empty())
}

impl Turns {
    /// Hubs at comma-separated addresses. An empty address is refused on use.
    #[must_use]
    pub fn new(list: &str) -> Self {
        let mut urls: Vec<String> = addresses(list).map(str::to_owned).collect();
        if urls.is_empty() {
            urls.push(list.to_owned());
        }
        Self { urls, at: 0 }
    }

    /// Asks hub after hub, each once, until a hub answers or refuses for good.
    ///
    /// # Errors
    /// The error of the last hub asked.
    pub fn ask<T>(&mut self, mut ask: impl FnMut(&str) -> Result<T, ClientError>) -> Result<T, ClientError> {
        let mut asked = 1;
        loop {
            match ask(&self.urls[self.at]) {
                Err(error) if asked < self.urls.len() && is_of_this_hub(&error) => {
                    asked += 1;
                    self.at = (self.at + 1) % self.urls.len();
                }
                answer => return answer,
            }
        }
    }
}

/// Whether another hub might do better.
const fn is_of_this_hub(error: &ClientError) -> bool {
    matches!(error, ClientError::Unreachable { .. } | ClientError::Refused { status: 500..=504, .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks hubs of which those with `x` are away and those with `no` refuse; gives those that were asked.
    #[track_caller]
    fn check(turns: &mut Turns, want: &str, answered: bool) {
        let mut asked = Vec::new();
        let answer = turns.ask(|url| {
            asked.push(url.to_owned());
            match url {
                url if url.contains('x') => {
                    Err(ClientError::Unreachable { url: url.into(), why: "away".into() })
                }
                "no" => Err(ClientError::Refused { status: 401, words: "no".into() }),
                _ => Ok(()),
            }
        });
        assert_eq!((asked.join(" ").as_str(), answer.is_ok()), (want, answered));
    }

    #[test]
    fn an_absent_hub_is_passed_over_and_the_last_answering_hub_comes_first() {
        let mut turns = Turns::new("x1/, x2,a");
        check(&mut turns, "x1 x2 a", true);
        check(&mut turns, "a", true);
        check(&mut Turns::new("x1,x2"), "x1 x2", false);
        check(&mut Turns::new("no,a"), "no", false);
        check(&mut Turns::new("a"), "a", true);
        check(&mut Turns::new(""), "", true);
    }
}
