//! `hamr-bench rows`: calls, transfers and their floors, in one run, on the same two processors,
//! interleaved. The other commands are those of every tool (`hamr::cli`), with the image that is measured.
//!
//! May use: everything that it measures. No other package uses this one, and nothing that users install contains it.
//!
//! Each floor is measured within a millisecond of its row. Cache lines differ by a tenth in how
//! fast they travel between processors. So each repetition uses other cache lines on both sides,
//! and the device is launched several times.
//!
//! `rows` is the table of rows; `floors`, `calls`, `ways`, `transfers`, `logging`, `sleeping`,
//! `worlds`, `gas`, `xacc`, `growth`, `modules`, `verbs` and `network` with `exchange` measure; `table`, `row`, `goals` and `stats` make figures of samples;
//! `machine` is what the figures belong to; `about` is the text of `--help`; `counts` counts instructions
//! by `callgrind` instead of measuring, of the calls in `instructions` to the device in `manual`.

// A stream that is closed or full must not end a program by a panic: `io::{print, note}`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod about;
mod ahead;
mod both_ends;
mod callgrind;
mod calls;
mod counts;
mod exchange;
mod floors;
mod gas;
mod gas_count;
mod goals;
mod growth;
mod instructions;
mod logging;
mod machine;
mod manual;
mod modules;
mod network;
mod row;
mod rows;
mod sleeping;
mod stats;
mod table;
mod task_count;
mod tasks;
mod thread_count;
mod transfers;
mod verbs;
mod ways;
mod worlds;
mod xacc;

use both_ends::both_ends;
use floors::Gap;
use hamr::cli::{Cli, Commands, Failure, Global, Tool};
use hamr::link::Protocol;
use hamr::{Image, Node, Options, Runtime, WaitMode};
use machine::Machine;
use row::Row;
use rows::INSTRUCTIONS;
use stats::{Spell, median};
use std::io::Write;
use std::process::ExitCode;
use table::{Beside, Key, Table};

/// Any error: the benchmark only prints it.
pub(crate) type BoxError = Box<dyn std::error::Error>;

/// Operations averaged into one sample: a clock call costs a fifth of a call.
const PER_SAMPLE: u32 = 100;
/// Samples of a row in one repetition.
const SAMPLES: u32 = 20;
/// Repetitions per launch, each on other cache lines.
const REPETITIONS: usize = 32;
/// Path of the handlers that are measured.
const HANDLERS: &str = "hamr_kernels::bench::";
/// Launches of the device, unless it is said how many.
const LAUNCHES: u32 = 3;
/// The device that other devices are compared with.
const SHM: &str = "shm";

/// What the devices of all rows are opened with.
struct Setup<'a> {
    runtime: &'a Runtime,
    image: &'a Image,
    global: &'a Global,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Measure calls and transfers, each beside what the machine allows
    #[command(long_about = about::ABOUT)]
    Rows(Args),
}

impl Commands for Command {
    fn run(self, cli: &Cli) -> Result<(), Failure> {
        let Self::Rows(args) = self;
        let setup = Setup { runtime: cli.runtime(), image: &cli.image()?, global: &cli.global };
        rows_of(&args, &setup).map_err(|e| {
            // Handled apart, because a reader that closed its end is no failure.
            match e.downcast::<std::io::Error>() {
                Ok(io) => Failure::from(*io),
                Err(other) => Failure::new(other.to_string()),
            }
        })
    }

    fn welcome(cli: &Cli) -> Result<(), Failure> {
        Self::Rows(Args { only: Vec::new(), launches: LAUNCHES }).run(cli)
    }
}

#[derive(clap::Args)]
struct Args {
    /// Only these rows, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// Launches of the device
    #[arg(long, default_value_t = LAUNCHES, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    launches: u32,
}

fn main() -> ExitCode {
    // This program runs itself under callgrind; in that run only the counted calls may run.
    match instructions::counted_run() {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(_) => return ExitCode::from(2),
    }
    hamr::cli::main::<Command>(Tool {
        name: "hamr-bench",
        about: "Measures calls of a device. Without a command: all rows",
        version: env!("CARGO_PKG_VERSION"),
        image: "hamr-bench-image",
        runtime: Runtime::new,
    })
}

/// Measures the rows that `args` selects and prints one line per row, and one for the machine.
///
/// # Errors
/// An unknown row, a device that does not start, a call that fails.
fn rows_of(args: &Args, setup: &Setup<'_>) -> Result<(), BoxError> {
    let &Setup { runtime, image, global: Global { device, json, .. } } = setup;
    let json = *json;
    let all = || rows::names().chain([INSTRUCTIONS]);
    if let Some(unknown) = args.only.iter().find(|name| !all().any(|known| known == *name)) {
        let names: Vec<&str> = all().collect();
        return Err(format!("no bench is named `{unknown}`: expected some of {}", names.join(", ")).into());
    }
    let mut table = Table::of(&args.only);
    // The instruction count needs no device; the other rows do.
    if rows::names().any(|row| table.wants(row)) {
        check_image(runtime, image, device)?;
        if !json {
            say_what_is_built(device, runtime.target(device)?.is_some(), &table);
        }
        let mut machine = Machine::pin()?;
        for launch in 0..args.launches {
            if !json {
                hamr::cli::note(format_args!("hamr-bench: launch {} of {}", launch + 1, args.launches));
            }
            measure(setup, &mut machine, &mut table)?;
        }
        print(&machine, &table, device, json)?;
    }
    if table.wants(INSTRUCTIONS) {
        counts::print(device, json)?;
    }
    Ok(())
}

/// Refuses an image without the handlers that are measured, before a device is started.
fn check_image(runtime: &Runtime, image: &Image, device: &str) -> Result<(), BoxError> {
    let Some(target) = runtime.target(device)? else { return Ok(()) };
    let file = image.resolve(&target)?;
    let is_measured = |name: &str| name.starts_with(HANDLERS);
    if file.handlers()?.iter().any(|handler| is_measured(&handler.name)) {
        return Ok(());
    }
    let path = file.path.display();
    Err(format!("{path}: expected an image with the handlers {HANDLERS}…, got one without; leave --image out, or put `hamr_kernels::bench_handlers!()` into its main.rs").into())
}

/// Names the images of rows that do not use the one of the other rows.
fn say_what_is_built(device: &str, takes_image: bool, table: &Table) {
    let module = [modules::IMAGE, modules::MODULE].join(" and ");
    let rows = [("load_module", &*module, takes_image), ("xacc_run", xacc::IMAGE, device == SHM)];
    let further = rows.iter().filter(|(row, _, on_device)| *on_device && table.wants(row));
    let further: Vec<String> = further.map(|(row, built, _)| format!("{built} for {row}")).collect();
    if !further.is_empty() {
        hamr::cli::note(format_args!("hamr-bench: builds, where it is not built yet, {}", further.join(", ")));
    }
}

/// One launch of the device.
fn measure(setup: &Setup<'_>, machine: &mut Machine, table: &mut Table) -> Result<(), BoxError> {
    let &Setup { runtime, image, global } = setup;
    let device = &global.device;
    // Each image has the handlers of its own rows.
    let (cpu, print_warnings) = (Some(machine.device()), false);
    let options = Options { streams: Some(72), heap: 64 << 20, cpu, print_warnings, ..Options::default() };
    let options = global.apply(options);
    let growing = options.clone();
    let node = runtime.open_with(device, image.clone(), options.clone())?;
    table.add(Key::new("start"), &[node.info().start.as_nanos() as f64], None);
    if table.wants("task_switch") {
        worlds::task_switch(&node, table)?;
    }
    if rows::needs_floors(table) {
        rows::measure_calls(&node, machine, table)?;
    }
    tasks::measure(&node, table)?;
    rows::measure_streams(&node, table)?;
    if table.wants_any(&["call_asleep", "host_call_asleep", "relay_call_asleep"]) {
        // In a device of its own: during the other rows, no side may sleep.
        let options = Options { wait: WaitMode::Sleep, relay: true, ..options.clone() };
        let waiter = runtime.open_with(device, image.clone(), options.clone())?;
        if table.wants("call_asleep") {
            sleeping::call_asleep(&waiter, machine.device(), table)?;
        }
        if table.wants("host_call_asleep") {
            sleeping::host_call_asleep(&waiter, machine.device(), table)?;
        }
        if table.wants("relay_call_asleep") {
            let other = runtime.open_with(device, image.clone(), options)?;
            sleeping::relay_call_asleep(&waiter, &other, table)?;
        }
    }
    if device == SHM && table.wants("call_one_processor") {
        let on_one = |wait| {
            runtime.open_with(device, image.clone(), Options { wait, cpu: Some(machine.host()), ..options.clone() })
        };
        sleeping::call_one_processor(&on_one(options.wait)?, &on_one(WaitMode::Sleep)?, table)?;
    }
    if device == SHM && table.wants("split_call_empty") {
        let split = Options { protocol: Some(Protocol::Split), ..options.clone() };
        rows::split_call_empty(&runtime.open_with(device, image.clone(), split)?, table)?;
    }
    if table.wants("load_module") || table.wants("load_image") {
        modules::measure(runtime, device, options.clone(), table)?;
    }
    if table.wants("copy_dd") || table.wants("copy_within") {
        let options = Options { wait: WaitMode::Sleep, ..options.clone() };
        let other = runtime.open_with(device, image.clone(), options)?;
        transfers::copies(&node, &other, table)?;
    }
    if device != SHM && table.wants("call_empty_vs_shm") {
        // Interleaved on the same processors, so that a slow phase of the machine affects both.
        match runtime.open_with(SHM, image.clone(), options) {
            Ok(shm) => compare(&node, &shm, table)?,
            // An image file is made for one kind of device.
            Err(e) => hamr::cli::note(format_args!("hamr-bench: call_empty_vs_shm skipped: {e}")),
        }
    }
    gas::measure(image, machine, table)?;
    xacc::measure(runtime, machine, table)?;
    if table.wants("log_line") || table.wants("call_empty_logs") {
        logging::measure(&node, table)?;
    }
    rows::measure_transfers(&node, table)?;
    drop(node);
    if device == SHM && table.wants_any(&worlds::ROWS) {
        worlds::measure(setup, machine, table)?;
    }
    if device == SHM {
        growth::measure(runtime, device, image, &growing, table)?;
        network::measure(setup, machine, table)?;
    }
    if device == SHM {
        verbs::measure(runtime, image, &growing, machine, table)?;
    }
    // By its name, not with all rows: it takes long.
    if table.wants_any(&verbs::FIGURE) && !table.wants("start") {
        verbs::figure(runtime, device, &growing, machine, table)?;
    }
    if device == SHM && table.wants("xacc_run") {
        xacc::run(runtime, machine, table)?;
    }
    Ok(())
}

/// The machine, then the rows. Not by `println!`, which panics when the reader has closed the pipe.
fn print(machine: &Machine, table: &Table, device: &str, json: bool) -> Result<(), BoxError> {
    let mut out = std::io::stdout();
    if json {
        writeln!(out, "{}", machine.json(device))?;
    } else {
        writeln!(out, "device {device}; {}\n{}", machine.text(), row::heads())?;
    }
    for row in Row::all(table).iter().filter(|row| table.wants(row.name())) {
        let line = if json { row.json(device).to_string() } else { row.text() };
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Empty calls of a device and of shared memory, alternating.
fn compare(node: &Node, shm: &Node, table: &mut Table) -> Result<(), BoxError> {
    for _ in 0..REPETITIONS {
        let on = |node: &Node| -> Result<Vec<f64>, BoxError> {
            let stream = node.stream()?;
            // The device has been idle and may be asleep.
            calls::call_empty(&stream, Gap::NONE)?;
            calls::call_empty(&stream, Gap::NONE)
        };
        let beside = on(shm)?;
        let key = Key::new("call_empty_vs_shm").gap(0).spell(Spell::of(median(&beside)));
        table.add(key, &on(node)?, Some(Beside { what: "shm", ns: &beside }));
    }
    Ok(())
}
