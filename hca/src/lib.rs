//! A host channel adapter in software (abi §16): what takes the work requests of a device and completes them.
//!
//! `engine` is the adapter without input and output: it reads rings, copies messages and writes completions. Both ends of each
//! connection are in it (the wire `self`). `server` is the process around it: the socket to the host, the mapped window, the loop
//! that polls. `packet` has the packets between adapters (RoCEv2), `wire` what carries them.
//!
//! Who may depend on it: its binary, tests. It depends on `hamr-verbs` for the bits, on `hamr` for the mapping of a window.
#![forbid(unsafe_code)]

pub mod engine;
pub mod packet;
pub mod server;
pub mod wire;

pub use engine::Engine;
