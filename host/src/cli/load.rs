//! `hamr load`: loads one image into one device, makes one call, and prints the device's
//! properties; with `--next`, those with another image; with `--module`, of a module that is loaded beside the
//! image.

use super::call::module_of;
use super::devices::{rows, to_json};
use super::{Cli, Failure, duration, file_in, one_line};
use crate::{Image, ImageFile, Node, Options};
use hamr_comm::abi::image::ImageKind;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// A file, or the name of the binary or package that builds it
    #[arg(value_name = "NAME|PATH", required_unless_present = "module")]
    what: Option<OsString>,
    /// Load a module (docs/modules.md) beside the image, list its handlers, and unload it: a file, or the
    /// package that builds it
    #[arg(long, value_name = "NAME|PATH")]
    module: Option<OsString>,
    /// Then load this image in its place (docs/modules.md): a file, or the name of the binary or package
    #[arg(long, value_name = "NAME|PATH", conflicts_with = "module")]
    next: Option<OsString>,
}

pub(super) fn run(args: &Args, cli: &Cli) -> Result<(), Failure> {
    if let Some(module) = &args.module {
        return load_module(module, args.what.as_deref(), cli);
    }
    let Some(what) = &args.what else { return Err(Failure::new("expected an image, got none")) };
    if let Some(other) = &cli.global.image {
        let (image, other, tool) = (what.display(), other.display(), cli.tool.name);
        return Err(Failure::new(format!(
            "expected one image, got {image} and `--image {other}`: `{tool} load {image}`"
        )));
    }
    let (image, device) = match file_in(what) {
        Some(path) => (Image::file(path)?, device_for(path, cli)?),
        // A name does not determine the target.
        None => (Image::of_argument(what)?, cli.global.device.clone()),
    };
    cli.target_of(&device)?;
    let next = args.next.as_deref().map(Image::of_argument).transpose()?;
    let node = cli.open_on(&device, image, cli.global.apply(Options::default()))?;
    let loaded = next.map(|next| load_next(&next, &node)).transpose()?;
    cli.warn(&node);
    let (info, ping) = (node.info(), node.ping()?);
    if cli.global.json {
        let mut value = to_json(&info);
        value["ping_ns"] = (ping.as_nanos() as u64).into();
        if let Some(took) = loaded {
            value["load_ns"] = (took.as_nanos() as u64).into();
        }
        return cli.print_json(&value);
    }
    let mut text = format!("DEVICE {}\n", info.name);
    let load = loaded.map(|took| ("load", duration(took)));
    for (name, value) in rows(&info, node.round_trip()).into_iter().chain([("ping", duration(ping))]).chain(load) {
        let _ = writeln!(text, "  {name:<10} {}", one_line(&value));
    }
    cli.print(&text)
}

/// Loads another image into a device. Returns how long that took.
fn load_next(image: &Image, node: &Node) -> Result<Duration, Failure> {
    let begin = Instant::now();
    node.load_image(image)?;
    Ok(begin.elapsed())
}

/// Loads a module, lists its handlers and unloads it.
fn load_module(module: &OsStr, image: Option<&OsStr>, cli: &Cli) -> Result<(), Failure> {
    let image = image.map_or_else(|| cli.image(), |image| Ok(Image::of_argument(image)?))?;
    let file = module_of(module, cli)?;
    let node = cli.open_on(&cli.global.device, image, cli.global.apply(Options::default()))?;
    let begin = Instant::now();
    let module = node.load_module(&Image::file(file.path)?)?;
    let took = begin.elapsed();
    let names: Vec<&str> = module.handlers().iter().map(|handler| &*handler.name).collect();
    if cli.global.json {
        cli.print_json(&serde_json::json!({
            "module": module.name(), "load_ns": took.as_nanos() as u64, "handlers": names
        }))?;
    } else {
        let handlers: String = names.iter().map(|name| format!("  {}\n", one_line(name))).collect();
        cli.print(&format!(
            "MODULE {} on {}, loaded in {}\n{handlers}",
            module.name(),
            node.info().name,
            duration(took)
        ))?;
    }
    Ok(module.unload()?)
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
        kind if kind.is_module() => {
            Err(Failure::new(format!("{}: expected an image, got a module: `load IMAGE --module {0}`", path.display())))
        }
        _ => Err(Failure::new(format!(
            "{}: expected a hosted or a bare-metal image, got kind {}; name a device with --device",
            path.display(),
            file.kind.0
        ))),
    }
}
