//! A function through vfio: its memories through one descriptor, its interrupt as an eventfd
//! (contract "vfio"; Linux, `Documentation/driver-api/vfio.rst`).

#![expect(unsafe_code)]
// UNSAFETY: each request of this interface has an argument of its own, and `ioctl` cannot check
// which.
//
// Contract "vfio". Callers of `ask` and `ask_with` are below one table of numbers. Structs are
// `repr(C)` with the kernel's fields, in the caller's frame; the kernel keeps no pointer.

use crate::Error;
use crate::mapping::{Revocable, map_revocable};
use hamr_comm::abi::window::{Shared, Window};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, opcode};
use std::ffi::{CString, c_void};
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// `VFIO_TYPE` and `VFIO_BASE`.
const fn request(number: u8) -> Opcode {
    opcode::none(b';', 100 + number)
}
const SET_IOMMU: Opcode = request(2);
const GROUP_GET_STATUS: Opcode = request(3);
const GROUP_SET_CONTAINER: Opcode = request(4);
const GROUP_GET_DEVICE: Opcode = request(6);
const DEVICE_GET_REGION: Opcode = request(8);
const DEVICE_SET_IRQS: Opcode = request(10);

/// `VFIO_TYPE1v2_IOMMU`.
const TYPE1_V2: usize = 3;
/// `VFIO_GROUP_FLAGS_VIABLE`: a program may take every function of the group.
const VIABLE: u32 = 1;
/// `VFIO_PCI_CONFIG_REGION_INDEX`.
const CONFIG: u32 = 7;
/// Offset of the command register, and its bits for memory and for being a master, without which no
/// interrupt is sent.
const COMMAND: u64 = 4;
const MEMORY_AND_MASTER: u16 = 1 << 1 | 1 << 2;
/// `VFIO_PCI_MSIX_IRQ_INDEX`.
const MSIX: u32 = 2;
/// `VFIO_PCI_REQ_IRQ_INDEX`: the system asks for the function back.
const REQUEST: u32 = 4;
/// `VFIO_IRQ_SET_DATA_EVENTFD` and `VFIO_IRQ_SET_ACTION_TRIGGER`.
const TRIGGER_EVENTFD: u32 = 1 << 2 | 1 << 5;

#[repr(C)]
struct GroupStatus {
    size: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct RegionInfo {
    size: u32,
    flags: u32,
    index: u32,
    capability: u32,
    bytes: u64,
    off: u64,
}

#[repr(C)]
struct IrqSet {
    size: u32,
    flags: u32,
    index: u32,
    start: u32,
    count: u32,
    eventfd: i32,
}

/// One request; its result is what `ioctl` returns.
struct Request<'a, T> {
    opcode: Opcode,
    argument: Argument<'a, T>,
}

enum Argument<'a, T> {
    Number(usize),
    Memory(&'a mut T),
}

// SAFETY: `ioctl` gets the caller's opcode and an argument inside of `self`; the result is a number
// only.
unsafe impl<T> Ioctl for Request<'_, T> {
    type Output = IoctlOutput;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.opcode
    }
    fn as_ptr(&mut self) -> *mut c_void {
        match &mut self.argument {
            Argument::Number(number) => std::ptr::without_provenance_mut(*number),
            Argument::Memory(memory) => (&raw mut **memory).cast(),
        }
    }
    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> rustix::io::Result<IoctlOutput> {
        Ok(out)
    }
}

fn ask(fd: impl AsFd, opcode: Opcode, number: usize) -> Result<IoctlOutput, Errno> {
    // SAFETY: the callers' requests take a number, which the kernel checks.
    unsafe { rustix::ioctl::ioctl(fd, Request::<()> { opcode, argument: Argument::Number(number) }) }
}

/// # Safety
/// `T` must be the type that the request reads and writes; where that has a size field, it must be
/// set to the size of `T`.
unsafe fn ask_with<T>(fd: impl AsFd, opcode: Opcode, memory: &mut T) -> Result<IoctlOutput, Errno> {
    // SAFETY: passed on to the caller.
    unsafe { rustix::ioctl::ioctl(fd, Request { opcode, argument: Argument::Memory(memory) }) }
}

/// An open function.
pub(super) struct Vfio {
    opened: Mutex<Opened>,
    notified: Option<Arc<OwnedFd>>,
    asked: Option<Arc<OwnedFd>>,
}

/// The descriptors and mappings that keep the function in use.
#[derive(Default)]
struct Opened {
    device: Option<VfioDevice>,
    /// The memories that were mapped: each is a user of the device.
    maps: Vec<Revocable>,
}

struct VfioDevice {
    device: OwnedFd,
    // If either is closed, the device is taken away.
    _group: OwnedFd,
    _container: OwnedFd,
}

impl Vfio {
    /// Opens the function `address` of `group`, and switches its memories on.
    pub(super) fn open(group: &str, address: &str) -> Result<Self, Error> {
        let container_path = "/dev/vfio/vfio";
        let group_path = format!("/dev/vfio/{group}");
        let container = open_file(container_path)?;
        let group = open_file(&group_path)?;
        let mut status = GroupStatus { size: size_of::<GroupStatus>() as u32, flags: 0 };
        // SAFETY: `struct vfio_group_status`, which has these two fields.
        unsafe { ask_with(&group, GROUP_GET_STATUS, &mut status) }.map_err(Error::os("asking for a vfio group"))?;
        if status.flags & VIABLE == 0 {
            let source = ErrorKind::ResourceBusy.into();
            let what = format!(
                "taking {group_path}: expected every function of the group to be bound to vfio-pci or to no driver"
            );
            return Err(Error::Os { what, source });
        }
        let mut container_number: i32 = container.as_raw_fd();
        // SAFETY: takes a pointer to a descriptor's number.
        unsafe { ask_with(&group, GROUP_SET_CONTAINER, &mut container_number) }
            .map_err(Error::os("putting the vfio group into a container"))?;
        ask(&container, SET_IOMMU, TYPE1_V2).map_err(Error::os("setting up translation (module vfio_iommu_type1)"))?;
        let name = CString::new(address).map_err(|e| Error::io("naming the function to vfio")(e.into()))?;
        let bytes = &mut [0u8; 32];
        for (to, from) in bytes.iter_mut().zip(name.as_bytes_with_nul()) {
            *to = *from;
        }
        // SAFETY: takes a pointer to a name that ends in zero; addresses are shorter than 31 bytes,
        // so one is there.
        let device = unsafe { ask_with(&group, GROUP_GET_DEVICE, bytes) }
            .map_err(Error::os(format!("opening {address} in {group_path}")))?;
        // SAFETY: the kernel returned a new descriptor, which has no other owner.
        let device = unsafe { OwnedFd::from_raw_fd(device) };
        let device = VfioDevice { device, _group: group, _container: container };
        device.enable()?;
        // A function without vectors (`ivshmem-plain`) has no doorbell, which is no error; nor is a
        // system that never asks for the function back.
        let (notified, asked) = (device.listen(MSIX).map(Arc::new), device.listen(REQUEST).map(Arc::new));
        let opened = Opened { device: Some(device), maps: Vec::new() };
        Ok(Self { opened: Mutex::new(opened), notified, asked })
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Maps the first `len` bytes of a memory.
    pub(super) fn map(&self, bar: u32, len: u64) -> Result<Window<Shared>, Error> {
        let mut opened = self.opened();
        let fail = |kind, why: String| Error::io(format!("mapping BAR {bar}"))(std::io::Error::new(kind, why));
        let given_back =
            || fail(ErrorKind::NotConnected, "the function was returned to the system; open the device again".into());
        let device = opened.device.as_ref().ok_or_else(given_back)?;
        let region = device.region(bar)?;
        if region.bytes < len {
            return Err(fail(ErrorKind::InvalidData, format!("expected {len} bytes, got {}", region.bytes)));
        }
        let (window, map) = map_revocable(&device.device, region.off, len, true)?;
        opened.maps.push(map);
        Ok(window)
    }

    /// Returns the function to the system: its memories read as zeros from now on, and the device
    /// is not notified. False when a mapping could not be ended, which keeps the device open.
    pub(super) fn let_go(&self) -> bool {
        let mut opened = self.opened();
        opened.maps.retain(|map| map.revoke().is_err());
        opened.device = None;
        opened.maps.is_empty()
    }

    /// Readable when the system asks for the function back.
    pub(super) fn asked(&self) -> Option<Arc<OwnedFd>> {
        self.asked.clone()
    }

    /// Readable when the device has notified.
    pub(super) fn doorbell(&self) -> Option<Arc<OwnedFd>> {
        self.notified.clone()
    }

    /// Sleeps until a notification or for `max_us`. `false` when the function has no interrupt:
    /// then the caller sleeps itself.
    pub(super) fn sleep(&self, max_us: u32) -> bool {
        let Some(notified) = &self.notified else { return false };
        let mut fds = [PollFd::new(&**notified, PollFlags::IN)];
        let limit = Timespec { tv_sec: i64::from(max_us / 1_000_000), tv_nsec: i64::from(max_us % 1_000_000) * 1000 };
        if poll(&mut fds, Some(&limit)).is_ok_and(|n| n > 0) {
            // All pending notifications count as one; another waiter may have taken them.
            let _ = rustix::io::read(&**notified, &mut [0u8; 8]);
        }
        true
    }
}

impl VfioDevice {
    fn region(&self, index: u32) -> Result<RegionInfo, Error> {
        let mut info = RegionInfo { size: size_of::<RegionInfo>() as u32, index, ..RegionInfo::default() };
        // SAFETY: `struct vfio_region_info` without capabilities, which the kernel leaves out when
        // there is no room.
        unsafe { ask_with(&self.device, DEVICE_GET_REGION, &mut info) }
            .map_err(Error::os(format!("asking vfio for region {index}")))?;
        Ok(info)
    }

    fn enable(&self) -> Result<(), Error> {
        let at = self.region(CONFIG)?.off + COMMAND;
        let mut bytes = [0; 2];
        rustix::io::pread(&self.device, &mut bytes, at).map_err(Error::os("reading the command register"))?;
        let command = u16::from_le_bytes(bytes) | MEMORY_AND_MASTER;
        rustix::io::pwrite(&self.device, &command.to_le_bytes(), at)
            .map_err(Error::os("writing the command register"))?;
        Ok(())
    }

    /// Connects the first vector of a kind of interrupt to an eventfd, where there is one.
    fn listen(&self, index: u32) -> Option<OwnedFd> {
        let notified = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        let mut set = IrqSet {
            size: size_of::<IrqSet>() as u32,
            flags: TRIGGER_EVENTFD,
            index,
            start: 0,
            count: 1,
            eventfd: notified.as_raw_fd(),
        };
        // SAFETY: `struct vfio_irq_set` followed by one descriptor's number, as its flags and count
        // declare.
        unsafe { ask_with(&self.device, DEVICE_SET_IRQS, &mut set) }.ok()?;
        Some(notified)
    }
}

fn open_file(path: &str) -> Result<OwnedFd, Error> {
    rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|e| {
        let advice = match e {
            Errno::ACCESS | Errno::PERM => " (expected that this user owns it: root gives it with chown)",
            Errno::BUSY => " (expected no other host: one program at a time has a group)",
            _ => "",
        };
        Error::os(format!("opening {path}{advice}"))(e)
    })
}
