//! The machine that a run's figures belong to.

use super::BoxError;
use super::stats::{Spell, median};
use serde_json::{Value, json};
use std::hint::{black_box, spin_loop};
use std::time::Instant;

/// What the system says about its processors, and what was measured of one.
pub(crate) struct Machine {
    processor: String,
    host: usize,
    device: usize,
    /// The two are threads of one core.
    siblings: Option<bool>,
    /// The two share the last level of cache.
    cache: Option<bool>,
    pause_ns: f64,
    clock_ns: f64,
    /// Repetitions in near and in far spells, and the median floor of each.
    spells: [(Spell, Vec<f64>); 2],
}

impl Machine {
    /// Puts the host on the first processor that it may use and the device on the second.
    pub(crate) fn pin() -> Result<Self, BoxError> {
        let allowed = rustix::thread::sched_getaffinity(None)?;
        let mut free = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        let (Some(host), Some(device)) = (free.next(), free.next()) else {
            return Err(
                "expected two processors, one for the host and one for the device, got one; nothing would be measured"
                    .into(),
            );
        };
        pin_to(&[host])?;
        let among = |list: &str| {
            let text = std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{host}/{list}")).ok()?;
            Some(contains(text.trim(), device))
        };
        Ok(Self {
            processor: processor(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            host,
            device,
            siblings: among("topology/thread_siblings_list"),
            cache: among("cache/index3/shared_cpu_list"),
            pause_ns: per_turn(spin_loop),
            clock_ns: per_turn(|| {
                black_box(Instant::now());
            }),
            spells: [(Spell::Near, Vec::new()), (Spell::Far, Vec::new())],
        })
    }

    /// This program's processor.
    pub(crate) fn host(&self) -> usize {
        self.host
    }

    /// The device's processor.
    pub(crate) fn device(&self) -> usize {
        self.device
    }

    /// Lets this thread run on both processors, and what it starts from now on.
    pub(crate) fn spread(&self) -> Result<(), BoxError> {
        pin_to(&[self.host, self.device])
    }

    /// Puts this thread on the host's processor again.
    pub(crate) fn gather(&self) -> Result<(), BoxError> {
        pin_to(&[self.host])
    }

    /// Puts this thread on the device's processor, until [`Self::gather`].
    pub(crate) fn take_device(&self) -> Result<(), BoxError> {
        pin_to(&[self.device])
    }

    /// Notes a repetition's floor.
    pub(crate) fn note(&mut self, floor: f64) {
        let spell = Spell::of(floor);
        for (of, floors) in &mut self.spells {
            if *of == spell {
                floors.push(floor);
            }
        }
    }

    /// The row `machine`.
    pub(crate) fn json(&self, device: &str) -> Value {
        let round = |ns: f64| (ns * 10.0).round() / 10.0;
        let spells = self.spells.iter().filter(|(_, floors)| !floors.is_empty());
        let spells: Vec<Value> = spells
            .map(|(spell, floors)| {
                json!({ "spell": spell.name(), "repetitions": floors.len(), "floor_ns": round(median(floors)) })
            })
            .collect();
        json!({
            "name": "machine", "device": device, "processor": self.processor, "host_cpu": self.host,
            "device_cpu": self.device, "one_core": self.siblings, "one_cache": self.cache,
            "pause_ns": round(self.pause_ns), "clock_ns": round(self.clock_ns), "spells": spells,
        })
    }

    /// The same for people.
    pub(crate) fn text(&self) -> String {
        let said = |what: Option<bool>, yes: &'static str, no: &'static str| match what {
            Some(true) => yes,
            Some(false) => no,
            None => "unknown",
        };
        let mut text = format!(
            "{}; host on processor {}, device on {}\nthe system says: {}, {}; measured: a pause {:.1} ns, a clock call {:.1} ns\n",
            self.processor,
            self.host,
            self.device,
            said(self.siblings, "two threads of one core", "two cores"),
            said(self.cache, "one cache for both", "a cache for each"),
            self.pause_ns,
            self.clock_ns,
        );
        for (spell, floors) in self.spells.iter().filter(|(_, floors)| !floors.is_empty()) {
            let guess = match spell {
                Spell::Near => "the processors share a cache",
                Spell::Far => "the processors share no cache",
            };
            let (name, count, floor) = (spell.name(), floors.len(), median(floors));
            text += &format!("{name} in {count} repetitions: a line's round trip takes {floor:.0} ns, so {guess}\n");
        }
        text
    }
}

fn pin_to(cpus: &[usize]) -> Result<(), BoxError> {
    let mut set = rustix::thread::CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Name, family and model, as the system has them.
fn processor(cpuinfo: &str) -> String {
    let field = |name: &str| {
        let of = |line: &str| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        };
        cpuinfo.lines().find_map(of)
    };
    match (field("model name"), field("cpu family"), field("model")) {
        (Some(name), Some(family), Some(model)) => format!("{name} (family {family}, model {model})"),
        (Some(name), _, _) => name,
        (None, _, _) => "an unnamed processor".into(),
    }
}

/// Is `cpu` in a list as `0-3,8`?
fn contains(list: &str, cpu: usize) -> bool {
    let mut ranges = list.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    ranges.any(|range: std::ops::RangeInclusive<usize>| range.contains(&cpu))
}

/// Nanoseconds of `once`, the least of some averages: an interrupt only adds.
fn per_turn(once: impl Fn()) -> f64 {
    const TURNS: u32 = 2000;
    let average = |_| {
        let begin = Instant::now();
        for _ in 0..TURNS {
            once();
        }
        begin.elapsed().as_nanos() as f64 / f64::from(TURNS)
    };
    (0..20).map(average).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_processors_is_understood() {
        assert!(contains("0-3,8", 2) && contains("0-3,8", 8) && contains("1", 1));
        assert!(!contains("0-3,8", 4) && !contains("", 0) && !contains("x-y", 0));
    }

    #[test]
    fn the_processor_is_named_with_its_model() {
        let text = "processor\t: 0\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n";
        assert_eq!(processor(text), "AMD EPYC (family 26, model 2)");
        assert_eq!(processor(""), "an unnamed processor");
    }
}
