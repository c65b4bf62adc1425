//! The state of a job in words: why it is so, the numbers, and what would change it.

use crate::action::mib;
use crate::governor::Lack;
use crate::job::{FrozenBy, Job, Live, Out, Stage, State, Waiting};
use crate::policy::Policy;
use crate::queue::{RANK_AGED, Shape};
use crate::rules::PASSED_MAX;
use crate::slow::SLOW_FOR;
use crate::{Class, Explanation, Instant, JobId};

type Numbers = Vec<(&'static str, String)>;

impl Policy {
    /// Why `job` is in the state it is in, and what would change it; `None` for an unknown job.
    #[must_use]
    pub fn explain(&self, now: Instant, job: JobId) -> Option<Explanation> {
        let job = self.jobs.get(&job)?;
        let now = self.now.max(now);
        let (used, total) = self.slots();
        let mut numbers = vec![
            ("priority", job.request.priority.to_string()),
            ("cores asked for", job.request.cores.to_string()),
            ("slots used", format!("{used} of {total}")),
        ];
        self.tell_project(job, &mut numbers);
        if let Some((nodes, jobs)) = self.nodes_near(job.id()) {
            let nodes = nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            let others = match jobs - 1 {
                0 => String::new(),
                others => format!(", shared with {others} {}", count(others, "job", "jobs")),
            };
            numbers.push(("memory bound to NUMA nodes", format!("{nodes}{others}")));
        }
        numbers.extend(self.explain_shape(job).map(|words| ("its cores lie", words)));
        let (cause, change) = match &job.stage {
            Stage::Waiting(waiting) => self.explain_waiting(job, waiting, now, &mut numbers),
            Stage::Live(live) => self.explain_live(job, live, now, &mut numbers),
        };
        Some(Explanation { cause, numbers, change })
    }

    /// What its project has, where there are projects.
    fn tell_project(&self, job: &Job, numbers: &mut Numbers) {
        let Some(has) = self.holding_of(job) else { return };
        numbers.push(("project", has.project.clone().unwrap_or_else(|| "none".into())));
        if let (Some(own), Some(borrowed)) = (has.cores_guaranteed, has.cores_borrowed()) {
            let more = if borrowed > 0 { format!(", {borrowed} of them borrowed") } else { String::new() };
            numbers.push(("cores of its own", format!("{own}, {} used{more}", has.cores_used)));
        }
        if let (Some(own), Some(borrowed)) = (has.memory_guaranteed_bytes, has.memory_borrowed_bytes()) {
            let more =
                if borrowed > 0 { format!(", {} of it borrowed", mib(borrowed)) } else { String::new() };
            let used = mib(has.memory_used_bytes);
            numbers.push(("memory of its own", format!("{}, {used} used{more}", mib(own))));
        }
    }

    fn explain_waiting(
        &self,
        job: &Job,
        waiting: &Waiting,
        now: Instant,
        numbers: &mut Numbers,
    ) -> (String, String) {
        let id = job.id();
        numbers.push(("waited", seconds(now, job.submitted)));
        if let Some((at, _)) = self.expires_at(job) {
            numbers.push(("expires in", format!("{} s", at.since(now).as_secs())));
        }
        if waiting.held {
            return ("it is held until it is released".into(), format!("`pinfold release {id}`"));
        }
        if let Some(failed) = waiting.failed.as_ref().filter(|failed| !failed.tried) {
            numbers.push(("failed starts", waiting.failures.to_string()));
            let again = failed.again.since(now).as_secs_f64();
            if waiting.failures == 0 {
                numbers.pop();
                let times = job.requeues.saturating_add(job.checkpoints);
                numbers.push(("times put back in the queue", times.to_string()));
                return (
                    format!("it waits to be begun anew: {}", failed.error),
                    format!("it is next in {again:.1} s, as soon as memory suffices for what it held"),
                );
            }
            return (
                format!("its start failed: {}", failed.error),
                format!("it is started again in {again:.1} s, or ended with `pinfold cancel {id}`"),
            );
        }
        if let Some(first) = waiting.after.first() {
            numbers.push(("jobs it waits for", waiting.after.len().to_string()));
            return (
                format!(
                    "it was asked to start after {}",
                    some_of(&waiting.after.iter().copied().collect::<Vec<_>>())
                ),
                format!("job {first} must be over"),
            );
        }
        if let Some(set) = job.request.aside.as_ref().filter(|_| self.aside_of(job).is_none()) {
            return match *set == format!("isolated-{}", job.id()) {
                true => self.explain_isolated(job, numbers),
                false => {
                    (format!("its set {set} has no cores now"), format!("`pinfold set-aside {set}` again"))
                }
            };
        }
        if let Some(shut_out) = self.explain_border(job, numbers) {
            return shut_out;
        }
        if self.settings.drain {
            return ("the host is drained: nothing new starts".into(), "`pinfold undrain`".into());
        }
        self.explain_queued(job, numbers)
    }

    /// For a job that wants a slot, new or frozen.
    fn explain_queued(&self, job: &Job, numbers: &mut Numbers) -> (String, String) {
        let Some(entry) = job.queued else {
            return ("it has just come".into(), "the next event".into());
        };
        numbers.extend(self.explain_protection());
        numbers.extend(self.explain_holding_back());
        let ahead = self.queue_of(job).ahead_of(&entry);
        numbers.push(("position in the queue", (ahead + 1).to_string()));
        if job.aged {
            numbers.push(("goes first", "it waited too long".into()));
        } else if let Some(at) = self.ages_at(job) {
            numbers.push(("goes first in", format!("{} s", at.since(self.now).as_secs())));
        }
        if let Some(full) = self.explain_array(job, numbers) {
            return full;
        }
        if let Some(at) = self.aside_of(job) {
            return self.explain_in_set(job, at, ahead, numbers);
        }
        if let Some(reason) = self.impossible(entry.shape) {
            return reason;
        }
        if let Some(exclusive) = self.exclusive {
            return (
                format!("the exclusive job {exclusive} has the whole host"),
                format!("job {exclusive} must end"),
            );
        }
        if entry.shape.tmp_bytes > self.tmp_left() {
            return self.explain_tmp(entry.shape.tmp_bytes, numbers);
        }
        let in_the_way = self.in_the_way(job, entry.shape);
        if !in_the_way.is_empty() && self.lacks_memory(job.id()).is_none() {
            return (
                "a core that is its project's own is lent to jobs that may not be frozen".into(),
                format!("{} must end, or a slot must fall free", any_of(&in_the_way)),
            );
        }
        let Some((rank, head)) = self.head() else {
            return ("it has just come".into(), "the next event".into());
        };
        if head == job.id() && self.lacks_memory(head).is_none() {
            return self.explain_head(job, numbers);
        }
        if let Some(lack) = self.lacks_memory(job.id()) {
            return self.explain_lack(job, lack, numbers);
        }
        let first = &self.jobs[&head];
        if first.request.class == Some(Class::Exclusive) {
            return (
                format!("the exclusive job {head} is before it and waits for the whole host"),
                format!("job {head} must have run, or be held"),
            );
        }
        if rank == RANK_AGED || first.passed >= PASSED_MAX {
            return (
                format!("job {head} is before it, was passed over long enough, and gets the next slots"),
                format!("job {head} must have started"),
            );
        }
        (
            format!(
                "{} and {ahead} {} before it in the queue",
                self.no_slot(entry.shape),
                count(ahead, "job is", "jobs are")
            ),
            self.what_frees(entry.shape),
        )
    }

    /// For a job that waits for cores of its set.
    fn explain_in_set(&self, job: &Job, at: usize, ahead: usize, numbers: &mut Numbers) -> (String, String) {
        let (set, cores) = (&self.asides[at].name, &self.asides[at].cores);
        numbers.push(("cores of the set free", format!("{} of {}", cores.free_homes(), cores.len())));
        if let Some(lack) = self.lacks_memory(job.id()) {
            return self.explain_lack(job, lack, numbers);
        }
        let wanted = self.wanted_in(job, at);
        let before = if ahead == 0 {
            "it is next".to_owned()
        } else {
            format!("{ahead} {} before it", count(ahead, "job is", "jobs are"))
        };
        let ends = format!("{} must end", any_of(&self.asides[at].holders));
        if job.request.tmp_bytes > self.tmp_left() {
            return self.explain_tmp(job.request.tmp_bytes, numbers);
        }
        let such = if job.request.wish.is_some() { " such as it wishes" } else { "" };
        let free = cores.free_homes();
        let cores = count(wanted, "core", "cores");
        (format!("{before}, and its set {set} has not {wanted} {cores}{such} free ({free} are)"), ends)
    }

    /// Why no job of this shape can start as things are.
    fn impossible(&self, shape: Shape) -> Option<(String, String)> {
        let (cores, total) = (self.cores.len(), self.total());
        if self.is_possible(shape) {
            return None;
        }
        let reason = if cores == 0 {
            ("the machine has no core for jobs".into(), "a core must be allowed to pinfold again".into())
        } else if total == 0 {
            ("the slot factor holds everything".into(), "a larger `slots.factor`".into())
        } else if shape.cores as usize > cores {
            (
                format!("it asks for {} cores and the machine has {cores} for jobs now", shape.cores),
                format!("{} cores must be allowed to pinfold", shape.cores),
            )
        } else {
            (
                format!("it takes {} slots and there are {total} in all", shape.cores),
                "a larger `slots.factor`".into(),
            )
        };
        Some(reason)
    }

    /// For the job that is next and does not start.
    fn explain_head(&self, job: &Job, numbers: &mut Numbers) -> (String, String) {
        let shape = Shape {
            cores: job.request.cores,
            homes: job.request.cores,
            class: job.request.class,
            wishes: job.request.wish.is_some(),
            memory: 0,
            tmp_bytes: 0,
            pools: job.pools,
            array: None,
        };
        if job.passed > 0 {
            numbers.push(("passed over by", format!("{} of at most {PASSED_MAX}", job.passed)));
        }
        if shape.class == Some(Class::Exclusive) {
            let by = job.id();
            let all = self.holders.lowest_first().map(|(_, job)| job);
            let in_the_way: Vec<JobId> = all.filter(|&other| !self.gives_way(other, by)).collect();
            return (
                "it is next, and jobs that may not be frozen for an exclusive job still run".into(),
                format!("{} must end", some_of(&in_the_way)),
            );
        }
        (format!("it is next, and {}", self.no_slot(shape)), self.what_frees(shape))
    }

    /// For a job whose directory in memory finds no room.
    fn explain_tmp(&self, wanted: u64, numbers: &mut Numbers) -> (String, String) {
        numbers.push(("memory for --tmp", mib(self.settings.tmp_total_bytes)));
        numbers.push(("of it free", mib(self.tmp_room())));
        if wanted <= self.tmp_room()
            && let Some(first) = self.tmp_kept_for()
        {
            return (
                format!("job {first} waited too long for its --tmp, and no other job gets one before it"),
                format!("job {first} must start"),
            );
        }
        let others: Vec<JobId> = self.with_tmp().map(Job::id).collect();
        if others.is_empty() {
            return (
                format!(
                    "its --tmp of {} does not fit beside directories of jobs that are over: they are not cleared yet",
                    mib(wanted)
                ),
                "they must be cleared (`pinfold doctor` says why they are not), or a larger `tmp.total`"
                    .into(),
            );
        }
        (
            format!(
                "its --tmp of {} does not fit beside those of other jobs: `tmp.total` leaves {}",
                mib(wanted),
                mib(self.tmp_room())
            ),
            format!("{} must end, or a larger `tmp.total`", any_of(&others)),
        )
    }

    /// For a job that waits for memory.
    fn explain_lack(&self, job: &Job, lack: Lack, numbers: &mut Numbers) -> (String, String) {
        if let Some(claim) = self.claim_of(job) {
            numbers.push(("memory expected", mib(claim.usual_bytes)));
            numbers.push(("memory at most", mib(claim.most_bytes)));
        }
        numbers.push(("memory for jobs", self.memory.usable.map_or("unknown".into(), mib)));
        numbers.push(("memory free", mib(self.free_memory())));
        let kept = self.kept_beside(job.pools.memory);
        if kept > 0 {
            numbers.push(("memory kept for other projects", mib(kept)));
        }
        let running: Vec<JobId> = self.holders.lowest_first().map(|(_, job)| job).collect();
        let ends = format!("{} must end or need less", any_of(&running));
        match lack {
            Lack::Room { wanted, free } if self.memory_is_its_own(job, wanted) => (
                format!(
                    "it is expected to need {} of memory, {} are left for it, and others borrowed what is its project's own",
                    mib(wanted),
                    mib(free)
                ),
                "what they borrowed is moved to swap".into(),
            ),
            Lack::Room { wanted, free } => (
                format!("it is expected to need {} of memory and {} are left for it", mib(wanted), mib(free)),
                ends,
            ),
            Lack::Growth { wanted, free } => (
                format!(
                    "it is expected to need {} of memory, and those who run are about to grow into all but {}",
                    mib(wanted),
                    mib(free)
                ),
                format!("they stop growing, or {ends}"),
            ),
            Lack::Short => (
                "memory runs short, and nothing new starts meanwhile".into(),
                "memory that running jobs do not need".into(),
            ),
            Lack::Frozen { first } => (
                format!(
                    "job {first} stands still for want of memory, and this one would keep it from returning"
                ),
                format!("job {first} must go on first"),
            ),
            Lack::Unsafe => (
                "with it, the others could not all be paged out for the job that goes first".into(),
                format!("more swap (`pinfold doctor`), or {ends}"),
            ),
        }
    }

    /// For a job frozen for memory.
    fn explain_memory(&self, job: &Job, token: JobId, numbers: &mut Numbers) -> (String, String) {
        numbers.push(("memory for jobs", self.memory.usable.map_or("unknown".into(), mib)));
        numbers.push(("memory free", mib(self.free_memory())));
        numbers.push(("memory it holds", mib(job.held.resident)));
        numbers.push(("of it in swap, besides", mib(job.held.swapped)));
        numbers.push(("times frozen for memory", job.held.freezes.to_string()));
        // Worth a word only when it has stood for some time.
        let holder = self.memory.token.and_then(|token| self.jobs.get(&token));
        if let Some(holder) = holder.filter(|_| self.now.since(job.since).as_secs() >= 60) {
            let left = self.patience_left(job, holder.request.priority).as_secs();
            numbers.push(("goes first for memory in", format!("{left} s, if swap takes the others")));
        }
        let why = if self.lent_memory_is_wanted(job) {
            "memory was lent to it, and a project wants it back".to_owned()
        } else {
            format!("memory ran short, and job {token} goes before it")
        };
        if job.queued.is_some() {
            return (format!("{why}; memory suffices again"), "the next slot".into());
        }
        let need = self.need_to_return(job);
        (why, format!("{} of memory that running jobs do not need; it returns by itself", mib(need)))
    }

    /// For a job that runs and whose growth is slowed.
    fn explain_slowed(&self, job: &Job, since: Instant, numbers: &mut Numbers) -> (String, String) {
        numbers.push(("memory for jobs", self.memory.usable.map_or("unknown".into(), mib)));
        numbers.push(("memory free", mib(self.free_memory())));
        numbers.push(("memory it holds", mib(job.held.resident)));
        numbers.push(("slowed for", seconds(self.now, since)));
        let first =
            self.memory.token.map_or_else(String::new, |token| format!(", and job {token} goes first"));
        (
            format!(
                "it runs, but grows only as fast as its pages can be moved out: memory is getting short{first}"
            ),
            format!(
                "memory that the others do not need; {} s after it was slowed it goes on or stands still",
                SLOW_FOR.as_secs()
            ),
        )
    }

    fn no_slot(&self, shape: Shape) -> String {
        let (used, total) = self.slots();
        let free = total.saturating_sub(used);
        if free < shape.cores as usize {
            match free {
                0 if total == 1 => "the only slot is taken".into(),
                0 => format!("all {total} slots are taken"),
                free => format!("it takes {} slots and {free} of {total} are free", shape.cores),
            }
        } else if shape.wishes {
            format!("no home core such as it wishes is free ({} others are)", self.cores.free_homes())
        } else {
            format!("no home core is free for it ({} are)", self.cores.free_homes())
        }
    }

    fn what_frees(&self, shape: Shape) -> String {
        let primaries = shape.class == Some(Class::Primary) && self.free_slots() >= shape.cores as usize;
        let running: Vec<JobId> = if primaries {
            self.holders.primaries_lowest_first().map(|(_, job)| job).collect()
        } else {
            self.holders.lowest_first().map(|(_, job)| job).collect()
        };
        let needed = (shape.cores as usize).saturating_sub(self.free_slots());
        match running.as_slice() {
            [] => "the next event".into(),
            running if primaries => format!("a home core: {} must end", any_of(running)),
            running if needed > 1 => format!("{needed} more slots: enough of {} must end", some_of(running)),
            running => format!("a slot: {} must end", any_of(running)),
        }
    }

    /// A job that is to have cores of its own waits for idle ones, or for ones with lower jobs on them.
    fn explain_isolated(&self, job: &Job, numbers: &mut Numbers) -> (String, String) {
        let (wanted, idle) = (job.slots(), self.idle_cores().len());
        numbers.push(("idle cores", format!("{idle} of {}", self.cores.len())));
        let running: Vec<JobId> = self.holders.lowest_first().map(|(_, job)| job).collect();
        let cores = count(wanted, "core", "cores");
        let cause = format!(
            "it waits for {wanted} {cores} to itself that no job of its priority is on, beside one for others"
        );
        (cause, format!("enough of {} must end, or its wait reach 10 minutes", some_of(&running)))
    }

    fn explain_live(&self, job: &Job, live: &Live, now: Instant, numbers: &mut Numbers) -> (String, String) {
        let id = job.id();
        numbers.push(("since its start", seconds(now, live.started)));
        if let Some(failed) = live.failed.values().find(|failed| !failed.tried) {
            numbers.push(("last failure", failed.error.clone()));
        }
        match job.state() {
            State::Starting => ("it was told to start and has not answered yet".into(), "its answer".into()),
            State::Frozen { by: FrozenBy::User } => {
                numbers.push(("frozen for", seconds(now, job.since)));
                ("a user or operator suspended it".into(), format!("`pinfold resume {id}`"))
            }
            State::Frozen { by: FrozenBy::Policy } => {
                numbers.push(("frozen for", seconds(now, job.since)));
                self.explain_frozen(job, live, numbers)
            }
            State::Waiting { .. } | State::Running => self.explain_running(job, live, numbers),
        }
    }

    fn explain_frozen(&self, job: &Job, live: &Live, numbers: &mut Numbers) -> (String, String) {
        let why = match live.out {
            Some(Out::Preempted { by }) if self.asks_for_idle_cycles(job.id()) => {
                format!("job {by} took its slot, which it had for what others leave")
            }
            Some(Out::Preempted { by }) => format!("job {by} of higher priority took its slot"),
            Some(Out::Exclusive { by }) => format!("the exclusive job {by} took every slot"),
            Some(Out::Lent { by }) => format!("its slot was lent to it, and was taken back for job {by}"),
            Some(Out::SlotsShrank) if self.explain_protection().is_some() => {
                "primaries are protected, and what they leave of the cores has no room for it".into()
            }
            Some(Out::Interferes { with }) => {
                format!("job {with} waited for a core more than is usual, with this one beside it")
            }
            Some(Out::SlotsShrank) => "slots became fewer than running jobs".into(),
            Some(Out::Survived) => "it was cancelled while frozen, went on, and has no slot".into(),
            Some(Out::Memory { token }) => return self.explain_memory(job, token, numbers),
            Some(Out::Found) => "it was found frozen after a restart of the daemon".into(),
            Some(Out::Suspended) | None => "it was resumed".into(),
        };
        if let Some(until) = live.rests {
            let left = until.since(self.now).as_secs();
            return (
                format!("{why}; it stands still for {left} s more"),
                "that time, or `cpu.guard=off`".into(),
            );
        }
        let (cause, change) = self.explain_queued(job, numbers);
        (format!("{why}; it returns when it can, but {cause}"), change)
    }

    fn explain_running(&self, job: &Job, live: &Live, numbers: &mut Numbers) -> (String, String) {
        let id = job.id();
        let cpus = self.cpus_of(job);
        if live.key.is_some() {
            numbers.push(("PUs", if cpus.is_empty() { "any".into() } else { cpus.to_string() }));
        }
        if !self.settings.schedule {
            return ("scheduling is off, every job runs".into(), "`schedule` must be on again".into());
        }
        if let Some(until) = live.checkpoints.until {
            numbers.push(("times begun anew from a checkpoint", job.checkpoints.to_string()));
            return (
                "its checkpoint is being written, for memory will soon be had in no other way".into(),
                format!(
                    "its checkpoint command's end, in {} s at most: then it goes back in the queue",
                    until.since(self.now).as_secs()
                ),
            );
        }
        if live.key.is_none() {
            return (
                "it was thawed without a slot to receive a signal".into(),
                "its end, or a few seconds: then it needs a slot to go on".into(),
            );
        }
        if let Some(bytes) = self.protected_bytes(id) {
            numbers.push(("memory that is taken last", mib(bytes)));
        }
        if job.held.cold.is_cool() {
            numbers.push(("in swap, which it gets on without", mib(job.held.cold.bytes())));
        }
        if let Some(since) = self.slowed_since(id) {
            return self.explain_slowed(job, since, numbers);
        }
        if let Some(at) = live.aside {
            let set = &self.asides[at].name;
            return (format!("it runs in the set {set}, whose cores only jobs in it have"), "its end".into());
        }
        match live.class {
            Class::Primary => (
                "it is a primary: it has home cores that no other primary has".into(),
                format!("its end, or `pinfold suspend {id}`"),
            ),
            Class::Exclusive => ("it has the whole host to itself".into(), "its end".into()),
            Class::Backfill if job.request.class == Some(Class::Backfill) => (
                "it asked to be a backfiller: it runs in the cycles that primaries leave".into(),
                "its end".into(),
            ),
            Class::Backfill if self.shares_evenly(job) => (
                "it is one of the last of its list: they share the cores evenly".into(),
                "its end, or a job that waits or is of another list".into(),
            ),
            Class::Backfill => {
                let older = self.holders.promotable_before(live.started, id);
                numbers.push(("backfillers before it", older.to_string()));
                let primaries: Vec<JobId> =
                    self.holders.primaries_lowest_first().map(|(_, job)| job).collect();
                (
                    "it is a backfiller, for no home core is free: it runs in the cycles that primaries leave".into(),
                    if primaries.is_empty() {
                        "a home core".into()
                    } else {
                        format!("a home core: {} must end", any_of(&primaries))
                    },
                )
            }
        }
    }
}

fn seconds(now: Instant, since: Instant) -> String {
    format!("{:.1} s", now.since(since).as_secs_f64())
}

fn count(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// "job 12 or any of 3 others".
fn any_of(jobs: &[JobId]) -> String {
    match jobs {
        [] => "a job".into(),
        [job] => format!("job {job}"),
        [first, second] => format!("job {first} or job {second}"),
        [first, others @ ..] => format!("job {first} or any of {} others", others.len()),
    }
}

/// "job 12 and 3 others".
fn some_of(jobs: &[JobId]) -> String {
    match jobs {
        [] => "a job that is dying".into(),
        [job] => format!("job {job}"),
        [first, second] => format!("jobs {first} and {second}"),
        [first, others @ ..] => format!("job {first} and {} others", others.len()),
    }
}
