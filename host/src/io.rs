//! Files that a user names, and the standard streams, for the library, the command line and programs.
//!
//! A path is bytes. A file to read is a regular file: a pipe would wait for a writer, a device has no end. A stream that is closed
//! or full is an error of the program that prints, or a line that is lost, and no panic.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use std::fmt;
use std::fs::{File, FileType, OpenOptions};
use std::io::{Error, ErrorKind, Result, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Opens a regular file for reading. Never waits.
///
/// # Errors
/// The system's; anything else than a regular file, by what it is.
pub fn open(path: &Path) -> Result<File> {
    // Before it is opened, which may act on a device. And after it: the path may name another file by then.
    regular(std::fs::metadata(path)?.file_type())?;
    let file = without_wait(OpenOptions::new().read(true)).open(path)?;
    regular(file.metadata()?.file_type())?;
    Ok(file)
}

/// Reads a whole regular file.
///
/// # Errors
/// As [`open`]; a file that does not fit into memory.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut open(path)?, &mut bytes)?;
    Ok(bytes)
}

/// Writes a file, in place of what was there. A pipe needs a reader.
///
/// # Errors
/// The system's; a pipe without a reader, at once.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let options = &mut OpenOptions::new();
    let file = without_wait(options.write(true).create(true).truncate(true)).open(path);
    let mut file = file.map_err(|e| match rustix::io::Errno::from_io_error(&e) {
        Some(rustix::io::Errno::NXIO) => wrong("a pipe or device that nothing reads"),
        _ => e,
    })?;
    rustix::io::ioctl_fionbio(&file, false)?;
    file.write_all(bytes)
}

/// True if both paths name one file, or would when they are written: by what is there, else by folder and name.
pub fn is_same(a: &Path, b: &Path) -> bool {
    match (std::fs::metadata(a), std::fs::metadata(b)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()) && a.is_file(),
        (Err(_), Err(_)) => resolved(a) == resolved(b),
        _ => false,
    }
}

/// The path of a file that may not be there, in a folder that is.
fn resolved(path: &Path) -> Option<PathBuf> {
    let mut path = std::path::absolute(path).ok()?;
    // A link to nothing is followed when it is written. The system follows no more.
    for _ in 0..40 {
        let Ok(to) = std::fs::read_link(&path) else { break };
        path = path.parent()?.join(to);
    }
    Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?))
}

fn without_wait(options: &mut OpenOptions) -> &mut OpenOptions {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    options.custom_flags(flags.bits().cast_signed())
}

fn regular(kind: FileType) -> Result<()> {
    irregular(kind).map_or(Ok(()), |got| Err(wrong(got)))
}

/// What there is in place of a regular file.
pub(crate) fn irregular(kind: FileType) -> Option<&'static str> {
    match kind {
        kind if kind.is_file() => None,
        kind if kind.is_dir() => Some("a directory"),
        kind if kind.is_fifo() => Some("a pipe"),
        kind if kind.is_socket() => Some("a socket"),
        _ => Some("a device"),
    }
}

fn wrong(got: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("expected a file, got {got}"))
}

/// Writes text to standard output.
///
/// # Errors
/// A standard output that is full, or that nothing reads any more ([`ErrorKind::BrokenPipe`]).
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes a line to standard error. Where that takes none, the line is lost.
pub fn note(line: fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// [`print()`] where standard output has room for the text at once; else the text is lost. For a program that
/// has more to do than to print.
///
/// # Errors
/// As [`print()`].
pub fn print_or_lose(text: &str) -> Result<()> {
    if has_room(std::io::stdout(), text) { print(text) } else { Ok(()) }
}

/// [`note()`] likewise.
#[cfg(all(feature = "cli", feature = "net"))]
pub(crate) fn note_or_lose(line: fmt::Arguments<'_>) {
    if has_room(std::io::stderr(), &format!("{line}\n")) {
        note(line);
    }
}

fn has_room(out: impl AsFd, text: &str) -> bool {
    // A pipe that has room has it for so many bytes.
    let fits = text.len() <= rustix::pipe::PIPE_BUF;
    fits && state(out, PollFlags::OUT).is_some_and(|state| !state.is_empty())
}

/// What that is ready for, of these and of its errors. `None` where the system does not say.
fn state(out: impl AsFd, wanted: PollFlags) -> Option<PollFlags> {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::new(&out, wanted)];
    poll(&mut fds, Some(&now)).ok().map(|_| fds[0].revents())
}

/// False if standard output is a pipe, socket or terminal whose other end is closed, so that what is printed reaches nothing.
pub fn has_reader() -> bool {
    state(std::io::stdout(), PollFlags::empty()).is_none_or(|state| !state.intersects(PollFlags::ERR | PollFlags::HUP))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    /// Whatever a path names, the answer comes at once and says what it is.
    #[test]
    fn only_regular_files_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, pipe, socket] =
            [b"caf\xe9", b"pipe", b"sock"].map(|name| folder.path().join(OsStr::from_bytes(name)));
        write(&file, b"bytes").expect("written");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a pipe");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        assert_eq!(read(&file).expect("read"), b"bytes");
        for (path, got) in [
            (&*pipe, "expected a file, got a pipe"),
            (&socket, "expected a file, got a socket"),
            (folder.path(), "expected a file, got a directory"),
            (Path::new("/dev/zero"), "expected a file, got a device"),
            (Path::new("/dev/null"), "expected a file, got a device"),
            (&folder.path().join("none"), "No such file"),
            (Path::new(""), "No such file"),
        ] {
            let why = open(path).expect_err("refused").to_string();
            assert!(why.starts_with(got), "{}: {why}", path.display());
        }
        let why = write(&pipe, b"").expect_err("nothing reads it").to_string();
        assert_eq!(why, "expected a file, got a pipe or device that nothing reads");
        write(Path::new("/dev/null"), b"x").expect("a device may be written to");
    }

    #[test]
    fn a_file_is_one_under_all_its_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("in")).expect("a folder");
        write(&at("a"), b"").expect("written");
        std::fs::hard_link(at("a"), at("hard")).expect("a link");
        std::os::unix::fs::symlink(at("a"), at("soft")).expect("a link");
        std::os::unix::fs::symlink("../new", at("in/link")).expect("a link");
        std::os::unix::fs::symlink(at("circle"), at("circle")).expect("a link");
        for (one, other, same) in [
            ("a", "in/../a", true),
            ("a", "hard", true),
            ("a", "soft", true),
            ("new", "in/../new", true),
            ("new", "other", false),
            ("new", "in/link", true),
            ("other", "in/link", false),
            ("new", "circle", false),
            ("a", "new", false),
            ("in/new", "new", false),
        ] {
            assert_eq!(is_same(&at(one), &at(other)), same, "{one}, {other}");
        }
        assert!(!is_same(Path::new("/dev/null"), Path::new("/dev/null")), "a device takes what comes");
    }
}
