//! What [`each!`](crate::each!) expands to: rows of arrays, and local reductions.
//!
//! A loop is a sequence of runs, iterations that differ in the last index only. For a run, an access
//! `a[[i + 1, j, k - 1]]` of the body is a row, a slice of the array's block. The bounds of all
//! accesses are checked once, before the first run. Eight iterations are computed together, from
//! arrays of eight elements of each row, or thirty-two where elements have one byte or two; the body of each runs
//! once, in the order of the indices.

mod field;
mod fold;
mod rows;

pub use field::Field;
pub use fold::{
    All, And, Any, ExactSum, FirstMax, FirstMin, LastMax, LastMin, Max, Min, Of, Or, Prod, Reduction, Sum, Value, Xor,
};
pub use rows::{
    Axis, Cycle, Indices, Place, Rows, chunk, chunk_mut, half, half_mut, is_narrow, row, row_mut, wide, wide_mut,
};

/// Iterations that are computed together, and added in lanes of their own. 16 and 32 are slower in kernels with many
/// arrays (Himeno's), 4 in those with few.
pub const LANES: usize = 8;
/// Iterations that are computed together over elements of one byte or two: eight of these fill no vector.
pub const WIDE: usize = 4 * LANES;
