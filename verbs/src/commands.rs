//! Commands of a device: calls of its tasks to the host program, which makes the objects and answers with their names (paper 002,
//! figure 4 (b)). The host serves them with [`Fabric::provide`](crate::host::Fabric::provide) (feature `host`).
//!
//! ```no_run
//! # use hamr_comm::{Fault, HOST, Task};
//! # fn set_up(task: &mut Task) -> Result<(), Fault> {
//! use hamr_verbs::commands::{connect, create_cq, create_qp};
//! let cq = task.sync(HOST, create_cq::with(64))?;
//! let (a, b) = (task.sync(HOST, create_qp::with(cq, 64, 64))?, task.sync(HOST, create_qp::with(cq, 64, 64))?);
//! task.sync(HOST, connect::with(a, b))?;
//! # Ok(()) }
//! ```
//!
//! Each is made of the adapter of the device that calls; names of another are refused. A command keeps to the deadline of its
//! call, and fails after a second without an answer of the adapter: then it may be done later.

use crate::ids::{CqId, MrId, QpId};
use hamr_comm::{Fault, Host, offload};

#[cfg(feature = "host")]
use crate::host::commands as bodies;

/// Registers a region of so many zeros; `access` is of [`crate::wire::Access`].
#[offload]
pub fn register(cx: &mut Host, bytes: u64, access: u32) -> Result<MrId, Fault> {
    bodies::register(cx, bytes, access)
}

/// Makes a completion queue in which so many completions may wait.
#[offload]
pub fn create_cq(cx: &mut Host, entries: u32) -> Result<CqId, Fault> {
    bodies::create_cq(cx, entries)
}

/// Makes a queue pair for so many requests at once, which complete in one queue.
#[offload]
pub fn create_qp(cx: &mut Host, cq: CqId, sends: u32, receives: u32) -> Result<QpId, Fault> {
    bodies::create_qp(cx, cq, sends, receives)
}

/// Connects two queue pairs, which may be one, both ways.
#[offload]
pub fn connect(cx: &mut Host, a: QpId, b: QpId) -> Result<(), Fault> {
    bodies::connect(cx, a, b)
}

/// A program without the feature `host` has no adapters.
#[cfg(not(any(feature = "host", hamr_bare, hamr_image, target_os = "none")))]
mod bodies {
    use super::{CqId, Fault, Host, MrId, QpId};

    fn none<T>() -> Result<T, Fault> {
        Err(Fault::msg("this host program has `hamr-verbs` without its feature `host`"))
    }
    pub(super) fn register(_: &Host<'_>, _: u64, _: u32) -> Result<MrId, Fault> {
        none()
    }
    pub(super) fn create_cq(_: &Host<'_>, _: u32) -> Result<CqId, Fault> {
        none()
    }
    pub(super) fn create_qp(_: &Host<'_>, _: CqId, _: u32, _: u32) -> Result<QpId, Fault> {
        none()
    }
    pub(super) fn connect(_: &Host<'_>, _: QpId, _: QpId) -> Result<(), Fault> {
        none()
    }
}
