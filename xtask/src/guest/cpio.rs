//! An initramfs: files in cpio's "newc" form (Linux, `Documentation/driver-api/early-userspace/buffer-format.rst`).

/// What a guest finds in its memory when it starts.
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CHARACTERS: u32 = 0o020_666;

impl Archive {
    /// With the folders `names`, and the two devices that a kernel needs before anything is mounted.
    pub(super) fn new(names: &[&str]) -> Self {
        let mut this = Self { bytes: Vec::new(), entries: 0 };
        for name in names {
            this.entry(name, FOLDER, (0, 0), &[]);
        }
        this.entry("dev/console", CHARACTERS, (5, 1), &[]);
        this.entry("dev/null", CHARACTERS, (1, 3), &[]);
        this
    }

    /// A file that everybody may read and run.
    pub(super) fn file(&mut self, name: &str, content: &[u8]) {
        self.entry(name, PROGRAM, (0, 0), content);
    }

    /// The whole of it.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, (major, minor): (u32, u32), content: &[u8]) {
        self.entries += 1;
        let (len, name_len) = (content.len() as u32, name.len() as u32 + 1);
        // Inode, mode, user, group, links, time, size, device, device of the node, length of the name, checksum.
        let fields = [self.entries, mode, 0, 0, 1, 0, len, 0, 0, major, minor, name_len, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes().chain([0]));
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    /// Names and contents begin at multiples of four.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stand_where_the_kernel_looks() {
        let mut archive = Archive::new(&["dev"]);
        archive.file("init", b"12345");
        let bytes = archive.finish();
        let text = String::from_utf8_lossy(&bytes);
        let starts: Vec<usize> = text.match_indices("070701").map(|(at, _)| at).collect();
        assert_eq!(starts.len(), 5, "dev, two devices, init, trailer");
        assert!(starts.iter().all(|at| at % 4 == 0) && bytes.len().is_multiple_of(4));
        let init = &text[starts[3]..starts[4]];
        assert_eq!(&init[14..22], "000081ed", "a file, mode 755");
        assert_eq!(&init[54..62], "00000005", "its length");
        assert_eq!(&init[94..102], "00000005", "of its name, the zero included");
        // 110 bytes of header, the name to 116, the content to 124.
        assert_eq!((&init[110..114], &init[116..121], init.len()), ("init", "12345", 124));
        assert!(text[starts[4]..].contains("TRAILER!!!"));
    }
}
