//! One-sided transfers between processes, to memory that is in no segment.
//!
//! A process copies straight into memory of another (cross-memory attach, `process_vm_writev`). The owner of the
//! memory says which part it is ([`Exposed`]), and pins what is asked for ([`Owner`]); the others keep what is pinned
//! in a registration cache ([`Far`], over [`hamr_gas::firehose::Remote`]). Where the system forbids the copies, the
//! first look ([`Peer::attach`]) says so, and data goes in messages. [`Outside`] is all of this for a [`hamr_gas::Rank`].
//!
//! Every other memory between ranks is a world's, and mapped: see `docs/worlds.md`. May be used by programs on Linux.

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
