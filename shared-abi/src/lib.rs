//! The bits that a host and a device agree on: ids, window layout, slot, queue pair, status codes.
//!
//! `docs/abi.md` is the normative text; the `abi §n` in a doc comment names the section a field
//! comes from. This crate has no behaviour: what both sides do alike is in `hamr-comm`. No
//! allocation, no statics, no pointers in any wire type. `window` is the only module that accesses
//! raw memory.
//!
//! Who may depend on it: every crate of the workspace. It depends on none of them.
#![no_std]

#[cfg(target_endian = "big")]
compile_error!(
    "the wire format is little-endian and its words are read in place: a big-endian side needs a swapping Window"
);

pub mod buffer;
pub mod ids;
pub mod image;
pub mod layout;
mod open;
pub mod preamble;
pub mod queue;
pub mod rings;
pub mod section;
pub mod slot;
pub mod split;
pub mod staging;
pub mod status;
pub mod sync;
pub mod table;
pub mod task_line;
pub mod version;
pub mod window;
pub mod world;

pub use layout::tasks;
