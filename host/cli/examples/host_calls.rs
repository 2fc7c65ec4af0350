//! A device reads a file of the host, shows its progress there, and asks the time: a task calls
//! handlers whose bodies are in this program.
//!
//! `cargo run --release --example host_calls`, or with a device and a file of your choice.

mod help;

use hamr::{Image, Runtime};
use hamr_kernels::host::{Input, PIECE, Progress, checksum};
use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

/// Characters of the bar.
const WIDTH: u64 = 40;

/// What is shown of the progress: the most that was reported.
#[derive(Default)]
struct Bar(Mutex<u64>);

impl Bar {
    fn show(&self, done: u64, all: u64) {
        // Several workers may be here, and in another order than the device.
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if done >= *shown {
            *shown = done;
            let filled = (done * WIDTH).checked_div(all).unwrap_or(WIDTH) as usize;
            eprint!("\r[{:<width$}] {done} of {all} bytes", "#".repeat(filled), width = WIDTH as usize);
        }
    }
}

fn main() -> ExitCode {
    if help::is_wanted("host_calls [DEVICE [FILE]]") {
        return ExitCode::SUCCESS;
    }
    let mut arguments = std::env::args_os().skip(1);
    let device = arguments.next().unwrap_or_else(|| "shm".into()).to_string_lossy().into_owned();
    let path = arguments.next().map_or_else(std::env::current_exe, |path| Ok(path.into()));
    match path.map_err(Into::into).and_then(|path| run(&device, &path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("host_calls: {e}");
            ExitCode::from(2)
        }
    }
}

fn run(device: &str, path: &std::path::Path) -> Result<(), Box<dyn Error>> {
    let file = hamr::io::open(path).map_err(|e| format!("opening {}: {e}", path.display()))?;
    let len = file.metadata()?.len();
    let node = Runtime::new()?.open(device, Image::find("hamr-demo")?)?;
    node.provide(Input(file));
    let bar = Arc::new(Bar::default());
    let of_device = bar.clone();
    node.provide(Progress(Box::new(move |done, all| of_device.show(done, all))));
    let piece = node.allocate::<u8>(PIECE)?;
    let (sum, micros) = node.sync(checksum::with(piece.ptr(), len))?;
    // Messages of the device that found no room were not shown, the last one perhaps among them.
    bar.show(len, len);
    eprintln!();
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    let here = bytes.iter().fold(0u64, |sum, byte| sum.wrapping_add((*byte).into()));
    if sum != here {
        return Err(format!("expected the host's sum {here}, got {sum}").into());
    }
    println!("{device}: {} sums to {sum}, in {micros} microseconds", path.display());
    Ok(())
}
