//! The error for an unknown option names the known ones.
use hamr_comm::{Context, Migratable, offload};

#[offload(inline)]
fn a(_cx: &mut Context) {}

#[offload(device, host)]
fn b(_cx: &mut Context) {}

#[offload(instances(f32))]
fn c(_cx: &mut Context) {}

#[offload(instances((f32, f64)))]
fn d<T: Migratable>(_cx: &mut Context, _x: T) {}

#[offload(name = "two words")]
fn e(_cx: &mut Context) {}

#[offload(unordered, unordered)]
fn f(_cx: &mut Context) {}

#[offload(queued)]
fn g(_cx: &mut Context) {}

#[offload(unlisted, instances(f32))]
fn h<T: Migratable>(_cx: &mut Context, _x: T) {}

hamr_comm::register!(a);

fn main() {}
