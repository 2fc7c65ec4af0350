//! One host program and four devices at once: a process and three machines, each of another
//! instruction set. From a handler, each device reports its instruction set; then all share one
//! inner product, a block each.
//!
//! `cargo run --release --example mixed`, or with the devices of your choice as arguments.

mod help;

use hamr::{Image, Node, Runtime};
use hamr_comm::abi::ids::Isa;
use hamr_kernels::demo::{dot_f64, isa};
use std::error::Error;
use std::process::ExitCode;

const DEVICES: [&str; 4] = ["shm", "qemu:x86_64", "qemu:aarch64", "qemu:riscv64"];
/// Elements of the whole vector.
const LEN: usize = 1 << 20;

fn main() -> ExitCode {
    if help::is_wanted("mixed [DEVICE]…") {
        return ExitCode::SUCCESS;
    }
    let chosen: Vec<String> = std::env::args_os().skip(1).map(|text| text.to_string_lossy().into_owned()).collect();
    let specs = if chosen.is_empty() { DEVICES.map(String::from).to_vec() } else { chosen };
    match run(&specs) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("mixed: {e}");
            ExitCode::from(2)
        }
    }
}

fn run(specs: &[String]) -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    let nodes = open(&runtime, specs)?;
    // All calls are sent before the first result is waited for.
    let asked = nodes.iter().map(|node| node.offload(isa::with())).collect::<Result<Vec<_>, _>>()?;
    for (node, answer) in nodes.iter().zip(asked) {
        let info = node.info();
        println!("node {} {:<14} {:<14} reports {}", info.node, info.name, info.board, Isa(answer.wait()?).name());
    }

    let x: Vec<f64> = (0..LEN).map(|i| (i as f64).sin()).collect();
    let y: Vec<f64> = (0..LEN).map(|i| (i as f64).cos()).collect();
    let block = LEN.div_ceil(nodes.len());
    let blocks: Vec<_> = x.chunks(block).zip(y.chunks(block)).collect();
    let placed = nodes.iter().zip(&blocks).map(|(node, (x, y))| Ok((node.buffer(x)?, node.buffer(y)?)));
    let placed = placed.collect::<Result<Vec<_>, hamr::Error>>()?;
    let sent = nodes.iter().zip(&placed).map(|(node, (x, y))| node.offload(dot_f64::with(x.ptr(), y.ptr())));
    let sent = sent.collect::<Result<Vec<_>, _>>()?;
    let mut sum = 0.0;
    for ((node, (x, y)), part) in nodes.iter().zip(&blocks).zip(sent) {
        let there = part.wait()?;
        let here = x.iter().zip(*y).fold(0.0f64, |sum, (a, b)| sum + a * b);
        let name = node.info().name;
        if there.to_bits() != here.to_bits() {
            return Err(format!("{name}: expected the host's {here}, got {there}").into());
        }
        println!("{name:<14} {:>8} elements: {there:>23}, the host's bits", x.len());
        sum += there;
    }
    println!("all of them: {sum}");
    Ok(())
}

/// Opens all devices at once, because a machine's firmware takes time.
fn open(runtime: &Runtime, specs: &[String]) -> Result<Vec<Node>, Box<dyn Error>> {
    std::thread::scope(|scope| {
        let open = |spec: &str| runtime.open(spec, Image::find("hamr-demo")?);
        let opening: Vec<_> = specs.iter().map(|spec| scope.spawn(move || open(spec))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Node, hamr::Error>>| {
            Ok(thread.join().map_err(|_| "a thread that opens a device panicked")??)
        };
        opening.into_iter().map(join).collect()
    })
}
