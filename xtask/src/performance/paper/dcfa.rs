//! Figure 5 of paper 002, a device that posts to an adapter beside its host: the paper's points, ours as measured, and modelled ones.
//!
//! `--measure` keeps the values of each launch in `docs/papers/dcfa.json`. The page and the picture are made of that file, and so are
//! the same on every machine.

use super::{COLORS, Numbers, beside, size};
use crate::performance::data::{Data, Figure};
use crate::performance::page::wrapped;
use crate::performance::svg::{Chart, Panel, Scale, Series, Style};
use crate::performance::{ADAPTER, bench};
use crate::{Error, child};
use serde_json::json;
use std::fmt::Write;
use std::process::Command;
use std::time::Duration;

const KEPT: &str = "docs/papers/dcfa.json";
/// Of each device.
const LAUNCHES: usize = 5;
/// The devices that are measured: one as fast as its host, and a slower one.
const DEVICES: [(&str, &str); 2] = [("(a)", "shm"), ("(b)", "qemu:riscv64")];
/// Bytes of the messages of `hamr-bench`.
const SIZES: [u64; 8] = [4, 64, 128, 1 << 10, 4 << 10, 16 << 10, 128 << 10, 1 << 20];
/// What a device takes that asks its host: a call of a task.
const ASKS: &str = "host_call";
/// A load beyond what the measurement itself is.
const QUIET: f64 = 3.0;
const SHORT: Duration = Duration::from_secs(10);

/// A curve of the figure.
struct Mode {
    name: &'static str,
    /// Of `hamr-bench`.
    row: &'static str,
    /// Of `hamr_tests::paper`.
    model: &'static str,
    asked: &'static str,
    /// The points that the paper's text has, and what is to be said of the model there.
    said: [(u64, f64, &'static str); 2],
}

const MODES: [Mode; 2] = [
    Mode {
        name: "send and receive",
        row: "verbs_figure_5_send",
        model: "dcfa send",
        asked: "asked send",
        said: [(128, 1.50, "the highest: fitted"), (128 << 10, 1.00, "a cost per message is lost in a long one")],
    },
    Mode {
        name: "RDMA write",
        row: "verbs_figure_5_write",
        model: "dcfa write",
        asked: "asked write",
        said: [
            (64, 2.22, "the highest: fitted"),
            (
                4 << 10,
                1.00,
                "no cost that is added to each message is gone at 4 KiB; we guess that the host had a faster way for short ones",
            ),
        ],
    },
];

/// Measures all devices in turn, and keeps the values.
pub(super) fn measure() -> Result<(), Error> {
    child::capture(child::cargo().args(ADAPTER), super::LIMIT)?;
    let mut data = Data::new(LAUNCHES);
    let rows = [MODES[0].row, MODES[1].row, ASKS].join(",");
    let day = child::capture(Command::new("date").args(["-u", "+%F"]), SHORT)?;
    for launch in 1..=LAUNCHES {
        println!("launch {launch} of {LAUNCHES}");
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        data.add_load(day.trim(), load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(f64::NAN));
        for (_, device) in DEVICES {
            bench(&mut data, &["--device", device, "--only", &rows])?;
        }
    }
    let path = crate::root().join(KEPT);
    std::fs::write(&path, data.text()).map_err(|e| Error::Failed(format!("{}: {e}", path.display())))?;
    println!("wrote {}", path.display());
    Ok(())
}

/// What was measured.
pub(super) fn kept() -> Result<Data, Error> {
    Data::load(&crate::root().join(KEPT))
}

fn row<'d>(data: &'d Data, device: &str, mode: &Mode, bytes: u64) -> Option<Figure<'d>> {
    data.row(mode.row, &[("device", json!(device)), ("size", json!(bytes))])
}

/// Device ÷ host.
fn ratio(data: &Data, device: &str, mode: &Mode, bytes: u64) -> Option<f64> {
    row(data, device, mode, bytes)?.median("ratio")
}

/// Host asked ÷ device, from the two parts of the former.
fn asked_ratio(data: &Data, device: &str, mode: &Mode, bytes: u64) -> Option<f64> {
    let asks = |spell: &str| data.row(ASKS, &[("device", json!(device)), ("spell", json!(spell))])?.value();
    let (asks, row) = (asks("near").or_else(|| asks("far"))?, row(data, device, mode, bytes)?);
    Some((asks + row.median("floor_ns")?) / row.value()?)
}

fn cell(value: Option<f64>) -> String {
    value.map_or(" – |".into(), |value| format!(" {value:.2} |"))
}

/// The head of a table with a column for each size.
fn head(what: &str, sizes: &[u64]) -> String {
    let heads: String = sizes.iter().map(|bytes| format!(" {} |", size(*bytes as f64))).collect();
    format!("| {what} |{heads}\n|---|{}\n", "---|".repeat(sizes.len()))
}

/// The paper's points.
pub(super) fn points(numbers: &Numbers, data: &Data) -> String {
    let mut text = String::from("| device ÷ host | bytes | paper |");
    DEVICES.iter().for_each(|(name, device)| text += &format!(" {name} `{device}` |"));
    text += " (c) modelled | of the model |\n|---|---|---|---|---|---|---|\n";
    for mode in &MODES {
        for (bytes, paper, why) in mode.said {
            let shown = |value: f64| format!(" {value:.2}, {} |", beside(paper, value));
            let _ = write!(text, "| {} | {} | {paper:.2} |", mode.name, size(bytes as f64));
            for (_, device) in DEVICES {
                text += &ratio(data, device, mode, bytes).map_or(" – |".into(), shown);
            }
            let model = numbers.all(mode.model).find(|number| number.bytes == bytes);
            text +=
                &model.map_or(" – | |\n".into(), |model| format!("{} {}: {why} |\n", shown(model.value), model.done));
        }
    }
    text
}

/// Microseconds that each device takes longer than its host, of the first message that the paper's text has.
fn added(data: &Data, mode: &Mode) -> String {
    let [(bytes, ..), _] = mode.said;
    let more = |(name, device)| {
        let row = row(data, device, mode, bytes)?;
        Some(format!("{:.2} µs in {name}", (row.value()? - row.median("floor_ns")?) / 1000.0))
    };
    format!(
        "{} of {} {}",
        mode.name,
        size(bytes as f64),
        DEVICES.into_iter().filter_map(more).collect::<Vec<_>>().join(", ")
    )
}

/// All that was measured, and of what.
pub(super) fn measured(data: &Data) -> String {
    let mut text = head("device ÷ host, measured", &SIZES);
    for mode in &MODES {
        for (name, device) in DEVICES {
            let cells: String = SIZES.iter().map(|bytes| cell(ratio(data, device, mode, *bytes))).collect();
            let _ = writeln!(text, "| {}, {name} |{cells}", mode.name);
        }
    }
    let machine = data.machine();
    let said = |field: &str| machine[field].as_str().unwrap_or("unknown");
    let (least, most) = data.loads().fold((f64::INFINITY, 0.0_f64), |(a, b), load| (a.min(load), b.max(load)));
    let cache = match machine["one_cache"].as_bool() {
        Some(true) => "share a cache",
        Some(false) => "share no cache",
        None => "may share a cache",
    };
    let disturbed = if most > QUIET { "; what else ran has disturbed it" } else { "" };
    let about = format!(
        "{}, {}; the system says that its two processors {cache}. Medians of {} launches of each device. The load before a launch was \
         {least:.1} to {most:.1}, of which the measurement itself is up to 2{disturbed}. A device adds to {}.",
        said("processor"),
        said("day"),
        data.launches(),
        MODES.each_ref().map(|mode| added(data, mode)).join("; to "),
    );
    text + "\n" + &wrapped(&about, "")
}

/// The way that the paper argues against.
pub(super) fn asked(numbers: &Numbers, data: &Data) -> String {
    const SIZES: [u64; 4] = [4, 1 << 10, 16 << 10, 1 << 20];
    let mut text = head("host asked ÷ device", &SIZES);
    for mode in &MODES {
        let model =
            |bytes: u64| numbers.all(mode.asked).find(|number| number.bytes == bytes).map(|number| number.value);
        let cells: String = SIZES.iter().map(|bytes| cell(model(*bytes))).collect();
        let _ = writeln!(text, "| {}, modelled as (c) |{cells}", mode.name);
        for (name, device) in DEVICES {
            let cells: String = SIZES.iter().map(|bytes| cell(asked_ratio(data, device, mode, *bytes))).collect();
            let _ = writeln!(text, "| {}, of parts of {name} |{cells}", mode.name);
        }
    }
    text
}

pub(super) fn curves(numbers: &Numbers, data: &Data) -> Chart {
    let line = |label: String, color, points| Series { name: label, color, style: Style::Line, points };
    let panel = |mode: &Mode| {
        let said = mode.said.iter().map(|(bytes, value, _)| (*bytes as f64, *value)).collect();
        let mut series = vec![line("as the paper says".into(), COLORS[0], said)];
        for ((name, device), color) in DEVICES.into_iter().zip([COLORS[3], COLORS[5]]) {
            let of = |bytes: u64| Some((bytes as f64, ratio(data, device, mode, bytes)?));
            series.push(line(format!("{name} {device}, measured"), color, SIZES.into_iter().filter_map(of).collect()));
        }
        series.push(line("(c) device ÷ host, modelled".into(), COLORS[1], numbers.curve(mode.model)));
        series.push(line("(d) host asked ÷ device, modelled".into(), COLORS[2], numbers.curve(mode.asked)));
        Panel { title: mode.name.into(), series }
    };
    let panels: Vec<Panel> = MODES.iter().map(panel).collect();
    let points = panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points);
    let times = Scale::log_around(points.map(|point| point.1));
    let sizes = [2, 7, 12, 17, 20].map(|bits| f64::from(1u32 << bits));
    Chart {
        x: ("bytes".into(), Scale::log(3.0, 1.3e6)),
        y: ("times as long, logarithmic".into(), times),
        x_ticks: sizes.map(|bytes| (bytes, size(bytes))).into(),
        panels,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_of_the_rows_that_are_shown() {
        let mut data = Data::new(2);
        data.add_load("2026-01-31", 0.5);
        data.add_load("2026-01-31", 2.0);
        for (host, ratio) in [(150.0, 1.5), (170.0, 1.3), (160.0, 1.4)] {
            let row = json!({
                "name": "verbs_figure_5_write", "device": "qemu:riscv64", "size": 64, "p50_ns": 200.0, "floor_ns": host, "ratio": ratio,
            });
            data.add_line(&row.to_string()).expect("a row");
        }
        let row = json!({ "name": "host_call", "device": "qemu:riscv64", "spell": "far", "p50_ns": 440.0 });
        data.add_line(&row.to_string()).expect("a row");
        let (none, [_, write]) = (Numbers(Vec::new()), &MODES);
        assert_eq!(asked_ratio(&data, "qemu:riscv64", write, 64), Some(3.0));
        assert_eq!(asked_ratio(&data, "shm", write, 64), None);
        let text = points(&none, &data);
        assert!(text.contains("| RDMA write | 64 B | 2.22 | – | 1.40, -37 % | – | |\n"), "{text}");
        let text = measured(&data);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            text.contains("| RDMA write, (b) | – | 1.40 | – |")
                && words.contains("was 0.5 to 2.0, of which the measurement itself is up to 2. "),
            "{text}"
        );
        assert!(words.ends_with("; to RDMA write of 64 B 0.04 µs in (b)."), "{words}");
        data.add_load("2026-01-31", 3.5);
        assert!(measured(&data).contains("disturbed"));
        assert!(curves(&none, &data).draw().contains("(b) qemu:riscv64, measured"));
    }
}
