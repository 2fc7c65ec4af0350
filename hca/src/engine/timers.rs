//! Times that a connection agrees on.

/// Tens of microseconds of each code of `min_rnr_timer` (IBTA 9.7.5.2.8).
const RNR: [u64; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096,
    6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

/// The nanoseconds that a requester waits for a responder without a receive request.
pub(super) fn rnr_ns(code: u8) -> u64 {
    RNR.get(usize::from(code)).map_or(0, |tens| tens * 10_000)
}
