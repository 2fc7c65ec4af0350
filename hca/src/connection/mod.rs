//! The two ends of a reliable connection (RC), without memory, sockets or a clock: which packet is next, which one was
//! expected, what is sent again and when. The engine moves the bytes.
//!
//! ```text
//! requester   acknowledged <= cursor <= next: packets before `acknowledged` are done,
//!             those before `cursor` are on their way, and a loss puts it back (go-back-N)
//! responder   packets before `expected` are done; one behind it shows a gap
//! ```
//! Times are in nanoseconds from any begin. Sources: InfiniBand Architecture Specification 1.4, section 9.7.

mod psn;
mod requester;
mod responder;

#[cfg(test)]
mod tests;

pub use psn::Psn;
pub use requester::{Class, Requester, Segment};
pub use responder::{Arrival, Reply, Responder};

/// Packets of a message at most, and half of the numbers that a window may span: fewer than the sign of a difference
/// allows.
const MOST_PACKETS: u64 = 1 << 22;
/// READs and atomics of a connection without an answer at most, each way.
pub const MOST_READS: usize = 16;

/// What both ends of a connection agree about, and what one of them tries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Bytes of payload of a packet: 256, 512, 1024, 2048 or 4096.
    pub mtu: u32,
    /// How long an acknowledgement is waited for, as a code: 4.096 µs * 2^code. 0: for ever.
    pub timeout: u8,
    /// How often it is sent again without an answer.
    pub retry: u8,
    /// How often it is sent again when the peer has no receive request. 7: for ever.
    pub rnr_retry: u8,
    /// How long a peer waits each time, as a code of 0 to 31.
    pub rnr_timer: u8,
}

/// May a packet have so many bytes of payload at most?
pub const fn is_mtu(bytes: u32) -> bool {
    matches!(bytes, 256 | 512 | 1024 | 2048 | 4096)
}

impl Path {
    /// Can it be?
    pub fn is_valid(&self) -> bool {
        let Self { mtu, timeout, retry, rnr_retry, rnr_timer } = *self;
        is_mtu(mtu) && timeout < 32 && retry < 8 && rnr_retry < 8 && rnr_timer < 32
    }

    /// How long an acknowledgement is waited for.
    fn wait(&self) -> Option<u64> {
        (self.timeout != 0).then(|| 4096_u64 << (self.timeout & 31))
    }

    /// Packets of a message, or of an answer.
    pub fn packets(&self, length: u64) -> u64 {
        length.div_ceil(u64::from(self.mtu.max(1))).max(1)
    }
}

/// How long to wait for a receive request, in nanoseconds (table 45 of the specification).
pub fn rnr_delay(code: u8) -> u64 {
    const HUNDREDTHS: [u32; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
        4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    HUNDREDTHS.get(usize::from(code & 31)).map_or(0, |hundredths| u64::from(*hundredths) * 10_000)
}
