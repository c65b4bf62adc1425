//! What `status`, `why`, `report`, `config get` and `doctor` are told. Nothing here changes anything.

use std::collections::BTreeSet;

use pinfold_policy::{Instant, JobId};
use pinfold_profile::report;
use pinfold_profile::store::{Store, StoreError, Whose};
use pinfold_proto::JobPlace;
use pinfold_proto::job::PlaceView;
use pinfold_proto::quantity::show_size;
use pinfold_proto::row::JobRow;
use pinfold_proto::view::{
    AbilityView, DecisionView, DoctorView, FindingView, JobView, MapView, MemoryView, NumberView, ReportView,
    SetView, SlotsView, StatusView, VERSION, WhyView, seconds,
};
use pinfold_proto::wire::{ConfigValue, ErrorCode, Reply, Request, Select, json_bytes};
use pinfold_sys::container::{Detail, Measure};
use pinfold_sys::peer::Peer;
use pinfold_sys::procfs::PressureResource;
use pinfold_sys::records::{Records, Source};
use pinfold_topo::CpuSet;

use crate::cost::ANSWER_MAX_BYTES;
use crate::daemon::Daemon;
use crate::live::Live;
use crate::rights::{self, Refusal};

/// How many jobs that are over `status --all` shows, and one report at most covers.
pub(crate) const OVER_SHOWN: u32 = 1000;

/// How many jobs, and how many samples of them in all, one answer holds that does not come in pieces.
const JOBS_AT_ONCE: u32 = 10_000;
const SAMPLES_AT_ONCE: u64 = 100_000;

/// How long doctor's look at the host is good for, in microseconds: it makes groups and removes them, and everybody may ask.
const EXAMINED_GOOD_US: u64 = 2_000_000;

/// What a report is to have beside the figures.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    /// Every sample.
    pub series: bool,
    /// Every process.
    pub processes: bool,
    /// The threads of jobs that run.
    pub threads: bool,
    /// Every file that was seen open.
    pub files: bool,
}

impl Daemon {
    /// Answers a question.
    pub(crate) fn answer(&mut self, user: Peer, question: Request) -> Result<Reply, Refusal> {
        match question {
            Request::Status { at_us: Some(at_us), .. } => self.status_then(user, at_us).map(Reply::Status),
            Request::Status { jobs, all, at_us: None } => self.status(user, &jobs, all).map(Reply::Status),
            Request::Members { names } => self.members(user, &names).map(Reply::Members),
            Request::Why { job, at_us } => self.why(user, JobId(job), at_us).map(Reply::Why),
            Request::Report { select, series, processes, threads, files, all, .. } => {
                let wanted = Wanted { series, processes, threads, files };
                self.reports(user, &select, all, wanted).map(Reply::Report)
            }
            Request::Starts => Ok(self.starts_for(user)),
            Request::Where => Ok(Reply::Where { state: self.state_dir() }),
            Request::ConfigGet => Ok(Reply::Config(self.config_values())),
            Request::Lengths { commands } => Ok(Reply::Lengths(self.lengths(user, &commands))),
            Request::Map => Ok(Reply::Map(self.map(user))),
            Request::Sets => Ok(Reply::Sets(self.sets_view(user))),
            Request::Host { since_us, until_us, each } => {
                self.host_view(since_us, until_us.unwrap_or(u64::MAX), each).map(Reply::Host)
            }
            Request::Doctor => Ok(Reply::Doctor(self.doctor())),
            other => Err((ErrorCode::Usage, format!("not a question: {other:?}"))),
        }
    }

    fn status(&mut self, user: Peer, wanted: &[u64], all: bool) -> Result<StatusView, Refusal> {
        let config = self.configured.config.clone();
        let mut views = Vec::new();
        let mut left: BTreeSet<u64> = wanted.iter().copied().collect();
        let (mut held_bytes, mut swap_bytes) = (0, 0);
        for live in self.jobs.values() {
            let measure =
                live.container.as_ref().and_then(|container| container.measure(Detail::Totals).ok());
            held_bytes += measure.as_ref().map_or(0, |measure| measure.memory_bytes);
            swap_bytes += measure.as_ref().map_or(0, |measure| measure.swap_bytes);
            let asked_for = wanted.is_empty() || left.contains(&live.row.job);
            if asked_for && rights::may_touch(&config, user, &live.row) {
                let mut view = live_view(live, measure.as_ref(), self.clock.now_us());
                view.place = self.place_view(JobId(live.row.job));
                view.own_nodes = live.row.set().and_then(|set| self.own_nodes.view(&set));
                views.push(view);
                left.remove(&live.row.job);
            }
        }
        for job in left {
            match self.stored_row(JobId(job)) {
                Some(row)
                    if rights::may_touch(&config, user, &row) && !self.jobs.contains_key(&JobId(job)) =>
                {
                    views.push(report::job_view(&row, None, None, Vec::new()));
                }
                _ => return Err(self.no_such_job(user, JobId(job))),
            }
        }
        if all && wanted.is_empty() {
            let whose = rights::may_see(&config, user, true);
            let over = self.selected(&Select::Last(OVER_SHOWN), &whose);
            let over = over.map_err(|error| store_failed(&error))?;
            let over = over.iter().filter(|row| !self.jobs.contains_key(&JobId(row.job)));
            views.extend(over.map(|row| report::job_view(row, None, None, Vec::new())));
        }
        views.sort_by_key(|view| view.job);
        Ok(StatusView {
            version: VERSION,
            host: self.host.clone(),
            mode: self.containers.plan().mode.as_str().to_owned(),
            slots: self.slots_view(),
            memory: self.memory_view(held_bytes, swap_bytes),
            projects: self.projects_view(),
            at_s: None,
            reading: self.reading_at(self.clock.now_us()),
            draining: self.draining,
            jobs: views,
            warnings: self
                .journal
                .warnings()
                .chain(self.audit.warning())
                .chain(self.durable.warning())
                .chain(self.projects_warning())
                .chain(self.budget_warning())
                .chain(self.warnings.iter().cloned())
                .collect(),
        })
    }

    /// The host as it was, of what the store knows. Slots and budget are those of now, and so are priority, class and
    /// cores of each job, unless it is over: then the last it had.
    fn status_then(&mut self, user: Peer, at_us: u64) -> Result<StatusView, Refusal> {
        let config = self.configured.config.clone();
        let rows = self.journal.store().at(None, at_us, OVER_SHOWN).map_err(|error| store_failed(&error))?;
        let (mut held_bytes, mut swap_bytes, mut running, mut views) = (0, 0, 0, Vec::new());
        for row in rows {
            let row = self.newest(row);
            let samples = self.journal.store().samples_until(row.job, at_us);
            let view = crate::past::job_then(&row, &samples.map_err(|error| store_failed(&error))?, at_us);
            held_bytes += view.memory_bytes.unwrap_or(0);
            swap_bytes += view.swap_bytes.unwrap_or(0);
            running += u64::from(view.state == pinfold_proto::JobState::Running);
            if rights::may_touch(&config, user, &row) {
                views.push(view);
            }
        }
        let memory = MemoryView { pressure_full_avg10: None, ..self.memory_view(held_bytes, swap_bytes) };
        Ok(StatusView {
            version: VERSION,
            host: self.host.clone(),
            mode: self.containers.plan().mode.as_str().to_owned(),
            slots: SlotsView { used: running, ..self.slots_view() },
            memory,
            projects: Vec::new(),
            at_s: Some(seconds(at_us)),
            reading: self.reading_at(at_us),
            draining: false,
            jobs: views,
            warnings: Vec::new(),
        })
    }

    /// The sets of PUs that jobs have now: running ones where they are bound, and what the others run on as well.
    fn map(&self, user: Peer) -> MapView {
        let config = &self.configured.config;
        let machine = self.policy.machine();
        let all = self.cpus_for_jobs();
        let in_sets = machine.asides.iter().flat_map(|set| &set.cores);
        let cores: Vec<&CpuSet> = machine.cores.iter().chain(in_sets).collect();
        let set = |live: &Live| -> Option<(CpuSet, SetView)> {
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
        let sets: Vec<(CpuSet, SetView)> = self.jobs.values().filter_map(|live| set(live)).collect();
        let shared =
            |at: usize| (0..sets.len()).any(|other| other != at && !sets[other].0.is_disjoint(&sets[at].0));
        let sets = (0..sets.len()).map(|at| SetView { shared: shared(at), ..sets[at].1.clone() }).collect();
        let set_asides = self.sets_view(user).sets;
        let (host, cpus, chunks) = (self.host.clone(), all.to_string(), self.chunk_views(user));
        MapView { version: VERSION, host, cpus, sets, set_asides, chunks }
    }

    /// How the cores of a running job lie, and what is known of its like.
    fn place_view(&self, job: JobId) -> Option<PlaceView> {
        let lay = self.policy.job(job)?.lay?;
        let lies = match lay.shape {
            pinfold_policy::Shape::Compact => JobPlace::Compact,
            pinfold_policy::Shape::Spread => JobPlace::Spread,
        };
        let known = self.policy.known_of(job);
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

    fn slots_view(&self) -> SlotsView {
        let (used, total) = self.policy.slots();
        SlotsView {
            cores: self.policy.machine().cores.len() as u64,
            factor: f64::from(self.configured.config.slots_factor_milli) / 1000.0,
            total: total as u64,
            used: used as u64,
        }
    }

    fn memory_view(&self, held_bytes: u64, swap_held_bytes: u64) -> MemoryView {
        let pressure = self.proc.pressure(PressureResource::Memory).ok().flatten();
        MemoryView {
            budget_bytes: self.budget_bytes(),
            held_bytes,
            swap_held_bytes,
            pressure_full_avg10: pressure.and_then(|pressure| pressure.full).map(|full| full.avg10),
        }
    }

    fn why(&mut self, user: Peer, job: JobId, at_us: Option<u64>) -> Result<WhyView, Refusal> {
        let live = self.jobs.get(&job).map(|live| live.row.clone());
        let is_live = live.is_some();
        let Some(row) = live.or_else(|| self.stored_row(job)) else {
            return Err((ErrorCode::Failed, format!("there is no job {job}")));
        };
        if !rights::may_touch(&self.configured.config, user, &row) {
            return Err(rights::denied(&format!("job {job} belongs to another user")));
        }
        let now = Instant(self.clock.now_us());
        let explained = if is_live { self.policy.explain(now, job) } else { None };
        let decisions = self.journal.store().decisions(job.0).map_err(|error| store_failed(&error))?;
        if let Some(at_us) = at_us {
            return crate::past::why(&row, &decisions, at_us).map_err(|text| (ErrorCode::Usage, text));
        }
        let decisions = decisions
            .into_iter()
            .map(|row| DecisionView { time_s: seconds(row.time_us), action: row.action, reason: row.reason })
            .collect();
        let awaited = self.jobs.get(&job).is_some_and(|live| live.awaits_keeper.is_some());
        let (cause, numbers, change) = match explained {
            Some(explained) if awaited => (
                "whoever kept it is gone: the host was restarted, or its keeper was ended".to_owned(),
                explained.numbers,
                format!("`pinfold keepers` starts another, or `pinfold cancel {job}`"),
            ),
            Some(explained) => (explained.cause, explained.numbers, explained.change),
            None => (over_cause(&row), Vec::new(), over_change(&row, is_live)),
        };
        let mut numbers: Vec<NumberView> =
            numbers.into_iter().map(|(name, value)| NumberView { name: name.to_owned(), value }).collect();
        if let Some(adopted) = &row.spec.adopted {
            let value = match is_live && row.started_us.is_none() {
                true => format!("{}, which runs on outside until it may start", adopted.named()),
                false => adopted.named(),
            };
            numbers.push(NumberView { name: "adopted".to_owned(), value });
        }
        if let Some(words) = self.isolated.words(job) {
            numbers.push(NumberView { name: "isolation".to_owned(), value: words.to_owned() });
        }
        let of_nodes =
            row.set().and_then(|set| self.own_nodes.view(&set)).map(|view| ("its NUMA nodes", view.found));
        let away = self.own_nodes.away(job).map(|words| ("its memory stays away", words));
        let told = of_nodes.into_iter().chain(away).filter(|_| is_live);
        numbers.extend(told.map(|(name, value)| NumberView { name: name.to_owned(), value }));
        if let Some(reason) = row.reason.clone().filter(|_| is_live) {
            numbers.push(NumberView { name: "last".to_owned(), value: reason });
        }
        Ok(WhyView { version: VERSION, job: job.0, state: row.state, cause, numbers, change, decisions })
    }

    fn state_dir(&mut self) -> String {
        let path = self.journal.store().path();
        path.parent().unwrap_or(path).to_string_lossy().into_owned()
    }

    fn reports(
        &mut self,
        user: Peer,
        select: &Select,
        all: bool,
        wanted: Wanted,
    ) -> Result<Vec<ReportView>, Refusal> {
        let whose = self.whose(user, all)?;
        let rows = match select {
            Select::Jobs(jobs) => self.rows_for(user, jobs)?,
            Select::Last(_) | Select::Since(_) => {
                let rows = self.selected(select, &whose);
                rows.map_err(|error| store_failed(&error))?
            }
        };
        let samples: u64 = rows.iter().map(|row| row.usage.samples).sum();
        let is_long = rows.len() > JOBS_AT_ONCE as usize || (wanted.series && samples > SAMPLES_AT_ONCE);
        if is_long {
            let text = format!("{} jobs with {samples} samples are too much for one answer", rows.len());
            return Err((ErrorCode::Refused, format!("{text}: ask for it in pieces")));
        }
        Ok(rows.into_iter().map(|row| self.report_of_row(row, wanted)).collect())
    }

    /// The rows of jobs that are named, each of which this user may see; refused when they are long.
    pub(crate) fn rows_for(&mut self, user: Peer, jobs: &[u64]) -> Result<Vec<JobRow>, Refusal> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for &job in jobs {
            let row = self.row_for(user, JobId(job))?;
            bytes += json_bytes(&row.spec);
            if bytes > ANSWER_MAX_BYTES {
                return Err(too_long());
            }
            rows.push(row);
        }
        Ok(rows)
    }

    /// Jobs that are not named, by number; one more than an answer may have at most, and no more than it holds.
    fn selected(&mut self, select: &Select, whose: &Whose) -> Result<Vec<JobRow>, StoreError> {
        let store = self.journal.store();
        let jobs = match select {
            Select::Jobs(_) => Vec::new(),
            Select::Last(count) => store.last_numbers(whose, (*count).min(OVER_SHOWN))?,
            Select::Since(since_us) => store.numbers_since(whose, *since_us, JOBS_AT_ONCE + 1)?,
        };
        let (mut rows, mut bytes) = (Vec::new(), 0);
        // The last ones, if not all fit.
        for job in jobs.into_iter().rev() {
            let Some(row) = store.job(job)? else { continue };
            bytes += json_bytes(&row.spec);
            if bytes > ANSWER_MAX_BYTES {
                break;
            }
            rows.push(row);
        }
        rows.reverse();
        Ok(rows.into_iter().map(|row| self.newest(row)).collect())
    }

    /// Whose jobs are told of where none are named; refuses whoever asks for all users' jobs and may not see any.
    pub(crate) fn whose(&self, user: Peer, all: bool) -> Result<Whose, Refusal> {
        let whose = rights::may_see(&self.configured.config, user, all);
        match &whose {
            Whose::User { projects, .. } if all && projects.is_empty() => {
                let who = "`access.operators`, or of a project `projects.NAME.operators`";
                Err(rights::denied(&format!("other users' jobs are for operators ({who})")))
            }
            _ => Ok(whose),
        }
    }

    /// The row as it is now, where the one on disk is behind.
    fn newest(&self, row: JobRow) -> JobRow {
        match self.jobs.get(&JobId(row.job)) {
            Some(live) => live.row.clone(),
            None => self.journal.unwritten(JobId(row.job)).cloned().unwrap_or(row),
        }
    }

    /// The row of a job that this user may see.
    pub(crate) fn row_for(&mut self, user: Peer, job: JobId) -> Result<JobRow, Refusal> {
        let row = self.row_of(job).ok_or_else(|| (ErrorCode::Failed, format!("there is no job {job}")))?;
        if !rights::may_touch(&self.configured.config, user, &row) {
            return Err(rights::denied(&format!("job {job} belongs to another user")));
        }
        Ok(row)
    }

    pub(crate) fn row_of(&mut self, job: JobId) -> Option<JobRow> {
        match self.jobs.get(&job) {
            Some(live) => Some(live.row.clone()),
            None => self.stored_row(job),
        }
    }

    /// The report of one job, running or over.
    pub(crate) fn report_of(&mut self, job: JobId, wanted: Wanted) -> Option<ReportView> {
        let row = self.row_of(job)?;
        Some(self.report_of_row(row, wanted))
    }

    pub(crate) fn report_of_row(&mut self, mut row: JobRow, wanted: Wanted) -> ReportView {
        let job = JobId(row.job);
        let now_us = self.clock.now_us();
        if let Some(live) = self.jobs.get(&job)
            && let (Some(container), Some(meter)) = (&live.container, &live.meter)
            && let Ok(measure) = container.measure(Detail::Totals)
        {
            // Figures of this moment rather than of the last sample.
            let read = crate::sample::reading(&measure, now_us, row.state);
            row.usage = (**meter).clone().finish(Some(&read), None);
        }
        let samples = if wanted.series { self.journal.store().samples(job.0).ok() } else { None };
        let mut view = report::report_view(&row, samples.as_deref(), now_us);
        self.tell_nodes(&row, &mut view);
        self.tell_lists(job, wanted, &mut view);
        view
    }

    /// Adds what is listed of a job, as it is now.
    pub(crate) fn tell_lists(&mut self, job: JobId, wanted: Wanted, view: &mut ReportView) {
        if wanted.processes {
            view.processes = Some(self.process_rows(job).iter().map(report::process_view).collect());
        }
        if wanted.files {
            let (rows, left_out) = self.file_rows(job);
            let recorded = !rows.is_empty() || left_out.is_some();
            view.files = Some(rows.iter().map(report::file_view).collect());
            view.files_from = recorded.then(|| "samples".to_owned());
            view.files_left_out = left_out;
        }
        if wanted.threads {
            view.threads = Some(self.threads(job));
        }
    }

    /// The report of a job that was over at an earlier moment, without its series, of what the store had then.
    pub(crate) fn report_then(
        &self,
        store: &Store,
        row: &JobRow,
        wanted: Wanted,
    ) -> Result<ReportView, StoreError> {
        let job = row.job;
        let mut view = report::report_view(row, None, self.clock.now_us());
        self.tell_nodes_of(row, &store.nodes(job)?, false, &mut view);
        if wanted.processes {
            view.processes = Some(store.processes(job)?.iter().map(report::process_view).collect());
        }
        if wanted.files {
            let rows = store.files(job)?;
            view.files_from = (!rows.is_empty()).then(|| "samples".to_owned());
            view.files = Some(rows.iter().map(report::file_view).collect());
        }
        view.threads = wanted.threads.then(Vec::new);
        Ok(view)
    }

    /// Every key with its value and origin.
    pub(crate) fn config_values(&self) -> Vec<ConfigValue> {
        let value = |key: String| ConfigValue {
            value: self.configured.config.value(&key).unwrap_or_default(),
            origin: (*self.configured.origins.get(&key).unwrap_or(&"default")).to_owned(),
            key,
        };
        self.configured.config.keys().into_iter().map(value).collect()
    }

    fn doctor(&mut self) -> DoctorView {
        let now_us = self.clock.now_us();
        let examined = match self.examined.take() {
            Some((at_us, view)) if now_us.saturating_sub(at_us) < EXAMINED_GOOD_US => (at_us, view),
            _ => {
                let facts = pinfold_sys::mode::probe(&pinfold_sys::mode::Roots::default());
                (now_us, crate::answer::doctor_view(&facts, self.containers.plan()))
            }
        };
        let mut view = examined.1.clone();
        self.examined = Some(examined);
        view.findings.push(self.disk_finding());
        view.findings.extend(self.clearing.finding());
        view.findings.extend(self.names.finding());
        view.findings.extend(self.guard.finding());
        view.findings.extend(self.turn.finding());
        view.turns = self.turn.view();
        view
    }
}

/// What doctor says, of the facts and the plan.
pub(crate) fn doctor_view(facts: &pinfold_sys::mode::Facts, plan: &pinfold_sys::mode::Plan) -> DoctorView {
    DoctorView {
        version: VERSION,
        mode: plan.mode.as_str().to_owned(),
        reason: plan.why.clone(),
        turns: None,
        abilities: plan
            .abilities
            .iter()
            .map(|ability| AbilityView {
                ability: ability.name.as_str().to_owned(),
                real: ability.real,
                how: ability.how.clone(),
                change: ability.change.clone(),
            })
            .collect(),
        findings: pinfold_sys::doctor::examine(facts, plan)
            .into_iter()
            // Mode and abilities come first there, and have fields of their own here.
            .skip(1 + plan.abilities.len())
            .map(|finding| FindingView {
                subject: finding.subject.to_owned(),
                ok: finding.ok,
                found: finding.found,
                change: finding.change,
            })
            .chain([crate::isolated::finding(facts, plan), processes_finding()])
            .collect(),
    }
}

/// How processes are found here.
fn processes_finding() -> FindingView {
    let records = Records::open();
    let source = records.source();
    let found = match (source.loss(), records.why_not()) {
        ("", _) => format!("{}: none is missed", source.as_str()),
        (loss, why) => format!("{}: {loss} ({why})", source.as_str()),
    };
    let ok = source == Source::Full;
    let change =
        "run the daemon as root, outside containers, on a kernel with taskstats and the process connector";
    FindingView { subject: "processes".to_owned(), ok, found, change: (!ok).then(|| change.to_owned()) }
}

fn live_view(live: &Live, measure: Option<&Measure>, now_us: u64) -> JobView {
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
        format!("nothing: it is over; `pinfold report {}` shows what it used", row.job)
    } else {
        "nothing: it never ran; submit it again".to_owned()
    }
}

/// The words for jobs that are too long for one answer.
pub(crate) fn too_long() -> Refusal {
    let text = format!("jobs of more than {} are too much for one answer", show_size(ANSWER_MAX_BYTES));
    (ErrorCode::Refused, format!("{text}: name fewer, or ask for it in pieces"))
}

pub(crate) fn store_failed(error: &StoreError) -> Refusal {
    (ErrorCode::Failed, format!("the job store cannot be read: {}", crate::act::in_full(error)))
}
