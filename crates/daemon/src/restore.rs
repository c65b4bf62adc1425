//! After a restart: the disk says what should be, the kernel says what is. Jobs are known again, nothing stays
//! frozen, and what nobody knows any more is said so.

use std::collections::BTreeSet;

use pinfold_policy::{Adopted, Event as Judged, Instant, JobId, Machine, Preemption, Running, Settings};
use pinfold_profile::meter::Meter;
use pinfold_proto::JobState;
use pinfold_proto::config;
use pinfold_proto::row::{JobRow, ProcessId};
use pinfold_sys::container::{Container, Entered};
use pinfold_sys::identity::Process;
use pinfold_sys::mode::Mode;
use pinfold_sys::procfs::Proc;

use crate::daemon::Daemon;
use crate::live::{self, Live};

/// Why a job is over that ran when the host was restarted,
pub(crate) const RESTARTED: &str =
    "the host was restarted while it ran; hand it over again if it is still wanted";
/// and one that waited.
const RESTARTED_BEFORE: &str =
    "the host was restarted before it started; hand it over again if it is still wanted";

/// Whether this very process, not another of the same number, is alive.
pub(crate) fn is_alive(proc: &Proc, process: ProcessId) -> bool {
    let stat = proc.stat(process.pid).ok().flatten();
    stat.is_some_and(|stat| stat.start_ticks == process.start_ticks && !matches!(stat.state, 'Z' | 'X'))
}

/// Lets a job grow as it likes, and the kernel take its memory as that of any other.
pub(crate) fn free_memory_of(job: u64, container: &mut Container) {
    if let Err(error) = container.slow(None).and_then(|_| container.protect(0)) {
        tracing::error!(job, %error, "a job's growth may stay slowed; `pinfold rescue` lets it go");
    }
}

impl Daemon {
    /// Tells the judgement of settings, machine and the jobs of an earlier life, in this order.
    pub(crate) fn restore(&mut self) -> anyhow::Result<()> {
        self.look_up_configured();
        self.await_configured();
        self.bound_sets();
        self.bound_memory();
        self.serve_metrics();
        self.judge(Judged::Configure(self.settings()));
        self.give_disk_room();
        let machine = self.machine();
        self.judge(Judged::Machine(machine));
        // The groups of jobs may have less than this process.
        self.look_at_machine();
        let left: BTreeSet<u64> = self.containers.list().unwrap_or_default().into_iter().collect();
        let rows = self.journal.store().unfinished()?;
        let found = rows.len();
        for row in rows {
            self.restore_job(row, &left);
        }
        self.starts.retain(self.jobs.values().map(|live| &live.row));
        self.remove_leftovers();
        self.restore_isolation();
        self.clear_left_scratch();
        self.clear_left_disks();
        self.take_down_left();
        self.read_memory();
        if found > 0 && self.rebooted {
            let again = self.jobs.values().filter(|live| live.awaits_keeper.is_some()).count();
            tracing::warn!(
                jobs = found,
                again,
                "the host was restarted; what ran is over, but for those that begin anew"
            );
        } else if found > 0 {
            tracing::info!(jobs = found, "found jobs of an earlier life again");
        }
        // From here on jobs start: what ran in an earlier boot is on record, and must not be taken for that again.
        self.journal.write(&mut self.jobs);
        crate::state_dir::note_boot(&self.state);
        // What the daemon before this one wrote last, it may not have brought to disk.
        self.durable.soon();
        self.turns(vec![crate::event::Event::PolicyDue]);
        Ok(())
    }

    fn restore_job(&mut self, row: JobRow, left: &BTreeSet<u64>) {
        let job = JobId(row.job);
        let mut live = Box::new(Live::new(row, true));
        let adopted = live.row.spec.adopted.is_some();
        // Nobody keeps such a job; as long as it waits, its processes do.
        let runs_outside = self.restore_adopted(&live.row);
        let is_alive = |process| !self.rebooted && is_alive(&self.proc, process);
        let keeper_alive = live.row.keeper.is_some_and(is_alive);
        let main = live.row.main.filter(|&main| is_alive(main)).map(|main| main.pid);
        live.found_granted = !live.has_started() && self.was_to_start(job);
        // Anybody can mark a process of its own as one of a job of its own: without groups that is no start.
        let counts =
            live.has_started() || live.found_granted || self.containers.plan().mode != Mode::Rootless;
        let populated = self.contain_again(&mut live, left, main) && counts;
        if !populated && !live.has_started() {
            // Made for a start that never came; the next one makes it anew.
            live.container = None;
        } else if !live.has_started() {
            live.row.started_us = Some(live.row.submitted_us);
        }
        if live.has_started() {
            let last_us = self.clock.now_us();
            let started_us = live.row.started_us.unwrap_or(last_us);
            live.meter = Some(Box::new(Meter::resume(job.0, live.row.usage, started_us, last_us)));
            if live.container.is_some() {
                self.thaw_found(&mut live);
            } else if live.container.is_none() && keeper_alive && live.row.ending.is_none() {
                // It ended while no daemon ran, and its container went with a reboot or a rescue: the keeper
                // knows how it ended and will say so.
                live.set_state(JobState::Running, self.clock.now_us());
            }
        } else {
            live.row.cpus = None;
        }
        live.orphaned = !keeper_alive && (live.has_started() || !adopted);
        if self.rebooted && live.has_started() && !populated {
            live.row.reason = Some(RESTARTED.to_owned());
        }
        let begins_anew = self.begins_after_reboot(&live) && !populated;
        if begins_anew {
            self.put_back_after_reboot(&mut live);
            (live.container, live.meter) = (None, None);
        }
        let waits = !live.has_started();
        let runs = live.has_started() && populated;
        if live.container.is_some() {
            self.running.insert(job);
        }
        self.jobs.insert(job, live);
        self.journal.touch(job);
        if waits && !keeper_alive && !runs_outside {
            return self.is_kept_by_none(job, adopted);
        }
        if waits || runs {
            self.adopt(job, runs);
        }
        if keeper_alive {
            self.watch_keeper(job);
        } else if runs {
            self.ends_with_its_keeper(job);
        }
        if runs {
            self.follow_again(job);
        }
        if adopted && (waits || runs) {
            self.watch_adopted(job);
        }
        if runs && self.jobs.get(&job).is_some_and(|live| live.row.requeuing) {
            // The daemon before this one was about to end it, and may have ended some of it.
            self.effects.push(crate::event::Effect::Act(job, pinfold_policy::Action::Requeue));
        }
        self.watch_container(job);
        self.finish_if_empty(job);
    }

    /// Whether the start of a job that is not known to have started is on disk.
    fn was_to_start(&mut self, job: JobId) -> bool {
        let decisions = self.journal.store().decisions(job.0).unwrap_or_default();
        crate::unheard::leads_to_a_start(decisions.iter().map(|row| row.action.as_str()))
    }

    /// Nobody is left for whom a job waits.
    fn is_kept_by_none(&mut self, job: JobId, adopted: bool) {
        if self.awaits_another(job) {
            return;
        }
        let why = match (self.rebooted, adopted) {
            (true, _) => RESTARTED_BEFORE,
            (false, true) => crate::adopted::ENDED_BEFORE,
            (false, false) => "its client was gone when the daemon came back",
        };
        self.close_unstarted(job, why);
    }

    /// Finds a job's container again, if it has one; says whether anything runs in it.
    fn contain_again(&self, live: &mut Live, left: &BTreeSet<u64>, main: Option<u32>) -> bool {
        let job = live.id();
        // A start whose moment was not written yet shows by its container.
        let contained = if live.has_started() || left.contains(&job.0) {
            self.containers.adopt(job.0, main)
        } else {
            Ok(None)
        };
        match contained {
            Ok(container) => {
                live.container = container.map(Box::new).inspect(|found| found.belongs_to(live.row.uid))
            }
            Err(error) => tracing::warn!(job = job.0, %error, "a container cannot be found again"),
        }
        let shape = live.shape();
        if let Some(container) = &mut live.container {
            container.remember(&shape);
        }
        live.container.as_ref().is_some_and(|container| container.is_populated().unwrap_or(false))
    }

    /// A keeper says that a job runs as this process. If the daemon died between letting it go and writing that down, the
    /// job is taken for running from now on.
    pub(crate) fn found_running(&mut self, job: JobId, process: &Process) {
        let main = Some(crate::child::id(process));
        let Some(live) = self.jobs.get_mut(&job) else { return };
        live.row.main = live.row.main.or(main);
        if live.container.is_some() || live.row.ending.is_some() {
            return self.thaw_again(job);
        }
        let shape = live.shape();
        let found = self.containers.adopt(job.0, Some(process.pid())).ok().flatten();
        let mut container = match found.map_or_else(|| self.containers.create(job.0, &shape), Ok) {
            Ok(container) => container,
            Err(error) => {
                tracing::warn!(job = job.0, %error, "a job runs outside any container");
                return;
            }
        };
        match container.enter_process(process) {
            Ok(Entered::Yes) => {}
            Ok(Entered::Gone) => tracing::debug!(job = job.0, "a job's process has ended by now"),
            Err(error) => tracing::warn!(job = job.0, %error, "a job runs outside its container"),
        }
        free_memory_of(job.0, &mut container);
        self.started(job, container);
        self.follow_again(job);
        self.thaw_again(job);
        self.adopt(job, true);
    }

    /// Thaws a job that nobody wants frozen: its keeper presents it after a restart, and the daemon before this one
    /// may have frozen it.
    pub(crate) fn thaw_again(&mut self, job: JobId) {
        let Some(live) = self.jobs.get_mut(&job) else { return };
        if live.row.frozen_since_us.is_none()
            && let Some(Err(error)) = live.container.as_deref_mut().map(Container::thaw)
        {
            tracing::error!(job = job.0, %error, "a job may stay frozen; `pinfold rescue` thaws it");
        }
    }

    /// Nothing stays frozen across a restart: why it was frozen may hold no longer, and whoever suspended it
    /// can do so again.
    fn thaw_found(&mut self, live: &mut Live) {
        let now_us = self.clock.now_us();
        if let Some(container) = live.container.as_mut() {
            free_memory_of(live.row.job, container);
        }
        if let Some(container) = live.container.as_mut()
            && let Err(error) = container.thaw()
        {
            tracing::error!(job = live.row.job, %error, "a job stays frozen; `pinfold rescue` thaws it");
        }
        if live.row.frozen_since_us.is_some() {
            live.row.reason =
                Some("thawed when the daemon came back; suspend it again if that is wanted".to_owned());
        }
        live.set_state(JobState::Running, now_us);
    }

    /// Tells the judgement of a job of an earlier life.
    pub(crate) fn adopt(&mut self, job: JobId, runs: bool) {
        let live = &self.jobs[&job];
        let mut request = self.request(&live.row);
        request.held = live.row.state == JobState::Held || live.awaits_keeper.is_some();
        request.requeues = live.row.requeues;
        let running = runs.then(|| Running {
            started: Instant(live.row.started_us.unwrap_or(live.row.submitted_us)),
            class: live::to_policy(live.row.class),
            cpus: live.row.cpus.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default(),
            frozen: false,
            suspended: false,
        });
        let submitted = Instant(live.row.submitted_us);
        self.judge(Judged::Adopt(Adopted { request, submitted, running }));
    }

    /// Groups in the kernel that no job on disk accounts for: empty ones are removed, others are left running
    /// and named.
    fn remove_leftovers(&mut self) {
        let Ok(left) = self.containers.list() else { return };
        for job in left.into_iter().filter(|&job| !self.jobs.contains_key(&JobId(job))) {
            let Ok(Some(mut container)) = self.containers.adopt(job, None) else { continue };
            let _ = container.thaw();
            if let Ok(pinfold_sys::container::Removed::Busy(container)) = container.remove() {
                tracing::warn!(job, "processes of a job that the store does not know go on, unmanaged");
                self.sampler.keep_finished(JobId(job), container);
            }
        }
    }

    /// The cores that jobs may use, as the judgement wants them.
    pub(crate) fn machine(&self) -> Machine {
        let usable = self.topology.usable();
        let within =
            self.configured.config.host_cpus.as_ref().map_or(usable.clone(), |set| set.intersection(&usable));
        self.with_sets(&within)
    }

    /// Makes a changed configuration effective.
    pub(crate) fn apply_configuration(&mut self) {
        self.bound_memory();
        self.judge(Judged::Configure(self.settings()));
        let machine = self.machine();
        if *self.policy.machine() != machine {
            self.judge(Judged::Machine(machine));
        }
        self.keep_house_clear();
        self.sampler.set_interval(self.configured.config.profile_interval);
        self.processes.enable(self.configured.config.profile_processes);
        self.serve_metrics();
        if !self.configured.config.profile_files {
            let files = self.files.stop();
            files.into_iter().for_each(|row| self.journal.file(row));
        }
    }

    /// Serves figures; a host that cannot runs its jobs all the same, and says so.
    fn serve_metrics(&mut self) {
        if let Err(error) = self.open_metrics() {
            tracing::error!(%error, "no figures are served");
            self.warnings.push(error);
        }
    }

    /// The judgement's settings, of the configuration and this host.
    pub(crate) fn settings(&self) -> Settings {
        let config = &self.configured.config;
        Settings {
            factor_milli: config.slots_factor_milli,
            queue_depth: config.slots_queue_depth,
            queue_ttl: config.slots_queue_ttl,
            affinity: config.cpu_affinity,
            place: crate::live::place(config.cpu_place),
            backfill: config.cpu_backfill,
            protect_milli: config.cpu_protect_milli,
            hold_back: config.cpu_guard,
            preemption: match config.cpu_preemption {
                config::Preemption::Hard => Preemption::Hard,
                config::Preemption::Soft => Preemption::Soft,
                config::Preemption::Off => Preemption::Off,
            },
            schedule: config.schedule,
            drain: self.draining,
            tmp_total_bytes: self.tmp_total_bytes(),
            tmp_left_bytes: self.tmp_left_bytes(),
            memory: self.memory_settings(),
            projects: self.projects_of(config),
        }
    }
}
