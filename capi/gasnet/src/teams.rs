//! Teams that programs make, and what they ask of them.

#![expect(unsafe_code)]
// UNSAFETY: teams are pointers in C.

use crate::collectives::finish;
use crate::die::die;
use crate::errors::give;
use crate::job;
use crate::objects::{client, endpoint};
use crate::operations::{What, begin};
use crate::team::{Team, give_scratch_back, me, pair, take_scratch};
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::Ordering::Relaxed;

const SCRATCH_SIZE: u32 = 3;
const NO_SCRATCH: u32 = 1 << 5;
const RANK_IS_JOBRANK: u32 = 1 << 13;
/// What programs are told to give: nothing is used of it.
const RECOMMENDED: usize = 4096;

/// All members of `parent` say what they wish; those of this one's color become a team.
fn make(
    function: &'static str,
    parent: &'static Team,
    wish: Option<(u32, i32)>,
    scratch: (*mut c_void, usize),
    flags: u32,
) -> *const Team {
    job::check(function);
    let (color, key) = wish.unzip();
    let (key, own) = (key.unwrap_or(0), color.map_or(0, |_| take_scratch(function)));
    let what = What::Split { color, key, scratch: own, wish: None, made: None };
    let What::Split { made: Some(team), .. } = finish(function, begin(function, parent, what)) else { return null() };
    let team = Team::made(*team);
    team.flags.store(flags, Relaxed);
    if flags & NO_SCRATCH == 0 {
        team.scratch.store(scratch.0, Relaxed);
        team.scratch_len.store(scratch.1 as u64, Relaxed);
    }
    Box::into_raw(Box::new(team))
}

/// Splits a team by color, ordered by key and then by rank.
///
/// # Safety
/// A team, and a place for the new one or NULL.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_TM_Split(
    new_tm_p: *mut *const Team,
    parent: *const Team,
    color: c_int,
    key: c_int,
    scratch: *mut c_void,
    scratch_len: usize,
    flags: u32,
) -> usize {
    // SAFETY: the caller's promise.
    let parent = unsafe { Team::of(parent) };
    if flags & SCRATCH_SIZE != 0 {
        return if new_tm_p.is_null() { 0 } else { RECOMMENDED };
    }
    let wish = (!new_tm_p.is_null()).then_some((color as u32, key));
    let team = make("gex_TM_Split", parent, wish, (scratch, scratch_len), flags);
    if !team.is_null() {
        // SAFETY: the caller's promise.
        unsafe { give(new_tm_p, team) };
    }
    0
}

/// `gex_EP_Location_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Location {
    rank: u32,
    ep: u16,
}

/// Makes a team of listed members: the parent's members with the same list.
///
/// # Safety
/// A team, `count` members at `members`, and a place for the new team.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_TM_Create(
    new_tms: *mut *const Team,
    new_count: usize,
    parent: *const Team,
    members: *const Location,
    count: usize,
    scratch: *const *mut c_void,
    scratch_len: usize,
    flags: u32,
) -> usize {
    // SAFETY: the caller's promise.
    let parent = unsafe { Team::of(parent) };
    if flags & SCRATCH_SIZE != 0 {
        return if count == 0 { 0 } else { RECOMMENDED };
    }
    let list = match count {
        0 => &[],
        // SAFETY: the caller's promise.
        _ => unsafe { std::slice::from_raw_parts(members, count) },
    };
    let jobrank = |member: &Location| match flags & RANK_IS_JOBRANK {
        0 => parent.jobrank("gex_TM_Create", member.rank),
        _ if parent.rank_of(member.rank).is_some() => member.rank,
        _ => die(&format!("gex_TM_Create: expected ranks of the parent team, got rank {} of the job", member.rank)),
    };
    if let Some(other) = list.iter().find(|member| member.ep != 0) {
        die(&format!("gex_TM_Create: expected endpoint 0 of each rank, got {}", other.ep));
    }
    let list: Vec<u32> = list.iter().map(jobrank).collect();
    if let Some((_, twice)) = list.iter().enumerate().find(|(at, rank)| list[..*at].contains(rank)) {
        die(&format!("gex_TM_Create: expected each rank once, got rank {twice} of the job twice"));
    }
    // Lists are equal or disjoint, so the first member names the team.
    let at = list.iter().position(|rank| *rank == me());
    let color = list.first().copied().unwrap_or(0);
    // Without a list the rest does not count.
    if count != 0 && at.is_some() != (new_count == 1) {
        die(&format!("gex_TM_Create: expected a place for the team of this rank, got {new_count}"));
    }
    let address = match (scratch.is_null() || flags & NO_SCRATCH != 0, flags & 4 != 0, at) {
        (false, true, Some(at)) => {
            // SAFETY: the flag says that there is an address per member.
            let of = unsafe { scratch.add(at) };
            // SAFETY: as above.
            unsafe { *of }
        }
        // SAFETY: there is one.
        (false, false, Some(_)) => unsafe { *scratch },
        _ => null_mut(),
    };
    let team = make("gex_TM_Create", parent, at.map(|at| (color, at as i32)), (address, scratch_len), flags);
    if !team.is_null() {
        // Each member sees that its own list is that of the team, so all have the same.
        // SAFETY: `make` has made it.
        let made = unsafe { &*team }.members.get().map_or(&[][..], Vec::as_slice);
        if *made != list {
            die(&format!(
                "gex_TM_Create: expected the same list of all its members, got {list:?}, of which {made:?} have said so"
            ));
        }
        // SAFETY: the caller's promise.
        unsafe { give(new_tms, team) };
    }
    0
}

/// `gex_Memvec_t`.
#[repr(C)]
pub(crate) struct Memvec {
    pub(crate) addr: *mut c_void,
    pub(crate) len: usize,
}

/// Destroys a team; its members call it. 1: the program gets its scratch memory back.
///
/// # Safety
/// A team that nothing uses any more, and a place for the memory or NULL.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_TM_Destroy(tm: *const Team, scratch_p: *mut Memvec, _flags: u32) -> c_int {
    job::check("gex_TM_Destroy");
    // SAFETY: the caller's promise.
    let team = unsafe { Team::of(tm) };
    if team.members.get().is_none() {
        die("gex_TM_Destroy: the team of all ranks lasts as long as the job");
    }
    finish("gex_TM_Destroy", begin("gex_TM_Destroy", team, What::Destroy { has_left: false }));
    give_scratch_back(team);
    let (addr, len) = (team.scratch.load(Relaxed), team.scratch_len.load(Relaxed) as usize);
    // SAFETY: `make` made it of a box; the program has given it back.
    drop(unsafe { Box::from_raw(tm.cast_mut()) });
    if addr.is_null() || scratch_p.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { give(scratch_p, Memvec { addr, len }) };
    1
}

#[unsafe(no_mangle)]
extern "C" fn gex_TM_Pair(_ep: *mut c_void, ep_index: u16) -> *const Team {
    if ep_index != 0 {
        die(&format!("gex_TM_Pair: expected endpoint 0, got {ep_index}"));
    }
    pair()
}

#[unsafe(no_mangle)]
extern "C" fn gex_TM_QueryClient(_: *const Team) -> *mut c_void {
    client()
}
#[unsafe(no_mangle)]
extern "C" fn gex_TM_QueryEP(_: *const Team) -> *mut c_void {
    endpoint()
}

macro_rules! queries {
    ($($name:ident($team:ident $(, $arg:ident: $t:ty)*) -> $r:ty = $value:expr;)*) => {$(
        /// A query of the specification.
        ///
        /// # Safety
        /// A team.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(tm: *const Team $(, $arg: $t)*) -> $r {
            // SAFETY: the caller's promise.
            let $team = unsafe { Team::of(tm) };
            $value
        }
    )*};
}
queries! {
    gex_TM_QueryFlags(team) -> u32 = team.flags.load(Relaxed);
    gex_TM_SetCData(team, value: *mut c_void) -> () = team.cdata.store(value, Relaxed);
    gex_TM_QueryCData(team) -> *mut c_void = team.cdata.load(Relaxed);
    gex_TM_TranslateRankToJobrank(team, rank: u32) -> u32 = team.jobrank("gex_TM_TranslateRankToJobrank", rank);
    gex_TM_TranslateJobrankToRank(team, jobrank: u32) -> u32 = team.rank_of(jobrank).unwrap_or(u32::MAX);
    gex_TM_TranslateRankToEP(team, rank: u32, _flags: u32) -> Location =
        Location { rank: team.jobrank("gex_TM_TranslateRankToEP", rank), ep: 0 };
}
