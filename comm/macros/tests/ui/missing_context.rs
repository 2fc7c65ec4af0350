//! The context comes first, once.
use hamr_comm::{Context, offload};

#[offload]
fn none() {}

#[offload]
fn other(_a: u8, _cx: &mut Context) {}

#[offload]
fn shared(_cx: &Context) {}

#[offload]
fn by_value(_cx: Context<'_>) {}

#[offload]
fn twice(_cx: &mut Context, _again: &mut Context) {}

#[offload]
fn wrong(_cx: &mut u32) {}

fn main() {}
