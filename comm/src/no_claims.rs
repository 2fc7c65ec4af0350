//! In the place of `claims` in images whose tasks claim nothing.

use crate::fault::Fault;
use hamr_shared_abi::window::LentHeap;

pub(crate) const ARE_THERE: bool = false;

#[inline(always)]
pub(crate) fn any() -> bool {
    false
}

#[inline(always)]
pub(crate) fn check(_: &LentHeap<'_>, _: (u64, u64), _: bool, _: u32) -> Result<(), Fault> {
    Ok(())
}

#[expect(dead_code, reason = "no task has one")]
pub(crate) enum Holder {
    Own,
    Other(u64),
    None,
}

#[inline(always)]
pub(crate) fn with_holder<R>(_: &LentHeap<'_>, _: usize, _: u32, f: impl FnOnce(Holder) -> R) -> R {
    f(Holder::None)
}

#[inline(always)]
pub(crate) fn if_unclaimed<R>(_: usize, f: impl FnOnce() -> R) -> Option<R> {
    Some(f())
}
