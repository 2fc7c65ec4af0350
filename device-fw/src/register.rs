//! A device register at an address that a board knows (`docs/unsafe.md` "boards").

#![expect(unsafe_code)]
// UNSAFETY: the address is a number from a data sheet; only the author of the board can check it.

use core::ptr::NonNull;

/// One memory-mapped register.
#[derive(Clone, Copy)]
pub struct Register<T>(NonNull<T>);

// SAFETY: an address; each access is one volatile load or store, and the caller of `new` has stated
// what such an access may do.
unsafe impl<T> Send for Register<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Register<T> {}

impl<T: Copy> Register<T> {
    /// The register at `address`.
    ///
    /// # Safety
    /// At `address`, aligned for `T` and not zero, is a device register of that width, mapped as
    /// device memory wherever this is used; reading it and writing any value to it touches no
    /// memory of the image.
    pub const unsafe fn new(address: usize) -> Self {
        // SAFETY: not zero (contract of this function).
        Self(unsafe { NonNull::new_unchecked(address as *mut T) })
    }

    /// Reads it.
    #[inline(always)]
    pub fn read(self) -> T {
        // SAFETY: an aligned register of this type (contract of `new`).
        unsafe { self.0.read_volatile() }
    }

    /// Writes it.
    #[inline(always)]
    pub fn write(self, value: T) {
        // SAFETY: as in `read`; the write touches no memory of the image.
        unsafe { self.0.write_volatile(value) };
    }
}
