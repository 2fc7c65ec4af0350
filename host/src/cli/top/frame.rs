//! One look at all windows, what moved since the one before, and its text.

#[cfg(feature = "device-logs")]
use super::super::inspect::texts;
use super::super::{Cli, one_line};
#[cfg(feature = "device-logs")]
use crate::inspect::dump_with_lines;
use crate::inspect::{Dump, Found, dump, windows};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Instant;

/// Counts of published words are as wide as this (abi §4).
const COUNT_MASK: u32 = 0x00FF_FFFF;

pub(super) struct Sample {
    at: Instant,
    devices: Vec<Row>,
}

/// A device.
struct Row {
    found: Found,
    dump: Dump,
    /// Calls that were published since the look before, per second.
    rate: Option<f64>,
    /// Faults that were seen since the first look.
    faults: u64,
    /// The last of them: which handler, and what.
    last_fault: Option<String>,
    /// `at work`, `in call`, `waits`, `still`; empty at the first look.
    activity: &'static str,
}

/// A slot's place in its window.
type Place = (u32, &'static str, u32);
/// The tag and count of a published word.
type Word = (u8, u32);

impl Sample {
    pub(super) fn take(before: Option<&Self>, lines: usize, cli: &Cli) -> Self {
        let at = Instant::now();
        // A window that ended meanwhile is left out.
        let rows = windows().into_iter().filter_map(|found| {
            let dump = look(&found, lines, cli)?;
            let last = before.and_then(|before| {
                let same = |row: &&Row| row.found.path == found.path && row.found.name == found.name;
                Some((before.devices.iter().find(same)?, at - before.at))
            });
            Some(Row::new(found, dump, last.map(|(row, passed)| (row, passed.as_secs_f64()))))
        });
        let mut devices: Vec<Row> = rows.collect();
        // Its host changes while a device stays, so the order of hosts would move rows.
        devices.sort_by(|a, b| a.found.name.cmp(&b.found.name));
        Self { at, devices }
    }

    pub(super) fn to_json(&self) -> Value {
        let row = |row: &Row| {
            json!({
                "name": row.found.name,
                "path": row.found.path,
                "host": row.host(),
                "device": row.found.device_pid,
                "epoch": row.found.epoch,
                "state": row.state(),
                "calls_per_s": row.rate,
                "in_flight": depths(&row.dump).sum::<usize>(),
                "queues": depths(&row.dump).collect::<Vec<_>>(),
                "tasks": row.dump.tasks.len(),
                "faults": row.faults,
                "last_fault": row.last_fault,
                "crash": row.dump.crash.as_ref().map(|crash| crash.text.clone()),
            })
        };
        self.devices.iter().map(row).collect()
    }

    /// Lines of at most so many characters; of logs the last that so many rows have room for.
    #[cfg_attr(not(feature = "device-logs"), expect(unused_variables, reason = "rows are of logs"))]
    pub(super) fn text(&self, rows: usize, columns: usize) -> Vec<String> {
        let number = self.devices.len();
        let mut text = vec![format!("{number} {}", if number == 1 { "device" } else { "devices" })];
        if number > 0 {
            let head =
                ["DEVICE", "HOST", "PROCESS", "EPOCH", "STATE", "", "CALLS/S", "FLIGHT", "TASKS", "FAULTS", "QUEUES"];
            let cells: Vec<_> = self.devices.iter().map(Row::cells).collect();
            let name = cells.iter().map(|cells| cells[0].chars().count()).fold(head[0].len(), usize::max);
            text.push(line(name, &head.map(String::from)));
            text.extend(cells.iter().map(|cells| line(name, cells)));
        }
        for row in &self.devices {
            let name = one_line(&row.found.name);
            if let Some(fault) = &row.last_fault {
                text.push(format!("{name}: fault: {}", one_line(fault)));
            }
            if let Some(crash) = &row.dump.crash {
                text.push(format!("{name}: crash in epoch {}: {}", crash.epoch, one_line(&crash.text)));
            }
        }
        #[cfg(feature = "device-logs")]
        if self.devices.iter().any(|row| !row.dump.lines.is_empty()) {
            text.push(String::new());
            text.push("LOG".into());
            let all = self.devices.iter().filter(|row| !row.dump.lines.is_empty());
            let each = rows.saturating_sub(text.len()) / all.clone().count();
            for row in all {
                let name = one_line(&row.found.name);
                let last = &row.dump.lines[row.dump.lines.len().saturating_sub(each)..];
                text.extend(last.iter().map(|line| format!("{name}: {}", one_line(&line.brief()))));
            }
        }
        text.into_iter().map(|line| line.chars().take(columns).collect()).collect()
    }
}

impl Row {
    fn new(found: Found, dump: Dump, before: Option<(&Self, f64)>) -> Self {
        let (now, seen) = (requests(&dump), faults(&dump));
        let (mut rate, mut faults, mut last_fault, mut activity) = (None, 0, None, "");
        let known = before.map(|(row, _)| self::faults(&row.dump)).unwrap_or_default();
        if let Some((row, seconds)) = before {
            let then = requests(&row.dump);
            let calls: u64 = now.iter().map(|(place, word)| since(then.get(place), *word)).sum();
            (rate, faults, last_fault) = (Some(calls as f64 / seconds), row.faults, row.last_fault.clone());
            activity =
                match (row.dump.device.alive != dump.device.alive, row.dump.device.progress != dump.device.progress) {
                    (_, true) => "at work",
                    (true, false) if depths(&dump).sum::<usize>() > dump.tasks.len() => "in call",
                    (true, false) => "waits",
                    (false, false) => "still",
                };
        }
        for (place, (word, text)) in &seen {
            if known.get(place).is_none_or(|(known, _)| known != word) {
                faults += 1;
                last_fault = Some(text.clone());
            }
        }
        Self { found, dump, rate, faults, last_fault, activity }
    }

    /// The device's state. One that is between two hosts has stopped for the last one.
    fn state(&self) -> &'static str {
        match self.found.device_state {
            "stopped" if !self.found.processes.contains(&self.found.host_pid) => "no host",
            state => state,
        }
    }

    /// The process of its host; the last one's number stays in the window.
    fn host(&self) -> Option<u32> {
        let has_host = !matches!(self.state(), "absent" | "stopped" | "no host");
        Some(self.found.host_pid).filter(|pid| has_host && *pid != 0)
    }

    fn cells(&self) -> [String; 11] {
        let Found { name, device_pid, epoch, .. } = &self.found;
        let depths: Vec<usize> = depths(&self.dump).collect();
        let process = |pid: Option<u32>| pid.map_or_else(|| "-".into(), |pid| pid.to_string());
        [
            one_line(name),
            process(self.host()),
            process(Some(*device_pid).filter(|pid| *pid != 0)),
            epoch.to_string(),
            self.state().into(),
            self.activity.into(),
            self.rate.map_or_else(String::new, |rate| format!("{rate:.0}")),
            depths.iter().sum::<usize>().to_string(),
            self.dump.tasks.len().to_string(),
            self.faults.to_string(),
            depths.iter().map(usize::to_string).collect::<Vec<_>>().join(" "),
        ]
    }
}

/// A line of the table, in which names have so many characters. With 12 of them the columns before the last are
/// 80 characters wide.
fn line(name: usize, cells: &[String; 11]) -> String {
    let [device, host, process, epoch, state, activity, rate, flight, tasks, faults, queues] = cells;
    format!(
        "{device:<name$} {host:>7} {process:>7} {epoch:>5} {state:<8} {activity:<7} {rate:>8} {flight:>6} {tasks:>5} {faults:>6}  \
         {queues}"
    )
}

/// Calls without a result of each stream; the first queue pair is the control stream.
fn depths(dump: &Dump) -> impl Iterator<Item = usize> {
    let streams = dump.queues.iter().skip(1).filter(|queue| queue.open && !queue.slots.is_empty());
    streams
        .map(|queue| queue.slots.iter().filter(|slot| matches!(slot.state, "requested" | "taken" | "changing")).count())
}

fn requests(dump: &Dump) -> HashMap<Place, Word> {
    let slots = dump.queues.iter().flat_map(|queue| queue.slots.iter().map(move |slot| (queue.index, slot)));
    slots
        .filter_map(|(queue, slot)| {
            let request = slot.request.as_ref()?;
            Some(((queue, slot.kind, slot.index), (request.tag, request.count)))
        })
        .collect()
}

fn faults(dump: &Dump) -> HashMap<Place, (Word, String)> {
    let slots = dump.queues.iter().flat_map(|queue| queue.slots.iter().map(move |slot| (queue.index, slot)));
    slots
        .filter_map(|(queue, slot)| {
            let reply = slot.reply.as_ref().filter(|_| slot.state == "answered")?;
            let text = reply.fault.clone()?;
            let handler = slot.request.as_ref().and_then(|request| request.handler.clone()).unwrap_or_default();
            Some(((queue, slot.kind, slot.index), ((reply.tag, reply.count), format!("{handler}: {text}"))))
        })
        .collect()
}

/// Requests of a slot since the look before. A slot of another epoch began at zero.
fn since(before: Option<&Word>, (tag, count): Word) -> u64 {
    let before = before.filter(|(known, _)| *known == tag).map_or(0, |(_, count)| *count);
    (count.wrapping_sub(before) & COUNT_MASK).into()
}

#[cfg(feature = "device-logs")]
fn look(found: &Found, lines: usize, cli: &Cli) -> Option<Dump> {
    let plain = dump(&found.path).ok()?;
    let image = if lines == 0 { None } else { texts(&plain.device, cli).ok().flatten() };
    let Some(image) = image else { return Some(plain) };
    dump_with_lines(&found.path, &image, lines).ok()
}

#[cfg(not(feature = "device-logs"))]
fn look(found: &Found, _lines: usize, _cli: &Cli) -> Option<Dump> {
    dump(&found.path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_wrap_and_begin_anew_in_an_epoch() {
        assert_eq!(since(None, (1, 5)), 5);
        assert_eq!(since(Some(&(1, 3)), (1, 5)), 2);
        assert_eq!(since(Some(&(1, COUNT_MASK)), (1, 1)), 2);
        assert_eq!(since(Some(&(1, 3)), (2, 1)), 1);
    }
}
