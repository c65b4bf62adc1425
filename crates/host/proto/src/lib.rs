//! What crosses a wire or a disk: requests and replies between clients and the daemon, and the rows the store
//! keeps. Plain data, versioned, apart from the model that `policy` works on.
//!
//! Reading order: [`job`] (what is asked for and how it ended), [`terms`] (when it may begin and how long it may run),
//! [`resource`] (what it holds of what the host counts), [`mod@array`] (many jobs asked for at once), [`external`]
//! (their names in workload managers), [`wire`] (requests, replies, frames), [`view`] (what `status`, `why`, `report`
//! print as JSON), [`host`] (what the host as a whole did), [`row`] (what the store keeps), [`voucher`] (who a user is,
//! to others), [`learned`] (what jobs held on other hosts), [`program`]
//! (which program names a job and its class), [`config`] (the keys an operator sets), [`quantity`] (sizes
//! and durations as people write them), [`exit`] (exit codes), [`text`] (texts that are safe to show). Absent here:
//! sockets, files, clocks.

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
