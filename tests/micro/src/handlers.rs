//! Eight handlers, as a small device has them. The test that calls them has this file, too.

use hamr_comm::{BufferPtr, Context, Fault, offload};

/// Adds.
#[offload(name = "few::add")]
pub(crate) fn add(_: &mut Context, a: u64, b: u64) -> u64 {
    a.wrapping_add(b)
}

/// Returns what it gets, which is longer than a slot.
#[offload(name = "few::echo")]
pub(crate) fn echo(_: &mut Context, words: [u64; 7]) -> [u64; 7] {
    words
}

/// Returns what it gets, in other types.
#[offload(name = "few::mixed")]
pub(crate) fn mixed(_: &mut Context, a: u8, b: i16, c: f32, d: bool) -> (bool, f32, i16, u8) {
    (d, c, b, a)
}

/// Writes numbers from `first` on.
#[offload(name = "few::count")]
pub(crate) fn count(cx: &mut Context, first: u32, to: BufferPtr<u32>) -> Result<(), Fault> {
    (first..).zip(cx.view_mut(to)?.iter_mut()).for_each(|(number, to)| *to = number);
    Ok(())
}

/// The sum of a buffer.
#[offload(name = "few::sum")]
pub(crate) fn sum(_: &mut Context, of: &[u32]) -> u64 {
    of.iter().map(|n| u64::from(*n)).sum()
}

/// The largest of a buffer.
#[offload(name = "few::most")]
pub(crate) fn most(_: &mut Context, of: &[u32]) -> Option<u32> {
    of.iter().copied().max()
}

/// Fails as it is asked to.
#[offload(name = "few::fails")]
pub(crate) fn fails(_: &mut Context, code: u32) -> Result<u32, Fault> {
    assert!(code != 7, "asked to panic");
    Ok(code)
}

/// Does nothing.
#[offload(name = "few::nothing")]
pub(crate) fn nothing(_: &mut Context) {}
