//! A reference cannot cross the link; a handler takes the pointer of a buffer instead.
use hamr_comm::{BufferPtr, Context, offload};

#[offload]
fn sum(_cx: &mut Context, x: &[f64]) -> f64 {
    x.iter().sum()
}

#[offload]
fn greet(_cx: &mut Context, _name: &str, _raw: *const u8, _f: fn(u8) -> u8) {}

#[offload]
fn nested(_cx: &mut Context, _x: Option<(u8, &'static u8)>) -> &'static str {
    ""
}

#[offload]
fn right(_cx: &mut Context, _x: BufferPtr<f64>) {}

fn main() {}
