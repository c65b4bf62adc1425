//! A job's surroundings as one chain: its directories, then the hooks, set up in this order before it starts and
//! taken down in the opposite one when it is over, whatever ended it.
//!
//! Absent here: what is kept of each job (`around`), how directories are made (`scratch`, `disk`) and cleared (`clearing`).

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as Moment};

use pinfold_policy::JobId;
use pinfold_proto::wire::ErrorCode;
use pinfold_sys::site::{self, Call, SiteError};

use crate::core::{Ctx, Effect, Next, Outbox, in_full};
use crate::host::own_nodes::OwnNodes;
use crate::jobs::{JobTable, Jobs, starting};
use crate::store::journal::Journal;
use crate::surroundings::Surroundings;
use crate::surroundings::clearing::Kind;
use crate::surroundings::clearing::worker::{Said, Word};
use crate::surroundings::hooks::record::{About, Ended, Record};
use crate::surroundings::hooks::{PREPARED, Setup, Step};
use crate::surroundings::unready::Unready;

/// How long a daemon that ends waits for directories that are about to be gone.
const LAST_WAIT: Duration = Duration::from_secs(1);

impl Surroundings {
    /// Sets up what stands around a job that is to start. `None`: that takes a while, and the start is asked for again.
    ///
    /// # Errors
    /// Why it cannot be; the caller may try again.
    pub(crate) fn set_up(
        &mut self,
        ctx: &Ctx,
        out: &mut Outbox,
        table: &mut JobTable,
        job: JobId,
    ) -> Option<Result<(), Unready>> {
        match self.hooks.jobs.get_mut(&job) {
            Some(chain) if chain.over => {
                // Of its run before.
                chain.start_waits = true;
                if chain.step == Step::AfterWaits {
                    tell(out, table, job, &chain.why);
                }
                return None;
            }
            Some(chain) if chain.step != Step::Rests => return None,
            Some(_) => return Some(Ok(())),
            None => {}
        }
        if self.clearing.has(job) {
            // Of its start before: this one has to find an empty one.
            self.clearing.starts_after(job);
            return None;
        }
        let live = table.get(&job)?;
        let (site, wrap) = (&ctx.configured.config.modules_site, &ctx.configured.config.modules_wrap);
        let spec = &live.row.spec;
        if spec.tmp_bytes.is_none() && spec.disk_bytes.is_none() && site.is_empty() && wrap.is_empty() {
            return Some(Ok(()));
        }
        let planned: VecDeque<String> = site.iter().cloned().collect();
        let wrong = wrap.iter().find_map(|program| site::trusted(Path::new(program)).err());
        if let Err(error) = self.disks.make_disk(ctx, &mut out.journal, table, job)? {
            return Some(Err(error));
        }
        let live = table.get(&job)?;
        if let Err(error) = self.scratches.make(job, &live.row.spec, live.row.uid) {
            return Some(Err(error.into()));
        }
        let tmpdir = self.scratches.variable(job, &live.row.spec);
        let record = Record::new(job.0, About::of(&live.row, tmpdir, self.disks.variable(job)));
        self.hooks.jobs.insert(job, Setup::new(record, planned));
        if let Some(error) = wrong {
            self.refused_by_hook(out, job, &error);
            return None;
        }
        match self.call_next_before(ctx, job) {
            Ok(true) => Some(Ok(())),
            Ok(false) => {
                if let Some(live) = table.get_mut(&job)
                    && let Some(chain) = self.hooks.jobs.get_mut(&job)
                {
                    chain.reason = live.row.reason.replace(PREPARED.to_owned());
                    out.journal.touch(job);
                }
                None
            }
            Err(error) => {
                // Nothing was called yet: its slot is free meanwhile.
                self.hooks.jobs.remove(&job);
                Some(Err(Unready::NotNow(error)))
            }
        }
    }

    /// Calls the next program with `before`; `true`: there is none.
    ///
    /// # Errors
    /// Why its record cannot be written, in words; the same call comes next when this is tried again.
    fn call_next_before(&mut self, ctx: &Ctx, job: JobId) -> Result<bool, String> {
        let Some(chain) = self.hooks.jobs.get_mut(&job) else { return Ok(true) };
        let Some(program) = chain.planned.pop_front() else {
            if !chain.record.begun.is_empty() {
                self.hooks.records.write(&chain.record).map_err(|error| in_full(&error))?;
            }
            return Ok(true);
        };
        chain.record.begun.push(program.clone());
        // On disk first: its `after` is owed from now on.
        if let Err(error) = self.hooks.records.write(&chain.record) {
            chain.record.begun.pop();
            chain.planned.push_front(program);
            return Err(in_full(&error));
        }
        chain.step = Step::Before;
        self.call(ctx, job, &program, "before", &Ended::default());
        Ok(false)
    }

    fn call(&mut self, ctx: &Ctx, job: JobId, program: &str, verb: &str, ended: &Ended) {
        let Some(chain) = self.hooks.jobs.get(&job) else { return };
        let call = Call {
            program: PathBuf::from(program),
            arguments: vec![verb.to_owned()],
            variables: chain.record.environment(&ctx.instance, ended),
            input: chain.record.told(verb, ended),
            limit: ctx.configured.config.modules_limit,
        };
        self.hooks.call(job, call);
    }

    /// Hooks ended, or some are to be called again.
    pub(crate) fn on_hooks_done(&mut self, ctx: &Ctx, out: &mut Outbox, jobs: &mut Jobs) {
        for (job, result) in self.hooks.take_results() {
            let Some(chain) = self.hooks.jobs.get_mut(&job) else { continue };
            match std::mem::replace(&mut chain.step, Step::Rests) {
                Step::After => self.after_done(ctx, out, jobs, job, result.map(drop)),
                _ => self.before_done(ctx, out, jobs, job, result),
            }
        }
        self.on_hooks_due(ctx, out, jobs);
    }

    fn after_done(
        &mut self,
        ctx: &Ctx,
        out: &mut Outbox,
        jobs: &mut Jobs,
        job: JobId,
        result: Result<(), SiteError>,
    ) {
        if let Err(error) = &result
            && error.never_ran()
        {
            // It is owed still: a licence would never be given back.
            let words = format!("its epilog could not be called: {}", in_full(error));
            // One that is requeued waits for that.
            tell(out, &mut jobs.table, job, &words);
            return self.hooks.tries_again(job, Step::AfterWaits, &words, ctx.clock.now_us());
        }
        if let Err(error) = result {
            tracing::error!(job = job.0, error = %in_full(&error), "an epilog failed");
        }
        if let Some(chain) = self.hooks.jobs.get_mut(&job) {
            chain.record.begun.pop();
            chain.went_on();
        }
        self.tear_down_next(ctx, out, jobs, job);
    }

    fn before_done(
        &mut self,
        ctx: &Ctx,
        out: &mut Outbox,
        jobs: &mut Jobs,
        job: JobId,
        result: Result<String, SiteError>,
    ) {
        let Some(chain) = self.hooks.jobs.get_mut(&job) else { return };
        let never_ran = result.as_ref().is_err_and(SiteError::never_ran);
        // No `after` is owed for it then.
        let unrun = if never_ran { chain.record.begun.pop() } else { None };
        if chain.over {
            return self.tear_down_next(ctx, out, jobs, job);
        }
        match result {
            Err(error) if matches!(error, SiteError::Failed { .. }) => {
                unrun.into_iter().for_each(|program| chain.planned.push_front(program));
                let words = format!("its prolog could not be called: {}", in_full(&error));
                self.waits_to_go_on(ctx, out, &mut jobs.table, job, words);
            }
            Err(error) => self.refused_by_hook(out, job, &error),
            Ok(said) => {
                chain.record.add_variables(&said);
                chain.went_on();
                self.go_on(ctx, out, &mut jobs.table, job);
            }
        }
    }

    /// Goes on with the setting up.
    fn go_on(&mut self, ctx: &Ctx, out: &mut Outbox, table: &mut JobTable, job: JobId) {
        match self.call_next_before(ctx, job) {
            Ok(true) => self.is_set_up(out, table, job),
            Ok(false) => {}
            Err(error) => {
                let words = format!("what it is to be prepared with cannot be noted: {error}");
                self.waits_to_go_on(ctx, out, table, job, words);
            }
        }
    }

    /// The setting up cannot go on now: the job waits in its slot, for programs were called for it.
    fn waits_to_go_on(
        &mut self,
        ctx: &Ctx,
        out: &mut Outbox,
        table: &mut JobTable,
        job: JobId,
        words: String,
    ) {
        self.hooks.tries_again(job, Step::BeforeWaits, &words, ctx.clock.now_us());
        tell(out, table, job, &words);
    }

    /// What could not be done is tried again. A program that the site took out of its configuration is not.
    fn on_hooks_due(&mut self, ctx: &Ctx, out: &mut Outbox, jobs: &mut Jobs) {
        let site = &ctx.configured.config.modules_site;
        for (job, step) in self.hooks.take_due(ctx.clock.now_us()) {
            let Some(chain) = self.hooks.jobs.get_mut(&job) else { continue };
            if step == Step::AfterWaits {
                let taken_out = |program: &mut String| !site.contains(program);
                let dropped = chain.record.begun.pop_if(taken_out);
                dropped.into_iter().for_each(|program| self.hooks.dropped(job, program));
                self.tear_down_next(ctx, out, jobs, job);
            } else if !chain.over {
                chain.planned.retain(|program| site.contains(program));
                if let Some(live) = jobs.table.get_mut(&job) {
                    live.row.reason = Some(PREPARED.to_owned());
                    out.journal.touch(job);
                }
                self.go_on(ctx, out, &mut jobs.table, job);
            }
        }
    }

    fn refused_by_hook(&mut self, out: &mut Outbox, job: JobId, error: &SiteError) {
        // Nothing more is set up for it, whatever asks for its start meanwhile.
        self.hooks.close(job);
        let words = format!("refused by a hook: {}", in_full(error));
        out.then(Next::NotStarted(job, words, ErrorCode::Refused));
    }

    /// A job that is prepared need not be waited for to be cancelled; says whether it was.
    pub(crate) fn cancel_prepared(&mut self, out: &mut Outbox, own_nodes: &mut OwnNodes, job: JobId) -> bool {
        let is_at = |step| self.hooks.jobs.get(&job).is_some_and(|chain| chain.step == step && !chain.over);
        let waited = if self.disks.stops_waiting(job) {
            "it waited for room for its --disk"
        } else if self.clearing.stops_waiting(job) {
            "its directories were cleared"
        } else if own_nodes.stops_waiting(job) {
            "its NUMA nodes were cleared"
        } else if is_at(Step::Before) {
            "its prolog ran"
        } else if is_at(Step::BeforeWaits) {
            "it waited for its prolog"
        } else if self.hooks.jobs.get(&job).is_some_and(|chain| chain.start_waits) {
            "it waited for its epilog"
        } else {
            return false;
        };
        out.then(Next::NotStarted(job, format!("cancelled while {waited}"), ErrorCode::Failed));
        true
    }

    fn is_set_up(&mut self, out: &mut Outbox, table: &mut JobTable, job: JobId) {
        if let Some(live) = table.get_mut(&job)
            && let Some(chain) = self.hooks.jobs.get_mut(&job)
        {
            live.row.reason = chain.reason.take();
            out.journal.touch(job);
        }
        starting::start_again(out, table, job);
    }

    /// Takes down what stands around a job that is over; what takes a while goes on by itself, and its group and its
    /// directories go last.
    pub(crate) fn tear_down(&mut self, ctx: &Ctx, out: &mut Outbox, jobs: &mut Jobs, job: JobId) {
        if jobs.table.get(&job).is_some_and(|live| live.container.is_some()) {
            // It was requeued since: only its old group is left to go.
            return jobs.finished.remove(ctx, &mut jobs.lingering, job);
        }
        if self.unknown.contains(&job) {
            if jobs.finished.is_populated(job) {
                return;
            }
            self.unknown.remove(&job);
        }
        self.hooks.close(job);
        let rests = |chain: &Setup| matches!(chain.step, Step::Rests | Step::BeforeWaits);
        if self.hooks.jobs.get(&job).is_none_or(rests) {
            self.tear_down_next(ctx, out, jobs, job);
        }
    }

    fn tear_down_next(&mut self, ctx: &Ctx, out: &mut Outbox, jobs: &mut Jobs, job: JobId) {
        let last = self.hooks.jobs.get(&job).and_then(|chain| chain.record.begun.last().cloned());
        if let Some(program) = last {
            // One that is not over is requeued.
            let is_requeued = jobs.table.get(&job).map(|live| live.row.reason.clone());
            let ended = match is_requeued {
                Some(reason) => Ended { reason, ..Ended::default() },
                None => out.journal.stored_row(job).as_ref().map(Ended::of).unwrap_or_default(),
            };
            if let Some(chain) = self.hooks.jobs.get_mut(&job) {
                chain.step = Step::After;
            }
            return self.call(ctx, job, &program, "after", &ended);
        }
        if self.hooks.jobs.remove(&job).is_some()
            && let Err(error) = self.hooks.records.remove(job.0)
        {
            tracing::error!(job = job.0, %error, "the epilog of this job will run again");
        }
        // Before its group, which counts what is in it.
        if !self.clear_directories(job) {
            self.on_torn_down(ctx, out, jobs, job);
        }
    }

    /// Nothing stands around a job any more but its group; of a directory that is not cleared yet the thread tells later.
    pub(crate) fn on_torn_down(&mut self, ctx: &Ctx, out: &mut Outbox, jobs: &mut Jobs, job: JobId) {
        if jobs.table.get(&job).is_none_or(|live| live.container.is_none()) {
            jobs.finished.remove(ctx, &mut jobs.lingering, job);
        }
        starting::start_again(out, &jobs.table, job);
        self.disks.give_disk_room(out, &jobs.table);
    }

    /// After a restart: jobs that are over have nothing around them. Of one that is not known to have started its keeper
    /// will say whether it did.
    pub(crate) fn tear_down_leftovers(&mut self, out: &mut Outbox, table: &JobTable) {
        let is_over = |job: &JobId| !table.contains_key(job) && !self.unknown.contains(job);
        let left: Vec<JobId> = self.hooks.jobs.keys().copied().filter(is_over).collect();
        out.extend(left.into_iter().map(Effect::Remove));
    }

    /// A job waits that an earlier daemon prepared, or was about to: that is undone, and done again when it starts.
    pub(crate) fn redo_surroundings(&mut self, out: &mut Outbox, job: JobId) {
        if self.hooks.has(job) {
            self.hooks.close(job);
            out.push(Effect::Remove(job));
        }
    }

    /// Has a job's directories cleared; says whether what comes after waits for it.
    pub(crate) fn clear_directories(&mut self, job: JobId) -> bool {
        if let Some(scratch) = self.scratches.of(job) {
            self.clearing.clear(job, Kind::Memory, scratch);
        }
        if let Some(scratch) = self.disks.of(job) {
            self.clearing.clear(job, Kind::Disk, scratch);
        }
        !self.clearing.is_left(job)
    }

    /// The thread has something to say.
    pub(crate) fn on_directories_cleared(&mut self, ctx: &Ctx, out: &mut Outbox, jobs: &mut Jobs) {
        for word in self.clearing.words() {
            self.directory_cleared(ctx, out, jobs, &word);
        }
    }

    fn directory_cleared(&mut self, ctx: &Ctx, out: &mut Outbox, jobs: &mut Jobs, word: &Word) {
        let (job, changed) = (word.job, self.on_word(word));
        if changed && word.kind == Kind::Memory {
            out.then(Next::Configure);
        }
        if !self.clearing.has(job) {
            self.clearing.stops_waiting(job);
            self.on_torn_down(ctx, out, jobs, job);
        } else if self.clearing.is_left(job)
            && jobs.table.get(&job).is_none_or(|live| live.container.is_none())
        {
            // Its group need not wait for processes that hold the directory.
            jobs.finished.remove(ctx, &mut jobs.lingering, job);
        }
    }

    /// A directory is gone, or is left for now; says whether that changed whether it is left.
    fn on_word(&mut self, word: &Word) -> bool {
        let changed = self.clearing.take_in(word);
        match (&word.said, word.kind) {
            (Said::Gone, Kind::Memory) => self.scratches.forget(word.job),
            (Said::Gone, Kind::Disk) => self.disks.forget(word.job),
            (Said::Left(_), _) => {}
        }
        changed
    }

    /// What directories in memory take that are not gone yet, in bytes: those that the thread pauses with.
    pub(crate) fn tmp_left_bytes(&self) -> u64 {
        let sizes = self.clearing.left(Kind::Memory).map(|job| self.scratches.bytes(job));
        sizes.fold(0, u64::saturating_add)
    }

    /// The daemon ends: directories that are about to be gone are waited for, a moment.
    pub(crate) fn finish_clearing(&mut self) {
        let until = Moment::now() + LAST_WAIT;
        while !self.clearing.rests()
            && let Some(word) = self.clearing.wait(until.saturating_duration_since(Moment::now()))
        {
            self.on_word(&word);
        }
    }

    /// After a restart: directories of jobs that are over are cleared, and of all the sizes are known again.
    pub(crate) fn clear_leftovers(&mut self, journal: &mut Journal, table: &JobTable) {
        let left: BTreeSet<JobId> = self.scratches.jobs().chain(self.disks.jobs()).collect();
        for job in left {
            let live = table.get(&job).map(|live| live.row.clone());
            let row = live.or_else(|| journal.stored_row(job));
            self.scratches.size_of(job, row.as_ref().map(|row| &row.spec));
            self.disks.size_of(job, row.as_ref().map(|row| &row.spec));
            if !table.contains_key(&job) && !self.unknown.contains(&job) {
                self.clear_directories(job);
            }
        }
    }

    /// A job without a group is over: what stands around it goes once its end is on disk.
    pub(crate) fn remove_surroundings(&mut self, out: &mut Outbox, job: JobId) {
        if self.scratches.has(job) || self.disks.has(job) || self.hooks.has(job) {
            out.push(Effect::Remove(job));
        }
    }
}

/// Why a job waits whose hook is called again, for its user.
fn tell(out: &mut Outbox, table: &mut JobTable, job: JobId, words: &str) {
    if let Some(live) = table.get_mut(&job) {
        live.row.reason = Some(format!("{words}; it is tried again"));
        out.journal.touch(job);
    }
}

/// The programs that a job's command is wrapped in.
pub(crate) fn wrap(ctx: &Ctx) -> Vec<String> {
    ctx.configured.config.modules_wrap.clone()
}
