//! What of a file goes to a device that runs. Of a module: hosted the file itself, on bare metal its memory,
//! made for the address that the device gives. The host relocates: a device has no code for that. Of a
//! bare-metal image: its memory.

use super::{ImageFile, parse};
use crate::Error;
use hamr_comm::module::ImagePlace;
use object::elf::PF_W;
use object::{Object, ObjectSegment, ObjectSymbol, RelocationFlags, SegmentFlags};
use std::os::unix::fs::FileExt;

/// The module's symbol.
const HEADER: &str = "HAMR_MODULE";

/// A module, before its address is known.
pub(crate) struct ModuleCode {
    bytes: Vec<u8>,
    /// So many of them, from the first, are code and constants.
    code: u64,
    /// Where in them the header is.
    header: u64,
    /// Words that are an address of the module: where they are, and what is to be added to its start.
    relative: Vec<(u64, u64)>,
}

impl ImageFile {
    /// The module in the file.
    ///
    /// # Errors
    /// When the file cannot be read, or is linked in a way that no address can be given to.
    pub(crate) fn module_code(&self) -> Result<ModuleCode, Error> {
        let bad = |why: String| Error::BadImage { path: self.path.clone(), why };
        let bytes = self.bytes().map_err(|e| bad(format!("expected a module, cannot read it: {e}")))?;
        if !self.kind.is_bare() {
            return Ok(ModuleCode { bytes, code: 0, header: 0, relative: Vec::new() });
        }
        ModuleCode::of_bare(&bytes).map_err(bad)
    }
}

/// A bare-metal image as a machine's loader puts it into memory.
pub(crate) struct ImageMemory {
    /// From [`ImagePlace::start`] on: whole words.
    pub(crate) bytes: Vec<u8>,
    pub(crate) place: ImagePlace,
}

impl ImageFile {
    /// The memory of the bare-metal image in the file.
    ///
    /// # Errors
    /// When the file cannot be read, or has no memory.
    pub(crate) fn memory(&self) -> Result<ImageMemory, Error> {
        let bad = |why: String| Error::BadImage { path: self.path.clone(), why };
        let file = self.bytes().map_err(|e| bad(format!("expected an image, cannot read it: {e}")))?;
        ImageMemory::of(&file).map_err(bad)
    }

    /// What is in the file that was checked.
    pub(crate) fn bytes(&self) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.file.0.metadata()?.len() as usize];
        self.file.0.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }
}

impl ImageMemory {
    fn of(file: &[u8]) -> Result<Self, String> {
        let elf = parse(file)?;
        let wrong = |got: &str| format!("expected an image with memory in one piece, got {got}");
        let start = elf.segments().map(|s| s.address()).min().ok_or_else(|| wrong("none"))?;
        let (mut bytes, mut end) = (Vec::new(), start);
        for segment in elf.segments() {
            let data = segment.data().map_err(|e| wrong(&e.to_string()))?;
            let at = (segment.address() - start).min(MOST) as usize;
            let (to, memory) = (at + data.len(), segment.address().saturating_add(segment.size()));
            if to as u64 > MOST {
                return Err(wrong("a segment far away"));
            }
            bytes.resize(bytes.len().max(to), 0);
            bytes.get_mut(at..to).ok_or_else(|| wrong("a segment far away"))?.copy_from_slice(data);
            end = end.max(memory);
        }
        bytes.resize(bytes.len().next_multiple_of(WORD), 0);
        Ok(Self { bytes, place: ImagePlace { start, end, entry: elf.entry() } })
    }
}

impl ModuleCode {
    fn of_bare(file: &[u8]) -> Result<Self, String> {
        let elf = parse(file)?;
        let wrong = |got: &str| format!("expected a module that any address can be given to, got {got}");
        let (mut bytes, mut code, mut data_start) = (Vec::new(), 0, u64::MAX);
        for segment in elf.segments() {
            let data = segment.data().map_err(|e| wrong(&e.to_string()))?;
            let at = usize::try_from(segment.address()).map_err(|_| wrong("a segment far away"))?;
            let end = segment.address().checked_add(segment.size()).filter(|end| *end <= MOST);
            let end = end.ok_or_else(|| wrong("a segment that ends far away"))? as usize;
            bytes.resize(bytes.len().max(end), 0);
            let to = bytes.get_mut(at..at + data.len()).ok_or_else(|| wrong("a segment with more data than memory"))?;
            to.copy_from_slice(data);
            let can_write = matches!(segment.flags(), SegmentFlags::Elf { p_flags } if p_flags & PF_W != 0);
            if can_write {
                data_start = data_start.min(segment.address());
            } else {
                code = code.max(end as u64);
            }
        }
        if code.next_multiple_of(PAGE) > data_start {
            return Err(wrong("data on a page of code"));
        }
        let header = elf.symbols().find(|symbol| symbol.name() == Ok(HEADER));
        let header = header.ok_or_else(|| wrong("none: its lib.rs needs `hamr_comm::module!()`"))?.address();
        let mut relative = Vec::new();
        for (at, relocation) in elf.dynamic_relocations().into_iter().flatten() {
            if !is_relative(relocation.flags()) {
                return Err(wrong(&format!("a relocation of another kind at {at:#x}")));
            }
            relative.push((at, relocation.addend() as u64));
        }
        Ok(Self { bytes, code, header, relative })
    }

    /// Bytes of memory that it takes.
    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// How many of them are code and constants: what follows, on a page of its own, is written.
    pub(crate) fn code_len(&self) -> u64 {
        self.code
    }

    /// Its bytes for `address`, and where in them the header is.
    pub(crate) fn at(mut self, address: u64) -> Result<(Vec<u8>, u64), String> {
        for (at, value) in self.relative {
            let word = usize::try_from(at).ok().and_then(|at| self.bytes.get_mut(at..at.checked_add(8)?));
            let word = word.ok_or_else(|| format!("expected relocations of its own bytes, got one at {at:#x}"))?;
            word.copy_from_slice(&address.wrapping_add(value).to_le_bytes());
        }
        Ok((self.bytes, self.header))
    }
}

/// Rights are those of whole pages.
const PAGE: u64 = 4096;
/// Bytes that a device moves at a time.
const WORD: usize = 8;
/// Bytes of a module or image at most: far more than devices have room for.
const MOST: u64 = 64 << 20;

fn is_relative(flags: RelocationFlags) -> bool {
    use object::elf::{R_AARCH64_RELATIVE, R_RISCV_RELATIVE, R_X86_64_RELATIVE};
    matches!(flags, RelocationFlags::Elf { r_type: R_AARCH64_RELATIVE | R_RISCV_RELATIVE | R_X86_64_RELATIVE })
}
