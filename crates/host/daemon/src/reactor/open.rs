//! The daemon is put together, of what its state directory and the host have.

use anyhow::Context as _;
use pinfold_profile::store::Store;
use pinfold_proto::view::seconds;
use pinfold_sys::container::Containers;
use pinfold_sys::mode::{self, Facts, Plan, Roots};
use pinfold_sys::procfs::Proc;
use pinfold_sys::{discover, peer};

use crate::clients::audit::Audit;
use crate::clients::server::Server;
use crate::clients::{Clients, config_file};
use crate::core::clock::Clock;
use crate::core::durable::Durable;
use crate::core::options::{Configured, Options};
use crate::core::poller::Poller;
use crate::core::service::Service;
use crate::core::share::Share;
use crate::core::{Ctx, Outbox};
use crate::host::Host;
use crate::host::guard::Guard;
use crate::host::limits::HostProcesses;
use crate::jobs::Jobs;
use crate::meters::Meters;
use crate::reactor::Daemon;
use crate::store::events::Events;
use crate::store::journal::{Journal, way_out};
use crate::store::numbers::Numbers;
use crate::store::spare::Spare;
use crate::store::starts::Starts;
use crate::store::state_dir::StateDir;
use crate::surroundings::Surroundings;

/// So many times as many connections there may be as descriptors of processes that wait to become jobs: half of what the
/// files leave beside connections is for jobs that run.
const CHILDREN_PART: usize = 2;

/// So many files the daemon has open by itself: groups, the store, its watches.
const OWN_FILES: u64 = 64;

impl Daemon {
    /// Opens all rooms; `guard` was started before anything else was open.
    pub(crate) fn open(
        options: &Options,
        configured: Configured,
        state: &StateDir,
        (facts, plan, roots): (Facts, Plan, Roots),
        guard: Guard,
    ) -> anyhow::Result<Self> {
        let places = options.places();
        let (journal, warnings) = open_journal(state)?;
        let connections_max = raise_file_limit();
        let (topology, mut server) = (survey()?, Server::listen(&places.socket, connections_max)?);
        server.note_whereabouts(state.path(), options.private);
        let proc = Proc::open(&roots.proc).context("the process file system")?;
        let host_processes = HostProcesses::read(&proc);
        let (containers, clock) = (open_containers(plan, &roots, state)?, Clock::new());
        let now_us = clock.now_us();
        let durable = Durable::new(journal.log()).context("failed to make a pair of sockets")?;
        let outbox = Outbox::new(journal, durable);
        let host = Host::new(state, guard, host_processes)?;
        let meters = Meters::new(state.path(), &configured.config, &containers)
            .context("failed to start the pager")?;
        let surroundings = Surroundings::open(state, &facts)?;
        let starts = Starts::open(state.path());
        Ok(Self {
            outbox,
            jobs: Jobs::new(starts, connections_max / CHILDREN_PART),
            clients: Clients::new(server, Audit::open(state.path(), seconds(now_us)), warnings)?,
            host,
            meters,
            surroundings,
            events: Events::new(state.path(), configured.config.record_events),
            service: Service::new(options.private.then_some(options.private_idle), now_us),
            ctx: Ctx {
                policy: pinfold_policy::Policy::default(),
                doors: containers.have_doors(),
                containers,
                poller: Poller::new().context("failed to wait for events")?,
                draining: config_file::was_drained(state.path()),
                state: state.path().to_owned(),
                rebooted: state.is_of_another_boot(),
                configured,
                options: options.clone(),
                topology,
                share: Share::default(),
                proc,
                clock,
                instance: state.instance().to_owned(),
                host: peer::host_name(),
            },
        })
    }
}

/// The job store, and what users should know of it.
fn open_journal(state: &StateDir) -> anyhow::Result<(Journal, Vec<String>)> {
    let opened = Store::open(state.path()).map_err(|error| {
        let what = match error.is_full() {
            true => format!("the job store needs room: {}", way_out(state.path())),
            false => "the job store".to_owned(),
        };
        anyhow::Error::new(error).context(what)
    })?;
    if let Some(recovery) = &opened.recovered {
        tracing::error!(%recovery, "the job store was damaged");
    }
    let numbers = Numbers::open(state.path());
    // A store that was damaged may know fewer jobs than there were, as one that the disk had not yet after a power cut.
    let is_behind = state.is_of_another_boot() || opened.recovered.is_some();
    let journal = Journal::new(opened.store, numbers, is_behind).with_spare(Spare::open(state.path()));
    Ok((journal, opened.recovered.iter().map(ToString::to_string).collect()))
}

/// Takes as many files as the system allows; gives how many connections that is good for.
fn raise_file_limit() -> usize {
    connections_of(pinfold_sys::own::raise_file_limit())
}

/// How many connections so many files are good for.
fn connections_of(files: u64) -> usize {
    // Each running job needs a few files of its own. Where there are few, connections and children leave the daemon's.
    let files = files.min(1 << 20);
    let most = (files / 2).min(files.saturating_sub(OWN_FILES) * 2 / 3);
    usize::try_from(most).unwrap_or(512).max(8)
}

/// The machine as it is found.
fn survey() -> anyhow::Result<pinfold_topo::Topology> {
    let survey = discover::survey().context("failed to find out about this machine")?;
    survey.warnings.iter().for_each(|warning| tracing::warn!(%warning, "topology"));
    Ok(survey.topology)
}

fn open_containers(plan: mode::Plan, roots: &Roots, state: &StateDir) -> anyhow::Result<Containers> {
    Containers::open(plan, roots.clone(), state.instance()).context("the jobs' containers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_and_children_leave_the_daemon_its_files() {
        for (files, want) in [(1 << 30, 1 << 19), (1024, 512), (256, 128), (100, 24), (0, 8)] {
            assert_eq!(connections_of(files), want, "{files}");
        }
        for files in 76..2000 {
            let most = connections_of(files);
            assert!((most + most / CHILDREN_PART) as u64 + OWN_FILES <= files, "{files}: {most}");
        }
    }
}
