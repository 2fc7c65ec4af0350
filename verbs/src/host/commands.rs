//! The bodies of [`crate::commands`].

use super::{Fabric, FabricError, Inner, LIMIT, QpPlan};
use crate::ids::{CqId, MrId, QpId};
use crate::wire::Access;
use hamr::Node;
use hamr_comm::abi::status::Status;
use hamr_comm::{Fault, Host};
use std::string::ToString;
use std::sync::Arc;
use std::time::Duration;

/// What a program provides for its device.
struct Commands(Arc<Inner>);

impl Fabric {
    /// Does what tasks of the device ask for by [`crate::commands`], as long as the adapter is there.
    pub fn provide(&self, node: &Node) {
        node.provide(Commands(self.0.clone()));
    }
}

/// The adapter of the device that calls, and the time that the call has.
fn of<'h>(cx: &Host<'h>) -> Result<(&'h Inner, Duration), Fault> {
    let Commands(inner) = cx.service()?;
    if cx.cancelled() {
        return Err(Fault::msg("cancelled"));
    }
    // What the program provides to all its devices is not of each.
    if !inner.is_of(cx.caller().node) {
        return Err(Fault::new(Status::NO_FABRIC, [0; 3]));
    }
    let limit = match cx.deadline_us() {
        0 => LIMIT,
        us => LIMIT.min(Duration::from_micros(us.into())),
    };
    Ok((inner, limit))
}

impl From<FabricError> for Fault {
    #[cold]
    fn from(e: FabricError) -> Self {
        match e {
            FabricError::Lost => Self::new(Status::NO_FABRIC, [0; 3]),
            e => Self::msg(&e.to_string()),
        }
    }
}

pub(crate) fn register(cx: &Host<'_>, bytes: u64, access: u32) -> Result<MrId, Fault> {
    let (inner, limit) = of(cx)?;
    Ok(inner.region(bytes, Access(access), limit)?.0.into())
}

pub(crate) fn create_cq(cx: &Host<'_>, entries: u32) -> Result<CqId, Fault> {
    let (inner, limit) = of(cx)?;
    Ok(inner.completion_queue(entries, limit)?)
}

pub(crate) fn create_qp(cx: &Host<'_>, cq: CqId, sends: u32, receives: u32) -> Result<QpId, Fault> {
    let (inner, limit) = of(cx)?;
    Ok(inner.queue_pair(&QpPlan { sends, receives, ..QpPlan::new(cq) }, limit)?)
}

pub(crate) fn connect(cx: &Host<'_>, a: QpId, b: QpId) -> Result<(), Fault> {
    let (inner, limit) = of(cx)?;
    Ok(inner.connect(a, b, limit)?)
}
