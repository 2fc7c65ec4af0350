//! Demo and benchmark handlers, written once and linked into host programs and images alike.
//!
//! Features: `device`, which images set, the bodies of handlers with `#[offload(device)]`; `bench`, the handlers of `hamr-bench`.
//!
//! Who may depend on it: binaries and tests. No library of the workspace does.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "bench")]
pub mod bench;
pub mod demo;
pub mod faults;
pub mod host;
