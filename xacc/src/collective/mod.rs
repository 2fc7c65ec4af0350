//! What all nodes of a set do together with short values. Each node sends its value to every other and
//! combines all of them in the order of the nodes, so every one has the same bits.

mod ops;

pub use ops::{All, And, Any, BitOps, FirstMax, FirstMin, LastMax, LastMin, Max, Min, Number, Op, Or, Prod, Sum, Xor};

use crate::dist::NodeSet;
use crate::exact::Exact;
use crate::fabric::{DATA, all_to_all};
use crate::fingerprint::of_name;
use crate::int::Int;
use crate::spmd::Spmd;
use crate::what::{Kind, SLICE, What};
use core::panic::Location;
use hamr_comm::migrate::{Decoder, Encoder};
use hamr_comm::{Fault, Migratable};

/// A value whose encoding fits into the slot of a meeting: at most 200 bytes. An `Option` or another enum may have another
/// length on each node.
pub trait Value: Migratable + Copy {}
impl<T: Migratable + Copy> Value for T {}

impl Spmd<'_> {
    /// Waits until all nodes have come here. What they have put before, this node sees behind it.
    ///
    /// # Errors
    /// An exchange is not finished; a node is in another collective; the wait was interrupted.
    #[track_caller]
    pub fn barrier(&mut self) -> Result<(), Fault> {
        self.barrier_on(self.set())
    }

    /// [`Self::barrier`] of some nodes.
    ///
    /// # Errors
    /// As [`Self::barrier`]; this node is none of them.
    #[track_caller]
    pub fn barrier_on(&mut self, set: impl Into<NodeSet>) -> Result<(), Fault> {
        let set = self.members(set.into())?;
        self.fabric().all_closed(0)?;
        all_to_all(self.fabric(), set, &What::new(Kind::BARRIER, set, Location::caller()), (&[], 0), |_, _| {})
    }

    /// Combines a value of each node, in their order; every node gets the result, of the same bits.
    ///
    /// # Errors
    /// A node is in another collective; the wait was interrupted; the value is too long.
    #[track_caller]
    pub fn reduce<V: Value, O: Op<V>>(&mut self, op: O, value: V) -> Result<V, Fault> {
        self.reduce_on(self.set(), op, value)
    }

    /// [`Self::reduce`] on some nodes.
    ///
    /// # Errors
    /// As [`Self::reduce`]; this node is none of them.
    #[track_caller]
    pub fn reduce_on<V: Value, O: Op<V>>(&mut self, set: impl Into<NodeSet>, _: O, value: V) -> Result<V, Fault> {
        let set = self.members(set.into())?;
        let what = reduction::<V, O>(set).numbered(V::SIZE.unwrap_or(0) as u32);
        let mut bytes = [0; DATA];
        let mine = encode(&mut bytes, &value)?;
        let mut sum = Folded { value: None, is_broken: false };
        all_to_all(self.fabric(), set, &what, (mine, read::<V>()), |_, theirs| sum.add::<O>(theirs))?;
        sum.value.filter(|_| !sum.is_broken).ok_or_else(garbled)
    }

    /// [`Self::reduce`] of each element of a slice; all nodes have slices of the same length.
    ///
    /// # Errors
    /// As [`Self::reduce`].
    #[track_caller]
    pub fn reduce_slice<V: Value, O: Op<V>>(&mut self, op: O, values: &mut [V]) -> Result<(), Fault> {
        self.reduce_slice_on(self.set(), op, values)
    }

    /// [`Self::reduce_slice`] on some nodes.
    ///
    /// # Errors
    /// As [`Self::reduce_on`].
    #[track_caller]
    pub fn reduce_slice_on<V: Value, O: Op<V>>(
        &mut self,
        set: impl Into<NodeSet>,
        _: O,
        values: &mut [V],
    ) -> Result<(), Fault> {
        let set = self.members(set.into())?;
        let what = reduction::<V, O>(set);
        let at_once = size_of_slot::<V>()?;
        let left = values.len();
        for (part, values) in values.chunks_mut(at_once).enumerate() {
            // Slices of other lengths differ in what is left.
            let what = what.numbered((left - part * at_once) as u32 | SLICE);
            let mut bytes = [0; DATA];
            let mut encoder = Encoder::new(&mut bytes);
            values.iter().for_each(|value| value.encode(&mut encoder));
            let len = encoder.needed();
            let mine = bytes.get(..len).ok_or_else(garbled)?;
            let (mut is_first, mut is_broken) = (true, false);
            all_to_all(self.fabric(), set, &what, (mine, len), |_, theirs| {
                let mut decoder = Decoder::new(theirs);
                for value in values.iter_mut() {
                    match V::decode(&mut decoder) {
                        Ok(theirs) => *value = if is_first { theirs } else { O::combine(*value, theirs) },
                        Err(_) => is_broken = true,
                    }
                }
                is_first = false;
            })?;
            if is_broken {
                return Err(garbled());
            }
        }
        Ok(())
    }

    /// The sum of a sum of each node, rounded once: the same bits on any number of nodes, whatever each
    /// of them has added.
    ///
    /// # Errors
    /// As [`Self::reduce`].
    #[track_caller]
    pub fn exact_sum(&mut self, here: Exact) -> Result<f64, Fault> {
        self.exact_sum_on(self.set(), here)
    }

    /// [`Self::exact_sum`] on some nodes.
    ///
    /// # Errors
    /// As [`Self::reduce_on`].
    #[track_caller]
    pub fn exact_sum_on(&mut self, set: impl Into<NodeSet>, mut here: Exact) -> Result<f64, Fault> {
        self.reduce_slice_on(set, Sum, here.parts())?;
        Ok(here.round())
    }

    /// Gives all nodes the value of node `from` of the executing set.
    ///
    /// # Errors
    /// As [`Self::reduce`]; there is no such node.
    #[track_caller]
    pub fn bcast<V: Value>(&mut self, from: impl Int, value: &mut V) -> Result<(), Fault> {
        self.bcast_on(self.set(), from, value)
    }

    /// [`Self::bcast`] on some nodes, from node `from` of these.
    ///
    /// # Errors
    /// As [`Self::reduce_on`]; there is no such node.
    #[track_caller]
    pub fn bcast_on<V: Value>(&mut self, set: impl Into<NodeSet>, from: impl Int, value: &mut V) -> Result<(), Fault> {
        let set = self.members(set.into())?;
        let root = set.rank(from).ok_or_else(|| Fault::msg("a broadcast from a node that does not exist"))?;
        let what = What::new(Kind::BCAST, set, Location::caller())
            .named("", V::TYPE_NAME)
            .numbered(set.number(root).unwrap_or(0));
        let what = what.checked(const { of_name(V::TYPE_NAME, V::SHAPE) });
        let mut bytes = [0; DATA];
        let mine = encode(&mut bytes, value)?;
        let mut got = Err(garbled());
        all_to_all(self.fabric(), set, &what, (mine, read::<V>()), |node, theirs| {
            if node == root {
                got = decode(theirs);
            }
        })?;
        *value = got?;
        Ok(())
    }

    /// A part of the executing set that this node is in.
    fn members(&self, set: NodeSet) -> Result<NodeSet, Fault> {
        let set = self.part(set)?;
        if set.contains(self.fabric().me) { Ok(set) } else { Err(Fault::msg("this node is not in the set")) }
    }
}

/// A reduction, by all that decides it.
#[track_caller]
#[inline]
fn reduction<V: Value, O: Op<V>>(set: NodeSet) -> What {
    let what = What::new(Kind::REDUCE, set, Location::caller()).named(O::NAME, V::TYPE_NAME);
    what.checked(const { of_name(O::NAME, of_name(V::TYPE_NAME, V::SHAPE)) })
}

/// Bytes to read of another node's value: an encoding without a fixed length ends by itself.
const fn read<V: Value>() -> usize {
    match V::SIZE {
        Some(size) if size < DATA => size,
        _ => DATA,
    }
}

/// The values of all nodes so far.
struct Folded<V> {
    value: Option<V>,
    is_broken: bool,
}

impl<V: Value> Folded<V> {
    fn add<O: Op<V>>(&mut self, bytes: &[u8]) {
        match decode(bytes) {
            Ok(next) => self.value = Some(self.value.map_or(next, |value| O::combine(value, next))),
            Err(_) => self.is_broken = true,
        }
    }
}

fn encode<'b, V: Value>(bytes: &'b mut [u8; DATA], value: &V) -> Result<&'b [u8], Fault> {
    let mut encoder = Encoder::new(bytes);
    value.encode(&mut encoder);
    let len = encoder.needed();
    bytes.get(..len).ok_or_else(|| Fault::msg("a value is too long for a collective"))
}

fn decode<V: Value>(bytes: &[u8]) -> Result<V, Fault> {
    V::decode(&mut Decoder::new(bytes)).map_err(|_| garbled())
}

/// Elements of a slice that fit into a slot.
fn size_of_slot<V: Value>() -> Result<usize, Fault> {
    let size = V::SIZE.filter(|size| (1..=DATA).contains(size));
    Ok(DATA / size.ok_or_else(|| Fault::msg("elements of a slice have a size of at most 200 bytes"))?)
}

#[cold]
fn garbled() -> Fault {
    Fault::msg("a node sent what is no value")
}
