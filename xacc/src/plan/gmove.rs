//! Assignment of a section of one array to a section of another.

use super::merge::{Merge, Side};
use super::product::{Copies, Only, Parts, Strips};
use crate::dist::{Desc, DistError, NodeSet};
use crate::section::Region;

/// The plan of `to[section] = from[section]`, for any two descriptions. Dimensions of which one index
/// is selected are left out on both sides, the others must agree in order; a source of one element
/// goes to all of the destination. Of a replicated source each destination takes the replica nearest
/// in rank; of a replicated destination each replica gets its own.
#[derive(Clone, Copy, Debug)]
pub struct Gmove<'a, const N: usize, const M: usize> {
    to: &'a Desc<'a, N>,
    from: &'a Desc<'a, M>,
    to_region: Region<N>,
    from_region: Region<M>,
    /// The dimension of the source for each one of the destination.
    matched: [Option<usize>; N],
    each_replica: bool,
}

impl<'a, const N: usize, const M: usize> Gmove<'a, N, M> {
    /// Regions are those of [`Desc::region`], so they are within their arrays.
    ///
    /// # Errors
    /// The sections differ in shape.
    pub fn new(
        to: &'a Desc<'a, N>,
        to_region: Region<N>,
        from: &'a Desc<'a, M>,
        from_region: Region<M>,
    ) -> Result<Self, DistError> {
        let mut matched = [None; N];
        if from_region.dims.iter().any(|dim| dim.len != 1) {
            let mut source = (0..M).filter(|dim| from_region.dims[*dim].len != 1);
            let mut dim = 0;
            for (matched, to) in matched.iter_mut().zip(&to_region.dims).filter(|(_, to)| to.len != 1) {
                *matched = source.next();
                let from = matched.map_or(1, |dim| from_region.dims[dim].len);
                if from != to.len {
                    return Err(DistError::Shapes { dim, to: to.len, from });
                }
                dim += 1;
            }
            if let Some(left) = source.next() {
                return Err(DistError::Shapes { dim, to: 1, from: from_region.dims[left].len });
            }
        }
        Ok(Self { to, from, to_region, from_region, matched, each_replica: false })
    }

    /// Every replica of the source sends to every destination.
    #[must_use]
    pub fn from_each_replica(self) -> Self {
        Self { each_replica: true, ..self }
    }

    /// Differs where the sections of two nodes do.
    pub fn hash(&self) -> u64 {
        let triplets = self.to_region.dims.iter().chain(&self.from_region.dims);
        let numbers = triplets.flat_map(|dim| [dim.first, dim.len, dim.step]);
        numbers.fold(0xCBF2_9CE4_8422_2325, |hash, part| (hash ^ part as u64).wrapping_mul(0x100_0000_01B3))
    }

    /// What rank `from` sends to rank `to`, which may be the same.
    pub fn copies(&self, from: u32, to: u32) -> Copies<'a, N> {
        Copies::new(self.parts(from, to), Only::All)
    }

    /// The ranks that send to this one.
    pub fn sources(&self, to: u32) -> NodeSet {
        self.from.nodes().ranks().filter(|from| self.copies(*from, to).next().is_some()).collect()
    }

    /// The ranks that this one sends to.
    pub fn destinations(&self, from: u32) -> NodeSet {
        self.to.nodes().ranks().filter(|to| self.copies(from, *to).next().is_some()).collect()
    }

    fn parts(&self, from: u32, to: u32) -> Option<Parts<'a, N>> {
        let (source, target) = (self.from.grid.place(from)?, self.to.grid.place(to)?);
        let nearest = || self.from.replicas(from).ranks().min_by_key(|replica| replica.abs_diff(to));
        if !self.each_replica && nearest() != Some(from) {
            return None;
        }
        // Dimensions of one index.
        let mut first = 0;
        for (dim, axis) in self.from.axes.iter().enumerate() {
            if !self.matched.contains(&Some(dim)) {
                let (at, index) = (axis.at(&source), self.from_region.dims[dim].first);
                if !axis.owned(at).contains(index) {
                    return None;
                }
                first += axis.slot(at, index)? * self.from.pitches()[dim] as i64;
            }
        }
        let mut pitches = [(0, 0); N];
        let mut strips = [Strips::NONE; N];
        for (dim, axis) in self.to.axes.iter().enumerate() {
            let at = axis.at(&target);
            let to = Side::new(axis, at, axis.owned(at), self.to_region.dims[dim]);
            let (from, pitch) = match self.matched[dim] {
                Some(dim) => {
                    let axis = &self.from.axes[dim];
                    let at = axis.at(&source);
                    (Side::new(axis, at, axis.owned(at), self.from_region.dims[dim]), self.from.pitches()[dim])
                }
                None => (Side::positions(self.to_region.dims[dim].len), 0),
            };
            pitches[dim] = (self.to.pitches()[dim], pitch);
            strips[dim] = Strips::Common(Merge::new(to, from));
        }
        Some(Parts { strips, pitches, from: first })
    }
}
