//! Active messages: the slot protocol from both ends, and the dispatcher over it (abi §4, §5).
//!
//! [`Requester`] and [`Responder`] are the protocol proper: generic over [`Slots`], so that the
//! model checker runs this very code. [`Poller`] is a device's half: all streams, the handler
//! table, tasks. [`Idle`] decides when either side sleeps, [`patience`] how it rests until then; [`Waiter`] and
//! [`Notifier`] are how it is woken (abi §7).

mod activity;
#[cfg(feature = "tasks")]
mod call_queue;
mod dispatcher;
#[cfg_attr(not(feature = "tasks"), expect(dead_code, reason = "only tasks are beside the control stream"))]
mod handoff;
#[cfg(feature = "tasks")]
mod host_queue;
#[cfg(not(hamr_bare))]
mod host_responder;
mod idle;
#[cfg(all(feature = "tasks", feature = "world"))]
mod kept_replies;
#[cfg(all(feature = "tasks", feature = "world"))]
mod lane;
mod long;
#[cfg(not(hamr_bare))]
pub mod patience;
/// An image without a system has its processor.
#[cfg(hamr_bare)]
pub mod patience {
    pub use core::hint::spin_loop as rest;

    /// Never.
    pub const fn must_sleep() -> bool {
        false
    }

    /// All of them.
    pub const fn limit(spin_us: u64) -> u64 {
        spin_us
    }
}
mod pauses;
mod poller;
mod request;
mod requester;
mod responder;
mod second_line;
#[cfg(not(hamr_bare))]
mod served_queue;
#[cfg(feature = "tasks")]
mod task_slot;
#[cfg(not(hamr_bare))]
mod watch;

#[cfg(all(feature = "tasks", not(hamr_bare)))]
pub use crate::outgoing::as_another;
pub use crate::wait::{FencedNotifier, Notifier, QueueNotifier, WaitWord, Waiter};
pub use activity::Activity;
pub use hamr_shared_abi::window::{SlotAccess, Slots};
pub use handoff::{ControlHandoff, LoanStatus};
#[cfg(not(hamr_bare))]
pub use host_responder::{HostCallInfo, HostReply, HostResponder};
pub use idle::{Idle, IdleStep, Moment};
pub use pauses::Pauses;
pub use poller::{MAX_QUEUES, Poller, Round, SetupError};
pub use requester::{InHot, Requester};
pub use responder::{Expected, Found, Responder};
#[cfg(not(hamr_bare))]
pub use served_queue::{Held, QueueEnd, ServedQueue};
#[cfg(feature = "tasks")]
pub use task_slot::{TaskSlot, Tasks};
#[cfg(not(hamr_bare))]
pub use watch::Watch;

/// Locks of threads of the host, which the model checker swaps.
#[cfg(not(hamr_bare))]
mod locks {
    #[cfg(loom)]
    pub(super) use hamr_shared_abi::sync::{Condvar, Mutex, MutexGuard};
    #[cfg(not(loom))]
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
}
