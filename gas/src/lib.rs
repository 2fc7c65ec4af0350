//! GASNet's interface between the ranks of a world: active messages, barriers, one-sided memory
//! (`docs/gas.md` in the repository; on the wire abi §14).
//!
//! A program is a task whose first parameter is a [`Rank`]. It sends requests, and serves those of
//! others whenever it polls: a handler runs on the program's own stack, inside of [`Rank::poll`] or a
//! call that waits. So a message passes no serve loop, and costs one cache line each way.
//!
//! Who may depend on it: programs, images, `xacc`. It depends on `hamr-comm` alone.

#![no_std]

#[cfg(not(hamr_bare))]
extern crate alloc;

mod collective;
pub mod credit;
mod error;
pub mod firehose;
mod handlers;
mod kinds;
mod lock;
mod message;
mod rank;
#[cfg(not(hamr_bare))]
mod shared;
mod team;
mod thread;
mod wire;

pub use collective::{Collective, CollectiveCall};
pub use error::{GasError, Name};
pub use handlers::Handlers;
pub use kinds::Kinds;
pub use lock::Hsl;
pub use message::{Msg, SegRange, Token};
#[doc(hidden)]
pub use rank::Pieces;
pub use rank::{BarrierName, Event, Leaf, Prepared, PreparedReply, Rank, Which};
#[cfg(not(hamr_bare))]
pub use shared::SharedRank;
#[doc(hidden)]
pub use team::Wish;
pub use team::{Amo, AmoValue, AtomicDomain, Begun, Team};
