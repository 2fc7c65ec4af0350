//! `hamr serve`: devices that outlive their hosts.

#[cfg(feature = "net")]
use super::signals::{self, Signals};
use super::{Cli, Failure, bytes};
use crate::Options;
#[cfg(feature = "net")]
use crate::serve::Listener;
use crate::serve::{Event, Host, Keeper, stop};
use serde_json::json;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The name that hosts open the device by: `--device at:NAME`; without one they come across a network only
    #[cfg_attr(feature = "net", arg(value_name = "NAME", required_unless_present = "listen"))]
    #[cfg_attr(not(feature = "net"), arg(value_name = "NAME", required = true))]
    name: Option<String>,
    /// End the devices of that name, which another process keeps
    #[arg(long)]
    stop: bool,
    /// So many devices, of which each has a host: NAME, NAME-2, …
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64), conflicts_with = "stop")]
    hosts: u32,
    /// Take hosts on any machine, too, which open a device as tcp:HOST:PORT; without a key only programs of this user on
    /// this machine
    #[cfg(feature = "net")]
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "stop")]
    listen: Option<String>,
}

pub(super) fn run(args: &Args, cli: &Cli) -> Result<(), Failure> {
    let Args { name, stop: is_end, hosts, .. } = args;
    // Of nobody else's.
    let name = &name.clone().map_or_else(own_name, Ok)?;
    if *is_end {
        return Ok(stop(name)?);
    }
    cli.check_device()?;
    let (device, options, image) = (&cli.global.device, cli.global.apply(Options::default()), cli.image()?);
    #[cfg(feature = "net")]
    let listen = args.listen.as_deref().map(|at| hamr_net::resolve(at, options.start_deadline)).transpose()?;
    let mut keepers = Vec::new();
    for n in 1..=*hosts {
        let name = if n == 1 { name.clone() } else { format!("{name}-{n}") };
        keepers.push(Keeper::start(&cli.runtime, device, image.clone(), &options, &name)?);
    }
    #[cfg(feature = "net")]
    let listener = match listen {
        Some(addresses) => {
            // Before there is a key that this program leaves.
            let ends = Signals::note(signals::ENDS);
            let listener = listen_at(&addresses, &options, cli, &mut keepers)?;
            ends.at_end(listener.takes_key_away()).map_err(|e| Failure::new(format!("starting a thread: {e}")))?;
            Some(listener)
        }
        None => None,
    };
    for keeper in &keepers {
        let (name, window) = (keeper.name(), keeper.window_len());
        match cli.global.json {
            true => cli.print_json(&json!({ "event": "serving", "name": name, "device": device, "window": window }))?,
            false => cli.print(&format!(
                "at:{name}: device {device}, a window of {}; a host opens it with `--device at:{name}`\n",
                bytes(window)
            ))?,
        }
    }
    #[cfg(feature = "net")]
    if let Some(listener) = &listener {
        let at = listener.address();
        match cli.global.json {
            true => cli.print_json(&json!({ "event": "listening", "address": at.to_string() }))?,
            false => cli.print(&format!("tcp:{at}: a host opens it with `--device tcp:{at}`\n"))?,
        }
    }
    let is_one = keepers.len() == 1;
    // A reader that has closed its end wants no more of this, and for one that reads nothing the device does not wait: it stays.
    Ok(Keeper::run_all(&mut keepers, |name, event| drop(tell(Some(name).filter(|_| !is_one), &event, cli)))?)
}

/// A name that no other server has.
fn own_name() -> Result<String, Failure> {
    #[cfg(feature = "net")]
    {
        let id = hamr_net::link_id().map_err(|e| Failure::new(e.to_string()))?;
        Ok(id.iter().take(6).fold(String::from("tcp-"), |name, byte| name + &format!("{byte:02x}")))
    }
    #[cfg(not(feature = "net"))]
    Err(Failure::new("expected a name, got none".to_owned()))
}

/// At the first of the addresses that there is.
#[cfg(feature = "net")]
fn listen_at(
    addresses: &[std::net::SocketAddr],
    options: &Options,
    cli: &Cli,
    keepers: &mut [Keeper],
) -> Result<Listener, Failure> {
    let key = cli.global.key.clone().or_else(crate::tcp::key_in_environment);
    let mut outcome = Err(Failure::new("expected an address, got none".to_owned()));
    for at in addresses {
        // A reader of standard error that has left wants no more of this.
        let log = |line: &str| crate::io::note_or_lose(format_args!("hamr: serve: {line}"));
        outcome = Listener::open(*at, key.as_deref(), options.silence, log).map_err(Failure::from);
        if outcome.is_ok() {
            break;
        }
    }
    let listener = outcome?;
    for keeper in keepers {
        keeper.listen(&listener)?;
    }
    Ok(listener)
}

/// An event, and which device's it is, of several.
fn tell(device: Option<&str>, event: &Event, cli: &Cli) -> std::io::Result<()> {
    if !cli.global.json {
        let device = device.map(|name| format!("at:{name}: ")).unwrap_or_default();
        return crate::io::print_or_lose(&format!("{device}{event}\n"));
    }
    let mut event = match event {
        Event::Attached { host } => of(host, json!({ "event": "attached" })),
        Event::Left { host, why: None } => of(host, json!({ "event": "left" })),
        Event::Left { host, why } => of(host, json!({ "event": "left", "why": why })),
        Event::Refused { host, why } => of(host, json!({ "event": "refused", "why": why })),
        Event::Ended { why } => json!({ "event": "ended", "why": why }),
        Event::Restarted { why } => json!({ "event": "restarted", "why": why }),
    };
    if let Some(name) = device {
        event["name"] = json!(name);
    }
    crate::io::print_or_lose(&format!("{event}\n"))
}

/// An event with its host: a process by its number, another one by its name.
fn of(host: &Host, mut event: serde_json::Value) -> serde_json::Value {
    let (key, value) = match host {
        Host::Process(pid) => ("process", json!(pid)),
        Host::Far(name) => ("host", json!(name)),
    };
    event[key] = value;
    event
}
