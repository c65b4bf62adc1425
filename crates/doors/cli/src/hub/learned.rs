//! A hub's learned classes of jobs, on their way to the daemon: the pusher asks the hub now and then, where the
//! daemon's configuration names a hub (`learning.from_hub`). The daemon decides whether the table is that hub's and
//! newer. Absent here: the table's content.

use std::time::Duration;

use pinfold_hubwire::courier::{Bearer, ClientError, Courier};
use pinfold_proto::learned::{Signed, Table};
use serde::Deserialize;

use super::source::Daemon;

/// How often the hub is asked.
const EVERY: Duration = Duration::from_secs(600);

#[derive(Debug, Deserialize)]
struct Answer {
    signed: Option<Signed>,
}

/// The last table taken.
#[derive(Debug, Default)]
pub(super) struct Learned {
    /// The earliest time of the next question.
    not_before: Duration,
    /// The number of the last table that the daemon took.
    number: u64,
    /// The key that the daemon's configuration named then.
    key: Option<String>,
    /// The last message, which is not repeated.
    said: Option<String>,
}

impl Learned {
    /// Asks the hub, if it is time and the daemon wants an answer. Gives a message for the operator.
    pub(super) fn pull(
        &mut self,
        daemon: &mut Daemon<'_>,
        hub: &mut Courier<Bearer>,
        now: Duration,
    ) -> Option<String> {
        if now < self.not_before {
            return None;
        }
        self.not_before = now.saturating_add(EVERY);
        // The pusher's other questions report a silent daemon.
        let key = daemon.learns_from().ok()??;
        if self.key.as_ref() != Some(&key) {
            (self.key, self.number) = (Some(key), 0);
        }
        let words = match hub.get::<Answer>(&format!("/api/v1/learned?above={}", self.number)) {
            Ok(Answer { signed: Some(signed) }) => match daemon.learn(&signed) {
                Ok(()) => {
                    self.number = Table::read(&signed.table).map_or(0, |table| table.number);
                    None
                }
                Err(failure) => Some(failure.message),
            },
            Ok(Answer { signed: None }) => None,
            // An earlier hub lacks this path; the pusher's sends report an absent hub.
            Err(ClientError::Refused { status: 404, .. }) => {
                Some("the hub is of an earlier version, and tells nothing of other hosts' jobs".to_owned())
            }
            Err(_) => return None,
        };
        let before = std::mem::replace(&mut self.said, words);
        self.said.clone().filter(|words| before.as_ref() != Some(words))
    }
}
