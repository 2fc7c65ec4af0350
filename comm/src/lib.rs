//! The behaviour that host and device share: handlers and their table, what can travel, endpoints,
//! handshake.
//!
//! Handler crates depend on this one only, and need little of it: [`offload`], [`Context`],
//! [`BufferPtr`], [`Fault`], `#[derive(Migratable)]`, the log macros, and `testing` for their own
//! tests.
//!
//! Features: `tasks`, handlers on stacks of their own, which wait; `claims`, what these keep from others; `world`, calls between
//! ranks; `modules`, handlers loaded at run time; `side`, a section that a third program serves; `driven`, images
//! without an operating system that drive their host's memory; `postcard`, the hook of `#[migratable(postcard)]`; `defmt` and `tracing`, where
//! handlers' logs go. Pages named `docs/…` are in the repository.
//!
//! Who may depend on it: everything above (`hamr`, `hamr-device-fw`, handler crates). It depends on
//! `hamr-shared-abi` and its own macros. No allocation outside of hosted builds and `driven`; `unsafe` only in
//! [`registry`].
#![no_std]

#[cfg(any(not(hamr_bare), feature = "driven"))]
extern crate alloc;
#[cfg(not(hamr_bare))]
extern crate std;
// The macros name this crate as `hamr_comm`, here too.
extern crate self as hamr_comm;

pub mod am;
pub mod buffer;
pub mod chain;
#[cfg_attr(not(feature = "claims"), path = "no_claims.rs")]
mod claims;
mod context;
mod enter;
pub mod fault;
pub mod frame;
pub mod handler;
pub mod handshake;
pub mod host;
mod host_call;
mod log;
pub mod migrate;
#[cfg(any(not(hamr_bare), feature = "driven"))]
pub mod mirror;
#[cfg(feature = "modules")]
pub mod module;
mod node_name;
mod outgoing;
pub mod registry;
pub mod relay;
mod resource;
mod shared;
#[cfg(feature = "side")]
pub mod side;
pub mod signature;
mod staging;
pub mod task;
#[cfg(not(hamr_bare))]
pub mod testing;
mod wait;
mod why;
pub mod world;

pub use buffer::{BufferPtr, Element};
#[cfg(feature = "claims")]
pub use claims::ClaimedRange;
#[cfg(all(feature = "claims", hamr_bare))]
pub use claims::use_claimed_ranges;
pub use context::{Context, View, ViewSet};
pub use enter::Program;
pub use fault::Fault;
pub use hamr_comm_macros::{Migratable, offload, register};
pub use handler::{Call, Enter, Entry, ErrorOf, Handler, HandlerError, HandlerResult, Never, ValueOf};
pub use host::Host;
pub use host_call::{HOST, Pending, TaskCallError};
pub use migrate::{Bits, Migratable};
pub use relay::CallTarget;
pub use resource::Resource;
pub use staging::{Stage, Staged, Staging};
#[cfg(all(feature = "tasks", feature = "claims"))]
pub use task::Claim;
pub use task::{Interrupted, Target, Task};
pub use why::Why;

pub use hamr_shared_abi as abi;
pub use hamr_shared_abi::ids::{NodeId, RankId};

/// Feature bits (abi §3.6) of layers above this crate that the build has.
pub const LAYERS: u32 = if cfg!(feature = "side") { abi::preamble::feature::VERBS } else { 0 };

/// Handlers that every image has.
pub mod builtin {
    pub use crate::registry::ping;
}

/// What expansions refer to.
#[doc(hidden)]
pub mod __private {
    pub use crate::host::ON_HOST;
    pub use crate::migrate::VisitBuffer;
    pub use bytemuck;
    #[cfg(feature = "defmt")]
    pub use defmt;
    pub use hamr_shared_abi::table::{hash, hash_join, record_flag};
    #[cfg(feature = "tracing")]
    pub use tracing;
}
