//! Clients: connections, users, what each may do and may make the daemon hold, and long answers.
//!
//! Connections: `server`, `waiters`, `again` (requests tried later). Users: `names` with `lookup`, `rights`,
//! `projects`, `vouch`.
//! Bounds: `cost` (of a request), `quota` (of a user), `places` (in the queue). Answers in parts: `pieces`,
//! `looks`, `past`, `doctor`.
//! Records: `audit`, `config_file`.

pub(crate) mod again;
pub(crate) mod audit;
pub(crate) mod config_file;
pub(crate) mod cost;
pub(crate) mod doctor;
pub(crate) mod looks;
pub(crate) mod lookup;
pub(crate) mod names;
pub(crate) mod past;
pub(crate) mod pieces;
pub(crate) mod places;
pub(crate) mod projects;
pub(crate) mod quota;
pub(crate) mod rights;
pub(crate) mod server;
pub(crate) mod vouch;
pub(crate) mod waiters;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use pinfold_proto::row::ProcessId;

use crate::clients::again::Again;
use crate::clients::audit::Audit;
use crate::clients::looks::Looks;
use crate::clients::names::Names;
use crate::clients::pieces::Pieces;
use crate::clients::places::InQueue;
use crate::clients::server::Server;
use crate::clients::waiters::Waiters;
use crate::core::ConnectionId;
use crate::host::allocation::Askers;
use crate::jobs::arrays::Arriving;

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) server: Server,
    /// Names and numbers of users.
    pub(crate) names: Names,
    /// Requests that are tried again.
    pub(crate) again: Again,
    pub(crate) audit: Audit,
    /// Long answers under way.
    pub(crate) pieces: Pieces,
    /// Questions about many jobs, under way.
    pub(crate) looks: Looks,
    /// Those that wait until jobs are over.
    pub(crate) waiters: Waiters,
    /// The processes at the other ends, as far as they keep jobs.
    pub(crate) keepers: BTreeMap<ConnectionId, ProcessId>,
    /// What the groups around them let them have.
    pub(crate) askers: Askers,
    /// The arrays whose members come over connections.
    pub(crate) arriving: Arriving,
    /// How many jobs of each user wait, and when that was counted.
    pub(crate) waiting: InQueue,
    /// Connections of which not all was heard that they said.
    pub(crate) backlog: BTreeSet<ConnectionId>,
    /// What users should know before anything else.
    pub(crate) warnings: Vec<String>,
}

impl Clients {
    /// Those of this socket.
    pub(crate) fn new(server: Server, audit: Audit, warnings: Vec<String>) -> anyhow::Result<Self> {
        Ok(Self {
            server,
            again: Again::default(),
            names: Names::new().context("failed to make a pair of sockets")?,
            audit,
            pieces: Pieces::default(),
            looks: Looks::default(),
            waiters: Waiters::default(),
            keepers: BTreeMap::new(),
            askers: Askers::default(),
            arriving: BTreeMap::new(),
            waiting: InQueue::default(),
            backlog: BTreeSet::new(),
            warnings,
        })
    }

    /// A connection is at its end: all that is kept for it goes. Gives the process that kept jobs over it.
    pub(crate) fn forget(&mut self, id: ConnectionId) -> Option<ProcessId> {
        self.server.close(id);
        self.backlog.remove(&id);
        self.names.forget(id);
        self.again.forget(id);
        self.arriving.remove(&id);
        self.askers.forget(id);
        self.waiters.forget(id);
        self.pieces.forget(id);
        self.looks.forget(id);
        self.keepers.remove(&id)
    }
}
