//! How a device reaches memory of its host.

use super::Lost;
use super::shadow::{DrivenMemory, Promises};
use alloc::boxed::Box;

/// How a device reaches its host's memory. Words lie at multiples of 8.
pub trait HostPort: Send {
    /// Bytes up to which a reply goes by stores.
    fn stores(&self) -> usize {
        256
    }
    /// Bytes up to which words are loaded.
    fn loads(&self) -> usize {
        16
    }
    /// A word, or its upper half before its lower one, behind all stores before it.
    fn load(&mut self, off: u64) -> u64;
    /// Stores a word, or its lower half before its upper one, behind all stores before it.
    fn store(&mut self, off: u64, value: u64);
    /// Copies from there by a DMA engine, and returns when it has ended.
    fn pull(&mut self, off: u64, to: &mut [u8]);
    /// Copies to there likewise.
    fn push(&mut self, off: u64, from: &[u8]);
}

impl<P: HostPort + ?Sized> HostPort for Box<P> {
    fn stores(&self) -> usize {
        (**self).stores()
    }
    fn loads(&self) -> usize {
        (**self).loads()
    }
    fn load(&mut self, off: u64) -> u64 {
        (**self).load(off)
    }
    fn store(&mut self, off: u64, value: u64) {
        (**self).store(off, value);
    }
    fn pull(&mut self, off: u64, to: &mut [u8]) {
        (**self).pull(off, to);
    }
    fn push(&mut self, off: u64, from: &[u8]) {
        (**self).push(off, from);
    }
}

/// Few bytes by words, more by the engine.
pub(super) struct Port<P>(pub(super) P);

fn is_words(off: u64, len: usize) -> bool {
    off.is_multiple_of(8) && len.is_multiple_of(8)
}

impl<P: HostPort> DrivenMemory for Port<P> {
    fn promises(&self) -> Promises {
        Promises { write_ascends: false, line_is_whole: false }
    }

    fn read(&mut self, off: u64, to: &mut [u8]) -> Result<(), Lost> {
        if to.len() > self.0.loads() || !is_words(off, to.len()) {
            self.0.pull(off, to);
            return Ok(());
        }
        for (word, off) in to.as_chunks_mut::<8>().0.iter_mut().zip((off..).step_by(8)) {
            *word = self.0.load(off).to_le_bytes();
        }
        Ok(())
    }

    fn write(&mut self, off: u64, from: &[u8]) -> Result<(), Lost> {
        if from.len() > self.0.stores() || !is_words(off, from.len()) {
            self.0.push(off, from);
            return Ok(());
        }
        for (word, off) in from.as_chunks::<8>().0.iter().zip((off..).step_by(8)) {
            self.0.store(off, u64::from_le_bytes(*word));
        }
        Ok(())
    }
}

pub(super) const fn both(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

pub(super) const fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}
