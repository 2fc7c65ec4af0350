//! What calls of nothing cost.
use hamr_comm::Context;
use hamr_xacc::prelude::*;

/// Does nothing, as a program.
#[offload(unlisted)]
pub fn idle(_w: &mut Spmd) {}

/// Does nothing, as a call of one device.
#[offload(unlisted)]
pub fn nothing(_cx: &mut Context) {}
