//! The figures for a monitoring system: made when the thread that serves them asks.

use std::io;
use std::net::SocketAddr;

use pinfold_profile::metrics::{self, HostFigures, JobFigures};
use pinfold_proto::JobState;
use pinfold_proto::view::ProjectView;
use pinfold_sys::container::Detail;
use pinfold_sys::procfs::{PressureResource, ticks_to_us};

use crate::clients::lookup::Number;
use crate::clients::{lookup, projects};
use crate::meters::memory;
use crate::meters::metrics::{Metrics, SeeJobs, Texts};
use crate::meters::witness::Freezes;
use crate::reactor::Daemon;

impl Daemon {
    /// Serves where the configuration says, from now on. The error is for people; what was served before is served on then.
    pub(super) fn open_metrics(&mut self) -> Result<(), String> {
        let wanted = self.ctx.configured.config.profile_metrics;
        let old = self.meters.metrics.as_ref().map(Metrics::address);
        if old == wanted {
            return Ok(());
        }
        let Some(address) = wanted else {
            self.close_metrics();
            return Ok(());
        };
        let opened = match self.metrics_on(address) {
            // Two addresses of the same port, one of which may be all of the host's.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && old.is_some() => {
                self.close_metrics();
                self.metrics_on(address)
            }
            opened => opened,
        };
        let failed = |error: io::Error| format!("`profile.metrics`: failed to serve on {address}: {error}");
        match opened {
            Ok(metrics) => {
                self.close_metrics();
                self.meters.metrics = Some(metrics);
                tracing::info!(%address, "figures are served");
                Ok(())
            }
            Err(error) => {
                if let (None, Some(old)) = (&self.meters.metrics, old) {
                    self.meters.metrics = Some(self.metrics_on(old).map_err(failed)?);
                }
                Err(failed(error))
            }
        }
    }

    fn metrics_on(&self, address: SocketAddr) -> io::Result<Metrics> {
        let metrics = Metrics::open(address)?;
        self.ctx.poller.watch(crate::core::poller::Ready::Metrics, &metrics)?;
        Ok(metrics)
    }

    fn close_metrics(&mut self) {
        if let Some(metrics) = self.meters.metrics.take() {
            metrics.close();
        }
    }

    /// Makes the text that the thread asked for.
    pub(super) fn on_metrics_wanted(&mut self) {
        let wanted = self.meters.metrics.as_mut().is_some_and(Metrics::take_wanted);
        if !wanted {
            return;
        }
        let texts = self.metrics_texts();
        if let Some(metrics) = &mut self.meters.metrics {
            metrics.give(texts);
        }
    }

    /// Who is told of jobs: those who may see them all by other ways, and those named for this one.
    fn see_jobs(&self) -> SeeJobs {
        let config = &self.ctx.configured.config;
        let named = config.profile_metrics_users.iter().chain(&config.access_operators);
        if config.profile_metrics_users.iter().any(|name| name == "*") {
            return SeeJobs::All;
        }
        let users = named.filter_map(|name| match lookup::number_of(name) {
            Number::User(uid) => Some(uid),
            Number::Nobody | Number::Unknown => None,
        });
        let users = users.chain([0, pinfold_sys::peer::own_uid()]);
        SeeJobs::Users(users.collect())
    }

    fn metrics_texts(&mut self) -> Texts {
        let most = usize::try_from(self.ctx.configured.config.profile_metrics_jobs).unwrap_or(usize::MAX);
        let (mut held, mut swap_held, mut jobs) = (0, 0, Vec::new());
        for job in &self.jobs.running {
            let Some(live) = self.jobs.table.get(job) else { continue };
            let measure =
                live.container.as_ref().and_then(|container| container.measure(Detail::Totals).ok());
            held += measure.as_ref().map_or(0, |measure| measure.memory_bytes);
            swap_held += measure.as_ref().map_or(0, |measure| measure.swap_bytes);
            if jobs.len() >= most {
                continue;
            }
            let (row, usage) = (&live.row, &live.row.usage);
            let measure = measure.as_ref();
            let or = |now: Option<u64>, then: u64| now.unwrap_or(0).max(then);
            jobs.push(JobFigures {
                job: row.job,
                name: row.spec.name.clone(),
                user: row.user.clone(),
                project: row.spec.project.clone().unwrap_or_default(),
                class: format!("{:?}", row.class).to_lowercase(),
                cpu_user_us: or(measure.map(|measure| measure.cpu_user_us), usage.cpu_user_us),
                cpu_system_us: or(measure.map(|measure| measure.cpu_system_us), usage.cpu_system_us),
                memory_bytes: measure.map_or(0, |measure| measure.memory_bytes),
                memory_peak_bytes: or(measure.map(|measure| measure.memory_bytes), usage.memory_peak_bytes),
                cache_bytes: measure.and_then(|measure| measure.cache_bytes),
                swap_bytes: measure.map_or(0, |measure| measure.swap_bytes),
                io_read_bytes: or(measure.and_then(|measure| measure.io_read_bytes), usage.io_read_bytes),
                io_write_bytes: or(measure.and_then(|measure| measure.io_write_bytes), usage.io_write_bytes),
                processes: measure.map_or(0, |measure| measure.processes),
                suspended_us: row.suspended_us,
                frozen: row.frozen_since_us.is_some(),
            });
        }
        let left_out = self.jobs.running.len().saturating_sub(jobs.len());
        let host = HostFigures {
            memory_held_bytes: held,
            swap_held_bytes: swap_held,
            jobs_left_out: left_out as u64,
            ..self.host_figures()
        };
        let without = HostFigures { jobs_left_out: self.jobs.running.len() as u64, ..host.clone() };
        Texts {
            jobs: metrics::text(&host, &jobs),
            host: metrics::text(&without, &[]),
            see_jobs: self.see_jobs(),
        }
    }

    /// Those of no project first, so that they are told of however many others there are.
    fn project_figures(&self) -> Vec<ProjectView> {
        let mut all = projects::projects_view(&self.ctx);
        if !all.is_empty() {
            all.rotate_right(1);
        }
        all
    }

    fn host_figures(&mut self) -> HostFigures {
        let (slots_used, slots) = self.ctx.policy.slots();
        let states =
            [JobState::Queued, JobState::Held, JobState::Running, JobState::Frozen, JobState::Parked];
        let count = |state| self.jobs.table.values().filter(|live| live.row.state == state).count() as u64;
        let jobs = states.into_iter().map(|state| (state, count(state))).collect();
        let mut stalled = Vec::new();
        for resource in [PressureResource::Cpu, PressureResource::Memory, PressureResource::Io] {
            let Ok(Some(pressure)) = self.ctx.proc.pressure(resource) else { continue };
            stalled.push((resource.as_str(), "some", pressure.some.total_us));
            stalled.extend(pressure.full.map(|full| (resource.as_str(), "full", full.total_us)));
        }
        let own = self.ctx.proc.stat(std::process::id()).ok().flatten();
        let page_bytes = pinfold_sys::own::page_bytes();
        let store_writable = self.outbox.journal.trouble().is_none();
        let path = self.outbox.journal.store().path().to_owned();
        let size = |path: &std::path::Path| std::fs::metadata(path).map_or(0, |found| found.len());
        HostFigures {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: self.ctx.host.clone(),
            mode: self.ctx.containers.plan().mode.as_str().to_owned(),
            cores: self.ctx.policy.machine().cores.len() as u64,
            slots: slots as u64,
            slots_used: slots_used as u64,
            draining: self.ctx.draining,
            jobs,
            ended: self.meters.ended.by_name(),
            memory_budget_bytes: memory::budget_bytes(&self.ctx),
            freezes: {
                let Freezes { count, sum_us, half_us, most_us } = self.meters.memory.witness.freezes();
                metrics::FreezeFigures { count, sum_us, half_us, most_us }
            },
            stalled,
            turns: self.service.turn.figures(),
            store_bytes: size(&path) + size(&path.with_extension("db-wal")),
            store_writable,
            daemon_cpu_us: own.map_or(0, |stat| ticks_to_us(stat.user_ticks + stat.system_ticks)),
            daemon_resident_bytes: own.map_or(0, |stat| stat.resident_pages * page_bytes),
            projects: self.project_figures(),
            ..HostFigures::default()
        }
    }
}
