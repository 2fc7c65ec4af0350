//! Credits in a simulated network: `Ledger` and `Borrower` of `hamr-gas`, beside the algorithm of
//! GASNet's portals-conduit and beside credits without end.
//!
//! `cargo xtask credits --ranks 100000` prints the table. Used by nothing else.

mod lanes;
mod lending;
mod memory;
mod network;
mod patterns;
mod portals;
mod scheme;
mod table;
mod wheel;

pub use lending::{BANK, lane_ring};
pub use memory::Memory;
pub use network::{LogGP, Outcome, Setting};
pub use patterns::Pattern;
pub use table::{Row, table};

/// Runs a pattern with lanes of so many slots and nothing else: what of the rate with slots without end is left.
pub fn lanes_alone(setting: Setting, slots: u32) -> f64 {
    network::run(&lanes::Lanes { slots }, setting).rate / network::run(&scheme::Infinite, setting).rate
}

/// Runs a pattern under each flow control: without end, by blocks, as portals-conduit.
pub fn compare(setting: Setting) -> [Outcome; 3] {
    [
        network::run(&scheme::Infinite, setting),
        network::run(&lending::Lending::new(setting.ranks), setting),
        network::run(&portals::Portals::new(setting.ranks), setting),
    ]
}
