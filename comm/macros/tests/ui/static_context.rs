//! A handler has the context for one call only.
use hamr_comm::{Context, offload};

#[offload]
fn forever(_cx: &'static mut Context) {}

#[offload]
fn outlives(_cx: &mut Context<'static>) {}

type Long = Context<'static>;

#[offload]
fn hidden(_cx: &mut Long) {}

#[offload]
fn named<'a>(_cx: &'a mut Context<'a>) {}

fn main() {}
