//! Messages between two ranks that are threads of this process, each on one of the two processors, and
//! raw exchanges in the same process beside them.
//!
//! Rank 0 measures. Rank 1 polls; what it does for a floor, a handler does there.

use super::machine::Machine;
use super::stats::{Spell, median};
use super::table::{Beside, Key, Table, Unit};
use super::{BoxError, PER_SAMPLE, REPETITIONS, SAMPLES};
use hamr::{Image, Options, Runtime, WorldOptions};
use hamr_comm::world::RankId;
use hamr_comm::{Fault, Task};
use hamr_gas::{BarrierName, GasError, Handlers, Kinds, Rank};
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The rows of this module.
pub(super) const NAMES: [&str; 7] =
    ["gas_am_short", "gas_am_medium", "gas_am_long", "gas_flood", "gas_put_8b", "gas_get_8b", "gas_barrier"];
/// Payloads of medium and long messages.
const SIZES: [usize; 5] = [32, 64, 1 << 10, 4 << 10, 16320];
/// Messages of a flood.
const FLOOD: u32 = 4000;
/// Lines of the raw ring, as a lane has.
const RING: usize = 16;

const PING: u8 = 1;
const PONG: u8 = 2;
const PAYLOAD: u8 = 3;
const NOTE: u8 = 4;
const NOTED: u8 = 5;
const RAW: u8 = 6;
const MEET: u8 = 7;
const END: u8 = 8;

#[derive(Default)]
struct State {
    pongs: u32,
    noted: u32,
    /// Barriers that rank 0 wants.
    barriers: u32,
    ended: bool,
    /// Where payloads of long messages are read to, made once as that of the floor.
    bytes: Vec<u8>,
}

/// A line with two words.
#[repr(align(128))]
struct Line(AtomicU32, AtomicU32);

static LINES: [Line; RING] = [const { Line(AtomicU32::new(0), AtomicU32::new(0)) }; RING];
static CELL: AtomicU64 = AtomicU64::new(0);

/// Rank 1's side of a floor.
const PING_PONG: i32 = 0;
const HAND_OVER: i32 = 1;
const RAW_RING: i32 = 2;
const EXCHANGE: i32 = 3;

static TABLE: Handlers<State> = Handlers::<State>::new()
    .request(PING, Kinds::SHORT, "ping", |_, _, token| token.reply_short(PONG, &[]))
    .reply(PONG, Kinds::SHORT, "pong", |state, _| state.pongs += 1)
    .request(PAYLOAD, Kinds::MEDIUM.or(Kinds::LONG), "payload", |state, mut msg, token| {
        black_box(msg.payload());
        if let Some(at) = msg.landed() {
            state.bytes.resize(SIZES[4], 0);
            let bytes = state.bytes.split_at_mut(at.len as usize).0;
            let _ = msg.get(at.off, bytes);
            black_box(&*bytes);
        }
        token.reply_short(PONG, &[]);
    })
    .request(NOTE, Kinds::SHORT, "note", |state, _, _| state.noted += 1)
    .request(NOTED, Kinds::SHORT, "noted", |state, msg, token| {
        token.reply_short(PONG, &[]);
        assert_eq!(Some(&(state.noted as i32)), msg.args().first(), "a message is missing");
    })
    .request(RAW, Kinds::SHORT, "raw", |_, msg, _| {
        if let [what, count, len] = *msg.args() {
            let mut bytes = [0; SIZES[4]];
            let (bytes, _) = bytes.split_at_mut(len as usize);
            for i in 1..=count as u32 {
                match what {
                    PING_PONG => pong(&LINES[0].0, &LINES[0].0, i),
                    HAND_OVER => {
                        until(&LINES[0].0, 2 * i - 1);
                        let _ = msg.get(0, bytes);
                        black_box(&*bytes);
                        LINES[0].0.store(2 * i, Ordering::Release);
                    }
                    RAW_RING => {
                        let Line(request, reply) = &LINES[(i as usize - 1) % RING];
                        until(request, i);
                        reply.store(i, Ordering::Release);
                    }
                    _ => {
                        LINES[1].0.store(i, Ordering::Release);
                        reached(&LINES[0].0, i);
                    }
                }
            }
        }
    })
    .request(MEET, Kinds::SHORT, "meet", |state, msg, _| state.barriers = msg.args().first().map_or(0, |n| *n as u32))
    .request(END, Kinds::SHORT, "end", |state, _, _| state.ended = true);

fn until(word: &AtomicU32, value: u32) {
    while word.load(Ordering::Acquire) != value {
        spin_loop();
    }
}

/// The other side of an exchange may be a step ahead.
fn reached(word: &AtomicU32, value: u32) {
    while word.load(Ordering::Acquire) < value {
        spin_loop();
    }
}

fn pong(request: &AtomicU32, reply: &AtomicU32, i: u32) {
    until(request, 2 * i - 1);
    reply.store(2 * i, Ordering::Release);
}

/// A measured row.
struct Sample {
    key: Key,
    ns: Vec<f64>,
    what: &'static str,
    floor: Vec<f64>,
}

/// Measures the rows.
pub(super) fn measure(image: &Image, machine: &Machine, table: &mut Table) -> Result<(), BoxError> {
    if !table.wants_any(&NAMES) {
        return Ok(());
    }
    static SAMPLES_OF_RUN: Mutex<Vec<Sample>> = Mutex::new(Vec::new());
    let names: Vec<&str> = NAMES.into_iter().filter(|name| table.wants(name)).collect();
    let processors = [machine.host(), machine.device()];
    let WorldOptions { rank, .. } = WorldOptions::default();
    // Where other programs run beside it, a floor may take long.
    let rank = Options { deadline: None, ..rank };
    let options = WorldOptions { rank, cpus: processors.to_vec(), ..WorldOptions::default() };
    let world = Runtime::new()?.world_with(&["thread", "thread"], image.clone(), options)?;
    let code = world.run_program(move |task: &mut Task<'_>| {
        pin(task, processors)?;
        Rank::run(task, State::default(), |rank| {
            rank.attach(&TABLE)?;
            if rank.me().0 == 1 {
                return serve(rank);
            }
            let mut samples = Vec::new();
            for _ in 0..REPETITIONS {
                for name in &names {
                    row(rank, name, &mut samples)?;
                }
            }
            rank.request_short(RankId(1), END, &[])?;
            rank.barrier(BarrierName::Anonymous)?;
            *SAMPLES_OF_RUN.lock().unwrap_or_else(PoisonError::into_inner) = samples;
            Ok(0)
        })
    })?;
    if code != 0 {
        return Err(format!("a rank ended with {code}").into());
    }
    for Sample { key, ns, what, floor } in SAMPLES_OF_RUN.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        table.add(key, &ns, Some(Beside { what, ns: &floor }));
    }
    Ok(())
}

/// Puts this rank's thread on its processor.
fn pin(task: &Task<'_>, processors: [usize; 2]) -> Result<(), Fault> {
    let me = task.world().map_or(0, |world| world.me().0 as usize);
    let mut set = rustix::thread::CpuSet::new();
    set.set(processors.get(me).copied().unwrap_or_default());
    rustix::thread::sched_setaffinity(None, &set).map_err(|_| Fault::msg("the processor cannot be set"))
}

/// Rank 1, until rank 0 is done.
fn serve(rank: &mut Rank<'_, State>) -> Result<u8, Fault> {
    while !rank.state().ended {
        rank.block_until(|state| state.ended || state.barriers != 0)?;
        for _ in 0..std::mem::take(&mut rank.state_mut().barriers) {
            rank.barrier(BarrierName::Anonymous)?;
        }
    }
    rank.barrier(BarrierName::Anonymous)?;
    Ok(0)
}

/// Nanoseconds of `count` operations in one.
fn each<E>(count: u32, f: impl FnOnce() -> Result<(), E>) -> Result<f64, E> {
    let begin = Instant::now();
    f()?;
    Ok(begin.elapsed().as_nanos() as f64 / f64::from(count))
}

/// One repetition of a row, with its floor right before.
fn row(rank: &mut Rank<'_, State>, name: &'static str, samples: &mut Vec<Sample>) -> Result<(), GasError> {
    let line = ping_pong(rank)?;
    let spell = Spell::of(median(&line));
    let mut add = |key: Key, ns, what, floor: &[f64]| {
        samples.push(Sample { key: key.spell(spell), ns, what, floor: floor.to_vec() });
    };
    let other = RankId(1);
    match name {
        "gas_am_short" => {
            for nargs in [0, 11, 16] {
                let args = [7; 16];
                let ns = exchanges(rank, |rank| rank.request_short(other, PING, args.split_at(nargs).0))?;
                add(Key::new(name).vary("args", nargs as u32), ns, "floor", &line);
            }
        }
        "gas_am_medium" | "gas_am_long" => {
            let data = [3; SIZES[4]];
            for len in SIZES {
                let (data, _) = data.split_at(len);
                let floor = hand_over(rank, data)?;
                let ns = exchanges(rank, |rank| match name {
                    "gas_am_long" => rank.request_long(other, PAYLOAD, &[], data, 0),
                    _ => rank.request_medium(other, PAYLOAD, &[], data),
                })?;
                add(Key::new(name).size(len), ns, "hand-over", &floor);
            }
        }
        "gas_flood" => {
            let floor = ring(rank)?;
            let noted = rank.state().noted;
            let ns = each(FLOOD, || {
                for _ in 0..FLOOD {
                    rank.request_short(other, NOTE, &[1])?;
                }
                let wanted = rank.state().pongs + 1;
                rank.request_short(other, NOTED, &[(noted + FLOOD) as i32])?;
                rank.block_until(|state| state.pongs == wanted)
            })?;
            rank.state_mut().noted += FLOOD;
            add(Key::new(name).unit(Unit::Rate), vec![ns], "ring of lines", &[floor]);
        }
        "gas_put_8b" | "gas_get_8b" => {
            const MANY: u32 = 100_000;
            let is_put = name == "gas_put_8b";
            let floor = each::<GasError>(MANY, || {
                for i in 0..u64::from(MANY) {
                    match is_put {
                        true => CELL.store(black_box(i), Ordering::Relaxed),
                        false => drop(black_box(CELL.load(Ordering::Relaxed))),
                    }
                }
                Ok(())
            })?;
            let ns = each(MANY, || {
                for i in 0..u64::from(MANY) {
                    match is_put {
                        true => rank.put_value(other, 64, black_box(i))?,
                        false => drop(black_box(rank.get_value::<u64>(other, 64)?)),
                    }
                }
                Ok::<_, GasError>(())
            })?;
            add(Key::new(name).size(8), vec![ns], if is_put { "store" } else { "load" }, &[floor]);
        }
        _ => {
            let count = PER_SAMPLE * SAMPLES;
            reset(rank, EXCHANGE, count, 0)?;
            let floor = each::<GasError>(count, || {
                for i in 1..=count {
                    LINES[0].0.store(i, Ordering::Release);
                    reached(&LINES[1].0, i);
                }
                Ok(())
            })?;
            rank.request_short(other, MEET, &[count as i32])?;
            let ns = each(count, || {
                for _ in 0..count {
                    rank.barrier(BarrierName::Anonymous)?;
                }
                Ok::<_, GasError>(())
            })?;
            add(Key::new(name), vec![ns], "two flags", &[floor]);
        }
    }
    Ok(())
}

/// Requests, each with its reply before the next.
fn exchanges(
    rank: &mut Rank<'_, State>,
    mut ask: impl FnMut(&mut Rank<'_, State>) -> Result<(), GasError>,
) -> Result<Vec<f64>, GasError> {
    let mut once = || {
        each(PER_SAMPLE, || {
            for _ in 0..PER_SAMPLE {
                let wanted = rank.state().pongs + 1;
                ask(rank)?;
                rank.block_until(|state| state.pongs == wanted)?;
            }
            Ok(())
        })
    };
    (0..SAMPLES / 2).map(|_| once()).collect()
}

/// Starts rank 1's side of a floor.
fn reset(rank: &mut Rank<'_, State>, what: i32, count: u32, len: usize) -> Result<(), GasError> {
    // What rank 1 was asked for before is over.
    let wanted = rank.state().pongs + 1;
    rank.request_short(RankId(1), PING, &[])?;
    rank.block_until(|state| state.pongs == wanted)?;
    for Line(request, reply) in &LINES {
        request.store(0, Ordering::Relaxed);
        reply.store(0, Ordering::Release);
    }
    rank.request_short(RankId(1), RAW, &[what, count as i32, len as i32])
}

fn ping_pong(rank: &mut Rank<'_, State>) -> Result<Vec<f64>, GasError> {
    reset(rank, PING_PONG, PER_SAMPLE * SAMPLES / 2, 0)?;
    let mut i = 0;
    let mut once = || {
        each(PER_SAMPLE, || {
            for _ in 0..PER_SAMPLE {
                i += 1;
                LINES[0].0.store(2 * i - 1, Ordering::Release);
                until(&LINES[0].0, 2 * i);
            }
            Ok(())
        })
    };
    (0..SAMPLES / 2).map(|_| once()).collect()
}

fn hand_over(rank: &mut Rank<'_, State>, data: &[u8]) -> Result<Vec<f64>, GasError> {
    reset(rank, HAND_OVER, PER_SAMPLE * SAMPLES / 2, data.len())?;
    let mut i = 0;
    let mut once = || {
        each(PER_SAMPLE, || {
            for _ in 0..PER_SAMPLE {
                i += 1;
                rank.put(RankId(1), 0, data)?;
                LINES[0].0.store(2 * i - 1, Ordering::Release);
                until(&LINES[0].0, 2 * i);
            }
            Ok(())
        })
    };
    (0..SAMPLES / 2).map(|_| once()).collect()
}

fn ring(rank: &mut Rank<'_, State>) -> Result<f64, GasError> {
    reset(rank, RAW_RING, FLOOD, 0)?;
    each(FLOOD, || {
        for i in 1..=FLOOD {
            let Line(request, reply) = &LINES[(i as usize - 1) % RING];
            until(reply, i.saturating_sub(RING as u32));
            request.store(i, Ordering::Release);
        }
        for i in FLOOD - RING as u32 + 1..=FLOOD {
            until(&LINES[(i as usize - 1) % RING].1, i);
        }
        Ok(())
    })
}
