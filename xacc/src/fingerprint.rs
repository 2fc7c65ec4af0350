//! Fingerprints: one number of everything that decides what nodes do with each other's memory. It is made where the
//! thing is made, and every meeting about that thing compares it.

use crate::dist::{Axis, Shape};
use core::hash::{Hash, Hasher};
use hamr_comm::Element;

/// Of an array with elements of type `T`: its extents, distribution, alignment, shadow, padding, nodes and element type. The same
/// on all nodes that have made it alike.
pub(crate) fn of_array<T: Element, const N: usize>(shape: &Shape<'_, N>) -> u64 {
    let mut hash = Fnv::new();
    let mut shape = *shape;
    // Nodes see it each as its own, and each row of nodes may have one ([`of_nodes`]).
    (shape.grid.me, shape.grid.first) = (0, 0);
    (shape.grid, shape.axes, shape.dense, N, T::SHAPE).hash(&mut hash);
    hash.finish()
}

/// Of what nodes agree on where they make it: an array that each node has for itself has extents of its own on each.
pub(crate) fn of_making<T: Element, const N: usize>(shape: &Shape<'_, N>) -> u64 {
    let mut shape = *shape;
    if shape.is_own() {
        shape.axes = shape.axes.map(|axis| Axis { shadow: axis.shadow, ..Axis::NONE });
    }
    of_array::<T, N>(&shape)
}

/// The same of one of several arrays that rows of nodes make at once, at a place in the segment.
pub(crate) fn of_nodes<const N: usize>(array: u64, shape: &Shape<'_, N>, off: u64) -> u64 {
    mix(mix(array, shape.grid.first.into()), off)
}

/// Of two numbers, in this order, in few instructions: each exchange needs one.
#[inline]
pub(crate) const fn mix(a: u64, b: u64) -> u64 {
    // An odd number without a pattern, that of the golden ratio.
    let mixed = (a.rotate_left(25) ^ b).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ mixed >> 32
}

/// Of a name, and a number.
pub(crate) const fn of_name(name: &str, number: u64) -> u64 {
    let (mut hash, mut at) = (FNV ^ number, 0);
    while at < name.len() {
        hash = (hash ^ name.as_bytes()[at] as u64).wrapping_mul(PRIME);
        at += 1;
    }
    hash
}

const FNV: u64 = 0xCBF2_9CE4_8422_2325;
const PRIME: u64 = 0x100_0000_01B3;

/// FNV's, by bytes: the same on every processor.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(FNV)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    }
    fn write_u64(&mut self, number: u64) {
        self.write(&number.to_le_bytes());
    }
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }
    fn finish(&self) -> u64 {
        self.0
    }
}
