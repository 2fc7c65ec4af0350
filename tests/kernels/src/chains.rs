//! Calls of chains: values of every length, a buffer, and each way to end without a value.

use hamr_comm::{BufferPtr, Context, Fault, Migratable, offload};

/// The sum.
#[offload]
pub fn add(_: &mut Context, x: u64, y: u64) -> u64 {
    x + y
}

/// Longer than a line.
#[derive(Clone, Copy, PartialEq, Debug, Migratable)]
pub struct Wide {
    /// `x`, `x + 1` and so on.
    pub values: [u64; 20],
}

/// 160 bytes of one number.
#[offload]
pub fn widen(_: &mut Context, x: u64) -> Wide {
    Wide { values: core::array::from_fn(|i| x + i as u64) }
}

/// One number of 160 bytes and a factor.
#[offload]
pub fn narrow(_: &mut Context, wide: Wide, by: u64) -> u64 {
    wide.values.iter().sum::<u64>() * by
}

/// The value as text.
#[offload]
pub fn text(_: &mut Context, x: u64) -> heapless::String<32> {
    use core::fmt::Write;
    let mut text = heapless::String::new();
    let _ = write!(text, "{x}");
    text
}

/// 4 bytes of result.
#[offload]
pub fn low(_: &mut Context, x: u64) -> u32 {
    x as u32
}

/// 4 bytes in front of 9 others.
#[offload]
pub fn scaled(_: &mut Context, x: u32, by: u8, plus: u64) -> u64 {
    u64::from(x) * u64::from(by) + plus
}

/// 4 bytes in front of a whole line's.
#[offload]
pub fn far_behind(_: &mut Context, x: u32, behind: [u64; 6]) -> u64 {
    behind.iter().sum::<u64>() + u64::from(x)
}

/// No result.
#[offload]
pub fn nothing(_: &mut Context, _x: u64) {}

/// No bytes in front of one.
#[offload]
pub fn behind_nothing(_: &mut Context, _nothing: (), x: u8) -> u8 {
    x
}

/// Adds `x` to every element; returns their sum.
#[offload]
pub fn add_to_all(_: &mut Context, x: u64, all: &mut [u64]) -> u64 {
    all.iter_mut().for_each(|element| *element += x);
    all.iter().sum()
}

/// Refuses odd numbers by an error of its own, numbers above a hundred by a fault, and panics at a
/// thousand.
#[offload]
pub fn small_and_even(_: &mut Context, x: u64) -> Result<u64, Fault> {
    assert!(x != 1000, "a thousand");
    if x > 100 { Err(Fault::msg("more than a hundred")) } else { Ok(x) }
}

/// An error of its own for odd numbers.
#[offload]
pub fn even(_: &mut Context, x: u64) -> Result<u64, u64> {
    if x.is_multiple_of(2) { Ok(x) } else { Err(x) }
}

/// Reads a buffer's first element behind the value that came before.
#[offload]
pub fn first_of(cx: &mut Context, _before: u64, of: BufferPtr<u64>) -> Result<u64, Fault> {
    cx.view(of)?.first().copied().ok_or_else(|| Fault::msg("it is empty"))
}

/// A result that no link has room for.
#[offload]
pub fn huge(_: &mut Context, x: u64) -> [u64; 100] {
    [x; 100]
}
