//! Devices on this machine's PCI bus: `pci:0000:00:01.0` (`docs/devices.md`).
//!
//! The window is BAR 2 of a function that shares memory with the processor that runs the image,
//! behind a bridge or in another virtual machine. This program neither starts nor ends such a
//! device: it was running before its host, and serves the next one. To the protocol,
//! [`Link::outlives_host`] is the difference.
//!
//! There are two ways to the same function: as root through `resource2` in sysfs, polling; or,
//! bound to vfio-pci, through a group that may belong to any user, with interrupts.
//!
//! - Attaching ends an earlier host's epoch; the memory need not be cleared.
//! - Leaving (`Node::stop`, dropping the node) takes up to 3 s. Calls in flight are cancelled (`cx.cancelled()`) and end
//!   with `DeviceLost`. Streams, results and log readers may outlive the node; a result in the device's heap is
//!   `DeviceLost`.
//! - `Node::restart`: the image keeps resources and statics. A handler that never ends is an error.
//! - Lost: neither `alive` nor `progress` moved for 5 s (of an image without a tick, `Board::has_heartbeat`, also while a
//!   handler runs); the function left the bus (noticed within 50 ms of waiting); its memory reads as all ones (at once).
//! - Taken back by the kernel through vfio: lost; a running handler is not cancelled. The device can be opened again.

mod address;
mod card;
mod sysfs;
mod vfio;

pub use address::{Address, NotAnAddress};
pub use sysfs::{Candidate, candidates};

use crate::launcher::{LaunchRequest, Launcher};
use crate::link::{Capabilities, Link, Peer, Protocol, wait_until_left};
use crate::mapping::{map_revocable, map_window};
use crate::{Error, Target};
use card::{Card, Watcher};
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::preamble::{MAGIC, PREAMBLE_BYTES, Preamble, word};
use hamr_comm::abi::window::{Shared, Window};
use hamr_comm::am::patience;
use hamr_comm::handshake::HostHandshake;
use hamr_qemu::origin::Origin;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use sysfs::Function;
use vfio::Vfio;

/// How long a device may take to leave an epoch. It sleeps a millisecond at most, and checks every
/// 64 rounds; a handler that does not check for cancellation may take longer.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(3);

/// If neither `alive` nor `progress` moves for this long, the device is gone (abi §8, rule 29).
const SILENCE_LIMIT: Duration = Duration::from_secs(5);
/// After this long without a change the device is notified, because it may sleep.
const NOTIFY_AFTER: Duration = Duration::from_millis(200);
/// Time between two questions to the system whether the function is still on the bus.
const BUS_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// A longer step of this host's clock counts as this much only: the host may have been stopped
/// itself.
const MAX_CLOCK_STEP: Duration = Duration::from_millis(50);

/// The value that a bus read returns without a device.
const NO_DEVICE: u32 = u32::MAX;

/// Attaches to functions on this machine's bus. A runtime has one under the name `pci`.
#[derive(Clone, Copy, Debug, Default)]
pub struct PciLauncher;

impl Launcher for PciLauncher {
    fn describe(&self) -> String {
        "a function on this machine's bus, whose image runs already: pci:ADDRESS, such as pci:0000:00:01.0".into()
    }

    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        parse(argument).map(|_| None)
    }

    fn has_window(&self) -> bool {
        true
    }

    fn protocols(&self) -> &'static [Protocol] {
        &Protocol::SHARED
    }

    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        let address = parse(request.argument)?;
        let fail = |why: String| Error::Bus { device: request.device.into(), why };
        let function = find(address).map_err(fail)?;
        let have = function.bar(2);
        if have < request.window_len {
            return Err(fail(format!(
                "expected a BAR 2 of at least {} bytes for this layout, got {have}: give the card more memory, or ask for a \
                 smaller heap or fewer streams (Options)",
                request.window_len
            )));
        }
        PciLink::open(request, address, function).map(|link| Box::new(link) as Box<dyn Link>).map_err(|e| match e {
            Error::Os { what, source } => fail(format!("{what}: {source}")),
            other => other,
        })
    }
}

/// The file of the memory of `pci:ARGUMENT`, for [`crate::inspect::dump`]. The window can be
/// inspected whether its host and its image run or not; while a host has it through vfio, by that
/// host only.
///
/// # Errors
/// When there is no such function, or it is switched off.
pub fn window_file(argument: &str) -> Result<PathBuf, Error> {
    let address = parse(argument)?;
    let fail = |why: String| Error::Bus { device: format!("pci:{address}"), why };
    let function = find(address).map_err(fail)?;
    if !function.is_on() {
        return Err(fail(
            "expected a function that is switched on, this one is off: no host has used it since this machine started"
                .into(),
        ));
    }
    Ok(function.path())
}

fn parse(argument: &str) -> Result<Address, Error> {
    argument.parse().map_err(|NotAnAddress| Error::UnknownDevice {
        name: if argument.is_empty() { "pci".into() } else { format!("pci:{argument}") },
        known: format!("pci:DOMAIN:BUS:DEVICE.FUNCTION (hexadecimal; {})", known()),
    })
}

/// The candidates, for messages.
fn known() -> String {
    let found: Vec<String> = candidates().iter().map(|c| c.address.to_string()).collect();
    match found.is_empty() {
        true => "this machine has no function with shared memory".into(),
        false => format!("this machine has {}", found.join(", ")),
    }
}

/// The function, if it is one that can be a device. The error contains what was expected and what
/// was found.
fn find(address: Address) -> Result<Function, String> {
    let function = Function::at(address);
    if !sysfs::has_bus() {
        return Err(
            "expected a machine with a PCI bus, found no function in /sys/bus/pci/devices; use a device of another \
                    kind (`devices` lists them)"
                .into(),
        );
    }
    if !function.is_there() {
        return Err(format!("expected a function at {address}, found none; {}", known()));
    }
    if !function.is_ivshmem() {
        let got = function.identity().map_or("one that cannot be read".into(), |(v, d)| format!("{v:04x}:{d:04x}"));
        return Err(format!("expected shared memory (ivshmem, 1af4:1110) at {address}, found {got}; {}", known()));
    }
    match function.driver() {
        Some(driver) if driver != sysfs::VFIO => Err(format!(
            "expected no driver at {address}, or {}, found {driver}; free it with \
             `echo {address} > /sys/bus/pci/devices/{address}/driver/unbind`",
            sysfs::VFIO
        )),
        _ => Ok(function),
    }
}

/// The link to such a device.
struct PciLink {
    device: String,
    function: Function,
    card: Arc<Card>,
    _watcher: Option<Watcher>,
    /// The open file whose lock keeps other hosts away.
    lock: Mutex<Option<File>>,
    /// This host has released the function, so another one may use it.
    is_released: AtomicBool,
    watch: Mutex<PeerMonitor>,
    origin: Origin,
}

/// The state of [`PciLink::peer`].
struct PeerMonitor {
    seen: [u32; 2],
    looked: Instant,
    /// When the bus was last asked.
    asked: Instant,
    still: Duration,
    was_notified: bool,
    /// The device announced that it writes nothing any more.
    has_left: bool,
}

impl PeerMonitor {
    fn new() -> Self {
        let now = Instant::now();
        Self { seen: [0; 2], looked: now, asked: now, still: Duration::ZERO, was_notified: false, has_left: false }
    }
}

impl PciLink {
    fn open(request: &LaunchRequest<'_>, address: Address, function: Function) -> Result<Self, Error> {
        // On aarch64, both ways map the memory as Device memory, in which unaligned accesses and
        // `dc zva` fault. Copies of any length use both.
        if cfg!(target_arch = "aarch64") {
            let why = "expected a host whose kernel maps a function's memory for copies of any alignment, got aarch64, which maps it as \
                       Device memory: open devices on a bus from an x86_64 host";
            return Err(Error::Bus { device: request.device.into(), why: why.into() });
        }
        let len = request.window_len;
        let vfio = match function.driver().and(function.group()) {
            Some(group) => Some(Vfio::open(&group, &address.to_string())?),
            None => None,
        };
        // Also through vfio, where this user has access to the file: the lock is the same for both
        // ways. The group itself has one owner.
        let file = match &vfio {
            Some(_) => function.memory_file().ok(),
            None => Some(function.memory_file()?),
        };
        if let Some(file) = &file
            && flock(file, FlockOperation::NonBlockingLockExclusive).is_err()
        {
            return Err(Error::Owned { window: function.path().display().to_string(), owner: owner(file) });
        }
        let mut maps = Vec::new();
        let window = match (&vfio, &file) {
            (Some(vfio), _) => vfio.map(2, len)?,
            (None, Some(file)) => {
                function.enable()?;
                let (window, map) = map_revocable(file, 0, len, true)?;
                maps.push(map);
                window
            }
            (None, None) => {
                let why = "expected a way to map BAR 2, got neither a vfio group nor the memory's file";
                return Err(Error::Bus { device: request.device.into(), why: why.into() });
            }
        };
        let registers = match &vfio {
            Some(vfio) => vfio.map(0, function.bar(0)).ok(),
            None => function.registers().map(|(registers, map)| {
                maps.push(map);
                registers
            }),
        };
        let card = Arc::new(Card::new(window, registers, vfio, maps));
        Ok(Self {
            device: request.device.into(),
            function,
            _watcher: Watcher::of(&card),
            card,
            lock: Mutex::new(file),
            is_released: AtomicBool::new(false),
            origin: Origin::here(),
            watch: Mutex::new(PeerMonitor::new()),
        })
    }

    fn watch(&self) -> MutexGuard<'_, PeerMonitor> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a function that left the bus and is there again, through sysfs.
    fn take_again(&self) -> Result<(), Error> {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let file = self.function.memory_file()?;
        // A function that comes back has files of its own.
        let inode = |file: &File| file.metadata().map(|file| file.ino()).ok();
        if lock.as_ref().and_then(inode) == inode(&file) {
            return Ok(());
        }
        let (have, needed) = (self.function.bar(2), self.card.window.len());
        if have < needed {
            return Err(Error::WindowTooShort {
                device: self.device.clone(),
                needed,
                has: have,
                missing: String::new(),
            });
        }
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(Error::os("locking the function's memory"))?;
        self.function.enable()?;
        self.card.restore(&file, self.function.register_file().ok().as_ref())?;
        *lock = Some(file);
        Ok(())
    }
}

impl Link for PciLink {
    fn kind(&self) -> &str {
        if self.card.vfio.is_some() { "pci-vfio" } else { "pci" }
    }

    fn capabilities(&self) -> Capabilities {
        let doorbell = self.card.registers.is_some() && self.function.has_interrupts();
        Capabilities { doorbell, ..Capabilities::default() }
    }

    fn window(&self) -> &Window<Shared> {
        &self.card.window
    }

    fn notify(&self) {
        self.card.notify();
    }

    fn doorbell(&self) -> u32 {
        self.card.doorbell()
    }

    fn wait(&self, max_us: u32) {
        if max_us == 0 {
            patience::rest();
        } else if !self.card.vfio.as_ref().is_some_and(|vfio| vfio.sleep(max_us)) {
            std::thread::sleep(Duration::from_micros(max_us.into()));
        }
    }

    fn descriptors(&self) -> Vec<Arc<OwnedFd>> {
        self.card.vfio.iter().filter_map(Vfio::doorbell).collect()
    }

    fn wake(&self) {
        self.card.wake();
    }

    fn peer(&self) -> Peer {
        let now = Instant::now();
        let mut watch = self.watch();
        let seen = [self.card.load(word::DEVICE_ALIVE), self.card.load(word::DEVICE_PROGRESS)];
        let passed = now.saturating_duration_since(watch.looked).min(MAX_CLOCK_STEP);
        watch.looked = now;
        if self.card.is_taken() {
            return Peer::Gone(
                "the system took its function back: it is unbound from vfio-pci, or removed from the bus".into(),
            );
        }
        if watch.has_left {
            return Peer::Gone("it has left, as it was asked to".into());
        }
        if seen != watch.seen {
            (watch.seen, watch.still, watch.was_notified) = (seen, Duration::ZERO, false);
        } else {
            watch.still += passed;
        }
        // Also while the device moves: a device that is removed from the bus may run on for a
        // while.
        if now - watch.asked >= BUS_CHECK_INTERVAL {
            watch.asked = now;
            if !self.function.is_there() {
                return Peer::Gone("its function is gone from the bus".into());
            }
        }
        if watch.still < NOTIFY_AFTER && seen != [NO_DEVICE; 2] {
            return Peer::Alive;
        }
        if self.card.load(0) == NO_DEVICE {
            return Peer::Gone("its memory reads as all ones, as without a device on the bus".into());
        }
        // An offer zeroes both words. An image that has not stepped `alive` since the offer is not
        // judged by them.
        if seen[0] != 0 && watch.still >= SILENCE_LIMIT {
            return Peer::Gone(format!(
                "neither `alive` nor `progress` moved for {SILENCE_LIMIT:?}: the image crashed, hangs or lost power; `inspect` shows \
                 what it left"
            ));
        }
        if !watch.was_notified {
            watch.was_notified = true;
            self.notify();
        }
        Peer::Alive
    }

    fn stop(&self, limit: Duration) {
        HostHandshake::close(&self.card.window);
        self.notify();
        let epoch = Epoch(self.card.load(word::EPOCH));
        let has_left =
            wait_until_left(self, limit.min(LEAVE_TIMEOUT), |window| HostHandshake::has_acknowledged(window, epoch));
        self.watch().has_left = has_left;
    }

    fn outlives_host(&self) -> bool {
        true
    }

    fn release(&self) {
        self.is_released.store(true, Ordering::Release);
        // In this order, because remaining streams, results and log readers may still write to the
        // window. If a mapping cannot be ended, the lock stays until the link is dropped.
        if self.card.let_go() {
            // Closing the file drops its lock.
            self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }

    fn is_back(&self, _limit: Duration) -> Result<(), Option<String>> {
        if self.is_released.load(Ordering::Acquire) || self.card.is_taken() || !self.function.is_there() {
            return Err(None);
        }
        if self.card.vfio.is_none() && self.take_again().is_err() {
            return Err(None);
        }
        match self.card.load(0) {
            NO_DEVICE => Err(None),
            MAGIC if HostHandshake::has_acknowledged(&self.card.window, Epoch(self.card.load(word::EPOCH))) => Ok(()),
            // An image that runs there leaves the old epoch first.
            MAGIC => {
                HostHandshake::close(&self.card.window);
                self.notify();
                Err(None)
            }
            // A reset took all memory.
            _ => Ok(()),
        }
    }

    fn restart(&self, _limit: Duration) -> Result<(), String> {
        if self.card.is_taken() {
            return Err("the system took its function back; open the device again".into());
        }
        if self.card.load(0) == MAGIC
            && !HostHandshake::has_acknowledged(&self.card.window, Epoch(self.card.load(word::EPOCH)))
        {
            return Err(format!(
                "expected {} to leave its epoch within {LEAVE_TIMEOUT:?}, it did not: a handler does not end, or the image is gone; \
                 reset the device",
                self.device
            ));
        }
        *self.watch() = PeerMonitor::new();
        Ok(())
    }
}

impl Drop for PciLink {
    fn drop(&mut self) {
        // A device must not accept an offer after its host is gone. Not after a release, when
        // another host may own the window.
        if !self.origin.is_here() {
            return;
        }
        if !*self.is_released.get_mut() {
            self.card.close();
        }
        self.card.let_go();
    }
}

fn owner(file: &File) -> String {
    let preamble = map_window(file, PREAMBLE_BYTES, false).ok().and_then(|w| w.read::<Preamble>(0).ok());
    match preamble {
        Some(p) if p.magic == MAGIC => format!("process {}", p.host_pid),
        _ => "another process has its lock".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function whose memory is a file in `folder`.
    fn make_function(folder: &std::path::Path, len: u64) {
        std::fs::write(
            folder.join("resource"),
            format!("0x0 0x0 0x0\n0x0 0x0 0x0\n0x1000 {:#x} 0x200\n", 0x1000 + len - 1),
        )
        .expect("writes");
        std::fs::write(folder.join("enable"), "1").expect("writes");
        File::create(folder.join("resource2")).and_then(|file| file.set_len(len)).expect("makes a file");
    }

    #[test]
    fn a_released_link_does_not_reach_the_memory_that_the_next_host_maps() {
        const LEN: u64 = 1 << 16;
        let folder = tempfile::tempdir().expect("a folder");
        make_function(folder.path(), LEN);
        let open = || {
            let address = "0000:00:01.0".parse().expect("an address");
            let request = LaunchRequest::new("card", LEN..LEN, Duration::from_secs(5));
            PciLink::open(&request, address, Function::in_folder(folder.path().into()))
        };
        let first = open().expect("no host has it");
        let kept = first.window().keep_word(word::OPEN_QUEUES).expect("in the preamble");
        kept.word().store(7);
        assert!(matches!(open(), Err(Error::Owned { .. })), "one host at a time");
        let in_file = || std::fs::read(folder.path().join("resource2")).expect("reads")[word::OPEN_QUEUES as usize];
        assert_eq!(in_file(), 7);
        first.release();
        let second = open().expect("the first was released");
        second.window().word(word::OPEN_QUEUES).expect("in the preamble").store(9);
        kept.word().store(1);
        first.window().write_bytes(0, &[0xAA; 4096]).expect("inside");
        drop(first);
        assert_eq!((second.card.load(word::OPEN_QUEUES), in_file()), (9, 9));
    }

    #[test]
    fn a_function_that_is_there_again_is_mapped_in_the_place_of_the_old_one() {
        const LEN: u64 = 1 << 16;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("function");
        let make = || {
            std::fs::create_dir(&path).expect("makes a folder");
            make_function(&path, LEN);
        };
        make();
        let address = "0000:00:01.0".parse().expect("an address");
        let request = LaunchRequest::new("card", LEN..LEN, Duration::from_secs(5));
        let link = PciLink::open(&request, address, Function::in_folder(path.clone())).expect("no host has it");
        let kept = link.window().keep_word(word::OPEN_QUEUES).expect("in the preamble");
        kept.word().store(7);
        std::fs::rename(&path, folder.path().join("gone")).expect("leaves the bus");
        assert!(link.is_back(Duration::ZERO).is_err());
        make();
        let other = File::options().read(true).write(true).open(path.join("resource2")).expect("it is there");
        flock(&other, FlockOperation::NonBlockingLockExclusive).expect("another host has it");
        assert!(link.is_back(Duration::ZERO).is_err());
        drop(other);
        assert!((0..2).all(|_| link.is_back(Duration::ZERO).is_ok()));
        let first = |folder: &std::path::Path| {
            std::fs::read(folder.join("resource2")).expect("reads")[word::OPEN_QUEUES as usize]
        };
        assert_eq!(kept.word().load(), 0, "the new memory");
        kept.word().store(9);
        assert_eq!((first(&folder.path().join("gone")), first(&path)), (7, 9));
        link.restart(Duration::ZERO).expect("it is in no epoch");
        // A second host is still kept away.
        assert!(PciLink::open(&request, address, Function::in_folder(path.clone())).is_err());
    }
}
