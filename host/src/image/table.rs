//! The handler table in an image file: what a host can find out about an image before it is loaded
//! (abi §10).

use super::ImageFile;
use crate::{Error, HandlerInfo};
use hamr_comm::abi::image::ImageKind;
use hamr_comm::abi::table::{hash, hash_join};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, RelocationTarget, SegmentFlags};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Sections of the table.
const BARE: &str = ".hamr.handlers";
const HOSTED: &str = "hamr_handlers_v3";

/// An entry of `hamr_comm::Entry`; hosted images have the last field, and a pointer behind it.
struct Row {
    name: (u64, u64),
    id: u64,
    signature: u64,
    body: u64,
    flags: u32,
    order: (u64, u64),
}
/// Bytes of an entry without what only hosted images have: four numbers of 64 bits, two of which are the flags', and four pointers.
const fn entry(pointer: u64) -> u64 {
    32 + 4 * pointer
}
const _: () = assert!(size_of::<hamr_comm::Entry>() as u64 == entry(8) + 3 * 8);

impl ImageFile {
    /// The handlers in the file, in the order of their keys.
    ///
    /// # Errors
    /// When the file cannot be read any more or its table is malformed.
    pub fn handlers(&self) -> Result<Vec<HandlerInfo>, Error> {
        self.with_elf(|elf| {
            let memory = ImageBytes::of(elf);
            let mut rows = rows(elf, self.kind, &memory)?;
            if !self.kind.is_bare() {
                // A hosted image sorts its table at start-up; the linker sorts that of a bare-metal
                // image.
                let order = |row: &Row| memory.text(row.order).unwrap_or_default();
                rows.sort_by_cached_key(order);
            }
            let handler = |(key, row): (usize, Row)| {
                let name = memory.text(row.name).ok_or_else(|| no_table(&format!("handler {key} without a name")))?;
                let Row { id, signature, body, flags, .. } = row;
                Ok(HandlerInfo { name, key: key as u16, id, signature, body, flags })
            };
            rows.into_iter().enumerate().map(handler).collect()
        })
    }

    /// Is the table in memory that the image cannot write?
    ///
    /// # Errors
    /// As [`Self::handlers`].
    pub fn handlers_are_read_only(&self) -> Result<bool, Error> {
        self.with_elf(|elf| {
            let table = section(elf, self.kind)?;
            let end = |s: &object::Segment<'_, '_>| s.address().saturating_add(s.size());
            let holds = |s: &object::Segment<'_, '_>| (s.address()..end(s)).contains(&table.address());
            let segment = elf.segments().find(holds).ok_or_else(|| no_table("one that is not loaded"))?;
            Ok(matches!(segment.flags(), SegmentFlags::Elf { p_flags } if p_flags & object::elf::PF_W == 0))
        })
    }

    /// The addresses of the window that the image has in its own memory (`image!(window = …)`, abi §10); empty where it has none.
    ///
    /// # Errors
    /// As [`Self::handlers`].
    pub fn reserved_window(&self) -> Result<Range<u64>, Error> {
        self.with_elf(|elf| {
            let window = elf
                .symbol_by_name("hamr_window")
                .map_or(0..0, |window| window.address()..window.address().saturating_add(window.size()));
            Ok(window)
        })
    }

    /// The note with the build id, and its address. `None`: there is none, or it is not loaded.
    ///
    /// # Errors
    /// As [`Self::handlers`].
    pub(crate) fn build_note(&self) -> Result<Option<(u64, Vec<u8>)>, Error> {
        self.with_elf(|elf| {
            let note = elf.section_by_name(".note.gnu.build-id").filter(|note| note.address() != 0);
            let data = |note: object::Section<'_, '_>| Some((note.address(), note.data().ok()?.to_vec()));
            Ok(note.and_then(data).filter(|(_, note)| !note.is_empty()))
        })
    }

    fn with_elf<T>(&self, read: impl FnOnce(&object::File<'_>) -> Result<T, String>) -> Result<T, Error> {
        let bad = |why: String| Error::BadImage { path: self.path.clone(), why };
        let bytes = self.bytes().map_err(|e| bad(format!("expected an ELF file, cannot read it: {e}")))?;
        let elf = super::parse(&bytes).map_err(bad)?;
        read(&elf).map_err(bad)
    }
}

/// The fingerprint that the image's device will show. The error names the fault of the table.
pub(super) fn fingerprint(elf: &object::File<'_>, kind: ImageKind) -> Result<u64, String> {
    let memory = ImageBytes::of(elf);
    let rows = rows(elf, kind, &memory)?;
    let mut seen = HashSet::new();
    if let Some(twice) = rows.iter().find(|row| !seen.insert(row.id)) {
        let name = memory.text(twice.name).unwrap_or_default();
        return Err(format!(
            "expected handlers of different names, got two named `{name}`: give one of them #[offload(name = \"…\")], or drop one of two `register!`s"
        ));
    }
    Ok(rows.iter().fold(hash(b"hamr table"), |sum, r| sum.wrapping_add(hash_join(r.id, r.signature))))
}

fn section<'d, 'f>(elf: &'f object::File<'d>, kind: ImageKind) -> Result<object::Section<'d, 'f>, String> {
    let name = if kind.is_bare() { BARE } else { HOSTED };
    elf.section_by_name(name).ok_or_else(|| no_table(&format!("a file without section {name}")))
}

fn no_table(got: &str) -> String {
    format!("expected an image with a handler table, got {got}; build it with `hamr image`")
}

fn rows(elf: &object::File<'_>, kind: ImageKind, memory: &ImageBytes<'_>) -> Result<Vec<Row>, String> {
    let section = section(elf, kind)?;
    let pointer = if elf.is_64() { 8 } else { 4 };
    let bytes = entry(pointer) + if kind.is_bare() { 0 } else { 3 * pointer };
    if !section.size().is_multiple_of(bytes) {
        return Err(no_table(&format!("{} bytes of one, which are no entries of {bytes}", section.size())));
    }
    let row = |at: u64| {
        let number = |off, len| memory.number(at + off, len).ok_or_else(|| no_table("one outside of the file"));
        let text = |off| Ok::<_, String>((number(off, pointer)?, number(off + pointer, pointer)?));
        let behind = 2 * pointer;
        let order = if kind.is_bare() { (0, 0) } else { text(entry(pointer))? };
        Ok(Row {
            name: text(0)?,
            id: number(behind, 8)?,
            signature: number(behind + 8, 8)?,
            body: number(behind + 16, 8)?,
            flags: number(2 * behind + 24, 4)? as u32,
            order,
        })
    };
    let end = section.address().checked_add(section.size()).ok_or_else(|| no_table("one outside of the file"))?;
    (section.address()..end).step_by(bytes as usize).map(row).collect()
}

/// The image's memory at its start.
struct ImageBytes<'d> {
    segments: Vec<(u64, &'d [u8])>,
    /// Words that the dynamic linker sets, in an image that may be loaded anywhere.
    filled: HashMap<u64, u64>,
}

impl<'d> ImageBytes<'d> {
    fn of(elf: &object::File<'d>) -> Self {
        let segments = elf.segments().filter_map(|s| Some((s.address(), s.data().ok()?))).collect();
        let relative = |(at, r): (u64, object::Relocation)| {
            (r.target() == RelocationTarget::Absolute).then_some((at, r.addend() as u64))
        };
        let filled = elf.dynamic_relocations().into_iter().flatten().filter_map(relative).collect();
        Self { segments, filled }
    }

    fn bytes(&self, at: u64, len: u64) -> Option<&'d [u8]> {
        self.segments.iter().find_map(|(start, data)| {
            let from = usize::try_from(at.checked_sub(*start)?).ok()?;
            data.get(from..from.checked_add(usize::try_from(len).ok()?)?)
        })
    }

    /// A number of at most 8 bytes.
    fn number(&self, at: u64, len: u64) -> Option<u64> {
        let stored = || Some(self.bytes(at, len)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)));
        self.filled.get(&at).copied().or_else(stored)
    }

    fn text(&self, (at, len): (u64, u64)) -> Option<String> {
        String::from_utf8(self.bytes(at, len)?.to_vec()).ok()
    }
}
