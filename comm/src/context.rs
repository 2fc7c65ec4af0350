//! What a handler sees of its device: views of buffers, words, its node, and whether its call was
//! cancelled.

use crate::buffer::{BufferPtr, Element, Read, Write};
use crate::claims;
use crate::fault::Fault;
use crate::resource::Resource;
use core::cell::Cell;
use hamr_shared_abi::ids::{Isa, NodeId};
use hamr_shared_abi::slot::ReqHdr;
use hamr_shared_abi::window::{Claim, ClaimError, Claimed, HdrWord, LentHeap, NoHeap, OutOfWindow, Words};

/// Handed to every handler as its first argument.
///
/// There is deliberately no way to wait here: a handler that blocks stops its device. Programs make none but over a
/// heap for tests ([`testing::Heap`](crate::testing::Heap)):
///
/// ```compile_fail,E0624
/// let mut heap = hamr_comm::abi::window::NoHeap::default();
/// hamr_comm::Context::new(heap.lend(), hamr_comm::abi::ids::NodeId(1));
/// ```
pub struct Context<'c> {
    pub(crate) heap: LentHeap<'c>,
    /// Header word of the running call's slot, where the requester may set CANCEL.
    cancel: Option<HdrWord<'c>>,
    state: Cell<CallState>,
}

/// What a context knows of the device and of the running call, in one word: node (16 bits), flags (2),
/// the task's place, from 1 on (14), time budget (32).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallState(u64);

impl CallState {
    /// The handler asked whether its call was cancelled and got "yes": its reply is `Cancelled`.
    const SAW_CANCEL: u64 = 1 << 16;
    /// The handler left a message for the host.
    const SENT: u64 = 1 << 17;

    /// A call on `node`; of `deadline_us` microseconds, or 0.
    #[inline(always)]
    pub(crate) const fn new(node: NodeId, deadline_us: u32) -> Self {
        Self((deadline_us as u64) << 32 | node.0 as u64)
    }

    /// The call is a task in this place.
    #[cfg(all(feature = "tasks", feature = "claims"))]
    #[inline(always)]
    pub(crate) const fn in_place(self, place: usize) -> Self {
        Self(self.0 | ((place as u64 + 1) & 0x3FFF) << 18)
    }
}

/// What a handler did that counts behind it: one word, so that the path of a call tests once.
#[derive(Clone, Copy)]
pub(crate) struct Effects(u64);

impl Effects {
    /// Nothing.
    pub(crate) const NONE: Self = Self(0);

    /// Nothing but that it learned of a cancellation, or not.
    #[cfg(feature = "tasks")]
    pub(crate) const fn cancelled_if(saw_cancel: bool) -> Self {
        Self(if saw_cancel { CallState::SAW_CANCEL } else { 0 })
    }

    #[inline(always)]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// It learned that its call was cancelled.
    pub(crate) const fn saw_cancel(self) -> bool {
        self.0 & CallState::SAW_CANCEL != 0
    }

    /// It left a message for the host.
    #[cfg(feature = "tasks")]
    pub(crate) const fn sent(self) -> bool {
        self.0 & CallState::SENT != 0
    }
}

impl<'c> Context<'c> {
    /// A context over `heap`, for a device's poller and for tests.
    #[cfg(not(hamr_bare))]
    #[inline(always)]
    pub(crate) fn new(heap: LentHeap<'c>, node: NodeId) -> Self {
        Self { heap, cancel: None, state: Cell::new(CallState::new(node, 0)) }
    }

    /// The call is a task in this place.
    #[cfg(all(feature = "tasks", feature = "claims", not(hamr_bare)))]
    pub(crate) fn in_place(mut self, place: usize) -> Self {
        self.state = Cell::new(self.state.get().in_place(place));
        self
    }

    /// The context of one call.
    #[inline(always)]
    pub(crate) fn of_call(heap: LentHeap<'c>, cancel: HdrWord<'c>, state: CallState) -> Self {
        Self { heap, cancel: Some(cancel), state: Cell::new(state) }
    }

    /// Where the slot of its call is in this program. `None`: it is of no call, such as a test's.
    #[cfg(feature = "side")]
    pub(crate) fn slot(&self) -> Option<usize> {
        self.cancel.map(HdrWord::address)
    }

    /// What the handler did that counts behind it.
    #[inline(always)]
    pub(crate) fn effects(&self) -> Effects {
        Effects(self.state.get().0 & (CallState::SAW_CANCEL | CallState::SENT))
    }

    /// A message of the handler waits to be sent.
    pub(crate) fn note_sent(&self) {
        self.state.set(CallState(self.state.get().0 | CallState::SENT));
    }

    /// Opens several buffers at once: `let (x, y) = cx.views((x.read(), y.write()))?;`
    ///
    /// Checked here: each lies in this device's heap, is aligned for its element, and no written
    /// one overlaps another. The views are exclusive while the call runs: the host refuses `put`
    /// and defers `free` on buffers that a running call names. Up to six buffers.
    pub fn views<V: ViewSet>(&mut self, set: V) -> Result<V::Views<'_>, Fault> {
        set.open(self)
    }

    /// Opens buffers and runs `f` with them and a context that has no heap: so `f` may do all but
    /// open a view over one of them.
    #[doc(hidden)]
    pub fn with_views<V: ViewSet, R>(
        &mut self,
        set: V,
        f: impl FnOnce(&mut Context<'_>, V::Views<'_>) -> R,
    ) -> Result<R, Fault> {
        let mut nothing = NoHeap::default();
        let mut rest = Context { heap: nothing.lend(), cancel: self.cancel, state: self.state.clone() };
        let out = f(&mut rest, set.open(self)?);
        let state = rest.state.get();
        self.state.set(state);
        Ok(out)
    }

    /// One buffer to read.
    pub fn view<T: Element>(&mut self, ptr: BufferPtr<T>) -> Result<&[T], Fault> {
        self.views((ptr.read(),)).map(|(x,)| x)
    }

    /// One buffer to write.
    pub fn view_mut<T: Element>(&mut self, ptr: BufferPtr<T>) -> Result<&mut [T], Fault> {
        self.views((ptr.write(),)).map(|(x,)| x)
    }

    /// Copies elements out of a buffer into private memory: `to.len()` of them from the front.
    pub fn copy_out<T: Element>(&self, from: BufferPtr<T>, to: &mut [T]) -> Result<(), Fault> {
        let part = self.part(from, to.len(), false)?;
        let bytes = bytemuck::cast_slice_mut(to);
        self.heap.read_bytes(part, bytes).map_err(|e| self.beyond(e))
    }

    /// Copies elements from private memory to the front of a buffer.
    pub fn copy_in<T: Element>(&self, from: &[T], to: BufferPtr<T>) -> Result<(), Fault> {
        let part = self.part(to, from.len(), true)?;
        self.heap.write_bytes(part, bytemuck::cast_slice(from)).map_err(|e| self.beyond(e))
    }

    /// The 32-bit words of a buffer, for signalling with the other side *while* the handler runs:
    /// every access is an atomic, so the peer may write at the same time. One writer per word.
    pub fn words(&self, ptr: BufferPtr<u32>) -> Result<Words<'_>, Fault> {
        self.own(ptr, ptr.bytes(), true)?;
        let p = ptr.parts();
        self.heap.words(p.off, p.len).map_err(|e| self.beyond(e))
    }

    /// Bytes of the device's heap.
    pub fn heap_len(&self) -> u64 {
        self.heap.len()
    }

    /// This device's id in its runtime.
    pub fn node(&self) -> NodeId {
        NodeId(self.state.get().0 as u16)
    }

    /// The instruction set this handler runs on.
    pub fn isa(&self) -> Isa {
        Isa::of_this_build()
    }

    /// Was the running call cancelled? A long handler asks now and then and returns early. Once the
    /// result was true, the call's outcome is `Cancelled`, whatever the handler returns.
    pub fn cancelled(&self) -> bool {
        let cancelled = self.cancel.is_some_and(|word| ReqHdr(word.load()).has(ReqHdr::CANCEL));
        if cancelled {
            self.state.set(CallState(self.state.get().0 | CallState::SAW_CANCEL));
        }
        cancelled
    }

    /// The time budget the caller gave this call, in microseconds; 0 for none.
    pub fn deadline_us(&self) -> u32 {
        (self.state.get().0 >> 32) as u32
    }

    /// Takes a piece of board state for the length of `f`. Refused when it is in use further out in
    /// the same call, when a task has claimed it, or when an earlier call was abandoned while it used it.
    pub fn with<T, R>(&mut self, resource: &Resource<T>, f: impl FnOnce(&mut T) -> R) -> Result<R, Fault> {
        resource.with_claims(&self.heap, self.place(), f)
    }

    /// Puts a fresh state into a poisoned resource and frees it; does nothing to one that is not
    /// poisoned. The old state is dropped where a panic unwound. On bare metal the call that used
    /// it may have ended in the middle of writing it, or of dropping it: there the old state is
    /// leaked, neither read nor dropped.
    pub fn clear_poison<T>(&mut self, resource: &Resource<T>, fresh: T) {
        resource.clear_poison(fresh);
    }

    /// The task's place, from 1 on; 0 in an inline handler.
    pub(crate) fn place(&self) -> u32 {
        self.state.get().0 as u32 >> 18
    }

    /// The buffer is of this device, and so many bytes at its front no other task's.
    fn own<T: Element>(&self, ptr: BufferPtr<T>, bytes: u64, writes: bool) -> Result<(), Fault> {
        let node = self.node();
        if ptr.node() != node {
            return Err(Fault::foreign_buffer(ptr.node().0, node.0));
        }
        if claims::any() {
            return claims::check(&self.heap, (ptr.parts().off, bytes), writes, self.place());
        }
        Ok(())
    }

    /// Why bytes are not in the heap: they are beyond it, or a program has the segment that they are in.
    #[cold]
    #[inline(never)]
    fn beyond(&self, e: OutOfWindow) -> Fault {
        ClaimError::Outside { end: e.off.saturating_add(e.want), heap: self.heap.len() }.into()
    }

    fn part<T: Element>(&self, ptr: BufferPtr<T>, count: usize, writes: bool) -> Result<u64, Fault> {
        self.own(ptr, (count * size_of::<T>()) as u64, writes)?;
        if count > ptr.len() {
            return Err(Fault::outside_heap(
                ptr.parts().off.saturating_add((count * size_of::<T>()) as u64),
                ptr.parts().off.saturating_add(ptr.bytes()),
            ));
        }
        Ok(ptr.parts().off)
    }
}

/// What a program implements of these would run while a task's slice is lent ([`crate::Task::claim`]): none is.
mod sealed {
    pub trait Sealed {}
}

/// One buffer of a [`ViewSet`]: a [`Read`] or a [`Write`].
///
/// ```compile_fail,E0277
/// use hamr_comm::{Context, Fault, View, abi::window::{Claim, Claimed}};
/// struct Mine;
/// impl View for Mine {
///     type Out<'v> = &'v [u8];
///     fn claim(&self, _: &Context<'_>) -> Result<Claim, Fault> {
///         Ok(Claim { off: 0, bytes: 8, writable: false })
///     }
///     fn open(claimed: Claimed<'_>) -> Result<&[u8], Fault> {
///         Ok(claimed.shared()?)
///     }
/// }
/// ```
pub trait View: sealed::Sealed {
    /// The Rust reference it becomes.
    type Out<'v>;
    #[doc(hidden)]
    fn claim(&self, cx: &Context<'_>) -> Result<Claim, Fault>;
    #[doc(hidden)]
    fn open(claimed: Claimed<'_>) -> Result<Self::Out<'_>, Fault>;
}

impl<T: Element> sealed::Sealed for Read<T> {}
impl<T: Element> View for Read<T> {
    type Out<'v> = &'v [T];
    fn claim(&self, cx: &Context<'_>) -> Result<Claim, Fault> {
        cx.own(self.0, self.0.bytes(), false)?;
        Ok(self.0.claim(false))
    }
    fn open(claimed: Claimed<'_>) -> Result<&[T], Fault> {
        Ok(claimed.shared()?)
    }
}

impl<T: Element> sealed::Sealed for Write<T> {}
impl<T: Element> View for Write<T> {
    type Out<'v> = &'v mut [T];
    fn claim(&self, cx: &Context<'_>) -> Result<Claim, Fault> {
        cx.own(self.0, self.0.bytes(), true)?;
        Ok(self.0.claim(true))
    }
    fn open(claimed: Claimed<'_>) -> Result<&mut [T], Fault> {
        Ok(claimed.exclusive()?)
    }
}

/// A tuple of one to six [`Read`]s and [`Write`]s.
pub trait ViewSet: sealed::Sealed {
    /// The tuple of references.
    type Views<'v>;
    #[doc(hidden)]
    fn open<'v>(self, cx: &'v mut Context<'_>) -> Result<Self::Views<'v>, Fault>;
    #[doc(hidden)]
    fn ranges(&self, cx: &Context<'_>) -> Result<heapless::Vec<Claim, 6>, Fault>;
}

macro_rules! view_sets {
    ($(($($t:ident $i:tt $c:ident)*))*) => {$(
        impl<$($t: View),*> sealed::Sealed for ($($t,)*) {}
        impl<$($t: View),*> ViewSet for ($($t,)*) {
            type Views<'v> = ($($t::Out<'v>,)*);
            fn open<'v>(self, cx: &'v mut Context<'_>) -> Result<Self::Views<'v>, Fault> {
                let claims = [$(self.$i.claim(cx)?),*];
                let [$($c),*] = cx.heap.claim(claims)?;
                Ok(($($t::open($c)?,)*))
            }
            fn ranges(&self, cx: &Context<'_>) -> Result<heapless::Vec<Claim, 6>, Fault> {
                Ok([$(self.$i.claim(cx)?),*].into_iter().collect())
            }
        }
    )*};
}
view_sets! {
    (A 0 a)
    (A 0 a B 1 b)
    (A 0 a B 1 b C 2 c)
    (A 0 a B 1 b C 2 c D 3 d)
    (A 0 a B 1 b C 2 c D 3 d E 4 e)
    (A 0 a B 1 b C 2 c D 3 d E 4 e F 5 f)
}
