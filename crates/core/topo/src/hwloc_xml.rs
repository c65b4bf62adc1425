//! Reads hwloc's XML files (format 2 and 3) as [`Facts`].
//!
//! Not read by libhwloc: users' files come from newer versions than the host's library (2.x refuses format
//! 3), and a malformed file must never end the program. Devices, distances and memory attributes are skipped.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::cpuset::{CpuSet, PU_OS_MAX};
use crate::facts::Facts;
use crate::index::PuOs;
use crate::topology::NumaNode;

/// How deep objects may be nested; real files stay below 20.
const DEPTH_MAX: usize = 200;

/// Why a text is not a topology in hwloc's XML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum XmlError {
    /// The file is not XML, or ends too early.
    #[error("at byte {at}: {reason}")]
    Malformed {
        /// Byte offset.
        at: u64,
        /// The XML parser's message.
        reason: String,
    },
    /// XML without the element `topology`.
    #[error("there is no element `topology`")]
    NotTopology,
    /// The file ends inside of an element.
    #[error("the file ends inside of <{0}>")]
    Truncated(String),
    /// A required attribute is missing or invalid.
    #[error("at byte {at}: an object {kind} has no usable {attribute}: `{value}`")]
    Attribute {
        /// Byte offset.
        at: u64,
        /// The object's type.
        kind: String,
        /// The attribute.
        attribute: &'static str,
        /// The attribute's value, empty if missing.
        value: String,
    },
    /// The nesting is deeper than any machine.
    #[error("objects are nested deeper than {DEPTH_MAX}")]
    TooDeep,
    /// Two PUs have the same OS index.
    #[error("the PU with the OS index {0} stands twice")]
    Twice(u32),
    /// The format is older than hwloc 2.
    #[error("the format is version {0}; 2 and 3 are read")]
    Version(String),
}

/// Reads a topology in hwloc's XML.
///
/// # Errors
/// See [`XmlError`].
pub fn facts_of(text: &str) -> Result<Facts, XmlError> {
    let mut reader = Reader::from_str(text);
    let mut found = Found::default();
    let mut open: Vec<String> = Vec::new();
    loop {
        let at = reader.buffer_position();
        let malformed = |error: quick_xml::Error| XmlError::Malformed { at, reason: error.to_string() };
        match reader.read_event().map_err(malformed)? {
            Event::Start(tag) => {
                found.element(&tag, at, open.len())?;
                open.push(name_of(&tag));
                if open.len() > DEPTH_MAX {
                    return Err(XmlError::TooDeep);
                }
            }
            Event::Empty(tag) => found.element(&tag, at, open.len())?,
            Event::End(_) => {
                let ended = open.pop();
                found.end(ended.as_deref());
            }
            Event::Eof => break,
            _ => {}
        }
    }
    if let Some(name) = open.pop() {
        return Err(XmlError::Truncated(name));
    }
    if !found.topology {
        return Err(XmlError::NotTopology);
    }
    Ok(found.facts())
}

fn name_of(tag: &BytesStart<'_>) -> String {
    String::from_utf8_lossy(tag.name().as_ref()).into_owned()
}

/// A `cpukind` element.
#[derive(Default)]
struct Kind {
    pus: CpuSet,
    forced: Option<i64>,
    core_type: Option<String>,
    base_mhz: Option<u64>,
}

#[derive(Default)]
struct Found {
    topology: bool,
    facts: Facts,
    complete: CpuSet,
    kind: Option<Kind>,
    kinds: Vec<Kind>,
}

impl Found {
    fn element(&mut self, tag: &BytesStart<'_>, at: u64, depth: usize) -> Result<(), XmlError> {
        let get = |name: &str| attribute(tag, name, at);
        match tag.name().as_ref() {
            b"topology" if depth == 0 => {
                self.topology = true;
                match get("version")? {
                    Some(version) if version.starts_with("2.") || version.starts_with("3.") => Ok(()),
                    version => Err(XmlError::Version(version.unwrap_or_else(|| "1".to_owned()))),
                }
            }
            b"object" if self.topology => self.object(tag, at),
            b"cpukind" if self.topology => {
                let pus = set(&get("cpuset")?.unwrap_or_default()).unwrap_or_default();
                let forced = get("forced_efficiency")?.and_then(|text| text.parse().ok());
                // An empty element has no end event, so a new kind ends the last.
                self.kinds.extend(self.kind.replace(Kind { pus, forced, ..Kind::default() }));
                Ok(())
            }
            b"info" => {
                let Some(kind) = &mut self.kind else { return Ok(()) };
                let value = get("value")?;
                match get("name")?.as_deref() {
                    Some("CoreType") => kind.core_type = value,
                    Some("FrequencyBaseMHz") => kind.base_mhz = value.and_then(|text| text.parse().ok()),
                    _ => {}
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, name: Option<&str>) {
        if name == Some("cpukind") {
            self.kinds.extend(self.kind.take());
        }
    }

    fn object(&mut self, tag: &BytesStart<'_>, at: u64) -> Result<(), XmlError> {
        let get = |name: &str| attribute(tag, name, at);
        let kind = get("type")?.unwrap_or_default();
        let wrong = |attribute, value: Option<String>| XmlError::Attribute {
            at,
            kind: kind.clone(),
            attribute,
            value: value.unwrap_or_default().chars().take(60).collect(),
        };
        let pus = |attribute: &'static str| {
            let text = get(attribute)?;
            text.as_deref().and_then(set).ok_or_else(|| wrong(attribute, text))
        };
        let os = || {
            let text = get("os_index")?;
            text.as_deref().and_then(|text| text.parse().ok()).ok_or_else(|| wrong("os_index", text))
        };
        let facts = &mut self.facts;
        match kind.as_str() {
            "Machine" => {
                self.complete = pus("complete_cpuset")?;
                facts.allowed = get("allowed_cpuset")?.as_deref().and_then(set);
            }
            "Package" => facts.sockets.push(pus("cpuset")?),
            "Die" => facts.dies.push(pus("cpuset")?),
            "L3Cache" => facts.l3.push(pus("cpuset")?),
            "L2Cache" => facts.l2.push(pus("cpuset")?),
            "Core" => facts.cores.push(pus("cpuset")?),
            "NUMANode" => facts.numa.push(NumaNode {
                os: os()?,
                memory_bytes: get("local_memory")?.and_then(|text| text.parse().ok()).or(Some(0)),
                pus: pus("cpuset")?,
            }),
            "PU" => {
                let os: u32 = os()?;
                if os > PU_OS_MAX {
                    return Err(wrong("os_index", Some(os.to_string())));
                }
                if !facts.pus.insert(PuOs(os)) {
                    return Err(XmlError::Twice(os));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn facts(mut self) -> Facts {
        self.kinds.extend(self.kind.take());
        let sockets = &self.facts.sockets;
        // As in sysfs: a die that is the whole socket carries no information.
        self.facts.dies.retain(|die| !sockets.contains(die));
        self.facts.offline = self.complete.difference(&self.facts.pus);
        self.facts.kinds = ranked(self.kinds);
        self.facts
    }
}

/// The kinds of core, most frugal first: by the file's forced order, else by Intel's core type, else by base
/// frequency. Maximal frequencies do not count, because favoured cores differ from other cores of their kind.
fn ranked(mut kinds: Vec<Kind>) -> Vec<CpuSet> {
    if kinds.iter().all(|kind| kind.forced.is_some()) {
        kinds.sort_by_key(|kind| kind.forced);
    } else if kinds.iter().all(|kind| kind.core_type.is_some()) {
        kinds.sort_by_key(|kind| (kind.core_type.as_deref() == Some("IntelCore"), kind.base_mhz));
    } else if kinds.iter().all(|kind| kind.base_mhz.is_some()) {
        kinds.sort_by_key(|kind| kind.base_mhz);
    } else {
        return Vec::new();
    }
    if kinds.len() > 1 { kinds.into_iter().map(|kind| kind.pus).collect() } else { Vec::new() }
}

fn attribute(tag: &BytesStart<'_>, name: &str, at: u64) -> Result<Option<String>, XmlError> {
    let malformed = |reason: String| XmlError::Malformed { at, reason };
    let found = tag.try_get_attribute(name).map_err(|error| malformed(error.to_string()))?;
    let Some(attribute) = found else { return Ok(None) };
    let value = attribute.unescape_value().map_err(|error| malformed(error.to_string()))?;
    Ok(Some(value.into_owned()))
}

/// A set as hwloc prints it: groups of 32 bits `0x...` separated by commas, empty groups are zero; a leading
/// `0xf...f` adds all higher indexes, here up to [`PU_OS_MAX`].
fn set(text: &str) -> Option<CpuSet> {
    let mut pus = CpuSet::new();
    let (infinite, text) = text.strip_prefix("0xf...f").map_or((false, text), |rest| (true, rest));
    let text = text.strip_prefix(',').filter(|_| infinite).unwrap_or(text);
    let mut groups = 0u32;
    for group in text.rsplit(',').filter(|_| !(infinite && text.is_empty())) {
        let base = groups.checked_mul(32)?;
        groups += 1;
        if group.is_empty() {
            continue;
        }
        let digits = group.strip_prefix("0x")?;
        let bits = u32::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?;
        for bit in (0..32).filter(|bit| bits >> bit & 1 == 1) {
            let os = base.checked_add(bit).filter(|&os| os <= PU_OS_MAX)?;
            pus.insert(PuOs(os));
        }
    }
    if infinite {
        pus = (groups.saturating_mul(32)..=PU_OS_MAX).map(PuOs).chain(pus.iter()).collect();
    }
    Some(pus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets() {
        let check = |text: &str, want: Option<&str>| {
            assert_eq!(set(text).map(|set| set.to_string()).as_deref(), want, "{text}");
        };
        check("0x000000ff,,,0x0000000f", Some("0-3,96-103"));
        check("0x0", Some(""));
        check("", Some(""));
        check("0xf...f", Some("0-65535"));
        check("0xf...f,0x00000001", Some("0,32-65535"));
        check("ff", None);
        check("0x1ffffffff", None);
    }

    const SMALL: &str = r#"<?xml version="1.0"?><!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology version="3.0">
        <object type="Machine" cpuset="0x3" complete_cpuset="0x7" allowed_cpuset="0x1">
        <object type="NUMANode" os_index="4" cpuset="0x3" local_memory="4096"/>
        <object type="Package" cpuset="0x3"><object type="Core" cpuset="0x3">
        <object type="PU" os_index="0" cpuset="0x1"/><object type="PU" os_index="1" cpuset="0x2"/>
        </object></object></object>
        <cpukind cpuset="0x2" forced_efficiency="2"/><cpukind cpuset="0x1" forced_efficiency="1"></cpukind>
        </topology>"#;

    #[test]
    fn small_machine() {
        let topology = facts_of(SMALL).unwrap().assemble().unwrap();
        assert_eq!((topology.sockets(), topology.cores(), topology.pus().len()), (1, 1, 2));
        assert_eq!(topology.usable().to_string(), "0");
        assert_eq!(topology.offline().to_string(), "2");
        assert_eq!(topology.numa()[0].os, 4);
        assert_eq!(topology.numa()[0].memory_bytes, Some(4096));
        assert_eq!(topology.pus().iter().map(|pu| pu.efficiency).collect::<Vec<u8>>(), [0, 1]);
    }

    #[test]
    fn every_truncation_is_an_error() {
        for end in 0..SMALL.trim_end().len() {
            assert!(facts_of(&SMALL[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn errors_name_the_place() {
        let check = |from: &str, to: &str, want: &str| {
            assert_eq!(facts_of(&SMALL.replacen(from, to, 1)).unwrap_err().to_string(), want);
        };
        check("topology version=\"3.0\"", "topology", "the format is version 1; 2 and 3 are read");
        check("os_index=\"1\"", "os_index=\"0\"", "the PU with the OS index 0 stands twice");
        check(
            "os_index=\"1\"",
            "os_index=\"70000\"",
            "at byte 384: an object PU has no usable os_index: `70000`",
        );
        check("<topology ", "<topology>", "the format is version 1; 2 and 3 are read");
        let deep = format!("<topology version=\"2.0\">{}", "<object>".repeat(300));
        assert_eq!(facts_of(&deep), Err(XmlError::TooDeep));
    }
}
