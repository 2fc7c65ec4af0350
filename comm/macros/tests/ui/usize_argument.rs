//! The width of `usize` differs between the sides.
use hamr_comm::{BufferPtr, Context, Migratable, offload};

#[offload]
fn count(_cx: &mut Context, n: usize, _x: BufferPtr<isize>) -> Result<usize, u8> {
    Ok(n)
}

#[derive(Migratable)]
struct Range {
    first: usize,
    last: u64,
}

fn main() {}
