//! Programs over arrays that several devices have together, as in XcalableMP and XcalableACC.
//!
//! A program is one function, which runs on every device of a world at once. Its first parameter, [`Spmd`], is what one of
//! these nodes sees: the others, the collectives, and arrays. Of an [`Array`] each node has a part, as its
//! [`Shape`](dist::Shape) says, and loops ([`each!`]) run over that part; a [`Coarray`] every node has for itself, and all
//! read and write. Nodes that call different collectives, or make different arrays, are named on all of them.
//!
//! ```
//! use hamr_xacc::prelude::*;
//!
//! /// Heat in a plate of `n * n` points after so many steps, with 1 along one edge.
//! fn heat(w: &mut Spmd, n: i64, steps: u32) -> Result<f64, Fault> {
//!     let plate = w.nodes([w.size()])?.template([n, n]).distribute([Block, Whole])?.shadow([1, 0]);
//!     let (mut old, mut new) = (plate.zeros::<f64>(w)?, plate.zeros::<f64>(w)?);
//!     for field in [&mut old, &mut new] {
//!         each!([i, j] in plate.on([0..1, 0..n]) => field[[i, j]] = 1.0);
//!     }
//!     for _ in 0..steps {
//!         old.reflect(w)?; // the neighbours' rows
//!         each!([i, j] in plate.on([1..n - 1, 1..n - 1]) =>
//!             new[[i, j]] = 0.25 * (old[[i - 1, j]] + old[[i + 1, j]] + old[[i, j - 1]] + old[[i, j + 1]]));
//!         core::mem::swap(&mut old, &mut new);
//!     }
//!     let here = each!([i, j] in plate.all() => sum { old[[i, j]] });
//!     w.reduce(Sum, here)
//! }
//!
//! // On threads of this process, as tests run programs. On other devices a program is a handler of their image,
//! // `#[offload] pub fn heat(…)`, and `world.run(heat::with(20, 10))` runs it.
//! let world = hamr::Runtime::new()?.world_of_threads(2)?;
//! world.run_program(|task| program(task, |w| Ok(u8::from(heat(w, 20, 10)? < 20.0))))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Directives of XcalableMP and XcalableACC
//!
//! Indices, nodes and images count from 0; ranges exclude their end.
//!
//! | XcalableMP, XcalableACC | here |
//! |---|---|
//! | `nodes`, `=*`, `= ref` | `w.nodes(shape)`, `nodes.sub(sel)`, `nodes.set(sel)` |
//! | `template`, `template_fix`, `xmp_malloc` | `nodes.template(extents)`, once sizes are known |
//! | `distribute` with `block`, `block(n)`, `cyclic`, `cyclic(n)`, `gblock`, `*` | `distribute([…])` with `Block`, `BlockOf`, `Cyclic`, `CyclicOf`, `GBlock`, `Whole` |
//! | `align`, `*` on either side | `align([on(0).offset(1), whole(n)])`; dimensions that are not named replicate |
//! | `shadow` | `shadow([…])`, `Full` |
//! | `loop … on`, `reduction` | `each!([i, j] in t.on([…]) => KIND { … })`, then `w.reduce` |
//! | `expand`, `expand(/unbound/)`, `margin`, `peel_and_wait` | `expand`, `expand_unbound`, `margin`; `reflect_start`, `inner`, `reflect_finish`, `margin` |
//! | `reflect` with `width`, `periodic`, `orthogonal`, `async`; `reflect_init`, `reflect_do` | `reflect`, `reflect_with(Halo…)`, `reflect_start`, `reflect_finish`; plans need no start |
//! | `reduce_shadow` | `reduce_shadow`, `reduce_shadow_with` |
//! | `gmove`, `in`, `out`, `async` | `gmove`, `gmove_in`, `gmove_out` of a `SharedArray`, `gmove_start` |
//! | `reduction … on`, `/loc/` variables | `w.reduce`, `reduce_on`, `reduce_slice`, `array.reduce`; `FirstMax` … |
//! | `bcast … from … on` | `w.bcast`, `bcast_on` |
//! | `barrier … on` | `w.barrier`, `barrier_on` |
//! | `task on`, `nocomm`; `tasks` | `w.task`, `w.task_nocomm`; several tasks, in turn |
//! | `array on` | `a.section_mut(s).fill(v)`, `map(f)` |
//! | `wait_async` | the `…_finish` of the array |
//! | coarrays, `coarray`, `image` | `Coarray`; `nodes.image(at)` is a node's number |
//! | `v[s]:[i] = …`, `… = v[s]:[i]` | `put`, `get`, `get_into`, `copy`, `at` |
//! | `sync_all`, `sync_memory`, `sync_image`, `sync_images`, `sync_images_all` | the same names |
//! | `XMP_STAT_STOPPED_IMAGE` | the fault of the wait names the lost rank |
//! | `post`, `wait` | `w.post`, `w.wait` |
//! | `lock`, `unlock`, `critical`; `STAT_LOCKED`, `STAT_LOCKED_OTHER_IMAGE` | `locked`, `critical`; a fault, `None` of `try_locked`; `unlock` without lock cannot be written |
//! | `atomic_define`, `atomic_ref` | the same names, `atomic` |
//! | `co_broadcast`, `co_sum`, `co_max`, `co_min` | `w.bcast`, `w.reduce` |
//! | `nonblock`, `wait_nonblock` | the same names; the wait takes no time |
//! | `acc` clauses, `declare`, `host_data` | arrays are on devices; `acc(var)` with an array of the host: `load`, `store` |
//! | `devices`, `on_device`, `layout`, `barrier_device` | each device is a node |
//! | inquiry functions | `me`, `size`, `nodes.shape`, `here`, `place`; of `desc()`: `range`, `owned`, `owner`, `owners`, `extents`, `offset_at` |
//! | `scatter`, `gather`, `pack`, `sort_up`, `matmul` and the other intrinsics | none; `array.gather` copies to every node |
//!
//! The tests restate what those of the Omni compiler assert, by their names.
//!
//! # Contents
//!
//! [`prelude`] has what programs use. The crate has no features; it turns on `tasks` and `world` of `hamr-comm`, and an
//! image needs those of `hamr-device-fw`: programs are tasks, and wait for other ranks of their world.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod array;
mod coarray;
pub mod collective;
pub mod dist;
pub mod each;
mod error;
mod exact;
mod exchange;
mod fabric;
mod fingerprint;
mod host;
mod int;
mod kept;
pub mod math;
pub mod plan;
mod posts;
pub mod progress;
pub mod section;
mod spmd;
mod what;

#[doc(hidden)]
pub use array::Sent;
pub use array::{Array, RowIndex, Section, SectionMut, SharedArray, Source, View, ViewMut};
#[doc(hidden)]
pub use coarray::kind;
pub use coarray::{Coarray, Local, Locks, Remote};
pub use exact::Exact;
#[doc(hidden)]
pub use hamr_comm::__entry;
pub use hamr_xacc_macros::{each, s};
pub use host::HostArray;
pub use int::Int;
pub use kept::Kept;
pub use spmd::{Spmd, program};

/// What programs use.
pub mod prelude {
    pub use crate::collective::{All, And, Any, FirstMax, FirstMin, LastMax, LastMin, Max, Min, Or, Prod, Sum, Xor};
    pub use crate::dist::Dist::{Block, BlockOf, Cyclic, CyclicOf, GBlock, Whole};
    pub use crate::dist::Width::Full;
    pub use crate::dist::{NodeSet, Nodes, Shape, Share, on, whole, width};
    pub use crate::math::{powf, sqrt};
    pub use crate::plan::Halo;
    pub use crate::progress::Progress;
    pub use crate::section::Sel::{self, Own};
    pub use crate::section::{Step, triplet};
    pub use crate::{Array, Coarray, Exact, HostArray, Kept, Locks, SharedArray, Spmd, each, program, s};
    pub use hamr_comm::world::AtomicOp;
    pub use hamr_comm::{Fault, Migratable, offload};
}
