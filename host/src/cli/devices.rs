//! `hamr devices`: what kinds there are, what the chosen one is, and what runs on this machine.

use super::{Cli, Failure, bytes, one_line};
use crate::inspect::{Found, windows};
use crate::{DeviceInfo, Options};
use serde_json::{Value, json};
use std::fmt::Write;

pub(super) fn run(cli: &Cli) -> Result<(), Failure> {
    let kinds: Vec<(String, String)> = cli.runtime.kinds().map(|(name, text)| (name.to_owned(), text)).collect();
    let node = cli.open_quietly(Options::default())?;
    let (info, warnings, found) = (node.info(), node.warnings(), windows());
    if cli.global.json {
        let kinds = kinds.iter().map(|(name, text)| json!({ "name": name, "description": text }));
        return cli.print_json(&json!({
            "kinds": kinds.collect::<Vec<_>>(),
            "device": to_json(&info),
            "warnings": warnings,
            "windows": found,
        }));
    }
    let mut text = String::from("KINDS\n");
    for (name, what) in &kinds {
        let _ = writeln!(text, "  {name:<10} {what}");
    }
    let _ = writeln!(text, "\nDEVICE {}", info.name);
    for (name, value) in rows(&info) {
        let _ = writeln!(text, "  {name:<10} {}", one_line(&value));
    }
    for warning in &warnings {
        let _ = writeln!(text, "  warning    {}", one_line(warning));
    }
    text.push_str("\nLIVE WINDOWS (`inspect` shows what they hold)\n");
    text.push_str(&table(&found));
    cli.print(&text)
}

/// A device as name and value, for people.
fn rows(d: &DeviceInfo) -> Vec<(&'static str, String)> {
    let known = |n: u64| if n == 0 { "unknown".into() } else { bytes(n) };
    let mut rows = vec![
        ("node", format!("{}, epoch {}", d.node, d.epoch)),
        ("link", format!("{}, ABI {}", d.link, d.abi)),
        ("processor", d.isa.into()),
        ("board", d.board.clone()),
        ("process", if d.pid == 0 { "none of its own".into() } else { d.pid.to_string() }),
        ("memory", known(d.memory)),
        ("window", format!("{}, of which heap {}", bytes(d.window), bytes(d.heap))),
        ("features", d.features.join(" ")),
        ("handlers", d.handlers.to_string()),
        ("build id", if d.build_id.is_empty() { "none".into() } else { d.build_id.clone() }),
    ];
    if let Some(image) = &d.image {
        rows.push(("image", image.display().to_string()));
    }
    rows
}

fn to_json(d: &DeviceInfo) -> Value {
    json!({
        "name": d.name,
        "node": d.node,
        "link": d.link,
        "isa": d.isa,
        "board": d.board,
        "pid": d.pid,
        "abi": d.abi.to_string(),
        "features": d.features,
        "memory": d.memory,
        "heap": d.heap,
        "window": d.window,
        "handlers": d.handlers,
        "build_id": d.build_id,
        "epoch": d.epoch,
        "image": d.image.as_ref().map(|path| path.display().to_string()),
    })
}

/// Windows, a line each.
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
