//! Data on a wire or a disk: requests and replies between clients and the daemon, and the rows of the store. Plain,
//! versioned data, separate from the model of `policy`.
//!
//! Reading order: [`job`] (a job's specification and ending), [`terms`] (start time and limits), [`resource`]
//! (countable resources), [`mod@array`] (job arrays), [`external`] (names in workload managers), [`wire`] (requests,
//! replies, frames), [`view`] (JSON of `status`, `why`, `report`), [`host`] (readings of the host), [`row`] (rows of
//! the store), [`voucher`] (signed identity of a user), [`learned`] (peak memory on other hosts), [`program`] (the
//! program that names a job and its class), [`config`] (an operator's keys), [`quantity`] (sizes and durations as
//! text), [`exit`] (exit codes), [`text`] (texts that are safe to show). Absent here: sockets, files, clocks.

pub mod alike;
pub mod array;
pub mod config;
pub mod exit;
pub mod external;
pub mod host;
pub mod job;
pub mod learned;
pub mod program;
pub mod quantity;
pub mod resource;
pub mod row;
pub mod start;
pub mod terms;
pub mod text;
pub mod view;
pub mod voucher;
pub mod wire;

pub use exit::ExitCode;
pub use external::ExternalName;
pub use job::{
    Adopted, Allocation, Checkpoint, Ending, GroupLimit, InPlace, JobArray, JobClass, JobLayout, JobPlace,
    JobSpec, JobState,
};
pub use resource::Resource;
pub use terms::{After, AfterEnd, End, OUT_OF_MEMORY, Parent, Terms, TimeoutSignal, ended_well};
