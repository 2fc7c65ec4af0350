//! Windows over private memory: for tests, and for the loopback link.

#![expect(unsafe_code)]
// UNSAFETY: as in `window`, whose contracts these are.

extern crate alloc;
use super::{DeviceWindow, NonNull, SLOT_BYTES, Window};
use alloc::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use alloc::sync::Arc;

/// The owner of private memory; the last clone frees it.
#[derive(Clone)]
pub struct Private(#[expect(dead_code, reason = "held for its Drop")] Arc<Block>);

struct Block {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the block is plain memory without thread affinity; access is governed by `Window`.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `private` and freed nowhere else.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

/// Keeps a region mapped by a type that is erased, for code that works over several kinds of
/// mapping.
#[derive(Clone)]
pub struct Shared {
    #[expect(dead_code, reason = "held for its Drop")]
    keep: Arc<dyn core::any::Any + Send + Sync>,
    /// Where both ends are in one program.
    pub(super) gate: Option<Arc<dyn CopyGate>>,
}

impl Shared {
    fn new(keep: impl Send + Sync + 'static) -> Self {
        Self { keep: Arc::new(keep), gate: None }
    }
}

/// Decides whether a thread may access the heap of a window both ends of which are in one program.
pub trait CopyGate: Send + Sync {
    /// May this thread copy now? Not while it runs a handler of the device, which may have views.
    fn is_open(&self) -> bool;

    /// Runs `copy` while no thread runs a handler: it waits for one that does. Where this thread is that, `copy`
    /// does not run.
    fn alone(&self, copy: &mut dyn FnMut());
}

impl Window<Shared> {
    /// The same window; [`Self::copies`] of it ask `gate` first.
    pub fn guarded_by(mut self, gate: Arc<dyn CopyGate>) -> Self {
        self.keep.gate = Some(gate);
        self
    }
}

impl<K: Send + Sync + 'static> Window<K> {
    /// The same window with its keeper's type erased.
    pub fn share(self) -> Window<Shared> {
        Window { base: self.base, len: self.len, tail: self.tail, keep: Shared::new(self.keep) }
    }
}

impl<K: Send + Sync + 'static> DeviceWindow<K> {
    /// The same with its keeper's type erased.
    pub fn share(self) -> DeviceWindow<Shared> {
        DeviceWindow { whole: self.whole, keep: Shared::new(self.keep) }
    }
}

fn layout(len: u64) -> Option<Layout> {
    let bytes = usize::try_from(len.max(1)).ok()?.checked_next_multiple_of(SLOT_BYTES)?;
    Layout::from_size_align(bytes, 4096).ok()
}

/// `None`: the system has no such memory.
fn try_block(layout: Layout) -> Option<(NonNull<u8>, usize, Private)> {
    // SAFETY: the size is at least 64.
    let raw = unsafe { alloc_zeroed(layout) };
    let base = NonNull::new(raw)?;
    Some((base, layout.size(), Private(Arc::new(Block { base, layout }))))
}

fn block(len: u64) -> (NonNull<u8>, usize, Private) {
    let Some(layout) = layout(len) else { panic!("a private window of {len} bytes exceeds the address space") };
    try_block(layout).unwrap_or_else(|| handle_alloc_error(layout))
}

impl Window<Private> {
    /// A window of `len` zero bytes (rounded up to 64) in private memory.
    pub fn private(len: u64) -> Self {
        Self::over(block(len))
    }

    /// The same. `None`: there is not so much memory.
    pub fn try_private(len: u64) -> Option<Self> {
        try_block(layout(len)?).map(Self::over)
    }

    fn over((base, bytes, keep): (NonNull<u8>, usize, Private)) -> Self {
        // SAFETY: the block exists as long as `keep` or a clone, is page-aligned, and no reference
        // to it is ever made.
        unsafe { Window::new(base, bytes, keep) }
    }
}

impl DeviceWindow<Private> {
    /// A device's end over `len` zero bytes (rounded up to 64) in private memory, which no host
    /// sees.
    pub fn private(len: u64) -> Self {
        let (base, bytes, keep) = block(len);
        // SAFETY: as above; the block has no other window.
        unsafe { DeviceWindow::new(base, bytes, keep) }
    }
}

impl Window<Shared> {
    /// A host's and a device's end of the same private memory, for a link inside one process. `None`:
    /// the system has no such memory.
    ///
    /// # Safety
    /// No byte is accessed through the host's end, or anything made of it, while a view of the
    /// device's heap covers the byte (contract "both ends in one program").
    pub unsafe fn private_pair(len: u64) -> Option<(Self, DeviceWindow<Shared>)> {
        let (base, bytes, keep) = try_block(layout(len)?)?;
        // SAFETY: as in `private`, but for the views of the other end, which are the caller's part.
        let host = unsafe { Window::new(base, bytes, keep.clone()) };
        // SAFETY: as above, seen from the other end; it is the block's only one.
        let device = unsafe { DeviceWindow::new(base, bytes, keep) };
        Some((host.share(), device.share()))
    }
}
