//! The files in a guest's memory when it starts, in cpio's "newc" form. Times and numbers are the
//! same in each run.

use cpio::newc::ModeFileType;
use cpio::{NewcBuilder, write_cpio};
use std::collections::BTreeSet;
use std::io::Cursor;

/// An initramfs under construction.
pub(super) struct Archive {
    entries: Vec<(NewcBuilder, Cursor<Vec<u8>>)>,
    folders: BTreeSet<String>,
}

impl Archive {
    /// An archive with the folders `names`, and the two devices that a kernel needs before anything
    /// is mounted.
    pub(super) fn new(names: &[&str]) -> Self {
        let mut this = Self { entries: Vec::new(), folders: BTreeSet::new() };
        for name in names {
            this.folder(name);
        }
        let device = |name, minor| entry(name, ModeFileType::Char, 0o666).rdev_minor(minor);
        this.add(device("dev/console", 1).rdev_major(5), Vec::new());
        this.add(device("dev/null", 3).rdev_major(1), Vec::new());
        this
    }

    /// A file that every user may read and run, with the folders on its path.
    pub(super) fn file(&mut self, name: &str, content: Vec<u8>) {
        for (end, _) in name.match_indices('/') {
            self.folder(&name[..end]);
        }
        self.add(entry(name, ModeFileType::Regular, 0o755), content);
    }

    fn folder(&mut self, name: &str) {
        if self.folders.insert(name.to_owned()) {
            self.add(entry(name, ModeFileType::Directory, 0o755), Vec::new());
        }
    }

    /// The archive's bytes.
    pub(super) fn finish(self) -> std::io::Result<Vec<u8>> {
        write_cpio(self.entries.into_iter(), Vec::new())
    }

    fn add(&mut self, entry: NewcBuilder, content: Vec<u8>) {
        self.entries.push((entry, Cursor::new(content)));
    }
}

fn entry(name: &str, kind: ModeFileType, permissions: u32) -> NewcBuilder {
    NewcBuilder::new(name).mode(permissions).set_mode_file_type(kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpio::NewcReader;

    #[test]
    fn entries_are_what_a_kernel_needs() {
        let mut archive = Archive::new(&["dev"]);
        archive.file("init", b"12345".to_vec());
        archive.file("lib/x/a", Vec::new());
        archive.file("lib/x/b", Vec::new());
        let bytes = archive.finish().expect("memory");
        let (mut rest, mut found) = (&*bytes, Vec::new());
        loop {
            let reader = NewcReader::new(rest).expect("an entry");
            let entry = reader.entry().clone();
            if entry.is_trailer() {
                break;
            }
            assert_eq!((entry.uid(), entry.nlink(), entry.mtime()), (0, 1, 0), "{}", entry.name());
            found.push((
                entry.name().to_owned(),
                entry.mode(),
                entry.rdev_major(),
                entry.rdev_minor(),
                entry.file_size(),
            ));
            rest = reader.finish().expect("its content");
        }
        let found: Vec<_> =
            found.iter().map(|(name, mode, major, minor, size)| (&**name, *mode, *major, *minor, *size)).collect();
        assert_eq!(
            found,
            [
                ("dev", 0o040_755, 0, 0, 0),
                ("dev/console", 0o020_666, 5, 1, 0),
                ("dev/null", 0o020_666, 1, 3, 0),
                ("init", 0o100_755, 0, 0, 5),
                ("lib", 0o040_755, 0, 0, 0),
                ("lib/x", 0o040_755, 0, 0, 0),
                ("lib/x/a", 0o100_755, 0, 0, 0),
                ("lib/x/b", 0o100_755, 0, 0, 0),
            ]
        );
    }
}
