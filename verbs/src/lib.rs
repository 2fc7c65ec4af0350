//! Verbs driven by a device: handlers post work requests to a host channel adapter and poll its completions, without
//! their host (abi §16; `docs/verbs.md` in the repository).
//!
//! The host opens one adapter for a device, allocates queues and registered memory, and gives their ids to handlers.
//! From then on a handler needs nothing of the host: it writes entries into rings of the section VERBS, where the
//! adapter finds them.
//!
//! | here | ibverbs | says |
//! |---|---|---|
//! | `Fabric::open` | `ibv_open_device`, `ibv_alloc_pd` | starts the program `hamr-hca` (or `HAMR_HCA`), once in an epoch |
//! | `region`, `Region` | `ibv_reg_mr`, `ibv_dereg_mr` | memory of the section VERBS, not of the heap |
//! | `completion_queue` | `ibv_create_cq` | at most 511 entries |
//! | `shared_receive_queue` | `ibv_create_srq` | at most 512 requests; for queue pairs with `QpPlan::srq` |
//! | `queue_pair`, `connect`, `reset`, `set_error` | `ibv_create_qp` (RC), `ibv_modify_qp` | at most 512 requests each way |
//! | `Fabric::open_with` a `Wire`, `endpoint`, `connect_remote` | `ibv_modify_qp` (RTR, RTS) | RoCEv2 over UDP, or in Ethernet frames |
//! | `address_handle`, `QpPlan::qkey`, `SendWr::datagram` | `ibv_create_ah`, `IBV_QPT_UD` | at most `Wire::mtu` bytes, else `LOC_LEN_ERR`; they come behind 40 bytes of headers, or not at all |
//! | `destroy_queue_pair`, … | `ibv_destroy_qp`, … | refused as long as another object names it |
//! | `QueuePair::post` | `ibv_post_send` | `SendWr`: five parts, or 92 bytes inline (send, write) |
//! | `receive`, `SharedReceiveQueue::receive` | `ibv_post_recv`, `ibv_post_srq_recv` | two parts |
//! | `CompletionQueue::poll` | `ibv_poll_cq` | never waits |
//! | `Verbs::view`, `view_mut`, `MemoryRegion::is_written` | – | bytes as elements, without a copy |
//! | `MemoryRegion::watch`, `atomic` | – | the last byte of a write, which comes last; a u64 (processors with 64-bit atomics) |
//! | `CompletionQueue::wait` | completion channel | in tasks: the device serves other calls, or sleeps |
//! | `commands`, `Fabric::serve` | the paper's CMD and NTF | a task has the host do the above: `task.sync(HOST, create_cq::with(64))?` |
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
