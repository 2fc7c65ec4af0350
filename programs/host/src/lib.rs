//! What the programs that start worlds share.

// A stream that is closed or full must not end a program by a panic: `io::{print, note}`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod cg;
mod files;
pub mod himeno;
pub mod npy;
mod progress;
pub mod svg;

use hamr::io::{note, print};
use hamr::{Image, Options, Runtime, World, WorldOptions};
use std::ffi::OsString;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

// Ranks that are threads of this process (`thread`) run the programs that are in it.
hamr_programs::handlers!();

/// Why a program has failed: one line.
pub type Failure = Box<dyn std::error::Error>;

/// The image of the programs.
const IMAGE: &str = "hamr-programs";
/// Devices that a program runs on at most.
const MOST_RANKS: u32 = 64;
/// A segment is smaller.
const MOST_BYTES: u64 = 1 << 36;

/// Lines of `--help` behind the usage of each program.
const HELP: &str = "
DEVICES are the kinds of the ranks with commas between, such as shm,qemu:riscv64 or thread; the last one counts for all
that follow, without it shm. On a terminal a line says how far it is; HAMR_PROGRESS=1 asks for it elsewhere.
";

/// Runs a main function with the arguments of the program; an error is one line, and exit code 2. `--help` prints `usage`. A
/// standard output that nothing reads any more is no error.
pub fn run(usage: &str, main: impl FnOnce(Vec<OsString>) -> Result<(), Failure>) -> ExitCode {
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_default();
    let args: Vec<OsString> = args.collect();
    let done = match args.iter().any(|arg| arg == "--help" || arg == "-h") {
        true => print(&format!("{usage}\n{HELP}")).map_err(Failure::from),
        false if args.is_empty() => Err(usage.lines().next().unwrap_or_default().into()),
        false => main(args),
    };
    progress::end();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            note(format_args!("{}: {error}", Path::new(&name).file_name().unwrap_or_default().display()));
            ExitCode::from(2)
        }
    }
}

fn is_closed(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
}

/// Prints a line of results.
///
/// # Errors
/// Standard output takes none.
pub fn say(line: fmt::Arguments<'_>) -> Result<(), Failure> {
    Ok(print(&format!("{line}\n"))?)
}

/// The arguments of a program without files.
///
/// # Errors
/// An option.
pub fn no_files(args: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    Ok(words(args)?.into_iter().map(Into::into).collect())
}

/// Arguments that are no files.
///
/// # Errors
/// One is no text, or an option.
pub fn words(args: Vec<OsString>) -> Result<Vec<String>, Failure> {
    let word = |arg: OsString| {
        let word = arg.into_string().map_err(|arg| {
            let got = arg.as_encoded_bytes().escape_ascii();
            format!("expected text in UTF-8, got `{got}`")
        })?;
        if word.starts_with("--") {
            return Err(format!("expected no option, got {word}; --help names those that there are").into());
        }
        Ok(word)
    };
    args.into_iter().map(word).collect()
}

/// A number of nodes, elements or steps.
///
/// # Errors
/// The text is none.
pub fn number<T: std::str::FromStr>(text: &str) -> Result<T, Failure> {
    text.parse().map_err(|_| format!("expected a number, got {text}").into())
}

/// The bytes of so many arrays of these extents.
///
/// # Errors
/// An extent is not positive; the bytes are more than can be counted.
pub fn bytes_of(arrays: u64, element: u64, extents: &[i64]) -> Result<u64, Failure> {
    let add = |bytes: u64, extent: &i64| match u64::try_from(*extent) {
        Ok(extent @ 1..) => bytes.checked_mul(extent).ok_or(format!("{extent} elements are too many")),
        _ => Err(format!("expected at least 1 element, got {extent}")),
    };
    Ok(extents.iter().try_fold(arrays * element, add)?)
}

/// A world of `nodes[0] * nodes[1]` devices with the programs, `bytes` for the arrays of all of them
/// together, and `heap` for buffers on each. `devices`, if there is one, has the kinds of the ranks, with
/// commas between; the last kind counts for all that follow.
///
/// # Errors
/// It does not start; there is an argument behind `devices`.
pub fn world(devices: &[String], nodes: [u32; 2], bytes: u64, heap: u64) -> Result<World, Failure> {
    if let Some(other) = devices.get(1) {
        return Err(format!("expected no argument behind the devices, got {other}").into());
    }
    let kinds: Vec<&str> = devices.first().map_or("shm", |devices| devices).split(',').collect();
    let last = kinds.last().copied().unwrap_or("shm");
    let ranks = nodes[0].checked_mul(nodes[1]).filter(|ranks| (1..=MOST_RANKS).contains(ranks));
    let ranks = ranks.ok_or(format!("expected 1 to {MOST_RANKS} devices, got {} x {}", nodes[0], nodes[1]))?;
    let specs: Vec<&str> = (0..ranks as usize).map(|rank| *kinds.get(rank).unwrap_or(&last)).collect();
    // Blocks are rounded up, and have shadows.
    let segment = (bytes.div_ceil(u64::from(ranks)) / 4 * 5 + (4 << 20)).next_power_of_two();
    if segment >= MOST_BYTES {
        return Err(
            format!("the arrays need {segment} bytes on each device, of which it has less than {MOST_BYTES}").into()
        );
    }
    let options = WorldOptions::default();
    let heap = options.rank.heap + heap;
    let rank = Options { heap, segment, deadline: None, ..options.rank };
    let runtime = Runtime::new()?;
    progress::watch(&runtime);
    Ok(runtime.world_with(&specs, Image::find(IMAGE)?, WorldOptions { rank, ..options })?)
}
