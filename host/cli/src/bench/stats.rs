//! Rows of the benchmark: medians and p99 of many samples, and ratios taken pair by pair.
//!
//! A sample and its floor are measured within a millisecond of each other, on the same processors.
//! The ratio is the median over such pairs, so that a change of the machine's speed does not appear
//! as one of the code.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The unit of a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Unit {
    /// Nanoseconds per operation: less is better.
    Ns,
    /// Operations per second.
    Rate,
    /// 10^9 bytes per second.
    GbS,
}

/// The identity of a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Key {
    /// The name in the table.
    pub(crate) name: &'static str,
    /// Bytes moved or carried.
    pub(crate) size: Option<usize>,
    /// Pause between a result and the next call.
    pub(crate) gap_ns: Option<u32>,
    /// The unit.
    pub(crate) unit: Unit,
}

#[derive(Default)]
struct Series {
    ns: Vec<f64>,
    floors: Vec<f64>,
    ratios: Vec<f64>,
}

/// All samples of a run.
#[derive(Default)]
pub(crate) struct Table {
    order: Vec<Key>,
    rows: BTreeMap<Key, Series>,
}

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

impl Table {
    /// Adds samples in nanoseconds per operation, and the floor that was measured with them.
    pub(crate) fn add(&mut self, key: Key, ns: &[f64], floor: Option<&[f64]>) {
        if !self.rows.contains_key(&key) {
            self.order.push(key);
        }
        let series = self.rows.entry(key).or_default();
        series.ns.extend(ns);
        if let Some(floor) = floor {
            series.floors.extend(floor);
            let (ours, floor) = (median(ns), median(floor));
            // More bandwidth is better, so the ratio is inverted.
            series.ratios.push(if key.unit == Unit::GbS { floor / ours } else { ours / floor });
        }
    }

    /// Rows in the order in which they were first measured.
    pub(crate) fn rows(&self, device: &str) -> Vec<Row> {
        let row = |key: &Key| {
            let series = self.rows.get(key)?;
            let convert = |ns: f64| match key.unit {
                Unit::Ns => ns,
                Unit::Rate => 1e9 / ns,
                Unit::GbS => key.size.unwrap_or(0) as f64 / ns,
            };
            Some(Row {
                key: *key,
                device: device.into(),
                middle: convert(median(&series.ns)),
                p99_ns: quantile(&series.ns, 0.99),
                floor_ns: (!series.floors.is_empty()).then(|| median(&series.floors)),
                ratio: (!series.ratios.is_empty()).then(|| median(&series.ratios)),
            })
        };
        self.order.iter().filter_map(row).collect()
    }
}

/// One line of the result.
pub(crate) struct Row {
    key: Key,
    device: String,
    middle: f64,
    p99_ns: f64,
    floor_ns: Option<f64>,
    ratio: Option<f64>,
}

fn tidy(v: f64) -> Value {
    // These machines cannot reproduce more than three decimals.
    json!((v * 1000.0).round() / 1000.0)
}

impl Row {
    /// `name`, `device`, `size`, `gap_ns`, one of `p50_ns`, `rate` and `gb_s`, `p99_ns`, `floor_ns`,
    /// `ratio`.
    pub(crate) fn json(&self) -> Value {
        let unit = match self.key.unit {
            Unit::Ns => "p50_ns",
            Unit::Rate => "rate",
            Unit::GbS => "gb_s",
        };
        let middle = if self.key.unit == Unit::Rate { json!(self.middle.round()) } else { tidy(self.middle) };
        json!({
            "name": self.key.name,
            "device": self.device,
            "size": self.key.size,
            "gap_ns": self.key.gap_ns,
            unit: middle,
            "p99_ns": tidy(self.p99_ns),
            "floor_ns": self.floor_ns.map(tidy),
            "ratio": self.ratio.map(tidy),
        })
    }

    /// The same for people, in columns.
    pub(crate) fn text(&self) -> String {
        let what = match (self.key.size, self.key.gap_ns) {
            (Some(size), _) => format!("{size} B"),
            (None, Some(gap)) => format!("gap {gap} ns"),
            (None, None) => String::new(),
        };
        let middle = match self.key.unit {
            Unit::Ns if self.middle >= 1e6 => format!("{:.1} ms", self.middle / 1e6),
            Unit::Ns => format!("{:.1} ns", self.middle),
            Unit::Rate => format!("{:.1} M/s", self.middle / 1e6),
            Unit::GbS => format!("{:.2} GB/s", self.middle),
        };
        let optional = |v: Option<f64>, unit: &str| v.map_or_else(|| "-".into(), |v| format!("{v:.2}{unit}"));
        format!(
            "{:<24} {:<12} {:>14}  p99 {:>12.1} ns  floor {:>14}  ratio {:>7}",
            self.key.name,
            what,
            middle,
            self.p99_ns,
            optional(self.floor_ns, " ns"),
            optional(self.ratio, "")
        )
    }

    /// Header of [`Self::text`].
    pub(crate) fn name(&self) -> &'static str {
        self.key.name
    }
}
