//! One dimension of a template on the nodes along it.

use super::pieces::Pieces;
use crate::error::DistError;

/// How a dimension is distributed. A node of which a dimension has no element owns nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dist<'g> {
    /// Not distributed: all of it is on every node.
    Whole,
    /// A block for each node, of the length rounded up.
    Block,
    /// A block of this length for each node; the last nodes may own less, or nothing.
    BlockOf(i64),
    /// Single elements in turn.
    Cyclic,
    /// Blocks of this length in turn.
    CyclicOf(i64),
    /// A block for each node, with these lengths.
    GBlock(&'g [i64]),
}

/// A distributed range of indices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Map<'g> {
    pub(crate) lo: i64,
    pub(crate) hi: i64,
    pub(crate) nodes: u32,
    kind: Kind<'g>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind<'g> {
    Block(i64),
    Cyclic(i64),
    Blocks(&'g [u64]),
}

impl<'g> Map<'g> {
    pub(crate) const NONE: Self = Self { lo: 0, hi: 0, nodes: 1, kind: Kind::Block(1) };

    /// All indices on every node.
    pub(crate) fn whole(lo: i64, hi: i64) -> Self {
        Self { lo, hi, nodes: 1, kind: Kind::Block((hi - lo).max(1)) }
    }

    /// Dimension `dim` with the range `lo..hi` on so many nodes.
    pub(crate) fn new(dim: usize, lo: i64, hi: i64, nodes: u32, by: Dist<'g>) -> Result<Self, DistError> {
        let (len, n) = (hi - lo, i64::from(nodes));
        let kind = match by {
            // A longer block than the dimension is the same as one of its length.
            Dist::BlockOf(block) => {
                let room = block.max(0).saturating_mul(n);
                if room < len {
                    return Err(DistError::Blocks { dim, room: room as u64, len });
                }
                Kind::Block(block.min(len).max(1))
            }
            Dist::GBlock(sizes) => {
                if sizes.len() != nodes as usize {
                    return Err(DistError::Parts { dim, expected: nodes, got: sizes.len() });
                }
                // A negative length is too long for any dimension.
                let sizes: &[u64] = bytemuck::cast_slice(sizes);
                let room = sizes.iter().fold(0u64, |sum, size| sum.saturating_add(*size));
                if room != len as u64 {
                    return Err(DistError::Blocks { dim, room, len });
                }
                Kind::Blocks(sizes)
            }
            Dist::CyclicOf(..1) => return Err(DistError::Blocks { dim, room: 0, len }),
            Dist::Whole | Dist::Block | Dist::Cyclic | Dist::CyclicOf(_) if n <= 1 => Kind::Block(len.max(1)),
            Dist::Whole | Dist::Block => Kind::Block(((len + n - 1) / n).max(1)),
            Dist::Cyclic => Kind::Cyclic(1),
            Dist::CyclicOf(block) => Kind::Cyclic(block.min(len).max(1)),
        };
        Ok(Self { lo, hi, nodes, kind })
    }

    /// The same with all indices less by `by`.
    pub(crate) fn moved(self, by: i64) -> Self {
        Self { lo: self.lo - by, hi: self.hi - by, ..self }
    }

    pub(crate) fn is_cyclic(&self) -> bool {
        matches!(self.kind, Kind::Cyclic(_))
    }

    /// The sizes of a general block distribution; otherwise none.
    pub(crate) fn sizes(&self) -> &'g [u64] {
        match self.kind {
            Kind::Blocks(sizes) => sizes,
            _ => &[],
        }
    }

    /// The same with sizes of another lifetime.
    pub(crate) fn with_sizes<'k>(&self, sizes: &'k [u64]) -> Map<'k> {
        let kind = match self.kind {
            Kind::Blocks(_) => Kind::Blocks(sizes),
            Kind::Block(len) => Kind::Block(len),
            Kind::Cyclic(len) => Kind::Cyclic(len),
        };
        Map { lo: self.lo, hi: self.hi, nodes: self.nodes, kind }
    }

    /// The coordinate of the node that owns an index.
    pub(crate) fn owner(&self, index: i64) -> Option<u32> {
        if !(self.lo..self.hi).contains(&index) {
            return None;
        }
        let at = index - self.lo;
        Some(match self.kind {
            Kind::Block(len) => (at / len) as u32,
            Kind::Cyclic(len) => (at / len % i64::from(self.nodes)) as u32,
            Kind::Blocks(sizes) => {
                let mut end = 0;
                sizes
                    .iter()
                    .take_while(|size| {
                        end += **size as i64;
                        end <= at
                    })
                    .count() as u32
            }
        })
    }

    /// The indices that the node with this coordinate owns.
    pub(crate) fn pieces(&self, at: u32) -> Pieces {
        let at64 = i64::from(at);
        match self.kind {
            Kind::Block(len) => {
                let lo = self.lo.saturating_add(at64.saturating_mul(len)).min(self.hi);
                Pieces::one(lo, lo.saturating_add(len).min(self.hi))
            }
            Kind::Cyclic(len) => {
                // The last nodes may have none, however long their blocks would be.
                let first = self.lo.saturating_add(at64.saturating_mul(len));
                Pieces::periodic(first, len, self.period(len), self.lo..self.hi)
            }
            Kind::Blocks(sizes) => {
                let before: u64 = sizes.iter().take(at as usize).sum();
                let len = sizes.get(at as usize).copied().unwrap_or(0);
                Pieces::one(self.lo + before as i64, self.lo + (before + len) as i64)
            }
        }
    }

    /// From a node's block of this length to its next one; one that is too far for a number is behind all indices.
    fn period(&self, len: i64) -> i64 {
        len.saturating_mul(i64::from(self.nodes))
    }

    /// How many of its owner's indices are before this one.
    pub(crate) fn local(&self, index: i64) -> i64 {
        let at = index - self.lo;
        match self.kind {
            Kind::Block(len) => at % len,
            Kind::Cyclic(len) => at / self.period(len) * len + at % len,
            Kind::Blocks(_) => {
                self.owner(index).and_then(|owner| self.pieces(owner).bounds()).map_or(0, |own| index - own.start)
            }
        }
    }
}
