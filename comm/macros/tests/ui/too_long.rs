//! Arguments that are too long for any message are a compile error.
use hamr_comm::{Context, offload};

#[offload]
fn big(_cx: &mut Context, _x: [f64; 4096]) {}

fn main() {}
