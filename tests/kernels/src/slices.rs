//! Handlers whose arguments are slices.

use hamr_comm::{BufferPtr, Context, Element, Fault, offload};

/// `y += a x`.
#[offload]
pub fn add_scaled(_: &mut Context, a: f64, x: &[f64], y: &mut [f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x);
}

/// How many elements are `wanted`.
#[offload(instances(u8, u64))]
pub fn count<T: Element + PartialEq>(_: &mut Context, x: &[T], wanted: T) -> u64 {
    x.iter().filter(|&&x| x == wanted).count() as u64
}

/// The elements that are multiples of `of`, as many as there is room for; how many there are.
#[offload]
pub fn multiples(_: &mut Context, of: u32, x: &[u32], out: &mut [u32]) -> u32 {
    let found = || x.iter().filter(|x| x.is_multiple_of(of));
    out.iter_mut().zip(found()).for_each(|(to, from)| *to = *from);
    found().count() as u32
}

/// Six slices, as many as a handler may have: sums of the others by element, and their number.
#[offload]
pub fn sums(
    _: &mut Context,
    a: &[u32],
    b: &[u32],
    c: &[u32],
    d: &[u32],
    e: &[u32],
    out: &mut [u32],
) -> Result<u32, Fault> {
    let inputs = [a, b, c, d, e];
    if inputs.iter().any(|input| input.len() != out.len()) {
        return Err(Fault::msg("slices of different lengths"));
    }
    for (i, out) in out.iter_mut().enumerate() {
        *out = inputs.iter().map(|input| input[i]).sum();
    }
    Ok(inputs.len() as u32)
}

/// Asks for a view of a buffer that it already has as a slice.
#[offload]
pub fn view_again(cx: &mut Context, x: &mut [u8], again: BufferPtr<u8>) -> Result<u8, Fault> {
    x.fill(1);
    let seen = cx.view(again)?.first().copied().unwrap_or(0);
    Ok(seen)
}

/// Returns whether its call was cancelled, and its budget.
#[offload]
pub fn budget(cx: &mut Context, out: &mut [u32]) -> bool {
    out.fill(cx.deadline_us());
    cx.cancelled()
}
