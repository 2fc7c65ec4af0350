//! `cargo xtask performance`: measures this system and others in the same minutes, and writes the
//! charts and the tables of `docs/performance.md` from the measurement.
//!
//! A launch is one run of `hamr-bench` and one of each other system, so that all see the same
//! spells of the machine. `rivals`, `network` and `system` are the others, `data` is what is kept, `charts`
//! and `page` with its `lines` show it, `svg` draws. With `--redraw` nothing is measured;
//! with `--others` these alone are, and no page is written. `pairs` is a task of its own: whole programs beside the same in C.

mod charts;
mod data;
mod lines;
mod network;
mod page;
pub(crate) mod pairs;
pub(crate) mod paper;
mod rivals;
mod svg;
mod system;

use crate::{Error, child};
use data::Data;
use network::Calls;
use rivals::{Rivals, Value};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use system::Cpus;

/// Launches, unless `--launches` says otherwise.
const LAUNCHES: usize = 10;
/// With `--others`.
const OTHERS_LAUNCHES: usize = 2;
/// Launches, of these, that also measure programs over arrays, which take long.
const PROGRAM_LAUNCHES: usize = 3;
/// The time for one run of `hamr-bench`.
const LIMIT: Duration = Duration::from_secs(1200);
/// How often another system is measured again because the spell changed meanwhile.
const ATTEMPTS: usize = 3;
/// Machines in QEMU, and the rows that are measured of them.
const MACHINES: [&str; 3] = ["x86_64", "aarch64", "riscv64"];
const MACHINE_ROWS: &str = "start,call_empty,call_empty_vs_shm";

/// What rows of verbs start, beside the program that measures.
const ADAPTER: [&str; 5] = ["build", "--quiet", "--release", "--package", "hamr-hca"];

/// Measures, unless `--redraw`; then writes the page.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    let folder = crate::root().join("docs/performance");
    let path = folder.join("data.json");
    let launches = match arguments {
        [] => Some(LAUNCHES),
        [flag] if flag == "--redraw" => None,
        [flag] if flag == "--others" => {
            println!("{}", measure_others()?.text());
            return Ok(());
        }
        [flag, count] if flag == "--launches" => match count.parse() {
            Ok(count) if count > 0 => Some(count),
            _ => return Err(Error::unknown(count, "a number of launches")),
        },
        [flag] if flag == "--launches" => return Err(Error::Usage("`--launches` expects a number of launches".into())),
        [first, .., more] if ["--redraw", "--others", "--launches"].contains(&&**first) => {
            return Err(Error::unknown(more, &format!("nothing more behind `{first}`")));
        }
        [other, ..] => return Err(Error::unknown(other, "--launches N, --redraw, --others or nothing")),
    };
    let data = match launches {
        None => Data::load(&path)?,
        Some(launches) => measure(launches)?,
    };
    std::fs::create_dir_all(&folder).map_err(|e| Error::Failed(format!("{}: {e}", folder.display())))?;
    let mut files: Vec<(PathBuf, String)> = vec![(path, data.text())];
    files.extend(charts::all(&data).into_iter().map(|(name, chart)| (folder.join(name), chart.draw())));
    for page in page::PAGES {
        let path = crate::root().join(page);
        let text = std::fs::read_to_string(&path).map_err(|e| Error::Failed(format!("{page}: {e}")))?;
        files.push((path, page::fill(&text, &data)?));
    }
    for (path, text) in files {
        std::fs::write(&path, text).map_err(|e| Error::Failed(format!("{}: {e}", path.display())))?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

/// The other systems, in a few launches.
fn measure_others() -> Result<Data, Error> {
    let (mut data, rivals, calls, cpus) = prepare(OTHERS_LAUNCHES)?;
    (0..OTHERS_LAUNCHES).for_each(|_| others(&mut data, &rivals, &calls, cpus));
    Ok(data)
}

/// Builds the other systems, or names them as missing.
fn prepare(launches: usize) -> Result<(Data, Rivals, Calls, Cpus), Error> {
    let cpus = Cpus::find().ok_or_else(|| Error::Failed("expected two processors, got one".into()))?;
    let target = hamr_qemu::folders().first().cloned().unwrap_or_else(|| crate::root().join("target/hamr"));
    let (rivals, calls) = (Rivals::prepare(&target, cpus), Calls::prepare(&target, cpus));
    let mut data = Data::new(launches);
    for what in rivals.missing.iter().chain(&calls.missing) {
        println!("left out: {what}");
        data.add_missing(what);
    }
    Ok((data, rivals, calls, cpus))
}

fn measure(launches: usize) -> Result<Data, Error> {
    child::capture(child::cargo().args(ADAPTER), LIMIT)?;
    let (mut data, rivals, calls, cpus) = prepare(launches)?;
    for launch in 1..=launches {
        println!("launch {launch} of {launches}");
        bench(&mut data, &["--only", &lines::rows().join(",")])?;
        others(&mut data, &rivals, &calls, cpus);
        if launch <= PROGRAM_LAUNCHES {
            bench(&mut data, &["--only", &lines::programs().join(",")])?;
        }
    }
    // Counts do not vary, and a machine's start is slow.
    bench(&mut data, &["--only", "instructions_call_empty"])?;
    for machine in MACHINES {
        if let Err(error) = bench(&mut data, &["--device", &format!("qemu:{machine}"), "--only", MACHINE_ROWS]) {
            println!("left out: {error}");
            data.add_missing(&format!("qemu:{machine}"));
        }
    }
    if let Err(error) = sizes(&mut data) {
        println!("left out: {error}");
        data.add_missing("sizes of images");
    }
    for row in page::empty_lines(&data) {
        println!("left out: {row}");
        data.add_missing(&row);
    }
    Ok(data)
}

/// One run of `hamr-bench` with a launch of the device.
fn bench(data: &mut Data, arguments: &[&str]) -> Result<(), Error> {
    let mut command = child::cargo();
    command.args(["run", "--quiet", "--release", "--package", "hamr-bench", "--"]);
    command.args(["rows", "--json", "--launches", "1"]).args(arguments);
    let output = child::capture(&mut command, LIMIT)?;
    output.lines().try_for_each(|line| data.add_line(line))
}

/// One run of a system.
type Measure<'m> = &'m dyn Fn() -> Result<Vec<Value>, Error>;

/// One run of each other system.
fn others(data: &mut Data, rivals: &Rivals, calls: &Calls, cpus: Cpus) {
    let own = || {
        let rows = system::descriptors(cpus).map_err(|e| Error::Failed(e.to_string()))?;
        Ok(rows.map(|(system, value)| Value { system, what: "size", number: 8, value }).to_vec())
    };
    let ucx: Vec<_> = (0..rivals.ucx_tests()).map(|which| move || rivals.ucx(which)).collect();
    let (mpi, over_tcp) = (|| rivals.mpi(), (|| calls.measure(), || rivals.mpi_over_tcp(), || rivals.ucx_over_tcp()));
    let mut systems: Vec<(&str, Measure<'_>)> = vec![("pipes and eventfds", &own), ("OpenMPI", &mpi)];
    systems.extend([
        ("gRPC, tarpc", &over_tcp.0 as Measure<'_>),
        ("OpenMPI, TCP", &over_tcp.1),
        ("UCX, TCP", &over_tcp.2),
    ]);
    systems.extend(ucx.iter().map(|test| ("UCX", test as Measure<'_>)));
    for (name, measure) in systems {
        if let Err(error) = in_one_spell(data, cpus, measure) {
            println!("left out: {name}: {error}");
            data.add_missing(&format!("{name}: {error}"));
        }
    }
}

/// Measures until the spell is the same before and after, and takes up the values.
fn in_one_spell(data: &mut Data, cpus: Cpus, measure: &dyn Fn() -> Result<Vec<Value>, Error>) -> Result<(), Error> {
    for _ in 0..ATTEMPTS {
        let before = system::spell(cpus);
        let values = measure()?;
        if system::spell(cpus) == before {
            values.iter().for_each(|value| data.add_system(value, before));
            return Ok(());
        }
    }
    println!("the spell changed {ATTEMPTS} times; this launch has no values of that system");
    Ok(())
}

/// The sizes of the images in QEMU.
fn sizes(data: &mut Data) -> Result<(), Error> {
    let own = std::env::current_exe().map_err(|e| Error::Failed(e.to_string()))?;
    let output = child::capture(Command::new(own).args(["size", "--json"]), LIMIT)?;
    for line in output.lines() {
        let row =
            serde_json::from_str(line).map_err(|e| Error::Failed(format!("expected a size, got `{line}`: {e}")))?;
        data.add_size(&row);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_arguments_are_refused_before_anything_is_measured() {
        for (wrong, says) in [
            (&["--launches"][..], "expects a number"),
            (&["--launches", "0"], "`0`"),
            (&["--others", "--launches", "1"], "`1` is not known here, expected nothing more behind `--others`"),
            (&["--redraw", "x"], "`x`"),
            (&["x"], "`x`"),
        ] {
            let arguments: Vec<String> = wrong.iter().map(|&word| word.to_owned()).collect();
            match task(&arguments) {
                Err(Error::Usage(why)) => assert!(why.contains(says) && !why.contains('\n'), "{wrong:?}: {why}"),
                other => panic!("{wrong:?}: {other:?}"),
            }
        }
    }
}
