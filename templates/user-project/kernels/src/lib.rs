//! Handlers, written once: the image runs them, the host calls them by name.
#![no_std]
#![forbid(unsafe_code)]

use hamr_comm::{BufferPtr, Context, Element, Fault, Migratable, offload};

/// `y += a x`.
#[offload]
pub fn axpy(cx: &mut Context, a: f64, x: BufferPtr<f64>, y: BufferPtr<f64>) -> Result<(), Fault> {
    let (x, y) = cx.views((x.read(), y.write()))?; // in the heap, aligned, disjoint: checked
    for (y, x) in y.iter_mut().zip(x) {
        *y += a * x;
    }
    Ok(())
}

/// Sets every element. Generic handlers say which instances the image holds.
#[offload(instances(f32, f64))]
pub fn fill<T: Element>(cx: &mut Context, v: T, y: BufferPtr<T>) -> Result<(), Fault> {
    cx.view_mut(y)?.fill(v);
    Ok(())
}

/// Reads a converter. Only images hold the body; hosts know how to call it.
#[offload(device)]
pub fn adc(_cx: &mut Context, ch: u8) -> Result<u16, Fault> {
    // Registers, vendor code, an `embedded-hal` driver: whatever only the device has.
    match ch {
        0..4 => Ok(1000 + 10 * u16::from(ch)),
        _ => Err(Fault::msg("the converter has four channels")),
    }
}

/// A value of our own that crosses.
#[derive(Clone, Copy, PartialEq, Debug, Migratable)]
pub struct Summary {
    /// The smallest element.
    pub least: f64,
    /// The largest.
    pub most: f64,
    /// Their mean.
    pub mean: f64,
}

/// An error of our own that crosses.
#[derive(Clone, Copy, PartialEq, Debug, Migratable)]
pub enum NoSummary {
    /// There are no elements.
    Empty,
    /// The device cannot read the buffer.
    Unreadable,
}

/// Summarises a vector.
#[offload]
pub fn summarise(cx: &mut Context, x: BufferPtr<f64>) -> Result<Summary, NoSummary> {
    let x = cx.view(x).map_err(|_| NoSummary::Unreadable)?;
    if x.is_empty() {
        return Err(NoSummary::Empty);
    }
    let start = Summary { least: f64::INFINITY, most: f64::NEG_INFINITY, mean: 0.0 };
    Ok(x.iter().fold(start, |s, v| Summary {
        least: s.least.min(*v),
        most: s.most.max(*v),
        mean: s.mean + v / x.len() as f64,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hamr_comm::testing::Heap;

    #[test]
    fn axpy_on_the_host() {
        let mut heap = Heap::new(4096);
        let (x, y) = (heap.buffer(&[1.0, 2.0]), heap.buffer(&[10.0, 20.0]));
        axpy(&mut heap.context(), 3.0, x, y).expect("both are in the heap");
        assert_eq!(heap.read(y), [13.0, 26.0]);
    }

    #[test]
    fn one_buffer_is_not_two() {
        let mut heap = Heap::new(4096);
        let x = heap.buffer(&[1.0, 2.0]);
        assert!(axpy(&mut heap.context(), 3.0, x, x).is_err(), "read and written at once");
    }

    #[test]
    fn summaries() {
        let mut heap = Heap::new(4096);
        let (x, none) = (heap.buffer(&[1.0, 4.0, -2.0, 5.0]), heap.zeroed::<f64>(0));
        let expected = Summary { least: -2.0, most: 5.0, mean: 2.0 };
        assert_eq!(summarise(&mut heap.context(), x), Ok(expected));
        assert_eq!(summarise(&mut heap.context(), none), Err(NoSummary::Empty));
    }
}
