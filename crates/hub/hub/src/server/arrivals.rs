//! What hosts send, while it is on its way: it counts from its first byte, by the size that was announced, until it is
//! read; and as a message of its host until it is written, so that one host cannot fill what is held for all. Bodies are
//! in their senders' hands: one that comes slowly keeps its room.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::shares::{Share, Shares};
use super::turns::turn;
use crate::store::StoreError;

/// So many bytes of all hosts, counted in units.
const ARRIVING_MAX_BYTES: usize = 256 << 20;
const UNIT_BYTES: usize = 64 << 10;

/// A message of up to so many bytes is not counted among those: connections have a bound, and how a host is must not
/// wait for others' long messages.
const SHORT_BYTES: usize = 64 << 10;

/// Messages of one host.
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
    /// Room for a message of a host that is still to come, of so many bytes at most.
    ///
    /// # Errors
    /// When this host has as many on their way as it may, or there is too much of all hosts.
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

/// Room for what a host sends, until it is dropped.
#[derive(Debug)]
pub struct Arriving {
    of_host: Share,
    _of_all: Option<OwnedSemaphorePermit>,
}

impl Arriving {
    /// The message was read, and takes none of the room for bytes any more: it counts for its host until what is
    /// returned is dropped.
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
