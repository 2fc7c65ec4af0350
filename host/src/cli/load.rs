//! `hamr load`: loads one image into one device, makes one call, and prints the device's
//! properties.

use super::devices::{rows, to_json};
use super::{Cli, Failure, duration, file_in, one_line};
use crate::{Image, ImageFile};
use hamr_comm::abi::image::ImageKind;
use std::fmt::Write;
use std::path::Path;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// A file, or the name of the binary or package that builds it
    #[arg(value_name = "NAME|PATH")]
    what: String,
}

pub(super) fn run(args: &Args, cli: &Cli) -> Result<(), Failure> {
    if let Some(other) = &cli.global.image {
        let (image, tool) = (&args.what, cli.tool.name);
        return Err(Failure::new(format!(
            "expected one image, got {image} and `--image {other}`: `{tool} load {image}`"
        )));
    }
    let (image, device) = match file_in(&args.what) {
        Some(path) => (Image::file(path)?, device_for(path, cli)?),
        // A name does not determine the target.
        None => (Image::named(&args.what), cli.global.device.clone()),
    };
    cli.target_of(&device)?;
    let node = cli.open_on(&device, image, crate::Options::default())?;
    cli.warn(&node);
    let (info, ping) = (node.info(), node.ping()?);
    if cli.global.json {
        let mut value = to_json(&info);
        value["ping_ns"] = (ping.as_nanos() as u64).into();
        return cli.print_json(&value);
    }
    let mut text = format!("DEVICE {}\n", info.name);
    for (name, value) in rows(&info).into_iter().chain([("ping", duration(ping))]) {
        let _ = writeln!(text, "  {name:<10} {}", one_line(&value));
    }
    cli.print(&text)
}

/// The device that was typed, or the one that the file is made for.
fn device_for(path: &Path, cli: &Cli) -> Result<String, Failure> {
    if cli.is_device_chosen {
        return Ok(cli.global.device.clone());
    }
    let file = ImageFile::open(path)?;
    match file.kind {
        ImageKind::HOSTED => Ok("shm".into()),
        ImageKind::BARE => Ok(format!("qemu:{}", file.isa.name())),
        _ => Err(Failure::new(format!(
            "{}: expected a hosted or a bare-metal image, got kind {}; name a device with --device",
            path.display(),
            file.kind.0
        ))),
    }
}
