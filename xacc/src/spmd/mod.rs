//! A program on one node of an executing set: what a handler gets that begins with `&mut Spmd`.

mod arena;

use crate::dist::{Extent, NodeSet, Nodes, Shape, or_refuse};
use crate::fabric::{Fabric, Opens, all_to_all};
use crate::int::Int;
use crate::what::{Kind, What};
use arena::Arena;
pub(crate) use arena::not_kept;
use core::panic::Location;
use hamr_comm::handler::HandlerResult;
use hamr_comm::{Call, ErrorOf, Fault, HOST, Handler, Program, Task, TaskCallError};

/// A program, as one node of the executing set sees it: the first parameter of its handler, which
/// [`World::run`](https://docs.rs/hamr) calls on every node.
///
/// What communicates takes `&mut Spmd`; collectives are called by all nodes of the set, in the same
/// order. A node that calls another collective than its partners fails, and so do they.
pub struct Spmd<'c> {
    fabric: Fabric<'c>,
    arena: Arena<'c>,
    set: NodeSet,
}

static_assertions::assert_not_impl_any!(Spmd<'static>: Send, Sync);

impl Program for Spmd<'static> {
    type This<'c> = Spmd<'c>;
    fn enter<R: HandlerResult>(task: &mut Task<'_>, f: impl FnOnce(&mut Spmd<'_>) -> R) -> Result<R, Fault> {
        run(task, f, R::is_value)
    }
}

/// Runs a program as a part of a task, on every rank of the world: for programs that are no handlers,
/// as in [`run_program`](https://docs.rs/hamr).
///
/// # Errors
/// The program's, or why it could not begin or end.
pub fn program<T>(task: &mut Task<'_>, f: impl FnOnce(&mut Spmd<'_>) -> Result<T, Fault>) -> Result<T, Fault> {
    run(task, f, Result::is_ok)?
}

/// All nodes meet at the end, unless the program has failed: then its run is cancelled, and partners
/// that wait are told so.
fn run<R>(task: &Task<'_>, f: impl FnOnce(&mut Spmd<'_>) -> R, is_value: impl Fn(&R) -> bool) -> Result<R, Fault> {
    let opens = Opens::new();
    let head = Fabric::head(task)?;
    let mut claim = task.claim_segment(head)?;
    let mut memory = claim.memory();
    let fabric = Fabric::new(task, &opens, &mut memory)?;
    let mut w = Spmd { fabric, arena: Arena::new(memory, fabric.world())?, set: NodeSet::of_world(fabric.size) };
    let result = f(&mut w);
    if is_value(&result) {
        fabric.all_closed(0)?;
        w.meet(&What::new(Kind::END, w.set, Location::caller()))?;
    }
    Ok(result)
}

impl<'c> Spmd<'c> {
    /// This node's number in the executing set.
    pub fn me(&self) -> i64 {
        self.set.number(self.fabric.me).unwrap_or(0).into()
    }

    /// Nodes of the executing set.
    pub fn size(&self) -> i64 {
        self.set.len().into()
    }

    /// The executing set.
    pub fn set(&self) -> NodeSet {
        self.set
    }

    /// Seconds of this node's clock.
    pub fn seconds(&self) -> f64 {
        self.fabric.micros() as f64 * 1e-6
    }

    /// Sends a message to the host's program, which this node does not wait for: a call of a body there
    /// ([`Task::send`]).
    ///
    /// # Errors
    /// The program has no such body; there is no room for another message.
    pub fn send_host<H: Handler>(&mut self, call: Call<H>) -> Result<(), TaskCallError<ErrorOf<H>>> {
        self.fabric.task().send(HOST, call)
    }

    /// The executing set in `R` dimensions, row-major.
    ///
    /// # Errors
    /// The extents do not multiply to its size.
    pub fn nodes<const R: usize>(&self, shape: [impl Int; R]) -> Result<Nodes<R>, Fault> {
        Ok(Nodes::new(self.set, self.fabric.me, shape)?)
    }

    /// The shape of an array that is not distributed: every node has its own, also with other extents.
    ///
    /// # Panics
    /// A negative extent.
    #[track_caller]
    pub fn own<const N: usize>(&self, extent: [impl Into<Extent>; N]) -> Shape<'static, N> {
        or_refuse(Shape::own(self.set, self.fabric.me, extent))
    }

    /// Makes arrays for the length of `f`: what was allocated inside is free behind it. All nodes meet
    /// at its end, unless `f` fails: then the program has failed, too, and gets no memory any more.
    ///
    /// # Errors
    /// Those of `f`; an exchange of an array that was made inside is not finished; those of the meeting.
    #[track_caller]
    pub fn scope<R>(&mut self, f: impl for<'s> FnOnce(&mut Spmd<'s>) -> Result<R, Fault>) -> Result<R, Fault> {
        let (fabric, set, from) = (self.fabric, self.set, self.arena.top());
        self.arena.is_whole()?;
        // Until it has succeeded: `f` may panic.
        self.arena.set_failed(true);
        let result = {
            let mut arena = self.arena.lend();
            arena.set_failed(false);
            let mut inner = Spmd { fabric, set, arena };
            let result = f(&mut inner)?;
            // A scope in it may have failed.
            inner.arena.is_whole().map(|()| result)
        }?;
        fabric.all_closed(from)?;
        self.meet(&What::new(Kind::END_OF_SCOPE, set, Location::caller()))?;
        self.arena.set_failed(false);
        Ok(result)
    }

    /// Runs `f` on some nodes of the set, which are its executing set then; `None` on the others. There
    /// is no barrier at its begin or end. The members are ranks of the executing set.
    ///
    /// # Errors
    /// The set has nodes that do not execute this.
    pub fn task<R>(&mut self, on: impl Into<NodeSet>, f: impl FnOnce(&mut Self) -> R) -> Result<Option<R>, Fault> {
        let on = self.part(on.into())?;
        if !on.contains(self.fabric.me) {
            return Ok(None);
        }
        let whole = core::mem::replace(&mut self.set, on);
        let result = f(self);
        self.set = whole;
        Ok(Some(result))
    }

    /// Runs `f` on some nodes of the set; `None` on the others. `f` has no way to communicate.
    ///
    /// # Errors
    /// The set has nodes that do not execute this.
    pub fn task_nocomm<R>(&self, on: impl Into<NodeSet>, f: impl FnOnce() -> R) -> Result<Option<R>, Fault> {
        Ok(self.part(on.into())?.contains(self.fabric.me).then(f))
    }

    /// A part of the executing set.
    pub(crate) fn part(&self, set: NodeSet) -> Result<NodeSet, Fault> {
        if set.is_within(self.set) { Ok(set) } else { Err(Fault::msg("a node does not execute this")) }
    }

    /// In a [`Self::scope`].
    pub(crate) fn is_in_scope(&self) -> bool {
        self.arena.is_scope()
    }

    pub(crate) fn fabric(&self) -> Fabric<'c> {
        self.fabric
    }

    /// A meeting of all nodes of the executing set, without data.
    #[track_caller]
    pub(crate) fn meet(&mut self, what: &What) -> Result<(), Fault> {
        all_to_all(self.fabric, self.set, what, (&[], 0), |_, _| {})
    }
}
