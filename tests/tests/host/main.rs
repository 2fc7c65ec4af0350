//! The host library over devices of any kind, most of them inside of this process.

mod failures;
mod futures;
mod hostile_host;
mod loopback;
mod loss;
mod memory;
mod offload;
mod streams;
