//! The section of the window that a third program serves beside the host, such as a host channel adapter: for a layer above
//! this crate whose handlers use it (abi §16).
//!
//! A [`Side`] is open as long as a poller serves an epoch with that section. Its private words are zero when it opens, so that
//! nothing of them is of an earlier epoch. A handler may be ended between any two accesses, so nothing here is locked.

use crate::handshake::Accepted;
use core::sync::atomic::{AtomicU32, Ordering};
use hamr_shared_abi::ids::{Epoch, NodeId};
use hamr_shared_abi::preamble::feature;
use hamr_shared_abi::section::SectionKind;
use hamr_shared_abi::sync::Order;
use hamr_shared_abi::window::{OutOfWindow, Window, Word};

/// Private words of a side.
pub const WORDS: usize = 768;

#[cfg(hamr_bare)]
static SIDE: Side = Side::new();

#[cfg(not(hamr_bare))]
std::thread_local! {
    /// That of the device whose handlers the thread runs.
    static SIDE: core::cell::Cell<Option<&'static Side>> = const { core::cell::Cell::new(None) };
}

/// What the layer above has of the section (see the module).
pub struct Side {
    /// As it was first opened; it is not opened over other memory.
    part: spin::Once<Part>,
    /// 0: closed.
    epoch: AtomicU32,
    node: AtomicU32,
    words: [AtomicU32; WORDS],
}

/// The memory, and how words in it are published and observed.
struct Part {
    window: Window<()>,
    publish: fn(Word<'_>, u32),
    observe: fn(Word<'_>) -> u32,
}

/// The side of the device whose handlers this thread runs. `None`: its epoch has no such section.
pub fn here() -> Option<&'static Side> {
    #[cfg(hamr_bare)]
    let here = Some(&SIDE);
    #[cfg(not(hamr_bare))]
    let here = SIDE.get();
    here.filter(|side| side.epoch().0 != 0)
}

impl Side {
    const fn new() -> Self {
        Self {
            part: spin::Once::new(),
            epoch: AtomicU32::new(0),
            node: AtomicU32::new(0),
            words: [const { AtomicU32::new(0) }; WORDS],
        }
    }

    /// The side of a device that serves this epoch from now on, on this thread. `None`: it has no such section, or in other
    /// memory than in an earlier epoch.
    pub(crate) fn open<K: Clone, F: Order>(window: &Window<K>, accepted: &Accepted) -> Option<&'static Self> {
        let section = accepted.layout.section(SectionKind::VERBS).ok()?;
        if accepted.features & feature::VERBS == 0 {
            return None;
        }
        let window = window.part(section.off, section.len).ok()?.leak();
        #[cfg(hamr_bare)]
        let side = &SIDE;
        #[cfg(not(hamr_bare))]
        let side = SIDE.get().unwrap_or_else(|| alloc::boxed::Box::leak(alloc::boxed::Box::new(Self::new())));
        let (address, len) = (window.address(), window.len());
        let publish: fn(Word<'_>, u32) = |word, value| word.publish_ordered::<F>(value);
        let observe: fn(Word<'_>) -> u32 = |word| word.observe_ordered::<F>();
        let part = side.part.call_once(|| Part { window, publish, observe });
        if (part.window.address(), part.window.len()) != (address, len) {
            return None;
        }
        side.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        side.node.store(accepted.node.0.into(), Ordering::Relaxed);
        side.epoch.store(accepted.epoch.0, Ordering::Relaxed);
        side.enter_thread();
        Some(side)
    }

    /// Handlers that this thread runs from now on find it.
    pub(crate) fn enter_thread(&'static self) {
        #[cfg(not(hamr_bare))]
        SIDE.set(Some(self));
    }

    /// The epoch is over.
    pub(crate) fn close(&self) {
        self.epoch.store(0, Ordering::Relaxed);
    }

    /// The epoch that it is open in.
    pub fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::Relaxed))
    }

    /// The device.
    pub fn node(&self) -> NodeId {
        NodeId(self.node.load(Ordering::Relaxed) as u16)
    }

    /// Words that the layer above keeps, 0 when the epoch began.
    pub fn words(&self) -> &[AtomicU32; WORDS] {
        &self.words
    }

    /// The section; no bytes where there is none.
    pub fn section(&self) -> Option<&Window<()>> {
        Some(&self.part.get()?.window)
    }

    /// Observes the word at an offset in the section.
    #[inline]
    pub fn observe(&self, off: u64) -> Result<u32, OutOfWindow> {
        let part = self.part.get().ok_or(OutOfWindow { off, want: 4, len: 0 })?;
        Ok((part.observe)(part.window.word(off)?))
    }

    /// Publishes a word there, behind every earlier access.
    #[inline]
    pub fn publish(&self, off: u64, value: u32) -> Result<(), OutOfWindow> {
        let part = self.part.get().ok_or(OutOfWindow { off, want: 4, len: 0 })?;
        (part.publish)(part.window.word(off)?, value);
        Ok(())
    }
}
