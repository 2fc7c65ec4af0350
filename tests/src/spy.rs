//! Ranks whose world a test reads and writes by itself, also behind the world's end.

use hamr::link::Link;
use hamr::{Error, Home, LaunchRequest, Launcher, Runtime, Target};
use hamr_comm::abi::ids::RankId;
use hamr_comm::abi::preamble::{MAX_SECTIONS, SECTIONS};
use hamr_comm::abi::section::{Section, SectionKind};
use hamr_comm::abi::world::{RankEntry, WorldHeader};
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

/// The memory of the last world that launchers of [`Spy`] have started.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Option<Arc<OwnedFd>>>>);

impl Memory {
    /// The file.
    ///
    /// # Panics
    /// Before a world was started.
    pub fn file(&self) -> Arc<OwnedFd> {
        self.0.lock().expect("no panic").clone().expect("a world")
    }

    /// Bytes of a rank's segment.
    pub fn segment<const N: usize>(&self, rank: RankId, off: u64) -> [u8; N] {
        let home = self.entry(rank, offset_of!(RankEntry, home));
        read(&self.file(), home + self.entry(rank, offset_of!(RankEntry, seg_off)) + off)
    }

    /// Writes random words to a rank's handler table, or to the list that says where that is.
    ///
    /// # Panics
    /// When the rank has no table.
    pub fn garble_table(&self, rank: RankId, mut random: impl FnMut() -> u64) {
        let (file, home) = (self.file(), self.entry(rank, offset_of!(RankEntry, home)));
        let sections = home + SECTIONS;
        let section = |i: u64| sections + i * size_of::<Section>() as u64;
        let is_table = |at: &u64| read(&file, *at) == SectionKind::TABLE.0.to_le_bytes();
        let table = (0..MAX_SECTIONS as u64).map(section).find(is_table).expect("a table");
        let (at, len) = match random() % 3 {
            0 => (sections, section(MAX_SECTIONS as u64) - sections),
            _ => (home + number(&file, table + offset_of!(Section, off) as u64), 16 << 10),
        };
        for _ in 0..random() % 200 {
            let word = (random() as u32).checked_shr(random() as u32 % 40).unwrap_or(3);
            rustix::io::pwrite(&file, &word.to_le_bytes(), at + random() % (len / 4) * 4).expect("a memfd");
        }
    }

    /// A number in a rank's entry of the directory.
    fn entry(&self, rank: RankId, field: usize) -> u64 {
        let file = self.file();
        let directory = number(&file, offset_of!(WorldHeader, directory) as u64);
        number(&file, directory + u64::from(rank.0) * size_of::<RankEntry>() as u64 + field as u64)
    }
}

fn number(file: &OwnedFd, at: u64) -> u64 {
    u64::from_le_bytes(read(file, at))
}

fn read<const N: usize>(file: &OwnedFd, at: u64) -> [u8; N] {
    let mut bytes = [0; N];
    assert_eq!(rustix::io::pread(file, &mut bytes, at).expect("a memfd"), N);
    bytes
}

/// A launcher that keeps the memory of its last world.
pub struct Spy<L> {
    inner: L,
    memory: Memory,
}

impl<L: Launcher + 'static> Spy<L> {
    /// Makes `name` start what `inner` starts.
    pub fn register(runtime: &mut Runtime, name: &str, inner: L, memory: &Memory) {
        runtime.register(name, Self { inner, memory: memory.clone() });
    }
}

impl<L: Launcher> Launcher for Spy<L> {
    fn describe(&self) -> String {
        self.inner.describe()
    }
    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        self.inner.target(argument)
    }
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        self.inner.launch(request)
    }
    fn launch_rank(&self, request: &LaunchRequest<'_>, home: Home) -> Result<Box<dyn Link>, Error> {
        *self.memory.0.lock().expect("no panic") = Some(home.world.clone());
        self.inner.launch_rank(request, home)
    }
}
