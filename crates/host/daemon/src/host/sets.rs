//! Cores that are set aside: who may make sets and use them, which cores they are made of, and how they last.
//!
//! Owns `sets.json` in the state directory, written whole at each change before the change has its effect. A set is
//! exclusive (the scheduler keeps other jobs off its cores), shared (its jobs stay within it, others may be there too)
//! or for housekeeping (no job is on it). Absent: which job is where, which is the scheduler's; what a user who is no
//! operator may reserve, and when sets of idle cores go (`bounded`).

mod bounded;
mod made;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pinfold_policy::isolation::whole_cores;
use pinfold_policy::{Aside, Machine, Policy, Request};
use pinfold_proto::job::isolated_set;
use pinfold_proto::row::JobRow;
use pinfold_proto::view::{SetAsideView, SetKind, SetsView, VERSION, seconds};
use pinfold_proto::wire::ErrorCode;
use pinfold_proto::{JobClass, JobSpec};
use pinfold_sys::files;
use pinfold_sys::peer::Peer;
use pinfold_topo::CpuSet;
use serde::{Deserialize, Serialize};

pub(crate) use bounded::may_ask;

use crate::clients::names::Names;
use crate::clients::rights;
use crate::core::{Ctx, Next, Outbox, Refusal, denied, usage};
use crate::host::own_nodes::OwnNodes;
use crate::jobs::JobTable;
use crate::meters::learn::{self, Learned};

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
        let sets = match files::read_regular(&path) {
            // Without it jobs would be put on cores that were set aside: that is for an operator to decide.
            Ok(text) => serde_json::from_slice(&text).with_context(|| {
                format!(
                    "{} does not hold sets of cores; put a copy of it back, or remove it and make the sets anew \
                     (`pinfold set-aside`)",
                    path.display()
                )
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).with_context(|| format!("failed to read {}", path.display())),
        };
        Ok(Self { path, sets, rate: bounded::Rate::default() })
    }

    /// All of them, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Set> {
        self.sets.iter()
    }

    /// The users that each is for, and its owner.
    pub(crate) fn users(&self) -> impl Iterator<Item = (&[String], u32)> {
        self.sets.iter().map(|set| (set.users.as_slice(), set.owner_uid))
    }

    /// The one of this name.
    pub(crate) fn named(&self, name: &str) -> Option<&Set> {
        self.sets.iter().find(|set| set.name == name)
    }

    /// The PUs of the sets that jobs outside of them may not use.
    pub(crate) fn kept(&self) -> CpuSet {
        self.sets.iter().filter(|set| set.is_kept()).fold(CpuSet::new(), |all, set| all.union(&set.cpus))
    }

    /// Makes one more, if it can be written.
    pub(crate) fn make(&mut self, set: Set) -> Result<(), Refusal> {
        let mut sets = self.sets.clone();
        sets.push(set);
        self.replace(sets)
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

impl Sets {
    /// Checks whether a user may remove a set, and now.
    pub(crate) fn may_remove(
        &self,
        ctx: &Ctx,
        table: &JobTable,
        user: Peer,
        name: &str,
    ) -> Result<(), Refusal> {
        let set = self.named(name).ok_or_else(|| usage(format!("there is no set {name}")))?;
        if set.kind == SetKind::Isolated {
            return Err((ErrorCode::Refused, format!("the set {name} is a job's, and goes with it")));
        }
        if set.owner_uid != user.uid || set.kind != SetKind::Idle {
            rights::operators_only(ctx, user, "giving back cores that others set aside")?;
        }
        if let Some(job) = jobs_in(table, name).next() {
            let text = format!("job {job} is in the set {name} or waits for it; end it first");
            return Err((ErrorCode::Refused, text));
        }
        Ok(())
    }

    /// Removes one, if that can be written.
    pub(crate) fn remove(&mut self, name: &str) -> Result<(), Refusal> {
        let left = self.sets.iter().filter(|set| set.name != name).cloned().collect();
        self.replace(left)
    }

    /// `pinfold sets`.
    pub(crate) fn sets_view(
        &self,
        ctx: &Ctx,
        table: &JobTable,
        names: &Names,
        own_nodes: &OwnNodes,
        user: Peer,
    ) -> SetsView {
        let config = &ctx.configured.config;
        let usable = usable(ctx);
        let view = |set: &Set| {
            let here = set.cpus.intersection(&usable);
            let mine = |job: &u64| {
                let live = table.get(&pinfold_policy::JobId(*job));
                live.is_some_and(|live| rights::may_touch(config, user, &live.row))
            };
            SetAsideView {
                set: set.name.clone(),
                cpus: set.cpus.to_string(),
                cores: ctx.topology.cores_within(&here).len() as u64,
                usable_cpus: here.to_string(),
                memory_bytes: (set.memory_bytes > 0).then_some(set.memory_bytes),
                kind: set.kind,
                shared: set.shared,
                users: set.users.clone(),
                owner: names.known(set.owner_uid),
                jobs: jobs_in(table, &set.name).filter(mine).collect(),
                made_s: seconds(set.made_us),
                expires_s: set.hold_us.map(|hold_us| seconds(set.used_us.saturating_add(hold_us))),
                own_nodes: own_nodes.view(&set.name),
            }
        };
        SetsView { version: VERSION, sets: self.sets.iter().map(view).collect() }
    }

    /// Checks what a job says of a set: that there is one, that its user may use it, that it fits.
    pub(crate) fn admit_set(
        &self,
        ctx: &Ctx,
        table: &JobTable,
        user: Peer,
        spec: &JobSpec,
    ) -> Result<(), Refusal> {
        let Some(layout) = &spec.layout else { return Ok(()) };
        let Some(name) = &layout.set else { return Ok(()) };
        let refuse = |text: String| Err(usage(format!("--in {name}: {text}")));
        let Some(set) = self.named(name) else {
            return refuse("there is no such set (`pinfold sets` lists those there are)".to_owned());
        };
        if set.kind == SetKind::Isolated {
            return refuse("its cores are for one job alone".to_owned());
        }
        if set.kind == SetKind::Housekeeping {
            return refuse("its cores are for the host itself, not for jobs".to_owned());
        }
        let config = &ctx.configured.config;
        // A user without an account has no name by which it could be among the users.
        let own = set.kind == SetKind::Idle && set.owner_uid == user.uid;
        let is_for = |users: &[String]| users.is_empty() || rights::named(users, user.uid);
        if !own && !rights::is_operator(config, user) && !is_for(&set.users) {
            return Err(denied(&format!("--in {name}: the set is for others ({})", set.users.join(", "))));
        }
        if bounded::is_retiring(ctx, table, set) {
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
        let cpus = set.cpus.intersection(&usable_in_time(ctx));
        let cores = ctx.topology.cores_within(&cpus).len();
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

    /// A job's request, as the scheduler takes it.
    pub(crate) fn request(&self, ctx: &Ctx, table: &JobTable, learned: &Learned, row: &JobRow) -> Request {
        let (job, spec) = (row.job, &row.spec);
        let mut request = crate::jobs::record::request(row);
        request.after = table.predecessors(&spec.after);
        request.kind = learn::kind_of(ctx, row.uid, spec);
        request.expected = learned.expected(row);
        if crate::jobs::record::is_isolated(spec) {
            request.aside = Some(isolated_set(job));
            return request;
        }
        if let Some(cpus) = crate::jobs::record::allocated_cpus(spec) {
            request.wish.get_or_insert_default().within = cpus;
        }
        let Some(name) = spec.layout.as_ref().and_then(|layout| layout.set.as_ref()) else { return request };
        match self.named(name) {
            Some(set) if set.shared => {
                let within = &mut request.wish.get_or_insert_default().within;
                *within = if within.is_empty() { set.cpus.clone() } else { within.intersection(&set.cpus) };
            }
            _ => request.aside = Some(name.clone()),
        }
        request
    }

    /// The machine without what is set aside, and the sets.
    pub(crate) fn with_sets(&self, ctx: &Ctx, within: &CpuSet) -> Machine {
        // What shares a core with an isolated job is its too, though it was off line when the set was made.
        let whole = |set: &Set| match set.kind {
            SetKind::Isolated => whole_cores(&ctx.topology, &set.cpus),
            _ => set.cpus.clone(),
        };
        let kept = self.sets.iter().filter(|set| set.is_kept()).map(whole);
        let kept = kept.fold(CpuSet::new(), |all, cpus| all.union(&cpus));
        let mut machine = Machine::of(&ctx.topology, &within.difference(&kept));
        let in_time = ctx.topology.cores_within(&usable_in_time(ctx).difference(&kept)).len();
        machine.neighbours_cores = in_time.saturating_sub(machine.cores.len());
        for set in self.sets.iter().filter(|set| set.is_kept() && set.kind != SetKind::Housekeeping) {
            let cpus = whole(set).intersection(within);
            if cpus.is_empty() {
                continue;
            }
            let Machine { cores, topology, .. } = Machine::of(&ctx.topology, &cpus);
            let (name, memory_bytes) = (set.name.clone(), set.memory_bytes);
            let passes = set.kind == SetKind::Isolated || set.hold_us.is_some();
            machine.asides.push(Aside { name, cores, topology, memory_bytes, passes });
        }
        machine
    }

    /// Adds a set; where it cannot be written down it is there all the same, and gone after a restart.
    pub(crate) fn add_set(&mut self, set: Set) -> Result<(), Refusal> {
        let mut sets = self.sets.clone();
        sets.push(set);
        let kept = self.replace(sets.clone());
        if kept.is_err() {
            self.sets = sets;
        }
        kept
    }

    /// Takes sets away.
    pub(crate) fn remove_where(&mut self, out: &mut Outbox, goes: impl Fn(&Set) -> bool) {
        let left: Vec<Set> = self.sets.iter().filter(|set| !goes(set)).cloned().collect();
        if left.len() == self.sets.len() {
            return;
        }
        if let Err((_, error)) = self.replace(left.clone()) {
            tracing::warn!(
                error,
                "sets that went will be back after a restart, until it is seen whose they were"
            );
            self.sets = left;
        }
        out.then(Next::SetsChanged);
    }

    /// The cores that jobs may use, as the scheduler wants them.
    pub(crate) fn machine(&self, ctx: &Ctx) -> Machine {
        self.with_sets(ctx, &usable(ctx))
    }
}

/// All PUs that some job may use.
pub(crate) fn cpus_for_jobs(policy: &Policy) -> CpuSet {
    let machine = policy.machine();
    let in_sets = machine.asides.iter().flat_map(|set| &set.cores);
    machine.cores.iter().chain(in_sets).fold(CpuSet::new(), |all, core| all.union(core))
}

/// The PUs that jobs and sets may be on once no other user's daemon has jobs. A refusal is decided by these.
pub(crate) fn usable_in_time(ctx: &Ctx) -> CpuSet {
    let usable = ctx.topology.usable();
    ctx.configured.config.host_cpus.as_ref().map_or(usable.clone(), |set| set.intersection(&usable))
}

/// The PUs that jobs and sets may be on now.
pub(crate) fn usable(ctx: &Ctx) -> CpuSet {
    let within = usable_in_time(ctx);
    if ctx.share.is_whole() {
        return within;
    }
    ctx.share.pus(&ctx.topology.cores_within(&ctx.topology.usable()), &within)
}

/// What to say when `host.cpus` names PUs that are not there: one configuration may be for hosts of several sizes.
pub(crate) fn cpus_warning(ctx: &Ctx) -> Option<String> {
    let wanted = ctx.configured.config.host_cpus.as_ref()?;
    let there = ctx.topology.usable();
    let beyond = wanted.difference(&there);
    (!beyond.is_empty()).then(|| {
        format!("`host.cpus` is {wanted}, and of those there are no {beyond} here: jobs get {}", usable(ctx))
    })
}

pub(crate) fn jobs_in(table: &JobTable, name: &str) -> impl Iterator<Item = u64> {
    let is_in = |live: &crate::jobs::record::JobRecord| live.row.set().as_deref() == Some(name);
    table.values().filter(move |live| is_in(live)).map(|live| live.row.job).collect::<Vec<_>>().into_iter()
}
