//! The handlers of the demonstration and of `hamr dot`.

use hamr_comm::{BufferPtr, Context, Element, Fault, offload};

/// Inner product, left to right, in f64: the same bits on every device.
#[offload]
pub fn dot_f64(cx: &mut Context, x: BufferPtr<f64>, y: BufferPtr<f64>) -> Result<f64, Fault> {
    dot_f64_from(cx, 0.0, x, y)
}

/// [`dot_f64()`] that continues from `start`: vectors longer than the device's memory come in
/// blocks, and the additions keep their order.
#[offload]
pub fn dot_f64_from(cx: &mut Context, start: f64, x: BufferPtr<f64>, y: BufferPtr<f64>) -> Result<f64, Fault> {
    sum_of_products(cx, start, x, y)
}

/// Inner product of f32 vectors, left to right, each product and the sum in f64.
#[offload]
pub fn dot_f32(cx: &mut Context, x: BufferPtr<f32>, y: BufferPtr<f32>) -> Result<f64, Fault> {
    dot_f32_from(cx, 0.0, x, y)
}

/// [`dot_f32()`] that continues from `start`.
#[offload]
pub fn dot_f32_from(cx: &mut Context, start: f64, x: BufferPtr<f32>, y: BufferPtr<f32>) -> Result<f64, Fault> {
    sum_of_products(cx, start, x, y)
}

// One loop for the two handlers of a type.
#[inline(never)]
fn sum_of_products<T: Element + Into<f64>>(
    cx: &mut Context,
    start: f64,
    x: BufferPtr<T>,
    y: BufferPtr<T>,
) -> Result<f64, Fault> {
    let (x, y) = cx.views((x.read(), y.read()))?;
    same_length(x, y)?;
    Ok(x.iter().zip(y).fold(start, |sum, (&a, &b)| sum + a.into() * b.into()))
}

fn same_length<T>(x: &[T], y: &[T]) -> Result<(), Fault> {
    if x.len() == y.len() { Ok(()) } else { Err(Fault::msg("vectors of different lengths")) }
}

/// `y += a * x`.
#[offload]
pub fn axpy(cx: &mut Context, a: f64, x: BufferPtr<f64>, y: BufferPtr<f64>) -> Result<(), Fault> {
    let (x, y) = cx.views((x.read(), y.write()))?;
    same_length(x, y)?;
    for (y, x) in y.iter_mut().zip(x) {
        *y += a * x;
    }
    Ok(())
}

/// Sets every element.
#[offload(instances(f32, f64, u8, u32, u64))]
pub fn fill<T: Element>(cx: &mut Context, value: T, y: BufferPtr<T>) -> Result<(), Fault> {
    cx.view_mut(y)?.fill(value);
    Ok(())
}

/// The instruction set of the device, as an [`hamr_comm::abi::ids::Isa`] number.
#[offload]
pub fn isa(cx: &mut Context) -> u32 {
    cx.isa().0
}

/// A handler whose body is in images only: it uses what only a device has.
#[offload(device)]
pub fn node_of_device(cx: &mut Context) -> u16 {
    cx.node().0
}

#[cfg(test)]
mod tests {
    use super::*;
    use hamr_comm::testing::Heap;

    #[test]
    fn a_handler_is_a_plain_function() {
        let mut heap = Heap::new(4096);
        let x = heap.buffer(&[1.0, 2.0, 3.0]);
        let y = heap.buffer(&[10.0, 20.0, 30.0]);
        axpy(&mut heap.context(), 2.0, x, y).expect("lengths agree");
        assert_eq!(heap.read(y), [12.0, 24.0, 36.0]);
        assert_eq!(dot_f64(&mut heap.context(), x, y), Ok(12.0 + 48.0 + 108.0));
    }

    #[test]
    fn blocks_give_the_bits_of_one_call() {
        let mut heap = Heap::new(4096);
        let values: [f64; 9] = core::array::from_fn(|i| 1.0 / (i as f64 + 3.0));
        let (x, y) = (heap.buffer(&values), heap.buffer(&values));
        let whole = dot_f64(&mut heap.context(), x, y).expect("lengths agree");
        let part = |p: BufferPtr<f64>, range| p.slice(range).expect("inside the buffer");
        let first = dot_f64_from(&mut heap.context(), 0.0, part(x, 0..4), part(y, 0..4)).expect("lengths agree");
        let both = dot_f64_from(&mut heap.context(), first, part(x, 4..9), part(y, 4..9)).expect("lengths agree");
        assert_eq!(both.to_bits(), whole.to_bits());
    }

    #[test]
    fn different_lengths_are_a_fault() {
        let mut heap = Heap::new(4096);
        let (x, y) = (heap.buffer(&[1.0]), heap.buffer(&[1.0, 2.0]));
        assert!(dot_f64(&mut heap.context(), x, y).is_err());
    }
}
