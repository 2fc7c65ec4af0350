//! A team: an ordered set of ranks, with a table on the board of each member.

#![expect(unsafe_code)]
// UNSAFETY: teams are pointers in C.

use crate::board;
use crate::die::die;
use crate::job::common;
use hamr_comm::world::WorldRef;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

/// `struct hamr_gex_tm` of the header, and behind it what only the library reads.
#[repr(C)]
pub(crate) struct Team {
    pub(crate) rank: AtomicU32,
    pub(crate) size: AtomicU32,
    /// Points into `members`; NULL: each rank of the job is at its own place.
    pub(crate) jobranks: AtomicPtr<u32>,
    /// Ranks of the job, and the table on each one's board.
    pub(crate) members: OnceLock<Members>,
    /// Steps begun on the board.
    pub(crate) steps: AtomicU64,
    pub(crate) flags: AtomicU32,
    pub(crate) cdata: AtomicPtr<c_void>,
    /// Given by the program.
    pub(crate) scratch: AtomicPtr<c_void>,
    pub(crate) scratch_len: AtomicU64,
}

pub(crate) struct Members {
    pub(crate) jobranks: Vec<u32>,
    pub(crate) tables: Vec<u32>,
}

impl Team {
    pub(crate) const fn new() -> Self {
        Self {
            rank: AtomicU32::new(0),
            size: AtomicU32::new(0),
            jobranks: AtomicPtr::new(null_mut()),
            members: OnceLock::new(),
            steps: AtomicU64::new(0),
            flags: AtomicU32::new(0),
            cdata: AtomicPtr::new(null_mut()),
            scratch: AtomicPtr::new(null_mut()),
            scratch_len: AtomicU64::new(0),
        }
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
        self.members.get().and_then(|members| members.jobranks.get(rank as usize)).copied().unwrap_or(rank)
    }

    pub(crate) fn rank_of(&self, jobrank: u32) -> Option<u32> {
        match self.members.get() {
            None => Some(jobrank).filter(|rank| *rank < self.size()),
            Some(members) => members.jobranks.iter().position(|rank| *rank == jobrank).map(|at| at as u32),
        }
    }

    /// Where a member's table is: its rank in the job, and the table.
    fn place(&self, rank: u32) -> (u32, u32) {
        match self.members.get() {
            None => (rank, self.first_table()),
            Some(Members { jobranks, tables }) => {
                let of = |list: &[u32]| list.get(rank as usize).copied().unwrap_or(0);
                (of(jobranks), of(tables))
            }
        }
    }

    /// Of the two that have all ranks of the job.
    fn first_table(&self) -> u32 {
        u32::from(std::ptr::eq(self, &raw const BARRIER))
    }

    /// Begins the next step with what this member says.
    pub(crate) fn say(&self, world: &WorldRef<'_>, data: &[u8]) -> u64 {
        let step = self.steps.load(Relaxed) + 1;
        self.steps.store(step, Relaxed);
        board::say(world, self.place(self.rank()).1, step, data);
        step
    }

    /// How many members, from the first on, have said their part; looked at from `seen` on.
    pub(crate) fn said(&self, world: &WorldRef<'_>, step: u64, seen: u32) -> u32 {
        let has_said = |rank: &u32| {
            let (jobrank, table) = self.place(*rank);
            board::has_said(world, jobrank, table, step)
        };
        seen + (seen..self.size()).take_while(has_said).count() as u32
    }

    /// What a member said.
    pub(crate) fn hear(&self, world: &WorldRef<'_>, rank: u32, step: u64, to: &mut [u8]) {
        let (jobrank, table) = self.place(rank);
        board::hear(world, jobrank, table, step, to);
    }
}

/// All ranks of the job.
#[unsafe(export_name = "hamr_gex_all")]
static ALL: Team = Team::new();
/// The same for `gasnet_barrier_notify`, which is beside collectives.
pub(crate) static BARRIER: Team = Team::new();
/// What `gex_TM_Pair` gives: all ranks, and no collectives.
static PAIR: Team = Team::new();

/// Tables of this rank that no team has, each with its last step.
static FREE: Mutex<Vec<(u32, u64)>> = Mutex::new(Vec::new());

/// Sets the teams of all ranks.
pub(crate) fn begin(me: u32, size: u32) {
    for team in [&ALL, &BARRIER, &PAIR] {
        team.rank.store(me, Relaxed);
        team.size.store(size, Relaxed);
    }
    *common(&FREE) = (2..board::TABLES).rev().map(|table| (table, 0)).collect();
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

/// Takes a table of this rank, for a team that is made; with its last step.
pub(crate) fn take_table(function: &str) -> (u32, u64) {
    let table = common(&FREE).pop();
    table.unwrap_or_else(|| die(&format!("{function}: expected at most {} teams at a time", board::TABLES - 2)))
}

/// This rank's table of a team that ends.
pub(crate) fn give_table_back(team: &Team) {
    let table = team.place(team.rank()).1;
    common(&FREE).push((table, team.steps.load(Relaxed)));
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
