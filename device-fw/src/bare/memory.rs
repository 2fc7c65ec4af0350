//! What the linker script knows of the image (`linker/scripts/body.x`).

#![expect(unsafe_code)]
// UNSAFETY: linker symbols have no other way in; an abandoned stack is read as words.

use super::stacks;

unsafe extern "C" {
    static __hamr_ram_start: [u8; 0];
    static __hamr_ram_end: [u8; 0];
    static __hamr_image_start: [u8; 0];
    #[cfg(feature = "modules")]
    static __hamr_image_end: [u8; 0];
    static __hamr_code_end: [u8; 0];
    static __hamr_boot_stack: [u8; 0];
    static __hamr_boot_stack_top: [u8; 0];
    static __hamr_serve_guard: [u8; 0];
    static __hamr_serve_stack: [u8; 0];
    static __hamr_build_id_start: [u8; 0];
    static __hamr_serve_stack_top: [u8; 0];
}

/// ELF note header and the owner "GNU".
const NOTE_HEADER: usize = 16;

/// Bytes of the board's RAM, from its `memory.x`.
pub fn ram() -> u64 {
    let (start, end) = (&raw const __hamr_ram_start, &raw const __hamr_ram_end);
    (end.addr() - start.addr()) as u64
}

/// The addresses of the board's RAM.
#[cfg(feature = "modules")]
pub(super) fn ram_addresses() -> core::ops::Range<usize> {
    (&raw const __hamr_ram_start).addr()..(&raw const __hamr_ram_end).addr()
}

/// Where the image ends, stacks included.
#[cfg(feature = "modules")]
pub(super) fn image_end() -> usize {
    (&raw const __hamr_image_end).addr()
}

/// The build id that the linker put into the image.
pub(super) fn build_id() -> [u8; 20] {
    let note = (&raw const __hamr_build_id_start).cast::<u8>();
    // SAFETY: the script asserts that the note has 36 bytes, of which 20 follow header and owner.
    let id = unsafe { note.add(NOTE_HEADER) };
    // SAFETY: as above; read-only static bytes.
    unsafe { id.cast::<[u8; 20]>().read() }
}

/// End of the serve stack.
pub(super) fn serve_stack_top() -> *mut u8 {
    (&raw const __hamr_serve_stack_top).cast_mut().cast()
}

/// May `address` be code?
pub(super) fn is_code(address: u64) -> bool {
    let (start, end) = (&raw const __hamr_image_start, &raw const __hamr_code_end);
    (start.addr() as u64..end.addr() as u64).contains(&address)
}

/// Is `address` in the guard below the serve stack?
pub(super) fn is_guard(address: u64) -> bool {
    let (start, end) = (&raw const __hamr_serve_guard, &raw const __hamr_serve_stack);
    (start.addr() as u64..end.addr() as u64).contains(&address)
}

/// The aligned word at `address`, when that is in the stack of the serve loop, of boot code or of a
/// task.
pub(super) fn stack_word(address: u64) -> Option<u64> {
    let serve = (&raw const __hamr_serve_stack).addr() as u64..serve_stack_top().addr() as u64;
    let boot = (&raw const __hamr_boot_stack).addr() as u64..(&raw const __hamr_boot_stack_top).addr() as u64;
    // All end at multiples of a word.
    let is_known = serve.contains(&address) || boot.contains(&address) || stacks::contains(address);
    if !is_known || !address.is_multiple_of(size_of::<usize>() as u64) {
        return None;
    }
    // SAFETY: an aligned word of a stack, which is always mapped. Only fault paths ask: of the
    // stack of the serve loop or a task when nothing runs on it any more, of the boot stack, on
    // which they themselves may run, for words that no variable of theirs is in.
    Some(unsafe { core::ptr::with_exposed_provenance::<usize>(address as usize).read_volatile() } as u64)
}
