//! STAGING: how bytes come into the heap of a device that drives its host's memory, and out of it (abi §15.5).
//!
//! ```text
//!  0 kind     host: 1 put, 2 get, 3 show; another: nothing
//!  4 number   host, published: of the request, counted from 1
//!  8 off, u64 host: in the window; of show, a kind of section
//! 16 len, u64 host
//! 64 status   device: 0, or 1: there is no such range
//! 68 done     device, published: the number of the request that it has done last
//! 128         the bytes, up to the end
//! ```

/// Offsets in the section, and values.
pub struct Staging;

impl Staging {
    /// Kind. Of a pair the published word is the upper half, as of a slot: it is loaded first, and stored last.
    pub const KIND: u64 = 0;
    /// Number of the request.
    pub const NUMBER: u64 = 4;
    /// Where in the window.
    pub const OFF: u64 = 8;
    /// Bytes.
    pub const LEN: u64 = 16;
    /// Status.
    pub const STATUS: u64 = 64;
    /// Number of the request that was done last.
    pub const DONE: u64 = 68;
    /// The bytes.
    pub const DATA: u64 = 128;

    /// Kind: nothing, with a status of its own: a request that was given up before the device has taken it.
    pub const NONE: u32 = 0;
    /// Kind: the device takes the bytes into its heap.
    pub const PUT: u32 = 1;
    /// Kind: out of it.
    pub const GET: u32 = 2;
    /// Kind: what the device has written into a section of this kind comes to the host.
    pub const SHOW: u32 = 3;

    /// Status: done.
    pub const OK: u32 = 0;
    /// Status: the device's window has no such heap, or the section not so many bytes.
    pub const NO_RANGE: u32 = 1;

    /// Bytes of a section that a host lays out.
    pub const BYTES: u64 = Self::DATA + (256 << 10);
}
