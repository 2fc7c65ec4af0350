//! `hamr devices`: the kinds of devices, the chosen device, and the devices that run on this
//! machine; or several devices at once.

use super::{Cli, Failure, bytes, duration, one_line};
use crate::inspect::{Found, windows};
use crate::pci::{Candidate, candidates};
use crate::{DeviceInfo, Node, Options, Warning};
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

#[derive(clap::Args, Debug, Default)]
pub(super) struct Args {
    /// Devices to start, all at the same time: `kind` or `kind:argument` each
    #[arg(value_name = "SPEC")]
    specs: Vec<String>,
}

pub(super) fn run(args: &Args, cli: &Cli) -> Result<(), Failure> {
    match args.specs.is_empty() {
        true => overview(cli),
        false => side_by_side(&args.specs, cli),
    }
}

/// Starts all devices at once and prints a row for each. One that fails ends the others, too.
fn side_by_side(specs: &[String], cli: &Cli) -> Result<(), Failure> {
    if cli.is_device_chosen {
        let (device, specs) = (&cli.global.device, specs.join(" "));
        return Err(Failure::new(format!(
            "expected `--device {device}` or the devices {specs}, got both; add {device} to the list"
        )));
    }
    // All names are checked before any image is built.
    for spec in specs {
        cli.runtime.target(spec)?;
    }
    let (image, options) = (cli.image()?, cli.global.apply(Options::default()));
    let nodes: Vec<Result<Node, String>> = std::thread::scope(|scope| {
        let (image, options) = (&image, &options);
        let open = |spec: &'_ String| cli.open_on(spec, image.clone(), options.clone()).map_err(|why| why.to_string());
        let start = |spec| std::thread::Builder::new().spawn_scoped(scope, move || open(spec));
        let starting: Vec<_> = specs.iter().map(start).collect();
        let panicked = |_| Err("a thread that started a device panicked".into());
        let refused = |e| Err(format!("starting the thread that starts a device: {e}"));
        starting
            .into_iter()
            .map(|thread| thread.map_or_else(refused, |thread| thread.join().unwrap_or_else(panicked)))
            .collect()
    });
    let failures: Vec<String> = nodes.iter().filter_map(|node| node.as_ref().err().cloned()).collect();
    if !failures.is_empty() {
        return Err(Failure::new(failures.join("; ")));
    }
    let nodes: Vec<Node> = nodes.into_iter().flatten().collect();
    for node in &nodes {
        cli.warn(node);
    }
    let infos: Vec<DeviceInfo> = nodes.iter().map(Node::info).collect();
    if cli.global.json {
        return cli.print_json(&infos.iter().map(to_json).collect());
    }
    let mut text = row(["DEVICE", "NODE", "ISA", "BOARD", "MEMORY", "HANDLERS", "START", "BUILD ID"].map(String::from));
    for d in &infos {
        let (name, board, start) = (one_line(&d.name), one_line(&d.board), duration(d.start));
        let (node, handlers) = (d.node.to_string(), d.handlers.to_string());
        text += &row([name, node, d.isa.to_string(), board, known(d.memory), handlers, start, d.build_id.to_string()]);
    }
    cli.print(&text)
}

fn row([name, node, isa, board, memory, handlers, start, build_id]: [String; 8]) -> String {
    format!("{name:<14} {node:>4}  {isa:<9} {board:<16} {memory:>10} {handlers:>9} {start:>10}  {build_id}\n")
}

fn overview(cli: &Cli) -> Result<(), Failure> {
    let kinds: Vec<(String, String)> = cli.runtime.kinds().map(|(name, text)| (name.to_owned(), text)).collect();
    let node = cli.open_quietly(Options::default())?;
    let (info, warnings, found) = (node.info(), node.warnings(), windows());
    let functions = candidates();
    if cli.global.json {
        let kinds = kinds.iter().map(|(name, text)| json!({ "name": name, "description": text }));
        return cli.print_json(&json!({
            "kinds": kinds.collect::<Vec<_>>(),
            "device": with_round_trip(to_json(&info), node.round_trip()),
            "warnings": warnings.iter().map(Warning::to_string).collect::<Vec<_>>(),
            "windows": found,
            "functions": functions.iter().map(function_to_json).collect::<Vec<_>>(),
        }));
    }
    let mut text = String::from("KINDS\n");
    for (name, what) in &kinds {
        let _ = writeln!(text, "  {name:<10} {what}");
    }
    let _ = writeln!(text, "\nDEVICE {}", info.name);
    for (name, value) in rows(&info, node.round_trip()) {
        let _ = writeln!(text, "  {name:<10} {}", one_line(&value));
    }
    for warning in &warnings {
        let _ = writeln!(text, "  warning    {}", one_line(&warning.to_string()));
    }
    text.push_str("\nLIVE WINDOWS (`inspect` shows their contents)\n");
    text.push_str(&table(&found));
    text.push_str("\nFUNCTIONS WITH SHARED MEMORY (`--device pci:ADDRESS` attaches to one whose image runs)\n");
    for Candidate { address, memory, driver } in &functions {
        let driver = driver.as_deref().unwrap_or("no driver");
        let _ = writeln!(text, "  {address:<14} {:>10}  {driver}", bytes(*memory));
    }
    if functions.is_empty() {
        text.push_str("  none\n");
    }
    cli.print(&text)
}

fn function_to_json(c: &Candidate) -> Value {
    json!({ "device": format!("pci:{}", c.address), "memory": c.memory, "driver": c.driver })
}

/// A device as name and value, for people.
pub(super) fn rows(d: &DeviceInfo, round_trip: Option<Duration>) -> Vec<(&'static str, String)> {
    let mut protocol = d.protocol.to_string();
    if let Some(remote) = &d.remote {
        let _ = write!(protocol, ", to {remote}");
    }
    if let Some(took) = round_trip {
        let _ = write!(protocol, ", there and back in {}", duration(took));
    }
    let mut rows = vec![
        ("node", format!("{}, epoch {}", d.node, d.epoch)),
        ("link", format!("{}, ABI {}", d.link, d.abi)),
        ("protocol", protocol),
        ("processor", d.isa.to_string()),
        ("board", d.board.clone()),
        ("process", if d.pid == 0 { "none of its own".into() } else { d.pid.to_string() }),
        ("memory", known(d.memory)),
        ("window", format!("{}, of which heap {}", bytes(d.window), bytes(d.heap))),
        ("features", d.features.to_string()),
        ("handlers", d.handlers.to_string()),
        ("build id", d.build_id.to_string()),
        ("start", format!("{} until it served", duration(d.start))),
    ];
    if let Some(image) = &d.image {
        rows.push(("image", image.display().to_string()));
    }
    rows
}

/// Microseconds, where there is a connection.
fn with_round_trip(mut device: Value, round_trip: Option<Duration>) -> Value {
    device["round_trip_us"] = json!(round_trip.map(|took| took.as_nanos() as f64 / 1e3));
    device
}

fn known(memory: u64) -> String {
    if memory == 0 { "unknown".into() } else { bytes(memory) }
}

pub(super) fn to_json(d: &DeviceInfo) -> Value {
    json!({
        "name": d.name,
        "node": d.node,
        "link": d.link,
        "protocol": d.protocol.to_string(),
        "remote": d.remote,
        "isa": d.isa.name(),
        "board": d.board,
        "pid": d.pid,
        "abi": d.abi.to_string(),
        "features": d.features.names().collect::<Vec<_>>(),
        "memory": d.memory,
        "heap": d.heap,
        "window": d.window,
        "handlers": d.handlers,
        "build_id": d.build_id,
        "epoch": d.epoch,
        "start_ms": d.start.as_micros() as f64 / 1e3,
        "image": d.image.as_ref().map(|path| path.display().to_string()),
    })
}

/// Windows, one line each.
pub(super) fn table(found: &[Found]) -> String {
    if found.is_empty() {
        return "  none\n".into();
    }
    let mut text =
        format!("  {:<10} {:>10} {:>8} {:<10} {:>8} {:<10} PATH\n", "NAME", "SIZE", "HOST", "", "DEVICE", "");
    for w in found {
        let _ = writeln!(
            text,
            "  {:<10} {:>10} {:>8} {:<10} {:>8} {:<10} {}",
            one_line(&w.name),
            bytes(w.size),
            w.host_pid,
            w.host_state,
            w.device_pid,
            w.device_state,
            w.path.display()
        );
    }
    text
}
