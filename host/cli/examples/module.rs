//! Handlers loaded at run time: a module goes to a running device, is called, unloaded, and loaded again.
//! `cargo run --release --example module`; `-- --device qemu:aarch64` on another device, also with files
//! as `--image IMAGE MODULE`.

mod help;

use hamr::{Image, Node};
use hamr_comm::Context;
use std::error::Error;

#[hamr::main(image = "hamr-checks")]
fn main(dev: &Node) -> Result<(), Box<dyn Error>> {
    if help::is_wanted("module [--device NAME] [--image NAME|PATH] [--option NAME=VALUE]… [MODULE]") {
        return Ok(());
    }
    let name = hamr::start::arguments().into_iter().next().unwrap_or_else(|| "hamr-tests-module".into());
    let file = Image::module(&name)?;
    for round in 1..=2 {
        let module = dev.load_module(&file)?;
        let twice = module.named::<fn(&mut Context, i64) -> i64>("hamr_tests_module::twice")?;
        let calls = module.named::<fn(&mut Context) -> u64>("hamr_tests_module::calls")?;
        // Its statics begin anew with each load.
        println!("load {round}: {} twice is {}, call {}", 21, twice.sync((21,))?, calls.sync(())?);
        module.unload()?;
        if let Ok(value) = twice.sync((21,)) {
            return Err(format!("expected that an unloaded handler is refused, got {value}").into());
        }
    }
    Ok(())
}
