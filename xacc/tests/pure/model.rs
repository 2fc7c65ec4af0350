//! Distributions by counting, and random ones.

use hamr_xacc::dist::{Align, Dist, NodeSet, Nodes, Shape, Width, on};
use hamr_xacc::section::{Region, Sel, triplet};
use proptest::prelude::*;

/// A distribution that owns its sizes.
#[derive(Clone, Debug)]
pub(crate) enum By {
    Whole,
    Block,
    BlockOf(i64),
    Cyclic,
    CyclicOf(i64),
    GBlock(Vec<i64>),
}

impl By {
    pub(crate) fn dist(&self) -> Dist<'_> {
        match self {
            Self::Whole => Dist::Whole,
            Self::Block => Dist::Block,
            Self::BlockOf(n) => Dist::BlockOf(*n),
            Self::Cyclic => Dist::Cyclic,
            Self::CyclicOf(n) => Dist::CyclicOf(*n),
            Self::GBlock(sizes) => Dist::GBlock(sizes),
        }
    }

    /// The owner of each of `len` indices on so many nodes.
    pub(crate) fn owners(&self, len: i64, nodes: u32) -> Vec<u32> {
        let mut sizes = match self {
            Self::Whole => vec![len],
            Self::Block => vec![(len + i64::from(nodes) - 1) / i64::from(nodes); nodes as usize],
            Self::BlockOf(n) => vec![*n; nodes as usize],
            Self::Cyclic => vec![1; len as usize + 1],
            Self::CyclicOf(n) => vec![*n; len as usize + 1],
            Self::GBlock(sizes) => sizes.clone(),
        };
        sizes.push(i64::MAX);
        let (mut part, mut left) = (0, sizes[0]);
        let mut owner = || {
            while left == 0 {
                part += 1;
                left = sizes[part];
            }
            left -= 1;
            part as u32 % nodes
        };
        (0..len).map(|_| owner()).collect()
    }
}

/// One dimension of a template and of the array that is aligned with it.
#[derive(Clone, Debug)]
pub(crate) struct Dim {
    pub(crate) lo: i64,
    pub(crate) len: i64,
    pub(crate) by: By,
    pub(crate) nodes: u32,
    /// The array's offset, and how much shorter it is at both ends.
    pub(crate) offset: i64,
    pub(crate) cut: (i64, i64),
    /// Of the shadow; `None` is full.
    pub(crate) shadow: Option<(u32, u32)>,
    /// The coordinate of the owner of each index of the template.
    pub(crate) owners: Vec<u32>,
}

impl Dim {
    pub(crate) fn range(&self) -> std::ops::Range<i64> {
        let lo = self.lo - self.offset + self.cut.0;
        lo..(self.lo + self.len - self.offset - self.cut.1).max(lo)
    }

    /// The coordinate of the owner of an index of the array.
    pub(crate) fn owner(&self, index: i64) -> Option<u32> {
        self.range().contains(&index).then(|| self.owners[(index + self.offset - self.lo) as usize])
    }

    pub(crate) fn is_cyclic(&self) -> bool {
        self.nodes > 1 && matches!(self.by, By::Cyclic | By::CyclicOf(_))
    }

    pub(crate) fn align(&self, dim: usize) -> Align {
        on(dim).offset(self.offset).range(self.range())
    }

    pub(crate) fn width(&self) -> Width {
        self.shadow.map_or(Width::Full, |(below, above)| Width::Of(below, above))
    }
}

/// A random dimension on so many nodes.
pub(crate) fn dim(nodes: u32) -> impl Strategy<Value = Dim> {
    let sizes = proptest::collection::vec(0i64..6, nodes as usize);
    let by = (0..6u8, 1i64..5, sizes, 0i64..14);
    (by, -5i64..6, -3i64..4, (0i64..4, 0i64..4), (0u32..3, 0u32..3), 0..8u8, 0..3u8).prop_map(
        move |((kind, n, sizes, len), lo, offset, cut, shadow, full, plain)| {
            let (by, len) = match kind {
                0 => (By::Block, len),
                1 => (By::BlockOf((len as u64).div_ceil(nodes.into()) as i64 + n - 1), len),
                2 => (By::Cyclic, len),
                3 => (By::CyclicOf(n), len),
                4 => (By::GBlock(sizes.clone()), sizes.iter().sum::<i64>()),
                _ if nodes == 1 => (By::Whole, len),
                _ => (By::Block, len),
            };
            let cyclic = nodes > 1 && matches!(by, By::Cyclic | By::CyclicOf(_));
            let shadow = match full {
                0 => None,
                _ if cyclic => Some((0, 0)),
                _ => Some(shadow),
            };
            // Most arrays are their template.
            let (offset, cut) = if plain > 0 { (0, (0, 0)) } else { (offset, (cut.0.min(len), cut.1.min(len))) };
            let owners = by.owners(len, nodes);
            Dim { lo, len, by, nodes, offset, cut, shadow, owners }
        },
    )
}

/// The shape of an array with these dimensions, as a rank sees it. Whole dimensions are on no nodes.
pub(crate) fn shape<'g, const N: usize>(dims: &'g [Dim; N], me: u32) -> Shape<'g, N> {
    let spread: Vec<u32> = dims.iter().filter(|dim| !matches!(dim.by, By::Whole)).map(|dim| dim.nodes).collect();
    let size: u32 = spread.iter().product();
    let team = NodeSet::of_world(size);
    let by = std::array::from_fn(|dim| dims[dim].by.dist());
    let extents: [_; N] = std::array::from_fn(|dim| dims[dim].lo..dims[dim].lo + dims[dim].len);
    let shape = match spread[..] {
        [] => Nodes::new(team, me, [0u32; 0]).expect("one").template(extents).distribute(by),
        [a] => Nodes::new(team, me, [a]).expect("fits").template(extents).distribute(by),
        [a, b] => Nodes::new(team, me, [a, b]).expect("fits").template(extents).distribute(by),
        [a, b, c] => Nodes::new(team, me, [a, b, c]).expect("fits").template(extents).distribute(by),
        _ => unreachable!("three at most"),
    };
    let aligned = shape.expect("valid").align::<N>(std::array::from_fn(|dim| dims[dim].align(dim)));
    aligned.shadow(std::array::from_fn::<_, N, _>(|dim| dims[dim].width()))
}

/// Ranks of the nodes of [`shape`].
pub(crate) fn size<const N: usize>(dims: &[Dim; N]) -> u32 {
    dims.iter().map(|dim| dim.nodes).product()
}

/// The coordinate of a rank along a dimension.
pub(crate) fn coordinate<const N: usize>(dims: &[Dim; N], rank: u32, dim: usize) -> u32 {
    rank / dims[dim + 1..].iter().map(|dim| dim.nodes).product::<u32>() % dims[dim].nodes
}

/// The rank that owns an element: row-major over the nodes of all dimensions.
pub(crate) fn owner<const N: usize>(dims: &[Dim; N], index: [i64; N]) -> Option<u32> {
    dims.iter().zip(index).try_fold(0, |rank, (dim, index)| Some(rank * dim.nodes + dim.owner(index)?))
}

/// All indices of some ranges, row-major.
pub(crate) fn indices<const N: usize>(ranges: [std::ops::Range<i64>; N]) -> Vec<[i64; N]> {
    let mut all = vec![[0; N]];
    for (dim, range) in ranges.into_iter().enumerate() {
        let with = |index: [i64; N]| {
            range.clone().map(move |at| {
                let mut index = index;
                index[dim] = at;
                index
            })
        };
        all = all.into_iter().flat_map(with).collect();
    }
    all
}

/// The indices of a section, row-major.
pub(crate) fn elements<const N: usize>(region: &Region<N>) -> Vec<[i64; N]> {
    let at = |position: [i64; N]| std::array::from_fn(|dim| region.dims[dim].at(position[dim]));
    indices(region.dims.map(|dim| 0..dim.len)).into_iter().map(at).collect()
}

/// Sections of the same length of two ranges: what four numbers make of them.
pub(crate) fn pair(a: std::ops::Range<i64>, b: std::ops::Range<i64>, n: (u16, u16, u16, i8, i8)) -> (Sel, Sel) {
    let (cut, x, y, sa, sb) = n;
    let most = |range: &std::ops::Range<i64>, step: i8| match range.end - range.start {
        0 => 0,
        len => (len - 1) / i64::from(step.unsigned_abs()) + 1,
    };
    let len = most(&a, sa).min(most(&b, sb));
    let len = if cut % 4 == 0 { len } else { i64::from(cut / 4) % (len + 1) };
    let section = |range: &std::ops::Range<i64>, at: u16, step: i8| {
        let step = i64::from(step);
        if len == 0 {
            return triplet(range.start, 0, step);
        }
        let extent = (len - 1) * step.abs() + 1;
        let lo = range.start + i64::from(at) % (range.end - range.start - extent + 1);
        triplet(if step > 0 { lo } else { lo + extent - 1 }, len, step)
    };
    (section(&a, x, sa), section(&b, y, sb))
}

pub(crate) type Numbers = (u16, u16, u16, i8, i8);

pub(crate) fn numbers() -> impl Strategy<Value = Numbers> {
    let step = || prop_oneof![Just(1i8), Just(1), Just(-1), Just(2), Just(-2), Just(3), Just(-5)];
    (any::<u16>(), any::<u16>(), any::<u16>(), step(), step())
}

/// An index of a range, or everything where it is empty.
pub(crate) fn one(range: std::ops::Range<i64>, at: u16) -> Sel {
    if range.is_empty() { Sel::All } else { Sel::Index(range.start + i64::from(at) % (range.end - range.start)) }
}

/// Blocks on so many nodes, without a shadow; on one node not distributed.
pub(crate) fn plain(len: i64, nodes: u32) -> Dim {
    let by = if nodes == 1 { By::Whole } else { By::Block };
    let owners = by.owners(len, nodes);
    Dim { lo: 0, len, by, nodes, offset: 0, cut: (0, 0), shadow: Some((0, 0)), owners }
}

/// Cases of a property of one dimension: of all properties together there are more than 100,000.
const CASES: u32 = 14_000;

/// So many cases divided by what one costs.
pub(crate) fn config(cost: u32) -> ProptestConfig {
    ProptestConfig { cases: CASES / cost, failure_persistence: None, ..ProptestConfig::default() }
}
