//! A team: an ordered set of ranks, one of `hamr-gas` with its scratch on the boards.

#![expect(unsafe_code)]
// UNSAFETY: teams are pointers in C.

use crate::board;
use crate::die::die;
use crate::job::{self, CRank, Common, common};
use crate::segments::{MAX_RANKS, Mapped, NO_SEGMENT, mapped};
use hamr_gas::GasError;
use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

/// `struct hamr_gex_tm` of the header, and behind it what only the library reads.
#[repr(C)]
pub(crate) struct Team {
    pub(crate) rank: AtomicU32,
    pub(crate) size: AtomicU32,
    /// The segments of its members, which stay where they are; behind them those of no rank.
    mapped: [AtomicPtr<Mapped>; MAX_RANKS],
    /// Of teams that programs make: its members' ranks in the job.
    pub(crate) members: OnceLock<Vec<u32>>,
    inner: Common<Option<hamr_gas::Team>>,
    pub(crate) flags: AtomicU32,
    pub(crate) cdata: AtomicPtr<c_void>,
    /// Given by the program.
    pub(crate) scratch: AtomicPtr<c_void>,
    pub(crate) scratch_len: AtomicU64,
}

const _: () = assert!(offset_of!(Team, rank) == 0 && offset_of!(Team, size) == 4 && offset_of!(Team, mapped) == 8);

/// Bytes that a rank can say in a step.
pub(crate) const STEP_BYTES: usize = hamr_gas::Team::PART;

impl Team {
    pub(crate) const fn new() -> Self {
        Self {
            rank: AtomicU32::new(0),
            size: AtomicU32::new(0),
            mapped: [const { AtomicPtr::new((&raw const NO_SEGMENT).cast_mut()) }; MAX_RANKS],
            members: OnceLock::new(),
            inner: Common::new(None),
            flags: AtomicU32::new(0),
            cdata: AtomicPtr::new(null_mut()),
            scratch: AtomicPtr::new(null_mut()),
            scratch_len: AtomicU64::new(0),
        }
    }

    /// One that a program has made.
    pub(crate) fn made(team: hamr_gas::Team) -> Self {
        let this = Self::new();
        let ranks: Vec<u32> = (0..team.size()).filter_map(|place| team.rank(place)).map(|rank| rank.0).collect();
        this.begin(team.me(), &ranks);
        // It is new.
        let _ = this.members.set(ranks);
        this.inner.with(|inner| *inner = Some(team));
        this
    }

    /// States its members.
    fn begin(&self, me: u32, jobranks: &[u32]) {
        self.rank.store(me, Relaxed);
        self.size.store(jobranks.len() as u32, Relaxed);
        for (to, jobrank) in self.mapped.iter().zip(jobranks) {
            to.store(std::ptr::from_ref(mapped(*jobrank)).cast_mut(), Relaxed);
        }
    }

    /// The ranks in the job of its members; NULL: each is its own.
    pub(crate) fn jobranks(&self) -> *const u32 {
        self.members.get().map_or(null(), |members| members.as_ptr())
    }

    /// A call of the team.
    pub(crate) fn with<R>(
        &self,
        function: &str,
        f: impl FnOnce(&mut hamr_gas::Team, &mut CRank) -> Result<R, GasError>,
    ) -> R {
        self.inner.with(|inner| {
            job::with_rank(function, |rank| {
                let called = inner.as_mut().ok_or(GasError::NotAttached).and_then(|team| f(team, rank));
                called.unwrap_or_else(|why| job::failed(function, &why))
            })
        })
    }

    /// # Safety
    /// A team of this library that was not destroyed, or NULL.
    pub(crate) unsafe fn of<'a>(tm: *const Self) -> &'a Self {
        // SAFETY: the caller's promise.
        unsafe { tm.as_ref() }.unwrap_or_else(|| die("expected a team, got GEX_TM_INVALID"))
    }

    pub(crate) fn rank(&self) -> u32 {
        self.rank.load(Relaxed)
    }
    pub(crate) fn size(&self) -> u32 {
        self.size.load(Relaxed)
    }

    /// The rank in the job of a member.
    pub(crate) fn jobrank(&self, function: &str, rank: u32) -> u32 {
        if rank >= self.size() {
            die(&format!("{function}: expected a rank below {}, got {rank}", self.size()));
        }
        self.members.get().and_then(|members| members.get(rank as usize)).copied().unwrap_or(rank)
    }

    pub(crate) fn rank_of(&self, jobrank: u32) -> Option<u32> {
        match self.members.get() {
            None => Some(jobrank).filter(|rank| *rank < self.size()),
            Some(members) => members.iter().position(|rank| *rank == jobrank).map(|at| at as u32),
        }
    }
}

/// All ranks of the job.
#[unsafe(export_name = "hamr_gex_all")]
static ALL: Team = Team::new();
/// What `gex_TM_Pair` gives: all ranks, and no collectives.
static PAIR: Team = Team::new();

/// Scratches of this rank that no team has.
static FREE: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Sets the teams of all ranks, when they are attached.
pub(crate) fn begin(rank: &mut CRank) -> Result<(), GasError> {
    let jobranks: Vec<u32> = (0..rank.size()).collect();
    for team in [&ALL, &PAIR] {
        team.begin(rank.me().0, &jobranks);
    }
    let mut free: Vec<u64> =
        job::with_world(|world| (0..board::SCRATCHES).rev().map(|number| board::scratch(world, number)).collect());
    // At the same place of every segment.
    let all = hamr_gas::Team::all(rank, free.pop().unwrap_or(0))?;
    ALL.inner.with(|inner| *inner = Some(all));
    *common(&FREE) = free;
    Ok(())
}

pub(crate) fn me() -> u32 {
    ALL.rank()
}
pub(crate) fn size() -> u32 {
    ALL.size()
}
pub(crate) fn all() -> *const Team {
    &raw const ALL
}

/// Takes a scratch of this rank, for a team that is made.
pub(crate) fn take_scratch(function: &str) -> u64 {
    let scratch = common(&FREE).pop();
    scratch.unwrap_or_else(|| die(&format!("{function}: expected at most {} teams at a time", board::SCRATCHES - 1)))
}

/// That of a team that has ended.
pub(crate) fn give_scratch_back(team: &Team) {
    common(&FREE).extend(team.inner.with(Option::take).map(|team| team.scratch()));
}

/// Pairs of endpoints have no collectives.
pub(crate) fn check_collective(function: &str, team: &Team) {
    if std::ptr::eq(team, &raw const PAIR) {
        die(&format!("{function}: expected a team, got a pair of endpoints"));
    }
}

pub(crate) fn pair() -> *const Team {
    &raw const PAIR
}
