//! Memory of this process that others may copy from and to.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a page.
const PAGE: usize = 4096;
/// Words of a page.
const WORDS: usize = PAGE / 8;

/// Private memory of whole pages, zero at first. Others change it at any time, so it is made of atomics, and there are
/// no references to its bytes.
#[derive(Debug)]
pub struct Exposed {
    words: Vec<AtomicU64>,
    /// Words before the first page.
    skip: usize,
    len: usize,
}

impl Exposed {
    /// So many bytes, rounded up to pages.
    pub fn new(bytes: usize) -> Self {
        let len = bytes.div_ceil(PAGE) * WORDS;
        let words: Vec<AtomicU64> = std::iter::repeat_with(AtomicU64::default).take(len + WORDS).collect();
        let skip = words.as_ptr().addr().wrapping_neg() % PAGE / 8;
        Self { words, skip, len }
    }

    /// Where it begins, for others.
    pub fn address(&self) -> u64 {
        self.cells().as_ptr().addr() as u64
    }

    /// Its addresses.
    pub fn range(&self) -> Range<u64> {
        self.address()..self.address() + (self.len * 8) as u64
    }

    /// The number in place `at`, counted in 8 bytes.
    pub fn word(&self, at: usize) -> Option<u64> {
        self.cells().get(at).map(|word| word.load(Ordering::Relaxed))
    }

    fn cells(&self) -> &[AtomicU64] {
        &self.words[self.skip..self.skip + self.len]
    }
}
