//! What fuzzing (`fuzz/`) and the tests beside it do with any bytes that come from elsewhere. Not for programs.

use crate::ImageFile;
use crate::logs::StringTable;
use crate::window::copied;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

pub use crate::cli::any_call as call;
pub use crate::inspect::cases::any_window as window;
pub use crate::logs::cases::any_ring as log_ring;

/// A file as an image: its ELF structures, note, handlers, and texts of its log.
///
/// # Panics
/// There is no memory for the file.
pub fn image(bytes: &[u8]) {
    let file = copied(bytes, bytes.len() as u64).expect("memory");
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    if let Ok(image) = ImageFile::open(&path) {
        let _ = StringTable::of(&image);
    }
    let _ = crate::cli::any_records(&path);
}
