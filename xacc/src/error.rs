//! What is wrong with a distribution, a section or an index.

use core::fmt;
use hamr_comm::Fault;

/// A description that fits no memory, or an index that is not where it is used. Dimensions count
/// from 0; ranges exclude their end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DistError {
    /// The extents of nodes multiply to another number than there are nodes.
    Nodes {
        /// Nodes of the executing set.
        expected: u32,
        /// Product of the extents.
        got: u64,
    },
    /// Another number of dimensions is distributed than the nodes have.
    Rank {
        /// Dimensions of the nodes.
        expected: usize,
        /// Dimensions that are distributed.
        got: usize,
    },
    /// A range whose end is before its begin, or which is beyond what indices can be.
    Extent {
        /// The dimension.
        dim: usize,
        /// The first index.
        lo: i64,
        /// The index behind the last one.
        hi: i64,
    },
    /// Blocks that do not hold the dimension.
    Blocks {
        /// The dimension.
        dim: usize,
        /// Elements that the blocks of all nodes hold.
        room: u64,
        /// Elements of the dimension.
        len: i64,
    },
    /// A general block distribution with another number of parts than nodes.
    Parts {
        /// The dimension.
        dim: usize,
        /// Nodes along it.
        expected: u32,
        /// Parts.
        got: usize,
    },
    /// A dimension of a template that does not exist, or that two dimensions are aligned with.
    Align {
        /// The dimension of the array.
        dim: usize,
        /// The dimension of the template.
        to: usize,
    },
    /// A shadow of a width on a cyclic dimension, which can have a full one only.
    Shadow {
        /// The dimension.
        dim: usize,
    },
    /// A halo that is wider than the shadow.
    Halo {
        /// The dimension.
        dim: usize,
        /// Width of the shadow.
        shadow: u32,
        /// Width of the halo.
        halo: u32,
    },
    /// An index outside of the array, the template or the nodes.
    Outside {
        /// The dimension.
        dim: usize,
        /// The index.
        index: i64,
        /// The first index that exists.
        lo: i64,
        /// The index behind the last one.
        hi: i64,
    },
    /// An element that is neither this node's nor in its shadow.
    NotHere {
        /// The dimension.
        dim: usize,
        /// The index.
        index: i64,
        /// The first index that is here.
        lo: i64,
        /// The index behind the last one.
        hi: i64,
    },
    /// An element of the shadow, while a reflect is not finished.
    Pending,
    /// An element of an array, while a gmove to it is not finished.
    Moving,
    /// An element of an array that other nodes may still write: an exchange of it has failed.
    Failed,
    /// An element of a coarray, while a transfer to it is not complete.
    Incomplete,
    /// A section with step 0, or with steps that turn too often.
    Step {
        /// The dimension.
        dim: usize,
    },
    /// Sections of different shapes.
    Shapes {
        /// The dimension, without those of one element.
        dim: usize,
        /// Elements of the destination.
        to: i64,
        /// Elements of the source.
        from: i64,
    },
    /// This node is none of the nodes.
    NoNode,
    /// A row that is not contiguous in the memory of the array.
    Scattered {
        /// The first index of the row.
        index: i64,
    },
    /// An array with more elements than addresses count.
    TooLarge,
}

impl fmt::Display for DistError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Nodes { expected, got } => write!(f, "expected extents of {expected} nodes, got {got}"),
            Self::Rank { expected, got } => write!(f, "nodes of {expected} dimensions, {got} are distributed"),
            Self::Extent { dim, lo, hi } => write!(f, "dimension {dim}: no range {lo}..{hi}"),
            Self::Blocks { dim, room, len } => write!(f, "dimension {dim}: blocks hold {room} of {len}"),
            Self::Parts { dim, expected, got } => write!(f, "dimension {dim}: {expected} nodes, {got} parts"),
            Self::Align { dim, to } => write!(f, "dimension {dim} cannot be aligned with {to}"),
            Self::Shadow { dim } => write!(f, "dimension {dim} is cyclic, its shadow must be full"),
            Self::Halo { dim, shadow, halo } => write!(f, "dimension {dim}: halo of {halo}, shadow of {shadow}"),
            Self::Outside { dim, index, lo, hi } => write!(f, "dimension {dim}: index {index} outside of {lo}..{hi}"),
            Self::NotHere { dim, index, lo, hi } => write!(f, "dimension {dim}: index {index}, here are {lo}..{hi}"),
            Self::Pending => f.write_str("the shadow is not there before reflect_finish"),
            Self::Moving => f.write_str("the array is not there before gmove_finish"),
            Self::Failed => f.write_str("the array is not there any more: an exchange of it has failed"),
            Self::Incomplete => f.write_str("the coarray is not there before wait_nonblock or a sync"),
            Self::Step { dim } => write!(f, "dimension {dim}: step 0, or steps that turn more than four times"),
            Self::Shapes { dim, to, from } => write!(f, "dimension {dim}: expected {to} elements, got {from}"),
            Self::NoNode => f.write_str("this node is none of the nodes"),
            Self::Scattered { index } => write!(f, "the row from index {index} is not contiguous in memory"),
            Self::TooLarge => f.write_str("more elements than addresses count"),
        }
    }
}

impl core::error::Error for DistError {}

impl From<DistError> for Fault {
    #[cold]
    #[inline(never)]
    fn from(e: DistError) -> Self {
        fault(format_args!("{e}"))
    }
}

/// For builders and indexing, whose misuse is the program's and not a state of the world.
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn refuse(e: DistError) -> ! {
    panic!("{e}")
}

/// [`refuse`], unless there is a value. A closure would be the place that the message names.
#[inline]
#[track_caller]
pub(crate) fn or_refuse<T>(got: Result<T, DistError>) -> T {
    match got {
        Ok(value) => value,
        Err(e) => refuse(e),
    }
}

/// A fault with this text.
#[cold]
#[inline(never)]
pub(crate) fn fault(text: fmt::Arguments<'_>) -> Fault {
    use fmt::Write;
    let mut line = heapless::String::<128>::new();
    // What is longer than a fault's text is cut there.
    let _ = line.write_fmt(text);
    Fault::msg(&line)
}
