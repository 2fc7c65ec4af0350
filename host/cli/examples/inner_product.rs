//! The inner product of figure 2 of the papers on HAM-Offload: two vectors go to the device, one of them
//! while the program goes on, and the call is made beside the host's own computation.
//! `cargo run --release --example inner_product`; `-- --device qemu:riscv64` on another device.

mod help;

use hamr::Node;
use hamr_kernels::demo::dot_f64;
use std::error::Error;

const ELEMENTS: usize = 1 << 16;

#[hamr::main(image = "hamr-demo")]
fn main(dev: &Node) -> Result<(), Box<dyn Error>> {
    if help::is_wanted("inner_product [--device NAME] [--image NAME|PATH] [--option NAME=VALUE]…") {
        return Ok(());
    }
    let a: Vec<f64> = (0..ELEMENTS).map(|i| i as f64).collect();
    let b: Vec<f64> = (0..ELEMENTS).map(|i| 1.0 / (i + 1) as f64).collect();
    let (on_a, on_b) = (dev.allocate::<f64>(ELEMENTS)?, dev.allocate::<f64>(ELEMENTS)?);
    let put = dev.put_async(a.clone(), on_a.ptr())?;
    dev.put(&b, on_b.ptr())?;
    put.wait()?;
    let result = dev.offload(dot_f64::with(on_a.ptr(), on_b.ptr()))?;
    let here = a.iter().zip(&b).fold(0.0, |sum, (a, b)| sum + a * b);
    let there = result.wait()?;
    if there.to_bits() != here.to_bits() {
        return Err(format!("expected the host's {here}, got {there}").into());
    }
    println!("{}: {there}, the host's bits", dev.info().name);
    Ok(())
}
