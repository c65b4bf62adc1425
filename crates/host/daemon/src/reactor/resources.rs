//! What there is for a job that comes, beside cores and memory: countable resources and GPUs, which job has which, and what is
//! left of the host by processes that are no jobs.

use pinfold_proto::view::ResourceView;
use pinfold_proto::wire::Request;
use pinfold_sys::peer::Peer;

use crate::clients::rights;
use crate::core::Next;
use crate::reactor::Daemon;

impl Daemon {
    /// Somebody asks for a job: looks for GPUs where that asks for a resource, for a driver may have been loaded since, and
    /// what else the host does.
    pub(super) fn look_for_what_is_asked(&mut self, request: &Request) {
        if let Request::Submit { spec, .. } | Request::Adopt { spec, .. } = request
            && !spec.terms.resources.is_empty()
        {
            self.look_for_gpus();
        }
        self.meters.others.on_arrival(&self.ctx, &mut self.outbox, &self.jobs);
    }

    /// Looks for GPUs; the scheduler is told if there are others than before.
    pub(super) fn look_for_gpus(&mut self) {
        if self.host.resources.look(self.ctx.clock.now_us()) {
            self.outbox.then(Next::Configure);
        }
    }

    /// The countable resources, and which of the jobs that this user may see have them.
    pub(super) fn resources_view(&self, user: Peer) -> Vec<ResourceView> {
        let config = &self.ctx.configured.config;
        let holders = self.jobs.table.values().filter_map(|live| {
            let list = &live.row.spec.terms.resources;
            let has_some =
                !list.is_empty() && self.ctx.policy.job(live.id()).is_some_and(|info| info.started.is_some());
            has_some.then(|| (live.id(), &list[..], rights::may_touch(config, user, &live.row)))
        });
        self.host.resources.views(config, holders)
    }
}
