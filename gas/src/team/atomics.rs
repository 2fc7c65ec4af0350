//! Domains of remote atomics (`gex_AD_…`).

use super::{MAX_MEMBERS, Member, Team};
use crate::collective::{Collective, CollectiveCall};
use crate::{GasError, Rank};
use core::convert::identity;
use core::marker::PhantomData;
use hamr_comm::world::{AtomicOp, SegAddr};

/// An operation of a domain (`gex_OP_…`). Each gives the value before it, `Set` its own.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Amo<T> {
    /// No change.
    Get,
    /// Sets it.
    Set(T),
    /// Sets it; as one with the load of the former value.
    Swap(T),
    /// Sets it to `new` if it has the bits of `expected`.
    CompareSwap {
        /// What it must be.
        expected: T,
        /// What it becomes then.
        new: T,
    },
    /// Adds. Integers wrap, here and below.
    Add(T),
    /// Subtracts.
    Sub(T),
    /// Multiplies.
    Mult(T),
    /// Adds 1.
    Inc,
    /// Subtracts 1.
    Dec,
    /// The lesser.
    Min(T),
    /// The greater.
    Max(T),
    /// Bitwise and, of integers, as the next two.
    And(T),
    /// Bitwise or.
    Or(T),
    /// Bitwise exclusive or.
    Xor(T),
}

impl<T: AmoValue> Amo<T> {
    /// Applies it to a number that `word` reaches, by atomic accesses; the value before. For interfaces in other languages.
    #[doc(hidden)]
    pub fn apply_to<E>(self, word: impl FnMut(AtomicOp<T::Word>) -> Result<T::Word, E>) -> Result<T, E> {
        T::apply(self, word)
    }
}

impl<T> Amo<T> {
    fn bit(&self) -> u32 {
        1 << match self {
            Self::Get => 0,
            Self::Set(_) => 1,
            Self::Swap(_) => 2,
            Self::CompareSwap { .. } => 3,
            Self::Add(_) => 4,
            Self::Sub(_) => 5,
            Self::Mult(_) => 6,
            Self::Inc => 7,
            Self::Dec => 8,
            Self::Min(_) => 9,
            Self::Max(_) => 10,
            Self::And(_) => 11,
            Self::Or(_) => 12,
            Self::Xor(_) => 13,
        }
    }
}

mod sealed {
    use super::{Amo, AtomicOp};
    use hamr_comm::world::AtomicValue;

    pub trait Apply: Copy {
        /// As in C (`GEX_DT_…`).
        const TYPE: u8;
        /// What processors have atomics for.
        type Word: AtomicValue;
        fn apply<E>(op: Amo<Self>, word: impl FnMut(AtomicOp<Self::Word>) -> Result<Self::Word, E>) -> Result<Self, E>;
    }
}

/// A type of domains: `i32`, `u32`, `f32`; `i64`, `u64`, `f64` on machines that have atomics of 64 bits.
pub trait AmoValue: sealed::Apply {}

/// Changes a number by a function, as one; the value before.
macro_rules! change {
    ($word:expr, |$x:ident| $new:expr, $from:expr, $to:expr) => {{
        let mut seen = $word(AtomicOp::Load)?;
        loop {
            let $x = $from(seen);
            let was = $word(AtomicOp::CompareSwap { expected: seen, new: $to($new) })?;
            if was == seen {
                return Ok($x);
            }
            seen = was;
        }
    }};
}

macro_rules! integers {
    ($($t:ty = $code:literal)*) => {$(
        impl AmoValue for $t {}
        impl sealed::Apply for $t {
            const TYPE: u8 = $code;
            type Word = Self;
            fn apply<E>(op: Amo<Self>, mut word: impl FnMut(AtomicOp<Self>) -> Result<Self, E>) -> Result<Self, E> {
                let op = match op {
                    Amo::Get => AtomicOp::Load,
                    Amo::Set(x) => AtomicOp::Store(x),
                    Amo::Swap(x) => AtomicOp::Swap(x),
                    Amo::CompareSwap { expected, new } => AtomicOp::CompareSwap { expected, new },
                    Amo::Add(x) => AtomicOp::Add(x),
                    Amo::Sub(x) => AtomicOp::Add(x.wrapping_neg()),
                    Amo::Mult(by) => change!(word, |x| x.wrapping_mul(by), identity::<$t>, identity::<$t>),
                    Amo::Inc => AtomicOp::Add(1),
                    Amo::Dec => AtomicOp::Add((1 as $t).wrapping_neg()),
                    Amo::Min(x) => AtomicOp::Min(x),
                    Amo::Max(x) => AtomicOp::Max(x),
                    Amo::And(x) => AtomicOp::And(x),
                    Amo::Or(x) => AtomicOp::Or(x),
                    Amo::Xor(x) => AtomicOp::Xor(x),
                };
                word(op)
            }
        }
    )*};
}
integers! { i32 = 1 u32 = 2 }
#[cfg(target_has_atomic = "64")]
integers! { i64 = 4 u64 = 8 }

macro_rules! floats {
    ($($t:ty as $bits:ty = $code:literal)*) => {$(
        impl AmoValue for $t {}
        impl sealed::Apply for $t {
            const TYPE: u8 = $code;
            type Word = $bits;
            fn apply<E>(op: Amo<Self>, mut word: impl FnMut(AtomicOp<$bits>) -> Result<$bits, E>) -> Result<Self, E> {
                let with = |x: $t| -> $t {
                    match op {
                        Amo::Add(y) => x + y,
                        Amo::Sub(y) => x - y,
                        Amo::Mult(y) => x * y,
                        Amo::Inc => x + 1.0,
                        Amo::Dec => x - 1.0,
                        Amo::Min(y) if y < x => y,
                        Amo::Max(y) if y > x => y,
                        // The others are below, or no operations of a domain of this type.
                        _ => x,
                    }
                };
                let op = match op {
                    Amo::Get => AtomicOp::Load,
                    Amo::Set(x) => AtomicOp::Store(x.to_bits()),
                    Amo::Swap(x) => AtomicOp::Swap(x.to_bits()),
                    Amo::CompareSwap { expected, new } => {
                        AtomicOp::CompareSwap { expected: expected.to_bits(), new: new.to_bits() }
                    }
                    _ => change!(word, |x| with(x), <$t>::from_bits, <$t>::to_bits),
                };
                word(op).map(<$t>::from_bits)
            }
        }
    )*};
}
floats! { f32 as u32 = 0x10 }
#[cfg(target_has_atomic = "64")]
floats! { f64 as u64 = 0x20 }

/// Numbers of one type in the segments of a team, and what its members do with them (`gex_AD_t`).
pub struct AtomicDomain<T> {
    members: heapless::Vec<Member, MAX_MEMBERS>,
    ops: u32,
    _value: PhantomData<fn(T) -> T>,
}

impl<T: AmoValue> AtomicDomain<T> {
    /// A domain of these operations, whatever their operands; all members call it (`gex_AD_Create`).
    ///
    /// # Errors
    /// [`GasError::Unequal`]: members have other types or operations. [`GasError::Operation`]: bits of `f32` or `f64`.
    pub fn new<S>(rank: &mut Rank<'_, S>, team: &mut Team, ops: &[Amo<T>]) -> Result<Self, GasError> {
        let ops = ops.iter().fold(0, |all, op| all | op.bit());
        if T::TYPE >= 0x10 && ops >> 11 != 0 {
            return Err(GasError::Operation);
        }
        let call = CollectiveCall::new(Collective::Domain, ops as usize, T::TYPE.into(), None);
        team.exchange(rank, call, &[])?;
        Ok(Self { members: team.members.clone(), ops, _value: PhantomData })
    }

    /// Applies an operation to the number at `off` in a member's segment, a multiple of its size (`gex_AD_OpNB_…`, and its
    /// wait); the value before. It is atomic with all operations of domains and of
    /// [`WorldRef::atomic`](hamr_comm::world::WorldRef::atomic), also where transfers go over messages, and with no puts.
    ///
    /// # Errors
    /// [`GasError::Operation`]: the domain is not for it; [`GasError::NoRank`], [`GasError::Reach`].
    pub fn apply<S>(&self, rank: &Rank<'_, S>, member: u32, off: u64, op: Amo<T>) -> Result<T, GasError> {
        let member = self.members.get(member as usize).ok_or(GasError::NoRank(member))?.rank;
        if self.ops & op.bit() == 0 {
            return Err(GasError::Operation);
        }
        let at = SegAddr { rank: member, off };
        let done = T::apply(op, |op| rank.world.atomic(at, op));
        done.map_err(|why| GasError::Reach { rank: member.0, why })
    }
}
