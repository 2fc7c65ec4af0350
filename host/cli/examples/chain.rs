//! Calls in one message: each takes the result of the one before, on the device.
//! `cargo run --release --example chain`: the handlers are of this program, on the device `loopback`.

mod help;

use hamr::{CallError, Image, Runtime, chain};
use hamr_comm::{Context, offload};
use std::error::Error;

// What runs chains; images have it from their handlers' crate.
hamr_comm::chains!();

/// A reading of some sensor.
#[offload]
pub fn read(_: &mut Context, channel: u32) -> u32 {
    1000 * channel + 7
}

/// A value in its unit.
#[offload]
pub fn scaled(_: &mut Context, raw: u32, factor: f64) -> f64 {
    f64::from(raw) * factor
}

/// An error ends a chain: no later call of it runs.
#[offload]
pub fn checked(_: &mut Context, value: f64, most: f64) -> Result<f64, u8> {
    if value <= most { Ok(value) } else { Err(1) }
}

fn main() -> Result<(), Box<dyn Error>> {
    if help::is_wanted("chain") {
        return Ok(());
    }
    let dev = Runtime::new()?.open("loopback", Image::find("none")?)?;
    let value = dev.sync_chain(chain(read::with(3)).then(scaled::after(0.01)).then(checked::after(100.0)))?;
    println!("channel 3: {value}");
    let refused = dev.sync_chain(chain(read::with(30)).then(scaled::after(0.01)).then(checked::after(100.0)));
    match refused {
        Ok(value) => Err(format!("expected that channel 30 is refused, got {value}").into()),
        Err(CallError::Handler(stop)) => {
            println!("channel 30: the chain ends at its call {}", stop.link + 1);
            Ok(())
        }
        Err(other) => Err(other.into()),
    }
}
