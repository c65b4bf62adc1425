//! `--distribution`: how tasks are dealt out over hosts, sockets and cores.

use super::error::OptionError;

/// How tasks are dealt out over hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum OverHosts {
    /// Consecutive tasks share a host.
    Block,
    /// Consecutive tasks go to consecutive hosts.
    Cyclic,
    /// Blocks of so many tasks go to consecutive hosts.
    Plane(usize),
    /// Each task on the host that a list names.
    Arbitrary,
}

/// How tasks are dealt out within a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Within {
    /// Consecutive tasks share a socket (a core).
    Block,
    /// Consecutive tasks go to consecutive sockets (cores), each task within a single socket (core).
    Cyclic,
    /// As [`Within::Cyclic`], for the PUs of a task too.
    FullCyclic,
}

/// The value of `--distribution`; `None` where absent or `*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Distribution {
    /// Over hosts.
    pub hosts: Option<OverHosts>,
    /// Over the sockets of a host.
    pub sockets: Option<Within>,
    /// Over the cores of a socket.
    pub cores: Option<Within>,
    /// `Pack` or `NoPack`: fill hosts in order, or share tasks out evenly.
    pub pack: Option<bool>,
}

impl Distribution {
    /// Reads `{*|block|cyclic|plane=N|arbitrary}[:{*|block|cyclic|fcyclic}[:{...}]][,{Pack|NoPack}]`.
    pub(super) fn parse(option: &str, value: &str) -> Result<Self, OptionError> {
        let bad = || OptionError::Value { option: option.to_owned(), value: value.to_owned() };
        let (levels, pack) = match value.split_once(',') {
            None => (value, None),
            Some((levels, word)) if word.eq_ignore_ascii_case("pack") => (levels, Some(true)),
            Some((levels, word)) if word.eq_ignore_ascii_case("nopack") => (levels, Some(false)),
            Some(_) => return Err(bad()),
        };
        let mut levels = levels.split(':');
        let hosts = match levels.next().unwrap_or_default() {
            "*" => None,
            "block" => Some(OverHosts::Block),
            "cyclic" => Some(OverHosts::Cyclic),
            "arbitrary" => Some(OverHosts::Arbitrary),
            plane => {
                let size = plane.strip_prefix("plane=").ok_or_else(bad)?;
                let size = size.parse().ok().filter(|size| (1..=1 << 20).contains(size));
                Some(OverHosts::Plane(size.ok_or_else(bad)?))
            }
        };
        let mut within = || match levels.next() {
            None | Some("*") => Ok(None),
            Some("block") => Ok(Some(Within::Block)),
            Some("cyclic") => Ok(Some(Within::Cyclic)),
            Some("fcyclic") => Ok(Some(Within::FullCyclic)),
            Some(_) => Err(bad()),
        };
        let (sockets, cores) = (within()?, within()?);
        if levels.next().is_some() {
            return Err(bad());
        }
        Ok(Self { hosts, sockets, cores, pack })
    }

    /// Whether consecutive tasks share a socket: by request, and in planes.
    pub(super) fn by_socket_blocks(&self) -> bool {
        self.sockets == Some(Within::Block)
            || (self.sockets.is_none() && matches!(self.hosts, Some(OverHosts::Plane(_))))
    }
}
