//! The `hamr` binary with machines.

#[expect(dead_code, reason = "shared with `cli`, which uses all of it")]
#[path = "../common/mod.rs"]
mod common;
mod debug;
mod scenarios;

/// What is tested.
const PROGRAM: &str = env!("CARGO_BIN_EXE_hamr");
