//! A rank that is a thread of its launcher's process: for tests of programs, and for launchers that
//! are ranks themselves.
//!
//! It maps the world once more, so that its views and the launcher's copies meet in memory as those
//! of two processes do. Nothing ends a thread from outside: it leaves between two rounds of its
//! serve loop, so behind the handler that runs, and suspended tasks are unwound.

use super::control::StartError;
use super::doorbells::ProcessDoorbells;
use super::map::Mapping;
use super::{ServedWindow, doorbells, idle, scratch, with_tasks};
use crate::rank::Rank;
use crate::{Board, Config, Device};
use core::cell::RefCell;
use hamr_comm::abi::ids::RankId;
use hamr_comm::abi::status::Status;
use hamr_comm::abi::sync::Coherent;
use hamr_comm::fault::{Trace, discard};
use hamr_comm::registry::Table;
use rustix::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::string::{String, ToString};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{boxed::Box, thread_local};

/// A sleeping thread looks so often whether its world has ended.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);

thread_local! {
    /// The words of the rank that this thread is.
    static RANK: RefCell<Option<Rank>> = const { RefCell::new(None) };
    /// What it notifies the ranks by, in their order.
    static DOORBELLS: RefCell<Arc<[OwnedFd]>> = RefCell::new(Arc::new([]));
}

/// What a handler that ends the world unwinds with.
struct Exit;

/// Serves rank `me` of the world in the file `world`, with the handlers of `table`, until the world
/// ends or `stop` is set. It sleeps on `own` and notifies the launcher by `host`; `doorbells` are those of all ranks.
///
/// # Errors
/// The memory cannot be mapped or is no such world.
pub fn serve(
    world: impl AsFd,
    me: RankId,
    [own, host]: [OwnedFd; 2],
    doorbells: Arc<[OwnedFd]>,
    table: Table,
    config: Config,
    stop: &AtomicBool,
) -> Result<(), String> {
    DOORBELLS.set(doorbells);
    let own = ProcessDoorbells::new(own, host);
    let mut device = start(world, me, own, table, config).map_err(|why| why.to_string())?;
    let goes_on = || !stop.load(Ordering::Acquire) && !is_ending();
    while goes_on() {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| device.serve_while(goes_on))) {
            if payload.is::<Exit>() {
                // The launcher sees the code before the epoch's end.
                while goes_on() {
                    std::thread::sleep(LONGEST_SLEEP);
                }
            } else if device.is_running() {
                let text = payload.downcast_ref::<&str>().copied();
                let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
                device.fail_current(Status::PANIC, text.unwrap_or("panic"), &Trace::NONE);
                discard(payload);
            } else {
                resume_unwind(payload);
            }
        }
    }
    device.stop();
    Ok(())
}

fn start(
    world: impl AsFd,
    me: RankId,
    doorbells: ProcessDoorbells,
    table: Table,
    config: Config,
) -> Result<Device<'static, Thread>, StartError> {
    let (home, rank) = Rank::find(Mapping::of(world, None::<OwnedFd>)?, me).map_err(|(why, _)| why)?;
    rank.join(table, exit, notify, |_| None)?;
    RANK.set(Some(rank));
    let scratch = scratch(home.len())?;
    let board = Thread { window: Some(home), doorbells, begin: Instant::now() };
    let device = Device::new(board, table, scratch).ok_or(StartError::NoWindow)?;
    Ok(with_tasks(device, config))
}

fn is_ending() -> bool {
    RANK.with_borrow(|rank| rank.as_ref().is_some_and(Rank::is_ending))
}

/// Notifies another rank.
fn notify(rank: RankId) {
    DOORBELLS.with_borrow(|doorbells| {
        if let Some(doorbell) = doorbells.get(rank.0 as usize) {
            doorbells::notify(doorbell);
        }
    });
}

/// A handler ends the world.
fn exit(code: u8) -> ! {
    RANK.with_borrow(|rank| {
        if let Some(rank) = rank {
            rank.leave(code);
        }
    });
    if std::thread::panicking() {
        // A second panic would abort without a word, and nothing else leaves a thread's frames.
        std::eprintln!(
            "hamr: a handler ends its world with code {code} in a destructor, while a panic unwinds: a rank that is a \
             thread cannot, so the process is aborted; end the world behind the panic, or use ranks of kind shm",
        );
        std::process::abort();
    }
    resume_unwind(Box::new(Exit))
}

struct Thread {
    window: Option<ServedWindow>,
    doorbells: ProcessDoorbells,
    begin: Instant,
}

impl Board for Thread {
    type Keep = Arc<Mapping>;
    type Order = Coherent;
    fn name(&self) -> &'static str {
        "thread"
    }
    fn pid(&self) -> u32 {
        std::process::id()
    }
    fn window(&mut self) -> Option<ServedWindow> {
        self.window.take()
    }
    fn is_rank(&self) -> bool {
        true
    }
    fn micros(&mut self) -> u64 {
        self.begin.elapsed().as_micros() as u64
    }
    fn nanos(&mut self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }
    fn notify(&mut self) {
        self.doorbells.notify();
    }
    fn doorbell(&self) -> bool {
        true
    }
    fn sleep(&mut self, micros: u32) {
        self.doorbells.sleep(micros.min(LONGEST_SLEEP.as_micros() as u32));
    }
    fn idle(&mut self, rounds: u32) {
        idle(rounds);
    }
}
