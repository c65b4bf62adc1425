//! The allocation of a host's cores for users and programs: the topology, and the jobs that the daemon reports, for
//! this or another host.
//!
//! Reading order: `model` (the machine as nested boxes, and the jobs of each core), [`text`] and [`svg`] (the two
//! displays), [`json`]. Absent here: discovery of the machine, and permissions.

mod model;
pub mod svg;
pub mod text;

use pinfold_topo::{Pu, Topology};
use serde_json::{Value, json};

pub use model::Map;

/// The map for programs.
#[must_use]
pub fn json(map: &Map, topology: &Topology) -> Value {
    let pu = |pu: &Pu| {
        let sets: Vec<&str> = map.sets_on_pu(pu.os).map(|set| set.view.set.as_str()).collect();
        json!({
            "os": pu.os.0, "logical": pu.logical.0, "core": pu.core, "l3": pu.l3, "numa": pu.numa,
            "socket": pu.socket, "usable": pu.usable, "sets": sets,
        })
    };
    json!({
        "version": pinfold_proto::view::VERSION,
        "host": map.host,
        "sockets": topology.sockets(),
        "numa_nodes": topology.numa_nodes(),
        "l3": topology.l3(),
        "cores": map.cores(),
        "pus": topology.pus().len(),
        "usable_cores": map.usable(),
        "used_cores": map.used(),
        "free_cores": map.usable() - map.used(),
        "sets": map.sets.iter().map(|set| &set.view).collect::<Vec<_>>(),
        "set_asides": map.asides,
        "chunks": map.chunks,
        "resources": map.resources,
        "pu": topology.pus().iter().map(pu).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
