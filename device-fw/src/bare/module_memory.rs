//! Where the memory of modules is: pages behind the stacks, as `image!` reserves them; without the
//! feature `modules` there are none, and nothing of this is linked.

#![cfg_attr(feature = "modules", expect(unsafe_code))]
// UNSAFETY: a symbol of `image!` (contract "bare modules").

/// Bytes of a page.
#[cfg(feature = "modules")]
pub(super) const PAGE: usize = 4096;
/// The tables of instruction sets that have some have room for pages of so many bytes.
#[cfg(feature = "modules")]
const MOST: usize = 2 << 20;

/// Pages, as `image!` describes them.
#[repr(C)]
pub(super) struct ModuleMemory {
    /// Where the first begins.
    pub(super) first: usize,
    /// Bytes of all.
    pub(super) bytes: usize,
}

#[cfg(feature = "modules")]
unsafe extern "C" {
    /// Made by [`__module_memory`](crate::__module_memory). Constants, and linked with the image's code,
    /// so that boot code reaches them before translation is on.
    #[link_name = "__hamr_modules_record"]
    pub(super) safe static MODULES: ModuleMemory;
}

#[cfg(not(feature = "modules"))]
pub(super) static MODULES: ModuleMemory = ModuleMemory { first: 0, bytes: 0 };

/// Is some of it in the `bytes` addresses from `start` on? The table of these is written again, so it
/// cannot be in a guard.
#[cfg(not(any(target_arch = "riscv64", target_arch = "arm")))]
pub(super) fn overlaps(start: usize, bytes: usize) -> bool {
    MODULES.bytes != 0 && start < MODULES.first + MODULES.bytes && MODULES.first < start.saturating_add(bytes)
}

/// Checks what `image!` reserves. A constant, so that its checks end the build.
#[cfg(feature = "modules")]
#[doc(hidden)]
pub const fn reserve_modules(bytes: usize) -> usize {
    assert!(bytes.is_multiple_of(PAGE) && bytes <= MOST, "hamr: `modules` is a multiple of 4096, at most 2 MiB");
    bytes
}

/// The memory of `Config::modules`, and what the runtime is told of it.
#[cfg(feature = "modules")]
#[doc(hidden)]
#[macro_export]
macro_rules! __module_memory {
    ($($field:ident = $value:expr),*) => {
        const HAMR_MODULES: usize = $crate::bare::reserve_modules($crate::__config!($($field = $value),*).modules);
        ::core::arch::global_asm!(
            ".section .hamr.modules, \"aw\", \"nobits\"",
            ".balign 4096",
            ".globl __hamr_modules",
            "__hamr_modules:",
            ".zero {bytes}",
            ".section .rodata.__hamr_modules, \"a\"",
            ".balign 8",
            ".globl __hamr_modules_record",
            "__hamr_modules_record:",
            ".ifeq {word} - 4",
            ".4byte __hamr_modules, {bytes}",
            ".else",
            ".8byte __hamr_modules, {bytes}",
            ".endif",
            ".text",
            bytes = const HAMR_MODULES,
            word = const ::core::mem::size_of::<usize>(),
        );
    };
}
