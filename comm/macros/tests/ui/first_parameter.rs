//! The first parameter says what a handler is: one of three types, or one that is a `Program`.
use core::fmt::Formatter;
use hamr_comm::{Context, Host, Task, offload};

#[offload]
fn inline(_cx: &mut Context) {}

#[offload]
fn task(_task: &mut Task<'_>) {}

#[offload]
fn body(_cx: &mut hamr_comm::Host) {}

#[offload]
fn other(_f: &mut Formatter) {}

#[offload]
fn both(_task: &mut Task, _cx: &mut Context) {}

#[offload]
fn late(_cx: &mut Context, _host: &mut Host) {}

fn main() {}
