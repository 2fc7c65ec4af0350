//! The section of the window that a third program serves beside the host, such as a host channel adapter: for a layer above
//! this crate whose handlers use it (abi §16).
//!
//! A [`Side`] is open as long as a poller serves an epoch with that section, and lent to handlers for the time of their call. Its
//! private words are zero when it opens, so that nothing of them is of an earlier epoch. A handler may be ended between any two
//! accesses, so nothing here is locked.
//!
//! The program may sleep (abi §7): a handler notifies it behind what it publishes, the poller behind a fence.

#![expect(unsafe_code)]
// UNSAFETY: the layer above makes references to memory that such a program writes. What it needs for that is on
// [`of`] and [`Side::claim`] (contract "registered memory", `verbs/src/view.rs`).

use crate::context::Context;
use crate::handshake::Accepted;
use crate::task::Task;
use crate::wait::FencedNotifier;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};
use hamr_shared_abi::ids::{Epoch, NodeId};
use hamr_shared_abi::preamble::feature;
use hamr_shared_abi::section::{SectionKind, VERBS_WAIT};
use hamr_shared_abi::sync::{Coherent, Order};
#[cfg(target_has_atomic = "64")]
use hamr_shared_abi::window::AtomicOp;
use hamr_shared_abi::window::{Claim, ClaimError, Claimed, OutOfWindow, Window, Word};

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
    doorbell: spin::Once<fn()>,
    notifier: FencedNotifier,
    /// 0: closed.
    epoch: AtomicU32,
    node: AtomicU32,
    words: [AtomicU32; WORDS],
}

/// The memory, and how words in it are accessed: where it is coherent without a call.
struct Part {
    window: Window<()>,
    /// The addresses of the whole window but its heap, where the slots of all calls of the device are.
    whole: Range<usize>,
    is_coherent: bool,
    publish: fn(Word<'_>, u32),
    observe: fn(Word<'_>) -> u32,
    found_nothing: fn(&Side, Word<'_>),
    notify_fenced: fn(&Side, Word<'_>),
    full: fn(),
}

/// What a running handler has: it is of this thread and epoch. Sealed.
pub trait Running: sealed::Sealed {}
impl Running for Context<'_> {}
impl Running for Task<'_> {}

mod sealed {
    pub trait Sealed {
        /// Where the slot of the call is. `None`: it is of none.
        fn slot(&self) -> Option<usize>;
    }
    impl Sealed for crate::context::Context<'_> {
        fn slot(&self) -> Option<usize> {
            crate::context::Context::slot(self)
        }
    }
    impl Sealed for crate::task::Task<'_> {
        fn slot(&self) -> Option<usize> {
            self.lent(|slice| slice.cx.slot())
        }
    }
}

/// The side of the device that runs a handler, for the time of its call. `None`: its epoch has no such section, or the call is
/// none of this device, such as one of another device that the handler runs itself.
///
/// # Safety
/// What is written to the section keeps the contracts of all claims of it ([`Side::claim`]). Programs are not given this:
///
/// ```compile_fail,E0133
/// # fn handler(cx: &mut hamr_comm::Context) {
/// let _side = hamr_comm::side::of(cx);
/// # }
/// ```
pub unsafe fn of<R: Running>(running: &R) -> Option<&Side> {
    #[cfg(hamr_bare)]
    let here = Some(&SIDE);
    #[cfg(not(hamr_bare))]
    let here = SIDE.get();
    let is_its = |side: &&Side| side.part.get().zip(running.slot()).is_some_and(|(part, at)| part.whole.contains(&at));
    here.filter(|side| side.epoch().0 != 0).filter(is_its)
}

impl Side {
    const fn new() -> Self {
        Self {
            part: spin::Once::new(),
            doorbell: spin::Once::new(),
            notifier: FencedNotifier::new(),
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
        let whole = window.address().addr().get();
        let whole = whole..whole.checked_add(usize::try_from(window.len()).ok()?)?;
        let window = window.part(section.off, section.len).ok()?.leak();
        #[cfg(hamr_bare)]
        let side = &SIDE;
        #[cfg(not(hamr_bare))]
        let side = SIDE.get().unwrap_or_else(|| alloc::boxed::Box::leak(alloc::boxed::Box::new(Self::new())));
        let (address, len) = (window.address(), window.len());
        let part = side.part.call_once(|| Part {
            window,
            whole,
            is_coherent: F::PAIRED,
            publish: |word, value| word.publish_ordered::<F>(value),
            observe: |word| word.observe_ordered::<F>(),
            found_nothing: |side, peer| side.notifier.found_nothing::<F>(peer, || side.ring()),
            notify_fenced: |side, peer| side.notifier.notify_fenced::<F>(peer, || side.ring()),
            full: F::full,
        });
        if (part.window.address(), part.window.len()) != (address, len) {
            return None;
        }
        side.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        side.notifier.enter();
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

    /// What notifies the program; the first for good.
    pub(crate) fn use_doorbell(&self, notify: fn()) {
        self.doorbell.call_once(|| notify);
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

    /// The memory, for an access to so many bytes. Never lent: a copy of the window would outlive the epoch.
    #[inline]
    fn part(&self, off: u64, want: usize) -> Result<&Part, OutOfWindow> {
        self.part.get().ok_or(OutOfWindow { off, want: want as u64, len: 0 })
    }

    /// Bytes of the section.
    pub fn bytes(&self) -> u64 {
        self.part.get().map_or(0, |part| part.window.len())
    }

    /// Copies bytes of the section out.
    #[inline]
    pub fn read_bytes(&self, off: u64, to: &mut [u8]) -> Result<(), OutOfWindow> {
        self.part(off, to.len())?.window.read_bytes(off, to)
    }

    /// Copies bytes in.
    #[inline]
    pub fn write_bytes(&self, off: u64, from: &[u8]) -> Result<(), OutOfWindow> {
        self.part(off, from.len())?.window.write_bytes(off, from)
    }

    /// A range of the section, for views of it.
    ///
    /// # Safety
    /// As long as `'v` nothing writes the range but through the result, and nothing else in this program accesses one that is
    /// writable.
    pub unsafe fn claim<'v>(&self, claim: Claim) -> Result<Claimed<'v>, ClaimError> {
        let none = ClaimError::Outside { end: claim.off.saturating_add(claim.bytes), heap: 0 };
        // SAFETY: the section is mapped for good (`Window::leak`); else the caller's.
        unsafe { self.part.get().ok_or(none)?.window.claim(claim) }
    }

    /// Copies words in: [`Window::write_words`].
    #[inline]
    pub fn write_words(&self, off: u64, from: &[u32]) -> Result<(), OutOfWindow> {
        self.part(off, size_of_val(from))?.window.write_words(off, from)
    }

    /// Stores a word there, relaxed.
    #[inline]
    pub fn store(&self, off: u64, value: u32) -> Result<(), OutOfWindow> {
        self.part(off, size_of::<u32>())?.window.word(off)?.store(value);
        Ok(())
    }

    /// Observes the word at an offset in the section.
    #[inline]
    pub fn observe(&self, off: u64) -> Result<u32, OutOfWindow> {
        let part = self.part(off, size_of::<u32>())?;
        let word = part.window.word(off)?;
        Ok(if part.is_coherent { word.observe() } else { (part.observe)(word) })
    }

    /// An atomic access to eight bytes at a multiple of eight; the value before it.
    #[cfg(target_has_atomic = "64")]
    pub fn atomic(&self, off: u64, op: AtomicOp<u64>) -> Result<u64, OutOfWindow> {
        self.part(off, size_of::<u64>())?.window.atomic(off, op)
    }

    /// Publishes a word there, behind every earlier access.
    #[inline]
    pub fn publish(&self, off: u64, value: u32) -> Result<(), OutOfWindow> {
        let part = self.part(off, size_of::<u32>())?;
        let word = part.window.word(off)?;
        if part.is_coherent {
            word.publish(value)
        } else {
            (part.publish)(word, value)
        }
        Ok(())
    }

    /// [`Self::publish`] of what the program must find: it is notified if it is seen to sleep. One that goes to sleep at this
    /// moment is notified by [`Self::found_nothing`], or by the poller.
    #[inline]
    pub fn post(&self, off: u64, value: u32) -> Result<(), OutOfWindow> {
        self.notifier.publishes();
        self.publish(off, value)?;
        if let Some((_, peer)) = self.peer() {
            self.notifier.notify_relaxed(peer, || self.ring());
        }
        Ok(())
    }

    /// A look for what the program publishes found nothing.
    #[inline]
    pub fn found_nothing(&self) {
        match self.peer() {
            Some((part, peer)) if part.is_coherent => self.notifier.found_nothing::<Coherent>(peer, || self.ring()),
            Some((part, peer)) => (part.found_nothing)(self, peer),
            None => {}
        }
    }

    /// Behind a fence: the program finds everything that was posted before, or is notified now.
    pub fn notify_fenced(&self) {
        if let Some((part, peer)) = self.peer() {
            (part.notify_fenced)(self, peer);
        }
    }

    /// Orders every earlier store before every later load.
    pub fn fence(&self) {
        if let Some(part) = self.part.get() {
            (part.full)();
        }
    }

    fn peer(&self) -> Option<(&Part, Word<'_>)> {
        let part = self.part.get()?;
        Some((part, part.window.word(VERBS_WAIT).ok()?))
    }

    #[cold]
    fn ring(&self) {
        if let Some(notify) = self.doorbell.get() {
            notify();
        }
    }
}

impl Task<'_> {
    /// [`Self::wait_until`] for what the program publishes, and notifies this device of.
    #[track_caller]
    pub fn wait_until_side(&self, ready: impl FnMut() -> bool) -> Result<(), crate::Interrupted> {
        use crate::task::{Place, Reason};
        use hamr_shared_abi::task_line::WaitKind;
        self.wait_for_peer(Reason::new(WaitKind::CONDITION, Place::caller()), ready)
    }
}
