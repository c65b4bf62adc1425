//! What `status`, `why`, `config get` and `doctor` are told. Nothing here changes anything. Jobs that `status`
//! names, and the last ones: `now`; the host at an earlier moment: `then`; what names mean: `named`.

use std::collections::BTreeSet;

use pinfold_policy::{Instant, JobId, Unforeseen};
use pinfold_profile::report;
use pinfold_proto::job::PlaceView;
use pinfold_proto::row::JobRow;
use pinfold_proto::start::StartOf;
use pinfold_proto::view::{
    DoctorView, JobView, LeftOutView, MapView, MemoryView, NumberView, SetView, SlotsView, StatusView,
    VERSION, WhyView, seconds,
};
use pinfold_proto::wire::{ConfigValue, ErrorCode, Reply, Request};
use pinfold_proto::{JobPlace, JobState};
use pinfold_sys::container::{Detail, Measure};
use pinfold_sys::peer::Peer;
use pinfold_sys::procfs::PressureResource;
use pinfold_topo::CpuSet;

use crate::clients::{projects, rights, vouch};
use crate::core::clock::wall_us;
use crate::core::{Refusal, denied, is_alive, store_failed, words};
use crate::host::{resources, sets};
use crate::jobs::{JobRecord, called, external, unheard};
use crate::meters::{memory, numa, readings};
use crate::reactor::Daemon;
use crate::store::starts::ended::{ENDED_DAYS, ENDED_MAX};
use crate::surroundings::disk;

/// How long doctor's look at the host is good for, in microseconds: it makes groups and removes them, and everybody may
/// ask.
const EXAMINED_GOOD_US: u64 = 2_000_000;

impl Daemon {
    /// Answers a question.
    pub(super) fn answer(&mut self, user: Peer, question: Request) -> Result<Reply, Refusal> {
        match question {
            Request::Status { .. } => self.status(user, None, Vec::new()).map(Reply::Status),
            Request::Members { names } => self
                .jobs
                .table
                .members_named(&self.ctx, &mut self.outbox.journal, user, &names)
                .map(Reply::Members),
            Request::Named { names } => self.named(user, &names).map(Reply::Named),
            Request::Externals { names } => {
                let (table, journal) = (&self.jobs.table, &mut self.outbox.journal);
                external::jobs_named(&self.ctx, table, journal, user, &names).map(Reply::Externals)
            }
            Request::Why { job, at_us } => self.why(user, JobId(job), at_us).map(Reply::Why),
            Request::Starts => {
                Ok(self.jobs.starts.starts_for(&self.ctx, &mut self.outbox, &mut self.jobs.table, user))
            }
            Request::StartOf { job } => start_of(self, user, JobId(job)).map(Reply::Starts),
            Request::Where => {
                Ok(Reply::Where { state: self.state_dir(), unwritten: self.outbox.journal.count_unwritten() })
            }
            Request::Vouch { audience, request } => {
                let (name, now_us) = (self.clients.names.name(user.uid), self.ctx.clock.now_us());
                let store = self.outbox.journal.store().path();
                let state = store.parent().unwrap_or(store);
                vouch::vouch(state, &self.ctx.configured.config, (user, name), (audience, request), now_us)
                    .map(Reply::Vouched)
            }
            Request::ConfigGet => Ok(Reply::Config(self.config_values())),
            Request::Lengths { commands } => Ok(Reply::Lengths(self.meters.learned.lengths(user, &commands))),
            Request::Map => Ok(Reply::Map(self.map(user))),
            Request::Sets => Ok(Reply::Sets(self.host.sets.sets_view(
                &self.ctx,
                &self.jobs.table,
                &self.clients.names,
                &self.host.own_nodes,
                user,
            ))),
            Request::Host { since_us, until_us, each } => readings::host_view(
                &self.ctx,
                &mut self.outbox.journal,
                since_us,
                until_us.unwrap_or(u64::MAX),
                each,
            )
            .map(Reply::Host),
            Request::Doctor => Ok(Reply::Doctor(self.doctor(user))),
            other => Err((ErrorCode::Usage, format!("not a question: {other:?}"))),
        }
    }

    /// The host as it is, with these jobs, or all that the user may see, and beside them `over`.
    pub(super) fn status(
        &mut self,
        user: Peer,
        wanted: Option<BTreeSet<u64>>,
        over: Vec<JobView>,
    ) -> Result<StatusView, Refusal> {
        let config = self.ctx.configured.config.clone();
        let mut views = over;
        let mut left = wanted;
        let (mut held_bytes, mut swap_bytes) = (0, 0);
        for live in self.jobs.table.values() {
            let measure =
                live.container.as_ref().and_then(|container| container.measure(Detail::Totals).ok());
            held_bytes += measure.as_ref().map_or(0, |measure| measure.memory_bytes);
            swap_bytes += measure.as_ref().map_or(0, |measure| measure.swap_bytes);
            let asked_for = left.as_ref().is_none_or(|left| left.contains(&live.row.job));
            if asked_for && rights::may_touch(&config, user, &live.row) {
                let mut view = live_view(live, measure.as_ref(), self.ctx.clock.now_us());
                view.place = self.place_view(JobId(live.row.job));
                view.own_nodes = live.row.set().and_then(|set| self.host.own_nodes.view(&set));
                views.push(view);
                if let Some(left) = &mut left {
                    left.remove(&live.row.job);
                }
            }
        }
        if let Some(job) = left.and_then(|mut left| left.pop_first()) {
            return Err(self.no_such_job(user, JobId(job)));
        }
        views.sort_by_key(|view| view.job);
        Ok(StatusView {
            version: VERSION,
            host: self.ctx.host.clone(),
            mode: self.ctx.containers.plan().mode.as_str().to_owned(),
            slots: self.slots_view(),
            memory: self.memory_view(held_bytes, swap_bytes),
            projects: projects::projects_view(&self.ctx),
            at_s: None,
            reading: readings::reading_at(&mut self.outbox.journal, self.ctx.clock.now_us()),
            resources: self.resources_view(user),
            other_load: self.meters.others.view(&self.ctx),
            neighbours: self.host.neighbours.view(&self.ctx).map(Box::new),
            draining: self.ctx.draining,
            jobs: views,
            warnings: self
                .outbox
                .journal
                .warnings()
                .chain(self.clients.audit.warning())
                .chain(self.outbox.durable.warning())
                .chain(projects::projects_warning(&self.ctx))
                .chain(memory::budget_warning(&self.ctx))
                .chain(sets::cpus_warning(&self.ctx))
                .chain(self.clients.warnings.iter().cloned())
                .collect(),
        })
    }

    /// The sets of PUs that jobs have now: running ones where they are bound, and what the others run on as well.
    fn map(&self, user: Peer) -> MapView {
        let config = &self.ctx.configured.config;
        let machine = self.ctx.policy.machine();
        let all = sets::cpus_for_jobs(&self.ctx.policy);
        let in_sets = machine.asides.iter().flat_map(|set| &set.cores);
        let cores: Vec<&CpuSet> = machine.cores.iter().chain(in_sets).collect();
        let set = |live: &JobRecord| -> Option<(CpuSet, SetView)> {
            let runs = live.row.state == pinfold_proto::JobState::Running && live.container.is_some();
            let cpus: CpuSet = live.row.cpus.as_deref()?.parse().ok().filter(|_| runs)?;
            let cpus = if cpus.is_empty() { all.clone() } else { cpus };
            let mine = rights::may_touch(config, user, &live.row);
            let pids = live.container.as_ref().filter(|_| mine).and_then(|container| container.pids().ok());
            let view = SetView {
                set: if mine { format!("job-{}", live.row.job) } else { "job".to_owned() },
                cpus: cpus.to_string(),
                cores: cores.iter().filter(|core| !core.is_disjoint(&cpus)).count() as u64,
                shared: false,
                job: mine.then_some(live.row.job),
                name: mine.then(|| live.row.spec.name.clone()),
                user: mine.then(|| live.row.user.clone()),
                class: live.row.class,
                state: live.row.state,
                pids: pids.unwrap_or_default(),
            };
            Some((cpus, view))
        };
        let sets: Vec<(CpuSet, SetView)> = self.jobs.table.values().filter_map(|live| set(live)).collect();
        let shared =
            |at: usize| (0..sets.len()).any(|other| other != at && !sets[other].0.is_disjoint(&sets[at].0));
        let sets = (0..sets.len()).map(|at| SetView { shared: shared(at), ..sets[at].1.clone() }).collect();
        let set_asides = self
            .host
            .sets
            .sets_view(&self.ctx, &self.jobs.table, &self.clients.names, &self.host.own_nodes, user)
            .sets;
        let (host, cpus, chunks) =
            (self.ctx.host.clone(), all.to_string(), numa::chunk_views(&self.ctx, &self.jobs.table, user));
        let resources = self.resources_view(user);
        MapView { version: VERSION, host, cpus, sets, set_asides, chunks, resources }
    }

    /// How the cores of a running job lie, and what is known of its class.
    fn place_view(&self, job: JobId) -> Option<PlaceView> {
        let lay = self.ctx.policy.job(job)?.lay?;
        let lies = match lay.shape {
            pinfold_policy::Shape::Compact => JobPlace::Compact,
            pinfold_policy::Shape::Spread => JobPlace::Spread,
        };
        let known = self.ctx.policy.known_of(job);
        let gain = known.and_then(|known| known.gain);
        Some(PlaceView {
            lies,
            domains: lay.domains as u64,
            runs_compact: known.map_or(0, |known| known.close as u64),
            runs_spread: known.map_or(0, |known| known.apart as u64),
            settled: known.is_some_and(|known| known.settled),
            gain: gain.map(|gain| gain.mean),
            gain_low: gain.map(|gain| gain.low),
            gain_high: gain.map(|gain| gain.high),
        })
    }

    pub(super) fn slots_view(&self) -> SlotsView {
        let (used, total) = self.ctx.policy.slots();
        SlotsView {
            cores: self.ctx.policy.machine().cores.len() as u64,
            factor: f64::from(self.ctx.configured.config.slots_factor_milli) / 1000.0,
            total: total as u64,
            used: used as u64,
            waiting: self.ctx.policy.ready() as u64,
        }
    }

    pub(super) fn memory_view(&self, held_bytes: u64, swap_held_bytes: u64) -> MemoryView {
        let pressure = self.ctx.proc.pressure(PressureResource::Memory).ok().flatten();
        MemoryView {
            budget_bytes: memory::budget_bytes(&self.ctx),
            held_bytes,
            swap_held_bytes,
            pressure_full_avg10: pressure.and_then(|pressure| pressure.full).map(|full| full.avg10),
        }
    }

    fn why(&mut self, user: Peer, job: JobId, at_us: Option<u64>) -> Result<WhyView, Refusal> {
        let is_live = self.jobs.table.contains_key(&job);
        let row = self.row_for(user, job)?;
        let now = Instant(self.ctx.clock.now_us());
        let explained = if is_live { self.ctx.policy.explain(now, job) } else { None };
        let stored = self.outbox.journal.store().decisions(job.0).map_err(|error| store_failed(&error))?;
        let (decisions, gap) = pinfold_profile::report::shown_decisions(stored);
        if let Some(at_us) = at_us {
            return crate::clients::past::why(&row, &decisions, gap, at_us)
                .map_err(|text| (ErrorCode::Usage, text));
        }
        let left_out = gap.map(|(after_us, before_us)| LeftOutView {
            after_s: seconds(after_us),
            before_s: seconds(before_us),
            hides_state: false,
        });
        let decisions = decisions.iter().map(pinfold_profile::report::decision_view).collect();
        let awaited = self.jobs.table.get(&job).is_some_and(|live| live.awaits_keeper.is_some());
        let (cause, numbers, change) = match explained {
            Some(explained) if awaited => (
                "its keeper is gone: the host was restarted, or the keeper was ended".to_owned(),
                explained.numbers,
                format!("`pinfold keepers` starts another, or `pinfold cancel {job}`"),
            ),
            Some(explained)
                if let Some((cause, change)) = unheard::words(&self.ctx, &self.jobs.table, job) =>
            {
                (cause, explained.numbers, change)
            }
            Some(explained) if let Some(fifo) = self.awaits_reader_of(&row) => (
                format!("its command has not begun: it waits until {fifo}, where its output goes, is read"),
                explained.numbers,
                format!("a reader of that FIFO, or `pinfold cancel {job}`"),
            ),
            Some(explained) if let Some((cause, change)) = self.surroundings.hooks.awaited(job) => {
                (cause, explained.numbers, change)
            }
            Some(explained) => match self.gate_words(job).filter(|_| row.state != JobState::Held) {
                Some((cause, change)) => (cause, explained.numbers, change),
                None => (explained.cause, explained.numbers, explained.change),
            },
            None => (over_cause(&row), Vec::new(), over_change(&row, is_live)),
        };
        let (cause, change) = (self.jobs.table.by_name(&cause), self.jobs.table.by_name(&change));
        let figures = words::by_name(numbers.iter().flat_map(|number| &number.figures));
        let mut numbers: Vec<NumberView> = numbers.into_iter().map(words::number_view).collect();
        numbers.extend(self.numbers_of_the_daemon(&row, is_live));
        let mut expected_start_s = None;
        if is_live && row.state == JobState::Queued {
            let (at_s, words) = self.expected_start(now, job);
            expected_start_s = at_s;
            numbers.push(NumberView::words("expected start", self.jobs.table.by_name(&words)));
        }
        Ok(WhyView {
            version: VERSION,
            job: job.0,
            state: row.state,
            cause,
            numbers,
            figures,
            change,
            decisions,
            left_out,
            expected_start_s,
        })
    }

    /// When a waiting job probably starts, in Unix seconds, and how sure that is in words, or why it is unknown. No word of
    /// another user's job but its number.
    fn expected_start(&self, now: Instant, job: JobId) -> (Option<f64>, String) {
        let follows = self.jobs.table.get(&job).is_none_or(|live| !live.row.spec.after.is_empty());
        if let Some(at_us) = self.jobs.gates.opens_us(job).filter(|_| !follows) {
            let at_s = seconds(at_us);
            return (Some(at_s), format!("{} at the earliest", report::date_utc(at_s)));
        }
        let length = |job| self.meters.learned.usual(&self.jobs.table.get(&job)?.row);
        let unknown = match self.ctx.policy.expected_start(now, job, length) {
            Ok(wait) => {
                let at_s = seconds(wall_us()) + wait.as_secs_f64();
                let text = format!("about {}, if jobs run as long as before", report::date_utc(at_s));
                return (Some(at_s), text);
            }
            Err(Unforeseen::Length(other)) => format!("no job like job {other} has ended"),
            Err(Unforeseen::OtherWait) => "it does not wait for slots alone".to_owned(),
            Err(Unforeseen::TooMany) => "too many jobs run or are before it".to_owned(),
        };
        (None, format!("unknown: {unknown}"))
    }

    /// The FIFO that a job whose command has not begun waits to be read.
    fn awaits_reader_of(&self, row: &JobRow) -> Option<String> {
        let main = row.main.filter(|_| row.state == JobState::Running)?;
        let fifo = self.ctx.proc.awaits_reader_of(main.pid);
        // Asked after that was read: a process that got the number since may be another user's.
        fifo.filter(|_| is_alive(&self.ctx.proc, main))
    }

    /// What `why` tells of a job beside what the scheduler knows.
    fn numbers_of_the_daemon(&self, row: &JobRow, is_live: bool) -> Vec<NumberView> {
        let (job, mut numbers) = (JobId(row.job), Vec::new());
        if let Some(adopted) = &row.spec.adopted {
            let value = match is_live && row.started_us.is_none() {
                true if adopted.in_place.is_some() => {
                    format!(
                        "{}, which waits in its workload manager's hook until it may start",
                        adopted.named()
                    )
                }
                true => format!("{}, which runs on outside until it may start", adopted.named()),
                false => adopted.named(),
            };
            numbers.push(NumberView::words("adopted", value));
        }
        let by_site = self.ctx.configured.config.memory_learn == pinfold_proto::config::Learn::Site;
        let runs = self.meters.learned.runs_of_class(&self.ctx, row).filter(|_| is_live && !by_site);
        numbers.extend(runs.map(|value| NumberView::words("runs of its class that ended", value)));
        let elsewhere = self.meters.learned.source_elsewhere(&self.ctx, &self.meters.elsewhere, row);
        let elsewhere = elsewhere.filter(|_| is_live);
        numbers.extend(elsewhere.map(|value| NumberView::words("runs of its class on other hosts", value)));
        if let Some(words) = self.host.isolated.words(job) {
            numbers.push(NumberView::words("isolation", words.to_owned()));
        }
        let of_nodes = row
            .set()
            .and_then(|set| self.host.own_nodes.view(&set))
            .map(|view| ("its NUMA nodes", view.found));
        let away = self.host.own_nodes.away(job).map(|words| ("its memory stays away", words));
        let has = resources::words(row).map(|words| ("resources it has", words));
        let told = of_nodes.into_iter().chain(away).chain(has).filter(|_| is_live);
        numbers.extend(told.map(|(name, value)| NumberView::words(name, value)));
        let held_up = self.meters.readers.words(&self.jobs.table, (job, row.uid), self.ctx.clock.now_us());
        let held_up = held_up.filter(|_| is_live && row.started_us.is_some());
        numbers.extend(held_up.map(|value| NumberView::words("its processes", value)));
        let share = self.host.neighbours.words(&self.ctx).filter(|_| is_live && row.started_us.is_none());
        numbers.extend(share.map(|value| NumberView::words("the host", value)));
        numbers.extend(row.spec.terms.comment.clone().map(|text| NumberView::words("comment", text)));
        if let Some(reason) = row.reason.clone().filter(|_| is_live) {
            numbers.push(NumberView::words("last", reason));
        }
        numbers
    }

    fn state_dir(&mut self) -> String {
        let path = self.outbox.journal.store().path();
        path.parent().unwrap_or(path).to_string_lossy().into_owned()
    }

    /// Every key with its value and origin.
    pub(super) fn config_values(&self) -> Vec<ConfigValue> {
        let value = |key: String| ConfigValue {
            value: self.ctx.configured.config.value(&key).unwrap_or_default(),
            origin: (*self.ctx.configured.origins.get(&key).unwrap_or(&"default")).to_owned(),
            key,
        };
        self.ctx.configured.config.keys().into_iter().map(value).collect()
    }

    fn doctor(&mut self, user: Peer) -> DoctorView {
        let now_us = self.ctx.clock.now_us();
        let examined = match self.host.examined.take() {
            Some((at_us, view)) if now_us.saturating_sub(at_us) < EXAMINED_GOOD_US => (at_us, view),
            _ => {
                let facts = pinfold_sys::mode::probe(&pinfold_sys::mode::Roots::default());
                (now_us, crate::clients::doctor::doctor_view(&facts, self.ctx.containers.plan()))
            }
        };
        let mut view = examined.1.clone();
        self.host.examined = Some(examined);
        let plan = self.ctx.containers.plan();
        if let Some(place) = pinfold_sys::mode::outside(plan, &self.ctx.proc, user.pid) {
            crate::clients::doctor::tell_outside(&mut view, plan, &place);
        }
        view.findings.push(disk::disk_finding(&self.ctx));
        view.findings.extend(self.surroundings.clearing.finding());
        view.findings.extend(self.surroundings.hooks.findings());
        view.findings.extend(self.outbox.journal.finding());
        view.findings.extend(self.clients.names.finding());
        view.findings.extend(self.meters.readers.finding(&self.jobs.running, &self.jobs.table, now_us));
        view.findings.extend(self.host.guard.finding());
        view.findings.push(self.host.neighbours.finding(&self.ctx));
        self.look_for_gpus();
        view.findings.push(self.host.resources.finding(&self.ctx.configured.config));
        view.findings.extend(self.service.turn.finding());
        view.turns = self.service.turn.view();
        view
    }
}

/// How a job was submitted. An environment may hold secrets: operators of a host or a project do not get it.
fn start_of(daemon: &mut Daemon, user: Peer, job: JobId) -> Result<Vec<StartOf>, Refusal> {
    let row = daemon.row_for(user, job)?;
    if user.uid != row.uid && user.uid != 0 {
        return Err(denied("how a job was submitted is for its own user and root"));
    }
    let failed = |error| (ErrorCode::Failed, format!("the start of job {job} cannot be read: {error}"));
    let start = daemon.jobs.starts.of(&row).map_err(failed)?;
    if start.is_none() && row.spec.terms.runs_again {
        let text = format!(
            "the environment and options of job {job} are not kept, or not any more: they are for {ENDED_DAYS} days, of the \
             last {ENDED_MAX} jobs of a user; `cd {}; pinfold submit COMMAND` submits it anew",
            row.spec.directory
        );
        return Err((ErrorCode::Failed, text));
    }
    let of = |start| StartOf { job: job.0, members: Vec::new(), uid: row.uid, start };
    Ok(start.into_iter().map(of).collect())
}

fn live_view(live: &JobRecord, measure: Option<&Measure>, now_us: u64) -> JobView {
    let pids = live.container.as_ref().and_then(|container| container.pids().ok()).unwrap_or_default();
    let memory = measure.map(|measure| measure.memory_bytes);
    let mut view = report::job_view(&live.row, memory, measure.map(|measure| measure.swap_bytes), pids);
    view.cpu_s = measure.map(|measure| seconds(measure.cpu_user_us.saturating_add(measure.cpu_system_us)));
    view.seen_s = Some(seconds(now_us));
    view
}

fn over_cause(row: &JobRow) -> String {
    row.reason.clone().unwrap_or_else(|| "it is over".to_owned())
}

fn over_change(row: &JobRow, is_live: bool) -> String {
    if is_live {
        "nothing: it waits for its keeper's word".to_owned()
    } else if row.started_us.is_some() {
        let name = called::member(row).unwrap_or_else(|| row.job.to_string());
        format!("nothing: it is over; `pinfold report {name}` shows what it used")
    } else {
        "nothing: it never ran; submit it again".to_owned()
    }
}
