//! A reference cannot cross the link, but for the slices of an inline handler, which are buffers.
use hamr_comm::{BufferPtr, Context, Host, Task, offload};

#[offload]
fn sum(_cx: &mut Context, x: &f64) -> f64 {
    *x
}

#[offload]
fn greet(_cx: &mut Context, _name: &str, _raw: *const u8, _f: fn(u8) -> u8) {}

#[offload]
fn nested(_cx: &mut Context, _x: Option<(u8, &'static u8)>) -> &'static str {
    ""
}

#[offload]
fn right(_cx: &mut Context, _x: BufferPtr<f64>, _y: &[u8], _z: &mut [u8]) {}

#[offload]
fn longer_than_a_call(_cx: &mut Context, _x: &'static [u8]) {}

#[offload]
fn waits(_task: &mut Task, _x: &[u8]) {}

#[offload]
fn on_the_host(_host: &mut Host, _x: &mut [u8]) {}

#[offload]
fn seven(_cx: &mut Context, _: &[u8], _: &[u8], _: &[u8], _: &[u8], _: &[u8], _: &[u8], _: &mut [u8]) {}

#[offload]
fn its_own_error(_cx: &mut Context, _x: &[u8]) -> Result<(), u8> {
    Ok(())
}

#[offload]
fn no_element(_cx: &mut Context, _x: &[bool], _y: &[usize]) {}

fn main() {}
