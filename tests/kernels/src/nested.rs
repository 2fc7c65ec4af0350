//! A tree of calls, each of which waits for those below it: of tasks on this rank and the others, and
//! of the host, whose bodies call back. What it comes to is known beforehand.

use crate::host_calls::callback;
use crate::lanes::begin;
use crate::worlds::world_of;
use hamr_comm::abi::ids::RankId;
use hamr_comm::{Fault, HOST, Task, offload};

/// A call of the tree: its seed says what is below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Any number.
    pub seed: u32,
    /// Levels below it.
    pub depth: u32,
}

/// What the calls of a tree come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, hamr_comm::Migratable)]
pub struct Sum {
    /// Calls of all kinds.
    pub calls: u32,
    /// Of their seeds.
    pub seeds: u32,
}

impl Sum {
    /// As the number that [`callback()`] returns.
    pub fn number(self) -> u64 {
        u64::from(self.calls) << 32 | u64::from(self.seeds)
    }

    fn of_number(number: u64) -> Self {
        Self { calls: (number >> 32) as u32, seeds: number as u32 }
    }

    fn add(&mut self, other: Self) {
        *self = Self { calls: self.calls + other.calls, seeds: self.seeds.wrapping_add(other.seeds) };
    }
}

fn mixed(seed: u32) -> u32 {
    let seed = (seed ^ seed >> 16).wrapping_mul(0x7FEB_352D);
    (seed ^ seed >> 15).wrapping_mul(0x846C_A68B)
}

impl Place {
    /// The calls below it.
    fn below(self) -> impl Iterator<Item = Self> {
        let Self { seed, depth } = self;
        let count = if depth == 0 { 0 } else { 1 + mixed(seed) % 2 };
        (1..=count).map(move |i| Self { seed: mixed(seed.wrapping_add(i)), depth: depth - 1 })
    }

    /// Who is called: a rank, or `size`: the host.
    fn callee(self, size: u32) -> u32 {
        (self.seed >> 8) % (size + 1)
    }

    /// As the number that [`callback()`] takes.
    fn number(self) -> u64 {
        u64::from(self.seed) << 32 | u64::from(self.depth)
    }

    /// The call behind that number.
    pub fn of_number(number: u64) -> Self {
        Self { seed: (number >> 32) as u32, depth: number as u32 }
    }

    /// What [`nest()`] returns for it.
    pub fn expected(self, size: u32) -> Sum {
        let mut sum = Sum { calls: 2, seeds: self.seed };
        for below in self.below() {
            sum.add(below.expected(size));
            // A body on the host makes the call in between.
            sum.calls += u32::from(below.callee(size) == size);
        }
        sum
    }
}

/// Makes the calls below this one, each at a rank or at the host, one behind the other, and one of an
/// inline handler of the next rank meanwhile.
#[offload(unordered)]
pub fn nest(task: &mut Task, seed: u32, depth: u32) -> Result<Sum, Fault> {
    let (me, size) = {
        let world = world_of(task.world())?;
        (world.me().0, world.size())
    };
    let next = (me + 1) % size;
    let inline = begin(task, RankId(next), seed.into())?;
    let mut sum = Sum { calls: 2, seeds: seed };
    for below in (Place { seed, depth }).below() {
        let callee = below.callee(size);
        if callee == size {
            sum.add(Sum::of_number(task.sync(HOST, callback::with(below.number()))?));
            sum.calls += 1;
        } else {
            sum.add(task.sync(RankId(callee), nest::with(below.seed, below.depth))?);
        }
    }
    match task.wait_for(inline)? {
        (rank, number) if (rank, number) == (next, u64::from(seed) + 1) => Ok(sum),
        _ => Err(Fault::msg("another rank or number")),
    }
}
