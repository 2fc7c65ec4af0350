//! An instance must satisfy the bounds of its handler.
use hamr_comm::{BufferPtr, Context, Element, Fault, offload};

#[offload(instances(f32, bool))]
fn fill<T: Element>(cx: &mut Context, v: T, y: BufferPtr<T>) -> Result<(), Fault> {
    cx.view_mut(y)?.fill(v);
    Ok(())
}

hamr_comm::register!(fill::<String>);

fn main() {}
