//! What can travel: arguments, results and errors of handlers (docs/offload.md "Migratable").
//!
//! The wire form is packed little-endian bytes in declaration order, without padding: 48 bytes of
//! arguments are 48 bytes of values. Scalars, arrays, tuples and [`BufferPtr`](crate::BufferPtr)
//! are implemented here, user types by `#[derive(Migratable)]`, foreign `Pod` types by wrapping
//! them in [`Bits`]. There is no blanket implementation over `Pod`: it would forbid implementing
//! the trait for foreign owning types.

use bytemuck::Pod;
use hamr_shared_abi::buffer::WireBuffer;
use hamr_shared_abi::table::{hash, hash_join};
use hamr_shared_abi::window::Unread;

#[cfg(feature = "postcard")]
mod bounded;
mod describe;
#[cfg(feature = "postcard")]
pub mod hook;
mod ids;
mod name;

#[cfg(feature = "postcard")]
pub use bounded::{MAX_DEPTH, MAX_ELEMENTS};
pub use describe::Description;
pub use name::{MAX_NAME, Name, bytes_of, text_of};

/// Longest message that every device takes, arguments or result: an image copies a long message into
/// scratch memory of this size before it decodes it. Longer data belongs into a [`crate::BufferPtr`].
pub const MAX_MESSAGE: usize = 1 << 14;
/// Longest message of any device. One with LONG_VALUES has longer scratch memory, and says how long: a hosted
/// one as long as its window, since memory that was never used costs nothing there, a bare-metal one what its
/// image reserves.
pub const MAX_LONG: usize = 1 << 30;

/// A value that can cross between host and device.
///
/// `usize` and `isize` are missing because the two sides may differ in width: use `u64` or `u32`.
/// References and pointers are missing because the sides share no addresses: put the data into a
/// buffer and pass a `BufferPtr<T>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel between host and device",
    label = "not `Migratable`",
    note = "use fixed-width scalars (`u64`, not `usize`), arrays, tuples, or `#[derive(Migratable)]` on your own type",
    note = "for data behind a reference or in a `Vec`, put it into a device buffer and pass a `BufferPtr<T>`",
    note = "for a foreign plain-data type wrap it: `Bits<T>` where `T: bytemuck::Pod`"
)]
pub trait Migratable: Sized {
    /// Bytes on the wire when every value has the same number of them; `None` for owning types.
    const SIZE: Option<usize>;
    /// Bytes on the wire of the longest value; `None` where values have no bound. The host makes room for it before a call that
    /// returns the type.
    const LONGEST: Option<usize> = Self::SIZE;
    /// Hash of the wire shape: part of every signature that contains the type.
    const SHAPE: u64;
    /// The type as a program spells it, with its path when it is a user's: part of the names of
    /// generic handlers' instances.
    const TYPE_NAME: &'static str;
    /// The type with its fields, as programs read it that do not link it (abi §11). `?` and a name:
    /// only a program that links the type can encode it.
    const DESCRIPTION: &'static str = const { Description::new("?").then(Self::TYPE_NAME) }.as_str();
    /// Does a value name device buffers? False lets a call skip the walk.
    const HAS_BUFFERS: bool = false;

    /// Appends the value.
    fn encode(&self, out: &mut Encoder<'_>);
    /// Takes the value off the front. Never panics, whatever the bytes are.
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed>;
    /// Shows every device buffer that the value names, so that the host can check and use it while
    /// the call runs.
    fn visit_buffers(&self, _visit: &mut impl VisitBuffer) {}
    /// Appends the value but for its last bytes, where these lie in memory as on the wire, and returns those.
    #[doc(hidden)]
    #[inline(always)]
    fn encode_head(&self, out: &mut Encoder<'_>) -> &[u8] {
        self.encode(out);
        &[]
    }
    /// The bytes of elements on the wire, where they are those in memory.
    #[doc(hidden)]
    #[inline(always)]
    fn element_bytes(_values: &[Self]) -> Option<&[u8]> {
        None
    }
    /// Takes the elements of a vector, as they were appended.
    #[doc(hidden)]
    #[inline(always)]
    fn decode_elements<const N: usize>(
        len: usize,
        from: &mut Decoder<'_>,
    ) -> Result<heapless::Vec<Self, N>, Malformed> {
        let mut values = heapless::Vec::new();
        for _ in 0..len {
            values.push(Self::decode(from)?).map_err(|_| Malformed)?;
        }
        Ok(values)
    }
}

/// A buffer that a value names, to be checked and kept while the call runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamedBuffer {
    /// The pointer.
    pub wire: WireBuffer,
    /// Its extent, which the element type gives.
    pub bytes: u64,
}

/// What [`Migratable::visit_buffers`] shows buffers to: a closure, or a type with a method that is
/// always inlined, as the path of a call needs it.
pub trait VisitBuffer {
    /// Shows one buffer.
    fn visit(&mut self, buffer: NamedBuffer);
}

impl<F: FnMut(NamedBuffer)> VisitBuffer for F {
    fn visit(&mut self, buffer: NamedBuffer) {
        self(buffer);
    }
}

/// The bytes do not decode as the type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

/// Appends to a slice; past its end it only counts, so that the length needed is known afterwards.
pub struct Encoder<'a> {
    to: &'a mut [u8],
    at: usize,
}

impl<'a> Encoder<'a> {
    /// Starts at the front of `to`.
    #[inline(always)]
    pub fn new(to: &'a mut [u8]) -> Self {
        Self { to, at: 0 }
    }

    /// Appends bytes, or only counts them when they no longer fit.
    #[inline(always)]
    pub fn bytes(&mut self, bytes: &[u8]) {
        // In two steps, which the compiler sees to be as long as `bytes`.
        if let Some(room) = self.to.get_mut(self.at..).and_then(|room| room.get_mut(..bytes.len())) {
            room.copy_from_slice(bytes);
        }
        self.at = self.at.saturating_add(bytes.len());
    }

    /// [`Self::bytes`], not inlined: for values that are rarely encoded.
    #[inline(never)]
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.bytes(bytes);
    }

    /// Bytes appended or counted so far.
    #[inline(always)]
    pub fn needed(&self) -> usize {
        self.at
    }

    /// Did everything fit?
    #[inline(always)]
    pub fn fits(&self) -> bool {
        self.at <= self.to.len()
    }
}

/// Takes bytes off the front of a message, each once: a chunk's are copied where the value wants them, while a peer may
/// change them.
pub struct Decoder<'a> {
    bytes: Unread<'a>,
    /// For bytes of a chunk that are asked for by reference.
    room: &'a mut [u8],
    refused: Option<&'static str>,
}

impl<'a> Decoder<'a> {
    /// Over a private copy of the bytes.
    #[inline(always)]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::of_message(Unread::private(bytes), &mut [])
    }

    /// Over bytes of a chunk, of which `room` has room for all; or over private ones.
    #[inline(always)]
    pub(crate) fn of_message(bytes: Unread<'a>, room: &'a mut [u8]) -> Self {
        Self { bytes, room, refused: None }
    }

    /// The next `N` bytes.
    #[inline(always)]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.bytes.array().ok_or(Malformed)
    }

    /// The next `n` bytes.
    pub fn slice(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let part = self.part(n)?;
        if let Some(bytes) = part.as_private() {
            return Ok(bytes);
        }
        let (to, room) = core::mem::take(&mut self.room).split_at_mut_checked(n).ok_or(Malformed)?;
        self.room = room;
        part.copy_to(to);
        Ok(to)
    }

    /// The next `n` bytes, to be copied.
    #[inline(always)]
    pub(crate) fn part(&mut self, n: usize) -> Result<Unread<'a>, Malformed> {
        self.bytes.split_front(n).ok_or(Malformed)
    }

    /// All bytes that are left.
    pub fn rest(&mut self) -> &'a [u8] {
        self.slice(self.bytes.len()).unwrap_or_default()
    }

    /// Why a value was refused, where more is known than that it does not decode.
    pub fn refused(&self) -> Option<&'static str> {
        self.refused
    }

    /// Are no bytes left?
    #[inline(always)]
    pub fn is_done(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Sum of sizes, as long as all are fixed. Used by tuples and the derive.
pub const fn add_sizes(sizes: &[Option<usize>]) -> Option<usize> {
    let mut sum = 0;
    let mut i = 0;
    while i < sizes.len() {
        match sizes[i] {
            Some(n) => sum += n,
            None => return None,
        }
        i += 1;
    }
    Some(sum)
}

/// The size that all variants share, behind one tag byte; `None` when they differ. Used by the
/// derive for enums.
pub const fn same_sizes(variants: &[Option<usize>]) -> Option<usize> {
    let mut same = None;
    let mut i = 0;
    while i < variants.len() {
        same = match (same, variants[i]) {
            (None, Some(n)) if i == 0 => Some(n),
            (Some(m), Some(n)) if m == n => Some(n),
            _ => return None,
        };
        i += 1;
    }
    match same {
        Some(n) => Some(n + 1),
        None => None,
    }
}

/// Bytes of the longest of these variants, behind one tag byte; `None` when one has no bound. Used by
/// the derive for enums.
pub const fn longest(variants: &[Option<usize>]) -> Option<usize> {
    let mut longest = 0;
    let mut i = 0;
    while i < variants.len() {
        match variants[i] {
            Some(n) if n > longest => longest = n,
            Some(_) => {}
            None => return None,
        }
        i += 1;
    }
    Some(1 + longest)
}

/// Bytes of `n` values of at most `each` bytes.
const fn times(each: Option<usize>, n: usize) -> Option<usize> {
    match each {
        Some(each) => each.checked_mul(n),
        None => None,
    }
}

/// Shape of a composite: its name, then its parts in order. Used by tuples and the derive.
pub const fn join_shapes(name: &str, parts: &[u64]) -> u64 {
    let mut state = hash(name.as_bytes());
    let mut i = 0;
    while i < parts.len() {
        state = hash_join(state, parts[i]);
        i += 1;
    }
    state
}

macro_rules! scalars {
    ($($t:ident)*) => {$(
        impl Migratable for $t {
            const SIZE: Option<usize> = Some(size_of::<$t>());
            const SHAPE: u64 = hash(stringify!($t).as_bytes());
            const TYPE_NAME: &'static str = stringify!($t);
            const DESCRIPTION: &'static str = stringify!($t);
            #[inline(always)]
            fn encode(&self, out: &mut Encoder<'_>) {
                out.bytes(&self.to_le_bytes());
            }
            #[inline(always)]
            fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
                Ok(Self::from_le_bytes(from.array()?))
            }
            #[cfg(target_endian = "little")]
            #[inline(always)]
            fn element_bytes(values: &[Self]) -> Option<&[u8]> {
                Some(bytemuck::cast_slice(values))
            }
            #[cfg(target_endian = "little")]
            #[inline(always)]
            fn decode_elements<const N: usize>(
                len: usize,
                from: &mut Decoder<'_>,
            ) -> Result<heapless::Vec<Self, N>, Malformed> {
                let bytes = from.part(len.checked_mul(size_of::<Self>()).ok_or(Malformed)?)?;
                if len > N {
                    return Err(Malformed);
                }
                // Filled where it is returned: a long one is not moved.
                let mut values = Ok(heapless::Vec::new());
                if let Ok(values) = &mut values {
                    let _ = values.resize_default(len);
                    bytes.copy_to(bytemuck::cast_slice_mut(values));
                }
                values
            }
        }
    )*};
}
scalars!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64);

impl Migratable for bool {
    const SIZE: Option<usize> = Some(1);
    const SHAPE: u64 = hash(b"bool");
    const TYPE_NAME: &'static str = "bool";
    const DESCRIPTION: &'static str = "bool";
    #[inline(always)]
    fn encode(&self, out: &mut Encoder<'_>) {
        out.bytes(&[u8::from(*self)]);
    }
    #[inline(always)]
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        match from.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(Malformed),
        }
    }
}

impl Migratable for char {
    const SIZE: Option<usize> = Some(4);
    const SHAPE: u64 = hash(b"char");
    const TYPE_NAME: &'static str = "char";
    const DESCRIPTION: &'static str = "char";
    fn encode(&self, out: &mut Encoder<'_>) {
        out.bytes(&u32::from(*self).to_le_bytes());
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Self::from_u32(u32::from_le_bytes(from.array()?)).ok_or(Malformed)
    }
}

impl<T: Migratable> Migratable for Option<T> {
    // One tag byte; the value follows only when there is one, so the size is fixed for none.
    const SIZE: Option<usize> = None;
    const LONGEST: Option<usize> = longest(&[T::LONGEST]);
    const SHAPE: u64 = join_shapes("Option", &[T::SHAPE]);
    const TYPE_NAME: &'static str = const { Name::new("Option<").then(T::TYPE_NAME).then(">") }.as_str();
    const DESCRIPTION: &'static str = const { Description::new("Option<").then(T::DESCRIPTION).then(">") }.as_str();
    const HAS_BUFFERS: bool = T::HAS_BUFFERS;
    fn encode(&self, out: &mut Encoder<'_>) {
        self.is_some().encode(out);
        if let Some(value) = self {
            value.encode(out);
        }
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        bool::decode(from)?.then(|| T::decode(from)).transpose()
    }
    #[inline(always)]
    fn visit_buffers(&self, visit: &mut impl VisitBuffer) {
        if let Some(value) = self {
            value.visit_buffers(visit);
        }
    }
}

impl<T: Migratable, const N: usize> Migratable for [T; N] {
    const SIZE: Option<usize> = times(T::SIZE, N);
    const LONGEST: Option<usize> = times(T::LONGEST, N);
    const SHAPE: u64 = join_shapes("array", &[T::SHAPE, N as u64]);
    const TYPE_NAME: &'static str =
        const { Name::new("[").then(T::TYPE_NAME).then("; ").then_number(N).then("]") }.as_str();
    const DESCRIPTION: &'static str =
        const { Description::new("[").then(T::DESCRIPTION).then("; ").then_number(N).then("]") }.as_str();
    const HAS_BUFFERS: bool = T::HAS_BUFFERS;
    #[inline(always)]
    fn encode(&self, out: &mut Encoder<'_>) {
        for value in self {
            value.encode(out);
        }
    }
    #[inline(always)]
    fn encode_head(&self, out: &mut Encoder<'_>) -> &[u8] {
        T::element_bytes(self).unwrap_or_else(|| {
            self.encode(out);
            &[]
        })
    }
    #[inline(always)]
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        // `array::try_from_fn` is unstable; a fixed vector is the same thing with a checked end.
        let mut values = heapless::Vec::<T, N>::new();
        while !values.is_full() {
            let _ = values.push(T::decode(from)?);
        }
        if N <= MOVED_WHOLE {
            return values.into_array().map_err(|_| Malformed);
        }
        let mut values = values.into_iter();
        Ok(core::array::from_fn(|_| match values.next() {
            Some(value) => value,
            None => unreachable!("the vector was full"),
        }))
    }
    #[inline(always)]
    fn visit_buffers(&self, visit: &mut impl VisitBuffer) {
        for value in self {
            value.visit_buffers(visit);
        }
    }
}

/// The compiler moves longer arrays element by element, in line: 1 KiB of code for 100 of them, 48
/// KiB for 2048. They are moved by a loop.
const MOVED_WHOLE: usize = 64;

macro_rules! tuples {
    ($(($($t:ident $i:tt)*))*) => {$(
        impl<$($t: Migratable),*> Migratable for ($($t,)*) {
            const SIZE: Option<usize> = add_sizes(&[$($t::SIZE),*]);
            const LONGEST: Option<usize> = add_sizes(&[$($t::LONGEST),*]);
            const SHAPE: u64 = join_shapes("tuple", &[$($t::SHAPE),*]);
            const TYPE_NAME: &'static str =
                const { Name::new("(").then_list(&[$($t::TYPE_NAME),*]).then(")") }.as_str();
            const DESCRIPTION: &'static str =
                const { Description::new("(").then_list(&[$($t::DESCRIPTION),*]).then(")") }.as_str();
            const HAS_BUFFERS: bool = false $(|| $t::HAS_BUFFERS)*;
            #[inline(always)]
            #[allow(unused_variables, reason = "the empty tuple")]
            fn encode(&self, out: &mut Encoder<'_>) {
                $(self.$i.encode(out);)*
            }
            #[inline(always)]
            #[allow(unused_assignments, unused_mut, unused_variables, reason = "the empty tuple, the first part")]
            fn encode_head(&self, out: &mut Encoder<'_>) -> &[u8] {
                let mut tail: &[u8] = &[];
                $(out.bytes(tail);
                tail = self.$i.encode_head(out);)*
                tail
            }
            #[inline(always)]
            #[allow(unused_variables, clippy::unused_unit, reason = "the empty tuple")]
            fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
                Ok(($($t::decode(from)?,)*))
            }
            #[inline(always)]
            #[allow(unused_variables, reason = "the empty tuple")]
            fn visit_buffers(&self, visit: &mut impl VisitBuffer) {
                $(self.$i.visit_buffers(visit);)*
            }
        }
    )*};
}
tuples! {
    ()
    (A 0)
    (A 0 B 1)
    (A 0 B 1 C 2)
    (A 0 B 1 C 2 D 3)
    (A 0 B 1 C 2 D 3 E 4)
    (A 0 B 1 C 2 D 3 E 4 F 5)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11)
}

/// A plain-data value of a foreign type, copied bit by bit. Both sides must be built from the same
/// definition of `T`: only its size and the name given in the handler's signature are checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bits<T: Pod>(pub T);

impl<T: Pod> Migratable for Bits<T> {
    const SIZE: Option<usize> = Some(size_of::<T>());
    const SHAPE: u64 = join_shapes("Bits", &[size_of::<T>() as u64]);
    // A foreign type has no name in a constant. Two of one size as instances of one handler are a
    // duplicate that the table's check reports; a newtype with `#[derive(Migratable)]` around
    // `Bits` makes them different.
    const TYPE_NAME: &'static str = const { Name::new("Bits<").then_number(size_of::<T>()).then(" bytes>") }.as_str();
    const DESCRIPTION: &'static str = Self::TYPE_NAME;
    #[inline(always)]
    fn encode(&self, out: &mut Encoder<'_>) {
        out.bytes(bytemuck::bytes_of(&self.0));
    }
    #[inline(always)]
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let mut value = T::zeroed();
        from.part(size_of::<T>())?.copy_to(bytemuck::bytes_of_mut(&mut value));
        Ok(Self(value))
    }
}

impl<const N: usize> Migratable for heapless::String<N> {
    const SIZE: Option<usize> = None;
    const LONGEST: Option<usize> = Some(4 + N);
    const SHAPE: u64 = hash(b"str");
    const TYPE_NAME: &'static str = const { Name::new("String<").then_number(N).then(">") }.as_str();
    const DESCRIPTION: &'static str = Self::TYPE_NAME;
    fn encode(&self, out: &mut Encoder<'_>) {
        (self.len() as u32).encode(out);
        out.bytes(self.as_bytes());
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let len = u32::decode(from)? as usize;
        let text = core::str::from_utf8(from.slice(len)?).map_err(|_| Malformed)?;
        Self::try_from(text).map_err(|_| Malformed)
    }
}

impl<T: Migratable, const N: usize> Migratable for heapless::Vec<T, N> {
    const SIZE: Option<usize> = None;
    const LONGEST: Option<usize> = add_sizes(&[Some(4), times(T::LONGEST, N)]);
    const SHAPE: u64 = join_shapes("seq", &[T::SHAPE]);
    const TYPE_NAME: &'static str =
        const { Name::new("Vec<").then(T::TYPE_NAME).then(", ").then_number(N).then(">") }.as_str();
    const DESCRIPTION: &'static str =
        const { Description::new("Vec<").then(T::DESCRIPTION).then(", ").then_number(N).then(">") }.as_str();
    const HAS_BUFFERS: bool = T::HAS_BUFFERS;
    fn encode(&self, out: &mut Encoder<'_>) {
        let tail = self.encode_head(out);
        out.bytes(tail);
    }
    #[inline(always)]
    fn encode_head(&self, out: &mut Encoder<'_>) -> &[u8] {
        (self.len() as u32).encode(out);
        T::element_bytes(self).unwrap_or_else(|| {
            self.iter().for_each(|value| value.encode(out));
            &[]
        })
    }
    // In line with what takes it, so that it is moved less often; one copy in images, which are small.
    #[cfg_attr(hamr_bare, inline(never))]
    #[cfg_attr(not(hamr_bare), inline(always))]
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let len = u32::decode(from)? as usize;
        T::decode_elements(len, from)
    }
    #[inline(always)]
    fn visit_buffers(&self, visit: &mut impl VisitBuffer) {
        for value in self {
            value.visit_buffers(visit);
        }
    }
}
