//! STAGING: how bytes come into the heap of a device that drives its host's memory, and out of it (abi §15.5).
//!
//! ```text
//!  0 number   host, published: of the request, counted from 1
//!  4 kind     host: 1 put, 2 get, 3 show
//!  8 off, u64 host: in the window; of show, a kind of section
//! 16 len, u64 host
//! 64 done     device, published: the number of the request that it has done last
//! 68 status   device: 0, or 1: there is no such range
//! 128         the bytes, up to the end
//! ```

/// Offsets in the section, and values.
pub struct Staging;

impl Staging {
    /// Number of the request; kind behind it.
    pub const NUMBER: u64 = 0;
    /// Where in the window.
    pub const OFF: u64 = 8;
    /// Bytes.
    pub const LEN: u64 = 16;
    /// Number of the request that was done last; status behind it.
    pub const DONE: u64 = 64;
    /// The bytes.
    pub const DATA: u64 = 128;

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
