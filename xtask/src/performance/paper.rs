//! `cargo xtask paper-figures`: the figures of the papers on HAM, their numbers beside modelled ones, in `docs/papers.md`. What is measured
//! (`dcfa`) is kept in a file, so the page is the same on every machine; a step of the tests compares it.

mod dcfa;

use super::page::fill_by;
use super::svg::{Chart, Panel, Scale, Series, Style};
use crate::{Error, child};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

const PAGE: &str = "docs/papers.md";
const FOLDER: &str = "docs/papers";
const LIMIT: Duration = Duration::from_secs(900);
const COLORS: [&str; 6] = ["#000000", "#0072b2", "#d55e00", "#009e73", "#56b4e9", "#cc79a7"];

/// A number of `hamr_tests::paper`.
struct Number {
    name: String,
    bytes: u64,
    value: f64,
    done: String,
}

struct Numbers(Vec<Number>);

/// A bar of a figure: what it is, the paper's number, ours, and what there is to say.
type Bar = (&'static str, Option<f64>, Option<&'static str>, &'static str);

const MICROS: &str = "µs";
/// Figure 9 of paper 000, in microseconds: 6.1 is said, the others are that many times as much.
const OFFLOAD: [Bar; 5] = [
    (
        "HAM over VEO",
        Some(70.8 * 6.1),
        Some("offload HAM, VEO"),
        "two writes, 2.3 looks, a read; the number of looks is fitted",
    ),
    ("VEO's own call", Some(13.1 * 6.1), None, "its inside is not described"),
    ("HAM over DMA", Some(6.1), Some("offload HAM, DMA"), "a load, a pull, a push, a store; no time of software"),
    ("hamr, host-driven", None, Some("offload hamr, host-driven"), "word and header are one pair, so there is no flag"),
    (
        "hamr, device-driven",
        None,
        Some("offload hamr, device-driven"),
        "the pair says all, so the engine copies nothing; behind it a look whether the host sleeps",
    ),
];
/// Figure 5 of paper 001, in microseconds: what follows of 300 ns, and of the shares in its table 1.
const CALL: [Bar; 6] = [
    ("SCIF, a round trip", None, Some("call SCIF"), "300 ns are 14.8 % of it: an input"),
    ("HAM over SCIF", None, Some("call HAM, SCIF"), "the round trip and 300 ns"),
    ("LEO", None, Some("call LEO"), "1922 % of the round trip beside it: an input"),
    ("MPI, a round trip", None, Some("call MPI"), "10.9 % of it are what HAM over MPI adds: an input"),
    ("HAM over MPI", None, Some("call HAM, MPI"), "LEO takes 1.8 times as long: an input"),
    ("hamr, split", None, Some("call hamr, split"), "a message each way, each side polls its own memory"),
];
/// Table IV of paper 000, in GiB/s: the most of each way, ours of the longest.
const MOST: [(&str, [f64; 2], [&str; 2]); 3] = [
    ("VEO write, read", [9.9, 10.4], ["to VEO", "from VEO"]),
    ("DMA of the device", [10.6, 11.1], ["to DMA", "from DMA"]),
    ("words: LHM, SHM", [0.01, 0.06], ["to LHM", "from SHM"]),
];

impl Numbers {
    /// Runs the protocols.
    fn counted() -> Result<Self, Error> {
        let mut command = child::cargo();
        command.args(["run", "--quiet", "--package", "hamr-tests", "--bin", "hamr-paper"]);
        let text = child::capture(&mut command, LIMIT)?;
        let of = |line: &str| {
            let [name, bytes, value, done] = *line.split('\t').collect::<Vec<_>>() else { return None };
            let (bytes, value) = (bytes.parse().ok()?, value.parse().ok()?);
            Some(Number { name: name.into(), bytes, value, done: done.into() })
        };
        let all = text.lines().map(|line| of(line).ok_or_else(|| Error::Failed(format!("hamr-paper: {line}"))));
        all.collect::<Result<_, _>>().map(Self)
    }

    fn all<'n>(&'n self, name: &'n str) -> impl Iterator<Item = &'n Number> {
        self.0.iter().filter(move |number| number.name == name)
    }

    fn value(&self, name: &str) -> Option<f64> {
        self.all(name).next().map(|number| number.value)
    }

    fn curve(&self, name: &str) -> Vec<(f64, f64)> {
        self.all(name).map(|number| (number.bytes as f64, number.value)).collect()
    }

    /// Of the longest transfer.
    fn most(&self, name: &str) -> f64 {
        self.all(name).last().map_or(f64::NAN, |number| number.value)
    }
}

/// Draws; with `--check` compares with what is there, with `--measure` measures before.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    match arguments {
        [] => draw(),
        [flag] if flag == "--check" => check(),
        [flag] if flag == "--measure" => dcfa::measure().and_then(|()| draw()),
        [other, ..] => Err(Error::unknown(other, "--check, --measure or nothing")),
    }
}

fn draw() -> Result<(), Error> {
    for (path, text) in files()? {
        let fail = |e| Error::Failed(format!("{}: {e}", path.display()));
        std::fs::create_dir_all(crate::root().join(FOLDER)).map_err(fail)?;
        std::fs::write(&path, text).map_err(fail)?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

/// Fails when a file is not what the protocols take now.
pub(crate) fn check() -> Result<(), Error> {
    for (path, text) in files()? {
        if std::fs::read_to_string(&path).ok().as_ref() != Some(&text) {
            let path = path.display();
            return Err(Error::Failed(format!(
                "{path}: expected what `cargo xtask paper-figures` writes, got another text"
            )));
        }
    }
    Ok(())
}

fn files() -> Result<Vec<(PathBuf, String)>, Error> {
    let (numbers, kept) = (Numbers::counted()?, dcfa::kept()?);
    let path = crate::root().join(PAGE);
    let text = std::fs::read_to_string(&path).map_err(|e| Error::Failed(format!("{PAGE}: {e}")))?;
    let parts = [
        ("offload", bars_table(&OFFLOAD, &numbers)),
        ("transfers", transfers(&numbers)),
        ("most", most(&numbers)),
        ("call", bars_table(&CALL, &numbers)),
        ("overheads", overheads(&numbers)),
        ("dcfa", dcfa::points(&numbers, &kept)),
        ("measured", dcfa::measured(&kept)),
        ("asked", dcfa::asked(&numbers, &kept)),
    ];
    for (name, _) in &parts {
        if !text.contains(&format!("<!-- begin {name} -->\n")) {
            return Err(Error::Failed(format!("{PAGE}: expected `<!-- begin {name} -->`")));
        }
    }
    let page = fill_by(&text, parts.into_iter().map(|(name, part)| (name, || part)))?;
    let folder = crate::root().join(FOLDER);
    let charts = [
        ("offload.svg", bars("An empty offload to a Vector Engine", &OFFLOAD, &numbers)),
        ("transfers.svg", curves(&numbers)),
        ("call.svg", bars("An empty call on a Xeon Phi", &CALL, &numbers)),
        ("dcfa.svg", dcfa::curves(&numbers, &kept)),
    ];
    let drawn = charts.into_iter().map(|(name, chart)| (folder.join(name), chart.draw()));
    Ok(drawn.chain([(path, page)]).collect())
}

/// Three digits, as papers have.
fn short(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v >= 0.1 => format!("{v:.2}"),
        v if v >= 0.001 => format!("{v:.3}"),
        v => format!("{v:.5}"),
    }
}

fn beside(paper: f64, ours: f64) -> String {
    format!("{:+.0} %", (ours / paper - 1.0) * 100.0)
}

fn bars_table(bars: &[Bar], numbers: &Numbers) -> String {
    let mut text = format!("| | paper, {MICROS} | model, {MICROS} | difference | |\n|---|---|---|---|---|\n");
    for (name, paper, ours, why) in bars {
        let model = ours.and_then(|ours| numbers.value(ours));
        let done = ours.and_then(|ours| numbers.all(ours).next()).map_or("", |number| &number.done);
        let cell = |value: Option<f64>| value.map_or("–".into(), short);
        let differs = paper.zip(model).map_or(String::new(), |(paper, model)| beside(paper, model));
        let said = if done.is_empty() { (*why).to_owned() } else { format!("{done}: {why}") };
        let _ = writeln!(text, "| {name} | {} | {} | {differs} | {said} |", cell(*paper), cell(model));
    }
    text
}

fn transfers(numbers: &Numbers) -> String {
    let mut text = String::from("| hamr, host-driven | GiB/s | of that way's most | |\n|---|---|---|---|\n");
    for (way, name, most) in [("put", "to hamr, host-driven", "to VEO"), ("get", "from hamr, host-driven", "from VEO")]
    {
        for number in numbers.all(name).filter(|number| [8, 1 << 20, 64 << 20].contains(&number.bytes)) {
            let share = 100.0 * number.value / numbers.most(most);
            let (value, done) = (short(number.value), &number.done);
            let _ = writeln!(text, "| {way} of {} | {value} | {share:.0} % | {done} |", size(number.bytes as f64));
        }
    }
    text
}

fn most(numbers: &Numbers) -> String {
    let mut text = String::from("| | paper, to the device | model | paper, from it | model |\n|---|---|---|---|---|\n");
    for (name, paper, ours) in MOST {
        let [to, from] = ours.map(|ours| short(numbers.most(ours)));
        let _ = writeln!(text, "| {name} | {} | {to} | {} | {from} |", paper[0], paper[1]);
    }
    text
}

/// Table 1 of paper 001, from its four inputs.
fn overheads(numbers: &Numbers) -> String {
    let of = |name| numbers.value(name).unwrap_or(f64::NAN);
    let (scif, mpi, leo) = (of("call SCIF"), of("call MPI"), of("call LEO"));
    let rows = [
        ("LEO", leo, scif, ["95.1 %", "1922 %", "1.0"]),
        ("HAM over SCIF", of("call HAM, SCIF"), scif, ["12.9 %", "14.8 %", "17.6"]),
        ("HAM over MPI", of("call HAM, MPI"), mpi, ["9.8 %", "10.9 %", "1.8"]),
        ("hamr, split", of("call hamr, split"), scif, ["", "", ""]),
    ];
    let mut text = String::from(
        "| | of the call: paper | model | of the round trip: paper | model | LEO takes as long: paper | model |\n|---|---|---|---|---|---|---|\n",
    );
    for (name, call, trip, [share, more, times]) in rows {
        let over = call - trip;
        let _ = writeln!(
            text,
            "| {name} | {share} | {:.1} % | {more} | {:.1} % | {times} | {:.1} |",
            100.0 * over / call,
            100.0 * over / trip,
            leo / call
        );
    }
    text
}

/// A bar's name below it, where there is little room.
fn label(name: &str) -> String {
    let first = match name.split_once(',') {
        // What each stands on, as the paper's names say.
        Some(("hamr", " host-driven")) => "hamr/VEO",
        Some(("hamr", " device-driven")) => "hamr/DMA",
        Some((first, _)) => first,
        None => name,
    };
    first.trim_end_matches("'s own call").replace(" over ", "/")
}

/// Bars of the paper and of the model side by side.
fn bars(title: &str, bars: &[Bar], numbers: &Numbers) -> Chart {
    const WIDE: f64 = 0.35;
    let at = |index: usize, second: bool| index as f64 + 0.15 + if second { WIDE } else { 0.0 };
    let bar = |second, value: &dyn Fn(&Bar) -> Option<f64>| -> Vec<(f64, f64)> {
        bars.iter().enumerate().filter_map(|(i, bar)| Some((at(i, second), value(bar)?))).collect()
    };
    let series =
        [("paper", COLORS[0], bar(false, &|bar| bar.1)), ("model", COLORS[1], bar(true, &|bar| numbers.value(bar.2?)))];
    let series: Vec<_> = series
        .into_iter()
        .filter(|(.., points)| !points.is_empty())
        .map(|(name, color, points)| Series { name: name.into(), color, style: Style::Bars(WIDE), points })
        .collect();
    // From half of the least on, so that it, too, has a height.
    let values: Vec<f64> = series.iter().flat_map(|s| &s.points).flat_map(|point| [point.1, point.1 / 2.0]).collect();
    Chart {
        x: (String::new(), Scale::linear(0.0, bars.len() as f64)),
        y: (format!("{MICROS}, logarithmic"), Scale::log_around(values.into_iter())),
        x_ticks: bars.iter().enumerate().map(|(i, bar)| (i as f64 + 0.5, label(bar.0))).collect(),
        panels: vec![Panel { title: title.into(), series }],
    }
}

fn size(bytes: f64) -> String {
    match bytes as u64 {
        n if n >= 1 << 20 => format!("{} MiB", n >> 20),
        n if n >= 1 << 10 => format!("{} KiB", n >> 10),
        n => format!("{n} B"),
    }
}

fn curves(numbers: &Numbers) -> Chart {
    let panel = |title: &str, names: &[(&str, &'static str)]| {
        let series = names.iter().map(|(label, name)| {
            let color = COLORS[["VEO", "DMA", "words", "hamr"].iter().position(|w| label.starts_with(w)).unwrap_or(0)];
            Series { name: (*label).into(), color, style: Style::Line, points: numbers.curve(name) }
        });
        Panel { title: title.into(), series: series.collect() }
    };
    let to = [
        ("VEO", "to VEO"),
        ("DMA", "to DMA"),
        ("words (LHM, SHM)", "to LHM"),
        ("hamr, host-driven", "to hamr, host-driven"),
    ];
    let from = [
        ("VEO", "from VEO"),
        ("DMA", "from DMA"),
        ("words (LHM, SHM)", "from SHM"),
        ("hamr, host-driven", "from hamr, host-driven"),
    ];
    let sizes = [3, 10, 15, 20, 28].map(|bits| f64::from(1u32 << bits));
    Chart {
        x: ("bytes".into(), Scale::log(6.0, 350e6)),
        y: ("GiB/s".into(), Scale::log(1e-5, 20.0)),
        x_ticks: sizes.map(|bytes| (bytes, size(bytes))).into(),
        panels: vec![panel("to the device", &to), panel("from the device", &from)],
    }
}
