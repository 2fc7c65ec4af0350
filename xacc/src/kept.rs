//! Arrays that stay on the nodes from one program to the next.

use crate::array::Array;
use crate::coarray::Coarray;
use crate::dist::Shape;
use crate::error::fault;
use crate::spmd::Spmd;
use crate::what::{Kind, What};
use core::hash::{Hash, Hasher};
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
    /// Of its shape.
    hash: u64,
    _element: PhantomData<fn(T) -> T>,
}

type Parts = (u64, u64);

/// What all nodes open it as.
const AS_ARRAY: u32 = 0;
const AS_COARRAY: u32 = 1;

impl<T: Element, const N: usize> Migratable for Kept<T, N> {
    const SIZE: Option<usize> = Parts::SIZE;
    const SHAPE: u64 = join_shapes("Kept", &[T::SHAPE, <[u8; N]>::SHAPE]);
    const TYPE_NAME: &'static str = const { Name::new("Kept<").then(T::TYPE_NAME).then(">") }.as_str();
    const DESCRIPTION: &'static str = const { Description::new("Kept<").then(T::DESCRIPTION).then(">") }.as_str();
    fn encode(&self, out: &mut Encoder<'_>) {
        (self.off, self.hash).encode(out);
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (off, hash) = Migratable::decode(from)?;
        Ok(Self { off, hash, _element: PhantomData })
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
        let (off, hash) = (self.piece.off(), hash(self.desc.shape()));
        w.meet(&What::new(Kind::KEEP, w.set(), Location::caller()).of(off, hash))?;
        let (fabric, end) = (w.fabric(), off + (self.piece.len() * size_of::<T>()) as u64);
        let world = fabric.world();
        world.keep(world.kept().max(end));
        Ok(Kept { off, hash, _element: PhantomData })
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
        let hash = hash(shape);
        if hash != self.hash {
            let (got, kept) = (hash, self.hash);
            return Err(fault(format_args!("the kept array has another shape (hash {kept:#x}, not {got:#x})")));
        }
        let desc = shape.desc(size_of::<T>())?;
        let room = w.local::<u64>(desc.room())?;
        let desc = desc.keep(room)?;
        w.meet(&What::new(Kind::OPEN, w.set(), Location::caller()).of(self.off, hash).numbered(kind))?;
        let piece = w.kept(self.off, desc.elements())?;
        Ok(Array { desc, piece, set: w.set(), pending: None, got: None, plan: None })
    }
}

impl Spmd<'_> {
    /// From the next program on nothing is kept: its arrays have the whole segment. Each node says so for
    /// itself.
    ///
    /// # Errors
    /// The device is no rank.
    pub fn free_kept(&mut self) -> Result<(), Fault> {
        self.fabric().world().keep(0);
        Ok(())
    }
}

/// The same on all nodes.
fn hash<const N: usize>(shape: &Shape<'_, N>) -> u64 {
    let mut hash = Fnv(0xCBF2_9CE4_8422_2325);
    let mut shape = *shape;
    shape.grid.me = 0;
    (shape.grid, shape.axes).hash(&mut hash);
    hash.0
}

/// FNV's, by bytes.
struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3));
    }
    fn finish(&self) -> u64 {
        self.0
    }
}
