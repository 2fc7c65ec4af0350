//! What only programs with threads have: a device's copy that they read and write, and what threads do together.

mod driven;
mod looks;
mod turns;

pub use driven::DrivenCopy;
pub use looks::Looks;
pub use turns::Turns;

/// Those of a host's copy.
pub type SharedLooks = alloc::sync::Arc<Looks>;
