//! The runs that stand beside each other: the parts of each, and a label that tells it from the others.

use clap::ValueEnum;
use pinfold_cluster::dispatch::Dispatch;
use pinfold_cluster::fleet::Fleet;
use pinfold_cluster::runtimes::Runtimes;
use pinfold_proto::ExitCode;
use pinfold_proto::config::{Config, ConfigError};
use pinfold_proto::quantity::{parse_size, parse_whole};
use pinfold_whatif::contention::Contention;
use pinfold_whatif::play::{Hardware, Hosts};

use super::calibration::Calibration;
use super::question::{Mem, Question};
use super::site::Site;
use super::{DispatchArg, HostPolicyArg, RuntimesArg, SimArgs};
use pinfold_client::Failure;

/// The keys that are options of their own as well.
const KEYS: &str = "dispatch, runtimes, hosts, cores, memory, swap, mem, host-policy, and those of the configuration \
                    (slots.factor ...)";
/// More hosts than this are not played.
pub(super) const HOSTS_MAX: u32 = 1_000_000;
/// A host of more cores than this is no host that pinfold runs on.
const CORES_MAX: u32 = 1024;
/// The default transfer rate of a swap device, a second.
const SWAP_RATE: u64 = 500 << 20;

/// The parts of a run, as the options give them.
#[derive(Debug, Clone)]
pub(super) struct Variant {
    pub label: String,
    dispatch: DispatchArg,
    runtimes: RuntimesArg,
    hosts: Option<u32>,
    cores: Option<u32>,
    memory: Option<u64>,
    swap: Option<u64>,
    swap_rate: Option<u64>,
    /// The calibration, and whether it applies to any host.
    calibration: Option<(Calibration, bool)>,
    pub question: Question,
    policy: Option<HostPolicyArg>,
    config: Config,
    /// A key of the configuration was set.
    configured: bool,
    /// Whether options name a workload manager's dispatch.
    dispatched: bool,
    log: bool,
}

impl Variant {
    /// The run that the options describe.
    fn base(args: &SimArgs, log: bool, calibration: Option<&(Calibration, bool)>, config: Config) -> Self {
        Self {
            label: String::new(),
            dispatch: args.dispatch.unwrap_or(DispatchArg::Easy),
            runtimes: args.runtimes.unwrap_or(RuntimesArg::Requested),
            hosts: args.hosts,
            cores: args.cores,
            memory: args.memory,
            swap: args.swap,
            swap_rate: args.swap_rate,
            calibration: calibration.cloned(),
            question: Question::default(),
            policy: args.host_policy,
            config,
            configured: false,
            dispatched: args.dispatch.is_some() || args.runtimes.is_some(),
            log,
        }
    }

    pub(super) fn rule(&self) -> Dispatch {
        match self.dispatch {
            DispatchArg::Fcfs => Dispatch::Fcfs,
            DispatchArg::Easy => Dispatch::Easy,
            DispatchArg::Shortest => Dispatch::ShortestFirst,
            DispatchArg::Conservative => Dispatch::Conservative,
        }
    }

    pub(super) fn estimates(&self) -> Runtimes {
        match self.runtimes {
            RuntimesArg::Requested => Runtimes::Requested,
            RuntimesArg::Perfect => Runtimes::Perfect,
            RuntimesArg::Learned => Runtimes::Learned,
        }
    }

    /// The hosts' scheduler: the given policy, or plain hosts for a log without pinfold's settings.
    fn policy(&self) -> HostPolicyArg {
        let usual = if self.log && !self.configured { HostPolicyArg::Plain } else { HostPolicyArg::Pinfold };
        self.policy.unwrap_or(usual)
    }

    /// Whether the hosts' control of jobs needs no simulation: plain hosts without swap start every job at once.
    pub(super) fn is_simple(&self) -> bool {
        self.policy() == HostPolicyArg::Plain && self.swap.is_none() && self.calibration().is_none()
    }

    /// Whether the simulated hosts differ from this host.
    fn is_elsewhere(&self) -> bool {
        self.hosts.is_some() || self.cores.is_some()
    }

    /// Whether users hand their jobs to the host itself: nothing that a workload manager has was named.
    fn is_own_host(&self) -> bool {
        !self.log && self.hosts.is_none() && !self.dispatched
    }

    /// The calibration of these hosts.
    pub(super) fn calibration(&self) -> Option<&Calibration> {
        let applies = |&&(_, named): &&(Calibration, bool)| named || !self.is_elsewhere();
        self.calibration.as_ref().filter(applies).map(|(calibration, _)| calibration)
    }

    fn cores(&self, site: &Site, in_log: Option<Option<u32>>) -> Result<u32, Failure> {
        let in_topology = || {
            let usable = |topology: &pinfold_topo::Topology| topology.cores_within(&topology.usable()).len();
            site.topology.as_ref().map(usable).and_then(|cores| u32::try_from(cores).ok())
        };
        let in_log = in_log.flatten().map(|processors| processors.div_ceil(self.hosts.unwrap_or(1)));
        self.cores.or_else(in_topology).or(in_log).ok_or_else(|| {
            let text = "its header does not say how many processors there are; say --cores N";
            Failure::new(ExitCode::Usage, text)
        })
    }

    /// RAM and swap of each host, if they are simulated.
    fn hardware(&self, site: &Site) -> Result<Option<Hardware>, Failure> {
        let own = site.memory.filter(|_| !self.is_elsewhere() && self.policy() == HostPolicyArg::Pinfold);
        let Some(ram) = self.memory.or(own.map(|(ram, _)| ram)) else {
            return match self.swap {
                Some(_) => {
                    Err(Failure::new(ExitCode::Usage, "--swap needs --memory: how much RAM each host has"))
                }
                None => Ok(None),
            };
        };
        let own_swap = own.filter(|_| self.memory.is_none()).map_or(0, |(_, swap)| swap);
        let swap = self.swap.unwrap_or(own_swap);
        let measured = |of: fn(&Calibration) -> Option<u64>| self.calibration().and_then(of);
        let rate = |measured: Option<u64>| self.swap_rate.or(measured).unwrap_or(SWAP_RATE).max(1);
        let out_rate = rate(measured(|calibration| calibration.swap_out_bytes_per_s));
        let in_rate = rate(measured(|calibration| calibration.swap_in_bytes_per_s));
        Ok(Some(Hardware { ram, swap, out_rate, in_rate }))
    }

    /// The contention of jobs on the hosts; `None`: not measured.
    pub(super) fn contention(&self) -> Option<Contention> {
        self.calibration().map(Calibration::contention)
    }

    /// The hosts, as they are simulated.
    pub(super) fn simulated(&self, site: &Site, cores: u32) -> Result<Hosts, Failure> {
        let hardware = self.hardware(site)?;
        let contention = self.contention();
        if self.policy() == HostPolicyArg::Plain {
            return Ok(Hosts { contention, ..Hosts::plain(hardware) });
        }
        if cores > CORES_MAX {
            let text =
                format!("a host of {cores} cores is more than pinfold is for ({CORES_MAX}); say --hosts N");
            return Err(Failure::new(ExitCode::Usage, text));
        }
        let topology = site.topology.as_ref().filter(|_| self.cores.is_none());
        Ok(Hosts { contention, ..Hosts::pinfold(&self.config, topology, cores, hardware) })
    }

    /// The hosts, as the dispatcher sees them; `in_log`: the processors that the log names, if the input is a log.
    pub(super) fn fleet(&self, site: &Site, in_log: Option<Option<u32>>) -> Result<Fleet, Failure> {
        let (hosts, cores) = (self.hosts.unwrap_or(1), self.cores(site, in_log)?);
        if self.is_simple() {
            let memory = self.memory;
            return Ok(Fleet { hosts, cores, slots: cores, memory, job_memory: u64::MAX });
        }
        let simulated = self.simulated(site, cores)?;
        if simulated.pinfold.is_some() && self.is_own_host() {
            let job_memory = simulated.hardware.map_or(u64::MAX, |hardware| hardware.ram);
            return Ok(Fleet::own_host(cores, job_memory));
        }
        let slots = simulated.slots(cores);
        // A plain host gets jobs that fit into its RAM; pinfold suspends jobs, as long as swap takes them.
        let swap = |hardware: &Hardware| if simulated.pinfold.is_some() { hardware.swap } else { 0 };
        let memory = simulated.hardware.map(|hardware| hardware.ram.saturating_add(swap(&hardware)));
        let job_memory = simulated.hardware.map_or(u64::MAX, |hardware| hardware.ram);
        Ok(Fleet { hosts, cores, slots, memory, job_memory })
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let count = |most: u32| parse_whole(value, &(1..=most)).map_err(|error| error.to_string());
        let size = || parse_size(value).map_err(|error| error.to_string());
        self.dispatched |= matches!(key, "dispatch" | "runtimes");
        match key {
            "dispatch" => self.dispatch = DispatchArg::from_str(value, false)?,
            "runtimes" => self.runtimes = RuntimesArg::from_str(value, false)?,
            "hosts" => self.hosts = Some(count(HOSTS_MAX)?),
            "cores" => self.cores = Some(count(u32::MAX)?),
            "memory" => self.memory = Some(size()?),
            "swap" => self.swap = Some(size()?),
            "mem" if self.log => return Err("what a log's jobs ask for is not changed".to_owned()),
            "mem" => self.question.mem = Mem::parse(value)?,
            "host-policy" => self.policy = Some(HostPolicyArg::from_str(value, false)?),
            _ => {
                let change = format!("{key}={value}");
                self.config = match self.config.with_changes([change.as_str()]) {
                    Ok((config, _)) => config,
                    Err(ConfigError::Unknown { .. }) if !key.contains('.') && key != "schedule" => {
                        return Err(format!("there is no key `{key}`; keys are {KEYS}"));
                    }
                    Err(error) => return Err(error.to_string()),
                };
                self.configured = true;
            }
        }
        Ok(())
    }

    /// Plain hosts were asked for, and a key that they do not have is set.
    fn is_contradictory(&self, args: &SimArgs) -> bool {
        args.host_policy == Some(HostPolicyArg::Plain)
            && self.configured
            && self.policy() == HostPolicyArg::Plain
    }
}

fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The requested runs: a run for each combination of the values compared.
pub(super) fn variants(
    args: &SimArgs,
    log: bool,
    calibration: Option<&(Calibration, bool)>,
    config: Config,
) -> Result<Vec<Variant>, Failure> {
    let mut base = Variant::base(args, log, calibration, config);
    for change in &args.set {
        let wrong = |text: String| Failure::new(ExitCode::Usage, format!("--set {change}: {text}"));
        let (key, value) =
            change.split_once('=').ok_or_else(|| wrong(format!("it takes KEY=VALUE; keys are {KEYS}")))?;
        base.set(key, value).map_err(wrong)?;
    }
    let mut variants = vec![base];
    for compared in &args.compare {
        let wrong = |text: String| Failure::new(ExitCode::Usage, format!("--compare {compared}: {text}"));
        let Some((key, values)) = compared.split_once('=') else {
            return Err(wrong(format!("it takes KEY=V1,V2,...; keys are {KEYS}")));
        };
        let mut more = Vec::new();
        for variant in &variants {
            for value in values.split(',') {
                let mut changed = variant.clone();
                changed.set(key, value).map_err(wrong)?;
                let before = if variant.label.is_empty() { "" } else { " " };
                changed.label = format!("{}{before}{key}={value}", variant.label);
                more.push(changed);
            }
        }
        variants = more;
    }
    if let Some(text) = &args.what_if {
        let wrong = |text: String| Failure::new(ExitCode::Usage, format!("--what-if: {text}"));
        let question = Question::parse(text, &pinfold_sys::peer::own_name()).map_err(wrong)?;
        let asked = variants.clone().into_iter().map(|variant| Variant {
            label: text.split_whitespace().collect::<Vec<_>>().join(" "),
            question: question.clone(),
            ..variant
        });
        let asked: Vec<Variant> = asked.collect();
        variants.iter_mut().for_each(|variant| "as it was".clone_into(&mut variant.label));
        variants.extend(asked);
    }
    for variant in &mut variants {
        if variant.label.is_empty() {
            let policy = name(variant.policy());
            // Without a dispatcher before the host its rule does not matter.
            variant.label = if variant.is_own_host() && variant.policy() == HostPolicyArg::Pinfold {
                format!("host-policy={policy}")
            } else {
                let policy = if variant.is_simple() { "" } else { &format!(" host-policy={policy}") };
                format!("dispatch={} runtimes={}{policy}", name(variant.dispatch), name(variant.runtimes))
            };
        }
        if variant.is_contradictory(args) {
            let text = format!(
                "{}: a key of the configuration is set, and plain hosts have none; say --host-policy pinfold",
                variant.label
            );
            return Err(Failure::new(ExitCode::Usage, text));
        }
    }
    Ok(variants)
}
