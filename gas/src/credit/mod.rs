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
//!
//! | | lender: `Ledger` | borrower: `Borrower` |
//! |---|---|---|
//! | asks | | the message that takes the last slot carries a *need*: as many slots as there are, 4 to 256; one at a time |
//! | grants | in the reply of that message: a *lease*, a run of up to 8 blocks with one tag; as many as there are, or the asker waits (16 may; others ask again) | fills its lane first, then blocks in the order in which they came |
//! | takes back | for one that waits: the lease used least recently, if it is older than 1024 ticks; one in use only every 512 ticks | drains it, then returns it; refuses what has not come yet, and is asked again |
//! | gives back | | what it did not use during 4096 messages of its own |
//! | hint | | `expect(credits)` asks before the first message |
//!
//! - A tick is a message received or 64 idle rounds.
//! - Nothing is taken from others for a sender whose next messages have come already ([`Ledger`]).
//! - A receiver takes messages peer by peer, a lane and its peer's blocks in one turn: senders have equal shares.
//! - Successive leases of a block differ in their tag. Returns of an old lease, or another rank's, are refused.
//! - For any number of ranks a lender's event looks at 56 records at most (`STEPS_MAX`), a borrower's at its 16 blocks.
//!
//! | bytes, of one rank | worlds of ≤ 64 | ≤ 256 | ≤ 1024 | more |
//! |---|---|---|---|---|
//! | a peer: its lane, with a ring of 16, 8, 4, 2 slots | 1,088 | 576 | 320 | 192 |
//! | a peer: credits | 0 | 0 | 0 | 0 |
//! | once: slots of the bank, and the ledger | 136,616 | | | |
//! | a lender at which something is borrowed | 196 | | | |
//!
//! With 100,000 ranks that is 19 MB a rank, reserved; portals-conduit sets aside 309 MB.

mod block;
mod borrower;
mod ledger;
mod loan;

pub use block::{BANK_MAX, Lease, Need, Notice, RUN_MAX, SLOTS};
pub use borrower::{Borrower, HELD_MAX, Place};
pub use ledger::{Ledger, NotLent, Policy, STEPS_MAX};
