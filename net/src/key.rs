//! One shared key, in a file that its user alone may read, and what each end makes of it.
//!
//! Whoever has the key may be host and server. Host and server have an identity each (RFC 7250), derived from the key by
//! HKDF-SHA256, so that a server can be no host's, and no host another server's, whatever the network does.

#[cfg(test)]
mod tests;

use crate::tls::Identities;
use ring::rand::{SecureRandom as _, SystemRandom};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::process::geteuid;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Bytes of a key.
const BYTES: usize = 32;
/// Digits and the end of the line.
const FILE: usize = 2 * BYTES + 1;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file is not read or written.
    #[error("{}: expected a key file, {why}", .path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// As the system says.
        why: io::Error,
    },
    /// There is such a file.
    #[error("{}: expected no file of this name; a new key would lock out who has the old one", .0.display())]
    Exists(PathBuf),
    /// Others may read it, or it is another user's.
    #[error("{}: expected a file that only its user may read, {why}", .path.display())]
    Open {
        /// Its path.
        path: PathBuf,
        /// Who may.
        why: String,
    },
    /// It has something else.
    #[error("{}: expected a key, {} hexadecimal digits in one line, got other bytes; `hamr keys FILE` makes one", .0.display(), 2 * BYTES)]
    Content(PathBuf),
    /// Only this machine's programs find a key without a file.
    #[error(
        "expected a key for {0}, which is not a loopback address; make one with `hamr keys FILE` and give it to both sides (--key FILE)"
    )]
    Needed(SocketAddr),
    /// There is nowhere to leave a key.
    #[error("expected a folder of this user for the key of {at}: {why}; or give both sides a file (--key FILE)")]
    Folder {
        /// The server's address.
        at: SocketAddr,
        /// What is wrong with the folder.
        why: String,
    },
    /// The server has left none.
    #[error("expected a server of this user at {at}, which would have left its key in {}; or give both sides a file (--key FILE)", .path.display())]
    Absent {
        /// The server's address.
        at: SocketAddr,
        /// Where the key would be.
        path: PathBuf,
    },
    /// The system has no random bytes.
    #[error("expected random bytes from the system, got none")]
    Random,
}

/// What an end needs of the key, which itself is forgotten.
#[derive(Clone)]
pub struct Key(pub(crate) Arc<Identities>);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// That of a file.
    ///
    /// # Errors
    /// No file, one that others may read, or one without a key.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let fail = |why: io::Error| KeyError::File { path: path.into(), why };
        // A pipe in its place does not hang.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = open(path, flags, Mode::empty()).map_err(|e| fail(e.into()))?;
        // The file that is read, whatever its name means by now.
        let stat = fstat(&file).map_err(|e| fail(e.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(fail(io::Error::other("got something that is no regular file")));
        }
        let open = |why: String| KeyError::Open { path: path.into(), why };
        if stat.st_uid != geteuid().as_raw() {
            return Err(open(format!("it is a file of user {}", stat.st_uid)));
        }
        if stat.st_mode & 0o077 != 0 {
            return Err(open(format!("its mode is {:03o}: `chmod 600 FILE`", stat.st_mode & 0o777)));
        }
        // One byte more than a key has, so that a longer file is seen.
        let mut text = Zeroizing::new(Vec::with_capacity(FILE + 1));
        File::from(file).take(FILE as u64 + 1).read_to_end(&mut text).map_err(fail)?;
        let bytes = digits(&text).ok_or_else(|| KeyError::Content(path.into()))?;
        Self::of(&bytes)
    }

    fn of(bytes: &[u8; BYTES]) -> Result<Self, KeyError> {
        Identities::derive(bytes).map(|all| Self(Arc::new(all))).ok_or(KeyError::Random)
    }

    /// A key that nothing else has.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn random() -> Result<Self, KeyError> {
        Self::of(&*fresh()?)
    }

    /// For a host that connects to `at`: that of `file`, or that which the server has left.
    ///
    /// # Errors
    /// As [`Self::read`]; and there is none.
    pub fn of_host(at: SocketAddr, file: Option<&Path>) -> Result<Self, KeyError> {
        let Some(file) = file else {
            let path = left(at, &runtime())?;
            return match Self::read(&path) {
                Err(KeyError::File { why, .. }) if why.kind() == io::ErrorKind::NotFound => {
                    Err(KeyError::Absent { at, path })
                }
                key => key,
            };
        };
        Self::read(file)
    }

    /// For a server that listens at `at`: that of `file`, or one that it leaves for this user's hosts.
    ///
    /// # Errors
    /// As [`Self::read`]; and there is nowhere to leave one.
    pub fn of_server(at: SocketAddr, file: Option<&Path>) -> Result<(Self, Option<LeftKey>), KeyError> {
        match file {
            Some(file) => Ok((Self::read(file)?, None)),
            None => LeftKey::leave(at, &runtime()).map(|(key, left)| (key, Some(left))),
        }
    }
}

/// A key that a server has left for hosts of its user. Dropping it takes it away.
#[derive(Debug)]
pub struct LeftKey {
    path: PathBuf,
    file: File,
}

impl LeftKey {
    fn leave(at: SocketAddr, runtime: &Path) -> Result<(Key, Self), KeyError> {
        let path = left(at, runtime)?;
        let bytes = fresh()?;
        // In one step: a host finds the last server's key or this one's, never half of it.
        let beside = path.with_extension(format!("{}.new", std::process::id()));
        let _ = std::fs::remove_file(&beside);
        let file = write(&beside, &bytes)?;
        std::fs::rename(&beside, &path).map_err(|why| KeyError::File { path: path.clone(), why })?;
        Ok((Key::of(&bytes)?, Self { path, file }))
    }

    /// What its drop does, where there is none.
    pub fn take_away(&self) {
        // A later server's stays. An error means that it is gone.
        let id = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
        let (mine, there) = (self.file.metadata().ok().map(id), std::fs::symlink_metadata(&self.path).ok().map(id));
        if mine.is_some() && mine == there {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LeftKey {
    fn drop(&mut self) {
        self.take_away();
    }
}

/// Makes a key file.
///
/// # Errors
/// There is one, or it cannot be written.
pub fn make(path: &Path) -> Result<(), KeyError> {
    write(path, &*fresh()?).map(drop)
}

fn fresh() -> Result<Zeroizing<[u8; BYTES]>, KeyError> {
    random_bytes().map(Zeroizing::new)
}

pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], KeyError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| KeyError::Random)?;
    Ok(bytes)
}

fn write(path: &Path, bytes: &[u8; BYTES]) -> Result<File, KeyError> {
    let mut text = Zeroizing::new(String::with_capacity(FILE));
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
        }
    }
    text.push('\n');
    let fail = |why: io::Error| match why.kind() {
        io::ErrorKind::AlreadyExists => KeyError::Exists(path.into()),
        _ => KeyError::File { path: path.into(), why },
    };
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path).map_err(fail)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|why| {
        // No half of a key stays. An error means that nothing does.
        let _ = std::fs::remove_file(path);
        fail(why)
    })?;
    Ok(file)
}

fn digits(text: &[u8]) -> Option<Zeroizing<[u8; BYTES]>> {
    let line = text.strip_suffix(b"\n").unwrap_or(text);
    let mut bytes = Zeroizing::new([0; BYTES]);
    if line.len() != 2 * BYTES {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(line.chunks_exact(2)) {
        let digit = |i: usize| char::from(*pair.get(i)?).to_digit(16);
        *byte = (digit(0)? << 4 | digit(1)?) as u8;
    }
    Some(bytes)
}

/// The folder that a login gives each user.
fn runtime() -> PathBuf {
    let named = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    named.map_or_else(|| format!("/run/user/{}", geteuid().as_raw()).into(), PathBuf::from)
}

/// Where a server at `at` leaves its key.
fn left(at: SocketAddr, runtime: &Path) -> Result<PathBuf, KeyError> {
    if !at.ip().is_loopback() {
        return Err(KeyError::Needed(at));
    }
    let fail = |why: String| KeyError::Folder { at, why };
    let folder = runtime.join("hamr");
    match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            return Err(fail(format!("{}: {e} (XDG_RUNTIME_DIR)", folder.display())));
        }
        _ => {}
    }
    let meta = std::fs::symlink_metadata(&folder).map_err(|e| fail(format!("{}: {e}", folder.display())))?;
    if !meta.is_dir() || meta.uid() != geteuid().as_raw() || meta.mode() & 0o022 != 0 {
        return Err(fail(format!("{} is not this user's alone", folder.display())));
    }
    Ok(folder.join(format!("{at}.key")))
}
