//! A device across a network, as far as bytes go (docs/network.md): what [frames](frame) a connection carries, [who may
//! connect](key), and the [connections](channel) themselves, over TLS. What the frames do to a window is elsewhere.
//!
//! ```text
//! host     Opening ── Channel ══ TLS ══ Channel ── Arrival ── Door     server
//!             │          └ Frame          Frame ┘                │
//!            Key                                                Key
//! ```
//!
//! Nothing here waits without its caller's limit, and nothing takes memory by a number that a peer sent.
//!
//! The crate has no threads and does not block. `Door` accepts, `Opening` connects, and both give a `Channel`; the
//! caller waits for them, by `Channel::interest`. `Channel::receive` gives checked frames, frames that are pushed
//! before one `flush` go in one write, and while `flush` says that not all is gone, nothing more is collected.
//! `Transfers` puts and gets on the second connection, `serve_transfers` is its other end; both return after the
//! other end's answer. Another thread can end `Channel::line`, which ends each wait for it. `Channel::over` is over
//! anything that keeps bytes in order (`Carrier`), without keys.

pub mod channel;
mod door;
mod failure;
pub mod frame;
mod hello;
mod io;
pub mod key;
mod seat;
mod socket;
mod tls;
mod transfer;

pub use channel::Channel;
pub use door::{Arrival, Closer, Door, MOST_WAITING};
pub use failure::{Broken, Failure};
pub use hello::{Opened, Opening, link_id};
pub use io::{Carrier, Line, Wire};
pub use seat::{Seat, Verdict};
pub use socket::resolve;
pub use transfer::{Memory, Transfers, serve_transfers};
