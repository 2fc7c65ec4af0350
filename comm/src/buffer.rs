//! Typed names of device memory. A [`BufferPtr`] is a plain value: copying it copies no data and
//! owns nothing.

use core::marker::PhantomData;

use crate::migrate::{
    Decoder, Description, Encoder, Malformed, Migratable, Name, NamedBuffer, VisitBuffer, join_shapes,
};
use bytemuck::Pod;
use hamr_shared_abi::buffer::{BufferParts, WireBuffer};
use hamr_shared_abi::ids::NodeId;
use hamr_shared_abi::window::Claim;

/// What a buffer may contain: plain data with a shape both sides agree on.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the element of a device buffer",
    note = "elements are plain data: scalars, or `#[derive(Migratable)]` types that are also `bytemuck::Pod`"
)]
pub trait Element: Pod + Migratable {}
impl<T: Pod + Migratable> Element for T {}

/// Names `len` elements of `T` in one device's memory: a Copy handle with a generation, 16 bytes on
/// the wire.
///
/// It stays valid as long as the host's `Buffer` that it came from; afterwards the host refuses
/// calls that name it.
pub struct BufferPtr<T> {
    wire: WireBuffer,
    _element: PhantomData<fn(T) -> T>,
}

impl<T> Clone for BufferPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for BufferPtr<T> {}
impl<T> PartialEq for BufferPtr<T> {
    fn eq(&self, other: &Self) -> bool {
        self.wire == other.wire
    }
}
impl<T> Eq for BufferPtr<T> {}
impl<T> core::fmt::Debug for BufferPtr<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let p = self.wire.unpack();
        write!(f, "BufferPtr(node {}, #{}.{}, {:#x}, {} elements)", p.node, p.index, p.generation, p.off, p.len)
    }
}

impl<T: Element> BufferPtr<T> {
    /// From its wire form. The host and the device check it where it is used, so any bits are
    /// harmless.
    #[inline(always)]
    pub const fn from_wire(wire: WireBuffer) -> Self {
        Self { wire, _element: PhantomData }
    }

    /// The wire form.
    #[inline(always)]
    pub const fn wire(self) -> WireBuffer {
        self.wire
    }

    /// The fields.
    #[inline(always)]
    pub const fn parts(self) -> BufferParts {
        self.wire.unpack()
    }

    /// Elements.
    pub const fn len(self) -> usize {
        self.parts().len as usize
    }

    /// No elements.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Bytes; saturates for a forged length.
    #[inline(always)]
    pub const fn bytes(self) -> u64 {
        self.parts().len.saturating_mul(size_of::<T>() as u64)
    }

    /// Whose memory it is.
    pub const fn node(self) -> NodeId {
        self.parts().node
    }

    /// Elements `range` of it, or `None` when the range leaves the buffer.
    pub fn slice(self, range: core::ops::Range<usize>) -> Option<Self> {
        let mut p = self.parts();
        if range.start > range.end || range.end as u64 > p.len {
            return None;
        }
        p.off += (range.start * size_of::<T>()) as u64;
        p.len = (range.end - range.start) as u64;
        Some(Self::from_wire(WireBuffer::pack(p)))
    }

    /// Asks [`crate::Context::views`] for a `&[T]`.
    pub const fn read(self) -> Read<T> {
        Read(self)
    }

    /// Asks [`crate::Context::views`] for a `&mut [T]`.
    pub const fn write(self) -> Write<T> {
        Write(self)
    }

    pub(crate) fn claim(self, writable: bool) -> Claim {
        Claim { off: self.parts().off, bytes: self.bytes(), writable }
    }
}

/// A buffer to be read by a handler.
#[derive(Clone, Copy, Debug)]
pub struct Read<T>(pub(crate) BufferPtr<T>);
/// A buffer to be written (and read) by a handler.
#[derive(Clone, Copy, Debug)]
pub struct Write<T>(pub(crate) BufferPtr<T>);

impl<T: Element> Migratable for BufferPtr<T> {
    const SIZE: Option<usize> = Some(16);
    const SHAPE: u64 = join_shapes("BufferPtr", &[T::SHAPE]);
    const TYPE_NAME: &'static str = const { Name::new("BufferPtr<").then(T::TYPE_NAME).then(">") }.as_str();
    const DESCRIPTION: &'static str = const { Description::new("BufferPtr<").then(T::DESCRIPTION).then(">") }.as_str();
    const HAS_BUFFERS: bool = true;
    #[inline(always)]
    fn encode(&self, out: &mut Encoder<'_>) {
        for word in self.wire.words() {
            if cfg!(hamr_bare) {
                word.encode(out);
            } else {
                (word as u32, (word >> 32) as u32).encode(out);
            }
        }
    }
    // In halves: behind a number of 4 bytes a word lies in two words of its slot. The compiler joins halves by shifts,
    // in registers. A word it loads across two that it has stored, and such a load waits until the processor's earlier
    // stores have left it. Images, which are small, do without.
    #[inline(always)]
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        if cfg!(hamr_bare) {
            return Ok(Self::from_wire(WireBuffer::from_words(Migratable::decode(from)?)));
        }
        let (a, b, c, d) = Migratable::decode(from)?;
        let join = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        Ok(Self::from_wire(WireBuffer::from_words([join(a, b), join(c, d)])))
    }
    #[inline(always)]
    fn visit_buffers(&self, visit: &mut impl VisitBuffer) {
        visit.visit(NamedBuffer { wire: self.wire, bytes: self.bytes() });
    }
}
