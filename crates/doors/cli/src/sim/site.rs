//! The machine of each host, where the options or this host say more of it than a number of cores.

use std::path::Path;

use pinfold_proto::ExitCode;
use pinfold_proto::config::Config;
use pinfold_sys::discover;
use pinfold_sys::procfs::Proc;
use pinfold_topo::Topology;
use pinfold_topo::spec::Source;

use super::SimArgs;
use super::input::Input;
use pinfold_client::Failure;

/// See the module's page.
#[derive(Debug, Default)]
pub(super) struct Site {
    /// How the cores lie; `None`: nothing is known but their number.
    pub topology: Option<Topology>,
    /// Cores of this host, where the jobs are played on it or a part of it.
    pub own_cores: Option<usize>,
    /// RAM and swap of this host, if the jobs are played on it.
    pub memory: Option<(u64, u64)>,
}

impl Site {
    /// A log brings its own number of processors; anything else is played on this host, unless the options say other.
    pub(super) fn look(args: &SimArgs, input: &Input, config: &Config) -> Result<Self, Failure> {
        let looked = |error: &dyn std::error::Error| Failure::doing("failed to look at the machine", error);
        if let Some(text) = &args.topology {
            let source =
                Source::parse("--topology", text).map_err(|error| Failure::new(ExitCode::Usage, error))?;
            let survey = discover::from_source(&source).map_err(|error| looked(&error))?;
            return Ok(Self { topology: Some(survey.topology), ..Self::default() });
        }
        if input.is_log() {
            return Ok(Self::default());
        }
        let mut own_cores = None;
        let topology = match args.cores {
            Some(_) => None,
            None => {
                let whole = discover::survey().map_err(|error| looked(&error))?.topology;
                own_cores = Some(whole.cores_within(&whole.usable()).len());
                let within = config.host_cpus.as_ref().filter(|pus| !pus.is_disjoint(&whole.usable()));
                Some(match within {
                    Some(pus) => whole.restricted(pus),
                    None => whole,
                })
            }
        };
        let info = Proc::open(Path::new("/proc"))
            .and_then(|proc| proc.memory_info())
            .map_err(|error| looked(&error))?;
        Ok(Self { topology, own_cores, memory: Some((info.total_bytes, info.swap_total_bytes)) })
    }
}
