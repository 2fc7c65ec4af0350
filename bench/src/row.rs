//! One line of the result, for people and as JSON.

use super::goals::Goal;
use super::stats::{Histogram, median, quantile};
use super::table::{Key, Series, Table, Unit};
use serde_json::{Value, json};

/// One line of the result.
pub(crate) struct Row<'t> {
    key: Key,
    middle: f64,
    ratio: Option<f64>,
    goal: Option<Goal>,
    series: &'t Series,
}

/// Heads of the columns of [`Row::text`].
pub(crate) fn heads() -> String {
    columns("row", "spell", "variant", "median", "p99", "beside", "ratio", "goal")
}

#[expect(clippy::too_many_arguments, reason = "one for each column")]
fn columns(
    name: &str,
    spell: &str,
    variant: &str,
    middle: &str,
    p99: &str,
    beside: &str,
    ratio: &str,
    goal: &str,
) -> String {
    let line = format!("{name:<18} {spell:<5} {variant:<16} {middle:>10} {p99:>10}  {beside:<26} {ratio:>6}  {goal}");
    line.trim_end().to_owned()
}

impl<'t> Row<'t> {
    fn new(key: Key, series: &'t Series) -> Self {
        let middle = match (median(&series.ns), key.unit) {
            (ns, Unit::Ns | Unit::SingleNs) => ns,
            (ns, Unit::Rate) => 1e9 / ns,
            (ns, Unit::GbS) => key.size.unwrap_or(0) as f64 / ns,
        };
        let ratio = (!series.ratios.is_empty()).then(|| median(&series.ratios));
        Self { key, middle, ratio, goal: Goal::of(&key), series }
    }

    /// All rows of a run.
    pub(crate) fn all(table: &'t Table) -> Vec<Self> {
        table.series().into_iter().map(|(key, series)| Self::new(key, series)).collect()
    }

    pub(crate) fn name(&self) -> &'static str {
        self.key.name
    }

    /// `name`, `device`, `spell`, `size`, `gap_ns`, what else varies, one of `p50_ns`, `rate` and
    /// `gb_s`, `p99_ns`, `floor_ns` of what is named in `beside`, `ratio`, `goal`, `histogram` of
    /// the ratios of pairs, `pairs`.
    pub(crate) fn json(&self, device: &str) -> Value {
        let Self { key, series, .. } = self;
        let (unit, middle) = match key.unit {
            Unit::Ns | Unit::SingleNs => ("p50_ns", tidy(self.middle)),
            Unit::Rate => ("rate", json!(self.middle.round())),
            Unit::GbS => ("gb_s", tidy(self.middle)),
        };
        let floor = (!series.floors.is_empty()).then(|| tidy(median(&series.floors)));
        let mut row = json!({
            "name": key.name,
            "device": device,
            "spell": key.spell.map(|spell| spell.name()),
            "size": key.size,
            "gap_ns": key.gap_ns,
            unit: middle,
            "p99_ns": tidy(quantile(&series.ns, 0.99)),
            "floor_ns": floor,
            "ratio": self.ratio.map(tidy),
        });
        if let Some((what, value)) = key.vary {
            row[what] = value.into();
        }
        if key.unit == Unit::SingleNs {
            row["p999_ns"] = tidy(quantile(&series.ns, 0.999));
            row["p9999_ns"] = tidy(quantile(&series.ns, 0.9999));
        }
        if self.ratio.is_some() {
            row["beside"] = series.beside.into();
            row["histogram"] = Histogram::of(&series.ratios).json();
            row["pairs"] = series.ratios.len().into();
        }
        if let Some(goal) = self.goal {
            row["goal"] = goal.json();
        }
        row
    }

    /// The same for people, in the columns of [`heads`].
    pub(crate) fn text(&self) -> String {
        let Self { key, series, .. } = self;
        let variant = match (key.size, key.gap_ns, key.vary) {
            (_, _, Some(("handler_ns", ns))) => format!("handler {ns} ns"),
            (_, _, Some((what, value))) => format!("{what} {value}"),
            (Some(size), _, _) => bytes(size),
            (None, Some(gap), _) => format!("gap {gap} ns"),
            (None, None, None) => String::new(),
        };
        let middle = match key.unit {
            Unit::Ns | Unit::SingleNs => time(self.middle),
            Unit::Rate => format!("{:.1} M/s", self.middle / 1e6),
            Unit::GbS => format!("{:.1} GB/s", self.middle),
        };
        let beside = self.ratio.map(|_| {
            let floor = median(&series.floors);
            let floor = match key.unit {
                Unit::Ns | Unit::SingleNs => time(floor),
                Unit::Rate => format!("{:.1} M/s", 1e3 / floor),
                Unit::GbS => format!("{:.1} GB/s", key.size.unwrap_or(0) as f64 / floor),
            };
            format!("{} {floor}", series.beside)
        });
        let goal = match (self.goal, self.ratio) {
            (Some(goal), Some(ratio)) => goal.text(ratio),
            _ => String::new(),
        };
        let p99 = time(quantile(&series.ns, 0.99));
        let ratio = self.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        let spell = key.spell.map_or("", |spell| spell.name());
        let line = columns(key.name, spell, &variant, &middle, &p99, &beside.unwrap_or_default(), &ratio, &goal);
        if key.unit != Unit::SingleNs {
            return line;
        }
        let rare = [0.999, 0.9999].map(|part| time(quantile(&series.ns, part)));
        format!("{line}  p99.9 {}, p99.99 {}", rare[0], rare[1])
    }
}

fn tidy(v: f64) -> Value {
    // These machines cannot reproduce more than three decimals.
    json!((v * 1000.0).round() / 1000.0)
}

/// A time in the unit in which it has few digits.
fn time(ns: f64) -> String {
    match ns {
        _ if ns >= 1e6 => format!("{:.1} ms", ns / 1e6),
        _ if ns >= 1e4 => format!("{:.1} µs", ns / 1e3),
        _ => format!("{ns:.1} ns"),
    }
}

fn bytes(size: usize) -> String {
    match size {
        _ if size >= 1 << 20 => format!("{} MiB", size >> 20),
        _ if size >= 1 << 10 => format!("{} KiB", size >> 10),
        _ => format!("{size} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::stats::Spell;
    use super::super::table::Beside;
    use super::*;

    #[test]
    fn a_row_states_its_spell_its_floor_and_its_goal() {
        let mut table = Table::default();
        let key = Key::new("call_empty").gap(0).spell(Spell::Near);
        table.add(key, &[60.0], Some(Beside { what: "floor", ns: &[50.0] }));
        let rows = Row::all(&table);
        let text = rows[0].text();
        let words: Vec<&str> = text.split_whitespace().collect();
        let expected = "call_empty near gap 0 ns 60.0 ns 60.0 ns floor 50.0 ns 1.20 ≤ 1.15, missed";
        assert_eq!(words.join(" "), expected);
        let json = rows[0].json("shm");
        assert_eq!(json["histogram"], json!([[1.2, 1]]));
        assert_eq!(json["goal"], json!({"at_most": 1.15}));
    }

    #[test]
    fn a_rate_is_per_second() {
        let mut table = Table::default();
        let key = Key::new("one_way").unit(Unit::Rate);
        table.add(key, &[10.0], Some(Beside { what: "ring of lines", ns: &[5.0] }));
        let json = Row::all(&table)[0].json("shm");
        assert_eq!((json["rate"].as_f64(), json["ratio"].as_f64()), (Some(1e8), Some(0.5)));
    }

    #[test]
    fn single_calls_show_their_rare_times() {
        let mut table = Table::default();
        let ns: Vec<f64> = (1..=20_000).map(f64::from).collect();
        table.add(Key::new("call_single").unit(Unit::SingleNs), &ns, None);
        let row = &Row::all(&table)[0];
        let json = row.json("shm");
        assert_eq!((json["p999_ns"].as_f64(), json["p9999_ns"].as_f64()), (Some(19980.0), Some(19998.0)));
        assert!(row.text().ends_with("p99.9 20.0 µs, p99.99 20.0 µs"), "{}", row.text());
    }
}
