//! Messages of hosts on their way: a message counts from its first byte, by its announced size, until it is read; and
//! as a message of its host until it is written, so that a host cannot fill the room of all. The sender sets the pace
//! of a body: a slow body keeps its room.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::shares::{Share, Shares};
use super::turns::turn;
use crate::store::StoreError;

/// The most bytes of all hosts on their way, counted in units.
const ARRIVING_MAX_BYTES: usize = 256 << 20;
const UNIT_BYTES: usize = 64 << 10;

/// Messages up to this size do not count toward these bytes: connections have a bound, and a host's status must not
/// wait for other hosts' long messages.
const SHORT_BYTES: usize = 64 << 10;

/// Concurrent messages of a host.
const OF_A_HOST_AT_ONCE: usize = 4;

/// See the module's page.
#[derive(Debug)]
pub struct Arrivals {
    all: Arc<Semaphore>,
    of_hosts: Arc<Shares>,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(ARRIVING_MAX_BYTES / UNIT_BYTES)), of_hosts: Arc::default() }
    }
}

impl Arrivals {
    /// Room for a host's next message of at most this many bytes.
    ///
    /// # Errors
    /// When the host has too many messages on their way, or all hosts together too many bytes.
    pub async fn room_for(&self, host: &str, bytes: usize) -> Result<Arriving, StoreError> {
        let of_host = self.of_hosts.take(&[(host, OF_A_HOST_AT_ONCE)], 1).map_err(|_| {
            StoreError::TooMany(format!("{OF_A_HOST_AT_ONCE} messages of this host are on their way already"))
        })?;
        let of_all = if bytes > SHORT_BYTES {
            let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
            Some(turn(&self.all, units).await?)
        } else {
            None
        };
        Ok(Arriving { of_host, _of_all: of_all })
    }
}

/// Room for a host's message, until it is dropped.
#[derive(Debug)]
pub struct Arriving {
    of_host: Share,
    _of_all: Option<OwnedSemaphorePermit>,
}

impl Arriving {
    /// Frees the room for bytes once the message is read: the message counts for its host until the returned share is
    /// dropped.
    #[must_use]
    pub fn read(self) -> Share {
        self.of_host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_messages_come_though_long_ones_take_all_the_room() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let arrivals = Arrivals::default();
            let mut long = Vec::new();
            for host in 0..ARRIVING_MAX_BYTES / (OF_A_HOST_AT_ONCE * (8 << 20)) {
                for _ in 0..OF_A_HOST_AT_ONCE {
                    long.push(arrivals.room_for(&format!("n{host}"), 8 << 20).await.unwrap());
                }
            }
            assert_eq!(arrivals.all.available_permits(), 0);
            let mut short = Vec::new();
            for _ in 0..OF_A_HOST_AT_ONCE {
                short.push(arrivals.room_for("other", SHORT_BYTES).await.unwrap());
            }
            let one_more = arrivals.room_for("other", 1).await;
            assert!(matches!(one_more, Err(StoreError::TooMany(_))), "{one_more:?}");
            drop((long, short));
            assert_eq!(arrivals.all.available_permits(), ARRIVING_MAX_BYTES / UNIT_BYTES);
            assert!(arrivals.room_for("other", SHORT_BYTES + 1).await.is_ok());
        });
    }
}
