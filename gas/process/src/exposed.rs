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

    /// Copies bytes to byte `off`, if they fit. Copies of others beside them lose nothing: the first and the last number
    /// are changed as one.
    pub fn write(&self, off: u64, bytes: &[u8]) -> bool {
        self.each(off, bytes.len(), |word, at, range| {
            let mine = &bytes[range];
            if let Ok(all) = <[u8; 8]>::try_from(mine) {
                return word.store(u64::from_ne_bytes(all), Ordering::Relaxed);
            }
            let mut before = word.load(Ordering::Relaxed);
            loop {
                let mut new = before.to_ne_bytes();
                new[at..at + mine.len()].copy_from_slice(mine);
                let new = u64::from_ne_bytes(new);
                match word.compare_exchange_weak(before, new, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => break,
                    Err(now) => before = now,
                }
            }
        })
    }

    /// Copies bytes from byte `off`, if there are so many.
    pub fn read(&self, off: u64, into: &mut [u8]) -> bool {
        self.each(off, into.len(), |word, at, range| {
            let len = range.len();
            into[range].copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes()[at..at + len]);
        })
    }

    /// The numbers in which `len` bytes are: where in each they begin, and which of them those are.
    fn each(&self, off: u64, len: usize, mut f: impl FnMut(&AtomicU64, usize, Range<usize>)) -> bool {
        let Some(off) =
            usize::try_from(off).ok().filter(|off| off.checked_add(len).is_some_and(|end| end <= self.len * 8))
        else {
            return false;
        };
        let mut done = 0;
        while done < len {
            let (word, at) = ((off + done) / 8, (off + done) % 8);
            let next = (done + 8 - at).min(len);
            f(&self.cells()[word], at, done..next);
            done = next;
        }
        true
    }

    fn cells(&self) -> &[AtomicU64] {
        &self.words[self.skip..self.skip + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_where_they_were_put() {
        let memory = Exposed::new(4096);
        assert!(memory.write(0, &[9; 64]));
        for (off, len) in [(0, 1), (3, 4), (5, 3), (6, 20), (8, 16), (13, 0), (4090, 6)] {
            let bytes: Vec<u8> = (1..=len).collect();
            assert!(memory.write(off, &bytes));
            let mut back = vec![0; bytes.len()];
            assert!(memory.read(off, &mut back) && back == bytes, "{off} {len}");
        }
        let mut all = [0; 8];
        assert!(memory.read(0, &mut all));
        assert_eq!(all, [1, 9, 9, 1, 2, 1, 1, 2], "beside them nothing has changed");
        assert!(!memory.write(4090, &[0; 7]) && !memory.read(u64::MAX, &mut [0; 2]) && !memory.read(4097, &mut []));
    }
}
