//! The rows of a run: samples and ratios, collected by row and spell.
//!
//! A sample and what it is compared with are measured within a millisecond of each other, on the
//! same processors. The ratio is the median over such pairs, so that a change of the machine's
//! speed does not appear as one of the code.

use super::stats::{Spell, median};
use std::collections::BTreeMap;

/// The unit of a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Unit {
    /// Nanoseconds per operation: less is better.
    Ns,
    /// Nanoseconds of single operations, whose rare ones count.
    SingleNs,
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
    /// What else the row varies, and its value: `("streams", 64)`.
    pub(crate) vary: Option<(&'static str, u32)>,
    /// The unit.
    pub(crate) unit: Unit,
    /// The spell, where the row depends on it.
    pub(crate) spell: Option<Spell>,
}

impl Key {
    /// A row in nanoseconds without variants.
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, size: None, gap_ns: None, vary: None, unit: Unit::Ns, spell: None }
    }

    pub(crate) const fn size(self, size: usize) -> Self {
        Self { size: Some(size), ..self }
    }

    pub(crate) const fn gap(self, gap_ns: u32) -> Self {
        Self { gap_ns: Some(gap_ns), ..self }
    }

    pub(crate) const fn vary(self, what: &'static str, value: u32) -> Self {
        Self { vary: Some((what, value)), ..self }
    }

    pub(crate) const fn unit(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }

    pub(crate) const fn spell(self, spell: Spell) -> Self {
        Self { spell: Some(spell), ..self }
    }
}

/// What a row's time is compared with.
#[derive(Clone, Copy)]
pub(crate) struct Beside<'a> {
    /// What it is, for the output.
    pub(crate) what: &'static str,
    /// Its samples.
    pub(crate) ns: &'a [f64],
}

/// The samples of a row.
#[derive(Default)]
pub(crate) struct Series {
    pub(crate) ns: Vec<f64>,
    pub(crate) beside: &'static str,
    pub(crate) floors: Vec<f64>,
    pub(crate) ratios: Vec<f64>,
}

/// All samples of a run, of the rows that are wanted.
#[derive(Default)]
pub(crate) struct Table {
    /// Empty: all rows.
    only: Vec<String>,
    names: Vec<&'static str>,
    rows: BTreeMap<Key, Series>,
}

impl Table {
    /// A table for these rows, or for all.
    pub(crate) fn of(only: &[String]) -> Self {
        Self { only: only.to_vec(), ..Self::default() }
    }

    /// True if the row of this name is to be measured.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// True if one of these is.
    pub(crate) fn wants_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.wants(name))
    }

    /// Adds samples in nanoseconds per operation, and what was measured beside them.
    pub(crate) fn add(&mut self, key: Key, ns: &[f64], beside: Option<Beside<'_>>) {
        if !self.names.contains(&key.name) {
            self.names.push(key.name);
        }
        let series = self.rows.entry(key).or_default();
        series.ns.extend(ns);
        if let Some(Beside { what, ns: floor }) = beside {
            series.beside = what;
            series.floors.extend(floor);
            let (ours, floor) = (median(ns), median(floor));
            // More operations or bytes are better, so the ratio is of rates.
            let is_time = matches!(key.unit, Unit::Ns | Unit::SingleNs);
            series.ratios.push(if is_time { ours / floor } else { floor / ours });
        }
    }

    /// Rows of a name together, in the order in which the names were first measured.
    pub(crate) fn series(&self) -> Vec<(Key, &Series)> {
        let of_name = |name: &&'static str| self.rows.iter().filter(|(key, _)| key.name == *name).collect::<Vec<_>>();
        self.names.iter().flat_map(of_name).map(|(key, series)| (*key, series)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(ns: &[f64]) -> Option<Beside<'_>> {
        Some(Beside { what: "floor", ns })
    }

    #[test]
    fn spells_are_never_averaged() {
        let mut table = Table::default();
        let call = Key::new("call_empty").gap(0);
        for (ns, floor) in [(60.0, 50.0), (400.0, 380.0), (62.0, 51.0), (404.0, 390.0)] {
            table.add(call.spell(Spell::of(floor)), &[ns], beside(&[floor]));
        }
        let series = table.series();
        assert_eq!(series.len(), 2);
        assert_eq!((series[0].0.spell, &series[0].1.ns), (Some(Spell::Near), &vec![60.0, 62.0]));
        assert_eq!((series[1].0.spell, &series[1].1.floors), (Some(Spell::Far), &vec![380.0, 390.0]));
    }

    #[test]
    fn ratios_are_of_pairs_and_of_rates_where_more_is_better() {
        let mut table = Table::default();
        let rate = Key::new("one_way").unit(Unit::Rate);
        table.add(rate, &[10.0], beside(&[5.0]));
        let time = Key::new("call_32b").size(32);
        table.add(time, &[10.0, 12.0, 11.0], beside(&[10.0]));
        table.add(time, &[13.0], beside(&[10.0]));
        table.add(time, &[26.0], beside(&[10.0]));
        let series = table.series();
        assert_eq!((series[0].0.name, &series[0].1.ratios), ("one_way", &vec![0.5]));
        assert_eq!(series[1].1.ratios, [1.1, 1.3, 2.6]);
    }
}
