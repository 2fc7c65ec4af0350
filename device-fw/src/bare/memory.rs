//! What the linker script knows of the image (`linker/scripts/body.x`).

#![expect(unsafe_code)]
// UNSAFETY: linker symbols have no other way in.

unsafe extern "C" {
    static __hamr_ram_start: [u8; 0];
    static __hamr_ram_end: [u8; 0];
    static __hamr_build_id_start: [u8; 0];
    static __hamr_serve_stack_top: [u8; 0];
}

/// ELF note header and the owner "GNU".
const NOTE_HEADER: usize = 16;

/// Bytes of the board's RAM, as its `memory.x` says.
pub fn ram() -> u64 {
    let (start, end) = (&raw const __hamr_ram_start, &raw const __hamr_ram_end);
    (end.addr() - start.addr()) as u64
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
