//! The command line tool as a library function, so that your own program offers the same commands
//! over your own devices and handlers (`docs/cli.md`).
//!
//! ```no_run
//! use hamr::cli::{Cli, Commands, Failure, Tool};
//!
//! #[derive(clap::Subcommand)]
//! enum Mine {
//!     /// Prints how long a round trip takes
//!     Ping,
//! }
//!
//! impl Commands for Mine {
//!     fn run(self, cli: &Cli) -> Result<(), Failure> {
//!         let Mine::Ping = self;
//!         let device = cli.open()?;
//!         cli.print(&format!("{:?}\n", device.ping()?))
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     hamr::cli::main::<Mine>(Tool {
//!         name: "my-tool",
//!         about: "What it is for",
//!         version: env!("CARGO_PKG_VERSION"),
//!         image: "my-image",
//!         runtime: hamr::Runtime::new,   // or a function that also registers launchers of one's own
//!     })
//! }
//! ```
//!
//! `devices`, `load`, `run`, `call`, `debug`, `serve`, `keys`, `handlers`, `logs`, `inspect`, `top`, `image`
//! and `setup` are here; `my-tool ping` and the other variants of `Mine` are added to them. A program without commands of its own passes
//! [`NoCommands`].
//!
//! Every failure is one line on standard error, beginning with the tool's name, and exit code 2.

mod call;
mod debug;
mod devices;
mod failure;
mod format;
mod handlers;
mod image;
mod inspect;
#[cfg(feature = "net")]
mod keys;
mod line;
mod load;
#[cfg(feature = "device-logs")]
mod logs;
mod progress;
mod run;
mod serve;
#[cfg(feature = "qemu")]
mod setup;
mod signals;
mod top;

pub use crate::io::note;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub use call::{any_call, any_records};
pub use failure::Failure;
pub use format::{bytes, duration, number, one_line};
#[cfg(feature = "device-logs")]
pub use logs::Level;
pub use progress::Progress;

use crate::image::file_in;
use crate::link::Protocol;
use crate::{Error, Image, Node, Options, Runtime, Setting, Target, WaitMode, Warning};
use clap::{FromArgMatches, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

/// The description of a tool.
pub struct Tool {
    /// The program's name: begins every message.
    pub name: &'static str,
    /// One line for `--help`.
    pub about: &'static str,
    /// Its version.
    pub version: &'static str,
    /// The image that devices get without `--image`.
    pub image: &'static str,
    /// Makes the runtime, with the launchers that the tool offers.
    pub runtime: fn() -> Result<Runtime, Error>,
}

/// Commands beyond the common ones.
pub trait Commands: Subcommand {
    /// Runs one.
    ///
    /// # Errors
    /// Anything; it is printed as one line.
    fn run(self, cli: &Cli) -> Result<(), Failure>;

    /// Runs when no command was given; lists the devices unless the tool overrides it.
    ///
    /// # Errors
    /// As [`Self::run`].
    fn welcome(cli: &Cli) -> Result<(), Failure> {
        devices::run(&devices::Args::default(), cli)
    }
}

/// For tools with the common commands only.
pub enum NoCommands {}

impl Commands for NoCommands {
    fn run(self, _cli: &Cli) -> Result<(), Failure> {
        match self {}
    }
}

// By hand, because the derive refuses an enum without variants.
impl Subcommand for NoCommands {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        command
    }
    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        command
    }
    fn has_subcommand(_name: &str) -> bool {
        false
    }
}

impl FromArgMatches for NoCommands {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        let name = matches.subcommand_name().unwrap_or_default();
        Err(clap::Error::raw(clap::error::ErrorKind::InvalidSubcommand, format!("unrecognized subcommand '{name}'")))
    }
    fn update_from_arg_matches(&mut self, _matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        match *self {}
    }
}

/// Options that every command takes.
#[derive(clap::Args, Clone, Debug)]
pub struct Global {
    /// Device: `kind` or `kind:argument`; `devices` lists the kinds. Without it, that of HAMR_DEVICE
    #[arg(long, global = true, value_name = "NAME", default_value = "shm")]
    pub device: String,
    /// Image for the device: a file, or the name of the package that builds it
    #[arg(long, global = true, value_name = "NAME|PATH")]
    pub image: Option<OsString>,
    /// Print one JSON object on one line
    #[arg(long, global = true)]
    pub json: bool,
    /// Print the device's log on standard error while the command runs, down to this level
    #[cfg(feature = "device-logs")]
    #[arg(long, global = true, value_enum, value_name = "LEVEL")]
    pub logs: Option<Level>,
    /// How host and device wait for each other: always polling, asleep at once, or one after the
    /// other
    #[arg(long, global = true, value_name = "HOW")]
    pub wait: Option<WaitMode>,
    /// With `--wait adaptive`: microseconds of polling before a side sleeps
    #[arg(long, global = true, value_name = "MICROSECONDS", value_parser = number::<u32>)]
    pub spin: Option<u32>,
    /// How calls come to the device and back: mapped, requests and replies in the same slots; split, apart, where each side
    /// polls memory of its own; host-driven, by reads and writes of the host; device-driven, by loads, stores and copies of the
    /// device. Without it, the best of what its link can do
    #[arg(long, global = true, value_name = "PROTOCOL")]
    pub protocol: Option<Protocol>,
    /// The key for connections to other machines, of `keys`; without one, that of HAMR_KEY, or one which a server of this
    /// user on this machine has left
    #[cfg(feature = "net")]
    #[arg(long, global = true, value_name = "FILE")]
    pub key: Option<std::path::PathBuf>,
    /// Any option of the device; `help options` lists them
    #[arg(long = "option", global = true, value_name = "NAME=VALUE")]
    pub settings: Vec<Setting>,
    /// What the environment sets; less than the command line.
    #[arg(skip)]
    pub environment: Vec<Setting>,
}

impl Global {
    /// `options` with the choices of the command line and of the environment.
    pub fn apply(&self, mut options: Options) -> Options {
        for setting in self.environment.iter().chain(&self.settings) {
            setting.apply(&mut options);
        }
        let spin = self.spin.map_or(options.spin, |micros| Duration::from_micros(micros.into()));
        let protocol = self.protocol.or(options.protocol);
        Options { protocol, wait: self.wait.unwrap_or(options.wait), spin, ..options }
    }
}

/// A tool with its options: the argument of every command.
pub struct Cli {
    tool: Tool,
    runtime: Runtime,
    /// Was `--device` given?
    is_device_chosen: bool,
    /// Threads that print the logs of devices.
    #[cfg(feature = "device-logs")]
    printers: std::sync::Mutex<Vec<std::thread::JoinHandle<()>>>,
    /// The options of the command line.
    pub global: Global,
}

/// Parses the program's arguments and runs the command.
pub fn main<C: Commands>(tool: Tool) -> ExitCode {
    main_with::<C>(tool, std::env::args_os().collect())
}

/// [`main`] with other arguments, of which the first is the program's name.
pub fn main_with<C: Commands>(tool: Tool, arguments: Vec<OsString>) -> ExitCode {
    signals::start();
    let name = tool.name;
    match run::<C>(tool, arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(name),
    }
}

/// Runs the command of these arguments, for a program that says itself what has failed.
///
/// # Errors
/// As the command has them.
pub fn run<C: Commands>(tool: Tool, arguments: Vec<OsString>) -> Result<(), Failure> {
    if arguments.iter().skip(1).take(2).eq(["help", "options"]) {
        return match arguments.get(3) {
            None => print(&Setting::help()),
            Some(more) => Err(Failure::new(format!("`help options`: expected no argument, got `{}`", more.display()))),
        };
    }
    let (mut line, is_device_chosen) = match line::read::<C>(&tool, arguments)? {
        Ok(read) => read,
        Err(help) => return print(&help),
    };
    line.global.environment = Setting::from_environment()?;
    if !is_device_chosen && let Some(device) = crate::start::device_in_environment()? {
        line.global.device = device;
    }
    let runtime = (tool.runtime)()?;
    #[cfg(feature = "net")]
    let runtime = with_key(runtime, line.global.key.as_deref());
    let cli = Cli {
        tool,
        runtime,
        is_device_chosen,
        #[cfg(feature = "device-logs")]
        printers: std::sync::Mutex::default(),
        global: line.global,
    };
    let outcome = line::dispatch(line.command, &cli);
    #[cfg(feature = "device-logs")]
    cli.finish_logs();
    outcome
}

/// A runtime whose connections have this key.
#[cfg(feature = "net")]
fn with_key(mut runtime: Runtime, key: Option<&std::path::Path>) -> Runtime {
    if let Some(key) = key {
        runtime.register("tcp", crate::tcp::TcpLauncher::with_key(key.into()));
    }
    runtime
}

impl Cli {
    /// Starts the chosen device with the chosen image. Differences between host and image are
    /// printed on standard error.
    ///
    /// # Errors
    /// As [`Runtime::open`].
    pub fn open(&self) -> Result<Node, Failure> {
        self.open_with(Options::default())
    }

    /// [`Self::open`] with sizes of one's own.
    ///
    /// # Errors
    /// As [`Runtime::open_with`].
    pub fn open_with(&self, options: Options) -> Result<Node, Failure> {
        let node = self.open_quietly(options)?;
        self.warn(&node);
        Ok(node)
    }

    /// Prints the differences between host and image on standard error.
    fn warn(&self, node: &Node) {
        let device = node.handlers();
        let is_strange = |warning: &Warning| matches!(warning, Warning::MissingHandler { handler, .. } if !handlers::has_crate(&device, handler));
        // An unrelated image has no handler of a crate; that deserves one line and not forty.
        let (strange, warnings): (Vec<_>, Vec<_>) = node.warnings().into_iter().partition(is_strange);
        let names = strange.iter().filter_map(|warning| match warning {
            Warning::MissingHandler { handler, .. } => Some(*handler),
            _ => None,
        });
        for (name, many) in handlers::by_crate(names) {
            let (tool, device) = (self.tool.name, one_line(&node.info().name));
            note(format_args!("{tool}: warning: device {device}: its image has none of the {many} handlers of {name}"));
        }
        let shown = if warnings.len() > 4 { 3 } else { warnings.len() };
        for warning in warnings.iter().take(shown) {
            note(format_args!("{}: warning: {}", self.tool.name, one_line(&warning.to_string())));
        }
        if shown < warnings.len() {
            let (name, more) = (self.tool.name, warnings.len() - shown);
            note(format_args!("{name}: warning: and {more} handlers more; `{name} handlers` lists them"));
        }
    }

    fn open_quietly(&self, options: Options) -> Result<Node, Failure> {
        // Checked before the search for an image, which may build one.
        self.check_device()?;
        self.open_on(&self.global.device, self.image()?, self.global.apply(options))
    }

    /// Starts a device with an image, and prints its log if the command line asks for that.
    fn open_on(&self, device: &str, image: Image, options: Options) -> Result<Node, Failure> {
        let node =
            self.runtime.open_with(device, image, Options { print_warnings: false, ..self.log_options(options) })?;
        #[cfg(feature = "device-logs")]
        self.print_logs(&node)?;
        Ok(node)
    }

    /// `options` with the level of the logs that are to be printed.
    fn log_options(&self, options: Options) -> Options {
        #[cfg(feature = "device-logs")]
        if let Some(level) = self.global.logs {
            return Options { log_level: level.into(), ..options };
        }
        options
    }

    /// Prints a device's log from now on, if the command line asks for that.
    #[cfg(feature = "device-logs")]
    fn print_logs(&self, node: &Node) -> Result<(), Failure> {
        if self.global.logs.is_some() {
            let mut printers = self.printers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            printers.push(logs::beside(node)?);
        }
        Ok(())
    }

    /// Waits until the last log lines of the devices are printed. Their nodes are dropped by now,
    /// unless a command keeps one for ever.
    #[cfg(feature = "device-logs")]
    fn finish_logs(&self) {
        let mut printers = self.printers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for printer in printers.drain(..) {
            // A panic of the thread has printed its own message.
            let _ = printer.join();
        }
    }

    /// Is there a device of the chosen name, and what starts it? Cheap: no device is started.
    ///
    /// # Errors
    /// An unknown name; a program that is missing.
    pub fn check_device(&self) -> Result<(), Failure> {
        Ok(self.runtime.check(&self.global.device)?)
    }

    /// The target of images for `device`.
    fn target_of(&self, device: &str) -> Result<Target, Failure> {
        self.runtime.target(device)?.ok_or_else(|| {
            Failure::new(format!(
                "device {device} takes no image: expected a kind of device that is loaded with one, such as shm"
            ))
        })
    }

    /// The image to load: a name or file on the command line takes precedence over `HAMR_IMAGE`,
    /// and that over the tool's own image.
    ///
    /// # Errors
    /// When a file is no image.
    pub fn image(&self) -> Result<Image, Failure> {
        match &self.global.image {
            None => Ok(Image::find(self.tool.image)?),
            Some(text) => Ok(Image::of_argument(text)?),
        }
    }

    /// The runtime, for more than one device.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The tool's name.
    pub fn name(&self) -> &'static str {
        self.tool.name
    }

    /// Writes to standard output. When its reader has closed it, the error ends the program
    /// quietly.
    ///
    /// # Errors
    /// When standard output is closed or full.
    pub fn print(&self, text: &str) -> Result<(), Failure> {
        print(text)
    }

    /// Writes a value as one line.
    ///
    /// # Errors
    /// As [`Self::print`].
    pub fn print_json(&self, value: &serde_json::Value) -> Result<(), Failure> {
        print(&format!("{value}\n"))
    }
}

/// Runs `clean` before a signal ends the program: for what no process and no descriptor keeps. Once in a program.
///
/// # Errors
/// There is no thread to be had.
pub fn at_end(clean: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let started = signals::Signals::note(signals::ENDS).at_end(clean);
    started.map_err(|e| Failure::new(format!("starting a thread: {e}")))
}

fn print(text: &str) -> Result<(), Failure> {
    Ok(crate::io::print(text)?)
}

#[cfg(test)]
mod tests {
    use super::line::{Line, WITHOUT, command};
    use super::*;
    use clap::CommandFactory;

    fn tool() -> Tool {
        Tool { name: "tool", about: "", version: "0", image: "none", runtime: Runtime::new }
    }

    fn failure(arguments: &[&str]) -> String {
        let arguments = std::iter::once("tool").chain(arguments.iter().copied()).map(OsString::from).collect();
        run::<NoCommands>(tool(), arguments).expect_err("it must fail").to_string()
    }

    #[test]
    fn the_command_definition_is_valid() {
        Line::<NoCommands>::command().debug_assert();
        command::<NoCommands>(&tool()).debug_assert();
    }

    #[test]
    fn the_help_of_a_command_names_the_common_options_that_it_uses() {
        let mut whole = command::<NoCommands>(&tool());
        for (name, lacks) in WITHOUT {
            let options: Vec<_> = whole.get_arguments().map(|option| option.get_id().to_string()).collect();
            let is_there = |lacked: &&str| options.iter().any(|option| option == *lacked);
            let is_of_a_network = |lacked: &&str| *lacked == "key" && cfg!(not(feature = "net"));
            assert!(lacks.iter().all(|lacked| is_there(lacked) || is_of_a_network(lacked)), "{options:?}");
            let is_left_out = cfg!(not(all(feature = "net", feature = "qemu")));
            assert!(whole.find_subcommand(name).is_some() || is_left_out, "{name}");
        }
        let mut help = |name: &str| whole.find_subcommand_mut(name).expect("a command").render_long_help().to_string();
        let call = help("call");
        assert!(call.contains("--save <PARAMETER=FILE>") && !call.contains("--wait <HOW>"), "{call}");
        assert!(call.contains("Also, as `tool --help` explains: --device, --image, --json, --logs, --wait"), "{call}");
        let run = help("run");
        assert!(run.contains("explains: --device, --json,") && !run.contains("--image <"), "{run}");
        assert!(whole.render_long_help().to_string().contains("--wait <HOW>"));
    }

    #[test]
    fn a_usage_error_is_one_line_that_names_the_help() {
        for wrong in [&["nonsense"][..], &["devices", "--nonsense"], &["inspect", "1", "2"], &["--device"]] {
            let line = failure(wrong);
            assert!(!line.contains('\n') && line.contains("tool --help"), "{line}");
        }
    }

    #[test]
    fn an_unknown_device_is_named_with_the_known_ones() {
        let line = failure(&["handlers", "--device", "toaster"]);
        assert!(["`toaster`", "loopback, ", "shm"].iter().all(|word| line.contains(word)), "{line}");
    }
}
