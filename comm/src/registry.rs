//! The static handler table, as the linker left it (abi §3.7; contract "registry").
//!
//! Bare metal: entries go to sections `.hamr.handlers.v2.<path>`, which the linker script sorts by
//! name into one read-only array: no start-up code. Hosted: entries go to one section whose name is
//! a C identifier, for which the linker defines `__start_` and `__stop_`; the first reader sorts
//! once.

#![expect(unsafe_code)]
// UNSAFETY: the array between two linker symbols has no other way in. The entry macro is here as
// well because placing a static in a section counts as unsafe.
//
// Contract "registry". `links` in the manifest keeps a second `Entry` out of the binary. A program
// that places something else in the section breaks its own table, as with any `link_section`. Indices
// travel, never addresses.

use crate::handler::Entry;
#[cfg(not(hamr_bare))]
use hamr_shared_abi::table::record_flag;
use hamr_shared_abi::table::{TableHeader, TableRecord, hash, hash_join};

/// A table in the order in which bare-metal linkers sort, which every side computes for itself.
/// Index = key of module 0.
#[derive(Clone, Copy)]
pub struct Table {
    rows: &'static [Row],
}

#[cfg(hamr_bare)]
type Row = Entry;
#[cfg(not(hamr_bare))]
type Row = &'static Entry;

impl core::fmt::Debug for Table {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter().map(|e| e.name)).finish()
    }
}

/// Two handlers with one name or one id; their names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Duplicate {
    /// Index of the first.
    pub first: usize,
    /// Its name.
    pub name: &'static str,
}

impl core::fmt::Display for Duplicate {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "two handlers are named `{}`: give one of them #[offload(name = \"…\")], or drop one of two `register!`s",
            self.name
        )
    }
}
impl core::error::Error for Duplicate {}

impl Table {
    /// No handlers.
    pub const EMPTY: Self = Self { rows: &[] };

    /// The table of this binary.
    #[cfg(hamr_bare)]
    pub fn of_this_image() -> Self {
        unsafe extern "C" {
            static __hamr_handlers_start: [u8; 0];
            static __hamr_handlers_end: [u8; 0];
        }
        let start = (&raw const __hamr_handlers_start).cast::<Entry>();
        let end = (&raw const __hamr_handlers_end).cast::<Entry>();
        let count = (end.addr() - start.addr()) / size_of::<Entry>();
        // SAFETY: the linker script collects only `.hamr.handlers.v2.*` between the symbols, the
        // macro below puts only `Entry` statics there, and its ASSERT checks the size and
        // alignment; the memory is read-only and static.
        Self { rows: unsafe { core::slice::from_raw_parts(start, count) } }
    }

    /// The table of this binary; sorted at the first call.
    #[cfg(not(hamr_bare))]
    pub fn of_this_image() -> Self {
        static SORTED: spin::Once<Table> = spin::Once::new();
        unsafe extern "C" {
            #[link_name = "__start_hamr_handlers_v3"]
            static START: [u8; 0];
            #[link_name = "__stop_hamr_handlers_v3"]
            static STOP: [u8; 0];
        }
        *SORTED.call_once(|| {
            let start = (&raw const START).cast::<Entry>();
            let stop = (&raw const STOP).cast::<Entry>();
            let count = (stop.addr() - start.addr()) / size_of::<Entry>();
            // SAFETY: the section of this name holds only `Entry` statics (macro below), side by
            // side because their size is a multiple of their alignment (asserted in `handler`); it
            // is initialised, static data.
            let entries = unsafe { core::slice::from_raw_parts(start, count) };
            Table::of(entries.iter().collect())
        })
    }

    /// The handlers of this program that devices can call (abi §12); made at the first call.
    #[cfg(not(hamr_bare))]
    pub fn of_host_handlers() -> Self {
        static CALLABLE: spin::Once<Table> = spin::Once::new();
        let is_callable = |e: &&Entry| e.has_body() && e.flags & record_flag::HOST != 0;
        *CALLABLE.call_once(|| Self::of(Self::of_this_image().iter().filter(is_callable).collect()))
    }

    /// A table of chosen entries: for tests, and for images that show only some of their handlers.
    #[cfg(not(hamr_bare))]
    pub fn of(mut entries: alloc::vec::Vec<&'static Entry>) -> Self {
        entries.sort_by_key(|e| e.order);
        Self { rows: entries.leak() }
    }

    /// Handlers.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// No handlers.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Its bytes in a window: header, records, names (abi §3.7).
    pub fn wire_len(&self) -> u64 {
        let names: usize = self.iter().map(|e| e.name.len()).sum();
        (size_of::<TableHeader>() + self.len() * size_of::<TableRecord>() + names) as u64
    }

    /// Handler `index`.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<&'static Entry> {
        self.rows.get(index).map(|row| -> &'static Entry { row })
    }

    /// All handlers in order.
    pub fn iter(&self) -> impl Iterator<Item = &'static Entry> + use<> {
        let table = *self;
        (0..table.len()).filter_map(move |i| table.get(i))
    }

    /// Refuses two handlers of one name or id: one of them could never be called.
    pub fn check(&self) -> Result<(), Duplicate> {
        for i in 0..self.len() {
            for j in i + 1..self.len() {
                if let (Some(a), Some(b)) = (self.get(i), self.get(j))
                    && (a.name == b.name || a.id == b.id)
                {
                    return Err(Duplicate { first: i, name: a.name });
                }
            }
        }
        Ok(())
    }

    /// Hash of names and signatures: equal on two sides that were built from the same handlers. A
    /// sum, so that it can be computed over an image file's table in whatever order that is.
    // One copy: the hash is an unrolled loop.
    #[inline(never)]
    pub fn fingerprint(&self) -> u64 {
        self.iter().fold(hash(b"hamr table"), |sum, e| sum.wrapping_add(hash_join(e.id, e.signature)))
    }
}

/// Places the entry of a handler in the table. Called by the expansion of `#[offload]` and by
/// `register!`; defined here under both configurations, so that no configuration of ours leaks into
/// user crates.
#[cfg(hamr_bare)]
#[doc(hidden)]
#[macro_export]
macro_rules! __entry {
    ($handler:ty, $section:expr) => {
        const _: () = {
            const DESCRIBED: $crate::signature::Described = $crate::signature::Described::of::<$handler>();
            #[used]
            #[unsafe(link_section = concat!(".hamr.handlers.v2.", $section))]
            static ENTRY: $crate::Entry = {
                // A name of an instance is in a buffer of fixed size, most of it empty. Here, where
                // the type is known, its length is: an image holds no byte more.
                const TEXT: [u8; DESCRIBED.entry.name.len()] = $crate::migrate::bytes_of(DESCRIBED.entry.name);
                $crate::Entry { name: $crate::migrate::text_of(&TEXT), ..DESCRIBED.entry }
            };
            // The linker script keeps the section in the file and out of memory.
            const LEN: usize = DESCRIBED.record_len();
            #[used]
            #[unsafe(link_section = ".hamr.signatures")]
            static SIGNATURE: [u8; LEN] = DESCRIBED.record();
        };
    };
}

/// See the bare-metal definition.
#[cfg(not(hamr_bare))]
#[doc(hidden)]
#[macro_export]
macro_rules! __entry {
    ($handler:ty, $section:expr) => {
        const _: () = {
            const DESCRIBED: $crate::signature::Described = $crate::signature::Described::of::<$handler>();
            #[used]
            #[unsafe(link_section = "hamr_handlers_v3")]
            static ENTRY: $crate::Entry = DESCRIBED.entry.ordered($section);
            const LEN: usize = DESCRIBED.record_len();
            #[used]
            #[unsafe(link_section = ".hamr.signatures")]
            static SIGNATURE: [u8; LEN] = DESCRIBED.record();
        };
    };
}

/// Returns its argument: proves that the dispatcher runs. Built in, so that the table's section is
/// never empty, which would not link.
#[crate::offload(crate = crate)]
pub fn ping(_cx: &mut crate::Context, token: u64) -> u64 {
    token
}
