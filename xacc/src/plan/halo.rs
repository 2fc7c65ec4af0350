//! Shadows filled with the owners' elements.

use super::product::{Copies, Only, Parts, Strips};
use super::zones::Zones;
use crate::dist::{Desc, DistError, MAX_DIMS, NodeSet, Width};

/// What of a shadow is exchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Halo<const N: usize> {
    widths: Option<[Width; N]>,
    periodic: [bool; N],
    orthogonal: bool,
}

impl<const N: usize> Halo<N> {
    /// The whole shadow.
    pub const ALL: Self = Self { widths: None, periodic: [false; N], orthogonal: false };

    /// So many elements along each dimension, and the corners between them.
    #[must_use]
    pub fn new(widths: [impl Into<Width>; N]) -> Self {
        Self { widths: Some(widths.map(Into::into)), ..Self::ALL }
    }

    /// Dimensions whose ends are neighbours of each other.
    #[must_use]
    pub fn periodic(self, periodic: [bool; N]) -> Self {
        Self { periodic, ..self }
    }

    /// Differs where the halos of two nodes do.
    pub(crate) fn hash(&self) -> u64 {
        let sides = |width: Width| match width {
            Width::Full => [u64::MAX; 2],
            Width::Of(below, above) => [below.into(), above.into()],
        };
        let widths = self.widths.into_iter().flatten().flat_map(sides);
        let flags = self.periodic.into_iter().chain([self.orthogonal, self.widths.is_some()]).map(u64::from);
        widths.chain(flags).fold(0xCBF2_9CE4_8422_2325, |hash, part| (hash ^ part).wrapping_mul(0x100_0000_01B3))
    }

    /// Without the corners: of each element of the halo one index only is not the node's own.
    #[must_use]
    pub fn orthogonal(self) -> Self {
        Self { orthogonal: true, ..self }
    }
}

/// The plan of filling shadows.
#[derive(Clone, Copy, Debug)]
pub struct Reflect<'a, const N: usize> {
    desc: &'a Desc<'a, N>,
    widths: [Width; N],
    periodic: [bool; N],
    orthogonal: bool,
}

impl<'a, const N: usize> Reflect<'a, N> {
    /// The plan of a halo of an array.
    ///
    /// # Errors
    /// The halo is wider than the shadow.
    pub fn new(desc: &'a Desc<'a, N>, halo: Halo<N>) -> Result<Self, DistError> {
        let widths = halo.widths.unwrap_or(desc.widths());
        for (dim, (halo, shadow)) in widths.into_iter().zip(desc.widths()).enumerate() {
            let sides = match (halo, shadow) {
                (_, Width::Full) => continue,
                (Width::Full, Width::Of(below, _)) => [(below, u32::MAX); 2],
                (Width::Of(below, above), Width::Of(most_below, most_above)) => {
                    [(most_below, below), (most_above, above)]
                }
            };
            if let Some((shadow, halo)) = sides.into_iter().find(|(shadow, halo)| halo > shadow) {
                return Err(DistError::Halo { dim, shadow, halo });
            }
        }
        Ok(Self { desc, widths, periodic: halo.periodic, orthogonal: halo.orthogonal })
    }

    /// What rank `from` sends to rank `to`, which may be the same: elements that `from` owns, into
    /// the shadow of `to`.
    pub fn copies(&self, from: u32, to: u32) -> Copies<'a, N> {
        let only = if self.orthogonal { Only::Orthogonal } else { Only::Halo };
        Copies::new(self.parts(from, to), only)
    }

    /// The ranks that send to this one.
    pub fn sources(&self, to: u32) -> NodeSet {
        self.desc.nodes().ranks().filter(|from| self.copies(*from, to).next().is_some()).collect()
    }

    /// The ranks that this one sends to.
    pub fn destinations(&self, from: u32) -> NodeSet {
        self.desc.nodes().ranks().filter(|to| self.copies(from, *to).next().is_some()).collect()
    }

    fn parts(&self, from: u32, to: u32) -> Option<Parts<'a, N>> {
        let (source, target) = (self.desc.grid.place(from)?, self.desc.grid.place(to)?);
        // Replicas exchange among those of their own replication.
        let along = self.desc.axes.iter().filter_map(|axis| axis.on);
        let mut other = [true; MAX_DIMS];
        along.for_each(|dim| other[dim] = false);
        if (0..other.len()).any(|dim| other[dim] && source[dim] != target[dim]) {
            return None;
        }
        let mut strips = [Strips::NONE; N];
        for (dim, axis) in self.desc.axes.iter().enumerate() {
            let (source, target) = (axis.at(&source), axis.at(&target));
            strips[dim] = Strips::Zones(Zones::new(axis, source, target, self.widths[dim], self.periodic[dim]));
        }
        Some(Parts { strips, pitches: self.desc.pitches().map(|pitch| (pitch, pitch)), from: 0 })
    }
}
