//! Results, arguments and fields of types that cannot cross the link.
use hamr_comm::{Context, Migratable, offload};

struct Mine;

#[offload]
fn list(_cx: &mut Context) -> Vec<u8> {
    Vec::new()
}

#[offload]
fn take(_cx: &mut Context, _mine: Mine, _text: String) {}

#[offload]
fn fail(_cx: &mut Context) -> Result<u8, String> {
    Ok(0)
}

#[offload]
fn raw(_cx: &mut Context) -> *mut u8 {
    core::ptr::null_mut()
}

#[derive(Migratable)]
struct Wrapper {
    mine: Mine,
}

fn main() {}
