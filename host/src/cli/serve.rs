//! `hamr serve`: a device that outlives its hosts.

use super::{Cli, Failure, bytes};
use crate::Options;
use crate::serve::{Event, Keeper, stop};
use serde_json::json;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The name that hosts open the device by: `--device at:NAME`
    #[arg(value_name = "NAME")]
    name: String,
    /// End the device of that name, which another process keeps
    #[arg(long)]
    stop: bool,
}

pub(super) fn run(args: &Args, cli: &Cli) -> Result<(), Failure> {
    let Args { name, stop: is_end } = args;
    if *is_end {
        return Ok(stop(name)?);
    }
    cli.check_device()?;
    let (device, options) = (&cli.global.device, cli.global.apply(Options::default()));
    let mut keeper = Keeper::start(&cli.runtime, device, cli.image()?, &options, name)?;
    let window = keeper.window_len();
    match cli.global.json {
        true => cli.print_json(&json!({ "event": "serving", "name": name, "device": device, "window": window }))?,
        false => cli.print(&format!(
            "at:{name}: device {device}, a window of {}; a host opens it with `--device at:{name}`\n",
            bytes(window)
        ))?,
    }
    // A reader that has closed its end wants no more of this, and for one that reads nothing the device does not wait: it stays.
    keeper.run(|event| drop(tell(&event, cli)))?;
    Ok(())
}

fn tell(event: &Event, cli: &Cli) -> std::io::Result<()> {
    if !cli.global.json {
        return crate::io::print_or_lose(&format!("{event}\n"));
    }
    let event = match event {
        Event::Attached { pid } => json!({ "event": "attached", "process": pid }),
        Event::Left { pid } => json!({ "event": "left", "process": pid }),
        Event::Refused { pid, why } => json!({ "event": "refused", "process": pid, "why": why }),
        Event::Restarted { why } => json!({ "event": "restarted", "why": why }),
    };
    crate::io::print_or_lose(&format!("{event}\n"))
}
