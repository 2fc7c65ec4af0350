//! `cargo xtask put-out`: a large blocking put to memory of another process that is in no segment, again and again to
//! the same buffer, in three ways. It is figure 5 of "Porting GASNet to Portals".
//!
//! - *pin each*: the owner pins the range, the bytes are copied, the owner unpins it
//! - *firehose*: the same with a registration cache, so all but the first find it pinned
//! - *bounce*: in pieces of 16 KiB through the owner's segment, from which it copies them
//!
//! Two ranks of a world, each a process. The ways alternate; a figure is that of the fastest round. With `check` the
//! bytes are compared instead, and nothing is measured.

use std::collections::VecDeque;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hamr::{Image, WaitMode, WorldOptions};
use hamr_comm::world::RankId;
use hamr_comm::{Context, Fault, Task, offload};
use hamr_gas::firehose::{Limits, Slot};
use hamr_gas_process::{Ask, Far, Owner, Peer};
use rustix::thread::{CpuSet, sched_getaffinity};

/// The longest put.
const LARGEST: usize = 4 << 20;
const SIZES: [usize; 6] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, LARGEST];
/// One piece of a bounced put, and how many are under way.
const PIECE: usize = 16 << 10;
const PIECES: usize = 4;
const LIMITS: Limits = Limits { bytes: 4 << 20, victim_bytes: 0, region_bytes: 1 << 20, page: 4096 };
const OWNER: RankId = RankId(1);

/// The owner's memory: what is copied to, its second half by puts that pin each time, so that they find nothing pinned; and
/// what bounced puts end in.
static OWNED: Mutex<Option<(Owner, Vec<u8>)>> = Mutex::new(None);

fn owned<R>(f: impl FnOnce(&mut Owner, &mut Vec<u8>) -> R) -> R {
    let mut owned = OWNED.lock().unwrap_or_else(PoisonError::into_inner);
    let (owner, bounced) = owned.get_or_insert_with(|| (Owner::new(2 * LARGEST), vec![0; LARGEST]));
    f(owner, bounced)
}

/// The owner's process, and where its memory is.
#[offload]
pub fn expose(_cx: &mut Context) -> (u32, u64) {
    (std::process::id(), owned(|owner, _| owner.exposed().address()))
}

/// A move: up to four regions to unpin, and one to pin; each its start and end, and 0, 0 for none.
#[offload]
pub fn move_regions(_cx: &mut Context, unpin: [(u64, u64); 4], pin: (u64, u64)) -> bool {
    let ranges: Vec<_> = unpin.into_iter().filter(|at| *at != (0, 0)).map(|(start, end)| start..end).collect();
    owned(|owner, _| owner.moved(0, &ranges, (pin != (0, 0)).then_some(pin.0..pin.1)))
}

/// A piece is in the segment.
#[offload]
pub fn bounce(cx: &mut Context, from: u64, to: u64, len: u64) -> Result<(), Fault> {
    let world = cx.world().ok_or_else(|| Fault::msg("no rank"))?;
    let me = world.me();
    owned(|_, bounced| {
        let to = usize::try_from(to).ok().and_then(|to| bounced.get_mut(to..)?.get_mut(..len as usize));
        Ok(world.get(me, from, to.ok_or_else(|| Fault::msg("a piece beyond the buffer"))?)?)
    })
}

/// Sums of what came in each way.
#[offload]
pub fn sums(_cx: &mut Context, len: u64) -> [u64; 3] {
    let len = (len as usize).min(LARGEST);
    owned(|owner, bounced| {
        let words = |from: usize| (from / 8..(from + len) / 8).filter_map(|at| owner.exposed().word(at));
        [sum(words(LARGEST)), sum(words(0)), sum(words_of(&bounced[..len]))]
    })
}

fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|word| word.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
}

fn sum(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(0, |sum: u64, word| sum.rotate_left(5).wrapping_add(word))
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let done = match arguments.first().map(|first| first.as_encoded_bytes()) {
        Some(b"rank") => return hamr::world::main(program),
        Some(b"--help" | b"-h") => hamr::io::print(HELP).map(|()| 0).map_err(Into::into),
        Some(b"check") if arguments.len() == 1 => start(true),
        None => start(false),
        _ => Err(format!("expected check or nothing, got {}", arguments.join(OsStr::new(" ")).display()).into()),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            hamr::io::note(format_args!("hamr-put-out: {error}"));
            ExitCode::from(2)
        }
    }
}

const HELP: &str = "usage: cargo xtask put-out [check]

Puts to memory of another process that is in no segment, in three ways, by size. check: compares the bytes, measures nothing.
";

/// Starts this program as the two ranks of a world.
fn start(is_check: bool) -> Result<u8, Box<dyn Error>> {
    let this = std::env::current_exe()?;
    let image = Image::program(this, if is_check { &["rank", "check"][..] } else { &["rank"] })?;
    let mut options = WorldOptions::default();
    if !is_check {
        // A processor for each, on which nothing sleeps.
        options.rank.wait = WaitMode::Spin;
        let mine = sched_getaffinity(None)?;
        options.cpus = (0..CpuSet::MAX_CPU).filter(|cpu| mine.is_set(*cpu)).take(2).collect();
    }
    Ok(hamr::Runtime::new()?.world_with(&["shm"; 2], image, options)?.run_main("")?)
}

fn program(task: &mut Task) -> Result<u8, Fault> {
    let me = task.world().ok_or_else(|| Fault::msg("no rank"))?.me();
    let mut code = 0;
    if me != OWNER {
        let (process, at) = task.sync(OWNER, expose::with())?;
        let peer = reach(task, process, at)?;
        let mut slots = [Slot::EMPTY; 16];
        let far = Far::new(LIMITS, &mut slots);
        let puts = Puts { task, peer, at, far };
        code = if std::env::args_os().any(|argument| argument == "check") { check(puts)? } else { measure(puts)? };
    }
    task.barrier()?;
    Ok(code)
}

/// The owner's process, if the system lets this one copy there, and the owner lock its memory; else that is said once.
fn reach(task: &mut Task, process: u32, at: u64) -> Result<Option<Peer>, Fault> {
    let peer = match Peer::attach(process, at) {
        Ok(peer) => peer,
        Err(error) => {
            println!("{error}: bounce alone");
            return Ok(None);
        }
    };
    let all = (at, at + 2 * LARGEST as u64);
    let mut unpin = [(0, 0); 4];
    if !task.sync(OWNER, move_regions::with(unpin, all))? {
        println!("{} bytes cannot be locked, see `ulimit -l`: bounce alone", 2 * LARGEST);
        return Ok(None);
    }
    unpin[0] = all;
    task.sync(OWNER, move_regions::with(unpin, (0, 0)))?;
    Ok(Some(peer))
}

/// The three ways to put.
struct Puts<'a, 't, 'm> {
    task: &'a mut Task<'t>,
    peer: Option<Peer>,
    at: u64,
    far: Far<'m>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    PinEach,
    Firehose,
    Bounce,
}

impl Puts<'_, '_, '_> {
    fn put(&mut self, way: Way, bytes: &[u8]) -> Result<(), Fault> {
        match (way, &self.peer) {
            (Way::PinEach, Some(peer)) => {
                let at = self.at + LARGEST as u64;
                let range = (at, at + bytes.len() as u64);
                let is_pinned = self.task.sync(OWNER, move_regions::with([(0, 0); 4], range))?;
                if !is_pinned || peer.write(at, bytes).is_err() {
                    return Err(Fault::msg("a range that was not pinned, or not copied"));
                }
                let mut unpin = [(0, 0); 4];
                unpin[0] = range;
                self.task.sync(OWNER, move_regions::with(unpin, (0, 0)))?;
                Ok(())
            }
            (Way::Firehose, Some(peer)) => {
                let done = self.far.put((OWNER.0, peer), self.at, bytes, |ask| asked(self.task, ask));
                done.map_err(|_| Fault::msg("a put through the cache failed"))
            }
            (Way::Bounce, _) => self.bounce(bytes),
            (_, None) => Err(Fault::msg("no copies between processes")),
        }
    }

    fn bounce(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut calls = VecDeque::new();
        for (number, piece) in bytes.chunks(PIECE).enumerate() {
            if calls.len() == PIECES
                && let Some(oldest) = calls.pop_front()
            {
                self.task.wait_for(oldest)?;
            }
            let from = (number % PIECES * PIECE) as u64;
            let world = self.task.world().ok_or_else(|| Fault::msg("no rank"))?;
            world.put(OWNER, from, piece)?;
            let call = bounce::with(from, (number * PIECE) as u64, piece.len() as u64);
            calls.push_back(self.task.offload(OWNER, call)?);
        }
        calls.into_iter().try_for_each(|call| Ok(self.task.wait_for(call)?))
    }

    /// The bytes that the last put through the cache left.
    fn get(&mut self, len: usize) -> Result<Vec<u8>, Fault> {
        let peer = self.peer.as_ref().ok_or_else(|| Fault::msg("no copies between processes"))?;
        let mut bytes = vec![0; len];
        let done = self.far.get((OWNER.0, peer), self.at, &mut bytes, |ask| asked(self.task, ask));
        done.map_err(|_| Fault::msg("a get through the cache failed"))?;
        Ok(bytes)
    }

    /// The ways that this machine has.
    fn ways(&self) -> Vec<Way> {
        let all = [Way::PinEach, Way::Firehose, Way::Bounce];
        all.into_iter().filter(|way| self.peer.is_some() || *way == Way::Bounce).collect()
    }
}

/// Brings what the cache asks to its owner.
fn asked(task: &mut Task, ask: Ask) -> Result<bool, Fault> {
    let mut unpin = [(0, 0); 4];
    for (to, range) in unpin.iter_mut().zip(ask.unpin) {
        *to = (range.start, range.end);
    }
    let pin = ask.pin.map_or((0, 0), |range| (range.start, range.end));
    Ok(task.sync(RankId(ask.peer), move_regions::with(unpin, pin))?)
}

/// Puts different bytes in each way, and compares. The code is the number of ways.
fn check(mut puts: Puts) -> Result<u8, Fault> {
    let ways = puts.ways();
    for (seed, size) in (1u64..).zip(SIZES) {
        for (number, way) in (1u64..).zip(&ways) {
            let byte = |at: u64| (((at + seed) * (2 * number + 1) * 0x9e37_79b9) >> 7) as u8;
            let bytes: Vec<u8> = (0..size as u64).map(byte).collect();
            puts.put(*way, &bytes)?;
            let seen = puts.task.sync(OWNER, sums::with(size as u64))?;
            let is_back = *way != Way::Firehose || puts.get(size)? == bytes;
            if !is_back || seen[*way as usize] != sum(words_of(&bytes)) {
                return Err(Fault::msg("other bytes than were put"));
            }
        }
    }
    Ok(ways.len() as u8)
}

fn measure(mut puts: Puts) -> Result<u8, Fault> {
    const ROUNDS: usize = 41;
    // The call of a rank's program has a minute.
    const LIMIT: Duration = Duration::from_secs(4);
    let data: Vec<u8> = (0..LARGEST).map(|at| at as u8).collect();
    let ways = puts.ways();
    println!("   size   pin each   firehose     bounce   GB/s; firehose over pin each");
    for size in SIZES {
        let bytes = &data[..size];
        let times = (LARGEST / size).clamp(2, 64);
        let mut seen: [Vec<f64>; 3] = Default::default();
        let start = Instant::now();
        for round in 0..ROUNDS {
            if round > 0 && start.elapsed() > LIMIT {
                break;
            }
            for way in &ways {
                // The first put of a round finds the caches as the way before left them.
                puts.put(*way, bytes)?;
                let begin = Instant::now();
                for _ in 0..times {
                    puts.put(*way, std::hint::black_box(bytes))?;
                }
                seen[*way as usize].push(begin.elapsed().as_nanos() as f64 / times as f64);
            }
        }
        // What else the machine does only adds.
        let rates = seen.map(|ns| ns.into_iter().min_by(f64::total_cmp).map(|ns| size as f64 / ns));
        let text = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.2}"));
        let [each, firehose, bounced] = rates;
        let gain = each.zip(firehose).map(|(each, firehose)| firehose / each);
        println!(
            "{:>5} KiB {:>9} {:>10} {:>10}   {:>5}",
            size >> 10,
            text(each),
            text(firehose),
            text(bounced),
            text(gain)
        );
    }
    Ok(0)
}
