//! The running hub: the store, the hosts' current status, and the counters. Queries of the store run on their own
//! threads, a few at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use axum::response::Response;
use pinfold_hubwire::bundle::{ASKED_MAX, Live};
use pinfold_proto::view::StatusView;
use serde::Serialize;
use tokio::sync::Semaphore;

use crate::clock::Clock;
use crate::secret;
use crate::server::answers;
use crate::server::arrivals::{Arrivals, Arriving};
use crate::server::problem::Problem;
use crate::server::proxied::{Proxied, Proxy};
use crate::server::seen::Seen;
use crate::server::shares::Shares;
use crate::server::takers;
use crate::server::turns::{Turns, busy, turn};
use crate::server::vouched::Trust;
use crate::store::{Access, HostRow, Keep, Kept, Store, StoreError, now_us};

/// Concurrent look-ups of tokens, sessions and keys. Every request needs a look-up, so viewers' queries must not delay
/// look-ups.
const LOOKED_UP_AT_ONCE: usize = 8;

/// Bundles unpacked at a time: each may take some 100 MiB briefly. The second bound counts bundles in memory, packed or
/// ready to be written.
const UNPACKED_AT_ONCE: usize = 2;
const HELD_AT_ONCE: usize = 128;

/// Interval of a host's status in the store; short in a shared store, for other hubs to see the host live.
const KEPT_EVERY: Duration = Duration::from_secs(45);
const KEPT_EVERY_SHARED: Duration = Duration::from_secs(4);

/// Time without a message after which a host is away.
pub const AWAY_AFTER: Duration = Duration::from_secs(15);

/// How long after a view of an unfinished job the hub still asks the host for reports of the job.
const WANTED_FOR: Duration = Duration::from_secs(30);

/// How long after a message a host's clock counts for or against the hub's clock.
const SPEAKS_FOR: Duration = Duration::from_secs(60);

/// The running hub, shared by all requests.
#[derive(Debug)]
pub struct Hub {
    /// The database.
    pub store: Store,
    /// Whether people reach the hub by TLS, so that cookies may demand TLS.
    pub secure: bool,
    /// The origin of the hub's pages, as browsers send it.
    pub origin: String,
    /// Hosts trusted about users, and users with more access.
    pub trust: Trust,
    /// The proxy that signs people in; `None`: no proxy.
    pub proxied: Option<Proxied>,
    /// Used vouchers.
    pub seen: Seen,
    /// Counters since the start.
    pub counters: Counters,
    /// Start of the hub, in microseconds since the Unix epoch.
    pub started_us: u64,
    /// Time of the database's last status before the start, in microseconds since the Unix epoch; 0: none.
    kept_us: u64,
    generation: OnceLock<u64>,
    now: Mutex<BTreeMap<i64, Now>>,
    /// Unfinished jobs that viewers look at, by host, with the time of the last view.
    wanted: Mutex<BTreeMap<i64, Vec<(u64, Instant)>>>,
    /// Bytes of long answers held for viewers.
    pub answers: Arc<Shares>,
    /// Incoming messages of hosts.
    pub arrivals: Arrivals,
    asked: Turns,
    looked_up: Arc<Semaphore>,
    unpacked: Arc<Semaphore>,
    held: Arc<Semaphore>,
}

/// A host's last message.
#[derive(Debug, Clone)]
struct Now {
    live: Arc<Live>,
    heard_us: u64,
    /// The same moment by the monotonic clock.
    heard: Instant,
    kept: Option<Instant>,
}

/// A host and its status.
#[derive(Debug, Clone)]
pub struct HostNow {
    /// Number in the store.
    pub id: i64,
    /// Name, by the host's token.
    pub name: String,
    /// Time of the last message, in microseconds since the Unix epoch.
    pub seen_us: Option<u64>,
    /// Lead of the host's clock over the hub's, in microseconds.
    pub clock_ahead_us: Option<i64>,
    /// The last status.
    pub live: Option<Arc<Live>>,
    /// Whether the host is connected now.
    pub here: bool,
}

impl HostNow {
    /// The status, with the jobs that the viewer may see.
    #[must_use]
    pub fn seen_by(&self, access: &Access) -> Option<StatusView> {
        let mut status = self.live.as_ref()?.status.clone();
        status.host.clone_from(&self.name);
        status.jobs.retain(|job| access.allows(&self.name, &job.user, job.project.as_deref()));
        let seen: BTreeSet<u64> = status.jobs.iter().map(|job| job.job).collect();
        // The user of a job outside the status is unknown.
        let mine = |job: &u64| access.is_all() || seen.contains(job);
        for resource in &mut status.resources {
            resource.jobs.retain(mine);
            resource.devices.iter_mut().for_each(|device| device.job = device.job.filter(mine));
        }
        Some(status)
    }
}

/// Counters of the hub.
#[derive(Debug, Default)]
pub struct Counters {
    /// Bundles taken.
    pub bundles: AtomicU64,
    /// Total size of bundles as sent, in bytes.
    pub bundle_bytes: AtomicU64,
    /// New parts.
    pub parts_new: AtomicU64,
    /// Known parts.
    pub parts_known: AtomicU64,
    /// Bundles refused.
    pub refused: AtomicU64,
    /// Statuses received.
    pub lives: AtomicU64,
    /// Requests without a valid token or session.
    pub denied: AtomicU64,
    /// Requests answered.
    pub requests: AtomicU64,
    /// Connections turned away because there were too many.
    pub turned_away: AtomicU64,
}

impl Counters {
    /// Adds 1.
    pub fn count(counter: &AtomicU64) {
        Self::add(counter, 1);
    }

    /// Adds a number.
    pub fn add(counter: &AtomicU64, more: u64) {
        counter.fetch_add(more, Ordering::Relaxed);
    }
}

impl Hub {
    /// A hub that has heard no host yet. `public_url`: its address for people.
    #[must_use]
    pub fn new(store: Store, public_url: &str, trust: Trust) -> Self {
        let origin = public_url.trim_end_matches('/').to_owned();
        // A write by this hub's own wrong clock must not confirm that clock.
        let kept_us = store.told_us().ok().flatten().unwrap_or(0);
        Self {
            store,
            kept_us,
            generation: OnceLock::new(),
            secure: origin.starts_with("https://"),
            origin,
            trust,
            proxied: None,
            seen: Seen::default(),
            counters: Counters::default(),
            started_us: now_us(),
            now: Mutex::default(),
            wanted: Mutex::default(),
            answers: Arc::default(),
            arrivals: Arrivals::default(),
            asked: Turns::default(),
            looked_up: Arc::new(Semaphore::new(LOOKED_UP_AT_ONCE)),
            unpacked: Arc::new(Semaphore::new(UNPACKED_AT_ONCE)),
            held: Arc::new(Semaphore::new(HELD_AT_ONCE)),
        }
    }

    /// Adds a proxy that signs people in.
    ///
    /// # Errors
    /// When the kernel gives no secret, or the store cannot keep the secret.
    pub fn behind(mut self, proxy: Proxy) -> Result<Self, StoreError> {
        let drawn = secret::draw().map_err(|error| StoreError::Refused(error.to_string()))?;
        let form_secret = self.store.set_meta_once("form_secret", &drawn)?;
        self.proxied = Some(Proxied::new(proxy, form_secret));
        Ok(self)
    }

    /// Queries the store on a separate thread, in turn with other viewers' queries and behind earlier queries of the
    /// current request's viewer.
    ///
    /// # Errors
    /// The query's own; too many queries; and, for a viewer that only reads, too many unread answers to leave room for
    /// another answer.
    pub async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let asking = takers::asking();
        if let Some((taker, true)) = &asking {
            answers::check_room(&self.answers, taker)?;
        }
        let turn = self.asked.turn(asking.as_ref().map(|(taker, _)| taker)).await?;
        self.work(turn, question).await
    }

    /// Looks up a token, a session or a key; viewers' queries do not delay look-ups.
    ///
    /// # Errors
    /// The query's own, and too many look-ups.
    pub async fn look_up<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let turn = turn(&self.looked_up, 1).await?;
        self.work(turn, question).await
    }

    /// [`Self::ask`], with the answer serialized on the same thread.
    ///
    /// # Errors
    /// The query's own, too many queries, and an answer that is too long.
    pub async fn answer<T: Serialize>(
        self: &Arc<Self>,
        question: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<Response, Problem> {
        self.ask(|hub| answers::json(&question(hub)?)).await?
    }

    /// Takes a host's bundle: a few threads unpack, and each sender has a writing thread, so that the store writes
    /// bundles together. A bundle that fails to unpack is not written. `room`: the memory for the packed bundle.
    ///
    /// # Errors
    /// When too many bundles are on their way.
    pub async fn take<P: Send + 'static, T: Send + 'static, E: Send + 'static>(
        self: &Arc<Self>,
        room: Arriving,
        read: impl FnOnce(&Self) -> Result<P, E> + Send + 'static,
        write: impl FnOnce(&Self, P) -> Result<T, E> + Send + 'static,
    ) -> Result<Result<T, E>, StoreError> {
        let held = turn(&self.held, 1).await?;
        let read = move |hub: &Self| read(hub).map(|ready| (ready, (held, room.read())));
        let unpacks = turn(&self.unpacked, 1).await?;
        match self.work(unpacks, read).await? {
            Err(error) => Ok(Err(error)),
            Ok((ready, held)) => {
                let hub = Arc::clone(self);
                let write = move || {
                    let _held = held;
                    write(&hub, ready)
                };
                tokio::task::spawn_blocking(write).await.map_err(|_| busy())
            }
        }
    }

    async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        turn: impl Send + 'static,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let hub = Arc::clone(self);
        // The work owns the turn: a client's hang-up neither ends the work nor lets a second start beside it.
        let work = move || {
            let _turn = turn;
            work(&hub)
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| busy())
    }

    fn now(&self) -> MutexGuard<'_, BTreeMap<i64, Now>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a host's status. Returns whether the store is due for the status: each minute, or every few seconds in a
    /// shared store.
    pub fn hear(&self, host: i64, live: Arc<Live>, heard_us: u64) -> bool {
        let mut now = self.now();
        let kept = now.get(&host).and_then(|before| before.kept);
        let every = if self.store.is_shared() { KEPT_EVERY_SHARED } else { KEPT_EVERY };
        let due = kept.is_none_or(|kept| kept.elapsed() >= every);
        let kept = if due { Some(Instant::now()) } else { kept };
        now.insert(host, Now { live, heard_us, heard: Instant::now(), kept });
        due
    }

    /// The host's jobs that viewers look at, the latest first: the host's next message carries their reports. `more`: a
    /// job that a viewer looks at now.
    pub fn wanted(&self, host: i64, more: Option<u64>) -> Vec<u64> {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let of_host = wanted.entry(host).or_default();
        of_host.retain(|(job, at)| Some(*job) != more && at.elapsed() < WANTED_FOR);
        of_host.splice(..0, more.map(|job| (job, Instant::now())));
        of_host.truncate(ASKED_MAX);
        of_host.iter().map(|(job, _)| *job).collect()
    }

    /// How far a host's clock is ahead of the hub's, in microseconds, if known. `kept`: the store's figure.
    pub fn clock_ahead_us(&self, host: i64, kept: Option<i64>) -> i64 {
        let heard = self.now().get(&host).map(ahead_us);
        // Another hub may hear the host, and this hub may be new.
        let known = if self.store.is_shared() { kept.or(heard) } else { heard.or(kept) };
        known.unwrap_or(0)
    }

    /// The evidence for and against this hub's clock now.
    pub fn clock(&self) -> Clock {
        let now = self.now();
        let heard = now.values().filter(|heard| heard.heard.elapsed() < SPEAKS_FOR);
        Clock::new(now_us(), self.kept_us, heard.map(ahead_us))
    }

    /// Removes data past its retention; `None`: no host clock confirms the hub's clock, and a wrong clock could age out
    /// all data.
    ///
    /// # Errors
    /// When the database refuses; earlier removals stay.
    pub fn remove_old(&self, keep: Keep) -> Result<Option<Kept>, StoreError> {
        self.clock().is_confirmed().then(|| self.store.remove_old(keep, now_us())).transpose()
    }

    /// The generation of the database at the first use; `None`: the database cannot be read or written now.
    pub fn generation(&self) -> Option<u64> {
        if let Some(&generation) = self.generation.get() {
            return Some(generation);
        }
        let generation = self.store.generation(now_us()).ok()?;
        Some(*self.generation.get_or_init(|| generation))
    }

    /// All hosts with their current status, by name.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn hosts(&self) -> Result<Vec<HostNow>, StoreError> {
        let hosts = self.store.hosts()?;
        let (now, clock_us) = (self.now(), now_us());
        Ok(hosts.into_iter().map(|row| host_now(row, &now, clock_us, self.store.is_shared())).collect())
    }

    /// The host of this name with its current status; `None`: no such host. Other hosts' statuses are not read.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn host(&self, name: &str) -> Result<Option<HostNow>, StoreError> {
        let Some(row) = self.store.host(name)? else { return Ok(None) };
        Ok(Some(host_now(row, &self.now(), now_us(), self.store.is_shared())))
    }
}

fn ahead_us(heard: &Now) -> i64 {
    let signed = |us: u64| i64::try_from(us).unwrap_or(i64::MAX);
    signed(heard.live.sent_us).saturating_sub(signed(heard.heard_us))
}

fn host_now(row: HostRow, now: &BTreeMap<i64, Now>, clock_us: u64, shared: bool) -> HostNow {
    let heard = now.get(&row.id);
    // A bundle also counts as a message, and only the store knows of bundles.
    let seen_us = heard.map(|heard| heard.heard_us).max(row.seen_us);
    let here =
        seen_us.is_some_and(|seen_us| Duration::from_micros(clock_us.saturating_sub(seen_us)) < AWAY_AFTER);
    // Another hub may have heard the host later.
    let heard = heard.filter(|heard| {
        let apart_us = row.seen_us.unwrap_or(0).saturating_sub(heard.heard_us);
        !shared || Duration::from_micros(apart_us) < KEPT_EVERY_SHARED
    });
    let Some(heard) = heard else {
        let live = row.live.map(Arc::new);
        return HostNow {
            id: row.id,
            name: row.name,
            seen_us,
            clock_ahead_us: row.clock_ahead_us,
            live,
            here,
        };
    };
    HostNow {
        id: row.id,
        name: row.name,
        seen_us,
        clock_ahead_us: Some(ahead_us(heard)),
        live: Some(Arc::clone(&heard.live)),
        here,
    }
}

#[cfg(test)]
mod tests;
