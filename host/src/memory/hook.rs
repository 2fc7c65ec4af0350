//! What a layer above is told of buffers, for example to register their memory elsewhere.

use super::{Block, DeviceMemory};
use std::sync::{Arc, PoisonError};

/// A closure that is told of every buffer of a device: `Options::memory_hook`, [`Node::set_memory_hook`](crate::Node::set_memory_hook).
#[derive(Clone)]
pub struct MemoryHook(Arc<dyn Fn(MemoryEvent<'_>) + Send + Sync>);

/// A buffer begins or ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MemoryEvent<'a> {
    /// What happens to it.
    pub change: MemoryChange,
    /// Name of the device.
    pub device: &'a str,
    /// Number of the node, as in [`DeviceInfo::node`](crate::DeviceInfo::node).
    pub node: u16,
    /// From the start of the device's heap.
    pub heap_off: u64,
    /// Bytes of the buffer.
    pub bytes: u64,
}

/// See [`MemoryEvent`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryChange {
    /// It was allocated; its owner has it next.
    Allocated,
    /// Its owner drops it. No other buffer has the memory before the hook returns; calls in flight
    /// may still use it.
    Freed,
}

impl MemoryHook {
    /// `f` runs on the thread that allocates or drops a buffer, which waits for it. It must not
    /// panic. Memory that calls take for long messages is no buffer.
    pub fn new(f: impl Fn(MemoryEvent<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(f))
    }
}

/// Two are equal when they are one closure.
impl PartialEq for MemoryHook {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for MemoryHook {}

impl std::fmt::Debug for MemoryHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MemoryHook(_)")
    }
}

impl DeviceMemory {
    /// Tells the hook, if there is one, of a buffer.
    pub(crate) fn tell(&self, change: MemoryChange, of: Block) {
        // Not locked while it runs: it may set another one.
        let Some(MemoryHook(hook)) = self.hook.read().unwrap_or_else(PoisonError::into_inner).clone() else { return };
        hook(MemoryEvent { change, device: &self.device, node: self.node().0, heap_off: of.off, bytes: of.bytes });
    }

    /// Another hook, or none, from now on; the one before it.
    pub(crate) fn set_hook(&self, hook: Option<MemoryHook>) -> Option<MemoryHook> {
        std::mem::replace(&mut *self.hook.write().unwrap_or_else(PoisonError::into_inner), hook)
    }
}
