//! The device's handler table, and the table by which a host translates a handler to its key (abi
//! §3.7).
//!
//! The host's table uses open addressing: a call nearly always needs one probe, at a row whose
//! index is a constant of the program. The key on the wire is the device's index.

use crate::{Site, SubmitError};
use hamr_comm::abi::ids::HandlerKey;
use hamr_comm::abi::section::Section;
use hamr_comm::abi::table::{TableHeader, TableRecord, hash_join, record_flag};
use hamr_comm::abi::window::Window;
use hamr_comm::registry::Table;
use hamr_comm::{Enter, Entry, Handler};
use std::sync::Arc;

/// One handler of a device's image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerInfo {
    /// Path, with type arguments.
    pub name: String,
    /// Index in the device's table: the key on the wire.
    pub key: u16,
    /// Hash of path and type arguments.
    pub id: u64,
    /// Hash of argument and result types.
    pub signature: u64,
    /// Hash of the source tokens.
    pub body: u64,
    /// Bits of [`record_flag`].
    pub flags: u32,
}

impl HandlerInfo {
    /// Does the image contain its body?
    pub fn has_body(&self) -> bool {
        self.flags & record_flag::HAS_BODY != 0
    }

    /// Its flags in words: `inline`, `task` or `host`, then `unordered`, `no body`.
    pub fn flag_names(&self) -> Vec<&'static str> {
        let kinds = [(record_flag::TASK, "task"), (record_flag::HOST, "host")];
        let kind = kinds.into_iter().find(|(flag, _)| self.flags & flag != 0);
        let mut names = vec![kind.map_or("inline", |(_, name)| name)];
        if self.flags & record_flag::UNORDERED != 0 {
            names.push("unordered");
        }
        if !self.has_body() {
            names.push("no body");
        }
        names
    }
}

/// Copies a device's table out of its section. Every field is checked; errors name the fault.
pub(crate) fn read_table<K>(window: &Window<K>, section: Section) -> Result<Vec<HandlerInfo>, String> {
    let bad = |what: String| format!("a handler table with {what}");
    let header: TableHeader = window.read(section.off).map_err(|e| bad(e.to_string()))?;
    let records = u64::from(header.count) * size_of::<TableRecord>() as u64;
    if header.count as usize > HandlerKey::PER_MODULE || size_of::<TableHeader>() as u64 + records > section.len {
        return Err(bad(format!("{} records in {} bytes", header.count, section.len)));
    }
    let mut handlers = Vec::with_capacity(header.count as usize);
    for key in 0..header.count {
        let at = section.off + (size_of::<TableHeader>() + key as usize * size_of::<TableRecord>()) as u64;
        let record: TableRecord = window.read(at).map_err(|e| bad(e.to_string()))?;
        let end = u64::from(record.name_off) + u64::from(record.name_len);
        if end > section.len || record.name_len > 4096 {
            return Err(bad(format!("a name of {} bytes at {}", record.name_len, record.name_off)));
        }
        let mut name = vec![0; record.name_len as usize];
        window.read_bytes(section.off + u64::from(record.name_off), &mut name).map_err(|e| bad(e.to_string()))?;
        handlers.push(HandlerInfo {
            name: String::from_utf8_lossy(&name).into_owned(),
            key: key as u16,
            id: record.id,
            signature: record.signature,
            body: record.body,
            flags: record.flags,
        });
    }
    Ok(handlers)
}

/// Rows of the table. At least half of them are empty for any image. The number is a constant, so
/// the index of a handler's row is constant too.
const ROWS: usize = 2 * HandlerKey::PER_MODULE;

/// The tag of an empty row. A handler whose own tag is zero cannot be found, and is refused as
/// missing.
const UNUSED: u64 = 0;

#[derive(Clone, Copy)]
struct Row {
    /// Of a handler's id and signature together: one comparison decides whether it may be called.
    tag: u64,
    key: HandlerKey,
}

/// Handler → key, O(1): nearly always in the first row that is probed. Streams share it.
#[derive(Clone)]
pub(crate) struct Keys {
    rows: Arc<[Row; ROWS]>,
}

impl Keys {
    pub(crate) fn of(handlers: &[HandlerInfo]) -> Self {
        let mut rows = vec![Row { tag: UNUSED, key: HandlerKey::MISSING }; ROWS];
        for h in handlers.iter().filter(|h| h.has_body()) {
            let tag = hash_join(h.id, h.signature);
            if let Some(row) = probes(tag).find(|at| rows[*at].tag == UNUSED) {
                rows[row] = Row { tag, key: HandlerKey::of_index(h.key) };
            }
        }
        let rows: Arc<[Row]> = rows.into();
        let rows = rows.try_into().unwrap_or_else(|_| unreachable!("it was made with so many rows"));
        Self { rows }
    }

    /// What [`Self::key_of`] finds `H` by.
    pub(crate) const fn tag<H: Handler>() -> u64 {
        hash_join(H::ID, H::SIGNATURE)
    }

    /// The key of `H`, when the device can run it.
    #[inline(always)]
    pub(crate) fn key<H: Handler>(&self) -> Option<HandlerKey> {
        self.key_of(const { Self::tag::<H>() })
    }

    /// [`Self::key`] by the handler's tag.
    #[inline(always)]
    pub(crate) fn key_of(&self, tag: u64) -> Option<HandlerKey> {
        self.first_key_of(tag).or_else(|| self.key_further_on(tag))
    }

    /// [`Self::key`] from the row where it nearly always is.
    #[inline(always)]
    pub(crate) fn first_key<H: Handler>(&self) -> Option<HandlerKey> {
        self.first_key_of(const { Self::tag::<H>() })
    }

    #[inline(always)]
    fn first_key_of(&self, tag: u64) -> Option<HandlerKey> {
        let row = &self.rows[tag as usize % ROWS];
        (row.tag == tag).then_some(row.key)
    }

    #[cold]
    #[inline(never)]
    fn key_further_on(&self, tag: u64) -> Option<HandlerKey> {
        let row = probes(tag).map(|at| &self.rows[at]).find(|row| row.tag == tag || row.tag == UNUSED)?;
        (row.tag == tag && tag != UNUSED).then_some(row.key)
    }
}

/// The rows in which a handler may be, the likeliest first.
fn probes(tag: u64) -> impl Iterator<Item = usize> {
    (0..ROWS).map(move |step| (tag as usize).wrapping_add(step) % ROWS)
}

/// The reason why [`Keys::key`] found no key for `H`.
#[cold]
pub(crate) fn why_not<H: Handler>(handlers: &[HandlerInfo], site: Box<Site>) -> SubmitError {
    match handlers.iter().find(|h| h.id == H::ID) {
        // No image has an entry of a body on the host.
        None if <H::Kind as Enter>::FLAGS & record_flag::HOST != 0 => SubmitError::NoBody { site },
        None => SubmitError::MissingHandler { site },
        Some(h) if h.signature == H::SIGNATURE && !h.has_body() => SubmitError::NoBody { site },
        Some(_) => SubmitError::OtherSignature { site },
    }
}

/// The differences between the host's own handlers and the device's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Differences {
    /// The host has it, the device has not.
    pub missing: Vec<&'static str>,
    /// Both have it, with other types.
    pub other_signature: Vec<&'static str>,
    /// Both have it, from other source: the image is stale.
    pub stale: Vec<&'static str>,
}

/// Compares at attach: calls of missing or differing handlers are refused by name, the others work.
pub(crate) fn compare(host: Table, device: &[HandlerInfo]) -> Differences {
    let mut found = Differences::default();
    for e in host.iter() {
        let Entry { name, id, signature, body, flags, .. } = *e;
        match device.iter().find(|d| d.id == id) {
            // A device that does not know it does not call it.
            None if flags & record_flag::HOST != 0 => {}
            None => found.missing.push(name),
            Some(d) if d.signature != signature => found.other_signature.push(name),
            Some(d) if d.body != body => found.stale.push(name),
            Some(_) => {}
        }
    }
    found
}
