//! `docs/worlds.md`, and the first block of `docs/xacc.md`.

use super::Done;
use hamr::Image;
use hamr_comm::world::{AtomicOp, RankId, SegAddr};
use hamr_comm::{Context, Fault, Task, offload};

#[test]
fn ranks_have_buffers_that_are_copied_between_them() -> Done {
    use hamr_kernels::demo::dot_f64 as dot;
    let (runtime, xs) = (hamr::Runtime::new()?, [3.0, 4.0]);
    let world = runtime.world("shm", 4, Image::find("hamr-checks")?)?;
    let (x, y) = (world.node(0).buffer(&xs)?, world.node(3).allocate::<f64>(xs.len())?);
    world.copy(x.ptr(), y.ptr())?;
    let norm = world.node(3).sync(dot::with(y.ptr(), y.ptr()))?;
    assert_eq!(norm, 25.0);
    Ok(())
}

#[offload]
pub fn add_up(_: &mut Context, a: u64, b: u64) -> u64 {
    a + b
}

#[offload]
pub fn work(task: &mut Task, value: u64) -> Result<u64, Fault> {
    task.yield_now()?;
    Ok(value)
}

#[offload]
pub fn note(_: &mut Context, value: u64) {
    assert_eq!(value, 5);
}

#[offload]
pub fn calls(task: &mut Task) -> Result<u64, Fault> {
    let next = RankId(1);
    let sum = task.sync(RankId(3), add_up::with(1, 2))?;
    let a = task.offload(next, work::with(7))?;
    task.send(next, note::with(5))?;
    Ok(10 * sum + task.wait_for(a)?)
}

#[offload]
pub fn sum(task: &mut Task, mine: u64) -> Result<u64, Fault> {
    let world = task.world().ok_or_else(|| Fault::msg("no rank"))?;
    world.atomic(SegAddr { rank: RankId(0), off: 0 }, AtomicOp::Add(mine))?;
    task.barrier()?;
    Ok(world.get_value(RankId(0), 0)?)
}

#[test]
fn ranks_call_each_other_and_add() -> Done {
    let world = hamr::Runtime::new()?.world_of_threads(4)?;
    assert_eq!(world.node(0).sync(calls::with())?, 37);
    assert_eq!(world.run(sum::with(5))?, 20);
    Ok(())
}

mod arrays {
    use hamr_xacc::prelude::*;

    #[offload]
    pub fn heat(w: &mut Spmd, n: i64, steps: u32) -> Result<f64, Fault> {
        let grid = w.nodes([w.size()])?.template([n, n]).distribute([Block, Whole])?;
        let inner = grid.on([1..n - 1, 1..n - 1]);
        let (mut p, mut q) = (grid.shadow([1, 0]).full(0.5f64, w)?, grid.zeros(w)?);
        for _ in 0..steps {
            p.reflect(w)?;
            each!([i, j] in inner => q[[i, j]] = 0.25 * (p[[i - 1, j]] + p[[i + 1, j]] + p[[i, j - 1]] + p[[i, j + 1]]));
            each!([i, j] in inner => p[[i, j]] = q[[i, j]]);
        }
        let here = each!([i, j] in grid.all() => sum { p[[i, j]] });
        w.reduce(Sum, here)
    }
}

#[test]
fn a_program_over_arrays_runs_on_every_node() -> Done {
    use arrays::heat;
    let world = hamr::Runtime::new()?.world_of_threads(3)?;
    let sum = world.run(heat::with(1000, 50))?;
    assert!((sum - 500_000.0).abs() < 1e-6, "{sum}");
    Ok(())
}
