//! What can go wrong with an adapter.

use crate::wire::Reply;
use hamr_comm::abi::window::OutOfWindow;
use std::path::PathBuf;
use std::string::String;

/// Why there is no adapter, or it did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FabricError {
    /// The device can have none.
    #[error(transparent)]
    Device(#[from] hamr::Error),
    /// The program is not there.
    #[error(
        "expected the adapter's program at {}: `cargo build -p hamr-hca` makes it, and HAMR_HCA names another one", .0.display()
    )]
    NoProgram(PathBuf),
    /// It does not start.
    #[error("cannot start the adapter {}: {why}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The reason.
        why: String,
    },
    /// It is of another build.
    #[error("expected an adapter with the wire {ours:016x}, {} has {theirs:016x}: build both of one source", program.display())]
    OtherBuild {
        /// The program.
        program: PathBuf,
        /// The fingerprint of this program.
        ours: u64,
        /// That of the adapter.
        theirs: u64,
    },
    /// More than there can be.
    #[error("{what}: expected at most {most}, got {wanted}")]
    Limit {
        /// What.
        what: &'static str,
        /// How many there can be.
        most: u64,
        /// How many were wanted.
        wanted: u64,
    },
    /// An id of another adapter or epoch.
    #[error("the object is of another adapter, or of an earlier epoch")]
    Foreign,
    /// Handlers view the region.
    #[error("expected a region without `Access::VIEW`, whose bytes come from handlers and messages alone")]
    Viewed,
    /// The adapter was opened without a wire to others.
    #[error("expected an adapter with a wire to others (`Fabric::open_with`)")]
    NoWire,
    /// The adapter refused it.
    #[error("the adapter refused it (reason {})", .0.0)]
    Refused(Reply),
    /// The adapter did not answer in time, and was ended.
    #[error("the adapter did not answer in time")]
    Late,
    /// This process is a copy of the one that opened it.
    #[error("another process opened it: a copy of that has no adapter")]
    AnotherProcess,
    /// The adapter has ended.
    #[error("the adapter has ended, or the device's epoch has")]
    Lost,
}

impl From<OutOfWindow> for FabricError {
    fn from(_: OutOfWindow) -> Self {
        Self::Lost
    }
}
