//! Cores that are set aside: who may make sets and use them, which cores they are made of, and how they last.
//!
//! Owns `sets.json` in the state directory, written whole at each change before the change has its effect. A set is
//! exclusive (the judgement keeps other jobs off its cores), shared (its jobs stay within it, others may be there too)
//! or for housekeeping (no job is on it). Absent: which job is where, which is the judgement's; what a user who is no
//! operator may reserve, and when sets of idle cores go (`bounded`).

mod bounded;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pinfold_place::pack::{self, Demand, Room};
use pinfold_policy::isolation::whole_cores;
use pinfold_policy::{Aside, Event as Judged, Machine, Request};
use pinfold_proto::job::isolated_set;
use pinfold_proto::row::JobRow;
use pinfold_proto::view::{SetAsideView, SetKind, SetsView, VERSION, seconds};
use pinfold_proto::wire::{ErrorCode, Reply, SetAside};
use pinfold_proto::{JobClass, JobSpec};
use pinfold_sys::peer::Peer;
use pinfold_topo::CpuSet;
use serde::{Deserialize, Serialize};

use crate::daemon::Daemon;
use crate::names::{self, Number};
use crate::rights::{self, Refusal, denied};

/// So many sets there may be.
const SETS_MAX: usize = 256;

/// How long idle cores stay set aside without a job, unless said otherwise.
const HOLD_US: u64 = 60_000_000;

/// All sets, by name.
#[derive(Debug)]
pub(crate) struct Sets {
    path: PathBuf,
    sets: Vec<Set>,
    rate: bounded::Rate,
}

/// A set, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Set {
    pub name: String,
    pub kind: SetKind,
    /// Its PUs, as a kernel list.
    #[serde(with = "list")]
    pub cpus: CpuSet,
    memory_bytes: u64,
    shared: bool,
    /// Who may use it; nobody named: everybody.
    pub users: Vec<String>,
    pub owner_uid: u32,
    made_us: u64,
    /// How long it stays without a job; `None`: for ever.
    hold_us: Option<u64>,
    /// When a job was last seen in it, or it was made.
    used_us: u64,
    /// Its owner is no operator: it has the bounds of `bounded`.
    #[serde(default)]
    bounded: bool,
    /// When it is looked at next; 0: at once.
    #[serde(skip)]
    look_us: u64,
}

/// PUs as a kernel list.
mod list {
    use pinfold_topo::CpuSet;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(cpus: &CpuSet, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(cpus)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<CpuSet, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Set {
    /// One for an isolated job.
    pub(crate) fn isolated(name: String, cpus: CpuSet, owner_uid: u32, now_us: u64) -> Self {
        Self {
            name,
            kind: SetKind::Isolated,
            cpus,
            memory_bytes: 0,
            shared: false,
            users: Vec::new(),
            owner_uid,
            made_us: now_us,
            hold_us: None,
            used_us: now_us,
            bounded: false,
            look_us: 0,
        }
    }

    /// Whether its cores are not for jobs outside of it.
    pub(crate) fn is_kept(&self) -> bool {
        !self.shared
    }
}

impl Sets {
    /// Reads the sets of a state directory; none where there is no file.
    pub(crate) fn open(state: &Path) -> anyhow::Result<Self> {
        let path = state.join("sets.json");
        let sets = match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .with_context(|| format!("{} does not hold sets of cores", path.display()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).with_context(|| format!("failed to read {}", path.display())),
        };
        Ok(Self { path, sets, rate: bounded::Rate::default() })
    }

    /// All of them, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Set> {
        self.sets.iter()
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Set> {
        self.sets.iter().find(|set| set.name == name)
    }

    /// The PUs of the sets that jobs outside of them may not use.
    pub(crate) fn kept(&self) -> CpuSet {
        self.sets.iter().filter(|set| set.is_kept()).fold(CpuSet::new(), |all, set| all.union(&set.cpus))
    }

    /// Takes these sets, if they can be written.
    fn replace(&mut self, mut sets: Vec<Set>) -> Result<(), Refusal> {
        sets.sort_by(|a, b| a.name.cmp(&b.name));
        let beside = self.path.with_extension("json.new");
        let text = serde_json::to_vec_pretty(&sets).expect("plain data always has a JSON form");
        let write = || {
            use std::io::Write as _;
            let mut file = std::fs::File::create(&beside)?;
            file.write_all(&text)?;
            file.sync_all()?;
            std::fs::rename(&beside, &self.path)
        };
        write().map_err(|error: std::io::Error| {
            (ErrorCode::Failed, format!("failed to write {}: {error}", self.path.display()))
        })?;
        self.sets = sets;
        Ok(())
    }
}

impl Daemon {
    /// Checks that these are users of the host.
    fn known_users(&self, users: &[String]) -> Result<(), Refusal> {
        for name in users.iter().filter(|name| *name != "*") {
            match names::number_of(name) {
                Number::User(_) => {}
                Number::Nobody => return Err(usage(format!("--users {name}: there is no such user"))),
                Number::Unknown => {
                    let text =
                        format!("--users {name}: the system's user databases give no answer; try again");
                    return Err((ErrorCode::Failed, text));
                }
            }
        }
        Ok(())
    }

    /// `pinfold set-aside`.
    pub(crate) fn set_aside(&mut self, user: Peer, asked: SetAside) -> Result<Reply, Refusal> {
        let idle = asked.name.is_none();
        if idle {
            let config = &self.configured.config;
            if !rights::may_have_the_host(config, user) {
                return Err(denied("idle cores are for the users in `access.exclusive`"));
            }
            bounded::check(config, user, &asked)?;
        } else {
            self.operators_only(user, "setting cores aside")?;
        }
        self.look_at_machine();
        if self.sets.sets.len() >= SETS_MAX {
            return Err((ErrorCode::Refused, format!("there are {SETS_MAX} sets already")));
        }
        self.known_users(&asked.users)?;
        let name = match &asked.name {
            Some(name) => self.free_name(name)?,
            None => self.made_name(),
        };
        let Some(cpus) = self.cpus_for_set(&asked)? else { return Ok(Reply::SetMade { name: None }) };
        self.check_memory(&asked)?;
        let now_us = self.clock.now_us();
        let bounded = idle && !rights::is_operator(&self.configured.config, user);
        if bounded && !self.may_reserve(user, &cpus, now_us)? {
            return Ok(Reply::SetMade { name: None });
        }
        let kind = match (idle, asked.housekeeping) {
            (true, _) => SetKind::Idle,
            (false, true) => SetKind::Housekeeping,
            (false, false) => SetKind::Static,
        };
        let mut users = asked.users;
        if idle && users.is_empty() {
            users.push(self.user_name(user.uid));
        }
        let set = Set {
            name: name.clone(),
            kind,
            cpus,
            memory_bytes: asked.memory_bytes.unwrap_or(0),
            shared: asked.shared,
            users,
            owner_uid: user.uid,
            made_us: now_us,
            hold_us: idle.then(|| asked.hold_us.unwrap_or(HOLD_US)),
            used_us: now_us,
            bounded,
            look_us: 0,
        };
        let detail = format!("{name}: PUs {}", set.cpus);
        let mut sets = self.sets.sets.clone();
        sets.push(set);
        self.note(user, self.concern_of(user), "set-aside", &detail);
        self.sets.replace(sets)?;
        self.sets_changed();
        Ok(Reply::SetMade { name: Some(name) })
    }

    /// `pinfold set-aside NAME --remove`.
    pub(crate) fn remove_set(&mut self, user: Peer, name: &str) -> Result<Reply, Refusal> {
        let set = self.sets.named(name).ok_or_else(|| usage(format!("there is no set {name}")))?;
        if set.kind == SetKind::Isolated {
            return Err((ErrorCode::Refused, format!("the set {name} is a job's, and goes with it")));
        }
        if set.owner_uid != user.uid || set.kind != SetKind::Idle {
            self.operators_only(user, "giving back cores that others set aside")?;
        }
        if let Some(job) = self.jobs_in(name).next() {
            let text = format!("job {job} is in the set {name} or waits for it; end it first");
            return Err((ErrorCode::Refused, text));
        }
        self.note(user, self.concern_of(user), "set-aside", &format!("{name}: removed"));
        let left = self.sets.sets.iter().filter(|set| set.name != name).cloned().collect();
        self.sets.replace(left)?;
        self.sets_changed();
        self.isolate_waiting();
        Ok(Reply::Done)
    }

    /// `pinfold sets`.
    pub(crate) fn sets_view(&self, user: Peer) -> SetsView {
        let config = &self.configured.config;
        let usable = self.usable();
        let view = |set: &Set| {
            let here = set.cpus.intersection(&usable);
            let mine = |job: &u64| {
                let live = self.jobs.get(&pinfold_policy::JobId(*job));
                live.is_some_and(|live| rights::may_touch(config, user, &live.row))
            };
            SetAsideView {
                set: set.name.clone(),
                cpus: set.cpus.to_string(),
                cores: self.topology.cores_within(&here).len() as u64,
                usable_cpus: here.to_string(),
                memory_bytes: (set.memory_bytes > 0).then_some(set.memory_bytes),
                kind: set.kind,
                shared: set.shared,
                users: set.users.clone(),
                owner: self.names.known(set.owner_uid),
                jobs: self.jobs_in(&set.name).filter(mine).collect(),
                made_s: seconds(set.made_us),
                expires_s: set.hold_us.map(|hold_us| seconds(set.used_us.saturating_add(hold_us))),
                own_nodes: self.own_nodes.view(&set.name),
            }
        };
        SetsView { version: VERSION, sets: self.sets.sets.iter().map(view).collect() }
    }

    /// Checks what a job says of a set: that there is one, that its user may use it, that it fits.
    pub(crate) fn admit_set(&self, user: Peer, spec: &JobSpec) -> Result<(), Refusal> {
        let Some(layout) = &spec.layout else { return Ok(()) };
        let Some(name) = &layout.set else { return Ok(()) };
        let refuse = |text: String| Err(usage(format!("--in {name}: {text}")));
        let Some(set) = self.sets.named(name) else {
            return refuse("there is no such set (`pinfold sets` lists those there are)".to_owned());
        };
        if set.kind == SetKind::Isolated {
            return refuse("its cores are for one job alone".to_owned());
        }
        if set.kind == SetKind::Housekeeping {
            return refuse("its cores are for the host itself, not for jobs".to_owned());
        }
        let config = &self.configured.config;
        // A user without an account has no name by which it could be among the users.
        let own = set.kind == SetKind::Idle && set.owner_uid == user.uid;
        let is_for = |users: &[String]| users.is_empty() || rights::named(users, user.uid);
        if !own && !rights::is_operator(config, user) && !is_for(&set.users) {
            return Err(denied(&format!("--in {name}: the set is for others ({})", set.users.join(", "))));
        }
        if self.is_retiring(set) {
            return Err((ErrorCode::Refused, format!("--in {name}: {}", bounded::RETIRED)));
        }
        if spec.class == Some(JobClass::Backfill) && set.is_kept() {
            return refuse(
                "jobs in a set have cores of their own, so --backfill has no meaning there".to_owned(),
            );
        }
        if spec.class == Some(JobClass::Exclusive) && set.shared {
            return refuse("--exclusive takes the whole host, and the set is a part of it".to_owned());
        }
        let cpus = set.cpus.intersection(&self.usable());
        let cores = self.topology.cores_within(&cpus).len();
        if spec.cores as usize > cores {
            return Err((
                ErrorCode::Refused,
                format!("--in {name}: the job needs {} cores and the set has {cores}", spec.cores),
            ));
        }
        let named: CpuSet = layout.cpus.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default();
        let strange = named.difference(&cpus);
        if !strange.is_empty() {
            return refuse(format!("PU {strange} is not in the set, which has {cpus}"));
        }
        Ok(())
    }

    /// A job's request, as the judgement takes it.
    pub(crate) fn request(&self, row: &JobRow) -> Request {
        let (job, spec) = (row.job, &row.spec);
        let mut request = crate::live::request(row);
        request.after = self.predecessors(&spec.after);
        request.kind = self.kind(row.uid, spec);
        if crate::isolated::is_isolated(spec) {
            request.aside = Some(isolated_set(job));
            return request;
        }
        if let Some(cpus) = crate::allocation::cpus(spec) {
            request.wish.get_or_insert_default().within = cpus;
        }
        let Some(name) = spec.layout.as_ref().and_then(|layout| layout.set.as_ref()) else { return request };
        match self.sets.named(name) {
            Some(set) if set.shared => {
                let within = &mut request.wish.get_or_insert_default().within;
                *within = if within.is_empty() { set.cpus.clone() } else { within.intersection(&set.cpus) };
            }
            _ => request.aside = Some(name.clone()),
        }
        request
    }

    /// The machine without what is set aside, and the sets.
    pub(crate) fn with_sets(&self, within: &CpuSet) -> Machine {
        // What shares a core with an isolated job is its too, though it was off line when the set was made.
        let whole = |set: &Set| match set.kind {
            SetKind::Isolated => whole_cores(&self.topology, &set.cpus),
            _ => set.cpus.clone(),
        };
        let kept = self.sets.sets.iter().filter(|set| set.is_kept()).map(whole);
        let kept = kept.fold(CpuSet::new(), |all, cpus| all.union(&cpus));
        let mut machine = Machine::of(&self.topology, &within.difference(&kept));
        for set in self.sets.sets.iter().filter(|set| set.is_kept() && set.kind != SetKind::Housekeeping) {
            let cpus = whole(set).intersection(within);
            if cpus.is_empty() {
                continue;
            }
            let Machine { cores, topology, .. } = Machine::of(&self.topology, &cpus);
            let (name, memory_bytes) = (set.name.clone(), set.memory_bytes);
            machine.asides.push(Aside { name, cores, topology, memory_bytes });
        }
        machine
    }

    /// All PUs that some job may use.
    pub(crate) fn cpus_for_jobs(&self) -> CpuSet {
        let machine = self.policy.machine();
        let in_sets = machine.asides.iter().flat_map(|set| &set.cores);
        machine.cores.iter().chain(in_sets).fold(CpuSet::new(), |all, core| all.union(core))
    }

    /// Adds a set; where it cannot be written down it is there all the same, and gone after a restart.
    pub(crate) fn add_set(&mut self, set: Set) -> Result<(), Refusal> {
        let mut sets = self.sets.sets.clone();
        sets.push(set);
        let kept = self.sets.replace(sets.clone());
        if kept.is_err() {
            self.sets.sets = sets;
        }
        kept
    }

    /// Takes sets away.
    pub(crate) fn drop_sets(&mut self, goes: impl Fn(&Set) -> bool) {
        let left: Vec<Set> = self.sets.sets.iter().filter(|set| !goes(set)).cloned().collect();
        if left.len() == self.sets.sets.len() {
            return;
        }
        if let Err((_, error)) = self.sets.replace(left.clone()) {
            tracing::warn!(
                error,
                "sets that went will be back after a restart, until it is seen whose they were"
            );
            self.sets.sets = left;
        }
        self.sets_changed();
    }

    pub(crate) fn sets_changed(&mut self) {
        self.look_up_reserved();
        let machine = self.machine();
        if *self.policy.machine() != machine {
            self.judge(Judged::Machine(machine));
        }
        self.look_at_own_nodes();
    }

    /// The PUs that jobs and sets may be on.
    pub(crate) fn usable(&self) -> CpuSet {
        let usable = self.topology.usable();
        self.configured.config.host_cpus.as_ref().map_or(usable.clone(), |set| set.intersection(&usable))
    }

    fn jobs_in(&self, name: &str) -> impl Iterator<Item = u64> {
        let is_in = |live: &crate::live::Live| live.row.set().as_deref() == Some(name);
        self.jobs
            .values()
            .filter(move |live| is_in(live))
            .map(|live| live.row.job)
            .collect::<Vec<_>>()
            .into_iter()
    }

    fn free_name(&self, name: &str) -> Result<String, Refusal> {
        let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let begins_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if name.starts_with("isolated-") {
            return Err(usage(format!("{name}: names that begin so are for sets of isolated jobs")));
        }
        if !begins_well || name.len() > 32 || !name.chars().all(fine) {
            let text = "a set's name is up to 32 letters, digits, `-`, `_` and `.`, a letter or digit first";
            return Err(usage(format!("`{}`: {text}", name.escape_debug())));
        }
        if self.sets.named(name).is_some() {
            return Err(usage(format!(
                "there is a set {name} already; `pinfold set-aside {name} --remove` first"
            )));
        }
        Ok(name.to_owned())
    }

    fn made_name(&self) -> String {
        // A job that still names a set which went must not come into the next one, which may be another user's.
        let mut names = (1u32..).map(|number| format!("idle-{number}"));
        let asked = |live: &crate::live::Live| live.row.set();
        let asked: BTreeSet<String> = self.jobs.values().filter_map(|live| asked(live)).collect();
        names
            .find(|name| self.sets.named(name).is_none() && !asked.contains(name))
            .expect("there are fewer sets and jobs than numbers")
    }

    /// The PUs for a new set; `None`: not so many cores are idle.
    fn cpus_for_set(&self, asked: &SetAside) -> Result<Option<CpuSet>, Refusal> {
        let usable = self.usable();
        let kept = self.sets.kept();
        let cpus = match (&asked.cpus, asked.cores) {
            (Some(text), None) => {
                let cpus: CpuSet = text.parse().map_err(|error| usage(format!("--cpus {text}: {error}")))?;
                if cpus.is_empty() {
                    return Err(usage("--cpus: a set needs at least one PU".to_owned()));
                }
                let strange = cpus.difference(&usable);
                if !strange.is_empty() {
                    return Err(usage(format!(
                        "--cpus {text}: jobs have no PU {strange} here; they have {usable}"
                    )));
                }
                let other = self
                    .sets
                    .sets
                    .iter()
                    .find(|set| (set.is_kept() || !asked.shared) && !set.cpus.is_disjoint(&cpus));
                if let Some(other) = other {
                    let both = other.cpus.intersection(&cpus);
                    return Err(usage(format!(
                        "--cpus {text}: PU {both} is in the set {} already",
                        other.name
                    )));
                }
                cpus
            }
            (None, Some(count)) => match self.choose_cores(count as usize, asked)? {
                Some(cpus) => cpus,
                None => return Ok(None),
            },
            _ => return Err(usage("a set is made of --cpus or of --cores".to_owned())),
        };
        if !asked.shared && usable.difference(&kept).difference(&cpus).is_empty() {
            let text = format!(
                "a set of {cpus} would leave no core for jobs outside of it; --shared keeps none from them"
            );
            return if asked.name.is_none() { Ok(None) } else { Err((ErrorCode::Refused, text)) };
        }
        Ok(Some(cpus))
    }

    /// Cores close together that are in no set: idle ones, or if it has a name any, as far as idle ones do not do.
    fn choose_cores(&self, count: usize, asked: &SetAside) -> Result<Option<CpuSet>, Refusal> {
        let taken = self.sets.sets.iter().fold(CpuSet::new(), |all, set| all.union(&set.cpus));
        let union = |cores: &[CpuSet]| cores.iter().fold(CpuSet::new(), |all, core| all.union(core));
        let idle = union(&self.policy.idle_cores()).difference(&taken);
        let any = union(&self.policy.machine().cores).difference(&taken);
        let left = self.node_room();
        let pick = |free: &CpuSet| {
            let topology = self.topology.clone().restricted(free);
            let room = Room { topology: &topology, free, memory_free_bytes: &left, bandwidth_left: &[] };
            // Beside memory that is free, if there is so much beside so many cores.
            let near = Demand { memory_bytes: asked.memory_bytes.unwrap_or(0), ..Demand::default() };
            let placed = [near, Demand::default()]
                .iter()
                .find_map(|demand| pack::pack(&room, &Demand { cores: count, ..*demand }));
            placed.map(|placement| placement.pus())
        };
        match (pick(&idle), &asked.name) {
            (Some(cpus), _) => Ok(Some(cpus)),
            (None, None) => Ok(None),
            (None, Some(_)) => pick(&any).map(Some).ok_or_else(|| {
                let free = self.topology.cores_within(&any).len();
                (ErrorCode::Refused, format!("--cores {count}: the host has {free} that are in no set"))
            }),
        }
    }

    fn check_memory(&self, asked: &SetAside) -> Result<(), Refusal> {
        let Some(wanted) = asked.memory_bytes else { return Ok(()) };
        if asked.shared || asked.housekeeping {
            return Err(usage("--memory is for sets whose cores are for their jobs alone".to_owned()));
        }
        let promised = self.sets.sets.iter().map(|set| set.memory_bytes).fold(0, u64::saturating_add);
        let left = self.budget_bytes().saturating_sub(promised);
        if wanted > left {
            let text = format!(
                "--memory {}: {} are left to be set aside",
                pinfold_proto::quantity::show_size(wanted),
                pinfold_proto::quantity::show_size(left)
            );
            return Err((ErrorCode::Refused, text));
        }
        Ok(())
    }
}

pub(crate) fn usage(text: String) -> Refusal {
    (ErrorCode::Usage, text)
}
