//! What carries packets between adapters: `udp` sockets, `ethernet` frames to and from stock peers, `faults` for what a
//! wire does to packets on their way, and `port` for what an adapter's process has of these.

pub mod ethernet;
pub mod faults;
pub mod port;
pub mod udp;
