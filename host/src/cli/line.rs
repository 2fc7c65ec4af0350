//! The command line: what may be typed, the help of each command, and which one runs.

#[cfg(feature = "net")]
use super::keys;
#[cfg(feature = "device-logs")]
use super::logs;
#[cfg(feature = "qemu")]
use super::setup;
use super::{Cli, Commands, Failure, Global, Tool};
use super::{call, debug, devices, handlers, image, inspect, load, run, serve, top};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::{OsStr, OsString};

#[derive(Parser)]
pub(super) struct Line<C: Subcommand> {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Option<Command<C>>,
}

#[derive(Subcommand)]
pub(super) enum Command<C: Subcommand> {
    #[command(flatten)]
    Own(C),
    /// Show the kinds of devices, the chosen device, and every live window of this machine; or
    /// start all devices named
    Devices(devices::Args),
    /// Load an image into a device, call it once, and describe the device
    Load(load::Args),
    /// Run `main` of an image on N ranks in one memory, and end with their exit code
    Run(run::Args),
    /// Call a handler of the image with values from the command line, and print its result
    Call(call::Args),
    /// The same on a device that waits for gdb, and print the command that attaches it; or run a
    /// program whose devices do
    Debug(debug::Args),
    /// Keep a device running for the hosts that open it as `at:NAME`, one after the other
    Serve(serve::Args),
    /// Make a file with a new key, for both ends of connections between machines
    #[cfg(feature = "net")]
    Keys(keys::Args),
    /// List the handlers of the device's image, and whether this program agrees with each
    ///
    /// Key, hashes of types and of source, flags (`inline`, `task` or `host`, `unordered`, `no body`: signature only), and
    /// whether this program agrees, with a legend.
    Handlers(handlers::Args),
    /// Print a device's log, decoded: the chosen one's, which is started, or that of another
    /// program's
    ///
    /// With `--follow` that of a started device goes on until its end, a failure that names the reason.
    ///
    /// Another program's device is not disturbed. `--follow` goes on until the window closes, which is no failure.
    /// `--level` chooses among the lines that the owner asks for, with a warning when those are fewer. Texts come
    /// from a hosted image's file, or `--image`.
    ///
    /// Columns: device, seconds since its reset, level, module, message, location; or `shm -- 181954 lines are
    /// missing here`.
    ///
    /// JSON, per line: `device`, `node`, and `level`, `time_us`, `module`, `message`, `file`, `line`; or `lost`
    /// (missing lines), `garbled`, `epoch`.
    #[cfg(feature = "device-logs")]
    Logs(logs::Args),
    /// Show the contents of a live window, without changing it
    ///
    /// The window is mapped read-only, never locked. Without an argument: the list of windows, or the report of a
    /// single one. PATH#RANK is a rank's window of a world; `--device pci:ADDRESS`, as root, a function on the bus,
    /// with or without a running image.
    ///
    /// `host`, `device`: `alive` and `progress` count timer steps and rounds that found work; `polling` or `wants a
    /// doorbell` is the wait word, even or odd; `doorbell` is what notifies that side, 0 without such a register and
    /// for peer 0.
    ///
    /// `tasks`: those that wait, the queue pair of their call, and their reply's slot. `queue 2-9`: closed ones that
    /// are alike.
    ///
    /// Used slots: kind and number, state, request and reply as `tag.count` of the published word, handler or status,
    /// payload bytes and their place, flags, payload in hexadecimal; below it a fault's report. States: `requested`,
    /// published, without a reply; `answered`, the reply is there, and only the host knows whether it was read;
    /// `taken`, a task's call, whose result will be published in a ticket slot; `stale epoch`, of an earlier epoch;
    /// `changing`, it changed at each of several reads; `inconsistent`, words that no step of the protocol leaves.
    ///
    /// Then the log's last lines, read or not, also of a lost device or a copy. The last line says whether `alive`
    /// and `progress` moved within 120 ms. Inconsistencies begin with `problem`.
    Inspect(inspect::Args),
    /// Show all live devices and what they do, until a key is pressed
    ///
    /// All live devices of this user, read as by `inspect`; `q` ends it. `--once` prints one frame, of two looks a
    /// quarter of a second apart; `--json` its rows.
    ///
    /// CALLS/S: requests published between two looks, tasks' and one-way calls included; calls of a slot that wrapped
    /// 2^24 times are missing. FLIGHT: calls without a result, and in QUEUES those of each stream. TASKS: tasks that
    /// wait. FAULTS: replies with a fault that any look found, each once; the last one and a crash record have lines
    /// of their own.
    ///
    /// Behind the state: `at work` (found requests), `in call` (only its timer moved, and a call has no result that
    /// is no waiting task), `waits` (only its timer), `still` (neither).
    ///
    /// HOST is `-` (JSON: `null`), and the state `no host`, while no host uses the device; PROCESS is `-` on bare
    /// metal. A narrow screen cuts the last columns (all but QUEUES fit 80 for names of 12 characters), and of each
    /// log all but its last lines.
    Top(top::Args),
    /// Build an image if it is not fresh, and print its path
    Image(image::Args),
    /// Unpack Debian's packages of QEMU where there is no QEMU; install nothing
    #[cfg(feature = "qemu")]
    Setup,
}

/// Common options without an effect, by command.
pub(super) const WITHOUT: [(&str, &[&str]); 6] = [
    ("run", &["image", "protocol", "key"]),
    ("top", &["device", "logs", "wait", "spin", "protocol", "key", "settings"]),
    ("inspect", &["logs", "wait", "spin", "protocol", "key", "settings"]),
    ("image", &["logs", "wait", "spin", "protocol", "key", "settings"]),
    ("keys", &["device", "image", "logs", "wait", "spin", "protocol", "key", "settings"]),
    ("setup", &["device", "image", "logs", "wait", "spin", "protocol", "key", "settings"]),
];

/// What is parsed. The common options are explained once, in the help of the tool; that of a command names those that it uses.
pub(super) fn command<C: Commands>(tool: &Tool) -> clap::Command {
    let whole = Line::<C>::command().name(tool.name).bin_name(tool.name).about(tool.about).version(tool.version);
    let mut whole = whole;
    // Now each command has the common options, too.
    whole.build();
    whole.mut_subcommands(|command| {
        let unused = WITHOUT.iter().find(|(name, _)| *name == command.get_name()).map_or(&[][..], |(_, unused)| unused);
        let is_used = |id: &str| !unused.contains(&id);
        let common =
            command.get_arguments().filter(|option| option.is_global_set() && is_used(option.get_id().as_str()));
        let names: Vec<String> = common.filter_map(|option| Some(format!("--{}", option.get_long()?))).collect();
        if names.is_empty() {
            return command;
        }
        let also = format!("Also, as `{} --help` explains: {}", tool.name, names.join(", "));
        command.mut_args(|option| if option.is_global_set() { option.hide(true) } else { option }).after_help(also)
    })
}

/// What was typed, and whether a device was; or the help that was asked for.
pub(super) fn read<C: Commands>(
    tool: &Tool,
    arguments: Vec<OsString>,
) -> Result<Result<(Line<C>, bool), String>, Failure> {
    let odd: Vec<String> = arguments.iter().filter(|text| text.to_str().is_none()).map(shown).collect();
    match parsed::<C>(command::<C>(tool), arguments) {
        Ok(parsed) => Ok(Ok(parsed)),
        Err(e) if !e.use_stderr() => Ok(Err(e.render().to_string())),
        Err(e) if e.kind() == clap::error::ErrorKind::InvalidUtf8 => Err(no_text(&odd)),
        Err(e) => Err(Failure::usage(&e.render().to_string(), tool.name)),
    }
}

fn parsed<C: Commands>(command: clap::Command, arguments: Vec<OsString>) -> Result<(Line<C>, bool), clap::Error> {
    let parse = |arguments: &[OsString]| -> Result<_, clap::Error> {
        let matches = command.clone().try_get_matches_from(arguments)?;
        let is_typed = matches.value_source("device") == Some(clap::parser::ValueSource::CommandLine);
        Ok((Line::<C>::from_arg_matches(&matches)?, is_typed))
    };
    let refused = match parse(&arguments) {
        Err(e) if e.kind() == clap::error::ErrorKind::UnknownArgument => e,
        parsed => return parsed,
    };
    // The parser takes `-16` for a number, and `-0x10` for options: it is given that with a mark, which no word has.
    let is_number = |text: &[u8]| match text {
        [b'-', b'0'..=b'9' | b'.', ..] => true,
        [b'-', name @ ..] => {
            ["inf", "infinity", "nan"].iter().any(|number| name.eq_ignore_ascii_case(number.as_bytes()))
        }
        _ => false,
    };
    let end = arguments.iter().position(|text| text == "--").unwrap_or(arguments.len());
    let marked = |(at, text): (usize, &OsString)| match at < end && is_number(text.as_encoded_bytes()) {
        true => [OsStr::new(call::MARK), text].into_iter().collect(),
        false => text.clone(),
    };
    let words: Vec<OsString> = arguments.iter().enumerate().map(marked).collect();
    let count = words.iter().zip(&arguments).filter(|(word, text)| word != text).count();
    let mut parsed = parse(&words);
    let taken = match &mut parsed {
        Ok((Line { command: Some(Command::Call(args)), .. }, _)) => args.take_marks(),
        Ok((Line { command: Some(Command::Debug(args)), .. }, _)) => args.call.take_marks(),
        _ => 0,
    };
    match parsed {
        Ok(parsed) if count > 0 && taken == count => Ok(parsed),
        // It names another word.
        Err(e) if count > 0 && names_unmarked(&e) => Err(e),
        _ => Err(refused),
    }
}

/// Is the error about an option that there is not, and no number with a mark?
fn names_unmarked(e: &clap::Error) -> bool {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let is_marked =
        matches!(e.get(ContextKind::InvalidArg), Some(ContextValue::String(text)) if text.starts_with(call::MARK));
    e.kind() == ErrorKind::UnknownArgument && !is_marked
}

/// Of a command that takes text where one of these arguments is none; those that are paths may be any bytes.
fn no_text(odd: &[String]) -> Failure {
    Failure::new(format!("expected text in UTF-8 where no file is named, got {}", odd.join(", ")))
}

/// An argument as it could be typed.
fn shown(text: &OsString) -> String {
    format!("`{}`", text.as_encoded_bytes().escape_ascii())
}

/// Runs a command; without one, what the tool does then.
pub(super) fn dispatch<C: Commands>(command: Option<Command<C>>, cli: &Cli) -> Result<(), Failure> {
    match command {
        None => C::welcome(cli),
        Some(Command::Own(command)) => command.run(cli),
        Some(Command::Devices(args)) => devices::run(&args, cli),
        Some(Command::Load(args)) => load::run(&args, cli),
        Some(Command::Run(args)) => run::run(&args, cli),
        Some(Command::Call(args)) => call::run(&args, cli),
        Some(Command::Debug(args)) => debug::run(&args, cli),
        Some(Command::Serve(args)) => serve::run(&args, cli),
        #[cfg(feature = "net")]
        Some(Command::Keys(args)) => keys::run(&args, cli),
        Some(Command::Handlers(args)) => handlers::run(&args, cli),
        #[cfg(feature = "device-logs")]
        Some(Command::Logs(args)) => logs::run(&args, cli),
        Some(Command::Inspect(args)) => inspect::run(&args, cli),
        Some(Command::Top(args)) => top::run(&args, cli),
        Some(Command::Image(args)) => image::run(&args, cli),
        #[cfg(feature = "qemu")]
        Some(Command::Setup) => setup::run(cli),
    }
}
