//! Causes that a reason names: why a throttle was lifted, why a memory binding changed.

/// What a job is throttled for no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Unthrottled {
    /// Memory suffices for its growth again.
    Suffices,
    /// Neither swap nor page cache is left to take its pages.
    NoUse,
    /// It was throttled for as long as a job may be.
    LongEnough,
    /// The governor of memory is off.
    NotGoverned,
    /// It is suspended instead.
    Suspended,
    /// It holds the token.
    Token,
}

impl Unthrottled {
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::Suffices => "memory_suffices",
            Self::NoUse => "no_use",
            Self::LongEnough => "long_enough",
            Self::NotGoverned => "not_governed",
            Self::Suspended => "suspended",
            Self::Token => "token",
        }
    }

    /// The sentence that people read.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Suffices => "memory suffices for its growth again",
            Self::NoUse => "a throttle is of no use: neither swap nor page cache is left to take its pages",
            Self::LongEnough => "it was throttled for long enough",
            Self::NotGoverned => "memory is not governed any more",
            Self::Suspended => "it stays suspended instead",
            Self::Token => "it goes first for memory now",
        }
    }
}

/// Why the NUMA nodes changed on which a job's memory may lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum MemoryBinding {
    /// Its cores lie elsewhere, or the nodes beside them run short.
    Lifted,
    /// The nodes beside its cores have room for all that it may need.
    Room,
    /// More jobs share the nodes' memory than fit into fewer.
    Shared,
    /// A node is given back.
    GivenBack,
}

impl MemoryBinding {
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::Lifted => "lifted",
            Self::Room => "room",
            Self::Shared => "shared",
            Self::GivenBack => "given_back",
        }
    }

    /// The sentence that people read.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Lifted => "its cores lie elsewhere, or the nodes beside them run short of memory",
            Self::Room => "the nodes beside its cores have room for all that it may need",
            Self::Shared => "more jobs share these nodes' memory than fit into fewer",
            Self::GivenBack => "a node is given back on which it has no cores and next to no memory",
        }
    }
}
