//! Programs of `hamr-xacc` between ranks that are threads of this process, each on one of the two
//! processors, and the same work by hand in the same threads right before or behind it. Both sides
//! are one build: `-Ctarget-cpu=native` for this program is for both.

mod by_hand;

use super::machine::Machine;
use super::table::{Beside, Key, Table, Unit};
use super::{BoxError, worlds};
use by_hand::{Exchange, pin};
use hamr::{Image, Options, Runtime, Target, WaitMode, World, WorldOptions};
use hamr_comm::Fault;
use hamr_programs::cg::Class;
use hamr_programs::{cg, himeno, idle};
use hamr_xacc::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The image of programs.
pub(super) const IMAGE: &str = "hamr-programs";
/// Size M of Himeno's benchmark, and iterations of a sample.
const SIZE: [i64; 3] = [128, 128, 256];
const LOOPS: u32 = 10;
/// Samples of a launch: of what takes a second, and of the others.
const FEW: usize = 4;
const MANY: usize = 32;
/// Operations of a sample.
const TIMES: u32 = 1000;
/// Elements of a vector that is in the cache, and loops over it.
const VECTOR: i64 = 8192;
const SWEEPS: u32 = 200;
/// Rows of a plane of 128 KiB.
const ROWS: i64 = 128;
/// Elements of an assignment.
const LINE: i64 = 1 << 20;

/// What rank 0 has measured: nanoseconds of a row, and of what is beside it.
type Pairs = Arc<Mutex<Vec<(Key, f64, f64)>>>;

/// Measures the rows.
pub(super) fn measure(runtime: &Runtime, machine: &Machine, table: &mut Table) -> Result<(), BoxError> {
    let processors = [machine.host(), machine.device()];
    if table.wants("himeno") {
        for ranks in [1, 2] {
            let key = Key::new("himeno").vary("ranks", ranks);
            let pairs = program(runtime, processors, ranks, 512 << 20, move |w, pairs| {
                for _ in 0..FEW {
                    let ours = w.scope(|w| himeno::himeno(w, SIZE, [ranks, 1], LOOPS))?[1];
                    let (by_hand, gosa) = by_hand::himeno(w, SIZE.map(|n| n as usize), LOOPS)?;
                    // The same squares, none negative, added in another order: each addition rounds once.
                    let most = SIZE.iter().product::<i64>() as f64 * f64::EPSILON;
                    let error = (ours.gosa / gosa - 1.0).abs();
                    if error.is_nan() || error > most {
                        return Err(Fault::msg(&format!("expected gosa {gosa:e}, as by hand, got {:e}", ours.gosa)));
                    }
                    add(pairs, key, ours.seconds * 1e9 / f64::from(LOOPS), by_hand / f64::from(LOOPS));
                }
                Ok(())
            })?;
            note(table, pairs, "threads");
        }
    }
    if table.wants("cg") {
        let (class, _) = Class::of("A").ok_or("a class")?;
        let pairs = program(runtime, processors, 2, 128 << 20, move |w, pairs| {
            for _ in 0..FEW {
                let ours = w.scope(|w| cg::cg(w, class, [2, 1]))?;
                let (by_hand, zeta) = w.scope(|w| by_hand::cg(w, &class))?;
                if (zeta / ours.zeta - 1.0).abs() > 1e-10 {
                    return Err(Fault::msg(&format!("expected zeta {zeta}, as by hand, got {}", ours.zeta)));
                }
                add(pairs, Key::new("cg"), ours.seconds * 1e9, by_hand);
            }
            Ok(())
        })?;
        note(table, pairs, "threads");
    }
    loops(runtime, processors, table)?;
    transfers(runtime, processors, table)?;
    if table.wants("xacc_ranks") {
        more_ranks(runtime, processors, table)?;
    }
    Ok(())
}

/// Adds the row `xacc_run`: a program that does nothing, and as many calls as it has ranks, of
/// processes that sleep. This program and rank 0 have one processor.
pub(super) fn run(runtime: &Runtime, machine: &Machine, table: &mut Table) -> Result<(), BoxError> {
    let WorldOptions { rank, .. } = WorldOptions::default();
    let rank = Options { segment: 1 << 20, wait: WaitMode::Sleep, ..rank };
    let options = WorldOptions { rank, cpus: vec![machine.host(), machine.device()], ..WorldOptions::default() };
    // By `module`: `find` would take what HAMR_IMAGE names.
    let image = match Image::module(IMAGE)?.resolve(&Target::hosted()) {
        Ok(file) => Image::file(file.path)?,
        Err(e) => {
            hamr::cli::note(format_args!("hamr-bench: xacc_run skipped: {e}"));
            return Ok(());
        }
    };
    let world = runtime.world_with(&["shm"; 2], image, options)?;
    for _ in 0..MANY {
        let calls = worlds::of_each(|| world.nodes().iter().try_for_each(|node| node.sync(idle::nothing::with())))?;
        let runs = worlds::of_each(|| world.run(idle::idle::with()))?;
        table.add(Key::new("xacc_run"), &[runs], Some(Beside { what: "two calls", ns: &[calls] }));
    }
    Ok(())
}

/// Loops over vectors in the cache, on one rank.
fn loops(runtime: &Runtime, processors: [usize; 2], table: &mut Table) -> Result<(), BoxError> {
    let (axpy, dot) = (table.wants("xacc_axpy"), table.wants("xacc_dot"));
    if !axpy && !dot {
        return Ok(());
    }
    let pairs = program(runtime, processors, 1, 1 << 20, move |w, pairs| {
        let line = w.nodes([1])?.template([VECTOR]).distribute([Block])?;
        let (here, [x, mut y]) = (line.all(), line.fulls([1.0f64, 0.5], w)?);
        let mut hand = by_hand::Vectors::new(VECTOR as usize);
        for _ in 0..MANY {
            if axpy {
                let ours = time(SWEEPS, || each!([i] in here => y[[i]] += 0.5 * x[[i]]));
                add(pairs, Key::new("xacc_axpy"), ours, time(SWEEPS, || hand.axpy(0.5)));
            }
            if dot {
                let ours = time(SWEEPS, || std::hint::black_box(each!([i] in here => sum { x[[i]] * y[[i]] })));
                add(pairs, Key::new("xacc_dot"), ours, time(SWEEPS, || std::hint::black_box(hand.dot())));
            }
        }
        Ok(())
    })?;
    note(table, pairs, "loop");
    Ok(())
}

/// What two ranks tell each other, and what they copy.
fn transfers(runtime: &Runtime, processors: [usize; 2], table: &mut Table) -> Result<(), BoxError> {
    let is_wanted = ["xacc_barrier", "xacc_reduce", "xacc_post"].map(|row| table.wants(row));
    let [barrier, reduce, post] = is_wanted;
    if is_wanted.contains(&true) {
        let pairs = program(runtime, processors, 2, 1 << 20, move |w, pairs| {
            let mut flags = Exchange::new(w.me() as u32);
            for _ in 0..MANY {
                for (name, is_wanted) in [("xacc_barrier", barrier), ("xacc_reduce", reduce), ("xacc_post", post)] {
                    if !is_wanted {
                        continue;
                    }
                    let spell = flags.spell()?;
                    let [tight, paused] = [false, true].map(|paused| try_time(TIMES, || flags.exchange_by(paused)));
                    let raw = tight?.min(paused?);
                    let ours = try_time(TIMES, || match name {
                        "xacc_barrier" => w.barrier(),
                        "xacc_reduce" => w.reduce(Sum, 1.0f64).map(drop),
                        _ => {
                            let other = 1 - w.me();
                            w.post(other, 3)?;
                            w.wait(other, 3).map(drop)
                        }
                    })?;
                    add(pairs, Key::new(name).spell(spell), ours, raw);
                }
            }
            Ok(())
        })?;
        note(table, pairs, "two flags");
    }
    let (reflect, gmove) = (table.wants("xacc_reflect"), table.wants("xacc_gmove"));
    if reflect || gmove {
        let pairs = program(runtime, processors, 2, 32 << 20, move |w, pairs| copies(w, pairs, reflect, gmove))?;
        note(table, pairs, "memcpy");
    }
    Ok(())
}

/// A reflect of a plane, and an assignment of a line that is shifted by one element.
fn copies(w: &mut Spmd<'_>, pairs: &Pairs, reflect: bool, gmove: bool) -> Result<(), Fault> {
    let times = TIMES / 10;
    let nodes = w.nodes([w.size()])?;
    let plane = 2 * ROWS * ROWS;
    let mut p =
        nodes.template([4, ROWS, 2 * ROWS]).distribute([Block, Whole, Whole])?.shadow([1, 0, 0]).zeros::<f32>(w)?;
    let line = nodes.template([LINE]).distribute([Block])?;
    let (mut a, b) = (line.zeros::<f64>(w)?, line.full(1.0f64, w)?);
    let mut memory = by_hand::Copies::new();
    let mut flags = Exchange::new(w.me() as u32);
    for _ in 0..MANY {
        let spell = flags.spell()?;
        if reflect {
            let bytes = plane as usize * size_of::<f32>();
            let (mut copy, mut ours) = (0.0, 0.0);
            for _ in 0..times {
                copy += memory.fetch(&mut flags, bytes)?;
                // The planes beside the other rank's: one that it needs is new, and its own was read here.
                let (mine, theirs) = (1 + w.me(), 2 - w.me());
                for (j, k) in (0..ROWS).flat_map(|j| (0..2 * ROWS).step_by(16).map(move |k| (j, k))) {
                    p[[mine, j, k]] = 0.5 * p[[theirs, j, k]] + 1.0;
                }
                w.barrier()?;
                ours += try_time(1, || p.reflect(w))?;
            }
            let key = Key::new("xacc_reflect").size(bytes).unit(Unit::GbS).spell(spell);
            add(pairs, key, ours / f64::from(times), copy / f64::from(times));
        }
        if gmove {
            // Each rank's half.
            let bytes = LINE as usize * size_of::<f64>() / 2;
            w.barrier()?;
            let copy = time(times / 10, || memory.copy(bytes));
            w.barrier()?;
            let shifted = || a.section_mut(s![..LINE - 1]).gmove(b.section(s![1..]), w);
            let ours = try_time(times / 10, shifted)?;
            add(pairs, Key::new("xacc_gmove").size(bytes).unit(Unit::GbS).spell(spell), ours, copy);
        }
    }
    Ok(())
}

/// Himeno on more ranks than there are processors, and on two.
fn more_ranks(runtime: &Runtime, processors: [usize; 2], table: &mut Table) -> Result<(), BoxError> {
    for _ in 0..FEW {
        let on = |ranks| -> Result<f64, BoxError> {
            let pairs = program(runtime, processors, ranks, 512 << 20, move |w, pairs| {
                let seconds = himeno::himeno(w, SIZE, [ranks, 1], LOOPS)?[1].seconds;
                add(pairs, Key::new("xacc_ranks"), seconds * 1e9 / f64::from(LOOPS), 0.0);
                Ok(())
            })?;
            Ok(pairs.first().ok_or("no time")?.1)
        };
        let two = on(2)?;
        for ranks in [4, 8] {
            let beside = Beside { what: "2 ranks", ns: &[two] };
            table.add(Key::new("xacc_ranks").vary("ranks", ranks), &[on(ranks)?], Some(beside));
        }
    }
    Ok(())
}

/// Runs a program on so many threads, with `bytes` for the arrays of all together; what rank 0 has measured.
fn program(
    runtime: &Runtime,
    processors: [usize; 2],
    ranks: u32,
    bytes: u64,
    f: impl Fn(&mut Spmd<'_>, &Pairs) -> Result<(), Fault> + Send + Sync + 'static,
) -> Result<Vec<(Key, f64, f64)>, BoxError> {
    let WorldOptions { rank, .. } = WorldOptions::default();
    // A rank computes for seconds between two turns of its dispatcher.
    let rank = Options { segment: (bytes / u64::from(ranks)).next_power_of_two().max(1 << 20), deadline: None, ..rank };
    let options = WorldOptions { rank, stall: None, ..WorldOptions::default() };
    // No rank is of this image.
    let world: World = runtime.world_with(&vec!["thread"; ranks as usize], Image::find(IMAGE)?, options)?;
    let (pairs, theirs) = (Pairs::default(), Pairs::default());
    let measured = pairs.clone();
    world.run_program(move |task| {
        hamr_xacc::program(task, |w| {
            pin(processors, w.me() as u32)?;
            f(w, if w.me() == 0 { &measured } else { &theirs })
        })?;
        Ok(0)
    })?;
    let mut pairs = pairs.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut *pairs))
}

fn add(pairs: &Pairs, key: Key, ns: f64, beside: f64) {
    pairs.lock().unwrap_or_else(PoisonError::into_inner).push((key, ns, beside));
}

fn note(table: &mut Table, pairs: Vec<(Key, f64, f64)>, what: &'static str) {
    for (key, ns, beside) in pairs {
        table.add(key, &[ns], Some(Beside { what, ns: &[beside] }));
    }
}

/// Nanoseconds of one of so many.
fn time<T>(times: u32, mut f: impl FnMut() -> T) -> f64 {
    let begin = Instant::now();
    (0..times).for_each(|_| drop(f()));
    begin.elapsed().as_nanos() as f64 / f64::from(times)
}

fn try_time(times: u32, mut f: impl FnMut() -> Result<(), Fault>) -> Result<f64, Fault> {
    let begin = Instant::now();
    (0..times).try_for_each(|_| f())?;
    Ok(begin.elapsed().as_nanos() as f64 / f64::from(times))
}
