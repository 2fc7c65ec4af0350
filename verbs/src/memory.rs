//! What verbs need of the section, and of memory of their own. Three implementations: the device's side, a window, and in tests
//! one that ends its user behind some store.

use core::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(target_has_atomic = "64")]
use hamr_comm::abi::window::AtomicOp;
use hamr_comm::abi::window::{OutOfWindow, Window};
use hamr_comm::side::Side;
use zerocopy::{FromBytes, IntoBytes};

/// Accesses at offsets in the section (see the module). An offset that is outside of it is an error, and nothing is accessed.
pub trait Memory {
    /// Bytes of the section.
    fn bytes(&self) -> u64;
    /// Copies bytes out.
    fn read_bytes(&self, off: u64, to: &mut [u8]) -> Result<(), OutOfWindow>;
    /// Copies bytes in.
    fn write_bytes(&self, off: u64, from: &[u8]) -> Result<(), OutOfWindow>;
    /// Copies words in, each as it is: see [`Window::write_words`].
    #[inline]
    fn write_words(&self, off: u64, from: &[u32]) -> Result<(), OutOfWindow> {
        self.write_bytes(off, from.as_bytes())
    }
    /// Stores a word, relaxed.
    fn store(&self, off: u64, value: u32) -> Result<(), OutOfWindow>;
    /// Loads a word, before every later access.
    fn observe(&self, off: u64) -> Result<u32, OutOfWindow>;
    /// Stores a word, behind every earlier access.
    fn publish(&self, off: u64, value: u32) -> Result<(), OutOfWindow>;

    /// An atomic access to eight bytes at a multiple of eight; the value before it.
    #[cfg(target_has_atomic = "64")]
    fn atomic(&self, off: u64, op: AtomicOp<u64>) -> Result<u64, OutOfWindow>;

    /// Publishes a word that the adapter must find, also one that sleeps.
    #[inline]
    fn post(&self, off: u64, value: u32) -> Result<(), OutOfWindow> {
        self.publish(off, value)
    }
    /// A look for what the adapter publishes found nothing: it may sleep, and have missed a post.
    #[inline]
    fn found_nothing(&self) {}
    /// Notifies an adapter that has missed one.
    fn notify_fenced(&self) {}
    /// Orders every earlier store before every later load.
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    /// Stores a word of the program's own.
    #[inline]
    fn keep(&self, word: &AtomicU32, value: u32) {
        word.store(value, Ordering::Relaxed);
    }

    /// Copies a wire struct out: check the copy, then use it.
    #[inline]
    fn read<T: FromBytes + IntoBytes>(&self, off: u64) -> Result<T, OutOfWindow> {
        let mut value = T::new_zeroed();
        self.read_bytes(off, value.as_mut_bytes())?;
        Ok(value)
    }
}

impl Memory for Side {
    fn bytes(&self) -> u64 {
        Side::bytes(self)
    }
    #[inline]
    fn read_bytes(&self, off: u64, to: &mut [u8]) -> Result<(), OutOfWindow> {
        Side::read_bytes(self, off, to)
    }
    #[inline]
    fn write_bytes(&self, off: u64, from: &[u8]) -> Result<(), OutOfWindow> {
        Side::write_bytes(self, off, from)
    }
    #[inline]
    fn write_words(&self, off: u64, from: &[u32]) -> Result<(), OutOfWindow> {
        Side::write_words(self, off, from)
    }
    #[inline]
    fn store(&self, off: u64, value: u32) -> Result<(), OutOfWindow> {
        Side::store(self, off, value)
    }
    #[inline]
    fn observe(&self, off: u64) -> Result<u32, OutOfWindow> {
        Side::observe(self, off)
    }
    #[inline]
    fn publish(&self, off: u64, value: u32) -> Result<(), OutOfWindow> {
        Side::publish(self, off, value)
    }
    #[cfg(target_has_atomic = "64")]
    fn atomic(&self, off: u64, op: AtomicOp<u64>) -> Result<u64, OutOfWindow> {
        Side::atomic(self, off, op)
    }
    #[inline]
    fn post(&self, off: u64, value: u32) -> Result<(), OutOfWindow> {
        Side::post(self, off, value)
    }
    #[inline]
    fn found_nothing(&self) {
        Side::found_nothing(self);
    }
    fn notify_fenced(&self) {
        Side::notify_fenced(self);
    }
    fn fence(&self) {
        Side::fence(self);
    }
}

impl<K> Memory for Window<K> {
    fn bytes(&self) -> u64 {
        self.len()
    }
    #[inline]
    fn read_bytes(&self, off: u64, to: &mut [u8]) -> Result<(), OutOfWindow> {
        Self::read_bytes(self, off, to)
    }
    #[inline]
    fn write_bytes(&self, off: u64, from: &[u8]) -> Result<(), OutOfWindow> {
        Self::write_bytes(self, off, from)
    }
    #[inline]
    fn write_words(&self, off: u64, from: &[u32]) -> Result<(), OutOfWindow> {
        Self::write_words(self, off, from)
    }
    #[inline]
    fn store(&self, off: u64, value: u32) -> Result<(), OutOfWindow> {
        self.word(off)?.store(value);
        Ok(())
    }
    #[inline]
    fn observe(&self, off: u64) -> Result<u32, OutOfWindow> {
        Ok(self.word(off)?.observe())
    }
    #[inline]
    fn publish(&self, off: u64, value: u32) -> Result<(), OutOfWindow> {
        self.word(off)?.publish(value);
        Ok(())
    }
    #[cfg(target_has_atomic = "64")]
    fn atomic(&self, off: u64, op: AtomicOp<u64>) -> Result<u64, OutOfWindow> {
        Self::atomic(self, off, op)
    }
}
