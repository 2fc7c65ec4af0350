//! Windows that are lent: accesses through one end with the borrow, and none outlives it.

use core::marker::PhantomData;
use core::ops::Deref;

use super::{Loan, OutOfWindow, Window};
use crate::slot::SLOT_BYTES;
use crate::split::Tail;

/// A window for as long as another one is borrowed, whatever keeps that one mapped: code that takes
/// it is compiled once.
pub struct LentWindow<'w> {
    window: Window<Loan>,
    _lender: PhantomData<&'w ()>,
}

impl Deref for LentWindow<'_> {
    type Target = Window<Loan>;
    fn deref(&self) -> &Window<Loan> {
        &self.window
    }
}

impl<K> Window<K> {
    /// This window without its keeper.
    pub fn lend(&self) -> LentWindow<'_> {
        LentWindow {
            window: Window { base: self.base, len: self.len, tail: self.tail, keep: Loan(()) },
            _lender: PhantomData,
        }
    }

    /// A part of it, likewise, `off` a multiple of 64.
    pub fn lend_part(&self, off: u64, len: u64) -> Result<LentWindow<'_>, OutOfWindow> {
        let base = self.at_aligned(off, len, SLOT_BYTES as u64)?;
        Ok(LentWindow { window: Window { base, len, tail: Tail::NONE, keep: Loan(()) }, _lender: PhantomData })
    }
}
