//! A second module, which is loaded behind the first.
#![no_std]

use hamr_comm::{Context, offload};

hamr_comm::module!();

/// The answer.
#[offload]
pub fn answer(_cx: &mut Context) -> u64 {
    42
}
