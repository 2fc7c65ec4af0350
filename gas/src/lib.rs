//! GASNet's interface between the ranks of a world: active messages, barriers, one-sided memory
//! (`docs/gas.md` in the repository; on the wire abi §14).
//!
//! A program is a task whose first parameter is a [`Rank`]. It sends requests, and serves those of
//! others whenever it polls: a handler runs on the program's own stack, inside of [`Rank::poll`] or a
//! call that waits. So a message passes no serve loop, and costs one cache line each way.
//!
//! | of | at most |
//! |---|---|
//! | arguments of a message | 16 of 32 bits |
//! | medium payload | 16,320 bytes; 4,032 with a bare-metal rank or more than 16 ranks |
//! | long payload | the segment, 2^31 - 1 bytes |
//! | requests without a reply | 17 for each pair of ranks, then calls wait |
//! | ranks | 4,095; 8 for a bare-metal image; teams and atomic domains 64 |
//! | in one cache line, each way | short with 11 arguments; medium with 44 bytes of arguments and payload |
//!
//! For N ranks, the messages take N · (16,832 + N · 558,144) bytes of the world (140,352 for 558,144 from 17 ranks on):
//! 2.2 MiB for two, 550 MiB for 64, 2.2 TiB of addresses for 4,095. Only what is used takes memory, by a pair with short
//! messages 1,088 bytes.
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
