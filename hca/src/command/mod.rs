//! What people start: `serve` and `ping`, two devices with an adapter each that try a wire; `perf`, the rows of `hamr-bench`.

mod perf;
mod ping;

use crate::wire::udp::is_of_one;
use std::error::Error;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// Why a command has ended, in one line.
pub type CommandError = Box<dyn Error>;

/// How they are called.
const USAGE: &str = "expected one of
  hamr-hca serve --udp ADDRESS [--port N] [--device DEVICE] [--expose] [--once]
  hamr-hca ping PEER --udp ADDRESS [--port N] [--device DEVICE] [--expose] [--count N]
  hamr-hca perf [--launches N] [--json]";
/// The port that `ibv_rc_pingpong` has: there both programs tell each other of their queue pairs.
const PORT: u16 = 18515;
/// Messages that a peer may ask for.
const MOST: u64 = 10_000_000;

/// Is it a command, and not an argument of an adapter?
pub fn is_one(argument: &str) -> bool {
    !argument.starts_with("--") || argument == "--help"
}

/// Arguments as text.
///
/// # Errors
/// One is not.
pub fn of(arguments: Vec<OsString>) -> Result<Vec<String>, CommandError> {
    let text = |argument: OsString| argument.into_string().map_err(|got| format!("expected text, got {got:?}").into());
    arguments.into_iter().map(text).collect()
}

/// Says a line. A reader that has closed its end wants none.
fn say(line: std::fmt::Arguments<'_>) -> Result<(), CommandError> {
    match hamr::io::print(&format!("{line}\n")) {
        Err(why) if why.kind() != ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {why}").into())
        }
        _ => Ok(()),
    }
}

/// Does what a command's arguments ask for.
///
/// # Errors
/// They are wrong, or it fails.
pub fn run(arguments: &[String]) -> Result<(), CommandError> {
    match arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        Some(("perf", rest)) => perf::run(rest),
        Some(("serve", rest)) => ping::serve(&Arguments::of(rest, None)?),
        Some(("ping", [peer, rest @ ..])) => ping::ping(&Arguments::of(rest, Some(parsed("PEER", peer)?))?),
        Some(("--help" | "help", _)) => say(format_args!("{USAGE}")),
        Some(("ping", [])) => Err("ping: expected the address of a peer that serves".into()),
        other => {
            let name = other.map_or("", |(name, _)| name);
            Err(format!("no command is named `{name}`: expected serve, ping or perf (--help)").into())
        }
    }
}

/// Those of `ping` and of `serve`.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Arguments {
    /// The wire's address.
    address: Ipv4Addr,
    is_exposed: bool,
    /// Who serves; `None`: this program.
    peer: Option<Ipv4Addr>,
    port: u16,
    device: String,
    /// Messages.
    count: u64,
    /// One peer only.
    once: bool,
}

impl Arguments {
    fn of(arguments: &[String], peer: Option<Ipv4Addr>) -> Result<Self, CommandError> {
        let (mut address, mut is_exposed, mut once) = (None, false, false);
        let (mut port, mut device, mut count) = (PORT, "shm".to_owned(), 1000);
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument}: expected a value"));
            match (argument.as_str(), peer) {
                ("--udp", _) => address = Some(parsed(argument, value()?)?),
                ("--port", _) => port = parsed(argument, value()?)?,
                ("--device", _) => device = value()?.clone(),
                ("--expose", _) => is_exposed = true,
                ("--once", None) => once = true,
                ("--count", Some(_)) => count = parsed(argument, value()?)?,
                _ => return Err(format!("no argument is named `{argument}` (--help)").into()),
            }
        }
        let address: Ipv4Addr = address.ok_or("expected --udp ADDRESS, an address of this machine")?;
        for (name, of) in [("--udp", Some(address)), ("PEER", peer)] {
            if let Some(many) = of.filter(|at| !is_of_one(*at)) {
                return Err(format!("{name}: expected one address of one machine, got {many}").into());
            }
        }
        if count == 0 || count > MOST {
            return Err(format!("--count: expected 1 to {MOST}, got {count}").into());
        }
        if !address.is_loopback() && !is_exposed {
            let why = "can be reached from other machines, and RoCEv2 has no authentication: `--expose` allows it";
            return Err(format!("{address} {why}").into());
        }
        if peer == Some(address) {
            return Err(format!("{address}: expected another address than the peer's: each adapter has one").into());
        }
        Ok(Self { address, is_exposed, peer, port, device, count, once })
    }
}

fn parsed<T: FromStr>(name: &str, text: &str) -> Result<T, String>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|why| format!("{name}: {why}, got {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<(), CommandError> {
        run(&text.split_whitespace().map(Into::into).collect::<Vec<_>>())
    }

    #[test]
    fn wrong_arguments_are_refused_in_a_line() {
        for (text, says) in [
            ("", "no command"),
            ("pong", "`pong`"),
            ("ping", "address of a peer"),
            ("ping nowhere", "PEER"),
            ("ping 127.0.0.1", "--udp"),
            ("ping 127.0.0.1 --udp 127.0.0.1", "another address"),
            ("ping 127.0.0.1 --udp 127.0.0.2 --count 0", "--count"),
            ("ping 127.0.0.1 --udp 127.0.0.2 --count 10000001", "--count"),
            ("ping 127.0.0.1 --udp 127.0.0.2 --port 65536", "--port"),
            ("ping 127.0.0.1 --udp 127.0.0.2 --once", "`--once`"),
            ("ping 127.0.0.1 --udp", "a value"),
            ("ping 127.0.0.1 --udp 0.0.0.0 --expose", "--udp: expected one address"),
            ("ping 224.0.0.1 --udp 127.0.0.2", "PEER: expected one address"),
            ("serve --udp 255.255.255.255 --expose", "--udp: expected one address"),
            ("serve --udp 192.0.2.1", "--expose"),
            ("serve --udp 127.0.0.1 --count 3", "`--count`"),
            ("perf --launches 0", "--launches"),
            ("perf --launches", "a number"),
            ("perf x", "`x`"),
        ] {
            let why = of(text).err().map(|why| why.to_string()).unwrap_or_default();
            assert!(why.contains(says) && !why.contains('\n'), "{text}: {why}");
        }
        assert!(["perf", "x", "--help"].iter().all(|first| is_one(first)));
        assert!(["--udp", "--ethernet", "--faults"].iter().all(|first| !is_one(first)));
    }
}
