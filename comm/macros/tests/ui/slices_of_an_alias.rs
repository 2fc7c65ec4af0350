//! A task under another name takes no slices: the compiler decides by its type, and says why.
use hamr_comm::{Task as Waits, offload};

#[offload]
fn total(_: &mut Waits, values: &[u32]) -> u32 {
    values.len() as u32
}

fn main() {}
