//! Handlers as a user's crate has them, for tests that need another crate: no unsafe code, no
//! warnings.
#![forbid(unsafe_code)]
#![deny(warnings)]

use hamr_comm::{BufferPtr, Context, Element, Fault, Migratable, Task, offload};

/// `y += a x`.
#[offload]
pub fn axpy(cx: &mut Context, a: f64, x: BufferPtr<f64>, y: BufferPtr<f64>) -> Result<(), Fault> {
    let (x, y) = cx.views((x.read(), y.write()))?;
    for (y, x) in y.iter_mut().zip(x) {
        *y += a * x;
    }
    Ok(())
}

/// Sets every element.
#[offload(instances(f32, f64))]
pub fn fill<T: Element>(cx: &mut Context, value: T, y: BufferPtr<T>) -> Result<(), Fault> {
    cx.view_mut(y)?.fill(value);
    Ok(())
}

/// Two type parameters; a task that may overtake.
#[offload(instances((u8, [u16; 2]), (Point, u8)), unordered)]
pub fn first<T, U>(_task: &mut Task, one: T, _other: U) -> T
where
    T: Migratable,
    U: Migratable,
{
    one
}

/// Generic without instances of its own: other crates register theirs.
#[offload]
pub fn echo<T: Migratable>(_cx: &mut Context, value: T) -> T {
    value
}

/// Reads a converter that only the device has.
#[offload(device)]
pub fn adc(_cx: &mut Context, channel: u8) -> Result<u16, Fault> {
    Ok(u16::from(channel) + 100)
}

/// A service of the host for its devices.
#[offload(host)]
pub fn clock(_cx: &mut Context) -> u64 {
    1907
}

/// Parameters without usable names.
#[offload]
pub fn patterns(_cx: &mut Context, _: u8, (a, b): (u8, u8), _type: u8, _scale: u8, mut sum: u8) -> u8 {
    sum += a + b;
    sum
}

/// Fails with an error of its own.
#[offload]
pub fn refuse(_cx: &mut Context, at: Point) -> Result<u8, Refusal> {
    Err(Refusal::At(at))
}

/// A false `cfg` removes the function and everything made of it.
#[offload]
#[cfg(any())]
pub fn absent(_cx: &mut Context, never: Undefined) {}

/// A point in the plane.
#[derive(Clone, Copy, PartialEq, Debug, Migratable)]
pub struct Point {
    /// Metres.
    pub x: f64,
    /// Metres.
    pub y: f64,
}

/// The error of a handler that refuses.
#[derive(Clone, Copy, PartialEq, Debug, Migratable)]
pub enum Refusal {
    /// Busy.
    Busy,
    /// Not here.
    At(Point),
}
