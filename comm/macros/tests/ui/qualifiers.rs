//! Functions that cannot be handlers.
use hamr_comm::{Context, offload};

#[offload]
async fn later(_cx: &mut Context) {}

#[offload]
unsafe fn trusting(_cx: &mut Context) {}

#[offload]
extern "C" fn foreign(_cx: &mut Context) {}

#[offload]
const fn constant(_cx: &mut Context) {}

#[offload]
fn lanes<const N: usize>(_cx: &mut Context) {}

#[offload]
fn any(_cx: &mut Context, _x: impl Copy) {}

#[offload]
fn never(_cx: &mut Context) -> ! {
    loop {}
}

#[offload]
struct NotAFunction;

fn main() {}
