//! `salloc`: cores for a shell, or for a command in the foreground.

use std::ffi::OsString;

use crate::cluster::Cluster;
use crate::dependency;
use crate::getopt::{Order, parse};
use crate::launch;
use crate::options;
use crate::request::Request;
use crate::say;
use crate::srun::in_the_foreground;
use crate::trouble::{Trouble, words};

/// Runs a command, or a shell, as a job.
///
/// # Errors
/// In salloc's words.
pub(crate) fn salloc(arguments: &[OsString]) -> Result<u8, Trouble> {
    let host = pinfold_sys::peer::host_name();
    let table = options::salloc();
    let (given, operands) = parse(&table, arguments, Order::Strict).map_err(say::usage("salloc"))?;
    let mut request = Request::default();
    request.take_environment("SALLOC_", &host, |name| std::env::var(name).ok())?;
    request.take(&given, &host)?;
    if let Some(what) = request.help {
        return say::help("salloc", what, &table);
    }
    let command = match operands.is_empty() {
        true => vec![std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into())],
        false => operands,
    };
    let name = request.name.clone().unwrap_or_else(|| "interactive".to_owned());
    let refused = |failure: pinfold_client::Failure| {
        Trouble::new(format!("Job submit/allocate failed: {}", words(&failure)))
    };
    let mut cluster = Cluster::connect().map_err(refused)?;
    let after = dependency::after(&request.dependency, &name, &mut cluster)?;
    let line = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
    let mut plan = launch::plan(&request, name, &after, format!("salloc {line}"))?;
    plan.label.granted = !request.quiet;
    in_the_foreground(plan, &command, None, &[])
}
