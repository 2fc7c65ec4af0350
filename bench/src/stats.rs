//! Numbers of many samples: quantiles, histograms, and which spell of the machine a floor shows.

use serde_json::{Value, json};

/// The value below which `part` of the samples lie.
pub(crate) fn quantile(samples: &[f64], part: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (part * sorted.len().saturating_sub(1) as f64).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

/// The middle sample.
pub(crate) fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

/// How close the two processors are. Virtual processors are moved, and a line's round trip then
/// takes several times as long, or a fraction. No figure is of both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Spell {
    /// They share a cache.
    Near,
    /// They do not.
    Far,
}

/// A round trip of one cache line below this many nanoseconds: the processors share a cache.
const NEAR_BELOW: f64 = 200.0;

impl Spell {
    /// The spell in which a line's round trip takes `ns`.
    pub(crate) fn of(ns: f64) -> Self {
        if ns < NEAR_BELOW { Self::Near } else { Self::Far }
    }

    /// Its name in the output.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
        }
    }
}

/// How many values lie in each step of [`Self::STEP`].
#[derive(Default, Debug)]
pub(crate) struct Histogram(Vec<u32>);

impl Histogram {
    /// Width of a step.
    const STEP: f64 = 0.05;
    /// Larger values are counted in the last step.
    const STEPS: usize = 80;

    /// Counts `values`.
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut counts = vec![0; Self::STEPS];
        for value in values {
            // A value on the border belongs to the step that begins there, also when the division
            // is a little too small.
            let step = (value / Self::STEP + 1e-9).max(0.0) as usize;
            if let Some(count) = counts.get_mut(step.min(Self::STEPS - 1)) {
                *count += 1;
            }
        }
        Self(counts)
    }

    /// The steps that are not empty: lower end and count of each.
    pub(crate) fn json(&self) -> Value {
        let steps = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        // Two decimals: a product of the step's width has more.
        steps.map(|(step, count)| json!([(step as f64 * Self::STEP * 100.0).round() / 100.0, count])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples() {
        let samples: Vec<f64> = (0..10_000).rev().map(f64::from).collect();
        assert_eq!((quantile(&samples, 0.0), quantile(&samples, 1.0)), (0.0, 9999.0));
        assert_eq!((median(&samples), quantile(&samples, 0.99)), (5000.0, 9899.0));
        assert_eq!((quantile(&samples, 0.999), quantile(&samples, 0.9999)), (9989.0, 9998.0));
        assert_eq!(median(&[3.0]), 3.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_round_trip_names_its_spell() {
        assert_eq!([40.0, 199.9, 200.0, 430.0].map(|ns| Spell::of(ns).name()), ["near", "near", "far", "far"]);
    }

    #[test]
    fn histogram_counts_each_value_once() {
        let histogram = Histogram::of(&[1.0, 1.02, 1.05, 1.149, 1.15, 99.0, -1.0]);
        assert_eq!(histogram.json(), json!([[0.0, 1], [1.0, 2], [1.05, 1], [1.1, 1], [1.15, 1], [3.95, 1]]));
        assert_eq!(Histogram::of(&[]).json(), json!([]));
    }
}
