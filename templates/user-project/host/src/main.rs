//! Calls a device: `cargo run`, or `cargo run -- DEVICE` with another one than `shm`.

use kernels::{adc, axpy, fill, summarise};
use std::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{{project-name}}-host: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let device = std::env::args().nth(1).unwrap_or_else(|| "shm".into());
    let dev = hamr::Runtime::new()?.open(&device, hamr::Image::find("{{project-name}}-image")?)?;

    let xs: Vec<f64> = (0..1000).map(f64::from).collect();
    let (x, y) = (dev.buffer(&xs)?, dev.allocate(xs.len())?); // owned; freed on drop
    dev.sync(fill::with(1.0, y.ptr()))?;
    dev.sync(axpy::with(2.0, x.ptr(), y.ptr()))?; // axpy is the function, axpy::with(…) the checked functor
    println!("2x + 1 at 999: {}", dev.read(y.ptr())?[999]);
    println!("summary: {:?}", dev.sync(summarise::with(y.ptr()))?);

    // Sent at once, read in any order.
    let channels: Vec<_> = (0..4).map(|ch| dev.offload(adc::with(ch))).collect::<Result<_, _>>()?;
    for (ch, reading) in channels.into_iter().enumerate().rev() {
        println!("channel {ch}: {}", reading.wait()?);
    }

    // A call that fails is an error value; the device goes on.
    if let Err(why) = dev.sync(adc::with(4)) {
        println!("channel 4: {why}");
    }
    if let Err(why) = dev.sync(summarise::with(dev.allocate(0)?.ptr())) {
        println!("summary of nothing: {why}");
    }
    Ok(())
}
