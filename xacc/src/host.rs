//! Arrays of the host's program, which programs on devices read and write.

use crate::array::{Array, outside};
use crate::dist::{Desc, NodeSet, Shape};
use crate::error::fault;
use crate::exchange;
use crate::fingerprint::mix;
use crate::plan::{Copy, Gmove};
use crate::spmd::Spmd;
use crate::what::{Kind, What};
use core::marker::PhantomData;
use core::panic::Location;
use hamr_comm::migrate::{Decoder, Description, Encoder, Malformed, Name, join_shapes};
use hamr_comm::world::RankId;
use hamr_comm::{BufferPtr, Element, Fault, Migratable};

/// Elements that are moved at once.
const CHUNK: usize = 512;

/// Names an array of the host's program, for the arguments of a program on devices: a buffer of one
/// rank, whose elements the host reads and writes between two runs.
///
/// ```text
/// let field = world.node(0).allocate::<f32>(n * m)?;                    // host program
/// world.run(solve::with(HostArray::new(0, field.ptr(), [n, m])))?;      // in it: p.store(&to, w)?
/// let field = field.read()?;                                            // row-major
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostArray<T, const N: usize> {
    buffer: [u64; 2],
    rank: u32,
    extents: [i64; N],
    _element: PhantomData<fn(T) -> T>,
}

impl<T: Element, const N: usize> HostArray<T, N> {
    /// A buffer of this rank as an array with these extents, row-major. The host's program keeps the
    /// buffer as long as a program uses it.
    pub fn new(rank: u32, buffer: BufferPtr<T>, extents: [i64; N]) -> Self {
        Self { buffer: buffer.wire().words(), rank, extents, _element: PhantomData }
    }

    /// All of it but the element type, which is that of the array beside it.
    fn fingerprint(&self) -> u64 {
        self.buffer.into_iter().chain([self.rank.into()]).fold(0, mix)
    }

    fn ptr(&self) -> BufferPtr<T> {
        BufferPtr::from_wire(hamr_comm::abi::buffer::WireBuffer::from_words(self.buffer))
    }

    /// As an array that its rank has all of.
    fn desc(&self, w: &Spmd<'_>) -> Result<Desc<'static, N>, Fault> {
        if !w.set().contains(self.rank) {
            return Err(fault(format_args!("rank {} of the host's array does not execute this", self.rank)));
        }
        Ok(Shape::own(NodeSet::one(self.rank), w.fabric().me, self.extents)?.dense(size_of::<T>())?)
    }
}

type Parts<const N: usize> = ([u64; 2], u32, [i64; N]);

impl<T: Element, const N: usize> Migratable for HostArray<T, N> {
    const SIZE: Option<usize> = <Parts<N>>::SIZE;
    const SHAPE: u64 = join_shapes("HostArray", &[T::SHAPE, <Parts<N>>::SHAPE]);
    const TYPE_NAME: &'static str = const { Name::new("HostArray<").then(T::TYPE_NAME).then(">") }.as_str();
    const DESCRIPTION: &'static str = const { Description::new("HostArray<").then(T::DESCRIPTION).then(">") }.as_str();
    fn encode(&self, out: &mut Encoder<'_>) {
        (self.buffer, self.rank, self.extents).encode(out);
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (buffer, rank, extents) = Migratable::decode(from)?;
        Ok(Self { buffer, rank, extents, _element: PhantomData })
    }
}

impl<T: Element, const N: usize> Array<'_, T, N> {
    /// Assigns all elements to an array of the host's program. All nodes of the executing set call this.
    ///
    /// # Errors
    /// The shapes differ; the buffer is shorter; a node is in another collective; an exchange of this
    /// array is not finished.
    #[track_caller]
    pub fn store(&self, to: &HostArray<T, N>, w: &mut Spmd<'_>) -> Result<(), Fault> {
        self.is_free(w)?;
        let (fabric, desc) = (w.fabric(), to.desc(w)?);
        let plan = Gmove::new(&desc, desc.whole(), &self.desc, self.whole())?;
        let what = What::new(Kind::STORE, w.set(), Location::caller())
            .of(self.piece.off(), mix(mix(self.id, to.fingerprint()), plan.hash()));
        let (me, size) = (fabric.me, size_of::<T>());
        // The buffer is no memory of the world: its rank reads what it needs, and says when it has.
        let (owners, readers) = (plan.sources(me), plan.destinations(me));
        let write = |at: usize, values: &[T]| {
            let part = to.ptr().slice(at..at + values.len()).ok_or_else(|| too_short(to))?;
            fabric.task().copy_in(values, part)
        };
        exchange::begin(fabric, &what, owners, readers, |rank| {
            let (world, mut values) = (fabric.world(), [T::zeroed(); CHUNK]);
            for (at, there, n) in plan.copies(rank, me).flat_map(chunks) {
                let off = self.piece.off() + (there * size) as u64;
                world.get(RankId(rank), off, bytemuck::cast_slice_mut(&mut values[..n]))?;
                write(at, &values[..n])?;
            }
            Ok(())
        })?;
        for (at, here, n) in plan.copies(me, me).flat_map(chunks) {
            write(at, self.piece.part(here..here + n).ok_or_else(outside)?)?;
        }
        exchange::end(fabric, readers)
    }

    /// Assigns an array of the host's program to all elements. All nodes of the executing set call this.
    ///
    /// # Errors
    /// As [`Self::store`].
    #[track_caller]
    pub fn load(&mut self, from: &HostArray<T, N>, w: &mut Spmd<'_>) -> Result<(), Fault> {
        self.is_free(w)?;
        let (fabric, desc, own) = (w.fabric(), from.desc(w)?, self.desc);
        let plan = Gmove::new(&own, own.whole(), &desc, desc.whole())?;
        let what = What::new(Kind::LOAD, w.set(), Location::caller());
        let what = what.of(self.piece.off(), mix(mix(self.id, from.fingerprint()), plan.hash()));
        // Closed before a node is told that it may write here.
        self.desc.close();
        let piece = &mut self.piece;
        let (me, size, mut values) = (fabric.me, size_of::<T>(), [T::zeroed(); CHUNK]);
        let read = |at: usize, values: &mut [T]| {
            let part = from.ptr().slice(at..at + values.len()).ok_or_else(|| too_short(from))?;
            fabric.task().copy_out(part, values)
        };
        let (destinations, sources) = (plan.destinations(me), plan.sources(me));
        exchange::begin(fabric, &what, destinations, sources, |rank| {
            let world = fabric.world();
            for (there, at, n) in plan.copies(me, rank).flat_map(chunks) {
                read(at, &mut values[..n])?;
                let off = piece.off() + (there * size) as u64;
                world.put(RankId(rank), off, bytemuck::cast_slice(&values[..n]))?;
            }
            Ok(())
        })?;
        for (here, at, n) in plan.copies(me, me).flat_map(chunks) {
            read(at, piece.part_mut(here..here + n).ok_or_else(outside)?)?;
        }
        exchange::end(fabric, sources)?;
        self.desc = own;
        Ok(())
    }
}

/// The runs of a copy in parts: destination, source and elements.
fn chunks(copy: Copy) -> impl Iterator<Item = (usize, usize, usize)> {
    let parts = |Copy { to, from, run, .. }: Copy| {
        (0..run).step_by(CHUNK).map(move |done| (to + done, from + done, CHUNK.min(run - done)))
    };
    copy.spans(0).flat_map(parts)
}

#[cold]
fn too_short<T: Element, const N: usize>(array: &HostArray<T, N>) -> Fault {
    let (len, expected) = (array.ptr().len(), array.extents.iter().product::<i64>());
    fault(format_args!("the host's array has {len} elements, its extents {expected}"))
}
