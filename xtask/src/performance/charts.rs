//! The charts of `docs/performance.md`: latency by size, rate by calls in flight, and how often a
//! call was how much slower than its floor.

use super::data::Data;
use super::svg::{Chart, Panel, Scale, Series, Style};
use serde_json::{Value, json};

/// Spells, and the titles of their panels.
const SPELLS: [(&str, &str); 2] = [("near", "near: the processors share a cache"), ("far", "far: they share none")];
/// Rows with a size, and the bytes of arguments of each.
const SIZES: [(&str, u32); 7] = [
    ("call_32b", 32),
    ("call_48b", 48),
    ("call_64b", 64),
    ("call_112b", 112),
    ("call_512b", 512),
    ("call_1k", 1024),
    ("call_empty", 0),
];
/// Where a message of no bytes is drawn on the logarithmic axis.
const EMPTY_AT: f64 = 4.0;
/// Width of a step of a histogram, as `hamr-bench` makes them.
const STEP: f64 = 0.05;

/// Name and content of each file.
pub(super) fn all(data: &Data) -> Vec<(&'static str, Chart)> {
    vec![("latency.svg", latency(data)), ("rate.svg", rate(data)), ("ratio.svg", ratio(data))]
}

/// A panel for each spell in which something was measured.
fn panels(of: impl Fn(&'static str) -> Vec<Series>) -> Vec<Panel> {
    let all = SPELLS.into_iter().map(|(spell, title)| (title, of(spell)));
    let measured = all.filter(|(_, series)| series.iter().any(|series| !series.points.is_empty()));
    measured.map(|(title, series)| Panel { title: title.into(), series }).collect()
}

fn series(name: &str, style: Style, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.into(), color: color(name), style, points }
}

/// The same in every chart.
fn color(name: &str) -> &'static str {
    let known = [("floor", "#000000"), ("hamr, one-way", "#56b4e9"), ("OpenMPI", "#009e73"), ("UCX", "#d55e00")];
    known.into_iter().find(|(start, _)| name.starts_with(start)).map_or("#0072b2", |(_, color)| color)
}

/// The vertical scale that fits all points.
fn around(panels: &[Panel]) -> Scale {
    Scale::log_around(panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points).map(|p| p.1))
}

fn with(spell: &str, more: &[(&'static str, Value)]) -> Vec<(&'static str, Value)> {
    [&[("spell", json!(spell))], more].concat()
}

fn latency(data: &Data) -> Chart {
    let panels = panels(|spell| {
        let gap = with(spell, &[("gap_ns", json!(0))]);
        let mut calls: Vec<(f64, f64)> = Vec::new();
        for (name, size) in SIZES {
            let row =
                if size == 0 { data.row(name, &gap) } else { data.row(name, &with(spell, &[("size", json!(size))])) };
            if let Some(ns) = row.and_then(|row| row.value()) {
                calls.push((f64::from(size).max(EMPTY_AT), ns));
            }
        }
        calls.sort_by(|a, b| a.0.total_cmp(&b.0));
        let floor = data.row("floor_one_line", &gap).and_then(|row| row.value());
        let mut all = vec![
            series("hamr, a call with its result", Style::Line, calls),
            series("floor, one cache line", Style::Level, floor.map(|ns| (EMPTY_AT, ns)).into_iter().collect()),
        ];
        // What blocks takes a hundred times as long, and has one size.
        let polling = data.systems().into_iter().map(|system| (system, data.system(system, "size", spell)));
        let polling = polling.filter(|(_, points)| points.len() > 1);
        all.extend(polling.map(|(system, points)| series(system, Style::Line, points)));
        all
    });
    Chart {
        x: ("bytes of arguments or of each message".into(), Scale::log(EMPTY_AT * 0.8, 1300.0)),
        y: ("nanoseconds per round trip".into(), around(&panels)),
        x_ticks: [
            (EMPTY_AT, "0"),
            (8.0, "8"),
            (32.0, "32"),
            (64.0, "64"),
            (112.0, "112"),
            (512.0, "512"),
            (1024.0, "1 Ki"),
        ]
        .map(|(at, label)| (at, label.to_owned()))
        .to_vec(),
        panels,
    }
}

fn rate(data: &Data) -> Chart {
    const WINDOWS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
    let millions = |rate: f64| rate / 1e6;
    let panels = panels(|spell| {
        let of = |window: u32| {
            let row = data.row("call_window", &with(spell, &[("window", json!(window))]))?;
            Some((f64::from(window), millions(row.value()?)))
        };
        let level = |name: &str| {
            let rate = data.row(name, &with(spell, &[])).and_then(|row| row.value());
            rate.map(|rate| (1.0, millions(rate))).into_iter().collect::<Vec<_>>()
        };
        let mut all = vec![
            series("hamr, calls with results", Style::Line, WINDOWS.into_iter().filter_map(of).collect()),
            series("hamr, one-way calls", Style::Level, level("one_way")),
            series("floor, a ring of cache lines", Style::Level, level("floor_ring")),
        ];
        all.extend(data.systems().into_iter().filter_map(|system| {
            let points = data.system(system, "window", spell);
            let points: Vec<_> = points.into_iter().map(|(window, rate)| (window, millions(rate))).collect();
            (!points.is_empty()).then(|| series(&format!("{system}, 8 bytes one way"), Style::Line, points))
        }));
        all
    });
    Chart {
        x: ("in flight".into(), Scale::log(0.9, 72.0)),
        y: ("million per second".into(), around(&panels)),
        x_ticks: WINDOWS.map(|window| (f64::from(window), window.to_string())).to_vec(),
        panels,
    }
}

fn ratio(data: &Data) -> Chart {
    let histogram = |spell| {
        let row = data.row("call_empty", &with(spell, &[("gap_ns", json!(0))]));
        row.map(|row| row.histogram()).unwrap_or_default()
    };
    let ends = SPELLS.into_iter().flat_map(|(spell, _)| histogram(spell)).map(|(at, _)| at + STEP);
    // Up to the next mark: an axis far beyond the bars would be empty.
    const MARK: f64 = 0.2;
    let from = 0.8;
    let to = (((ends.fold(1.0, f64::max) - STEP / 2.0) / MARK).ceil() * MARK).clamp(1.4, 2.0);
    let panels = panels(|spell| {
        let steps = histogram(spell);
        let all: f64 = steps.iter().map(|(_, count)| count).sum();
        // What lies outside is drawn in the outermost steps.
        let mut bars: Vec<(f64, f64)> = Vec::new();
        for (at, count) in steps {
            let at = at.clamp(from, to - STEP);
            match bars.iter_mut().find(|(bar, _)| (*bar - at).abs() < STEP / 2.0) {
                Some((_, share)) => *share += 100.0 * count / all,
                None => bars.push((at, 100.0 * count / all)),
            }
        }
        vec![series("pairs of an empty call and its floor", Style::Bars(STEP), bars)]
    });
    let tallest = panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points).map(|p| p.1);
    let top = (tallest.fold(1.0, f64::max) * 1.05 / 25.0).ceil() * 25.0;
    Chart {
        x: ("time of the call, divided by that of its floor".into(), Scale::linear(from, to)),
        y: ("percent of pairs".into(), Scale::linear(0.0, top)),
        x_ticks: [(0.8, "≤ 0.8"), (1.0, "1.0"), (1.2, "1.2"), (1.4, "1.4"), (1.6, "1.6"), (1.8, "1.8"), (2.0, "≥ 2")]
            .into_iter()
            .filter(|(at, _)| *at < to + STEP)
            .map(|(at, label)| (at, label.to_owned()))
            .collect(),
        panels,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(spells: &[(&str, f64)]) -> Data {
        let mut data = Data::new(1);
        for (spell, floor) in spells {
            let row = json!({
                "name": "call_empty", "device": "shm", "spell": spell, "gap_ns": 0, "p50_ns": floor * 1.1,
                "ratio": 1.1, "beside": "floor", "histogram": [[0.1, 1], [1.1, 2], [3.0, 1]],
            });
            data.add_line(&row.to_string()).expect("a row");
        }
        data
    }

    #[test]
    fn a_spell_without_rows_has_no_panel() {
        assert_eq!(latency(&data(&[("near", 50.0)])).panels.len(), 1);
        assert_eq!(latency(&data(&[("near", 50.0), ("far", 400.0)])).panels.len(), 2);
        assert!(all(&Data::new(1)).iter().all(|(_, chart)| chart.panels.is_empty() && !chart.draw().contains("NaN")));
    }

    #[test]
    fn a_histogram_has_all_pairs() {
        let chart = ratio(&data(&[("near", 50.0)]));
        let bars = &chart.panels[0].series[0].points;
        assert_eq!(bars.iter().map(|(_, share)| share).sum::<f64>(), 100.0);
        assert_eq!(bars.len(), 3);
        assert_eq!(chart.x_ticks.last().map(|(_, label)| &**label), Some("≥ 2"));
    }

    #[test]
    fn an_axis_ends_where_its_bars_do() {
        let mut data = Data::new(1);
        let row = json!({ "name": "call_empty", "device": "shm", "spell": "near", "gap_ns": 0, "p50_ns": 50.0, "ratio": 1.1,
            "beside": "floor", "histogram": [[1.0, 1], [1.35, 2]] });
        data.add_line(&row.to_string()).expect("a row");
        let chart = ratio(&data);
        assert_eq!(chart.x_ticks.last().map(|(_, label)| &**label), Some("1.4"));
        assert!((chart.x.1.at(1.35 + STEP) - 1.0).abs() < 1e-9);
    }
}
