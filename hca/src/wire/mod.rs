//! What carries packets between adapters: `ethernet` frames, to and from stock peers.

pub mod ethernet;
