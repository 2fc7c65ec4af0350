//! What carries packets between adapters: `udp` sockets, `faults` for what a wire does to packets on their way, and
//! `port` for what an adapter's process has of both.

pub mod faults;
pub mod port;
pub mod udp;
