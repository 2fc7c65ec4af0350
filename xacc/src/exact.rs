//! Sums that no rounding depends on: of the same values in any order, by any number of nodes, the same
//! bits.
//!
//! A sum is kept as a fixed-point number with all bits that an `f64` can have (Kulisch 1971; in parts of
//! 32 bits with room for carries, as in Neal 2015), and rounded once. Its parts are added as integers.

/// Bits of a part; a part has the rest of its 64 for carries.
const BITS: u32 = 32;
/// Parts for the 2,098 bits of finite values and 46 more: the sum of 2^45 values of any size fits.
const PARTS: usize = 67;
/// Behind these: how many values were infinite, negative infinite, and no number.
const ALL: usize = PARTS + 3;
/// Values after which carries are passed on, so that no part overflows.
const MOST: u32 = 1 << 30;

/// A sum of `f64`s without rounding: the value of `each!(… => exact_sum { … })`.
#[derive(Clone, Copy, Debug)]
pub struct Exact {
    /// Part n counts 2^(32 n - 1074).
    parts: [i64; ALL],
    /// Values since carries were passed on.
    pending: u32,
}

impl Default for Exact {
    fn default() -> Self {
        Self { parts: [0; ALL], pending: 0 }
    }
}

impl Exact {
    /// With one more value.
    #[inline]
    pub fn add(&mut self, value: f64) {
        let bits = value.to_bits();
        let (exponent, fraction) = ((bits >> 52) as usize & 0x7FF, bits & ((1 << 52) - 1));
        if exponent == 0x7FF {
            self.parts[PARTS + if fraction != 0 { 2 } else { (bits >> 63) as usize }] += 1;
            return;
        }
        // Those of the smallest exponent have no leading one.
        let (at, digits) = (exponent.saturating_sub(1), fraction | u64::from(exponent != 0) << 52);
        let wide = u128::from(digits) << (at as u32 % BITS);
        let sign = 1 - 2 * (bits >> 63) as i64;
        for (part, nth) in self.parts.iter_mut().skip(at / BITS as usize).take(3).zip(0..) {
            *part += sign * i64::from((wide >> (nth * BITS)) as u32);
        }
        self.pending += 1;
        if self.pending >= MOST {
            self.carry();
        }
    }

    /// Its parts, which are those of a sum of sums when they are added.
    pub(crate) fn parts(&mut self) -> &mut [i64; ALL] {
        self.carry();
        &mut self.parts
    }

    /// With all values of another sum.
    pub fn join(&mut self, other: &Self) {
        let mut other = *other;
        other.carry();
        self.carry();
        self.parts.iter_mut().zip(other.parts).for_each(|(part, other)| *part += other);
        self.pending += 1;
    }

    /// Leaves less than 2^32 in each part, and the sign in the last one.
    fn carry(&mut self) {
        let mut carry = 0;
        for part in &mut self.parts[..PARTS - 1] {
            let sum = *part + carry;
            (*part, carry) = (sum & ((1 << BITS) - 1), sum >> BITS);
        }
        self.parts[PARTS - 1] += carry;
        self.pending = 0;
    }

    /// The `f64` that is nearest, of two the even one.
    pub fn round(mut self) -> f64 {
        match self.parts[PARTS..] {
            [0, 0, 0] => {}
            [_, 0, 0] => return f64::INFINITY,
            [0, _, 0] => return f64::NEG_INFINITY,
            _ => return f64::NAN,
        }
        self.carry();
        let is_negative = self.parts[PARTS - 1] < 0;
        if is_negative {
            self.parts[..PARTS].iter_mut().for_each(|part| *part = -*part);
            self.carry();
        }
        let Some(top) = self.parts[..PARTS].iter().rposition(|part| *part != 0) else { return 0.0 };
        let part = |nth: usize| u128::from(self.parts[nth].unsigned_abs());
        let highest = top as u32 * BITS + part(top).ilog2();
        // The bits from the last one of the result on, and whether there are more below.
        let last = highest.saturating_sub(52);
        let (first, shift) = ((last / BITS) as usize, last % BITS);
        let window = (first..=top).fold(0, |sum, nth| sum | part(nth) << ((nth - first) as u32 * BITS));
        let digits = (window >> shift) as u64;
        let half = last.checked_sub(1).map(|at| part((at / BITS) as usize) >> (at % BITS) & 1 == 1);
        let below = last.saturating_sub(1);
        let is_more = (0..below / BITS).any(|nth| part(nth as usize) != 0)
            || part((below / BITS) as usize) & ((1 << (below % BITS)) - 1) != 0;
        let up = half == Some(true) && (is_more || digits & 1 == 1);
        // The leading one of the digits counts in the exponent, and so does a carry of rounding.
        let bits = ((u64::from(last) << 52) + digits + u64::from(up)).min(f64::INFINITY.to_bits());
        f64::from_bits(bits | u64::from(is_negative) << 63)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn sum(values: &[f64]) -> f64 {
        let mut sum = Exact::default();
        values.iter().for_each(|value| sum.add(*value));
        sum.round()
    }

    #[test]
    fn a_sum_is_rounded_once() {
        assert_eq!(sum(&[]), 0.0);
        assert_eq!(sum(&[1e308, 1.0, -1e308, 1e-300]), 1.0);
        assert_eq!(sum(&[f64::MAX, f64::MAX, -f64::MAX]), f64::MAX);
        assert_eq!(sum(&[f64::MAX, f64::MAX]), f64::INFINITY);
        assert_eq!(sum(&[-f64::MAX, f64::MIN_POSITIVE, -f64::MAX]), f64::NEG_INFINITY);
        // Halves go to the even one; a bit further down decides.
        let (one, half) = (1.0, f64::EPSILON / 2.0);
        assert_eq!(sum(&[one, half]), one);
        assert_eq!(sum(&[one, half, 5e-324]), one + f64::EPSILON);
        assert_eq!(sum(&[one + f64::EPSILON, half]), one + 2.0 * f64::EPSILON);
        assert_eq!(sum(&[one, half, -5e-324]), one);
        assert_eq!(sum(&[5e-324; 7]), 3.5e-323);
        assert_eq!(sum(&[f64::MIN_POSITIVE, -5e-324]), f64::MIN_POSITIVE - 5e-324);
        assert_eq!(sum(&[-0.1; 10]), -1.0);
        assert_eq!(sum(&[f64::INFINITY, 1.0]), f64::INFINITY);
        assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan() && sum(&[f64::NAN]).is_nan());
    }

    #[test]
    fn carries_are_passed_on_in_time() {
        let mut many = Exact { pending: MOST - 1, ..Exact::default() };
        many.parts[..3].fill(i64::MAX - u32::MAX as i64);
        many.parts[1] = 0;
        let before = many.round();
        many.add(0.0);
        assert_eq!((many.pending, many.round()), (0, before));
        assert!(many.parts[..3].iter().all(|part| *part >> BITS == 0));
    }

    proptest! {
        /// Sums of integers that fit are those of `i128`, rounded by the compiler's conversion.
        #[test]
        fn a_sum_is_that_of_integers(values in proptest::collection::vec((any::<i64>(), -60..60i32), 0..40)) {
            let scale = |by: i32| f64::from_bits(((1023 + by) as u64) << 52);
            let values: Vec<_> = values.iter().map(|(n, by)| ((n >> 11) as f64, *by)).collect();
            // Each is a multiple of 2^-60 below 2^113.
            let exact: i128 = values.iter().map(|(n, by)| (*n as i128) << (by + 60).min(60)).sum();
            let floats: Vec<_> = values.iter().map(|(n, by)| n * scale((*by).min(0))).collect();
            prop_assert_eq!(sum(&floats).to_bits(), (exact as f64 * scale(-60)).to_bits());
        }

        /// Of any values, in any order and in parts.
        #[test]
        fn a_sum_has_no_order(values in proptest::collection::vec(any::<f64>(), 0..60), at in any::<u16>()) {
            let mut parts = [Exact::default(); 2];
            let cut = usize::from(at) % (values.len() + 1);
            values.iter().rev().enumerate().for_each(|(i, value)| parts[usize::from(i < cut)].add(*value));
            let [mut first, second] = parts;
            first.join(&second);
            prop_assert_eq!(first.round().to_bits(), sum(&values).to_bits());
        }
    }
}
