//! Devices that share no memory with their host: each has a copy of the window, and threads carry between them what is
//! published (`hamr_comm::mirror`, docs/model.md).
//!
//! ```text
//! program ── near window ── HostCopy ═ Mirror ═ FarSide ~~~~ Side ═ Mirror ═ Served ── window, doorbells ── device
//!             MirrorLink      who waits, or its thread           a thread beside the device
//! ```
//!
//! [`MirrorLink`] is the host's end, [`Served`] the device's. Both may be in one program, over one mirror.

mod carrier;
mod carry;
#[cfg(feature = "net")]
mod channel;
mod link;
mod mapped;
mod rings;
mod served;
mod tender;

pub use carry::{Descriptor, FarSide, serve};
#[cfg(feature = "net")]
pub use channel::{ChannelSide, ServedHeap, TransferHeap};
pub use link::MirrorLink;
pub use mapped::DrivenWindow;
pub use served::Served;
