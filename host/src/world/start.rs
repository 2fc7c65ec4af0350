//! Starts a world: the memory, the ranks, the handshakes.

use super::watch::Watched;
use super::{World, WorldOptions};
use crate::doorbells::Doorbells;
use crate::launcher::{Home, LaunchRequest, Launcher};
use crate::link::{Decorator, Link, Protocol};
use crate::mapping::map_window;
use crate::memfd::{Processes, make_window};
use crate::node_number::NodeNumber;
use crate::options::plan_of;
use crate::shm::MOST_PROCESSES;
use crate::{Error, Image, ImageFile, Node, Options, Runtime, Target, processors};
use hamr_comm::abi::ids::{NodeId, RankId};
use hamr_comm::abi::image::ImageKind;
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::window::{OutOfWindow, Shared, Window};
use hamr_comm::abi::world::{
    MAX_BARE_RANKS, MAX_RANKS, Range, RankKind, RankPlan, RankState, WorldLayout, WorldPlanError,
};
use hamr_qemu::origin::Origin;
use rustix::fd::OwnedFd;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Runtime {
    /// Starts `ranks` devices of one kind in one memory, each with the same image.
    ///
    /// # Errors
    /// As [`Self::open`], for any of them; more than 4095 ranks, or none.
    pub fn world(&self, spec: &str, ranks: usize, image: Image) -> Result<World, Error> {
        if ranks > MAX_RANKS {
            return Err(wrong_number(ranks));
        }
        self.world_with(&vec![spec; ranks], image, WorldOptions::default())
    }

    /// [`Self::world`] of devices that differ: a named image is built for each kind.
    ///
    /// # Errors
    /// As for [`Self::world`].
    pub fn world_of(&self, specs: &[&str], image: Image) -> Result<World, Error> {
        self.world_with(specs, image, WorldOptions::default())
    }

    /// [`Self::world_of`] with sizes of one's own.
    ///
    /// # Errors
    /// As for [`Self::world`], and sizes that cannot be laid out.
    pub fn world_with(&self, specs: &[&str], image: Image, options: WorldOptions) -> Result<World, Error> {
        let ranks: Vec<_> = specs.iter().map(|spec| (*spec, Some(&image))).collect();
        self.start_world(&ranks, options)
    }

    /// [`Self::world_with`] of ranks that differ in what they run: each has an image, or a program, of its
    /// own.
    ///
    /// # Errors
    /// As for [`Self::world_with`].
    pub fn world_of_images(&self, ranks: &[(&str, Image)], options: WorldOptions) -> Result<World, Error> {
        let ranks: Vec<_> = ranks.iter().map(|(spec, image)| (*spec, Some(image))).collect();
        self.start_world(&ranks, options)
    }

    /// Starts one rank of a world, rank 0; the other ranks are laid out and never start. To measure what a
    /// large world costs one rank.
    #[doc(hidden)]
    pub fn world_of_one(&self, spec: &str, ranks: usize, image: &Image, options: WorldOptions) -> Result<World, Error> {
        self.start_some(&[(spec, Some(image))], ranks, options)
    }

    /// Ranks without an image are of this program.
    pub(super) fn start_world(&self, ranks: &[(&str, Option<&Image>)], options: WorldOptions) -> Result<World, Error> {
        self.start_some(ranks, ranks.len(), options)
    }

    /// Starts the first ranks of a world of `size`.
    fn start_some(&self, ranks: &[(&str, Option<&Image>)], size: usize, options: WorldOptions) -> Result<World, Error> {
        if ranks.is_empty() || size > MAX_RANKS {
            return Err(wrong_number(size));
        }
        let WorldOptions { rank, cpus, stall } = options;
        Protocol::check(rank.protocol, &[Protocol::Mapped], "ranks of a world")?;
        let options = processors::for_ranks(Options { restart: false, ..rank }, ranks.len(), &cpus);
        let seats = self.seats(ranks)?;
        too_many(&seats)?;
        let memory = Memory::new(&seats, size, &options)?;
        let heap_off = plan_of(&options, false)?.heap().start;
        let doorbells: Vec<_> = seats.iter().map(|_| Doorbells::new().map(Arc::new)).collect::<Result<_, _>>()?;
        let rank_doorbells: Arc<[_]> =
            doorbells.iter().map(|doorbells| doorbells.for_rank()).collect::<Result<_, _>>()?;
        let processes = Arc::new(Processes::new(size)?);
        // All start before the first is waited for.
        let mut started = Vec::new();
        for (rank, (seat, doorbells)) in seats.into_iter().zip(doorbells).enumerate() {
            let cpu = cpus.get(rank % cpus.len().max(1)).copied();
            let begin = Instant::now();
            let (rank, window) = (RankId(rank as u32), memory.home(rank)?);
            let (world, rank_doorbells, processes) = (memory.memfd.clone(), rank_doorbells.clone(), processes.clone());
            let home = Home { rank, world, world_len: memory.len, window, doorbells, rank_doorbells, processes };
            let link = RankLink(seat.launch(home, heap_off, cpu, options.start_deadline)?);
            started.push((seat, link, begin, Options { cpu, print_warnings: false, ..options.clone() }));
        }
        let mut nodes = Vec::new();
        for (rank, (seat, link, begin, options)) in started.into_iter().enumerate() {
            let Seat { name, number, file, .. } = seat;
            let program = file.as_ref().filter(|file| file.is_program()).map(|file| file.path.clone());
            let node = Node::attach(&name, number, Box::new(link), file, options, begin, self.services.clone());
            nodes.push(node.map_err(|e| memory.why_not(rank, program, e))?);
        }
        let front = memory.part(Range { off: 0, len: memory.layout.front() })?;
        let watched = Arc::new(Watched::new(nodes, front, memory.layout, stall));
        let theirs = watched.clone();
        let watcher = std::thread::Builder::new().name("hamr-world".into()).spawn(move || theirs.watch());
        let watcher = watcher.map_err(Error::io("starting the thread that watches a world"))?;
        Ok(World { watched, runs: Default::default(), watcher: Some(watcher), origin: Origin::here() })
    }

    /// What can be refused before anything starts.
    fn seats<'s>(&'s self, ranks: &[(&'s str, Option<&Image>)]) -> Result<Vec<Seat<'s>>, Error> {
        let mut files: Vec<(&Image, Target, ImageFile)> = Vec::new();
        let mut seats = Vec::new();
        for (rank, (spec, image)) in ranks.iter().enumerate() {
            let name = format!("rank {rank} ({spec})");
            let (launcher, argument) = self.launcher(spec)?;
            let file = match (launcher.target(argument)?, image) {
                (None, _) if launcher.is_this_program() => None,
                (Some(target), Some(image)) => {
                    let is_known = |known: &&(&Image, Target, ImageFile)| known.0 == *image && known.1 == target;
                    match files.iter().find(is_known) {
                        Some((.., file)) => Some(file.clone()),
                        None => {
                            launcher.check(argument)?;
                            let file = image.resolve(&target)?;
                            files.push((image, target, file.clone()));
                            Some(file)
                        }
                    }
                }
                _ => {
                    let why = "a device of this kind takes no image: expected shm, qemu or thread".into();
                    return Err(Error::Launch { device: name, why });
                }
            };
            let kind = match &file {
                Some(file) if file.is_program() => RankKind::PROGRAM,
                Some(file) if file.kind == ImageKind::BARE => RankKind::BARE,
                Some(_) => RankKind::HOSTED,
                None => RankKind::PROGRAM,
            };
            let number = NodeNumber::take(&name)?;
            seats.push(Seat { name, launcher, argument, file, kind, number });
        }
        Ok(seats)
    }
}

/// A rank before it starts.
struct Seat<'s> {
    name: String,
    launcher: &'s dyn Launcher,
    argument: &'s str,
    /// `None` of a rank of this program.
    file: Option<ImageFile>,
    kind: RankKind,
    number: NodeNumber,
}

impl Seat<'_> {
    fn launch(
        &self,
        home: Home,
        heap_off: u64,
        cpu: Option<usize>,
        start_deadline: Duration,
    ) -> Result<Box<dyn Link>, Error> {
        let Self { name, launcher, argument, file, .. } = self;
        let window_len = home.window.len();
        let image = file.as_ref();
        // Ranks share memory, so nothing of them is a connection.
        let silence = start_deadline;
        let request = LaunchRequest {
            device: name,
            argument,
            image,
            window_len,
            heap_off,
            host_memory: None,
            drives: false,
            has_side: false,
            cpu,
            start_deadline,
            silence,
        };
        launcher.launch_rank(&request, home)
    }
}

/// The memory of a world, with header and directory.
struct Memory {
    memfd: Arc<OwnedFd>,
    /// Bytes of the file.
    len: u64,
    whole: Window<Shared>,
    layout: WorldLayout,
}

impl Memory {
    fn new(seats: &[Seat<'_>], size: usize, options: &Options) -> Result<Self, Error> {
        let home = plan_of(options, false)?;
        let too_large = |got: String| Error::InvalidConfig {
            option: "WorldOptions::rank",
            expected: "homes of at most 2^63 bytes in all".into(),
            got,
        };
        // It is there: the layout was planned with it.
        let heap = home.section(SectionKind::HEAP).map_err(|_| too_large("none".into()))?;
        let segment = Range { off: heap.off + heap.len - options.segment, len: options.segment };
        let plan = |seat: &Seat<'_>| RankPlan {
            kind: seat.kind,
            node: seat.number.id(),
            home_len: home.window_len(),
            segment,
        };
        let absent = RankPlan { kind: RankKind::HOSTED, node: NodeId(0), home_len: home.window_len(), segment };
        let plans = seats.iter().map(plan).chain(std::iter::repeat(absent));
        let plans: Vec<RankPlan> = plans.take(size).collect();
        let layout = WorldLayout::plan(&plans).and_then(WorldLayout::with_gas).map_err(|why| match why {
            WorldPlanError::Ranks(ranks) => wrong_number(ranks),
            WorldPlanError::TooLarge => too_large(format!("{} of {} bytes", plans.len(), home.window_len())),
        })?;
        // What a card's memory must be. No code touches what is behind the last home.
        let len =
            layout.len().checked_next_power_of_two().ok_or_else(|| too_large(format!("{} bytes", layout.len())))?;
        let memfd = Arc::new(make_window("world", len)?);
        let whole = map_window(&memfd, layout.len(), true)?;
        let job = RandomState::new().build_hasher().finish();
        layout.write(&plans, job, &whole).map_err(|_| too_large(format!("{len} bytes")))?;
        Ok(Self { memfd, len, whole, layout })
    }

    fn home(&self, rank: usize) -> Result<Window<Shared>, Error> {
        let home = self.layout.home(&self.whole, RankId(rank as u32));
        self.part(home.map_err(|why| Error::Launch { device: format!("rank {rank}"), why: why.to_string() })?)
    }

    fn part(&self, Range { off, len }: Range) -> Result<Window<Shared>, Error> {
        let too_short = |e: OutOfWindow| Error::WindowTooShort {
            device: "world".into(),
            needed: off + len,
            has: e.len,
            missing: String::new(),
        };
        self.whole.part(off, len).map_err(too_short)
    }

    /// The error of a rank that could not be attached to.
    fn why_not(&self, rank: usize, program: Option<PathBuf>, error: Error) -> Error {
        let at = self.layout.state_word(RankId(rank as u32));
        let state = self.whole.word(at).map_or(0, |word| word.observe());
        let is_absent = state == RankState::ABSENT.0;
        match (error, program) {
            (Error::Timeout { device, after, .. }, Some(path)) if is_absent => {
                Error::Launch { device, why: format!("{}, and it has not joined within {after:?}", no_rank(&path)) }
            }
            (Error::Lost { device, why, .. }, Some(path)) if is_absent => {
                Error::Launch { device, why: format!("{}, and {why}", no_rank(&path)) }
            }
            (Error::Timeout { device, after, .. }, None) if is_absent => Error::Launch {
                device,
                why: format!(
                    "expected it to join its world within {after:?}, it did not; a bare-metal image needs the feature `world` of \
                     hamr-device-fw"
                ),
            },
            (other, _) => other,
        }
    }
}

fn no_rank(program: &Path) -> String {
    format!("expected {} to join its world by `hamr::world::main`", program.display())
}

pub(super) fn wrong_number(ranks: usize) -> Error {
    Error::InvalidConfig { option: "ranks of a world", expected: format!("1 to {MAX_RANKS}"), got: ranks.to_string() }
}

/// Refuses ranks that have no room for so many others.
fn too_many(seats: &[Seat<'_>]) -> Result<(), Error> {
    let room = |seat: &Seat<'_>| match (seat.kind, &seat.file) {
        (RankKind::BARE, _) => (MAX_BARE_RANKS, "a bare-metal image has room for"),
        (_, Some(_)) => (MOST_PROCESSES, "a process is sent the doorbells of"),
        _ => (MAX_RANKS, "a world has"),
    };
    let Some((seat, (most, why))) = seats.iter().map(|seat| (seat, room(seat))).min_by_key(|(_, (most, _))| *most)
    else {
        return Ok(());
    };
    if seats.len() <= most {
        return Ok(());
    }
    let why = format!("{why} at most {most} ranks, got {}", seats.len());
    Err(Error::Launch { device: seat.name.clone(), why })
}

/// A rank's link: a world has one epoch.
struct RankLink(Box<dyn Link>);

impl Decorator for RankLink {
    fn inner(&self) -> &dyn Link {
        &*self.0
    }
    fn restart(&self, _limit: Duration) -> Result<(), String> {
        Err("a rank does not start again; start a new world".into())
    }
}
