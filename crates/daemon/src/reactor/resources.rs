//! Countable resources: GPUs are looked for, and what there is and who has it is told.

use pinfold_proto::view::ResourceView;
use pinfold_proto::wire::Request;
use pinfold_sys::peer::Peer;

use crate::clients::rights;
use crate::core::Next;
use crate::reactor::Daemon;

impl Daemon {
    /// Looks for GPUs where somebody asks for a resource: a driver may have been loaded since.
    pub(super) fn look_for_what_is_asked(&mut self, request: &Request) {
        if let Request::Submit { spec, .. } | Request::Adopt { spec, .. } = request
            && !spec.terms.resources.is_empty()
        {
            self.look_for_gpus();
        }
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
