//! Memory of C programs that an operation uses.

#![expect(unsafe_code)]
// UNSAFETY: it is a pointer.

/// Memory of the program, which stays until the operation has ended (contract of C).
#[derive(Clone, Copy)]
pub(crate) struct Bytes {
    pub(crate) at: *mut u8,
    pub(crate) len: usize,
}

impl Bytes {
    /// Copies from `off` on.
    pub(crate) fn read(self, off: usize, to: &mut [u8]) {
        assert!(off + to.len() <= self.len, "hamr: a collective leaves its buffer");
        // SAFETY: so many bytes of the program are there, and not in `to`, which is the library's.
        unsafe { std::ptr::copy_nonoverlapping(self.at.wrapping_add(off), to.as_mut_ptr(), to.len()) };
    }
    pub(crate) fn write(self, off: usize, from: &[u8]) {
        assert!(off + from.len() <= self.len, "hamr: a collective leaves its buffer");
        // SAFETY: as in `read`.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.at.wrapping_add(off), from.len()) };
    }
}
