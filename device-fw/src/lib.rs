//! The device runtime: finds its window, shakes hands, serves calls. `no_std`; the hosted part is a Linux process.
//!
//! An image is three lines (`my-image/src/main.rs`, the same file hosted and on every instruction set):
//!
//! ```ignore
//! #![no_std]
//! #![no_main]
//! use my_kernels as _;
//! hamr_device_fw::image!();
//! ```
//!
//! People with a main loop of their own (an RTOS, an executor) make a [`Device`] over their [`Board`] and call
//! [`Device::poll`]. Who may depend on it: images. It depends on `hamr-comm`.
#![no_std]

#[cfg(not(any(target_os = "none", hamr_bare)))]
extern crate std;

mod board;
mod device;
#[cfg(not(any(target_os = "none", hamr_bare)))]
pub mod hosted;

pub use board::Board;
pub use device::{Device, Progress};

/// What expansions refer to.
#[doc(hidden)]
pub mod __private {
    pub use hamr_comm::abi::image::ImageNote;
}

/// Makes a binary an image: its entry point and the note that says what it is.
#[macro_export]
macro_rules! image {
    () => {
        #[used]
        #[unsafe(link_section = ".note.hamr")]
        static HAMR_IMAGE_NOTE: $crate::__private::ImageNote = $crate::__private::ImageNote::of_this_build();

        $crate::__entry_point!();
    };
}

/// The C entry point: the operating system's start-up code calls it.
#[cfg(not(any(target_os = "none", hamr_bare)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __entry_point {
    () => {
        /// Called by the C runtime.
        #[unsafe(no_mangle)]
        extern "C" fn main() -> i32 {
            $crate::hosted::main()
        }
    };
}
