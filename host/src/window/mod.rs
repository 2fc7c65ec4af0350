//! Windows that another process owns: opens one read-only, and reads the state at its front.
//!
//! `inspect` makes a report for a person of them, `logs` follows the log of such a window. Neither
//! asks the other.

mod state;

pub(crate) use state::{DeviceWords, HostWords, WindowState};
#[cfg(feature = "device-logs")]
pub(crate) use state::{epoch_of, laid_out_epoch};

use crate::io::irregular;
use crate::mapping::{map_two, map_window};
use crate::memfd::HOST_PREFIX;
use hamr_comm::abi::ids::RankId;
use hamr_comm::abi::preamble::{MAGIC, PREAMBLE_BYTES, Preamble};
use hamr_comm::abi::window::{Shared, Window};
use hamr_comm::abi::world::{WorldFault, WorldLayout};
use rustix::fs::{MemfdFlags, SealFlags};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Of a file that its owner may truncate, so much is copied before it is read. The heap comes last
/// in a window, and all that a dump shows is before it.
const COPY_LIMIT: u64 = 256 << 20;

/// `SYSFS_MAGIC`: Linux's files about devices.
const SYSFS: rustix::fs::FsWord = 0x6265_6572;

/// Why a window cannot be read.
#[derive(thiserror::Error)]
pub enum InspectError {
    /// The path cannot be opened as a window.
    #[error("{}: expected a window (/proc/PID/fd/N of a live one, a copied file, or --device pci:ADDRESS), got {got}", path.display())]
    NotAWindow {
        /// What was asked for.
        path: PathBuf,
        /// What is there.
        got: String,
    },
    /// The operating system reported an error.
    #[error("{}: {what}: {source}", path.display())]
    Os {
        /// What was asked for.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The window cannot be mapped.
    #[error(transparent)]
    Map(#[from] crate::Error),
}

crate::error::debug_as_display! {
    InspectError;
}

/// Maps a window read-only: the live memory when its owner cannot truncate it, otherwise a copy. A
/// rank's window is named by its world's path and its number: `PATH#RANK`.
pub(crate) fn open(path: &Path) -> Result<Window<Shared>, InspectError> {
    let (file, rank) = split_rank(path);
    let memory = open_file(file)?;
    let not = |got: String| InspectError::NotAWindow { path: path.into(), got };
    match (WorldLayout::is_there(&memory), rank) {
        (false, None) => Ok(memory),
        (false, Some(_)) => Err(not("something that is no world, and has no ranks".into())),
        (true, rank) => {
            let malformed = |why: WorldFault| not(format!("a world in which {why}"));
            let layout = WorldLayout::read(&memory).map_err(malformed)?;
            let ranks = layout.ranks();
            let rank =
                rank.ok_or_else(|| not(format!("a world of {ranks} ranks; behind the path, #0 names the first")))?;
            let home = layout.home(&memory, rank).map_err(malformed)?;
            memory.part(home.off, home.len).map_err(|e| malformed(e.into()))
        }
    }
}

/// The path of a world and a rank, when a path names both.
pub(crate) fn split_rank(path: &Path) -> (&Path, Option<RankId>) {
    let bytes = path.as_os_str().as_bytes();
    let split = bytes.iter().rposition(|byte| *byte == b'#').map(|at| (&bytes[..at], &bytes[at + 1..]));
    match split.and_then(|(world, rank)| Some((world, std::str::from_utf8(rank).ok()?.parse().ok()?))) {
        Some((world, rank)) if !path.exists() => (Path::new(OsStr::from_bytes(world)), Some(RankId(rank))),
        _ => (path, None),
    }
}

fn open_file(path: &Path) -> Result<Window<Shared>, InspectError> {
    let os = |what| move |source: std::io::Error| InspectError::Os { path: path.into(), what, source };
    let not = |got: String| InspectError::NotAWindow { path: path.into(), got };
    let file = crate::io::open(path).map_err(|e| match path.metadata().map(|facts| irregular(facts.file_type())) {
        Ok(Some(got)) => not(got.into()),
        _ => os("looking for a window")(e),
    })?;
    let len = file.metadata().map_err(os("reading its size"))?.len();
    if len < PREAMBLE_BYTES {
        return Err(not(format!("{len} bytes, fewer than the {PREAMBLE_BYTES} that every window begins with")));
    }
    // The memory of a function on the bus has its length for as long as it is there, and cannot be
    // read like a file.
    if rustix::fs::fstatfs(&file).is_ok_and(|system| system.f_type == SYSFS) {
        return map_window(&file, len, false).map_err(|e| match e {
            crate::Error::Os { source, .. } if source.kind() == std::io::ErrorKind::InvalidInput => not(
                "memory that a program has through vfio: the system shows it to nobody else until that program ends"
                    .into(),
            ),
            other => other.into(),
        });
    }
    // A mapped file that another program truncates kills the reader with SIGBUS; only a seal rules
    // that out.
    let sealed = rustix::fs::fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
    let file = if sealed { file } else { copied(file, len).map_err(os("copying it"))? };
    let window = map_window(&file, len, false)?;
    match window.read::<Preamble>(0) {
        // What the host polls lies in a file of its own, or is not to be had, and then shown as zeros.
        Ok(preamble) if preamble.magic == MAGIC && preamble.split == len => {
            let host = host_memory(path, &file);
            let host_len = host.as_ref().and_then(|host| host.metadata().ok()).map_or(len, |facts| facts.len());
            Ok(map_two(&file, len, host, host_len, false)?)
        }
        _ => Ok(window),
    }
}

/// The sealed file beside a window among the descriptors of its process, `/proc/PID/fd/N`, in which its host polls.
fn host_memory(path: &Path, window: &File) -> Option<File> {
    let name = format!("/memfd:{HOST_PREFIX}{} (deleted)", window.metadata().ok()?.ino());
    let mut descriptors = std::fs::read_dir(path.parent()?).ok()?.flatten().map(|entry| entry.path());
    let host = descriptors.find(|path| std::fs::read_link(path).is_ok_and(|link| link.as_os_str() == &*name))?;
    let host = File::open(host).ok()?;
    rustix::fs::fcntl_get_seals(&host).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)).then_some(host)
}

/// A private copy of the front of a file, with the file's length. What is behind the copied part
/// reads as zeros.
pub(crate) fn copied(from: impl Read, len: u64) -> Result<File, std::io::Error> {
    crate::memfd::check_len(len)?;
    let mut copy = File::from(rustix::fs::memfd_create("hamr-inspect", MemfdFlags::CLOEXEC)?);
    std::io::copy(&mut from.take(len.min(COPY_LIMIT)), &mut copy)?;
    copy.set_len(len)?;
    Ok(copy)
}
