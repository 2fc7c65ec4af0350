//! What was measured, as it is kept in `docs/performance/data.json` and `docs/papers/dcfa.json`: of each row the value of
//! every launch, so that the page can be made again without measuring.

use super::rivals::Value as RivalValue;
use crate::Error;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Fields that tell rows of one name apart.
const VARIANTS: [&str; 12] = [
    "device",
    "spell",
    "size",
    "gap_ns",
    "handler_ns",
    "threads",
    "streams",
    "window",
    "args",
    "ranks",
    "buffers",
    "tasks",
];
/// The unit of a row's value is its field's name.
const UNITS: [&str; 3] = ["p50_ns", "rate", "gb_s"];

/// All of it.
pub(super) struct Data(Value);

impl Data {
    pub(super) fn new(launches: usize) -> Self {
        Self(json!({
            "launches": launches, "machine": {}, "rows": [], "systems": [], "instructions": null, "sizes": [], "missing": [],
        }))
    }

    pub(super) fn load(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::Failed(format!("{}: {e}", path.display())))?;
        let value = serde_json::from_str(&text).map_err(|e| Error::Failed(format!("{}: {e}", path.display())))?;
        Ok(Self(value))
    }

    /// A line for each row, so that two measurements can be compared.
    pub(super) fn text(&self) -> String {
        let field = |(name, value): (&String, &Value)| match value {
            Value::Array(rows) if rows.first().is_some_and(Value::is_object) => {
                let rows: Vec<String> = rows.iter().map(|row| format!("  {row}")).collect();
                format!("{}: [\n{}\n]", json!(name), rows.join(",\n"))
            }
            other => format!("{}: {other}", json!(name)),
        };
        let lists: Vec<String> = self.0.as_object().into_iter().flatten().map(field).collect();
        format!("{{\n{}\n}}\n", lists.join(",\n"))
    }

    /// Takes up a line that `hamr-bench rows --json` printed.
    pub(super) fn add_line(&mut self, line: &str) -> Result<(), Error> {
        let row: Value = serde_json::from_str(line)
            .map_err(|e| Error::Failed(format!("expected a JSON line, got `{line}`: {e}")))?;
        match row["name"].as_str() {
            Some("machine") => self.add_machine(&row),
            Some("instructions_call_empty") => self.0["instructions"] = row["counts"].clone(),
            Some(name) => self.add_row(name, &row),
            None => return Err(Error::Failed(format!("expected a row, got `{line}`"))),
        }
        Ok(())
    }

    fn add_machine(&mut self, row: &Value) {
        // Only of the device that the page is about.
        if row["device"] == "shm" {
            for field in ["processor", "one_core", "one_cache", "pause_ns", "clock_ns"] {
                self.0["machine"][field] = row[field].clone();
            }
        }
    }

    /// Notes the day, and the machine's load before a launch.
    pub(super) fn add_load(&mut self, day: &str, load: f64) {
        self.0["machine"]["day"] = day.into();
        list(&mut self.0["machine"], "loads").push(load.into());
    }

    /// The loads before each launch.
    pub(super) fn loads(&self) -> impl Iterator<Item = f64> {
        numbers(&self.0["machine"]["loads"]).into_iter()
    }

    fn add_row(&mut self, name: &str, row: &Value) {
        let is_same = |old: &Value| old["name"] == name && VARIANTS.iter().all(|field| old[*field] == row[*field]);
        let rows = list(&mut self.0, "rows");
        let at = match rows.iter().position(is_same) {
            Some(at) => at,
            None => {
                let mut new = Map::new();
                for field in ["name", "beside", "goal"].iter().chain(&VARIANTS).filter(|field| !row[**field].is_null())
                {
                    new.insert((*field).to_owned(), row[*field].clone());
                }
                rows.push(new.into());
                rows.len() - 1
            }
        };
        let Some(old) = rows.get_mut(at) else { return };
        for field in UNITS.iter().chain(&["p99_ns", "p999_ns", "p9999_ns", "floor_ns", "ratio"]) {
            if row[*field].is_number() {
                list(old, field).push(row[*field].clone());
            }
        }
        if let Some(steps) = row["histogram"].as_array() {
            add_steps(list(old, "histogram"), steps);
        }
    }

    /// A value of another system, measured in `spell`.
    pub(super) fn add_system(&mut self, value: &RivalValue, spell: &str) {
        let RivalValue { system, what, number, value } = value;
        let systems = list(&mut self.0, "systems");
        let is_same = |old: &Value| {
            old["system"] == *system && old["what"] == *what && old["number"] == *number && old["spell"] == spell
        };
        let rounded = json!((value * 10.0).round() / 10.0);
        match systems.iter().position(is_same).and_then(|at| systems.get_mut(at)) {
            Some(old) => list(old, "values").push(rounded),
            None => systems.push(json!({
                "system": system, "what": what, "number": number, "spell": spell, "values": [rounded],
            })),
        }
    }

    /// Something that could not be measured, once.
    pub(super) fn add_missing(&mut self, what: &str) {
        let missing = list(&mut self.0, "missing");
        if !missing.iter().any(|old| old == what) {
            missing.push(what.into());
        }
    }

    /// The size of an image's text and constants.
    pub(super) fn add_size(&mut self, row: &Value) {
        list(&mut self.0, "sizes").push(json!({ "machine": row["machine"], "text_rodata": row["text_rodata"] }));
    }

    pub(super) fn machine(&self) -> &Value {
        &self.0["machine"]
    }

    pub(super) fn launches(&self) -> u64 {
        self.0["launches"].as_u64().unwrap_or(0)
    }

    /// Counted functions and their instructions.
    pub(super) fn instructions(&self) -> impl Iterator<Item = (&str, f64)> {
        let counts = self.0["instructions"].as_object().into_iter().flatten();
        counts.filter_map(|(function, count)| Some((function.as_str(), count.as_f64()?)))
    }

    pub(super) fn missing(&self) -> impl Iterator<Item = &str> {
        self.0["missing"].as_array().into_iter().flatten().filter_map(Value::as_str)
    }

    pub(super) fn size_of(&self, machine: &str) -> Option<u64> {
        let rows = self.0["sizes"].as_array()?;
        rows.iter().find(|row| row["machine"] == machine)?["text_rodata"].as_u64()
    }

    /// The row of `name` whose fields are as given; fields that are not given must be absent,
    /// except for the device, which is shared memory then.
    pub(super) fn row(&self, name: &str, fields: &[(&str, Value)]) -> Option<Figure<'_>> {
        let fits = |row: &&Value| {
            let given = |field: &str| fields.iter().find(|(name, _)| *name == field).map(|(_, value)| value.clone());
            let expected = |field: &str| {
                given(field).unwrap_or_else(|| if field == "device" { json!("shm") } else { Value::Null })
            };
            row["name"] == name && VARIANTS.iter().all(|field| row[*field] == expected(field))
        };
        self.0["rows"].as_array()?.iter().find(fits).map(Figure)
    }

    /// Another system's values: number and median, by number.
    pub(super) fn system(&self, system: &str, what: &str, spell: &str) -> Vec<(f64, f64)> {
        let fits = |row: &&Value| row["system"] == system && row["what"] == what && row["spell"] == spell;
        let rows = self.0["systems"].as_array().into_iter().flatten().filter(fits);
        let mut points: Vec<(f64, f64)> =
            rows.filter_map(|row| Some((row["number"].as_f64()?, median(&numbers(&row["values"]))?))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    }

    /// The other systems, in the order in which they were first measured.
    pub(super) fn systems(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for name in self.0["systems"].as_array().into_iter().flatten().filter_map(|row| row["system"].as_str()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// One row with the values of all launches.
#[derive(Clone, Copy)]
pub(super) struct Figure<'d>(&'d Value);

impl Figure<'_> {
    /// The row does not depend on the spell.
    pub(super) fn is_of_any_spell(&self) -> bool {
        self.0["spell"].is_null()
    }

    /// The field that has the values.
    pub(super) fn unit(&self) -> &'static str {
        UNITS.into_iter().find(|unit| self.0[*unit].is_array()).unwrap_or("p50_ns")
    }

    /// The median over launches of a field.
    pub(super) fn median(&self, field: &str) -> Option<f64> {
        median(&numbers(&self.0[field]))
    }

    /// The least and the largest of a field.
    pub(super) fn range(&self, field: &str) -> Option<(f64, f64)> {
        let sorted = sorted(&numbers(&self.0[field]));
        Some((*sorted.first()?, *sorted.last()?))
    }

    /// The median of the row's own values.
    pub(super) fn value(&self) -> Option<f64> {
        self.median(self.unit())
    }

    /// Launches in which the row was measured.
    pub(super) fn launches(&self) -> usize {
        numbers(&self.0[self.unit()]).len()
    }

    /// The limit of its ratio: `true` for at most.
    pub(super) fn goal(&self) -> Option<(bool, f64)> {
        let goal = &self.0["goal"];
        let at_most = goal["at_most"].as_f64().map(|limit| (true, limit));
        at_most.or_else(|| goal["at_least"].as_f64().map(|limit| (false, limit)))
    }

    /// Steps of its pairs' ratios: lower end and count.
    pub(super) fn histogram(&self) -> Vec<(f64, f64)> {
        let steps = self.0["histogram"].as_array().into_iter().flatten();
        steps.filter_map(|step| Some((step[0].as_f64()?, step[1].as_f64()?))).collect()
    }
}

/// The list in a field, made when it is absent.
fn list<'v>(of: &'v mut Value, field: &str) -> &'v mut Vec<Value> {
    if !of[field].is_array() {
        of[field] = json!([]);
    }
    match &mut of[field] {
        Value::Array(list) => list,
        _ => unreachable!("an array since the line above"),
    }
}

/// Adds the counts of `more` to those of the same steps.
fn add_steps(steps: &mut Vec<Value>, more: &[Value]) {
    for step in more {
        match steps.iter_mut().find(|old| old[0] == step[0]) {
            Some(old) => old[1] = json!(old[1].as_u64().unwrap_or(0) + step[1].as_u64().unwrap_or(0)),
            None => steps.push(step.clone()),
        }
    }
    steps.sort_by(|a, b| a[0].as_f64().unwrap_or(0.0).total_cmp(&b[0].as_f64().unwrap_or(0.0)));
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The middle value, of an even number the mean of the two: else a time and its floor, of two launches, would be of different ones.
fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let (below, above) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
    Some(f64::midpoint(*sorted.get(below)?, *sorted.get(above)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_are_collected_by_row_and_spell() {
        let mut data = Data::new(3);
        for (spell, ns, step) in [("near", 60.0, 1.0), ("far", 400.0, 1.0), ("near", 64.0, 1.05), ("near", 70.0, 1.05)]
        {
            let row = json!({
                "name": "call_empty", "device": "shm", "spell": spell, "gap_ns": 0, "size": null, "p50_ns": ns,
                "ratio": ns / 50.0, "beside": "floor", "goal": {"at_most": 1.15}, "histogram": [[step, 30]],
            });
            data.add_line(&row.to_string()).expect("a row");
        }
        let again = Data(serde_json::from_str(&data.text()).expect("what it writes it reads"));
        let near = again.row("call_empty", &[("spell", json!("near")), ("gap_ns", json!(0))]).expect("the row");
        assert_eq!((near.value(), near.range("p50_ns"), near.launches()), (Some(64.0), Some((60.0, 70.0)), 3));
        assert_eq!((near.goal(), near.histogram()), (Some((true, 1.15)), vec![(1.0, 30.0), (1.05, 60.0)]));
        assert!(again.row("call_empty", &[("spell", json!("near"))]).is_none(), "the gap tells rows apart");
        assert!(data.add_line("no JSON").is_err() && data.add_line("{}").is_err());
    }

    #[test]
    fn medians_are_of_the_middle() {
        assert_eq!(
            [&[][..], &[3.0], &[50.0, 54.0], &[9.0, 1.0, 2.0]].map(median),
            [None, Some(3.0), Some(52.0), Some(2.0)]
        );
    }

    #[test]
    fn systems_are_collected_by_spell() {
        let mut data = Data::new(1);
        for (number, value, spell) in [(64, 500.0, "near"), (8, 480.0, "near"), (8, 482.0, "near"), (8, 900.0, "far")] {
            data.add_system(&RivalValue { system: "UCX", what: "size", number, value }, spell);
        }
        assert_eq!(data.system("UCX", "size", "near"), [(8.0, 481.0), (64.0, 500.0)]);
        assert_eq!(data.systems(), ["UCX"]);
        data.add_missing("OpenMPI: no network");
        data.add_missing("OpenMPI: no network");
        assert_eq!(data.missing().count(), 1);
    }
}
