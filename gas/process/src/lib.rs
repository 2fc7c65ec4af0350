//! One-sided transfers between processes, to memory that is in no segment.
//!
//! A process copies straight into memory of another (cross-memory attach, `process_vm_writev`). The owner of the
//! memory says which part it is ([`Exposed`]), and pins what is asked for ([`Owner`]); the others keep what is pinned
//! in a registration cache ([`Far`], over [`hamr_gas::firehose::Remote`]). Where the system forbids the copies, the
//! first look ([`Peer::attach`]) says so, and data goes in messages. [`Outside`] is all of this for a [`hamr_gas::Rank`].
//!
//! Every other memory between ranks is a world's, and mapped: see `docs/worlds.md`. May be used by programs on Linux.
//!
//! `cargo xtask put-out` is the paper's figure 5: blocking puts of one size to one buffer of another process, GB/s of the fastest round, on two
//! processors. *pin each* has the owner lock and unlock each put's range; *firehose* adds the cache; *bounce* copies pieces of 16 KiB into the
//! owner's segment, from which the owner copies them meanwhile.
//!
//! ```text
//!    size   pin each   firehose     bounce   GB/s; firehose over pin each
//!     4 KiB      0.51       3.22       8.82    6.36
//!    16 KiB      1.58       8.18      23.04    5.19
//!    64 KiB      3.25      12.70      26.23    3.91
//!   256 KiB      4.39      14.81      26.76    3.37
//!  1024 KiB      4.47      13.87      24.46    3.10
//!  4096 KiB      4.43      10.13      20.86    2.29
//! ```
//!
//! The paper's gain is 3.5 to 8.5 %: there, pinning is local, without a message. A bounced put is faster, but costs the owner's processor, and
//! needs an owner that serves.

mod attach;
mod exposed;
mod far;
mod lock;
mod outside;
mod owner;

pub use attach::{AttachError, Peer};
pub use exposed::Exposed;
pub use far::{Ask, Far, FarError};
pub use lock::Locker;
pub use outside::{HasSide, Outside, OutsideError, Side, handlers};
pub use owner::Owner;
