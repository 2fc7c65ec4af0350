//! Handlers of ranks that reach each other. What a rank stores follows from its number and a seed, so
//! that every rank can check every segment.

use crate::worlds::world_of;
use core::time::Duration;
use hamr_comm::abi::ids::RankId;
use hamr_comm::world::{AtomicOp, SegAddr, Strided, WorldRef};
use hamr_comm::{Context, Fault, Task, offload};

/// Where [`contend()`] counts, at rank 0: no other handler writes there.
pub const COUNTS: u64 = 0x8000;

/// Bytes of one block.
pub const BLOCK: usize = 256;

fn byte(seed: u32, i: usize) -> u8 {
    (seed as usize).wrapping_mul(31).wrapping_add(i.wrapping_mul(i + 7)) as u8
}

fn block(seed: u32) -> [u8; BLOCK] {
    core::array::from_fn(|i| byte(seed, i))
}

fn check(is_right: bool, what: &str) -> Result<(), Fault> {
    if is_right { Ok(()) } else { Err(Fault::msg(what)) }
}

/// Puts `len` bytes of a block to a rank, gets them back, and returns the number of bytes around them
/// that changed.
#[offload]
pub fn put_block(cx: &mut Context, to: u32, off: u64, len: u32, seed: u32) -> Result<u32, Fault> {
    let world = world_of(cx.world())?;
    let (to, from) = (RankId(to), block(seed));
    let from = from.get(..len as usize).ok_or_else(|| Fault::msg("longer than a block"))?;
    let mut around = [[0; BLOCK]; 2];
    let before = |around: &mut [u8; BLOCK]| match off.checked_sub(BLOCK as u64) {
        Some(off) => world.get(to, off, around),
        None => Ok(()),
    };
    before(&mut around[0])?;
    world.put(to, off, from)?;
    before(&mut around[1])?;
    let mut back = [0; BLOCK];
    let back = back.get_mut(..from.len()).unwrap_or_default();
    world.get(to, off, back)?;
    check(back == from, "another block came back")?;
    Ok(around[0].iter().zip(&around[1]).filter(|(a, b)| a != b).count() as u32)
}

/// Stores one value of each kind at a rank and loads it again; then values that are refused.
#[offload]
pub fn put_values(cx: &mut Context, to: u32, off: u64) -> Result<(), Fault> {
    let world = world_of(cx.world())?;
    let to = RankId(to);
    macro_rules! values {
        ($($value:expr),*) => {$(
            world.put_value(to, off, $value)?;
            check($value == world.get_value(to, off)?, "another value came back")?;
            check(size_of_val(&$value) == 1 || world.put_value(to, off + 1, $value).is_err(), "misaligned")?;
        )*};
    }
    values!(0xA5u8, -5i8, 0xA55Au16, -3000i16, 0xDEAD_BEEFu32, -7i32, 1.5f32, u64::MAX - 3, i64::MIN, -0.25f64);
    let len = world.segment().len() as u64;
    check(world.put_value(to, len - 8, 1u64).is_ok(), "the last word is inside")?;
    for off in [len - 7, len, u64::MAX, u64::MAX - 7] {
        check(world.put_value(to, off, 1u64).is_err(), "outside")?;
        check(world.put(to, off, &[1; 8]).is_err() && world.get(to, off, &mut [0; 8]).is_err(), "outside")?;
        check(world.atomic(SegAddr { rank: to, off }, AtomicOp::Add(1u64)).is_err(), "outside")?;
    }
    let none = RankId(world.size());
    check(world.put(none, 0, &[1]).is_err() && world.signal(none, 0, 1).is_err(), "no rank")?;
    check(world.signal(to, 32, 1).is_err() && world.signalled(to, u32::MAX).is_err(), "no word")
}

/// Copies between the segments of any two ranks.
#[offload]
pub fn copy_block(cx: &mut Context, from: (u32, u64), to: (u32, u64), bytes: u64) -> Result<(), Fault> {
    let at = |(rank, off)| SegAddr { rank: RankId(rank), off };
    Ok(world_of(cx.world())?.copy(at(from), at(to), bytes)?)
}

/// Bytes at a rank, that differ from a block.
#[offload]
pub fn differ(cx: &mut Context, from: u32, off: u64, len: u32, seed: u32) -> Result<u32, Fault> {
    let mut got = [0; BLOCK];
    let got = got.get_mut(..len as usize).ok_or_else(|| Fault::msg("longer than a block"))?;
    world_of(cx.world())?.get(RankId(from), off, got)?;
    Ok(got.iter().zip(block(seed)).filter(|(a, b)| **a != *b).count() as u32)
}

/// A strided put and get against plain loops, of random shapes.
#[offload]
pub fn strides(cx: &mut Context, to: u32, cases: u32, seed: u64) -> Result<u32, Fault> {
    const BYTES: usize = 2048;
    let world = world_of(cx.world())?;
    let to = RankId(to);
    let mut random = seed | 1;
    let mut number = |most: usize| {
        random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (random >> 33) as usize % most
    };
    let mut copied = 0;
    for case in 0..cases {
        let (mut counts, mut here, mut there) = ([1; 7], [0; 7], [0; 7]);
        let levels = number(8);
        let run = [1, 3, 4, 8, 16, 24][number(6)];
        for i in 0..levels {
            // Runs of one group do not overlap, or the order would count.
            let extent = |strides: &[usize]| (0..i).fold(run, |sum, i| sum + (counts[i] - 1) * strides[i]);
            let (a, b) = (extent(&here), extent(&there));
            (here[i], there[i]) = (a + number(3) * number(5), b + number(2) * number(9));
            counts[i] = 1 + number(3);
            let fits = |strides: &[usize; 7]| (0..=i).fold(run, |sum, i| sum + (counts[i] - 1) * strides[i]) <= BYTES;
            if !fits(&here) || !fits(&there) {
                counts[i] = 1;
            }
        }
        let from: [u8; BYTES] = core::array::from_fn(|i| byte(case, i));
        let shape = Strided { run, counts: &counts[..levels], here: &here[..levels], there: &there[..levels] };
        let mut plain = [0; BYTES];
        let mut back = [0; BYTES];
        let mut at = [0; 7];
        loop {
            let place = |strides: &[usize; 7]| (0..levels).map(|i| at[i] * strides[i]).sum::<usize>();
            let (a, b) = (place(&here), place(&there));
            plain[b..b + run].copy_from_slice(&from[a..a + run]);
            back[a..a + run].copy_from_slice(&from[a..a + run]);
            copied += run as u32;
            let Some(next) = (0..levels).find(|i| at[*i] + 1 < counts[*i]) else { break };
            at[next] += 1;
            at[..next].fill(0);
        }
        world.put(to, 64, &[0; BYTES])?;
        world.put_strided(to, 64, &from, &shape)?;
        let mut got = [1; BYTES];
        world.get(to, 64, &mut got)?;
        check(got == plain, "a strided put differs from plain loops")?;
        let mut got = [0; BYTES];
        world.get_strided(to, 64, &mut got, &shape)?;
        check(got == back, "a strided get differs from plain loops")?;
    }
    refused_strides(&world, to)?;
    Ok(copied)
}

/// Shapes that leave their memory, and malformed ones.
fn refused_strides(world: &WorldRef<'_>, to: RankId) -> Result<(), Fault> {
    let len = world.segment().len();
    let seventh = [len / 7];
    let shape = |run, counts, here, there| Strided { run, counts, here, there };
    let wrong = [
        (0, shape(8, &[2], &[8, 8], &[8])),
        (0, shape(8, &[1; 8], &[8; 8], &[8; 8])),
        (0, shape(8, &[2], &[usize::MAX], &[8])),
        (0, shape(8, &[2], &[8], &[usize::MAX])),
        (0, shape(8, &[usize::MAX], &[16], &[16])),
        (0, shape(usize::MAX, &[2], &[usize::MAX], &[usize::MAX])),
        (0, shape(8, &[9], &[8], &[8])),
        (0, shape(8, &[8], &[9], &[8])),
        (len as u64 - 63, shape(8, &[8], &[8], &[8])),
        (0, shape(8, &[8], &[8], &seventh)),
        (u64::MAX - 7, shape(8, &[2], &[8], &[16])),
    ];
    for (off, shape) in wrong {
        check(world.put_strided(to, off, &[7; 64], &shape).is_err(), "put: a wrong shape was taken")?;
        check(world.get_strided(to, off, &mut [7; 64], &shape).is_err(), "get: a wrong shape was taken")?;
    }
    let none = [shape(8, &[0], &[usize::MAX], &[usize::MAX]), shape(0, &[3], &[100], &[100])];
    for shape in none {
        world.put_strided(to, 0, &[], &shape)?;
    }
    // One run may have any distance to the next, which there is none of.
    let one = shape(8, &[1, 1, 1], &[usize::MAX, 3, usize::MAX], &[9, usize::MAX, usize::MAX]);
    Ok(world.put_strided(to, 0, &[7; 8], &one)?)
}

/// Changes words of rank 0 that all ranks change at the same time: a sum of 32 bits, one of 64 bits,
/// one by compare-swap, a maximum, a minimum, bits.
#[offload]
pub fn contend(cx: &mut Context, rounds: u32) -> Result<(), Fault> {
    let world = world_of(cx.world())?;
    let me = world.me().0;
    let at = |word: u64| SegAddr { rank: RankId(0), off: COUNTS + word * 8 };
    for i in 0..rounds {
        world.atomic(at(0), AtomicOp::Add(1u32))?;
        world.atomic(at(1), AtomicOp::Add(-3i64))?;
        let mut expected = world.atomic(at(2), AtomicOp::Load)?;
        loop {
            let new = u64::wrapping_add(expected, 5);
            let got = world.atomic(at(2), AtomicOp::CompareSwap { expected, new })?;
            if got == expected {
                break;
            }
            expected = got;
        }
        let unique = (i * world.size() + me) as i32;
        world.atomic(at(3), AtomicOp::Max(unique))?;
        world.atomic(at(4), AtomicOp::Min(-i64::from(unique)))?;
        world.atomic(at(5), AtomicOp::Xor(1u64 << me))?;
        world.atomic(at(6), AtomicOp::Or(1u32 << (me % 32)))?;
    }
    Ok(())
}

/// A number of rank `of`'s segment.
#[offload]
pub fn number_at(cx: &mut Context, of: u32, off: u64) -> Result<u64, Fault> {
    Ok(world_of(cx.world())?.get_value(RankId(of), off)?)
}

/// Signals to and fro between two ranks, each behind a put that the other checks. The one that is told
/// `begins` sends first; both pause between.
#[offload]
pub fn ping_pong(task: &mut Task, peer: u32, begins: bool, rounds: u32, pause_us: u32) -> Result<u64, Fault> {
    let peer = RankId(peer);
    let world = world_of(task.world())?;
    let begin = task.micros();
    for i in 1..=rounds {
        if begins {
            world.put_value(peer, 4096, u64::from(i) * 3)?;
            world.signal(peer, 3, i)?;
        }
        task.wait_signal(peer, 3, |value| value == i)?;
        let want = u64::from(i) * if begins { 5 } else { 3 };
        check(world.get_value::<u64>(world.me(), 4096)? == want, "a signal came before its put")?;
        if !begins {
            if pause_us != 0 {
                task.sleep(Duration::from_micros(pause_us.into()))?;
            }
            world.put_value(peer, 4096, u64::from(i) * 5)?;
            world.signal(peer, 3, i)?;
        }
    }
    Ok(task.micros() - begin)
}

/// So many barriers; around each, every rank sees what all the others put before it.
#[offload]
pub fn barriers(task: &mut Task, rounds: u32) -> Result<u32, Fault> {
    let world = world_of(task.world())?;
    let (me, size) = (world.me().0, world.size());
    for i in 1..=rounds {
        let next = RankId((me + 1) % size);
        world.put_value(next, 512 + u64::from(me) * 8, u64::from(i))?;
        task.barrier()?;
        let before = (me + size - 1) % size;
        check(world.get_value::<u64>(RankId(me), 512 + u64::from(before) * 8)? == u64::from(i), "a rank was missed")?;
        task.barrier()?;
    }
    Ok(rounds)
}

/// Waits in one of the ways for what never comes; `at` fails instead, or panics.
#[offload]
pub fn waits_for_ever(task: &mut Task, how: u32, at: u32) -> Result<u32, Fault> {
    let me = world_of(task.world())?.me();
    if me.0 == at {
        return match how % 2 {
            0 => Err(Fault::msg("as asked")),
            _ => panic!("rank {at} was asked to panic"),
        };
    }
    match how {
        // The first rank does not come.
        0 | 1 if me.0 != 0 => task.barrier()?,
        0 | 1 => drop(task.wait_signal(me, 31, |value| value != 0)?),
        2 | 3 => drop(task.wait_signal(me, 31, |value| value != 0)?),
        4 | 5 => task.sleep(Duration::MAX)?,
        _ => task.wait_until(|| false)?,
    }
    Ok(me.0)
}

/// A wait for a signal with a limit.
#[offload]
pub fn waits_within(task: &mut Task, micros: u32) -> Result<bool, Fault> {
    let me = world_of(task.world())?.me();
    let _limit = task.within(Duration::from_micros(micros.into()));
    Ok(task.wait_signal(me, 30, |value| value != 0).is_err())
}
