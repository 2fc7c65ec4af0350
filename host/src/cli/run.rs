//! `hamr run`: starts a world, runs the handler `main` of an image or a whole program on every rank,
//! and ends with the ranks' exit code (`docs/worlds.md`).

use super::{Cli, Failure, file_in};
use crate::world::ProgramError;
use crate::{CallError, Error, HandlerInfo, Image, ImageFile, Node, Options, World, WorldOptions};
use hamr_comm::abi::table::record_flag;
use hamr_comm::{Call, Context, Fault, Handler, Task};
use std::time::Duration;

/// Bytes of arguments, which travel as one text.
const ARGUMENTS: usize = 4096;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Ranks, at most 64
    #[arg(short = 'n', long = "ranks", value_name = "N")]
    ranks: Option<usize>,
    /// A rank on this device, or K of them; the ranks are in the order of these options
    #[arg(long = "rank", value_name = "SPEC[*K]")]
    specs: Vec<String>,
    /// Bytes of each rank's segment: a number, or one with K, M or G behind it
    #[arg(long, value_name = "BYTES")]
    segment: Option<String>,
    /// Pins the ranks to these processors, in turn: 0,2-5
    #[arg(long, value_name = "LIST")]
    cpu: Option<String>,
    /// Seconds that the ranks may run
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<String>,
    /// An image: a file, or the name of the binary or package that builds it; or a program: a file
    #[arg(value_name = "IMAGE|PROGRAM")]
    what: String,
    /// What `main` of an image gets, joined by spaces; or the program's arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// What every rank of an image runs.
enum Main {}
/// The same as a task.
enum TaskMain {}

impl Handler for Main {
    const NAME: &'static str = "main";
    const BODY: u64 = 0;
    const FLAGS: u32 = 0;
    type Kind = hamr_comm::Context<'static>;
    type Args = (heapless::String<ARGUMENTS>,);
    type Output = Result<u8, Fault>;
    fn run(_: &mut Context<'_>, _: Self::Args) -> Self::Output {
        Err(Fault::msg("main runs on ranks"))
    }
}

impl Handler for TaskMain {
    const NAME: &'static str = Main::NAME;
    const BODY: u64 = 0;
    const FLAGS: u32 = record_flag::TASK;
    type Kind = Task<'static>;
    type Args = (heapless::String<ARGUMENTS>,);
    type Output = Result<u8, Fault>;
    fn run(_: &mut Task<'_>, _: Self::Args) -> Self::Output {
        Err(Fault::msg("main runs on ranks"))
    }
}

pub(super) fn run(args: &Args, cli: &Cli) -> Result<(), Failure> {
    let specs = specs(args, cli)?;
    for spec in &specs {
        cli.target_of(spec)?;
    }
    if let Some(other) = &cli.global.image {
        return Err(Failure::new(format!("expected one image, got {} and `--image {other}`", args.what)));
    }
    let path = file_in(&args.what);
    let is_program = path.map(ImageFile::is_image).transpose()? == Some(false);
    let text = args.arguments.join(" ");
    if !is_program && text.len() > ARGUMENTS {
        return Err(Failure::new(format!("expected at most {ARGUMENTS} bytes of arguments, got {}", text.len())));
    }
    let options = options(args, cli)?;
    let image = match path {
        Some(path) if is_program => Image::program(path, &args.arguments)?,
        Some(path) => Image::file(path)?,
        None => Image::named(&args.what),
    };
    let specs: Vec<&str> = specs.iter().map(String::as_str).collect();
    let world = cli.runtime.world_with(&specs, image, options).map_err(wrong_ranks)?;
    for node in world.nodes() {
        if !is_program {
            main_of(node, &args.what)?;
        }
        #[cfg(feature = "device-logs")]
        cli.print_logs(node)?;
    }
    let outcome = if is_program { world.run_main() } else { run_image(&world, &text, &args.what) };
    match outcome.map_err(why)? {
        0 => Ok(()),
        code => Err(Failure::code(code)),
    }
}

fn run_image(world: &World, text: &str, image: &str) -> Result<u8, ProgramError> {
    // It was checked that it fits.
    let arguments = heapless::String::try_from(text).unwrap_or_default();
    // All ranks have the handler of one source.
    let is_task =
        world.nodes().iter().all(|node| main_of(node, image).is_ok_and(|main| main.flags & record_flag::TASK != 0));
    match is_task {
        true => world.run_to_end(Call::<TaskMain>::new((arguments,))),
        false => world.run_to_end(Call::<Main>::new((arguments,))),
    }
}

fn why(error: ProgramError) -> Failure {
    Failure::new(match error {
        ProgramError::Failed(failed) => match failed.error {
            CallError::Deadline(site) => format!("{site}: it has not ended within --timeout{}", site.waited()),
            // What and where; a backtrace has many lines.
            other => other.to_string().lines().next().unwrap_or_default().to_owned(),
        },
        other => other.to_string(),
    })
}

/// The `main` of an image, which has these types.
fn main_of<'n>(node: &'n Node, image: &str) -> Result<&'n HandlerInfo, Failure> {
    let is_main = |handler: &&HandlerInfo| (handler.id, handler.signature) == (Main::ID, Main::SIGNATURE);
    node.handlers().iter().find(is_main).ok_or_else(|| {
        Failure::new(format!(
            "image {image}: expected a handler #[offload(name = \"main\")] fn main(cx: &mut Context, arguments: heapless::String<N>) -> \
             Result<u8, Fault>, found none"
        ))
    })
}

/// The device of each rank.
fn specs(args: &Args, cli: &Cli) -> Result<Vec<String>, Failure> {
    if args.specs.is_empty() {
        let ranks = args.ranks.unwrap_or(1);
        return if (1..=MOST).contains(&ranks) {
            Ok(vec![cli.global.device.clone(); ranks])
        } else {
            Err(Failure::new(format!("-n: expected 1 to {MOST} ranks, got {ranks}")))
        };
    }
    if cli.is_device_chosen {
        return Err(Failure::new(format!("expected --rank or `--device {}`, got both", cli.global.device)));
    }
    let mut specs = Vec::new();
    for spec in &args.specs {
        let (device, times) = match spec.rsplit_once('*') {
            Some((device, times)) => (device, times.parse().ok().filter(|times| (1..=MOST).contains(times))),
            None => (spec.as_str(), Some(1)),
        };
        let times = times.ok_or_else(|| Failure::new(format!("--rank {spec}: expected 1 to {MOST} behind the `*`")))?;
        specs.extend(std::iter::repeat_n(device.to_owned(), times));
    }
    let got = specs.len();
    match args.ranks {
        Some(wanted) if wanted != got => {
            Err(Failure::new(format!("expected the {wanted} ranks of -n, got {got} by --rank; leave -n out")))
        }
        _ if got > MOST => Err(Failure::new(format!("--rank: expected at most {MOST} ranks, got {got}"))),
        _ => Ok(specs),
    }
}

const MOST: usize = hamr_comm::abi::world::MAX_RANKS;

fn options(args: &Args, cli: &Cli) -> Result<WorldOptions, Failure> {
    let WorldOptions { rank, stall, .. } = WorldOptions::default();
    let rank = cli.global.apply(rank);
    let segment = args.segment.as_deref().map_or(Ok(rank.segment), bytes)?;
    let deadline = args.timeout.as_deref().map(seconds).transpose()?;
    let rank = cli.log_options(Options { segment, deadline, ..rank });
    Ok(WorldOptions { rank, cpus: args.cpu.as_deref().map_or(Ok(Vec::new()), processors)?, stall })
}

/// `64M`, a multiple of 4096.
fn bytes(text: &str) -> Result<u64, Failure> {
    crate::settings::bytes(text).ok_or_else(|| {
        Failure::new(format!("--segment: expected a number of bytes, or one with K, M or G, got {text}"))
    })
}

/// `1.5`
fn seconds(text: &str) -> Result<Duration, Failure> {
    let seconds = text.parse().ok().and_then(|s: f64| Duration::try_from_secs_f64(s).ok());
    let seconds = seconds.filter(|limit| !limit.is_zero());
    seconds.ok_or_else(|| Failure::new(format!("--timeout: expected seconds above zero, got {text}")))
}

/// `0,2-5`
fn processors(text: &str) -> Result<Vec<usize>, Failure> {
    let wrong = || Failure::new(format!("--cpu: expected processors such as 0,2-5, got {text}"));
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<usize>().ok().filter(|n| *n < rustix::thread::CpuSet::MAX_CPU);
        let (first, last) = (number(first).ok_or_else(wrong)?, number(last).ok_or_else(wrong)?);
        if first > last {
            return Err(wrong());
        }
        all.extend(first..=last);
    }
    Ok(all)
}

/// The library's names of options, as they are typed here.
fn wrong_ranks(error: Error) -> Failure {
    match error {
        Error::InvalidConfig { option: "Options::segment", expected, got } => {
            Failure::new(format!("--segment: expected {expected}, got {got}"))
        }
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_times_and_processors_are_read() {
        assert_eq!(
            [bytes("4096"), bytes("64K"), bytes("3M"), bytes("2G")].map(Result::ok),
            [Some(4096), Some(64 << 10), Some(3 << 20), Some(2 << 30)]
        );
        for wrong in ["", "K", "-1", "1.5M", "99999999999G", "1T", "é"] {
            assert!(bytes(wrong).is_err_and(|e| e.to_string().contains("--segment")), "{wrong}");
        }
        assert_eq!(seconds("0.25").ok(), Some(Duration::from_millis(250)));
        for wrong in ["", "0", "-1", "NaN", "inf", "1e300", "1s"] {
            assert!(seconds(wrong).is_err_and(|e| e.to_string().contains("--timeout")), "{wrong}");
        }
        assert_eq!(processors("0,2-4,1").ok(), Some(vec![0, 2, 3, 4, 1]));
        for wrong in ["", ",", "1-", "-1", "3-2", "a", "0-99999999999", "1024"] {
            assert!(processors(wrong).is_err_and(|e| e.to_string().contains("--cpu")), "{wrong}");
        }
    }
}
