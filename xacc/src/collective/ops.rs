//! Operations that combine values: associative ones, so that a program gets the same on any number of
//! nodes but for rounding.

use hamr_comm::Migratable;

/// An operation on values of a type.
pub trait Op<V> {
    /// Its name in messages; 8 letters of it count.
    const NAME: &'static str;
    /// Of two values, `a` being that of nodes before.
    fn combine(a: V, b: V) -> V;
}

/// A number, or several: operations on tuples and arrays are on each element.
pub trait Number: Migratable + Copy {
    /// `a + b`; integers wrap.
    #[must_use]
    fn sum(a: Self, b: Self) -> Self;
    /// `a * b`; integers wrap.
    #[must_use]
    fn product(a: Self, b: Self) -> Self;
    /// The greater, of zeros that without a sign; the first where one is NaN.
    #[must_use]
    fn greater(a: Self, b: Self) -> Self;
    /// The lesser, of zeros that with a sign; the first where one is NaN.
    #[must_use]
    fn lesser(a: Self, b: Self) -> Self;
}

/// Bits that operations combine.
pub trait BitOps: Migratable + Copy {
    /// `a & b`.
    #[must_use]
    fn both(a: Self, b: Self) -> Self;
    /// `a | b`.
    #[must_use]
    fn either(a: Self, b: Self) -> Self;
    /// `a ^ b`.
    #[must_use]
    fn differ(a: Self, b: Self) -> Self;
}

macro_rules! numbers {
    ($($t:ty: $a:ident $b:ident $sum:expr, $product:expr, $greater:expr, $lesser:expr;)*) => {$(
        impl Number for $t {
            #[inline(always)]
            fn sum($a: Self, $b: Self) -> Self {
                $sum
            }
            #[inline(always)]
            fn product($a: Self, $b: Self) -> Self {
                $product
            }
            #[inline(always)]
            fn greater($a: Self, $b: Self) -> Self {
                $greater
            }
            #[inline(always)]
            fn lesser($a: Self, $b: Self) -> Self {
                $lesser
            }
        }
    )*};
    // Equal floats are the same bits, but for zeros: both signs, or none of them, and no branch for it.
    (float $($t:ty)*) => {
        numbers! {$(
            $t: a b a + b, a * b,
                if a == b { Self::from_bits(a.to_bits() & b.to_bits()) } else if b > a { b } else { a },
                if a == b { Self::from_bits(a.to_bits() | b.to_bits()) } else if b < a { b } else { a };
        )*}
    };
    (integer $($t:ty)*) => {
        numbers! {$($t: a b a.wrapping_add(b), a.wrapping_mul(b), a.max(b), a.min(b);)*}
    };
}
numbers! { float f32 f64 }
numbers! { integer u8 i8 u16 i16 u32 i32 u64 i64 }

macro_rules! bits {
    ($($t:ty)*) => {$(
        impl BitOps for $t {
            fn both(a: Self, b: Self) -> Self {
                a & b
            }
            fn either(a: Self, b: Self) -> Self {
                a | b
            }
            fn differ(a: Self, b: Self) -> Self {
                a ^ b
            }
        }
    )*};
}
bits! { bool u8 i8 u16 i16 u32 i32 u64 i64 }

macro_rules! tuples {
    ($(($($t:ident $i:tt)*))*) => {$(
        impl<$($t: Number),*> Number for ($($t,)*) {
            fn sum(a: Self, b: Self) -> Self {
                ($($t::sum(a.$i, b.$i),)*)
            }
            fn product(a: Self, b: Self) -> Self {
                ($($t::product(a.$i, b.$i),)*)
            }
            fn greater(a: Self, b: Self) -> Self {
                ($($t::greater(a.$i, b.$i),)*)
            }
            fn lesser(a: Self, b: Self) -> Self {
                ($($t::lesser(a.$i, b.$i),)*)
            }
        }
    )*};
}
tuples! { (A 0 B 1) (A 0 B 1 C 2) (A 0 B 1 C 2 D 3) }

impl<T: Number, const N: usize> Number for [T; N] {
    fn sum(a: Self, b: Self) -> Self {
        core::array::from_fn(|i| T::sum(a[i], b[i]))
    }
    fn product(a: Self, b: Self) -> Self {
        core::array::from_fn(|i| T::product(a[i], b[i]))
    }
    fn greater(a: Self, b: Self) -> Self {
        core::array::from_fn(|i| T::greater(a[i], b[i]))
    }
    fn lesser(a: Self, b: Self) -> Self {
        core::array::from_fn(|i| T::lesser(a[i], b[i]))
    }
}

macro_rules! ops {
    ($($(#[$doc:meta])* $op:ident: $v:ident $(: $bound:ident)?, $a:ident $b:ident $combine:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $op;
        ops!(@impl $op $v $($bound)?; $a $b $combine);
    )*};
    (@impl $op:ident $v:ident $bound:ident; $a:ident $b:ident $combine:expr) => {
        impl<$v: $bound> Op<$v> for $op {
            const NAME: &'static str = stringify!($op);
            #[inline(always)]
            fn combine($a: $v, $b: $v) -> $v {
                $combine
            }
        }
    };
    (@impl $op:ident $v:ident; $a:ident $b:ident $combine:expr) => {
        impl Op<$v> for $op {
            const NAME: &'static str = stringify!($op);
            #[inline(always)]
            fn combine($a: $v, $b: $v) -> $v {
                $combine
            }
        }
    };
}
ops! {
    /// The sum.
    Sum: V: Number, a b V::sum(a, b);
    /// The product.
    Prod: V: Number, a b V::product(a, b);
    /// The greatest.
    Max: V: Number, a b V::greater(a, b);
    /// The least.
    Min: V: Number, a b V::lesser(a, b);
    /// Bits that all have.
    And: V: BitOps, a b V::both(a, b);
    /// Bits that any has.
    Or: V: BitOps, a b V::either(a, b);
    /// Bits that an odd number has.
    Xor: V: BitOps, a b V::differ(a, b);
    /// True on all.
    All: bool, a b a && b;
    /// True on any.
    Any: bool, a b a || b;
}

macro_rules! located {
    ($($(#[$doc:meta])* $op:ident: $better:tt $nearer:tt;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $op;
        impl<V: PartialOrd + Copy, L: PartialOrd + Copy> Op<(V, L)> for $op {
            const NAME: &'static str = stringify!($op);
            fn combine(a: (V, L), b: (V, L)) -> (V, L) {
                let is_extreme = |value: V| value.partial_cmp(&value).is_some();
                let is_better = match (is_extreme(a.0), is_extreme(b.0)) {
                    (true, true) => b.0 $better a.0 || b.0 == a.0 && b.1 $nearer a.1,
                    // NaN is no extreme.
                    (first, second) => second && !first,
                };
                if is_better { b } else { a }
            }
        }

        /// Of nodes that may have none.
        impl<V: PartialOrd + Copy, L: PartialOrd + Copy> Op<Option<(V, L)>> for $op {
            const NAME: &'static str = stringify!($op);
            fn combine(a: Option<(V, L)>, b: Option<(V, L)>) -> Option<(V, L)> {
                match (a, b) {
                    (Some(a), Some(b)) => Some(Self::combine(a, b)),
                    (a, b) => a.or(b),
                }
            }
        }
    )*};
}
located! {
    /// The greatest with its place, which is any value that has an order; of equal ones the first.
    FirstMax: > <;
    /// The greatest with its place; of equal ones the last.
    LastMax: > >;
    /// The least with its place; of equal ones the first.
    FirstMin: < <;
    /// The least with its place; of equal ones the last.
    LastMin: < >;
}
