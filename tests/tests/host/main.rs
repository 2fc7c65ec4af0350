//! The host library over devices of any kind, most of them inside of this process.

mod breaks;
mod executor;
mod failures;
mod futures;
mod hostile_host;
mod loopback;
mod loss;
mod memory;
mod mirrored;
mod offload;
mod split;
mod streams;
