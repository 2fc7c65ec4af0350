//! `hamr debug`: a device that waits for gdb at its first instruction, with a call of this command,
//! or under a program of the user's.

use super::call;
use super::{Cli, Failure, file_in};
use crate::debugger::{Debugger, VARIABLE};
use crate::{Image, Setting};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;

// The group of `call::Args` has the name that this one's would have.
#[derive(clap::Args, Debug)]
#[group(id = "debug")]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) call: call::Args,
    /// Run this program instead; its devices wait for gdb, which stops in HANDLER
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub(super) fn run(args: &Args, cli: &Cli) -> Result<(), Failure> {
    if args.call.module.is_some() {
        return Err(Failure::new("--module: `debug` stops in a handler of the image, and loads no module".to_owned()));
    }
    if let [program, arguments @ ..] = &args.program[..] {
        return run_program(program, arguments, args, cli);
    }
    let device = &cli.global.device;
    cli.check_device()?;
    let cannot = || Failure::new(format!("expected a device that a debugger can hold, shm or qemu:NAME, got {device}"));
    // Before the search for an image, which may build one.
    cli.runtime.held(device, Debugger::default())?.ok_or_else(cannot)?;
    let file = cli.image()?.resolve(&cli.target_of(device)?)?;
    let signatures = call::signatures(&file.path)?;
    let Some(name) = &args.call.handler else {
        let tool = cli.tool.name;
        return Err(Failure::new(format!(
            "expected a handler and its values, or `-- PROGRAM`, got neither; `{tool} call` lists the handlers with their types"
        )));
    };
    let prepared = call::prepare(name, &signatures, &args.call, cli)?;
    let options = cli.global.apply(prepared.options());
    let held = cli.runtime.held(device, Debugger::stop_in(&prepared.signature.name))?.ok_or_else(cannot)?;
    let say = |command: &str| cli.print(&format!("{command}\n"));
    let node = cli.runtime.open_held(device, &held, Image::file(&file.path)?, options, say)?;
    prepared.run(&node, cli)
}

/// Becomes the program.
fn run_program(program: &OsString, arguments: &[OsString], args: &Args, cli: &Cli) -> Result<(), Failure> {
    if args.call.has_values() {
        return Err(Failure::new(
            "expected a handler to stop in, or none, in front of `-- PROGRAM`, got values".to_owned(),
        ));
    }
    let stop_in = args.call.handler.as_deref().unwrap_or("1");
    let mut command = std::process::Command::new(program);
    command.args(arguments).env(VARIABLE, stop_in);
    // What was typed goes before what the environment says.
    if cli.is_device_chosen {
        command.env("HAMR_DEVICE", &cli.global.device);
    }
    if let Some(image) = &cli.global.image {
        if file_in(image).is_none() {
            let image = image.display();
            return Err(Failure::new(format!(
                "expected a file as the image of the program's devices, got `--image {image}`"
            )));
        }
        command.env("HAMR_IMAGE", image);
    }
    command.envs(cli.global.settings.iter().map(Setting::in_environment));
    command.envs(cli.global.wait.map(|wait| ("HAMR_WAIT", format!("{wait:?}").to_lowercase())));
    command.envs(cli.global.spin.map(|micros| ("HAMR_SPIN", format!("{micros}us"))));
    let why = command.exec();
    Err(Failure::new(format!("expected a program, {}: {why}", program.display())))
}
