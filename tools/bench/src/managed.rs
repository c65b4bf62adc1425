//! Real workload managers as launchers: each on loopback in a directory of its own, with as many slots as there are
//! cores, with twice as many, or with twice as many and pinfold's hooks.
//!
//! Owns the process that runs `tools/bench/peers/wlm.sh`, which starts and ends the manager's daemons by the same functions
//! as `make wlm` does. Absent here: installing them (`scripts/setup.sh --bench`).

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::daemon::{Binaries, Daemon};
use crate::machine::allowed;
use crate::ordered::Ordered;
use crate::way::installed;

const SCRIPT: &str =
    concat!(include_str!("../../../scripts/wlm/managers.sh"), include_str!("../peers/wlm.sh"));

/// A manager's daemons may take that long to end.
const PATIENCE: Duration = Duration::from_secs(300);

/// A workload manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Manager {
    /// Slurm
    Slurm,
    /// Grid Engine
    Gridengine,
}

/// The number of jobs on the host, and whether pinfold manages them there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// One job a core.
    Once,
    /// Two a core.
    Twice,
    /// Two a core, with pinfold's hooks.
    Pinfold,
}

impl Manager {
    fn word(self) -> &'static str {
        match self {
            Self::Slurm => "slurm",
            Self::Gridengine => "gridengine",
        }
    }

    /// Why it cannot be used here, or `None`.
    pub(crate) fn missing(self, sent: Sent, binaries: Option<&Binaries>) -> Option<&'static str> {
        if sent == Sent::Pinfold && binaries.is_none() {
            return Some("pinfold and pinfoldd are not built");
        }
        match self {
            Self::Slurm
                if !["munged", "srun"].into_iter().all(installed) || !below("/usr/sbin/slurmctld") =>
            {
                Some("Slurm is not installed (apt: slurmctld slurmd slurm-client munge)")
            }
            Self::Slurm if sent == Sent::Pinfold && !below("/usr/include/slurm/spank.h") => {
                Some("the headers of Slurm are not installed (apt: libslurm-dev)")
            }
            Self::Gridengine if !rustix::process::getuid().is_root() => Some("only root can run Grid Engine"),
            Self::Gridengine if !below("/usr/lib/gridengine/sge_qmaster") => Some(
                "Grid Engine is not installed (apt: gridengine-master gridengine-exec gridengine-client)",
            ),
            _ => None,
        }
    }
}

fn below(path: &str) -> bool {
    Path::new(path).exists()
}

impl Sent {
    fn word(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Twice => "twice",
            Self::Pinfold => "pinfold",
        }
    }

    /// The way in words.
    pub(crate) fn title(self, manager: Manager) -> &'static str {
        match (manager, self) {
            (Manager::Slurm, Self::Once) => "Slurm, one a core",
            (Manager::Slurm, Self::Twice) => "Slurm, FORCE:2",
            (Manager::Slurm, Self::Pinfold) => "Slurm, FORCE:2, pinfold",
            (Manager::Gridengine, Self::Once) => "Grid Engine, a slot a core",
            (Manager::Gridengine, Self::Twice) => "Grid Engine, two slots a core",
            (Manager::Gridengine, Self::Pinfold) => "Grid Engine, two slots a core, pinfold",
        }
    }
}

/// A manager that is up.
#[derive(Debug)]
pub(crate) struct Managed(Ordered);

impl Managed {
    /// Starts it with its files below `scratch`, and waits until it accepts jobs.
    pub(crate) fn start(
        manager: Manager,
        sent: Sent,
        scratch: &Path,
        daemon: Option<&Daemon>,
    ) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("manager-").tempdir_in(scratch)?.keep();
        let mut command = Command::new("bash");
        command.args(["-c", SCRIPT, "wlm", manager.word(), sent.word()]).arg(&directory);
        command.arg(allowed().len().to_string());
        if let Some(daemon) = daemon {
            command.arg(daemon.program()).arg(daemon.socket());
        }
        command.current_dir(&directory);
        command.stderr(std::fs::File::create(directory.join("said"))?);
        match Ordered::start("the workload manager", command, PATIENCE) {
            Ok(ordered) => Ok(Self(ordered)),
            Err(error) => {
                let said = std::fs::read_to_string(directory.join("said")).unwrap_or_default();
                let lines: Vec<&str> = said.lines().collect();
                let last = lines[lines.len().saturating_sub(4)..].join(" / ");
                Err(error.context(format!("{} did not start: {last}", sent.title(manager))))
            }
        }
    }

    /// The process that ends all of it on request.
    pub(crate) fn pid(&self) -> Option<rustix::process::Pid> {
        self.0.pid()
    }

    /// Runs each line of `file` as a job, and returns when the manager has none left.
    pub(crate) fn run(&mut self, file: &Path) -> anyhow::Result<()> {
        self.0.order(&format!("run {}", file.display()))
    }
}
