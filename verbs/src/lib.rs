//! Verbs driven by a device: handlers post work requests to a host channel adapter and poll its completions, without
//! their host (abi §16; `docs/verbs.md` in the repository).
//!
//! The host opens one adapter for a device, allocates queues and registered memory, and gives their ids to handlers.
//! From then on a handler needs nothing of the host: it writes entries into rings of the section VERBS, where the
//! adapter finds them.
//!
//! `wire` is what all three programs agree on, `ring` the entries of a queue, `memory` what is needed of the section;
//! `verbs`, `work`, `queue`, `queue_pair`, `shared_receive_queue`, `completion_queue`, `region` and `view` are the
//! device's side, `host` (feature) the host's; `commands` (feature) are calls from the one to the other. Feature
//! `handlers`: handlers that send and receive, and in `tools` those that are ends of stock tools.
//!
//! Who may depend on it: handler crates, images, `hamr-hca`. It depends on `hamr-comm`, with `host` on `hamr`. No
//! allocation outside of `host`; `unsafe` only in `view`.
#![no_std]

#[cfg(any(feature = "host", feature = "testing", test))]
extern crate std;

#[cfg(feature = "commands")]
pub mod commands;
mod completion_queue;
mod datagram;
mod error;
#[cfg(feature = "handlers")]
pub mod handlers;
#[cfg(feature = "host")]
pub mod host;
mod ids;
pub mod memory;
mod queue;
mod queue_pair;
mod region;
pub mod ring;
mod shared_receive_queue;
#[cfg(feature = "handlers")]
pub mod steps;
#[cfg(any(feature = "testing", test))]
pub mod testing;
#[cfg(test)]
mod tests;
#[cfg(feature = "handlers")]
pub mod tools;
mod verbs;
mod view;
#[cfg(test)]
mod view_tests;
#[cfg(feature = "handlers")]
pub mod views;
pub mod wire;
mod work;

pub use completion_queue::{Completion, CompletionQueue};
pub use datagram::Address;
pub use error::VerbsError;
#[doc(hidden)]
pub use ids::Name;
pub use ids::{AhId, CqId, MrId, QpId, Remote, SrqId};
pub use queue_pair::QueuePair;
pub use region::MemoryRegion;
pub use shared_receive_queue::SharedReceiveQueue;
pub use verbs::Verbs;
pub use work::SendWr;
