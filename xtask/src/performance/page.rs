//! The parts of the documentation that are made from the measurement, each between two markers:
//! `<!-- begin NAME -->` and `<!-- end NAME -->`.

use super::data::{Data, Figure};
use super::lines::{CALLS, COUNTS, FLOORS, GASNET, Line, NETWORK, PIPELINES, PROGRAMS, TASKS, TRANSFERS, VERBS};
use super::network;
use crate::Error;
use serde_json::{Value, json};

/// Columns of a paragraph.
const WIDTH: usize = 140;
/// The files that have such parts.
pub(super) const PAGES: [&str; 3] = ["docs/performance.md", "docs/verbs.md", "README.md"];
/// What the rate of verbs is to be beside that of UCX's puts.
const TIMES_UCX: f64 = 1.2;

/// Makes a part.
type Part = fn(&Data) -> String;

const PARTS: [(&str, Part); 16] = [
    ("machine", machine),
    ("floors", |data| table(data, &FLOORS)),
    ("calls", |data| table(data, &CALLS)),
    ("single", single),
    ("pipelines", |data| table(data, &PIPELINES)),
    ("transfers", |data| table(data, &TRANSFERS)),
    ("tasks", |data| table(data, &TASKS)),
    ("gasnet", |data| table(data, &GASNET)),
    ("programs", |data| table(data, &PROGRAMS)),
    ("network", |data| table(data, &NETWORK)),
    ("network systems", network::table),
    ("systems", systems),
    ("verbs", verbs),
    ("instructions", instructions),
    ("machines", machines),
    ("summary", summary),
];

/// Replaces each part that `text` has.
pub(super) fn fill(text: &str, data: &Data) -> Result<String, Error> {
    fill_by(text, PARTS.iter().map(|(name, part)| (*name, || part(data))))
}

/// The same by parts of a name and what makes them.
pub(super) fn fill_by<'n>(
    text: &str,
    parts: impl IntoIterator<Item = (&'n str, impl FnOnce() -> String)>,
) -> Result<String, Error> {
    let mut text = text.to_owned();
    for (name, part) in parts {
        let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->"));
        let Some(from) = text.find(&begin).map(|at| at + begin.len()) else { continue };
        let Some(to) = text[from..].find(&end).map(|at| from + at) else {
            return Err(Error::Failed(format!("expected `{end}` behind its begin")));
        };
        text.replace_range(from..to, &part());
    }
    Ok(text)
}

/// A row in a spell; one that does not depend on the spell, in any.
pub(super) fn find<'d>(
    data: &'d Data,
    spell: &str,
    name: &str,
    vary: Option<(&'static str, u32)>,
) -> Option<Figure<'d>> {
    let vary: Vec<(&str, Value)> = vary.map(|(field, value)| (field, json!(value))).into_iter().collect();
    let in_spell = [&vary[..], &[("spell", json!(spell))]].concat();
    data.row(name, &in_spell).or_else(|| data.row(name, &vary))
}

/// A figure of a far spell follows that of a near one, where the row depends on the spell.
fn table(data: &Data, lines: &[Line]) -> String {
    let mut text = String::from("| row | time or rate, ratio |\n|---|---|\n");
    for (label, name, vary) in lines {
        let shown = |figure: Figure<'_>| match figure.median("ratio") {
            None => value(&figure),
            Some(ratio) => format!("{}, {}", value(&figure), beside_goal(ratio, figure.goal())),
        };
        let near = find(data, "near", name, *vary).map_or("–".into(), shown);
        let far = find(data, "far", name, *vary).filter(|figure| !figure.is_of_any_spell());
        let far = far.map_or(String::new(), |figure| format!("; far {}", shown(figure)));
        text += &format!("| {label} | {near}{far} |\n");
    }
    text
}

/// The labels of lines without a figure: a row whose fields are not those of its line.
pub(super) fn empty_lines(data: &Data) -> Vec<String> {
    let tables: [&[Line]; 8] = [&FLOORS, &CALLS, &PIPELINES, &TRANSFERS, &TASKS, &GASNET, &NETWORK, &PROGRAMS];
    let lines = tables.into_iter().flatten();
    let is_empty = |(_, name, vary): &&Line| ["near", "far"].iter().all(|s| find(data, s, name, *vary).is_none());
    lines.filter(is_empty).map(|(label, ..)| (*label).to_owned()).collect()
}

/// A ratio, bold where it misses its goal, which follows.
fn beside_goal(ratio: f64, goal: Option<(bool, f64)>) -> String {
    let ratio = format!("{ratio:.2}");
    let Some((at_most, limit)) = goal else { return ratio };
    let shown = if misses(&ratio, (at_most, limit)) { format!("**{ratio}**") } else { ratio };
    format!("{shown} ({}{limit})", if at_most { "≤" } else { "≥" })
}

/// Does a ratio, as it is printed, miss its goal?
fn misses(ratio: &str, (at_most, limit): (bool, f64)) -> bool {
    let ratio: f64 = ratio.parse().unwrap_or(f64::NAN);
    if at_most { ratio > limit } else { ratio < limit }
}

/// The median over launches and the range, in the row's unit; nanoseconds have none.
fn value(figure: &Figure<'_>) -> String {
    let unit = figure.unit();
    let (Some(middle), Some((least, most))) = (figure.median(unit), figure.range(unit)) else { return "–".into() };
    let (divisor, unit) = match unit {
        "rate" => (1e6, " M/s"),
        "gb_s" => (1.0, " GB/s"),
        _ if middle >= 1e4 => (1e3, " µs"),
        _ => (1.0, ""),
    };
    let show =
        |v: f64| if (middle / divisor) < 20.0 { format!("{:.1}", v / divisor) } else { format!("{:.0}", v / divisor) };
    if figure.launches() < 2 {
        return format!("{}{unit}", show(middle));
    }
    format!("{}{unit} ({}–{})", show(middle), show(least), show(most))
}

fn single(data: &Data) -> String {
    let mut text = String::from("| spell | p50 | p99 | p99.9 | p99.99 |\n|---|---|---|---|---|\n");
    for spell in ["near", "far"] {
        let Some(figure) = data.row("call_single", &[("spell", json!(spell))]) else { continue };
        let cells =
            ["p50_ns", "p99_ns", "p999_ns", "p9999_ns"].map(|field| figure.median(field).map_or("–".into(), time));
        text += &format!("| {spell} | {} |\n", cells.join(" | "));
    }
    text
}

fn machine(data: &Data) -> String {
    let machine = data.machine();
    let said = |field: &str, yes: &'static str, no: &'static str| match machine[field].as_bool() {
        Some(true) => yes,
        Some(false) => no,
        None => "unknown",
    };
    let ns = |field: &str| machine[field].as_f64().unwrap_or(f64::NAN);
    let launches = |spell| find(data, spell, "call_empty", Some(("gap_ns", 0))).map_or(0, |figure| figure.launches());
    let text = format!(
        "{}; the system says: {}, {}. A pause takes {} ns, a clock call {} ns. {} launches; near spells in {}, far spells in {}.",
        machine["processor"].as_str().unwrap_or("an unnamed processor"),
        said("one_core", "two threads of one core", "two cores"),
        said("one_cache", "one cache for both", "a cache for each"),
        ns("pause_ns"),
        ns("clock_ns"),
        data.launches(),
        launches("near"),
        launches("far"),
    );
    wrapped(&text, "")
}

/// What was measured near, and far.
pub(super) fn beside_far(near: Option<String>, far: Option<String>) -> String {
    let far = far.map(|far| format!("far {far}"));
    let cell = [near, far].into_iter().flatten().collect::<Vec<String>>().join("; ");
    if cell.is_empty() { "–".into() } else { cell }
}

fn systems(data: &Data) -> String {
    let mut text = String::from("| system | 8 B | 64 B | 1 KiB | M/s, 64 in flight |\n|---|---|---|---|---|\n");
    let cells = |at: &dyn Fn(&str, f64) -> Option<f64>, rate: &dyn Fn(&str) -> Option<f64>| {
        let of_size = |size| beside_far(at("near", size).map(time), at("far", size).map(time));
        let [near, far] = ["near", "far"].map(|spell| rate(spell).map(|rate| format!("{:.1}", rate / 1e6)));
        let sizes = [8.0, 64.0, 1024.0].map(of_size).into_iter();
        sizes.chain([beside_far(near, far)]).collect::<Vec<String>>().join(" | ")
    };
    let own = |spell: &str, size: f64| {
        let (name, size) = match size {
            8.0 => ("call_32b", 32),
            64.0 => ("call_64b", 64),
            _ => ("call_1k", 1024),
        };
        find(data, spell, name, Some(("size", size)))?.value()
    };
    let rate = |spell: &str| find(data, spell, "call_async", None)?.value();
    text += &format!("| **hamr**, calls with results | {} |\n", cells(&own, &rate));
    for system in data.systems().into_iter().filter(|system| !network::has(data, system)) {
        let of = |what: &str, spell: &str, number: f64| {
            data.system(system, what, spell).into_iter().find(|(at, _)| *at == number).map(|(_, value)| value)
        };
        let row = cells(&|spell, size| of("size", spell, size), &|spell| of("window", spell, 64.0));
        text += &format!("| {system} | {row} |\n");
    }
    for what in data.missing() {
        text += &format!("\nNot measured: {what}.\n");
    }
    text
}

/// The rate of verbs beside that of puts of UCX, between the same processors in the same minute.
fn verbs(data: &Data) -> String {
    let mut text = String::new();
    for spell in ["near", "far"] {
        let ours = find(data, spell, VERBS, None).and_then(|row| row.value());
        let puts = data.system("UCX", "put", spell).into_iter().next().map(|(_, rate)| rate);
        let Some((ours, puts)) = ours.zip(puts) else { continue };
        let ratio = beside_goal(ours / puts, Some((false, TIMES_UCX)));
        text += &format!("| {spell} | {:.1} | {:.1} | {ratio} |\n", ours / 1e6, puts / 1e6);
    }
    if text.is_empty() {
        return "Not measured yet by `cargo xtask performance`.\n".into();
    }
    format!("| spell | `verbs_rate_8`, M/s | UCX, `ucp_put_bw` of 8 bytes, M/s | ratio |\n|---|---|---|---|\n{text}")
}

fn instructions(data: &Data) -> String {
    let shown = data.instructions().filter(|(name, _)| COUNTS.contains(name));
    let counts: Vec<String> = shown.map(|(name, count)| format!("`{name}` {count:.0}")).collect();
    wrapped(&if counts.is_empty() { "Not counted.".into() } else { counts.join(", ") + "." }, "")
}

fn machines(data: &Data) -> String {
    let mut text = String::from(
        "| machine | start | `call_empty` | against shared memory | bytes of text and constants |\n\
         |---|---|---|---|---|\n",
    );
    for machine in super::MACHINES {
        let device = json!(format!("qemu:{machine}"));
        let row = |name: &str, spell: Option<&str>| {
            let mut fields = vec![("device", device.clone())];
            if let Some(spell) = spell {
                fields.extend([("spell", json!(spell)), ("gap_ns", json!(0))]);
            }
            data.row(name, &fields)
        };
        let start = row("start", None).and_then(|row| row.value()).map(|ns| format!("{:.0} ms", ns / 1e6));
        let [near, far] = ["near", "far"].map(|spell| row("call_empty", Some(spell))?.value().map(time));
        let ratio = |spell| {
            let ratio = row("call_empty_vs_shm", Some(spell))?.median("ratio")?;
            Some(format!("{ratio:.2}"))
        };
        let size = data.size_of(machine).map(|bytes| bytes.to_string());
        let cells = [
            beside_far(start, None),
            beside_far(near, far),
            beside_far(ratio("near"), ratio("far")),
            beside_far(size, None),
        ];
        text += &format!("| {machine} | {} |\n", cells.join(" | "));
    }
    text
}

/// A time in the unit in which it has few digits; nanoseconds have none.
pub(super) fn time(ns: f64) -> String {
    match ns {
        _ if ns >= 1e4 => format!("{:.0} µs", ns / 1e3),
        _ => format!("{ns:.0}"),
    }
}

/// The line of the README.
fn summary(data: &Data) -> String {
    let call = |(spell, place)| {
        let figure = find(data, spell, "call_empty", Some(("gap_ns", 0)))?;
        let (ns, ratio) = (figure.value()?, figure.median("ratio")?);
        Some((format!("{ns:.0} ns {place}"), format!("{ratio:.2}")))
    };
    let places = [("near", "where the two processors share a cache"), ("far", "where they share none")];
    let (calls, ratios): (Vec<String>, Vec<String>) = places.into_iter().filter_map(call).unzip();
    let best = |name: &str| {
        let rates = ["near", "far"].into_iter().filter_map(|spell| find(data, spell, name, None)?.value());
        rates.fold(0.0, f64::max) / 1e6
    };
    let text = format!(
        "- **Fast**: a typed empty call takes {}: {} times a cache line's bare round trip. Pipelined, {:.0} million calls \
         a second with results, {:.0} million without ([docs/performance.md](docs/performance.md)).",
        calls.join(", "),
        ratios.join(" and "),
        best("call_async"),
        best("one_way"),
    );
    wrapped(&text, "  ")
}

/// Breaks a paragraph into lines; `indent` begins all but the first.
pub(super) fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{indent}{word}")),
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> Data {
        let mut data = Data::new(2);
        for ns in [60.0, 62.0] {
            let row = json!({
                "name": "call_empty", "device": "shm", "spell": "near", "gap_ns": 0, "p50_ns": ns, "ratio": ns / 50.0,
                "beside": "floor", "goal": {"at_most": 1.15},
            });
            data.add_line(&row.to_string()).expect("a row");
        }
        data
    }

    #[test]
    fn only_what_is_between_markers_is_replaced() {
        let text = "a\n<!-- begin calls -->\nold\n<!-- end calls -->\nb\n";
        let filled = fill(text, &data()).expect("both markers");
        assert!(filled.starts_with("a\n<!-- begin calls -->\n| row |") && filled.ends_with("<!-- end calls -->\nb\n"));
        assert!(!filled.contains("old"));
        assert_eq!(fill(&filled, &data()).expect("again"), filled);
        assert!(fill("<!-- begin calls -->\n", &data()).is_err());
    }

    #[test]
    fn a_line_has_median_range_and_ratio_and_marks_a_missed_goal() {
        let text = table(&data(), &CALLS);
        assert!(text.contains("| `call_empty` | 61 (60–62), **1.22** (≤1.15) |\n"), "{text}");
        assert!(text.contains("| `call_32b` | – |\n"), "{text}");
    }

    #[test]
    fn a_line_without_a_figure_is_named() {
        let empty = empty_lines(&data());
        assert!(empty.contains(&"`call_32b`".to_owned()) && !empty.contains(&"`call_empty`".to_owned()), "{empty:?}");
    }

    #[test]
    fn the_rate_of_verbs_is_beside_that_of_puts() {
        let mut data = data();
        assert_eq!(verbs(&data), "Not measured yet by `cargo xtask performance`.\n");
        data.add_line(r#"{"name":"verbs_rate_8","device":"shm","spell":"near","in flight":64,"rate":12e6}"#)
            .expect("a row");
        let puts = crate::performance::rivals::Value { system: "UCX", what: "put", number: 8, value: 8e6 };
        data.add_system(&puts, "near");
        assert!(verbs(&data).ends_with("| near | 12.0 | 8.0 | 1.50 (≥1.2) |\n"), "{}", verbs(&data));
    }

    #[test]
    fn paragraphs_are_wrapped() {
        let text = wrapped(&"word ".repeat(60), "  ");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0].len()), (3, 139));
        assert!(lines[1].starts_with("  word") && lines.iter().all(|line| line.len() <= WIDTH));
        assert_eq!(text.split_whitespace().count(), 60);
        assert_eq!(wrapped("one", ""), "one\n");
    }

    #[test]
    fn a_goal_is_judged_as_it_is_printed() {
        assert!(!misses("1.15", (true, 1.15)) && misses("1.16", (true, 1.15)));
        assert!(!misses("0.90", (false, 0.9)) && misses("0.89", (false, 0.9)));
    }
}
