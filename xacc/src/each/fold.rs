//! Local reductions: the value of a loop.

use super::LANES;
use crate::collective::Number;
use crate::exact::Exact;
use core::marker::PhantomData;

/// A kind of reduction over values of type `V`.
pub trait Reduction<V> {
    /// What is kept during the loop.
    type Total: Copy;

    /// The value of the loop.
    type Value;

    /// Of no value.
    fn start() -> Self::Total;

    /// With the values of a chunk, in this order where it matters.
    fn add(total: Self::Total, values: [V; LANES]) -> Self::Total;

    /// With the total of what follows.
    fn join(total: &mut Self::Total, part: Self::Total);

    /// With the first `len` of some values, of which the first is in lane `lane`.
    fn add_some(total: &mut Self::Total, values: [V; LANES], lane: usize, len: usize);

    /// The value of the loop.
    fn finish(total: Self::Total) -> Self::Value;
}

/// A reduction and the type of its values, which the compiler finds out from the body.
pub struct Of<K, V>(PhantomData<(K, V)>);

impl<K, V> Clone for Of<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Of<K, V> {}

impl<K: Reduction<V>, V> Of<K, V> {
    /// Of this kind.
    #[inline(always)]
    #[expect(clippy::new_without_default, reason = "only macros make it")]
    pub fn new() -> Self {
        Self(PhantomData)
    }

    /// Of no value.
    #[inline(always)]
    pub fn start(self) -> K::Total {
        K::start()
    }

    /// With the values of a chunk.
    #[inline(always)]
    pub fn add(self, total: K::Total, values: [V; LANES]) -> K::Total {
        K::add(total, values)
    }

    /// With the total of a run's chunks. The total is in memory, because [`Self::add_some`] is never
    /// inlined: so the compiler sees here, behind the loop over chunks, that eight lanes are stored
    /// in a row, and divides those of the loop alike.
    #[inline(always)]
    pub fn join(self, total: &mut K::Total, part: K::Total) {
        K::join(total, part);
    }

    /// With the first `len` of some values, of which the first is in lane `lane`.
    #[inline(never)]
    pub fn add_some(self, total: &mut K::Total, values: [V; LANES], lane: usize, len: usize) {
        K::add_some(total, values, lane, len);
    }

    /// The value of the loop.
    #[inline(always)]
    pub fn finish(self, total: K::Total) -> K::Value {
        K::finish(total)
    }
}

/// A value that lanes combine: the result depends on its position in the run, not on how long the
/// loop takes.
pub trait Value<K>: Copy {
    /// Of no value.
    const NONE: Self;

    /// Of two values.
    fn combine(self, other: Self) -> Self;
}

/// A total for each lane, combined in order at the end. The lane of a value is its position in the
/// run modulo [`LANES`].
macro_rules! lanes {
    ($($(#[$doc:meta])* $kind:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $kind;

        impl<V: Value<$kind>> Reduction<V> for $kind {
            type Total = [V; LANES];
            type Value = V;

            #[inline(always)]
            fn start() -> [V; LANES] {
                [V::NONE; LANES]
            }

            #[inline(always)]
            fn add(total: [V; LANES], values: [V; LANES]) -> [V; LANES] {
                core::array::from_fn(|l| total[l].combine(values[l]))
            }

            #[inline(always)]
            fn join(total: &mut [V; LANES], part: [V; LANES]) {
                *total = Self::add(*total, part);
            }

            #[inline]
            fn add_some(total: &mut [V; LANES], values: [V; LANES], lane: usize, len: usize) {
                let lanes = total.iter_mut().skip(lane).take(len);
                lanes.zip(values).for_each(|(total, value)| *total = total.combine(value));
            }

            // Not where the loop is: it would be vectorised for the sake of its end.
            #[inline(never)]
            fn finish(total: [V; LANES]) -> V {
                total.into_iter().fold(V::NONE, V::combine)
            }
        }
    )*};
}

lanes! {
    /// The sum; integers wrap around. Tuples are added part by part.
    Sum
    /// The product; integers wrap around.
    Prod
    /// The largest, of zeros that without a sign; NaN does not count.
    Max
    /// The smallest, of zeros that with a sign; NaN does not count.
    Min
    /// Bits that all have.
    And
    /// Bits that any has.
    Or
    /// Bits that an odd number has.
    Xor
    /// Whether any is true.
    Any
    /// Whether all are true.
    All
}

macro_rules! values {
    ($kind:ident: $($ty:ty),* => $none:expr, |$a:ident, $b:ident| $combine:expr) => {$(
        impl Value<$kind> for $ty {
            const NONE: Self = $none;

            #[inline(always)]
            fn combine(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                $combine
            }
        }
    )*};
}

macro_rules! numbers {
    (integers: $($int:ty)*; floats: $($float:ty)*) => {
        $(
            values!(Sum: $int => 0, |a, b| a.wrapping_add(b));
            values!(Prod: $int => 1, |a, b| a.wrapping_mul(b));
            values!(Max: $int => Self::MIN, |a, b| a.max(b));
            values!(Min: $int => Self::MAX, |a, b| a.min(b));
            values!(And: $int => !0, |a, b| a & b);
            values!(Or: $int => 0, |a, b| a | b);
            values!(Xor: $int => 0, |a, b| a ^ b);
        )*
        $(
            values!(Sum: $float => 0.0, |a, b| a + b);
            values!(Prod: $float => 1.0, |a, b| a * b);
            values!(Max: $float => Self::NEG_INFINITY, |a, b| Number::greater(a, b));
            values!(Min: $float => Self::INFINITY, |a, b| Number::lesser(a, b));
        )*
    };
}

numbers!(integers: i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize; floats: f32 f64);
values!(And: bool => true, |a, b| a & b);
values!(Or: bool => false, |a, b| a | b);
values!(Xor: bool => false, |a, b| a ^ b);
values!(Any: bool => false, |a, b| a | b);
values!(All: bool => true, |a, b| a & b);

macro_rules! tuples {
    ($(($($part:ident $at:tt),*))*) => {$(
        impl<$($part: Value<Sum>),*> Value<Sum> for ($($part,)*) {
            const NONE: Self = ($($part::NONE,)*);

            #[inline(always)]
            fn combine(self, other: Self) -> Self {
                ($(self.$at.combine(other.$at),)*)
            }
        }
    )*};
}

tuples!((A 0, B 1)(A 0, B 1, C 2)(A 0, B 1, C 2, D 3));

/// Extremes with something beside them, in the order of the loop: `(value, what)`; `None` of a loop without iterations,
/// and of one whose values are all NaN. No pair is like it, so it loses on any number of nodes.
macro_rules! extremes {
    ($($(#[$doc:meta])* $kind:ident: |$new:ident, $old:ident| $better:expr)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $kind;

        impl<V: PartialOrd + Copy, W: Copy> Reduction<(V, W)> for $kind {
            type Total = Option<(V, W)>;
            type Value = Option<(V, W)>;

            fn start() -> Self::Total {
                None
            }

            fn add(mut total: Self::Total, values: [(V, W); LANES]) -> Self::Total {
                Self::add_some(&mut total, values, 0, LANES);
                total
            }

            fn join(total: &mut Self::Total, part: Self::Total) {
                if let Some(part) = part {
                    Self::add_some(total, [part; LANES], 0, 1);
                }
            }

            fn add_some(total: &mut Self::Total, values: [(V, W); LANES], _: usize, len: usize) {
                for value in values.into_iter().take(len) {
                    let $new = value.0;
                    let better = match total {
                        Some(($old, _)) => {
                            let $old = *$old;
                            $better
                        }
                        // NaN is no extreme.
                        None => $new.partial_cmp(&$new).is_some(),
                    };
                    if better {
                        *total = Some(value);
                    }
                }
            }

            fn finish(total: Self::Total) -> Option<(V, W)> {
                total
            }
        }
    )*};
}

extremes! {
    /// The first of the largest values.
    FirstMax: |new, old| new > old
    /// The first of the smallest values.
    FirstMin: |new, old| new < old
    /// The last of the largest values.
    LastMax: |new, old| new >= old
    /// The last of the smallest values.
    LastMin: |new, old| new <= old
}

/// The sum without rounding.
#[derive(Clone, Copy, Debug)]
pub struct ExactSum;

impl<V: Into<f64>> Reduction<V> for ExactSum {
    type Total = Exact;
    type Value = Exact;

    fn start() -> Exact {
        Exact::default()
    }

    #[inline]
    fn add(mut total: Exact, values: [V; LANES]) -> Exact {
        Self::add_some(&mut total, values, 0, LANES);
        total
    }

    fn join(total: &mut Exact, part: Exact) {
        total.join(&part);
    }

    #[inline]
    fn add_some(total: &mut Exact, values: [V; LANES], _: usize, len: usize) {
        values.into_iter().take(len).for_each(|value| total.add(value.into()));
    }

    fn finish(total: Exact) -> Exact {
        total
    }
}
