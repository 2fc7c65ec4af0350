//! `hamr handlers`: the image's table, beside this program's.

use super::{Cli, Failure, one_line};
use crate::inspect::Hex;
use crate::{HandlerInfo, Options};
use hamr_comm::Entry;
use hamr_comm::abi::table::record_flag;
use hamr_comm::registry::Table;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

#[derive(clap::Args)]
pub(super) struct Args {
    /// List what devices can call on this program instead; no device is started
    #[arg(long)]
    host: bool,
}

pub(super) fn run(args: &Args, cli: &Cli) -> Result<(), Failure> {
    if args.host {
        return callable(cli);
    }
    let node = cli.open_quietly(Options::default())?;
    let device = node.handlers();
    let host = Table::of_this_image();
    // A device that does not know a body of this program does not call it.
    let is_missing = |h: &&Entry| h.flags & record_flag::HOST == 0 && device.iter().all(|d| d.id != h.id);
    let missing: Vec<&'static Entry> = host.iter().filter(is_missing).collect();
    let (strange, missing): (Vec<_>, Vec<_>) = missing.into_iter().partition(|h| !has_crate(&device, h.name));
    if cli.global.json {
        let rows =
            device.iter().map(|d| row_of(d, host)).chain(missing.iter().chain(&strange).map(|h| row_of_missing(h)));
        return cli.print_json(&json!({ "device": node.info().name, "handlers": rows.collect::<Vec<_>>() }));
    }
    let mut text = format!(" KEY  {:<16}  {:<16}  {:<18} {:<10} NAME\n", "SIGNATURE", "BODY", "FLAGS", "HOST");
    for d in &*device {
        let flags = d.flag_names().join(" ");
        let (signature, body, agreement) = (Hex(d.signature), Hex(d.body), agreement(d, host));
        let name = one_line(&d.name);
        let _ = writeln!(text, "{:>4}  {signature}  {body}  {flags:<18} {agreement:<10} {name}", d.key);
    }
    for h in missing {
        let (signature, body) = (Hex(h.signature), Hex(h.body));
        let _ = writeln!(text, "   -  {signature}  {body}  {:<18} {:<10} {}", "", "missing", h.name);
    }
    for (name, many) in by_crate(strange.iter().map(|h| h.name)) {
        let _ = writeln!(text, "   -  this program's {many} handlers of {name}: the image has none of that crate");
    }
    text.push_str(LEGEND);
    cli.print(&text)
}

/// Has the device a handler of the crate that this one is of? An image that lacks a whole crate was made of others.
pub(super) fn has_crate(device: &[HandlerInfo], handler: &str) -> bool {
    device.iter().any(|d| crate_of(&d.name) == crate_of(handler))
}

/// Crates, each with the number of its handlers.
pub(super) fn by_crate<'n>(names: impl Iterator<Item = &'n str>) -> BTreeMap<&'n str, usize> {
    names.fold(BTreeMap::new(), |mut crates, name| {
        *crates.entry(crate_of(name)).or_default() += 1;
        crates
    })
}

fn crate_of(handler: &str) -> &str {
    handler.split("::").next().unwrap_or_default()
}

/// The handlers of this program that devices can call, in the order of their keys.
fn callable(cli: &Cli) -> Result<(), Failure> {
    let table = Table::of_host_handlers();
    let row = |(key, h): (usize, &Entry)| json!({ "key": key, "name": h.name, "signature": Hex(h.signature), "body": Hex(h.body) });
    if cli.global.json {
        return cli.print_json(&json!({ "handlers": table.iter().enumerate().map(row).collect::<Vec<_>>() }));
    }
    let mut text = format!(" KEY  {:<16}  {:<16}  NAME\n", "SIGNATURE", "BODY");
    for (key, h) in table.iter().enumerate() {
        let _ = writeln!(text, "{key:>4}  {}  {}  {}", Hex(h.signature), Hex(h.body), h.name);
    }
    cli.print(&text)
}

const LEGEND: &str = "
HOST: same = calls work; stale = calls work, but the image was built from another version of the source;
signature = other argument or result types, calls are refused; missing = the image lacks it; - = this program lacks it
";

/// Whether this program's handler and the device's agree.
fn agreement(device: &HandlerInfo, host: Table) -> &'static str {
    match host.iter().find(|h| h.id == device.id) {
        None => "-",
        Some(h) if h.signature != device.signature => "signature",
        Some(h) if h.body != device.body => "stale",
        Some(_) => "same",
    }
}

fn row_of(d: &HandlerInfo, host: Table) -> Value {
    json!({
        "key": d.key,
        "name": d.name,
        "signature": Hex(d.signature),
        "body": Hex(d.body),
        "flags": d.flag_names(),
        "has_body": d.has_body(),
        "host": agreement(d, host),
    })
}

fn row_of_missing(h: &Entry) -> Value {
    json!({
        "key": null,
        "name": h.name,
        "signature": Hex(h.signature),
        "body": Hex(h.body),
        "flags": [],
        "has_body": false,
        "host": "missing",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_are_counted_by_crate() {
        let names = ["a::x", "b::y", "a::b::z<c::D>"];
        assert_eq!(by_crate(names.into_iter()), BTreeMap::from([("a", 2), ("b", 1)]));
        let there = HandlerInfo { name: "a::x".into(), key: 0, id: 0, signature: 0, body: 0, flags: 0 };
        assert!(has_crate(std::slice::from_ref(&there), "a::other") && !has_crate(&[there], "aa::x"));
    }
}
