//! Credits: how a rank lends message slots to the ranks that need more than their own lane.
//!
//! A credit is a slot. Each ordered pair of ranks has a lane, so every rank can send to every other. Beyond that the
//! receiver lends *blocks* of 32 slots out of a bank of its own. The receiver is the lender ([`Ledger`]), the sender
//! the borrower ([`Borrower`]); both are plain state: they see what happened and say what is to be sent. Who uses them
//! moves the messages; the simulator (`gas/sim`) does.
//!
//! ```text
//!  borrower X                                       lender Y
//!  a message that takes the last slot: Need     ───▶ finds a run of free blocks
//!  sends in the blocks of the lease            ◀─── Lease in the reply of that message; or X waits in the FIFO
//!                                              ◀─── Recall(lease): others wait
//!  drains: all messages answered, then Return ────▶ blocks are free; Grant(lease) to the first that waits
//! ```
//!
//! All state is per loan: a peer without a loan costs neither side a byte. After GASNet's portals-conduit ("Porting
//! GASNet to Portals", section 4.7), which lends single credits with counters per peer.

mod block;
mod borrower;
mod ledger;
mod loan;

pub use block::{BANK_MAX, Lease, Need, Notice, RUN_MAX, SLOTS};
pub use borrower::{Borrower, HELD_MAX, Place};
pub use ledger::{Ledger, NotLent, Policy, STEPS_MAX};
