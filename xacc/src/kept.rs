//! Arrays that stay on the nodes from one program to the next.

use crate::array::{Array, is_mine};
use crate::coarray::Coarray;
use crate::dist::Shape;
use crate::error::fault;
use crate::fabric::all_to_all;
use crate::fingerprint;
use crate::spmd::{Spmd, not_kept};
use crate::what::{Kind, What, fold};
use core::marker::PhantomData;
use core::panic::Location;
use hamr_comm::migrate::{Decoder, Description, Encoder, Malformed, Name, join_shapes};
use hamr_comm::{Element, Fault, Migratable};

/// Names an array that a program has [kept](Array::keep), for the arguments of later ones: a host's
/// program calls one after the other, and the elements stay where they are.
///
/// ```text
/// let p = world.run(begin::with(n))?;                                   // host program
/// for _ in 0..100 { runs.push(world.start(step::with(n, p))?); }        // in it: let mut p = p.open(&shape, w)?
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept<T, const N: usize> {
    off: u64,
    /// Of its shape and element type.
    fingerprint: u32,
    /// Of what the nodes keep: each [`Spmd::free_kept`] begins another, and each world with another.
    generation: u32,
    _element: PhantomData<fn(T) -> T>,
}

type Parts = (u64, u32, u32);

/// What all nodes open it as.
const AS_ARRAY: u32 = 0;
const AS_COARRAY: u32 = 1;

impl<T: Element, const N: usize> Migratable for Kept<T, N> {
    const SIZE: Option<usize> = Parts::SIZE;
    const SHAPE: u64 = join_shapes("Kept", &[T::SHAPE, <[u8; N]>::SHAPE]);
    const TYPE_NAME: &'static str = const { Name::new("Kept<").then(T::TYPE_NAME).then(">") }.as_str();
    const DESCRIPTION: &'static str = const { Description::new("Kept<").then(T::DESCRIPTION).then(">") }.as_str();
    fn encode(&self, out: &mut Encoder<'_>) {
        (self.off, self.fingerprint, self.generation).encode(out);
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (off, fingerprint, generation) = Migratable::decode(from)?;
        Ok(Self { off, fingerprint, generation, _element: PhantomData })
    }
}

impl<'c, T: Element, const N: usize> Array<'c, T, N> {
    /// Leaves the array's elements, with those of the shadow, to later programs of this world. All nodes
    /// of the executing set, which have made it, call this.
    ///
    /// Arrays that the program has made before this one leave their room unused. A handler that views the
    /// segment while no program runs may write the elements.
    ///
    /// # Errors
    /// An exchange of it is not finished; it was made in a [`scope`](Spmd::scope), or by other nodes; a
    /// node is in another collective.
    #[track_caller]
    pub fn keep(self, w: &mut Spmd<'c>) -> Result<Kept<T, N>, Fault> {
        self.is_free(w)?;
        if w.is_in_scope() {
            return Err(Fault::msg("an array of a scope ends with it"));
        }
        let (fabric, off) = (w.fabric(), self.piece.off());
        let world = fabric.world();
        let what = What::new(Kind::KEEP, w.set(), Location::caller()).of(off, self.id);
        // The last of all nodes: some may have freed what they kept more often.
        let mut generation = world.kept_generation();
        let mine = generation.to_le_bytes();
        all_to_all(fabric, w.set(), &what, (&mine, mine.len()), |_, theirs| {
            let theirs = theirs.first_chunk().map_or(generation, |theirs| u32::from_le_bytes(*theirs));
            if theirs.wrapping_sub(generation) as i32 > 0 {
                generation = theirs;
            }
        })?;
        world.begin_generation(generation);
        let end = off + (self.piece.len() * size_of::<T>()) as u64;
        world.keep(world.kept().max(end));
        let fingerprint = fold(fingerprint::of_array::<T, N>(self.desc.shape()));
        Ok(Kept { off, fingerprint, generation, _element: PhantomData })
    }
}

impl<'c, T: Element, const N: usize> Coarray<'c, T, N> {
    /// Leaves all images' elements to later programs, which [open](Kept::open_coarray) them: see
    /// [`Array::keep`]. What an image has put before it calls this is kept.
    ///
    /// # Errors
    /// As [`Array::keep`].
    #[track_caller]
    pub fn keep(self, w: &mut Spmd<'c>) -> Result<Kept<T, N>, Fault> {
        self.into_array().keep(w)
    }
}

impl<T: Element, const N: usize> Kept<T, N> {
    /// The array again, of the shape that it was made with. All nodes that have kept it call this, each
    /// program once, outside of scopes. It stays kept.
    ///
    /// # Errors
    /// The shape is another one; it is not kept any more, or open already; a node is in another
    /// collective.
    #[track_caller]
    pub fn open<'c>(&self, shape: &Shape<'_, N>, w: &mut Spmd<'c>) -> Result<Array<'c, T, N>, Fault> {
        self.open_as(AS_ARRAY, shape, w)
    }

    /// A [`Coarray`] again: see [`Self::open`]. Its images are the nodes of the executing set.
    ///
    /// # Errors
    /// As [`Self::open`]; the shape is that of no coarray of the executing set.
    #[track_caller]
    pub fn open_coarray<'c>(&self, shape: &Shape<'_, N>, w: &mut Spmd<'c>) -> Result<Coarray<'c, T, N>, Fault> {
        Coarray::new(shape, w, |w| self.open_as(AS_COARRAY, shape, w))
    }

    #[track_caller]
    fn open_as<'c>(&self, kind: u32, shape: &Shape<'_, N>, w: &mut Spmd<'c>) -> Result<Array<'c, T, N>, Fault> {
        if self.generation != w.fabric().world().kept_generation() {
            return Err(not_kept());
        }
        let (fingerprint, kept) = (fingerprint::of_array::<T, N>(shape), self.fingerprint);
        if fold(fingerprint) != kept {
            let got = fold(fingerprint);
            return Err(fault(format_args!("the kept array has another shape ({kept:08x}, not {got:08x})")));
        }
        is_mine(shape, w)?;
        let desc = shape.desc(size_of::<T>())?;
        let room = w.local::<u64>(desc.room())?;
        let desc = desc.keep(room)?;
        let id = fingerprint::of_nodes(fingerprint, shape, self.off);
        w.meet(&What::new(Kind::OPEN, w.set(), Location::caller()).of(self.off, id).numbered(kind))?;
        let piece = w.kept(self.off, desc.elements())?;
        Ok(Array::new(desc, piece, w.set(), id))
    }
}

impl Spmd<'_> {
    /// From the next program on nothing is kept: its arrays have the whole segment, and no [`Kept`] of before opens one. Each
    /// node says so for itself; where a set keeps an array next, names of before open nothing on its other nodes, either.
    ///
    /// # Errors
    /// The device is no rank.
    pub fn free_kept(&mut self) -> Result<(), Fault> {
        self.fabric().world().free_kept();
        Ok(())
    }
}
