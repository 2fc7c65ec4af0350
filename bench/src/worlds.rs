//! Rows of two ranks, pinned to the two processors. Their tasks take the time: this program sleeps
//! meanwhile, because its processor is that of rank 0.

use super::stats::Spell;
use super::table::{Beside, Key, Table, Unit};
use super::{BoxError, Machine, REPETITIONS, Setup};
use hamr::{Node, Options, WaitMode, World, WorldOptions};
use hamr_comm::{Call, Fault, Handler};
use hamr_kernels::bench::{
    empty, rank_adds, rank_barriers, rank_calls, rank_copies, rank_flags, rank_puts, rank_signals, yields,
};
use std::time::{Duration, Instant};

/// Operations of one sample; of copies, a tenth of them.
const TIMES: u32 = 2000;
/// Runs of one sample of `world_run`.
const RUNS: u32 = 20;
/// Bytes of a long copy.
const LONG: u32 = 64 << 10;

/// The rows of this module that need a world.
pub(super) const ROWS: [&str; 8] = [
    "world_idle",
    "world_call",
    "world_signal",
    "world_barrier",
    "world_put_8b",
    "world_put_64k",
    "world_fetch_add",
    "world_run",
];

/// Ranks of `world_idle`; of the largest world one is there.
const IDLE: [u32; 3] = [2, 64, 4095];

/// Adds the row `task_switch`: a task lets others have a turn, of which there are none.
pub(super) fn task_switch(node: &Node, table: &mut Table) -> Result<(), BoxError> {
    for _ in 0..REPETITIONS {
        table.add(Key::new("task_switch"), &[each(node.sync(yields::with(TIMES))?, TIMES)], None);
    }
    Ok(())
}

/// Adds the rows of worlds, of processes over shared memory.
pub(super) fn measure(
    &Setup { runtime, image, global }: &Setup<'_>,
    machine: &Machine,
    table: &mut Table,
) -> Result<(), BoxError> {
    let sizes = |wait: Option<WaitMode>| {
        let WorldOptions { rank, .. } = WorldOptions::default();
        let rank = global.apply(Options { segment: 1 << 20, ..rank });
        let rank = Options { wait: wait.unwrap_or(rank.wait), ..rank };
        WorldOptions { rank, cpus: vec![machine.host(), machine.device()], ..WorldOptions::default() }
    };
    let start = |ranks: u32, wait: Option<WaitMode>| -> Result<World, BoxError> {
        Ok(runtime.world_with(&vec!["shm"; ranks as usize], image.clone(), sizes(wait))?)
    };
    if table.wants("world_idle") {
        let alone = start(1, Some(WaitMode::Sleep))?;
        for ranks in IDLE {
            let world = match ranks {
                4095 => runtime.world_of_one("shm", 4095, image, sizes(Some(WaitMode::Sleep)))?,
                _ => start(ranks, Some(WaitMode::Sleep))?,
            };
            for _ in 0..REPETITIONS {
                let [floor, ns] = [round(&alone)?, round(&world)?];
                let key = Key::new("world_idle").vary("ranks", ranks);
                table.add(key, &[ns], Some(Beside { what: "one rank", ns: &[floor] }));
            }
        }
    }
    if ROWS.iter().any(|row| !["world_idle", "world_run"].contains(row) && table.wants(row)) {
        let world = start(2, None)?;
        for _ in 0..REPETITIONS {
            ranks(&world, table)?;
        }
    }
    if table.wants("world_run") {
        // This program and rank 0 have one processor.
        let world = start(2, Some(WaitMode::Sleep))?;
        for _ in 0..REPETITIONS {
            run(&world, table)?;
        }
    }
    Ok(())
}

fn ranks(world: &World, table: &mut Table) -> Result<(), BoxError> {
    let first = world.node(0);
    let flags = |one_line| -> Result<f64, BoxError> {
        let [tight, paused] = [false, true].map(|paused| both(world, rank_flags::with(TIMES, one_line, paused)));
        Ok(tight?.min(paused?))
    };
    if table.wants("world_call") {
        let line = flags(true)?;
        let spell = Spell::of(line);
        let ns = each(asleep(first, rank_calls::with(TIMES))?, TIMES);
        table.add(Key::new("world_call").spell(spell), &[ns], Some(Beside { what: "one line", ns: &[line] }));
    }
    if table.wants("world_signal") {
        let (spell, floor) = (Spell::of(flags(true)?), flags(false)?);
        let ns = both(world, rank_signals::with(TIMES))?;
        table.add(Key::new("world_signal").spell(spell), &[ns], Some(Beside { what: "two flags", ns: &[floor] }));
    }
    if table.wants("world_barrier") {
        let (spell, floor) = (Spell::of(flags(true)?), flags(false)?);
        let ns = both(world, rank_barriers::with(TIMES))?;
        table.add(Key::new("world_barrier").spell(spell), &[ns], Some(Beside { what: "two flags", ns: &[floor] }));
    }
    if table.wants("world_put_8b") {
        let times = 100 * TIMES;
        let ns = each(asleep(first, rank_puts::with(times, 8))?, times);
        table.add(Key::new("world_put_8b").size(8), &[ns], None);
    }
    if table.wants("world_put_64k") {
        let times = TIMES / 10;
        let floor = each(asleep(first, rank_copies::with(times, LONG))?, times);
        let ns = each(asleep(first, rank_puts::with(times, LONG))?, times);
        let key = Key::new("world_put_64k").size(LONG as usize).unit(Unit::GbS);
        table.add(key, &[ns], Some(Beside { what: "memcpy", ns: &[floor] }));
    }
    if table.wants("world_fetch_add") {
        let times = 100 * TIMES;
        let [floor, ns] = [true, false].map(|raw| asleep(first, rank_adds::with(times, raw)));
        let [floor, ns] = [each(floor?, times), each(ns?, times)];
        table.add(Key::new("world_fetch_add"), &[ns], Some(Beside { what: "instruction", ns: &[floor] }));
    }
    Ok(())
}

/// A round of the last rank, which looks at the lanes of all others and resumes one task; they sleep.
fn round(world: &World) -> Result<f64, BoxError> {
    Ok(each(asleep(world.node(world.size() - 1), yields::with(TIMES))?, TIMES))
}

/// An empty run, and as many calls, one behind the other.
fn run(world: &World, table: &mut Table) -> Result<(), BoxError> {
    let floor = of_each(|| world.nodes().iter().try_for_each(|node| node.sync(empty::with())))?;
    let ns = of_each(|| world.run(empty::with()))?;
    table.add(Key::new("world_run"), &[ns], Some(Beside { what: "two calls", ns: &[floor] }));
    Ok(())
}

/// Nanoseconds of one of [`RUNS`].
pub(super) fn of_each<E>(mut f: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    let begin = Instant::now();
    (0..RUNS).try_for_each(|_| f())?;
    Ok(begin.elapsed().as_nanos() as f64 / f64::from(RUNS))
}

/// Nanoseconds of each of so many operations.
fn each(micros: u64, times: u32) -> f64 {
    micros as f64 * 1000.0 / f64::from(times)
}

/// What both ranks do [`TIMES`] times, by the clock of rank 0.
fn both<H>(world: &World, call: Call<H>) -> Result<f64, BoxError>
where
    H: Handler<Output = Result<u64, Fault>>,
    H::Args: Clone,
{
    Ok(each(world.run(call)?, TIMES))
}

/// A call during which this thread sleeps.
fn asleep<H: Handler<Output = Result<u64, Fault>>>(node: &Node, call: Call<H>) -> Result<u64, BoxError> {
    let pending = node.offload(call)?;
    while !pending.is_done() {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(pending.wait()?)
}
