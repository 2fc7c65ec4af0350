//! The device runtime: it finds its window, does the handshake and serves calls. The crate is
//! `no_std`; its hosted part runs as a Linux process.
//!
//! An image is three lines (`my-image/src/main.rs`, the same file hosted and on every instruction
//! set):
//!
//! ```ignore
//! #![no_std]
//! #![no_main]
//! use my_kernels as _;
//! hamr_device_fw::image!();
//! ```
//!
//! A program with a main loop of its own (an RTOS, an executor) makes a [`Device`] over its
//! [`Board`] and calls [`Device::poll`]; it leaves the feature `image` off (`docs/porting.md`).
//!
//! Features: `image` (default), boot code, traps, panic handler and boards of bare-metal images; `tasks`, handlers that wait;
//! `claims`, what these keep from others, `world`, ranks, `modules`, handlers loaded at run time, and `driven`,
//! images that drive their host's memory, of bare-metal images.
//! Pages named `docs/…` are in the repository.
//!
//! Only images depend on this crate. It depends on `hamr-comm`.
#![no_std]

// Contract "image". `image!` puts abi §10's note, plain words, into its section and defines `main`
// unmangled: a wrong section or a second symbol, which the linker refuses, could break any binary. On
// bare metal it defines `__hamr_main`, `__hamr_console` and `__hamr_exit` instead, which `bare/mod.rs`
// and `bare/console.rs` declare with the same signatures. Fault paths call the last two at any time;
// `BareBoard` asks for functions without state.

#[cfg(all(hamr_machine, feature = "driven"))]
extern crate alloc;
#[cfg(not(hamr_bare))]
extern crate std;

#[cfg(all(
    hamr_bare,
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64", target_arch = "arm")
))]
pub mod arch;
#[cfg(hamr_machine)]
pub mod bare;
pub mod board;
mod config;
mod crash;
mod device;
#[cfg(any(not(hamr_bare), all(hamr_machine, feature = "driven")))]
mod driving;
#[cfg(any(
    not(hamr_bare),
    all(
        feature = "image",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64", target_arch = "arm")
    )
))]
pub mod hal;
#[cfg(not(hamr_bare))]
pub mod hosted;
mod idle;
pub mod log;
#[cfg(all(
    hamr_bare,
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64", target_arch = "arm")
))]
pub mod pci;

#[cfg(any(all(hamr_machine, feature = "world"), not(hamr_bare)))]
mod rank;
#[cfg(any(hamr_machine, not(hamr_bare)))]
mod runaway;

pub use board::Board;
pub use config::{Config, OnFault};
pub use device::{Device, Progress};

/// What expansions refer to.
#[doc(hidden)]
pub mod __private {
    pub use crate::config::words;
    pub use hamr_comm;
    pub use hamr_comm::abi::image::ImageNote;
}

/// Makes a binary an image: its entry point and the note that describes the build. Bare metal runs
/// on the instruction set's usual board (`board::Default`), or on `image!(board = MyBoard)`;
/// hosted, the board is the process. Behind the board, fields of [`Config`]: `image!(on_fault =
/// reset, longest_call_ms = 100)`.
#[macro_export]
macro_rules! image {
    (board = $board:ty $(, $field:ident = $value:expr)* $(,)?) => {
        $crate::__image_note!();
        $crate::__takes_modules!();
        $crate::__entry_point!([$board] $($field = $value),*);
    };
    ($($field:ident = $value:expr),* $(,)?) => {
        $crate::__image_note!();
        $crate::__takes_modules!();
        $crate::__entry_point!([] $($field = $value),*);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __config {
    ($($field:ident = $value:expr),*) => {{
        #[allow(unused_imports, reason = "the default needs none")]
        use $crate::__private::words::*;
        #[allow(clippy::needless_update, reason = "all fields may be given")]
        const CONFIG: $crate::Config = $crate::Config { $($field: $value,)* ..$crate::Config::DEFAULT };
        CONFIG
    }};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __image_note {
    () => {
        #[used]
        #[unsafe(link_section = ".note.hamr")]
        static HAMR_IMAGE_NOTE: $crate::__private::ImageNote = $crate::__private::ImageNote::of_this_build();
    };
}

/// The handlers that load and unload.
#[cfg(feature = "modules")]
#[doc(hidden)]
#[macro_export]
macro_rules! __takes_modules {
    () => {
        $crate::__private::hamr_comm::takes_modules!();
    };
}

/// Without the feature `modules` there are none.
#[cfg(not(feature = "modules"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __takes_modules {
    () => {};
}

/// The C entry point: the operating system's start-up code calls it.
#[cfg(not(hamr_bare))]
#[doc(hidden)]
#[macro_export]
macro_rules! __entry_point {
    ([$($board:ty)?] $($field:ident = $value:expr),*) => {
        /// Called by the C runtime.
        #[unsafe(no_mangle)]
        extern "C" fn main() -> i32 {
            const CONFIG: $crate::Config = $crate::__config!($($field = $value),*);
            // As long as the window, and checked as on bare metal.
            const _: usize = CONFIG.scratch();
            $crate::hosted::main((CONFIG.at_start)(CONFIG))
        }
    };
}

/// Without the feature `tasks` there is no stack but the runtime's.
#[cfg(all(hamr_bare, not(feature = "tasks")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __task_stacks {
    ($($field:ident = $value:expr),*) => {};
}

/// Without the feature `modules` no memory is reserved for any.
#[cfg(all(hamr_bare, not(feature = "modules")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __module_memory {
    ($($field:ident = $value:expr),*) => {};
}

/// Without the feature `driven` nothing carries.
#[cfg(all(hamr_bare, not(feature = "driven")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __driver_memory {
    ($($field:ident = $value:expr),*) => {};
}

/// Room for what tasks claim.
#[cfg(all(hamr_bare, feature = "claims"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __claim_ranges {
    ($count:expr) => {
        static CLAIMS: [$crate::__private::hamr_comm::ClaimedRange; $count] =
            [const { $crate::__private::hamr_comm::ClaimedRange::free() }; $count];
        $crate::__private::hamr_comm::use_claimed_ranges(&CLAIMS);
    };
}

/// Without the feature `claims` there are none.
#[cfg(all(hamr_bare, not(feature = "claims")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __claim_ranges {
    ($count:expr) => {};
}

/// What the boot code calls.
#[cfg(hamr_bare)]
#[doc(hidden)]
#[macro_export]
macro_rules! __entry_point {
    ([] $($field:ident = $value:expr),*) => {
        $crate::__entry_point!([$crate::board::Default] $($field = $value),*);
    };
    ([$board:ty] $($field:ident = $value:expr),*) => {
        $crate::__task_stacks!($($field = $value),*);
        $crate::__module_memory!($($field = $value),*);
        $crate::__driver_memory!($($field = $value),*);
        /// Called by the runtime's boot code.
        #[unsafe(no_mangle)]
        fn __hamr_main() -> ! {
            const CONFIG: $crate::Config = $crate::__config!($($field = $value),*);
            $crate::__claim_ranges!(CONFIG.claims);
            static SCRATCH: $crate::bare::Scratch<{ CONFIG.scratch() }> = $crate::bare::Scratch::new([0; _]);
            $crate::bare::main::<$board, { CONFIG.task_count() }>((CONFIG.at_start)(CONFIG), &SCRATCH)
        }
        /// A host looks for it in the image's file.
        #[allow(non_upper_case_globals, reason = "abi §10")]
        #[unsafe(no_mangle)]
        #[unsafe(link_section = ".hamr.window")]
        static hamr_window: $crate::bare::WindowMemory<{ $crate::__config!($($field = $value),*).window() }> =
            $crate::bare::WindowMemory::new();
        /// Called by boards without a card.
        #[unsafe(no_mangle)]
        fn __hamr_reserved_window() -> (::core::ptr::NonNull<u8>, usize) {
            hamr_window.place()
        }
        /// Called by the runtime's fault paths.
        #[unsafe(no_mangle)]
        fn __hamr_console(text: &str) {
            <$board as $crate::bare::BareBoard>::console(text)
        }
        /// Called where the image ends.
        #[unsafe(no_mangle)]
        fn __hamr_exit(code: u8) -> ! {
            <$board as $crate::bare::BareBoard>::exit(code)
        }
    };
}
