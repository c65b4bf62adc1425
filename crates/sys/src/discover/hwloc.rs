//! libhwloc's view of this machine, of XML files and of synthetic descriptions, as a second opinion for tests: the
//! programs are built without it. The only module that knows the hwlocality crate, whose interface is still in
//! motion.

use hwlocality::Topology as Hwloc;
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::types::ObjectType;
use hwlocality::topology::builder::{BuildFlags, TopologyBuilder};
use pinfold_topo::cpuset::PU_OS_MAX;
use pinfold_topo::facts::Facts;
use pinfold_topo::{CpuSet, NumaNode, PuOs};

use super::{DiscoverError, Survey};

/// What libhwloc makes of a file in its XML format, as a second opinion to our own reader.
///
/// # Errors
/// When libhwloc does not accept it; versions before 3 refuse format 3.
pub fn hwloc_xml(text: &str) -> Result<Survey, DiscoverError> {
    let what = "an XML file";
    let builder = TopologyBuilder::new().from_xml(text).map_err(|error| refused(what, error))?;
    survey_of(what, builder)
}

/// What libhwloc makes of a synthetic description, as a second opinion to our own reader.
///
/// # Errors
/// When libhwloc does not accept it.
pub fn hwloc_synthetic(text: &str) -> Result<Survey, DiscoverError> {
    let what = format!("synthetic:{text}");
    let builder = TopologyBuilder::new().from_synthetic(text).map_err(|error| refused(&what, error))?;
    survey_of(&what, builder)
}

/// This machine as libhwloc sees it (or the tree that `HWLOC_FSROOT` names), disallowed PUs included.
///
/// # Errors
/// When libhwloc cannot look.
pub fn hwloc_host() -> Result<Survey, DiscoverError> {
    survey_of("this machine", TopologyBuilder::new())
}

fn refused(what: &str, reason: impl std::fmt::Display) -> DiscoverError {
    DiscoverError::Hwloc { what: what.to_owned(), reason: reason.to_string() }
}

fn survey_of(what: &str, builder: TopologyBuilder) -> Result<Survey, DiscoverError> {
    let topology = builder
        .with_flags(BuildFlags::INCLUDE_DISALLOWED)
        .map_err(|error| refused(what, error))?
        .build()
        .map_err(|error| refused(what, error))?;
    super::assembled(what, &facts_of(what, &topology)?, Vec::new())
}

fn facts_of(what: &str, hwloc: &Hwloc) -> Result<Facts, DiscoverError> {
    let mut pus = CpuSet::new();
    for pu in hwloc.objects_with_type(ObjectType::PU) {
        let os = pu.os_index().and_then(|os| u32::try_from(os).ok()).filter(|&os| os <= PU_OS_MAX);
        let os = os.ok_or_else(|| refused(what, format!("a PU has the OS index {:?}", pu.os_index())))?;
        pus.insert(PuOs(os));
    }
    let sets = |kind: ObjectType| {
        let objects = hwloc.objects_with_type(kind);
        objects.filter_map(|object| object.cpuset().map(|set| bounded(&set))).collect::<Vec<CpuSet>>()
    };
    let kinds = hwloc.cpu_kinds().map_or_else(
        |_| Vec::new(),
        |kinds| kinds.filter(|kind| kind.efficiency.is_some()).map(|kind| bounded(&kind.cpuset)).collect(),
    );
    let sockets = sets(ObjectType::Package);
    let mut dies = sets(ObjectType::Die);
    dies.retain(|die| !sockets.contains(die));
    Ok(Facts {
        offline: bounded(&hwloc.complete_cpuset()).difference(&pus),
        allowed: Some(bounded(&hwloc.allowed_cpuset())),
        pus,
        sockets,
        dies,
        l3: sets(ObjectType::L3Cache),
        l2: sets(ObjectType::L2Cache),
        cores: sets(ObjectType::Core),
        numa: hwloc.objects_with_type(ObjectType::NUMANode).filter_map(node_of).collect(),
        kinds,
    })
}

fn node_of(object: &TopologyObject) -> Option<NumaNode> {
    let memory_bytes = match object.attributes() {
        Some(ObjectAttributes::NUMANode(node)) => Some(node.local_memory().map_or(0, u64::from)),
        _ => None,
    };
    Some(NumaNode {
        os: u32::try_from(object.os_index()?).ok()?,
        memory_bytes,
        pus: object.cpuset().map(|set| bounded(&set)).unwrap_or_default(),
    })
}

/// hwloc's sets may be infinite; only indexes that a PU can have are taken.
fn bounded(set: &hwlocality::cpu::cpuset::CpuSet) -> CpuSet {
    set.iter_set()
        .map_while(|index| u32::try_from(usize::from(index)).ok().filter(|&os| os <= PU_OS_MAX))
        .map(PuOs)
        .collect()
}
