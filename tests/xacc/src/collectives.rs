//! Programs of collectives: each checks what it gets.

use crate::check;
use hamr_xacc::prelude::*;

/// A value of a node: not of equal ones, and sums of them depend on their order.
fn value(node: impl Into<i64>, round: u32) -> f64 {
    (node.into() * 7919 % 13 + 1) as f64 / f64::from(round + 3)
}

fn sum_of(set: NodeSet, round: u32) -> f64 {
    let mut ranks = set.ranks().map(|rank| value(rank, round));
    let first = ranks.next().unwrap_or(0.0);
    ranks.fold(first, |sum, value| sum + value)
}

/// All collectives, `rounds` times. The bits of what was computed, which are the same on every node.
#[offload]
pub fn collectives(w: &mut Spmd, rounds: u32) -> Result<u64, Fault> {
    let (me, n) = (w.me(), w.size());
    let all = w.set();
    let mut bits = 0;
    for round in 0..rounds {
        let mine = value(me, round);
        let sum = w.reduce(Sum, mine)?;
        check(sum.to_bits() == sum_of(all, round).to_bits(), "the sum is not in the order of the nodes")?;
        bits = (bits ^ sum.to_bits()).wrapping_mul(0x100_0000_01B3);
        w.barrier()?;
        operations(w, me, n)?;
        let mut values = [0i64; 77];
        values.iter_mut().zip(0..).for_each(|(value, i)| *value = me << 32 | i);
        w.reduce_slice(Sum, &mut values)?;
        let ranks = n * (n - 1) / 2;
        let is_sum = |(i, value): (i64, &i64)| *value == (ranks << 32) + i * n;
        check((0..).zip(&values).all(is_sum), "another sum of slices")?;
        for root in 0..n {
            let mut got = (me, [mine; 3]);
            w.bcast(root, &mut got)?;
            check(got == (root, [value(root, round); 3]), "another broadcast")?;
        }
        check(w.bcast(n, &mut 0u8).is_err(), "a broadcast from nowhere")?;
        subsets(w, round)?;
    }
    Ok(bits)
}

fn operations(w: &mut Spmd, me: i64, n: i64) -> Result<(), Fault> {
    check(w.reduce(Prod, 2u32)? == 1 << n, "product")?;
    check(w.reduce(Max, (me as i32, -(me as f32)))? == (n as i32 - 1, 0.0), "greatest")?;
    check(w.reduce(Min, [me, 5 + n - me])? == [0, 6], "least")?;
    check(w.reduce(And, !(1u64 << me))? == !((1u64 << n) - 1), "and")?;
    check(w.reduce(Or, 1u8 << (me % 8))? == ((1u16 << n) - 1) as u8, "or")?;
    check(w.reduce(Xor, 1i64)? == n % 2, "xor")?;
    check(w.reduce(All, me < n)? && w.reduce(All, me == 0)? == (n == 1), "all")?;
    check(w.reduce(Any, me == n - 1)? && !w.reduce(Any, me == n)?, "any")?;
    // Equal ones on all nodes, and places in another order than the nodes'.
    check(w.reduce(FirstMax, (1.5f32, n - me))? == (1.5, 1), "first greatest")?;
    check(w.reduce(LastMax, (1.5f32, [n - me]))? == (1.5, [n]), "last greatest")?;
    check(w.reduce(FirstMin, (-(me as i32), me))? == (1 - n as i32, n - 1), "first least")?;
    check(w.reduce(LastMin, (0u8, (me, me)))? == (0, (n - 1, n - 1)), "last least")
}

fn subsets(w: &mut Spmd, round: u32) -> Result<(), Fault> {
    let (me, n, all) = (w.me(), w.size(), w.set());
    let halves: [NodeSet; 2] = [0, 1].map(|odd| (0..n).filter(|rank| rank % 2 == odd).collect());
    let mine = halves[(me % 2) as usize];
    let sum = w.reduce_on(mine, Sum, value(me, round))?;
    check(sum.to_bits() == sum_of(mine, round).to_bits(), "another sum of a half")?;
    w.barrier_on(mine)?;
    check(w.reduce_on(halves[1 - (me % 2) as usize], Sum, 0.0f64).is_err(), "this node is not in that half")?;
    // Numbered anew inside, and as before behind it.
    let got = w.task(halves[0], |w| {
        let inner = w.task(NodeSet::one(0), |w| w.reduce(Sum, 1u32))?.transpose()?;
        check(inner == (w.me() == 0).then_some(1), "a task in a task")?;
        check(w.task(all, |_| ()).is_err() == (n > 1), "a task on more nodes")?;
        w.reduce(Sum, (w.me(), w.size()))
    });
    let members = (n + 1) / 2;
    let wanted = (members * (members - 1) / 2, members * members);
    check(got?.transpose()? == (me % 2 == 0).then_some(wanted), "another sum in a task")?;
    check(w.task_nocomm(halves[1], || 3)? == (me % 2 == 1).then_some(3), "a task without communication")?;
    check((w.me(), w.size()) == (me, n), "the set is what it was")
}

/// Collectives that [`mismatch()`] calls, and how faults name them.
pub const NAMES: [&str; 10] = [
    "barrier",
    "reduce(Sum, f64)",
    "reduce(Max, f64)",
    "reduce(Sum, u32)",
    "bcast(f64) from 0",
    "bcast(f64) from 1",
    "array of 1 [f64; 8]",
    "array of 2 [f64; 8]",
    "the end of a scope",
    "its end",
];

/// Node 0 calls one of [`NAMES`], the others another one.
#[offload]
pub fn mismatch(w: &mut Spmd, first: u32, others: u32) -> Result<(), Fault> {
    match if w.me() == 0 { first } else { others } {
        0 => w.barrier(),
        1 => w.reduce(Sum, 1.0f64).map(drop),
        2 => w.reduce(Max, 1.0f64).map(drop),
        3 => w.reduce(Sum, 1u32).map(drop),
        root @ (4 | 5) => w.bcast(root - 4, &mut 1.0f64),
        size @ (6 | 7) => {
            let line = w.nodes([w.size()])?.template([i64::from(size - 5)]).distribute([Block])?;
            line.zeros::<[f64; 8]>(w).map(drop)
        }
        8 => w.scope(|_| Ok(())),
        _ => Ok(()),
    }
}
