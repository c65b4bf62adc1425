//! The runs that stand beside each other: what each is made of, and a label that tells it from the others.

use clap::ValueEnum;
use pinfold_cluster::dispatch::Dispatch;
use pinfold_cluster::runtimes::Runtimes;
use pinfold_proto::ExitCode;
use pinfold_proto::quantity::parse_size;

use super::{DispatchArg, RuntimesArg, SimArgs};
use crate::failure::Failure;

/// The keys of `--compare` and `--set` that are options of their own as well.
const KEYS: &str = "dispatch, runtimes, hosts, cores and memory";

/// What a run is made of, as it was said.
#[derive(Debug, Clone)]
pub(super) struct Variant {
    pub label: String,
    pub dispatch: DispatchArg,
    pub runtimes: RuntimesArg,
    pub hosts: Option<u32>,
    pub cores: Option<u32>,
    pub memory: Option<u64>,
}

impl Variant {
    /// As the options say.
    fn base(args: &SimArgs) -> Self {
        let label = format!("dispatch={} runtimes={}", name(args.dispatch), name(args.runtimes));
        Self {
            label,
            dispatch: args.dispatch,
            runtimes: args.runtimes,
            hosts: args.hosts,
            cores: args.cores,
            memory: args.memory,
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

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let count = || match value.parse() {
            Ok(0) | Err(_) => Err(format!("`{value}` is no number above 0")),
            Ok(count) => Ok(count),
        };
        match key {
            "dispatch" => self.dispatch = DispatchArg::from_str(value, false)?,
            "runtimes" => self.runtimes = RuntimesArg::from_str(value, false)?,
            "hosts" => self.hosts = Some(count()?),
            "cores" => self.cores = Some(count()?),
            "memory" => self.memory = Some(parse_size(value).map_err(|error| error.to_string())?),
            _ => return Err(format!("there is no key `{key}`; keys are {KEYS}")),
        }
        Ok(())
    }
}

fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The runs that were asked for: one for each combination of the values compared.
pub(super) fn variants(args: &SimArgs) -> Result<Vec<Variant>, Failure> {
    let mut variants = vec![Variant::base(args)];
    if !args.compare.is_empty() {
        variants[0].label.clear();
    }
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
    Ok(variants)
}
