//! How a guest says how it went: a program that ends the machine with a code, through QEMU's `isa-debug-exit`.

/// Where the machine has that device.
pub(super) const DEVICE: &str = "isa-debug-exit,iobase=0xf4,iosize=1";

/// The program's argument when all went well; QEMU's status is `2 * code + 1`. Not 0: status 1 is QEMU's own for what it
/// cannot start.
pub(super) const WELL: u8 = 5;
/// When something failed.
pub(super) const FAILED: u8 = 6;

/// What the guest said, from QEMU's status.
pub(super) fn code(status: i32) -> Option<u8> {
    (status > 1 && status % 2 == 1).then_some((status / 2) as u8)
}

/// `exit DIGIT`: the kernel has no file for ports, busybox no command, and Rust would need `unsafe` for it. So it is 55 bytes of
/// machine code in the smallest ELF file that Linux runs.
pub(super) fn program() -> Vec<u8> {
    const BASE: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    let code: &[&[u8]] = &[
        &[0x48, 0x8b, 0x74, 0x24, 0x10], // mov rsi, [rsp + 16]: the first argument
        &[0x0f, 0xb6, 0x1e],             // movzx ebx, byte [rsi]
        &[0x83, 0xeb, b'0'],             // sub ebx, '0'
        &[0xb8, 173, 0, 0, 0],           // mov eax, ioperm
        &[0xbf, 0xf4, 0, 0, 0],          // mov edi, 0xf4
        &[0xbe, 1, 0, 0, 0],             // mov esi, 1: one port
        &[0xba, 1, 0, 0, 0],             // mov edx, 1: allowed
        &[0x0f, 0x05],                   // syscall
        &[0x89, 0xd8],                   // mov eax, ebx
        &[0xe6, 0xf4],                   // out 0xf4, al: the machine ends here
        &[0xb8, 60, 0, 0, 0],            // mov eax, exit
        &[0xbf, 1, 0, 0, 0],             // mov edi, 1
        &[0x0f, 0x05],                   // syscall
    ];
    let code = code.concat();
    let len = HEADERS + code.len() as u64;
    let mut file = Vec::new();
    let halves = |file: &mut Vec<u8>, values: &[u16]| values.iter().for_each(|v| file.extend(v.to_le_bytes()));
    let words = |file: &mut Vec<u8>, values: &[u32]| values.iter().for_each(|v| file.extend(v.to_le_bytes()));
    let longs = |file: &mut Vec<u8>, values: &[u64]| values.iter().for_each(|v| file.extend(v.to_le_bytes()));
    // 64 bit, little-endian, version 1.
    file.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    // Executable, x86-64; entry, program headers, no sections.
    halves(&mut file, &[2, 62]);
    words(&mut file, &[1]);
    longs(&mut file, &[BASE + HEADERS, 64, 0]);
    words(&mut file, &[0]);
    halves(&mut file, &[64, 56, 1, 0, 0, 0]);
    // Load all of it, to read and run.
    words(&mut file, &[1, 5]);
    longs(&mut file, &[0, BASE, BASE, len, len, 0x1000]);
    file.extend(code);
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{Object, ObjectSegment};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_program_is_one_that_linux_runs() {
        let bytes = program();
        let file = object::File::parse(&*bytes).expect("ELF");
        let segment = file.segments().next().expect("one");
        assert!(segment.address() < file.entry() && file.entry() < segment.address() + segment.size());
        if !cfg!(target_arch = "x86_64") {
            return;
        }
        let path = std::env::temp_dir().join(format!("hamr-exit-{}", std::process::id()));
        std::fs::write(&path, &bytes).expect("a temporary file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
        // As a program without an argument: it dies of the null pointer, before it touches a port.
        let status = std::process::Command::new(&path).status();
        let _ = std::fs::remove_file(&path);
        assert!(status.as_ref().is_ok_and(|status| status.code().is_none()), "{status:?}");
    }

    #[test]
    fn codes_are_told_from_statuses_of_qemu() {
        assert_eq!((code(2 * i32::from(WELL) + 1), code(2 * i32::from(FAILED) + 1)), (Some(WELL), Some(FAILED)));
        assert_eq!((code(0), code(1), code(2)), (None, None, None));
    }
}
