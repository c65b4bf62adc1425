//! What is done every few seconds, whatever else happens: old rows go, and what could not be done before is tried again.

use std::time::Duration;

use crate::core::Next;
use crate::core::poller::Ready;
use crate::meters::sample::SAMPLES_LOOSE;
use crate::reactor::Daemon;
use crate::store::state_dir;

/// How often old jobs are struck off the store, and a store in trouble is tried again.
const HOUSE_KEEPING: Duration = Duration::from_secs(5);

/// How long the loop may take at a time to bring the store to its size; a step takes some 10 ms.
const BOUND_TURN: Duration = Duration::from_millis(50);
/// When it goes on if that was not enough, in microseconds.
const BOUND_AGAIN_US: u64 = 500_000;
/// How much the store is kept below its size, at most; an eighth if that is less.
const BOUND_ROOM_BYTES: u64 = 64 << 20;

impl Daemon {
    pub(super) fn on_house_keeping(&mut self) {
        self.host.guard.send();
        self.outbox.then(Next::Isolate);
        self.watch_again();
        self.keep_listening();
        self.jobs.starts.call_keepers(&self.ctx, &self.jobs.table, &self.clients.server);
        self.outbox.journal.write_waiting();
        self.outbox.journal.make_spare();
        let now_us = self.ctx.clock.now_us();
        self.jobs.starts.drop_old(now_us);
        self.clients.audit.keep_up(pinfold_proto::view::seconds(now_us));
        self.service.house_keeping_us = now_us + u64::try_from(HOUSE_KEEPING.as_micros()).expect("seconds");
        let retain_us =
            u64::try_from(self.ctx.configured.config.profile_retain.as_micros()).unwrap_or(u64::MAX);
        if self.outbox.journal.trouble().is_some() {
            self.outbox.journal.tries_again();
            return;
        }
        if let Err(error) = self.outbox.journal.store().prune(now_us.saturating_sub(retain_us)) {
            tracing::warn!(%error, "old jobs cannot be struck off the store");
        }
        self.meters.readings.prune_host(&self.ctx, &mut self.outbox.journal, now_us, retain_us);
        self.pack_samples(now_us);
        self.bound_store();
    }

    /// Makes a socket anew whose file is gone: its directory was cleaned up, or it was a user's runtime directory, which goes
    /// with the last login. A daemon without its state is not wanted any more.
    fn keep_listening(&mut self) {
        let server = &mut self.clients.server;
        if server.is_in_place() || !self.ctx.state.is_dir() {
            return;
        }
        let meanwhile = self.ctx.options.socket_meanwhile();
        if !server.listens_anew(meanwhile.as_deref(), &self.ctx.state) {
            return;
        }
        server.note_whereabouts(&self.ctx.state, self.ctx.options.private);
        state_dir::note_socket(&self.ctx.state, server.socket());
        if let Err(error) = self.ctx.poller.watch(Ready::Listener, server) {
            tracing::error!(%error, "the socket that was made anew cannot be watched");
        }
    }

    /// Keeps the store below its size, a few steps at a time.
    fn bound_store(&mut self) {
        let Some(most) = self.ctx.configured.config.profile_store_max else { return };
        // Room for what comes until the next look, so that the file itself stays below.
        let aim = most - (most / 8).min(BOUND_ROOM_BYTES);
        let begun = std::time::Instant::now();
        let (mut given_up, mut more) = (None, true);
        while more && begun.elapsed() < BOUND_TURN {
            match self.outbox.journal.store().bound(aim) {
                Ok(bounded) => {
                    more = bounded.loss.is_some();
                    given_up = given_up.max(bounded.loss);
                }
                Err(error) => return tracing::warn!(%error, "the store cannot be kept below its size"),
            }
        }
        if more {
            self.service.house_keeping_us =
                self.service.house_keeping_us.min(self.ctx.clock.now_us() + BOUND_AGAIN_US);
        }
        if let Some(loss) = given_up {
            tracing::info!(
                bytes_max = most,
                loss = loss.as_str(),
                "the store is at its size (profile.store_max)"
            );
            self.clients.pieces.keep_room();
        }
        // A client that is told of the store as it was keeps the log: waiting for them would hold the loop up.
        if self.clients.pieces.take_room()
            && let Err(error) = self.outbox.journal.store().checkpoint()
        {
            tracing::warn!(%error, "room in the store's file cannot be given back");
        }
    }

    /// Packs samples of jobs that are over, and of one that has run for so long that it has many.
    fn pack_samples(&mut self, now_us: u64) {
        let store = self.outbox.journal.store();
        let mut packed = store.compact(now_us).map(drop);
        for job in self.meters.sampler.take_to_pack() {
            packed = packed.and_then(|()| self.outbox.journal.store().pack(job.0, SAMPLES_LOOSE));
        }
        if let Err(error) = packed {
            tracing::warn!(%error, "samples cannot be packed");
        }
    }
}
