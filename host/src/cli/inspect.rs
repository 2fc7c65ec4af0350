//! `hamr inspect`: lists windows, and shows the contents of one. It only reads and takes no lock.

use super::devices::table;
use super::{Cli, Failure};
#[cfg(feature = "device-logs")]
use crate::ImageFile;
#[cfg(feature = "device-logs")]
use crate::inspect::dump_with_lines;
use crate::inspect::{Dump, dump, windows, windows_of};
use crate::pci::window_file;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time between two reads of the words that show a running device: it steps `alive` every 50 ms.
const POLL_INTERVAL: Duration = Duration::from_millis(120);

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// A process that has a window open, or a window's path (/proc/PID/fd/N, or a copied file); a
    /// device on a bus is named by `--device pci:ADDRESS`
    #[arg(value_name = "PID|PATH")]
    window: Option<PathBuf>,
    /// So many lines of the device's log, decoded with the file that `--image` names, or that a
    /// hosted image runs from
    #[cfg(feature = "device-logs")]
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = super::number::<usize>)]
    lines: usize,
}

pub(super) fn run(args: &Args, cli: &Cli) -> Result<(), Failure> {
    let on_bus = cli.global.device.strip_prefix("pci:").filter(|_| cli.is_device_chosen);
    match (&args.window, on_bus) {
        (Some(window), Some(_)) => Err(Failure::new(format!(
            "expected one window, got two: {} and --device {}",
            window.display(),
            cli.global.device
        ))),
        (None, Some(address)) => one(&window_file(address)?, args, cli),
        (None, None) => all(args, cli),
        (Some(window), None) => one(&find(window, cli)?, args, cli),
    }
}

/// The window of a process id or a path.
pub(super) fn find(window: &Path, cli: &Cli) -> Result<PathBuf, Failure> {
    match window.to_str().and_then(|text| text.parse().ok()) {
        Some(pid) => path_of(pid, cli),
        None => Ok(window.into()),
    }
}

fn all(args: &Args, cli: &Cli) -> Result<(), Failure> {
    let found = windows();
    if let [only] = &found[..] {
        return one(&only.path, args, cli);
    }
    if cli.global.json {
        return cli.print_json(&json!({ "windows": found }));
    }
    let hint = if found.is_empty() { "" } else { "\nfor one of them: inspect PID, or inspect PATH\n" };
    cli.print(&format!("LIVE WINDOWS\n{}{hint}", table(&found)))
}

fn path_of(pid: u32, cli: &Cli) -> Result<PathBuf, Failure> {
    let found = windows_of(pid);
    match &found[..] {
        [only] => Ok(only.path.clone()),
        [] if !Path::new("/proc").join(pid.to_string()).exists() => Err(Failure::new(format!(
            "no process {pid}: expected one that has a window open; {} inspect lists them",
            cli.name()
        ))),
        [] => Err(Failure::new(format!(
            "process {pid} has no window open that this user may see; `{} inspect` lists the windows there are",
            cli.name()
        ))),
        many => {
            let paths = many.iter().map(|w| w.path.display().to_string()).collect::<Vec<_>>().join(", ");
            Err(Failure::new(format!("process {pid} has {} windows open: pass one of {paths}", many.len())))
        }
    }
}

/// The file with the string table of a window's log, when it is known: by name, or because the
/// image is a process.
#[cfg(feature = "device-logs")]
pub(super) fn texts(device: &crate::inspect::DeviceView, cli: &Cli) -> Result<Option<ImageFile>, Failure> {
    if let Some(file) = &cli.global.image {
        return Ok(Some(ImageFile::open(Path::new(file))?));
    }
    // Another user's process cannot be read. Another process that has the same number by now
    // differs in its build id.
    let runs = ImageFile::open(&PathBuf::from(format!("/proc/{}/exe", device.pid)));
    Ok(runs.ok().filter(|image| image.build_id == device.build_id))
}

/// The whole report.
#[cfg(feature = "device-logs")]
fn look(path: &Path, args: &Args, cli: &Cli) -> Result<Dump, Failure> {
    let plain = dump(path)?;
    match texts(&plain.device, cli)? {
        Some(image) => Ok(dump_with_lines(path, &image, args.lines)?),
        None => Ok(plain),
    }
}

#[cfg(not(feature = "device-logs"))]
fn look(path: &Path, _args: &Args, _cli: &Cli) -> Result<Dump, Failure> {
    Ok(dump(path)?)
}

fn one(path: &Path, args: &Args, cli: &Cli) -> Result<(), Failure> {
    let first = dump(path)?;
    std::thread::sleep(POLL_INTERVAL);
    // The window may be gone by now; then the first report is printed alone.
    let second = match look(path, args, cli) {
        Ok(second) => Some(second),
        Err(_) if dump(path).is_err() => None,
        Err(why) => return Err(why),
    };
    let now = second.as_ref().unwrap_or(&first);
    let stepped = |then: u32, now: u32| now.wrapping_sub(then);
    let alive = stepped(first.device.alive, now.device.alive);
    let progress = stepped(first.device.progress, now.device.progress);
    let ms = POLL_INTERVAL.as_millis();
    if cli.global.json {
        let mut value = serde_json::to_value(now)?;
        value["stepped"] = json!({ "alive": alive, "progress": progress, "within_ms": ms });
        return cli.print_json(&value);
    }
    let epoch = match (alive, progress) {
        (0, 0) => "neither alive nor progress moved: it does not run, or this is a copy",
        (0, _) => "progress moved, alive did not",
        (_, 0) => "alive moved, progress did not: it waits for work, or one call keeps it busy",
        _ => "alive and progress moved: it is at work",
    };
    cli.print(&format!("{now}within {ms} ms {epoch}\n"))
}
