//! Strided copies: runs of bytes at distances that differ at the two ends.

use super::OutOfReach;
use hamr_shared_abi::window::{Loan, Window};

/// Levels of a strided copy at most.
pub const MAX_LEVELS: usize = 7;

/// What a strided copy copies: runs of `run` bytes, `counts[0]` of them `here[0]` bytes apart in
/// private memory and `there[0]` in the segment, `counts[1]` such groups, and so on. Distances are
/// from start to start. Where runs overlap in the destination, any of them remains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strided<'a> {
    /// Bytes of a run.
    pub run: usize,
    /// How many, per level, innermost first; at most [`MAX_LEVELS`].
    pub counts: &'a [usize],
    /// Distances in private memory, per level.
    pub here: &'a [usize],
    /// Distances in the segment, per level.
    pub there: &'a [usize],
}

impl<'a> Strided<'a> {
    /// The same with runs as long as they can be: levels that are contiguous at both ends are part of
    /// the run. `None`: it is malformed, or has more bytes than an address counts.
    fn simplify(mut self) -> Option<Self> {
        let levels = self.counts.len();
        if levels > MAX_LEVELS || self.here.len() != levels || self.there.len() != levels {
            return None;
        }
        while let ([count, counts @ ..], [a, here @ ..], [b, there @ ..]) = (self.counts, self.here, self.there)
            && *a == self.run
            && *b == self.run
        {
            self = Self { run: self.run.checked_mul(*count)?, counts, here, there };
        }
        Some(self)
    }

    fn is_empty(&self) -> bool {
        self.run == 0 || self.counts.contains(&0)
    }

    /// Bytes from the first to the end of the last run.
    fn extent(&self, strides: &[usize]) -> Option<usize> {
        let mut last = self.counts.iter().zip(strides).map(|(count, stride)| (count - 1).checked_mul(*stride));
        last.try_fold(self.run, |sum, distance| sum.checked_add(distance?))
    }

    /// Calls `copy` for each run, with its place at both ends.
    #[inline(always)]
    fn each(&self, mut copy: impl FnMut(usize, usize)) {
        let (mut at, mut here, mut there) = ([0; MAX_LEVELS], 0, 0);
        let levels = || self.counts.iter().zip(self.here).zip(self.there);
        let (count, a, b) = levels().next().map_or((1, 0, 0), |((count, a), b)| (*count, *a, *b));
        loop {
            for i in 0..count {
                copy(here + i * a, there + i * b);
            }
            // The next group: a level that is through starts over, and the one outside of it steps.
            let mut stepped = false;
            for (((count, a), b), at) in levels().zip(&mut at).skip(1) {
                *at += 1;
                // A level of one run may have any distance.
                (here, there) = (here.wrapping_add(*a), there.wrapping_add(*b));
                if *at < *count {
                    stepped = true;
                    break;
                }
                here = here.wrapping_sub(count.wrapping_mul(*a));
                there = there.wrapping_sub(count.wrapping_mul(*b));
                *at = 0;
            }
            if !stepped {
                return;
            }
        }
    }

    /// Checks both ends once, then copies run by run.
    fn check(self, off: u64, window: &Window<Loan>, private: usize) -> Result<Self, OutOfReach> {
        let this = self.simplify().ok_or(OutOfReach::Shape)?;
        if !this.is_empty() {
            let here = this.extent(this.here).ok_or(OutOfReach::Shape)?;
            let there = this.extent(this.there).ok_or(OutOfReach::Shape)? as u64;
            let end = off.checked_add(there).ok_or(OutOfReach::Shape)?;
            if here > private {
                return Err(OutOfReach::Private { end: here as u64, len: private as u64 });
            }
            if end > window.len() {
                return Err(OutOfReach::Segment { end, len: window.len() });
            }
        }
        Ok(this)
    }

    pub(super) fn put(self, window: &Window<Loan>, off: u64, from: &[u8]) -> Result<(), OutOfReach> {
        let this = self.check(off, window, from.len())?;
        match this.run {
            _ if this.is_empty() => {}
            4 => this.put_runs::<4>(window, off, from),
            8 => this.put_runs::<8>(window, off, from),
            16 => this.put_runs::<16>(window, off, from),
            run => this.each(|a, b| {
                // Both ends were checked.
                let _ = from.get(a..a + run).map(|from| window.write_bytes(off + b as u64, from));
            }),
        }
        Ok(())
    }

    /// Runs of a length that the compiler knows: moves instead of calls.
    fn put_runs<const N: usize>(&self, window: &Window<Loan>, off: u64, from: &[u8]) {
        self.each(|a, b| {
            let run = from.get(a..).and_then(<[u8]>::first_chunk::<N>);
            let _ = run.map(|run| window.write_bytes(off + b as u64, run));
        });
    }

    /// From one window to another, or in one; `here` are distances in the first.
    #[cfg(feature = "world")]
    pub(super) fn copy(
        self,
        from: &Window<Loan>,
        from_off: u64,
        to: &Window<Loan>,
        to_off: u64,
    ) -> Result<(), OutOfReach> {
        let this = self.check(to_off, to, usize::MAX)?;
        if !this.is_empty() {
            let end = from_off.checked_add(this.extent(this.here).ok_or(OutOfReach::Shape)? as u64);
            let end = end.ok_or(OutOfReach::Shape)?;
            if end > from.len() {
                return Err(OutOfReach::Private { end, len: from.len() });
            }
            // Both ends were checked.
            this.each(|a, b| {
                let _ = from.copy_to(from_off + a as u64, to, to_off + b as u64, this.run as u64);
            });
        }
        Ok(())
    }

    pub(super) fn get(self, window: &Window<Loan>, off: u64, to: &mut [u8]) -> Result<(), OutOfReach> {
        let this = self.check(off, window, to.len())?;
        match this.run {
            _ if this.is_empty() => {}
            4 => this.get_runs::<4>(window, off, to),
            8 => this.get_runs::<8>(window, off, to),
            16 => this.get_runs::<16>(window, off, to),
            run => this.each(|a, b| {
                let _ = to.get_mut(a..a + run).map(|to| window.read_bytes(off + b as u64, to));
            }),
        }
        Ok(())
    }

    fn get_runs<const N: usize>(&self, window: &Window<Loan>, off: u64, to: &mut [u8]) {
        self.each(|a, b| {
            let run = to.get_mut(a..).and_then(<[u8]>::first_chunk_mut::<N>);
            let _ = run.map(|run| window.read_bytes(off + b as u64, run));
        });
    }
}
