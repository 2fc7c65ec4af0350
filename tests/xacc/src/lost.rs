//! Programs that wait for a node that a test ends.

use hamr_comm::Task;
use hamr_tests_kernels::lost::{begins, fails};
use hamr_xacc::prelude::*;
use hamr_xacc::{Exact, program};

/// The node that is lost, and an array of the host's program that this node has.
#[derive(Clone, Copy)]
pub struct Lost {
    node: i64,
    host: HostArray<f64, 1>,
}

/// A way to wait for it, on three nodes.
type Way = fn(&mut Spmd, Lost) -> Result<(), Fault>;

/// How [`program_waits_for()`] waits.
pub const PROGRAM_WAYS: [(&str, Way); 37] = [
    // Collectives of values.
    ("barrier", |w, lost| lost.stays(w)?.barrier()),
    ("barrier_on", |w, lost| {
        let pair = NodeSet::one(w.me()).with(NodeSet::one(lost.node));
        lost.stays(w)?.barrier_on(pair)
    }),
    ("the barrier of a task", |w, lost| {
        let pair = NodeSet::one(w.me()).with(NodeSet::one(lost.node));
        lost.stays(w)?.task(pair, |w| w.barrier())?.unwrap_or(Ok(()))
    }),
    ("reduce", |w, lost| lost.stays(w)?.reduce(Sum, 1.0f64).map(drop)),
    ("reduce_slice", |w, lost| lost.stays(w)?.reduce_slice(Sum, &mut [1u64; 100])),
    ("exact_sum", |w, lost| lost.stays(w)?.exact_sum(Exact::default()).map(drop)),
    ("bcast", |w, lost| lost.stays(w)?.bcast(lost.node, &mut 1u8)),
    // What makes, keeps and ends arrays.
    ("an allocation", |w, lost| line(lost.stays(w)?)?.zeros::<f64>(w).map(drop)),
    ("keep", |w, lost| line(w)?.zeros::<f64>(w)?.keep(lost.stays(w)?).map(drop)),
    ("keep of a coarray", |w, lost| w.own([12]).coarray::<f64>(w)?.keep(lost.stays(w)?).map(drop)),
    ("open", |w, lost| {
        let line = line(w)?;
        let kept = line.zeros::<f64>(w)?.keep(w)?;
        kept.open(&line, lost.stays(w)?).map(drop)
    }),
    ("open_coarray", |w, lost| {
        let own = w.own([12]);
        let kept = own.coarray::<f64>(w)?.keep(w)?;
        kept.open_coarray(&own, lost.stays(w)?).map(drop)
    }),
    ("the end of a scope", |w, lost| lost.stays(w)?.scope(|_| Ok(()))),
    (END, |w, lost| lost.stays(w).map(drop)),
    // Exchanges of arrays.
    ("reflect", |w, lost| line(w)?.zeros::<f64>(w)?.reflect_with(ring(), lost.stays(w)?)),
    ("reflect_start", |w, lost| line(w)?.zeros::<f64>(w)?.reflect_start(ring(), lost.stays(w)?)),
    ("reduce_shadow", |w, lost| line(w)?.zeros::<f64>(w)?.reduce_shadow_with(ring(), lost.stays(w)?)),
    ("gmove", |w, lost| {
        let from = line(w)?.zeros::<f64>(w)?;
        cyclic(w)?.zeros(w)?.gmove(&from, lost.stays(w)?)
    }),
    ("gmove_start", |w, lost| {
        let from = line(w)?.zeros::<f64>(w)?;
        cyclic(w)?.zeros(w)?.gmove_start(&from, lost.stays(w)?)
    }),
    ("gmove_sum", |w, lost| {
        let from = replicated(w)?.zeros::<f64>(w)?;
        line(w)?.zeros(w)?.gmove_sum(&from, lost.stays(w)?)
    }),
    ("reduce of an array", |w, lost| replicated(w)?.zeros::<f64>(w)?.reduce(Sum, lost.stays(w)?)),
    ("gather", |w, lost| line(w)?.zeros::<f64>(w)?.gather(&mut [0.0; 12], lost.stays(w)?)),
    ("load", |w, lost| line(w)?.zeros::<f64>(w)?.load(&lost.host, lost.stays(w)?)),
    ("store", |w, lost| line(w)?.zeros::<f64>(w)?.store(&lost.host, lost.stays(w)?)),
    // The node that is lost has begun these, but waits for the next one before it puts its elements.
    ("the elements of reflect", |w, lost| {
        let mut array = line(w)?.zeros::<f64>(w)?;
        array.reflect(lost.is_between(w)?)
    }),
    ("the elements of reflect_finish", |w, lost| {
        let mut array = line(w)?.zeros::<f64>(w)?;
        array.reflect_start(Halo::new([1]), lost.is_between(w)?)?;
        array.reflect_finish(w)
    }),
    ("the elements of gmove", |w, lost| {
        let (from, mut to) = (line(w)?.zeros::<f64>(w)?, w.own([4]).zeros(w)?);
        to.gmove(from.section(s![4..8]), lost.is_between(w)?)
    }),
    ("the elements of gmove_finish", |w, lost| {
        let (from, mut to) = (line(w)?.zeros::<f64>(w)?, w.own([4]).zeros(w)?);
        to.gmove_start(from.section(s![4..8]), lost.is_between(w)?)?;
        to.gmove_finish(w)
    }),
    // Images.
    ("sync_all", |w, lost| lost.stays(w)?.sync_all()),
    ("sync_image", |w, lost| lost.stays(w)?.sync_image(lost.node)),
    ("sync_images", |w, lost| lost.stays(w)?.sync_images([lost.node])),
    ("sync_images_all", |w, lost| lost.stays(w)?.sync_images_all()),
    ("wait", |w, lost| lost.stays(w)?.wait(lost.node, 3).map(drop)),
    (ANY, |w, lost| lost.stays(w)?.wait(None, None).map(drop)),
    // The node that is lost has the lock.
    ("locked", |w, lost| {
        let locks = w.locks(1)?;
        if w.me() == lost.node {
            return locks.locked(0, 0, w, |w| w.barrier().and_then(|()| lost.stays(w).map(drop)));
        }
        w.barrier()?;
        locks.locked(0, 0, w, |_| Ok(()))
    }),
    ("critical", |w, lost| {
        let locks = w.locks(1)?;
        if w.me() == lost.node {
            return locks.critical(w, |w| w.barrier().and_then(|()| lost.stays(w).map(drop)));
        }
        w.barrier()?;
        locks.critical(w, |_| Ok(()))
    }),
    (LOOP, |w, lost| {
        let mut image = w.own([1]).coarray::<u32>(w)?;
        lost.stays(w)?;
        while image.atomic_ref(lost.node, [0], w)? == 0 {}
        Ok(())
    }),
];

/// The meeting at a program's end: the one way that returns when nothing is lost.
pub const END: &str = "the end of the program";
/// A wait that does not say for which node.
pub const ANY: &str = "wait for any";
/// No wait, but a loop over an element of the lost node, which the launcher ends.
pub const LOOP: &str = "a loop of atomic_ref";

/// Where in the segment it leaves its notes: behind the slots of three nodes, before what a program claims.
pub const PROGRAM_NOTE: u64 = 0x800;

/// All nodes but `node`, which has the host's array, wait for it in one of the ways.
#[offload(unordered)]
pub fn program_waits_for(task: &mut Task, how: u32, node: u32, host: HostArray<f64, 1>) -> Result<u32, Fault> {
    begins(task, PROGRAM_NOTE)?;
    let (_, way) = PROGRAM_WAYS.get(how as usize).ok_or_else(|| Fault::msg("there is no such way"))?;
    let waited = program(task, |w| way(w, Lost { node: node.into(), host }));
    if let Err(fault) = &waited {
        fails(task, PROGRAM_NOTE, fault)?;
    }
    waited.map(|()| 0)
}

/// All nodes but one meet, which waits for something else.
#[offload]
pub fn meets_without(w: &mut Spmd, node: i64) -> Result<(), Fault> {
    if w.me() == node { never(w) } else { w.barrier() }
}

impl Lost {
    /// The node goes no further; the others do.
    fn stays<'w, 'c>(&self, w: &'w mut Spmd<'c>) -> Result<&'w mut Spmd<'c>, Fault> {
        if w.me() == self.node { never(w) } else { Ok(w) }
    }

    /// The node behind it goes no further. Where the first and the last of three nodes have nothing for each
    /// other, that leaves the one between waiting for the last, and the first for the one between.
    fn is_between<'w, 'c>(&self, w: &'w mut Spmd<'c>) -> Result<&'w mut Spmd<'c>, Fault> {
        if w.me() == self.node + 1 { never(w) } else { Ok(w) }
    }
}

/// A wait that no node ends.
fn never<T>(w: &mut Spmd) -> Result<T, Fault> {
    w.wait(w.me(), 1)?;
    Err(Fault::msg("a node has posted to itself"))
}

/// Of three nodes, each has something for each other one.
fn ring() -> Halo<1> {
    Halo::new([1]).periodic([true])
}

fn line(w: &Spmd) -> Result<Shape<'static, 1>, Fault> {
    Ok(w.nodes([w.size()])?.template([12]).distribute([Block])?.shadow([1]))
}

fn cyclic(w: &Spmd) -> Result<Shape<'static, 1>, Fault> {
    Ok(w.nodes([w.size()])?.template([12]).distribute([Cyclic])?)
}

/// Every node has all of it.
fn replicated(w: &Spmd) -> Result<Shape<'static, 1>, Fault> {
    let plane = w.nodes([w.size()])?.template([w.size(), 12]).distribute([Block, Whole])?;
    Ok(plane.align([on(1)]))
}
