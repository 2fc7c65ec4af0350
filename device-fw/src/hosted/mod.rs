//! The hosted image: a process of its own over a memfd that the host made (`docs/devices.md`); and
//! ranks of worlds that are ordinary programs ([`program`]) or threads of one ([`thread`]).
//!
//! Standard input is a UNIX socket to the host. One message on it carries the window's descriptor;
//! afterwards its end of file means that the host is gone, and the process ends. That is why the
//! socket and not PDEATHSIG: that signal fires when the *thread* that started the process ends.

mod control;
mod doorbells;
#[cfg(hamr_image)]
mod logging;
mod map;
#[cfg(feature = "modules")]
mod modules;
mod panics;
pub mod peer;
pub(crate) mod pins;
mod runtime;
mod signals;
mod stdio;
pub mod thread;
mod trace;

use crate::board::HostMemory;
use crate::driving::Driving;
use crate::rank::Rank;
use crate::runaway::RunawayDetector;
use crate::{Board, Config, Device, OnFault};
use control::{ControlChannel, StartError};
use hamr_comm::abi::ids::RankId;
use hamr_comm::abi::preamble::word;
use hamr_comm::abi::status::Status;
use hamr_comm::abi::sync::Coherent;
use hamr_comm::abi::window::DeviceWindow;
#[cfg(hamr_image)]
use hamr_comm::abi::window::Window;
use hamr_comm::abi::world::WorldFault;
use hamr_comm::am::{Activity, ControlHandoff, LoanStatus, patience};
use hamr_comm::migrate::{MAX_LONG, MAX_MESSAGE};
use hamr_comm::registry::Table;
use hamr_comm::{error, info};
use map::Mapping;
use runtime::RUNTIME;
use rustix::fd::OwnedFd;
use std::boxed::Box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use std::{eprintln, format};
pub use stdio::reserve_stdio;

/// Rounds of polling before the first timed sleep: about two milliseconds.
const SPIN_ROUNDS: u32 = 40_000;
/// Timed sleeps grow with their number, up to this.
const LONGEST_SLEEP: Duration = Duration::from_millis(1);
const SHORTEST_SLEEP: Duration = Duration::from_micros(50);

/// Bytes for all that is allocated without a look: stacks of signals and threads, tables, panics' texts.
const SMALL_BLOCKS: usize = 16 << 20;

type ServedWindow = DeviceWindow<Arc<Mapping>>;
type HostedDriving = Driving<HostMemory<Arc<Mapping>, Coherent>, Arc<Mapping>>;

struct Process {
    window: Option<ServedWindow>,
    build_id: [u8; 20],
}

impl Board for Process {
    type Keep = Arc<Mapping>;
    type Order = Coherent;
    fn name(&self) -> &'static str {
        "linux-process"
    }
    fn pid(&self) -> u32 {
        std::process::id()
    }
    fn build_id(&self) -> [u8; 20] {
        self.build_id
    }
    fn has_heartbeat(&self) -> bool {
        true
    }
    fn window(&mut self) -> Option<ServedWindow> {
        self.window.take()
    }
    fn is_rank(&self) -> bool {
        RUNTIME.rank.get().is_some()
    }
    fn is_driver(&self) -> bool {
        RUNTIME.driving.get().is_some()
    }
    fn set_activity(&mut self, activity: Option<&Activity>) {
        signals::set_activity(activity);
    }
    fn control_handoff(&self) -> Option<&'static ControlHandoff<Arc<Mapping>>> {
        Some(&RUNTIME.control)
    }
    #[cfg(hamr_image)]
    fn logs(&self) -> bool {
        true
    }
    #[cfg(hamr_image)]
    fn logs_to(&mut self, section: Option<Window<Arc<Mapping>>>) {
        crate::log::Logger::<logging::Process>::attach(section);
    }
    fn notify(&mut self) {
        // What carries finds it, and notifies the host behind that.
        if !self.is_driver() {
            RUNTIME.notify();
        }
    }
    fn side_doorbell(&self) -> fn() {
        || RUNTIME.side_doorbell.get().into_iter().for_each(doorbells::notify)
    }
    fn doorbell(&self) -> bool {
        RUNTIME.doorbells.get().is_some()
    }
    fn sleep(&mut self, micros: u32) {
        if let Some(doorbells) = RUNTIME.doorbells.get()
            && RUNTIME.driving.get().is_none_or(HostedDriving::prepare_sleep)
        {
            doorbells.sleep(micros);
            RUNTIME.driving.get().into_iter().for_each(HostedDriving::end_sleep);
        }
    }
    fn micros(&mut self) -> u64 {
        RUNTIME.micros()
    }
    fn nanos(&mut self) -> u64 {
        RUNTIME.begin.elapsed().as_nanos() as u64
    }
    #[inline]
    fn idle(&mut self, rounds: u32) {
        idle(rounds);
    }
}

/// The last rounds found nothing, and nothing would notify of more.
fn idle(rounds: u32) {
    match rounds.checked_sub(SPIN_ROUNDS) {
        None if rounds & 15 == 15 => patience::rest(),
        None => {}
        // A sleep is one step longer per thousand rounds: after half a second without work it is
        // the longest.
        Some(more) => std::thread::sleep((SHORTEST_SLEEP * (more / 1000 + 1)).min(LONGEST_SLEEP)),
    }
}

/// The process's main: serves until the host is gone.
pub fn main(config: Config) -> i32 {
    take_name();
    #[cfg(feature = "modules")]
    modules::take(config);
    run(ControlChannel::from_stdin(), Table::of_this_image(), config)
}

/// Was this program started as a rank of a world? Then [`program`] serves it.
pub fn is_rank() -> bool {
    reserve_stdio();
    control::is_rank()
}

/// Serves the rank that this program was started as, with the handlers of `table`, until its world
/// ends; returns the exit code. The calling thread is the rank's. Standard input reads as empty
/// from here on, so that programs that this one starts are no ranks.
pub fn program(table: Table, config: Config) -> i32 {
    run(ControlChannel::from_stdin().and_then(ControlChannel::leave_stdin), table, config)
}

fn run(control: Result<ControlChannel, StartError>, table: Table, config: Config) -> i32 {
    signals::write_to_terminals();
    let host = control.as_ref().ok().and_then(ControlChannel::host);
    match control.and_then(|control| start(control, table, config)) {
        Ok(mut device) => {
            drop(host);
            serve(&mut device, config)
        }
        Err(why) => {
            // The host's error has it; without a host, this line.
            if !host.is_some_and(|host| control::say(&host, &why)) {
                eprintln!("hamr image: {why}");
            }
            2
        }
    }
}

/// Takes the name of the image's file for lists of processes. The host starts the file by a
/// descriptor, whose number the system takes for the name.
fn take_name() {
    let started_as = std::env::args_os().next().unwrap_or_default();
    if let Some(name) = std::path::Path::new(&started_as).file_name()
        && let Ok(name) = std::ffi::CString::new(name.as_encoded_bytes())
    {
        // After an error the process has a less useful name, and nothing else.
        let _ = rustix::thread::set_name(&name);
    }
}

fn start(mut control: ControlChannel, table: Table, config: Config) -> Result<Device<'static, Process>, StartError> {
    let build_id = control::build_id();
    let build = u64::from_be_bytes(build_id.first_chunk().copied().unwrap_or_default());
    info!("image starts as process {}, build {:016x}", std::process::id(), build);
    if let Some(doorbells) = control.take_doorbells() {
        // Set here only, and once.
        let _ = RUNTIME.doorbells.set(doorbells);
    }
    if let Some(doorbell) = control.take_side_doorbell() {
        let _ = RUNTIME.side_doorbell.set(doorbell);
    }
    // As above.
    let _ = RUNTIME.rank_doorbells.set(control.take_rank_doorbells());
    if let Some(processes) = control.take_processes() {
        let _ = RUNTIME.processes.set(processes);
    }
    let window = match control.window_fds() {
        (window, Some(own)) if control.drives() => {
            let port = HostMemory::new(Mapping::of(window, None::<OwnedFd>)?);
            let driving = Driving::new(port, Mapping::beside(&own)?, Box::new(|| RUNTIME.notify()));
            // Set here only, and once.
            let _ = RUNTIME.driving.set(driving.map_err(|_| StartError::NoWindow)?);
            Mapping::of(own, None::<OwnedFd>)?
        }
        (window, host_memory) => join(Mapping::of(window, host_memory)?, control.rank(), table)?,
    };
    info!("a window of {} bytes", window.len());
    let alive = window.keep_word(word::DEVICE_ALIVE).map_err(|_| StartError::NoWindow)?;
    // Watches the host, steps `alive`, serves pings while tasks run: the only thread
    // besides the dispatcher, asleep nearly always.
    let watch = move || {
        let mut runaways = RunawayDetector::new(config.longest_call_ms);
        control.watch(|beat| {
            alive.word().store(beat);
            let driving = RUNTIME.driving.get();
            let is_beside = driving.is_some_and(HostedDriving::beat);
            if RUNTIME.rank.get().is_some_and(Rank::is_ending) {
                signals::end(0);
            }
            let lent = RUNTIME.control.serve();
            if lent == LoanStatus::NeedsNotify {
                RUNTIME.notify();
            }
            signals::tick(|activity| runaways.check(activity, RUNTIME.micros()));
            if let Some(driving) = driving.filter(|_| is_beside && lent != LoanStatus::No) {
                driving.carry();
            }
            is_beside || lent != LoanStatus::No
        });
        // Not `exit`: a handler may run in the other thread, and would use what `atexit` destroys.
        signals::end(0)
    };
    let thread = std::thread::Builder::new().name("hamr-watch".into());
    let watch = signals::for_dispatcher(|| thread.spawn(watch));
    watch.map_err(|e| std::io::Error::new(e.kind(), format!("starting its thread that watches the host: {e}")))?;
    let scratch = scratch(window.len())?;
    let board = Process { window: Some(window), build_id };
    let device = Device::new(board, table, scratch).ok_or(StartError::NoWindow)?;
    Ok(with_tasks(device, config))
}

/// Room for the longest value that the window has room for, for as long as the process runs. The system gives
/// memory only to what is used of it. Where it has no addresses for so much (`ulimit -v`), for shorter values:
/// the device says how long they may be.
fn scratch(window: u64) -> Result<&'static mut [u8], StartError> {
    map::check_room(SMALL_BLOCKS)?;
    let mut len = usize::try_from(window).unwrap_or(MAX_LONG).clamp(MAX_MESSAGE, MAX_LONG);
    loop {
        // What is small is not refused, so that this room is left for it.
        match map::zeroed(len).and_then(|room| map::check_room(SMALL_BLOCKS).map(|()| room)) {
            Ok(room) => return Ok(room),
            Err(why) if len == MAX_MESSAGE => return Err(why),
            Err(_) => len = (len / 2).max(MAX_MESSAGE),
        }
    }
}

/// Gives the device its places for tasks, for as long as the process runs.
#[cfg_attr(not(feature = "tasks"), expect(unused_variables, reason = "there are no places"))]
fn with_tasks<B: Board>(device: Device<'static, B>, config: Config) -> Device<'static, B> {
    #[cfg(feature = "tasks")]
    let device = {
        let slots = (0..config.tasks).map(|_| hamr_comm::am::TaskSlot::new(config.task_stack));
        device.with_tasks(slots.collect::<std::vec::Vec<_>>().leak(), config.task_stack)
    };
    device
}

/// The window that the image serves: its home, when it is to be a rank of the world that was mapped.
fn join(mapped: ServedWindow, rank: Option<RankId>, table: Table) -> Result<ServedWindow, WorldFault> {
    let Some(me) = rank else { return Ok(mapped) };
    let (home, rank) = Rank::find(mapped, me).map_err(|(why, _)| why)?;
    info!("joins as rank {}", me.0);
    rank.join(table, exit, notify, process)?;
    // Set here only, and once.
    let _ = RUNTIME.rank.set(rank);
    Ok(home)
}

/// Notifies another rank.
fn notify(rank: RankId) {
    if let Some(doorbell) = RUNTIME.rank_doorbells.get().and_then(|doorbells| doorbells.get(rank.0 as usize)) {
        doorbells::notify(doorbell);
    }
}

/// The process that a rank is, as the launcher says: 32 bits a rank, 0 none.
fn process(rank: RankId) -> Option<u32> {
    let mut process = [0; 4];
    let read = rustix::io::pread(RUNTIME.processes.get()?, &mut process, u64::from(rank.0) * 4);
    let process = u32::from_le_bytes(process);
    (read == Ok(process.to_le_bytes().len()) && process != 0).then_some(process)
}

/// A handler ends the world.
fn exit(code: u8) -> ! {
    if let Some(rank) = RUNTIME.rank.get() {
        rank.leave(code);
    }
    signals::end(code.into())
}

/// Serves; a handler that panics fails its own call only. Entering `catch_unwind` once per panic,
/// not per call, keeps it off the path of calls.
fn serve(device: &mut Device<'static, Process>, config: Config) -> i32 {
    panics::capture();
    signals::catch(&raw mut *device);
    loop {
        let outcome = catch_unwind(AssertUnwindSafe(|| match RUNTIME.driving.get() {
            None => device.serve(),
            Some(driving) => driving.serve(device),
        }));
        let Err(payload) = outcome;
        let (text, trace) = panics::take();
        hamr_comm::fault::discard(payload);
        if !device.is_running() {
            // The panic is not a handler's: the runtime is broken, so the process ends with a crash
            // record.
            eprintln!("hamr image: {text}");
            device.record_crash(&text, &trace);
            device.announce_crash();
            RUNTIME.driving.get().into_iter().for_each(HostedDriving::carry);
            return 101;
        }
        error!("a call was abandoned: {}", &*text);
        if config.on_fault == OnFault::Reset {
            device.record_crash(&text, &trace);
            device.announce_crash();
        }
        device.fail_current(Status::PANIC, &text, &trace);
        if config.on_fault == OnFault::Reset {
            device.stop();
        }
    }
}
