//! A host channel adapter in software (abi §16): what takes the work requests of a device and completes them.
//!
//! `engine` is the adapter without input and output: it reads rings, copies messages and writes completions. Both ends
//! of a connection are in it (the wire `self`), or it takes and makes packets for adapters elsewhere: `packet` is what
//! these are, `connection` when each is sent, and `wire` what carries them. `rest` decides when the adapter sleeps and
//! wakes its device. `server` is the process around it: the socket to the host, the mapped window, the loop. `command` is
//! what people start, `exchange` what such programs tell each other.
//!
//! Who may depend on it: its binary, tests. It depends on `hamr-verbs` for the bits, on `hamr` for the mapping of a
//! window; `command` is a host program, too.
#![forbid(unsafe_code)]
// A stream that is closed or full must not end a program by a panic: `hamr::io`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod command;
pub mod connection;
pub mod engine;
pub mod exchange;
pub mod packet;
pub mod rest;
pub mod server;
pub mod wire;

pub use engine::Engine;
