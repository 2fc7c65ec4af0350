//! PCI functions in `/sys/bus/pci/devices`, and their memory without a driver: `resource2`.

use super::Address;
use crate::Error;
use crate::mapping::{Revocable, map_revocable};
use hamr_comm::abi::window::{Shared, Window};
use std::fs::File;
use std::path::{Path, PathBuf};

const DEVICES: &str = "/sys/bus/pci/devices";

/// QEMU's inter-VM shared memory.
const IVSHMEM: (u16, u16) = (0x1AF4, 0x1110);

/// The driver that gives functions to programs.
pub(super) const VFIO: &str = "vfio-pci";

/// A function that may be a device: shared memory in BAR 2. Whether an image runs behind it is not
/// known here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Where it is: `pci:ADDRESS` is the device.
    pub address: Address,
    /// Bytes of BAR 2.
    pub memory: u64,
    /// The driver that it is bound to.
    pub driver: Option<String>,
}

/// Every such function of this machine, in the order of their addresses.
pub fn candidates() -> Vec<Candidate> {
    let Ok(entries) = std::fs::read_dir(DEVICES) else { return Vec::new() };
    let addresses = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut found: Vec<Candidate> = addresses.filter_map(|address| Function::at(address).candidate()).collect();
    found.sort_by_key(|candidate| candidate.address);
    found
}

/// Does this machine have a visible PCI bus?
pub(super) fn has_bus() -> bool {
    std::fs::read_dir(DEVICES).is_ok_and(|mut entries| entries.next().is_some())
}

/// One function.
pub(super) struct Function {
    folder: PathBuf,
}

impl Function {
    pub(super) fn at(address: Address) -> Self {
        Self { folder: Path::new(DEVICES).join(address.to_string()) }
    }

    /// A function as any folder describes it.
    #[cfg(test)]
    pub(super) fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Is it on the bus?
    pub(super) fn is_there(&self) -> bool {
        self.folder.exists()
    }

    /// Vendor and device, when it can be read.
    pub(super) fn identity(&self) -> Option<(u16, u16)> {
        Some((self.hex("vendor")? as u16, self.hex("device")? as u16))
    }

    pub(super) fn is_ivshmem(&self) -> bool {
        self.identity() == Some(IVSHMEM)
    }

    /// The driver that it is bound to.
    pub(super) fn driver(&self) -> Option<String> {
        Some(std::fs::read_link(self.folder.join("driver")).ok()?.file_name()?.to_str()?.to_owned())
    }

    /// Its IOMMU group: functions that the unit cannot distinguish; `None` without such a unit.
    pub(super) fn group(&self) -> Option<String> {
        Some(std::fs::read_link(self.folder.join("iommu_group")).ok()?.file_name()?.to_str()?.to_owned())
    }

    /// Bytes of a memory BAR; 0 when there is none.
    pub(super) fn bar(&self, index: usize) -> u64 {
        self.resource(index).map_or(0, |(_, bytes)| bytes)
    }

    /// Address and bytes of a memory BAR.
    fn resource(&self, index: usize) -> Option<(u64, u64)> {
        std::fs::read_to_string(self.folder.join("resource")).ok()?.lines().nth(index).and_then(memory_of)
    }

    fn candidate(&self) -> Option<Candidate> {
        let address = self.folder.file_name()?.to_str()?.parse().ok()?;
        let candidate = || Candidate { address, memory: self.bar(2), driver: self.driver() };
        self.is_ivshmem().then(candidate)
    }

    /// Switches its memories on. A function that no driver enabled is off.
    pub(super) fn enable(&self) -> Result<(), Error> {
        let path = self.folder.join("enable");
        if std::fs::read_to_string(&path).is_ok_and(|count| count.trim() != "0") {
            return Ok(());
        }
        std::fs::write(&path, "1").map_err(|e| refused(&path, e))
    }

    /// Are its memories switched on? Without a driver or [`Self::enable`], they are not.
    pub(super) fn is_on(&self) -> bool {
        const COMMAND: usize = 4;
        const MEMORY: u8 = 1 << 1;
        std::fs::read(self.folder.join("config"))
            .is_ok_and(|config| config.get(COMMAND).is_some_and(|c| c & MEMORY != 0))
    }

    /// The file whose lock keeps a second host away, by either way.
    pub(super) fn memory_file(&self) -> Result<File, Error> {
        let path = self.path();
        File::options().read(true).write(true).open(&path).map_err(|e| refused(&path, e))
    }

    /// Can the machines that share the memory interrupt each other? The interrupt table has a BAR
    /// of its own.
    pub(super) fn has_interrupts(&self) -> bool {
        self.bar(1) != 0
    }

    /// The registers; `None` when they cannot be mapped. A mapping begins with the page that they
    /// are in.
    pub(super) fn registers(&self) -> Option<(Window<Shared>, Revocable)> {
        let file = self.register_file().ok()?;
        let (start, len) = (self.resource(0)?.0 % rustix::param::page_size() as u64, self.bar(0));
        let (page, map) = map_revocable(&file, 0, start + len, true).ok()?;
        Some((page.part(start, len).ok()?, map))
    }

    /// The file of the registers.
    pub(super) fn register_file(&self) -> std::io::Result<File> {
        File::options().read(true).write(true).open(self.folder.join("resource0"))
    }

    /// The file of its memory.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.join("resource2")
    }

    fn hex(&self, name: &str) -> Option<u64> {
        let text = std::fs::read_to_string(self.folder.join(name)).ok()?;
        u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
    }
}

/// The error for a refused open; its advice depends on the reason.
fn refused(path: &Path, e: std::io::Error) -> Error {
    let advice = match e.kind() {
        std::io::ErrorKind::PermissionDenied => {
            " (expected to run as root; or bind the function to vfio-pci and give this user its /dev/vfio group)"
        }
        _ => "",
    };
    Error::Os { what: format!("opening {} for writing{advice}", path.display()), source: e }
}

/// Parses a line of `resource`: start, end, flags.
fn memory_of(line: &str) -> Option<(u64, u64)> {
    const IS_MEMORY: u64 = 0x200;
    let mut numbers = line.split_whitespace().map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    let (start, end, flags) = (numbers.next()??, numbers.next()??, numbers.next()??);
    if flags & IS_MEMORY == 0 || end <= start { None } else { Some((start, (end - start).checked_add(1)?)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_from_lines_of_memory_only() {
        let memory = "0x00000000fe400000 0x00000000fe7fffff 0x000000000014220c";
        for (line, bytes) in [
            (memory, Some(4 << 20)),
            ("0x0000000000000000 0x0000000000000000 0x0000000000000000", None),
            ("0x000000000000c000 0x000000000000c01f 0x0000000000040101", None),
            ("0x0000000000000000 0xffffffffffffffff 0x0000000000000200", None),
            ("garbage", None),
            ("", None),
        ] {
            assert_eq!(memory_of(line).map(|(_, bytes)| bytes), bytes, "{line}");
        }
    }

    #[test]
    fn an_absent_function_has_no_properties() {
        let function = Function::at("ffff:ff:1f.7".parse().expect("an address"));
        assert!(!function.is_there() && !function.is_ivshmem());
        assert_eq!((function.identity(), function.driver(), function.bar(2)), (None, None, 0));
        assert!(function.memory_file().is_err_and(|e| e.to_string().contains("resource2")));
    }
}
