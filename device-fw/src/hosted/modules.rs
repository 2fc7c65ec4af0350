//! Loads modules: shared libraries, which come as bytes and are files without a name here
//! (contract "hosted modules").

#![expect(unsafe_code)]
// UNSAFETY: a library's code and symbols have no other way in than the C library's loader.
//
// Contract "hosted modules". A library's code and constructors are the host's choice, as the image is.
// Table, header and functions are used between `load` and `unload` of their slot only: dispatch looks
// them up at each call, and the serve loop forgets them where no handler runs. The module catches its
// own panics. No path names two libraries of a process, and the header's address is in the library of
// its path.

use super::runtime::RUNTIME;
use crate::Config;
use core::ffi::{CStr, c_void};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use hamr_comm::module::{Loader, MOST, ModuleHeader, ModuleImage, Refusal, use_loader};
use rustix::fd::AsRawFd;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::ffi::CString;
use std::fs;
use std::io::Write;
use std::string::{String, ToString};
use std::sync::{Mutex, OnceLock};

/// The module's symbol.
const HEADER: &CStr = c"HAMR_MODULE";

/// The libraries, by their slots.
struct Libraries {
    most_bytes: OnceLock<u64>,
    open: [Mutex<Option<Library>>; MOST],
}

static LIBRARIES: Libraries = Libraries { most_bytes: OnceLock::new(), open: [const { Mutex::new(None) }; MOST] };

/// Has the image take modules.
pub(super) fn take(config: Config) {
    // Set here only, and once.
    let _ = LIBRARIES.most_bytes.set(config.modules as u64);
    use_loader(&LIBRARIES);
}

impl Loader for Libraries {
    fn reserve(&self, _: usize, bytes: u64, _: u64) -> Result<u64, Refusal> {
        let free = self.most_bytes.get().copied().unwrap_or_default();
        if RUNTIME.rank.get().is_some() {
            // Memory that programs of a rank claim is known to the image's copy of `hamr-comm` alone.
            return Err(Refusal::NotHere);
        }
        if bytes > free { Err(Refusal::NoRoom { wanted: bytes, free }) } else { Ok(0) }
    }

    fn load(&self, slot: usize, image: &[u8], _: u64) -> Result<&'static ModuleHeader, Refusal> {
        let library = Library::open(image)?;
        let header = library.header()?;
        header.check()?;
        (header.enter)(ModuleImage::this(|_| std::process::abort()));
        if let Some(place) = self.open.get(slot)
            && let Ok(mut open) = place.lock()
        {
            *open = Some(library);
        }
        Ok(header)
    }

    fn unload(&self, slot: usize) {
        if let Some(place) = self.open.get(slot)
            && let Ok(mut open) = place.lock()
        {
            *open = None;
        }
    }
}

/// A library in this process, until it is dropped. The loader keeps one that left destructors with a thread,
/// or that its linker marked so: its memory is not free then.
struct Library {
    handle: NonNull<c_void>,
    /// The path that it was opened by.
    path: CString,
}

// SAFETY: the loader's handles belong to no thread.
unsafe impl Send for Library {}

impl Library {
    fn open(image: &[u8]) -> Result<Self, Refusal> {
        if !image.starts_with(b"\x7fELF") {
            return Err(Refusal::NoModule);
        }
        let file = memfd_create("hamr:module", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map_err(system)?;
        let mut file = fs::File::from(file);
        file.write_all(image).map_err(system)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL)
            .map_err(system)?;
        let path = path_of(&file);
        // SAFETY: a path that ends in zero. The library's constructors run: loading code that a host
        // chose is what a module is.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        // What is mapped keeps the file, so its number is not another one's while the library is there.
        NonNull::new(handle).map(|handle| Self { handle, path }).ok_or_else(last_error)
    }

    /// The module's header, which is valid until the library is closed: no caller uses it after
    /// `Loader::unload` of its slot.
    fn header(&self) -> Result<&'static ModuleHeader, Refusal> {
        // SAFETY: an open library and a name that ends in zero.
        let symbol = unsafe { libc::dlsym(self.handle.as_ptr(), HEADER.as_ptr()) };
        let header = NonNull::new(symbol.cast::<ModuleHeader>()).ok_or(Refusal::NoModule)?;
        if !header.is_aligned() {
            return Err(Refusal::NoModule);
        }
        if !self.is_where(symbol) {
            return Err(refused("the system's loader took the module for another one, which it keeps"));
        }
        // SAFETY: aligned, and in the library. Its first fields have C's layout, so that what is no
        // header of this build is refused by them before a function of it is called; `module!` defines
        // the symbol as a whole header.
        Ok(unsafe { header.as_ref() })
    }
}

impl Library {
    /// Is an address in the library that this path names? The loader has one name for each library, by which it
    /// was loaded first.
    fn is_where(&self, address: *const c_void) -> bool {
        let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: the loader looks the address up and reads nothing there; the structure is exclusive.
        let is_known = unsafe { libc::dladdr(address, info.as_mut_ptr()) } != 0;
        // SAFETY: of zeros it is valid, too.
        let info = unsafe { info.assume_init() };
        // SAFETY: the name is the loader's and ends in zero; the library is open.
        is_known && !info.dli_fname.is_null() && unsafe { CStr::from_ptr(info.dli_fname) } == &*self.path
    }
}

/// A path of a file that no other library of this process was opened by: the loader takes a path for the library
/// that it knows by it, also one that was closed and stays. The system reads `//` and `/./` as `/`, which writes
/// the number of the path in it.
fn path_of(file: &fs::File) -> CString {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    let number = OPENED.fetch_add(1, Ordering::Relaxed);
    let mut path = String::from("/proc/self");
    (0..u64::BITS - number.leading_zeros())
        .for_each(|bit| path.push_str(if number >> bit & 1 == 0 { "/" } else { "/." }));
    path.push_str("/fd/");
    path.push_str(&file.as_raw_fd().to_string());
    CString::new(path).unwrap_or_default()
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: opened by `open` and closed once. No code of it runs: the serve loop, which alone runs
        // handlers, is in this function.
        unsafe { libc::dlclose(self.handle.as_ptr()) };
    }
}

fn system(why: impl ToString) -> Refusal {
    refused(&why.to_string())
}

/// What the loader says of its last failure.
fn last_error() -> Refusal {
    // SAFETY: the text belongs to this thread until its next call of the loader.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return refused("the system's loader refused the module");
    }
    // SAFETY: as above; it ends in zero, and is copied here.
    refused(&unsafe { CStr::from_ptr(text) }.to_string_lossy())
}

fn refused(why: &str) -> Refusal {
    let mut text = heapless::String::new();
    why.chars().for_each(|c| {
        // Cut where it is too long.
        let _ = text.push(c);
    });
    Refusal::System { text }
}
