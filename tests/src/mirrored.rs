//! Devices that share no memory with their host: a thread of this program has a window that no node sees, or an image does,
//! and a mirror carries. The heap is copied.

use crate::threaded::Card;
use hamr::link::{Heap, Link, WindowFile};
use hamr::mirror::{DrivenWindow, MirrorLink};
use hamr::{Error, LaunchRequest, Launcher, Node, ShmLauncher, Target};
use hamr_comm::BufferPtr;
use hamr_comm::abi::layout::Layout;
use hamr_comm::abi::preamble::{HostState, Preamble, word};
use hamr_comm::abi::window::{Shared, Window, Words};
use hamr_comm::mirror::{DrivenMemory, Lost, Promises};
use std::mem::offset_of;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What is at the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Far {
    /// A thread of this program, which polls.
    Thread,
    /// The same, which sleeps.
    Sleeper,
    /// An image, as `shm` starts it.
    Process,
}

/// What is found once, and is not there again.
pub fn once<D: Send>(far: D) -> impl Fn(Duration) -> Result<D, String> + Send + Sync {
    let far = Mutex::new(Some(far));
    move |_| far.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(|| "it is gone for good".into())
}

/// Starts such devices, behind a mirror in this program.
pub struct MirroredLauncher(pub Far);

/// A device, and what it serves.
pub struct Device {
    /// Its link, whose host nobody else is.
    pub link: Arc<dyn Link>,
    /// All of its window.
    pub window: Window<Shared>,
}

/// Windows of devices of this program, for [`words`]. Never unmapped, as the test is a process of its own.
static WINDOWS: Mutex<Vec<(&'static Window<Shared>, &'static Heap)>> = Mutex::new(Vec::new());

fn all(of: &Window<Shared>) -> Window<Shared> {
    of.part(0, of.len()).expect("all of it")
}

impl Far {
    /// Starts one.
    ///
    /// # Errors
    /// As `shm`.
    pub fn start(self, request: &LaunchRequest<'_>) -> Result<Device, Error> {
        let link: Arc<dyn Link> = match self {
            Self::Process => ShmLauncher.launch(request)?.into(),
            _ => Arc::new(Card::of_len(request.window_len, self == Self::Sleeper).into_link()),
        };
        keep(&*link, request);
        let window = all(link.window());
        Ok(Device { link, window })
    }

    /// [`Launcher::target`].
    ///
    /// # Errors
    /// As `shm`.
    pub fn target(self, argument: &str) -> Result<Option<Target>, Error> {
        if self == Self::Process { ShmLauncher.target(argument) } else { Ok(None) }
    }
}

/// For [`words`] of a device of this program, whose host is elsewhere.
///
/// # Panics
/// It has no heap.
pub fn keep(link: &dyn Link, request: &LaunchRequest<'_>) {
    let heap = link.heap(request.heap_off, request.window_len - request.heap_off).expect("there is one");
    let kept = (&*Box::leak(Box::new(all(link.window()))), &*Box::leak(Box::new(heap)));
    WINDOWS.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
}

/// The same of a device that drives a window of this program, and has memory of its own, `at` this offset: the last that was started.
///
/// # Panics
/// There is none.
pub fn keep_own(request: &LaunchRequest<'_>, at: u64) {
    let files = std::fs::read_dir("/proc/self/fd").expect("there").filter_map(|entry| Some(entry.ok()?.path()));
    let owns = files.filter(|path| {
        std::fs::read_link(path).is_ok_and(|name| name.to_string_lossy().starts_with("/memfd:hamr-device:"))
    });
    let number = |path: &std::path::PathBuf| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    keep_file(&owns.max_by_key(number).expect("it has memory of its own"), request, at);
}

/// The same of a device of this name in another program of this machine.
///
/// # Panics
/// There is none.
pub fn keep_named(request: &LaunchRequest<'_>, name: &str) {
    let files = |of: std::fs::DirEntry| std::fs::read_dir(of.path().join("fd")).into_iter().flatten().flatten();
    let is_it = |file: &std::fs::DirEntry| {
        let to = std::fs::read_link(file.path()).unwrap_or_default();
        to.to_string_lossy().starts_with(&format!("/memfd:hamr:{name} "))
    };
    let mut all = std::fs::read_dir("/proc").expect("there").flatten().flat_map(files);
    keep_file(&all.find(is_it).expect("its window").path(), request, 0);
}

fn keep_file(file: &std::path::Path, request: &LaunchRequest<'_>, at: u64) {
    let file = std::fs::File::options().read(true).write(true).open(file).expect("open");
    let file = WindowFile::of(file.into()).expect("sealed");
    let (window, map) = file.map(at, request.window_len).expect("as long");
    let heap = window.copies(request.heap_off, request.window_len - request.heap_off).expect("inside");
    let kept = (&*Box::leak(Box::new(window)), &*Box::leak(Box::new(Heap::mapped(heap))));
    // It stays mapped.
    Box::leak(Box::new((file, map)));
    WINDOWS.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
}

/// The words of a buffer, for a test that signals a handler while it runs. `None`: it is no such device's.
pub fn words(node: &Node, of: BufferPtr<u32>) -> Option<Words<'static>> {
    let windows = WINDOWS.lock().unwrap_or_else(PoisonError::into_inner);
    let load = |window: &Window<Shared>, off| window.word(off).map_or(0, |word| word.observe());
    let is_of = |(window, _): &&(&'static Window<Shared>, &'static Heap)| {
        load(window, offset_of!(Preamble, node) as u64) == u32::from(node.info().node)
            && load(window, word::HOST_STATE) == HostState::READY.0
    };
    let (window, kept) = windows.iter().rev().find(is_of)?;
    let (off, len) = (of.parts().off, of.len() as u64);
    // The window of a device of this program ends where its heap begins, so it has no layout.
    let there = Layout::of_window(window).ok().and_then(|layout| window.words(layout.heap().start + off, len).ok());
    there.or_else(|| kept.copies()?.words(off, len).ok())
}

/// Starts the same devices, whose memory their host reads and writes; an access promises nothing, keeps nothing, and takes this long.
pub struct CarelessLauncher(pub Far, pub Arc<Mutex<Duration>>);

/// Memory whose accesses take place in any order of their bytes, but for aligned pairs.
struct Careless(DrivenWindow, u64, Arc<Mutex<Duration>>);

impl Careless {
    /// Ranges of an access of `len` bytes at `off`, in some order; other threads run meanwhile.
    fn pieces(&mut self, off: u64, len: usize) -> Vec<(u64, std::ops::Range<usize>)> {
        let takes = *self.2.lock().unwrap_or_else(PoisonError::into_inner);
        if !takes.is_zero() {
            std::thread::sleep(takes);
        }
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < len {
            let begin = off + at as u64;
            let end = len.min(at + 8 - (begin % 8) as usize);
            pieces.push((begin, at..end));
            at = end;
        }
        let mut next = || {
            self.1 = self.1.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.1 >> 33) as usize
        };
        for i in (1..pieces.len()).rev() {
            pieces.swap(i, next() % (i + 1));
        }
        if next() % 16 == 0 {
            std::thread::yield_now();
        }
        pieces
    }
}

impl DrivenMemory for Careless {
    fn promises(&self) -> Promises {
        Promises { write_ascends: false, line_is_whole: false }
    }
    fn read(&mut self, off: u64, to: &mut [u8]) -> Result<(), Lost> {
        let mut pieces = self.pieces(off, to.len()).into_iter();
        pieces.try_for_each(|(off, range)| self.0.read(off, &mut to[range]))
    }
    fn write(&mut self, off: u64, from: &[u8]) -> Result<(), Lost> {
        let mut pieces = self.pieces(off, from.len()).into_iter();
        pieces.try_for_each(|(off, range)| self.0.write(off, &from[range]))
    }
}

impl Launcher for CarelessLauncher {
    fn describe(&self) -> String {
        "a device whose memory is read and written: for tests".into()
    }
    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        self.0.target(argument)
    }
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        let Device { link, .. } = self.0.start(request)?;
        let &LaunchRequest { window_len, start_deadline, .. } = request;
        let memory = |window, heap| (Careless(window, 1, self.1.clone()), heap);
        Ok(Box::new(MirrorLink::driven(link, memory, window_len, start_deadline)?))
    }
}

impl Launcher for MirroredLauncher {
    fn describe(&self) -> String {
        "a device behind a mirror: for tests".into()
    }
    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        self.0.target(argument)
    }
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        let Device { link, .. } = self.0.start(request)?;
        let &LaunchRequest { window_len, start_deadline, .. } = request;
        Ok(Box::new(MirrorLink::over_memory("mirrored", link, window_len, start_deadline)?))
    }
}
