//! Segments: how they are made, bound to the rank's endpoint, and published to others.
//!
//! Each is a part of the segment that the world gives this rank, which all ranks map. A program's own memory
//! becomes such a part: its pages are copied there, and the part is mapped in their place, so that the program
//! and the other ranks have the same bytes.

#![expect(unsafe_code)]
// UNSAFETY: exported names; segments are pointers in C, and a program's memory is mapped anew.

use crate::board::{self, Fact, PAGE};
use crate::collectives::meet_in;
use crate::die::die;
use crate::errors::{ERR_BAD_ARG, ERR_RESOURCE, complain, give};
use crate::job::{self, common};
use crate::segments::{bound, longest, mapped, set_bound};
use crate::team::{self, Team};
use crate::{objects, shared, start};
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// `GEX_MK_HOST`.
const HOST: usize = 1;

/// `gex_Segment_t`.
struct Segment {
    /// Where the program sees it.
    owner: *mut u8,
    /// Where it is in the rank's segment of the world.
    off: u64,
    size: usize,
    /// The pages that it takes there; of the program's memory, those that it shares with other segments, too.
    pages: Range<u64>,
    is_programs: bool,
    flags: u32,
    cdata: AtomicPtr<c_void>,
}

/// The pages of this rank that segments have.
static TAKEN: Mutex<Vec<Range<u64>>> = Mutex::new(Vec::new());

/// Pages that no segment has.
fn take(len: u64) -> Option<Range<u64>> {
    let mut taken = common(&TAKEN);
    let ends = taken.iter().map(|range| range.end).chain([0]);
    let is_free = |range: &Range<u64>| {
        range.end <= longest() && taken.iter().all(|other| range.end <= other.start || other.end <= range.start)
    };
    let free = ends.map(|start| start..start.saturating_add(len)).filter(is_free).min_by_key(|range| range.start)?;
    taken.push(free.clone());
    Some(free)
}

/// Makes a segment, of the program's memory at `address` or, for NULL, of the library's.
fn create(function: &str, address: *mut u8, size: usize, flags: u32) -> Result<*mut Segment, c_int> {
    let lead = address.addr() as u64 % PAGE;
    let too_long = || {
        complain(&format!(
            "{function}: expected segments of at most {} bytes together, got one more of {size}; GASNET_MAX_SEGSIZE sets \
             the limit of ranks that start by themselves, --segment that of hamr run",
            longest()
        ));
        ERR_RESOURCE
    };
    // It ends within the address space, also when it is rounded to pages.
    let len = lead.checked_add(size as u64).and_then(|len| len.checked_next_multiple_of(PAGE));
    let len = match len.filter(|len| (address.addr() as u64 - lead).checked_add(*len).is_some()) {
        Some(len) => len,
        None if address.is_null() => return Err(too_long()),
        None => die(&format!("{function}: expected memory, got {size} bytes at {address:p}, which are none")),
    };
    let base = job::with_world(|world| board::address(world, world.me().0).0);
    let is_programs = !address.is_null();
    let (owner, pages) = match is_programs {
        false => {
            let pages = take(len).ok_or_else(&too_long)?;
            (base.wrapping_add(pages.start as usize), pages)
        }
        true => {
            refuse_others(function, address.addr(), size);
            let first = address.wrapping_sub(lead as usize);
            let pages = match shared::find(function, first.addr(), len, address.addr()..address.addr() + size) {
                Some(off) => off..off + len,
                None => {
                    let pages = take(len).ok_or_else(&too_long)?;
                    let here = base.wrapping_add(pages.start as usize);
                    // SAFETY: these are pages of this rank's segment, in a mapping of a shared file, which no other segment
                    // has; and the pages of memory that the program gives for as long as the segment exists (contract of C).
                    if !unsafe { share(first, here, len as usize) } {
                        complain(&format!("{function}: the system does not share the {size} bytes at {address:p}"));
                        give_back(&pages);
                        return Err(ERR_RESOURCE);
                    }
                    pages
                }
            };
            shared::add(first.addr(), &pages, address.addr()..address.addr() + size);
            (address, pages)
        }
    };
    let off = pages.start + lead;
    let segment = Segment { owner, off, size, pages, is_programs, flags, cdata: AtomicPtr::new(null_mut()) };
    Ok(Box::into_raw(Box::new(segment)))
}

/// Memory that may not become a segment: segments of ranks, as they are mapped here, and the stack that this runs on.
fn refuse_others(function: &str, address: usize, size: usize) {
    let overlaps = |other: Range<usize>| address < other.end && other.start < address + size;
    job::with_world(|world| {
        for rank in 0..world.size() {
            let begin = board::address(world, rank).0.addr();
            if overlaps(begin..begin + board::segment_len(world, rank) as usize) {
                die(&format!(
                    "{function}: expected memory of the program, got {address:#x}, in a segment of rank {rank}"
                ));
            }
        }
    });
    // Whole pages are copied.
    let stack = start::stack();
    let page = PAGE as usize;
    if overlaps(stack.start / page * page..stack.end.next_multiple_of(page)) {
        die(&format!(
            "{function}: expected memory that is not used meanwhile, got {address:#x}, in the stack of this thread"
        ));
    }
}

/// Pages of this rank are free again.
fn give_back(pages: &Range<u64>) {
    let mut taken = common(&TAKEN);
    let left = taken.iter().flat_map(|range| {
        let parts = [
            range.start..range.end.min(pages.start.max(range.start)),
            range.start.max(pages.end.min(range.end))..range.end,
        ];
        parts.into_iter().filter(|part| part.start < part.end)
    });
    *taken = left.collect();
}

/// Maps shared pages in the place of a program's, with the same bytes. False: the system refuses.
///
/// # Safety
/// `len` bytes of whole pages at both; nothing else uses the program's meanwhile.
unsafe fn share(programs: *mut u8, shared: *mut u8, len: usize) -> bool {
    // SAFETY: the caller's promise; both are mapped, and they do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(programs, shared, len) };
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: an old length of 0 leaves the shared pages where they are and maps them again at the program's address,
    // where they have the bytes that were there.
    let at = unsafe { libc::mremap(shared.cast(), 0, len, flags, programs) };
    at == programs.cast()
}

/// Gives a program private pages again in the place of shared ones. False: the system refuses.
///
/// # Safety
/// As of [`share`].
unsafe fn unshare(programs: *mut u8, len: usize) -> bool {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new pages, wherever there is room.
    let fresh = unsafe { libc::mmap(null_mut(), len, access, flags, -1, 0) };
    if fresh == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the caller's promise, and new pages.
    unsafe { std::ptr::copy_nonoverlapping(programs, fresh.cast(), len) };
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: the new pages replace the program's, with the same bytes.
    let at = unsafe { libc::mremap(fresh, len, len, flags, programs) };
    at == programs.cast()
}

/// Binds a segment to the endpoint. This rank may reach it from now on.
fn bind(function: &str, segment: *mut Segment) -> c_int {
    if !set_bound(segment.cast()) {
        complain(&format!("{function}: the endpoint has a segment, which stays"));
        return ERR_RESOURCE;
    }
    // SAFETY: it was made by `create`, and a bound one stays.
    let Segment { owner, off, size, .. } = unsafe { &*segment };
    let base = job::with_world(|world| board::address(world, world.me().0).0);
    mapped(team::me()).set(owner.expose_provenance(), base.wrapping_add(*off as usize), *off, *size);
    0
}

/// States the bound segment for the others.
fn state() {
    let mine = mapped(team::me());
    board::state(Fact::Base, mine.owner() as u64);
    board::state(Fact::Off, mine.off());
    board::state(Fact::Len, mine.size() as u64);
}

/// Learns what the members of a team have stated.
fn learn(function: &str, team: &Team) {
    job::with_world(|world| {
        for rank in (0..team.size()).map(|rank| team.jobrank(function, rank)) {
            let fact = |fact| board::fact(rank, fact);
            // The length, which a rank states last, comes first: that rank may state its segment for a later call now.
            let (size, owner, off) = (fact(Fact::Len), fact(Fact::Base), fact(Fact::Off));
            if rank == world.me().0 || size == 0 {
                continue;
            }
            // What it states must be in its part of the world, in front of its board, and its addresses must not wrap.
            let room = board::segment_len(world, rank).saturating_sub(board::BYTES);
            if off.checked_add(size).is_none_or(|end| end > room) || owner.checked_add(size).is_none() {
                die(&format!(
                    "{function}: expected a segment of rank {rank} within its {room} bytes, got {size} bytes at {off:#x}, at \
                     {owner:#x} there"
                ));
            }
            let local = board::address(world, rank).0.wrapping_add(off as usize);
            mapped(rank).set(owner as usize, local, off, size as usize);
        }
    });
}

/// Makes, binds and publishes a segment of each rank; all call it. No bytes: this rank has none.
pub(crate) fn attach(size: usize) -> c_int {
    if !(size as u64).is_multiple_of(PAGE) || size as u64 > longest() {
        complain(&format!(
            "expected a segment of at most {} bytes, in pages of {PAGE}, got {size}; GASNET_MAX_SEGSIZE sets the limit of \
             ranks that start by themselves, --segment that of hamr run",
            longest()
        ));
        return ERR_BAD_ARG;
    }
    if !bound().is_null() {
        complain("a segment is attached already");
        return ERR_RESOURCE;
    }
    let segment = match create("gex_Segment_Attach", null_mut(), size, 0) {
        Ok(segment) => segment,
        Err(why) => return why,
    };
    match bind("gex_Segment_Attach", segment) {
        0 => state(),
        why => return why,
    }
    // SAFETY: it is a static.
    let all = unsafe { Team::of(team::all()) };
    meet_in("gex_Segment_Attach", all);
    learn("gex_Segment_Attach", all);
    0
}

/// Makes a segment of host memory.
///
/// # Safety
/// A place for the handle; `size` bytes at `address`, or NULL.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_Segment_Create(
    segment_p: *mut *mut c_void,
    _client: *mut c_void,
    address: *mut c_void,
    size: usize,
    kind: *mut c_void,
    flags: u32,
) -> c_int {
    const FUNCTION: &str = "gex_Segment_Create";
    job::check(FUNCTION);
    if kind.addr() != HOST || size == 0 {
        complain(&format!("{FUNCTION}: expected some bytes of GEX_MK_HOST, got {size} of kind {kind:p}"));
        return ERR_BAD_ARG;
    }
    let _locked = job::lock();
    match create(FUNCTION, address.cast(), size, flags) {
        Ok(segment) => {
            // SAFETY: the caller's promise.
            unsafe { give(segment_p, segment.cast()) };
            0
        }
        Err(why) => why,
    }
}

/// Ends a segment that is not bound. A program's memory is its own again, with the same bytes.
///
/// # Safety
/// A segment.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_Segment_Destroy(segment: *mut c_void, _flags: u32) {
    const FUNCTION: &str = "gex_Segment_Destroy";
    job::check(FUNCTION);
    let _locked = job::lock();
    if segment == bound() {
        die(&format!("{FUNCTION}: the segment is bound, and stays"));
    }
    // SAFETY: the caller's promise; `create` made it of a box.
    let Segment { owner, size, pages, is_programs, .. } = *unsafe { Box::from_raw(segment.cast::<Segment>()) };
    if !is_programs {
        return give_back(&pages);
    }
    let first = owner.wrapping_sub(owner.addr() % PAGE as usize);
    // The first and the last page may be those of other segments, too; a page is private again behind the last of them.
    for at in shared::remove(first.addr(), &pages, owner.addr()..owner.addr() + size) {
        let len = (at.end - at.start) as usize;
        let programs = first.wrapping_add((at.start - pages.start) as usize);
        // SAFETY: pages which `create` has mapped there, and which nothing uses meanwhile (contract of C).
        match unsafe { unshare(programs, len) } {
            true => give_back(&at),
            // They stay as they are, and with them their place in this rank's segment.
            false => complain(&format!("{FUNCTION}: the system has no memory for the {len:#x} bytes at {programs:p}")),
        }
    }
}

/// Binds a segment to the endpoint, which has none.
///
/// # Safety
/// A segment, or NULL.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_EP_BindSegment(ep: *mut c_void, segment: *mut c_void, flags: u32) -> c_int {
    const FUNCTION: &str = "gex_EP_BindSegment";
    job::check(FUNCTION);
    if ep != objects::endpoint() || segment.is_null() || flags != 0 {
        complain(&format!(
            "{FUNCTION}: expected this rank's endpoint, a segment and no flags, got {ep:p}, {segment:p} and {flags:#x}"
        ));
        return ERR_BAD_ARG;
    }
    let _locked = job::lock();
    bind(FUNCTION, segment.cast())
}

/// Lets the members of a team reach each other's segments; all of them call it.
///
/// # Safety
/// A team, and `count` endpoints.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_EP_PublishBoundSegment(
    tm: *const Team,
    eps: *const *mut c_void,
    count: usize,
    flags: u32,
) -> c_int {
    const FUNCTION: &str = "gex_EP_PublishBoundSegment";
    if flags != 0 {
        return ERR_BAD_ARG;
    }
    // SAFETY: the caller's promise.
    let team = unsafe { Team::of(tm) };
    if count != 0 {
        // SAFETY: the caller's promise.
        let eps = unsafe { std::slice::from_raw_parts(eps, count) };
        if eps.iter().any(|ep| *ep != objects::endpoint()) {
            die(&format!("{FUNCTION}: expected the endpoint of this rank"));
        }
        state();
    }
    meet_in(FUNCTION, team);
    learn(FUNCTION, team);
    0
}

macro_rules! queries {
    ($($name:ident($segment:ident $(, $arg:ident: $t:ty)?) -> $r:ty = $value:expr;)*) => {$(
        /// A query of the specification.
        ///
        /// # Safety
        /// A segment.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(segment: *const c_void $(, $arg: $t)?) -> $r {
            if segment.is_null() {
                die(concat!(stringify!($name), ": expected a segment, got GEX_SEGMENT_INVALID"));
            }
            // SAFETY: the caller's promise.
            let $segment = unsafe { &*segment.cast::<Segment>() };
            $value
        }
    )*};
}
queries! {
    gex_Segment_QueryFlags(segment) -> u32 = segment.flags;
    gex_Segment_QueryAddr(segment) -> *mut u8 = segment.owner;
    gex_Segment_QuerySize(segment) -> usize = segment.size;
    gex_Segment_SetCData(segment, value: *mut c_void) -> () = segment.cdata.store(value, Relaxed);
    gex_Segment_QueryCData(segment) -> *mut c_void = segment.cdata.load(Relaxed);
}
