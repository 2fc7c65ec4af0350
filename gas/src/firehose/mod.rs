//! Registration cache: memory that was pinned for one transfer stays pinned for the next.
//!
//! Pinning (locking memory, registering it with an adapter) costs more than most transfers. A transfer takes a
//! [`Lease`] on the pages of its range. When the last lease of a region ends, the region stays pinned, and is unpinned
//! when room is needed, the least recently used first. A range that touches pinned regions is pinned together with
//! them, as one region; they leave when their leases have ended. So the working set of a program soon lies in few
//! regions.
//!
//! [`Cache`] is for memory that this side pins, [`Remote`] for memory that the peers of this side pin for it. Neither
//! blocks or allocates: [`Refused::Full`] is an answer, and the caller polls and tries again. After GASNet's Firehose
//! ("Porting GASNet to Portals", section 5).

mod cache;
mod lru;
mod regions;
mod remote;
mod slot;

pub use cache::{Cache, PinError, Pinner};
pub use regions::{InUse, Lease, Limits, Refused};
pub use remote::{Acquired, MOVES, Move, Moving, Remote, Unpin};
pub use slot::Slot;
