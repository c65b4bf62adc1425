//! Countable resources: what a host has a number of, and jobs hold so many of.

/// So many of a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Amount {
    /// The resource's name.
    pub name: String,
    /// How many.
    pub count: u64,
}
