//! Which core belongs to what, as people and programs see it: the machine and what its daemon says is on it, of this host or
//! of another one.
//!
//! Reading order: `model` (the machine as nested boxes, and what is on each core), [`text`] and [`svg`] (the two ways to
//! show it), [`json`]. Absent here: how a machine is discovered, and what somebody may see.

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
