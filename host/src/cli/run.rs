//! `hamr run`: starts a world, runs the handler `main` of an image or a whole program on each rank,
//! and ends with the ranks' exit code (`docs/worlds.md`).

use super::{Cli, Failure, file_in, number};
use crate::world::{ARGUMENTS, Main, ProgramError};
use crate::{CallError, Error, Image, ImageFile, Options, WorldOptions};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Ranks, at most 4095; 250 on `shm`, or 64 where one is a bare-metal image
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = number::<usize>)]
    ranks: Option<usize>,
    /// A rank on this device, or K of them; behind `=` what they run, if it is not IMAGE|PROGRAM. The
    /// ranks are in the order of these options
    #[arg(long = "rank", value_name = "SPEC[*K][=IMAGE|PROGRAM]")]
    specs: Vec<OsString>,
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
    what: OsString,
    /// What `main` of an image gets, joined by spaces; or the program's arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

pub(super) fn run(args: &Args, cli: &Cli) -> Result<(), Failure> {
    let ranks = ranks(args, cli)?;
    for (spec, _) in &ranks {
        cli.target_of(spec)?;
    }
    if let Some(other) = &cli.global.image {
        let (what, other) = (args.what.display(), other.display());
        return Err(Failure::new(format!("expected one image, got {what} and `--image {other}`")));
    }
    let text = args.arguments.join(OsStr::new(" "));
    let mut images: BTreeMap<&OsStr, Image> = BTreeMap::new();
    for (_, what) in &ranks {
        if !images.contains_key(what) {
            images.insert(what, image(what, args, &text)?);
        }
    }
    let seats: Vec<_> = ranks.iter().map(|(spec, what)| (&**spec, images[what].clone())).collect();
    let world = cli.runtime.world_of_images(&seats, options(args, cli)?).map_err(wrong_ranks)?;
    for (node, (_, what)) in world.nodes().iter().zip(&ranks) {
        if let Main::Missing = Main::of(node) {
            return Err(no_main(what));
        }
        #[cfg(feature = "device-logs")]
        cli.print_logs(node)?;
    }
    // Of an image it is text: checked above. A program has its arguments already.
    match world.run_main(&text.to_string_lossy()).map_err(why)? {
        0 => Ok(()),
        code => Err(Failure::code(code)),
    }
}

/// What a rank runs: an image, by file or name, or a program with the arguments.
fn image(what: &OsStr, args: &Args, text: &OsStr) -> Result<Image, Failure> {
    let path = file_in(what);
    if let Some(path) = path
        && !ImageFile::is_image(path)?
    {
        return Ok(Image::program(path, &args.arguments)?);
    }
    if text.to_str().is_none() {
        let text = text.as_bytes().escape_ascii();
        return Err(Failure::new(format!("expected arguments of an image as text in UTF-8, got `{text}`")));
    }
    if text.len() > ARGUMENTS {
        return Err(Failure::new(format!("expected at most {ARGUMENTS} bytes of arguments, got {}", text.len())));
    }
    Ok(Image::of_argument(what)?)
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

fn no_main(image: &OsStr) -> Failure {
    let image = image.display();
    Failure::new(format!(
        "image {image}: expected a handler #[offload(name = \"main\")] fn main(cx: &mut Context, arguments: heapless::String<N>) -> \
         Result<u8, Fault>, found none"
    ))
}

/// The device of each rank, and what it runs.
fn ranks<'a>(args: &'a Args, cli: &'a Cli) -> Result<Vec<(String, &'a OsStr)>, Failure> {
    if args.specs.is_empty() {
        let ranks = args.ranks.unwrap_or(1);
        return if (1..=MOST).contains(&ranks) {
            Ok(vec![(cli.global.device.clone(), args.what.as_os_str()); ranks])
        } else {
            Err(Failure::new(format!("-n: expected 1 to {MOST} ranks, got {ranks}")))
        };
    }
    if cli.is_device_chosen {
        return Err(Failure::new(format!("expected --rank or `--device {}`, got both", cli.global.device)));
    }
    let mut all = Vec::new();
    for rank in &args.specs {
        let bytes = rank.as_bytes();
        let (devices, what) = match bytes.iter().position(|byte| *byte == b'=') {
            Some(at) => (&bytes[..at], Some(OsStr::from_bytes(&bytes[at + 1..]))),
            None => (bytes, None),
        };
        let devices = crate::settings::text("--rank", OsStr::from_bytes(devices).to_owned())?;
        let rank = rank.display();
        let (device, times) = match devices.rsplit_once('*') {
            Some((device, times)) => (device, times.parse().ok().filter(|times| (1..=MOST).contains(times))),
            None => (&*devices, Some(1)),
        };
        let times = times.ok_or_else(|| Failure::new(format!("--rank {rank}: expected 1 to {MOST} behind the `*`")))?;
        all.extend(std::iter::repeat_n((device.to_owned(), what), times));
    }
    let got = all.len();
    match args.ranks {
        Some(wanted) if wanted != got => {
            Err(Failure::new(format!("expected the {wanted} ranks of -n, got {got} by --rank; leave -n out")))
        }
        _ if got > MOST => Err(Failure::new(format!("--rank: expected at most {MOST} ranks, got {got}"))),
        _ if all.iter().all(|(_, what)| what.is_some()) => {
            Err(Failure::new(format!("--rank: expected one without `=`, which runs {}, got none", args.what.display())))
        }
        _ => Ok(all.into_iter().map(|(device, what)| (device, what.unwrap_or(&args.what))).collect()),
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
        let number = |text: &str| text.parse::<usize>().ok().filter(|n| crate::process::is_processor(*n));
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
