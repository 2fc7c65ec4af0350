//! What carries packets between adapters: `udp` sockets, and `faults` for what a wire does to packets on their way.

pub mod faults;
pub mod udp;
