//! `hamr logs`: a device's log, decoded: that of a device that is started for it, or of one that
//! another program runs. The same text appears beside any other command with `--logs LEVEL`.

use super::{Cli, Failure, inspect, one_line};
use crate::inspect::{device_name, dump};
use crate::io::{has_reader, note};
use crate::logs::{LogEvent, LogLevel, LogTail, Logs};
use crate::{Node, Options};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest wait for more lines, and so the longest delay before the end of a device is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The device of another program: a process that has its window open, or the window's path
    /// (/proc/PID/fd/N, or a copied file)
    #[arg(value_name = "PID|PATH")]
    window: Option<PathBuf>,
    /// Go on until the device ends or this program is interrupted
    #[arg(long, short)]
    follow: bool,
    /// The least severe lines wanted
    #[arg(long, value_enum, default_value = "info")]
    level: Level,
}

/// A level as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Level {
    /// What failed
    Error,
    /// What is odd
    Warn,
    /// Steps in the epoch of the device
    Info,
    /// What helps to find a mistake
    Debug,
    /// Everything
    Trace,
}

impl From<Level> for LogLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
            Level::Trace => Self::TRACE,
        }
    }
}

pub(super) fn run(args: &Args, cli: &Cli) -> Result<(), Failure> {
    // A window of this name has a host, or no device.
    let named = cli.global.device.strip_prefix("shm:").filter(|path| !path.is_empty()).map(Path::new);
    match (&args.window, named) {
        (Some(window), _) if cli.is_device_chosen => Err(Failure::new(format!(
            "expected one device, got both --device {} and {}; leave one out",
            cli.global.device,
            window.display()
        ))),
        (Some(window), _) => beside_its_owner(&inspect::find(window, cli)?, args, cli),
        (None, Some(path)) => beside_its_owner(path, args, cli),
        (None, None) => of_its_own(args, cli),
    }
}

fn of_its_own(args: &Args, cli: &Cli) -> Result<(), Failure> {
    let node = cli.open_quietly(Options { log_level: args.level.into(), ..Options::default() })?;
    let mut logs = node.logs()?;
    let who = Who::of(&node);
    loop {
        // Before the read, so that lines from just before the end are read after it.
        let end = logs.ended();
        let is_last = !args.follow || end.is_some();
        print(&logs.wait_timeout(if is_last { Duration::ZERO } else { POLL_INTERVAL }), &who, cli)?;
        if let Some(why) = end {
            return Err(Failure::new(format!("device {} is gone: {why}", who.device)));
        }
        if is_last {
            return Ok(());
        }
        go_on()?;
    }
}

/// An error once what is printed reaches nothing: the next line may never come.
fn go_on() -> Result<(), Failure> {
    if has_reader() { Ok(()) } else { Err(Failure::closed()) }
}

/// Another program's device, without an effect on it. The end of that program is no failure of this
/// one.
fn beside_its_owner(path: &Path, args: &Args, cli: &Cli) -> Result<(), Failure> {
    let device = dump(path)?.device;
    let (name, ran) = (path.display(), &device.build_id);
    let image = inspect::texts(&device, cli)?.ok_or_else(|| {
        Failure::new(format!(
            "window {name}: expected a file to read the texts of its log from, got a device (build id {ran}) that is no process to \
             ask: name the file that it was started from with --image FILE"
        ))
    })?;
    let wanted = args.level.into();
    let mut watch = LogTail::open(path, &image, wanted)?;
    let owners = watch.owners_level();
    if owners < wanted {
        note(format_args!(
            "{}: warning: window {name}: its owner asks for lines of level {} and more severe ones; others are not written",
            cli.name(),
            owners.name()
        ));
    }
    let device = device_name(path).unwrap_or_else(|| name.to_string());
    let who = Who { device: one_line(&device), node: watch.node() };
    loop {
        // Before the read, so that lines from just before the end are read after it.
        let is_last = !args.follow || watch.is_closed();
        print(&watch.wait_timeout(if is_last { Duration::ZERO } else { POLL_INTERVAL })?, &who, cli)?;
        if is_last {
            return Ok(());
        }
        go_on()?;
    }
}

fn print(events: &[LogEvent], who: &Who, cli: &Cli) -> Result<(), Failure> {
    for event in events {
        match cli.global.json {
            true => cli.print_json(&to_json(event, who))?,
            false => cli.print(&row(event, who))?,
        }
    }
    Ok(())
}

/// Prints a device's lines on standard error until its node is dropped, from a thread that the tool
/// waits for at its end.
pub(super) fn beside(node: &Node) -> Result<std::thread::JoinHandle<()>, Failure> {
    let (logs, who) = (node.logs()?, Who::of(node));
    Ok(std::thread::Builder::new().name("hamr-logs".into()).spawn(move || forward(logs, &who))?)
}

fn forward(mut logs: Logs, who: &Who) {
    loop {
        let is_last = logs.is_closed();
        for event in logs.wait_timeout(if is_last { Duration::ZERO } else { POLL_INTERVAL / 5 }) {
            // Standard error may be closed; then the line is lost.
            let _ = std::io::stderr().write_all(row(&event, who).as_bytes());
        }
        if is_last {
            return;
        }
    }
}

/// The device that a line comes from.
struct Who {
    device: String,
    node: u16,
}

impl Who {
    fn of(node: &Node) -> Self {
        let info = node.info();
        Self { device: one_line(&info.name), node: info.node }
    }
}

/// A line of text: the device, and its log line or what happened to it.
fn row(event: &LogEvent, who: &Who) -> String {
    let what = match event {
        LogEvent::Line(line) => line.to_string(),
        LogEvent::Lost(lines) => format!("{:>12}  {lines} lines are missing here", "--"),
        LogEvent::Garbled(_) => format!("{:>12}  garbled: what the device wrote is no log line of its image", "--"),
        LogEvent::Epoch(epoch) => format!("{:>12}  it starts again: epoch {epoch}", "--"),
    };
    format!("{}  {what}\n", who.device)
}

fn to_json(event: &LogEvent, who: &Who) -> Value {
    let mut value = match event {
        LogEvent::Line(line) => serde_json::to_value(line).unwrap_or_default(),
        LogEvent::Lost(lines) => json!({ "lost": lines }),
        LogEvent::Garbled(bytes) => json!({ "garbled": bytes }),
        LogEvent::Epoch(epoch) => json!({ "epoch": epoch }),
    };
    value["device"] = who.device.as_str().into();
    value["node"] = who.node.into();
    value
}
