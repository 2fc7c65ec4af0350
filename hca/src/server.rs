//! The adapter's process: it polls, until its host closes the socket or begins another epoch.

use crate::engine::Engine;
use crate::wire::port::Port;
use hamr::link::WindowFile;
use hamr_comm::abi::preamble::{PREAMBLE_BYTES, word};
use hamr_comm::abi::window::{Shared, Window};
use hamr_verbs::wire::{ARENA, Command, FINGERPRINT, GREETING, Greeting, HCA_EPOCH, HCA_STATE, Reply};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::time::Instant;
use zerocopy::{FromZeros, IntoBytes};

/// Rounds between two looks at the socket and the epoch.
const LOOK: u32 = 64;
/// Rounds without work behind which others of this processor run in between.
const PATIENCE: u32 = 200;
/// A window's pages.
const PAGE: u64 = 4096;

/// Why there is no adapter, for people.
pub type ServeError = Box<dyn std::error::Error>;

/// Serves the section that a host gives on standard input, with a wire to other adapters.
///
/// # Errors
/// No host has started this program; the window cannot be mapped.
pub fn run(port: Option<Port>) -> Result<(), ServeError> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
    let (greeting, window) = greet(&socket)?;
    rustix::thread::set_no_new_privs(true)?;
    let page = window.map_to_read(0, PAGE)?;
    let (section, _) = window.map(greeting.off, greeting.len)?;
    // The mappings stay.
    drop(window);
    section.word(HCA_EPOCH)?.store(greeting.epoch);
    section.word(HCA_STATE)?.publish(1);
    answer(&socket, &own_greeting(&greeting))?;
    serve(&socket, &page, Engine::new(section), port, greeting.epoch)
}

fn own_greeting(greeting: &Greeting) -> Greeting {
    Greeting { fingerprint: FINGERPRINT, ..*greeting }
}

/// Takes the host's first message. A host of another build is told what this program has.
fn greet(socket: &OwnedFd) -> Result<(Greeting, WindowFile), ServeError> {
    let mut greeting = Greeting::new_zeroed();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut text = [IoSliceMut::new(greeting.as_mut_bytes())];
    let received = recvmsg(socket, &mut text, &mut ancillary, RecvFlags::CMSG_CLOEXEC).map(|message| message.bytes);
    let descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let window = descriptors.flatten().next();
    if received != Ok(size_of::<Greeting>()) || greeting.magic != GREETING {
        return Err("expected a host to start this program, with a socket as standard input".into());
    }
    if greeting.fingerprint != FINGERPRINT {
        answer(socket, &own_greeting(&greeting))?;
        return Err("the host is of another build".into());
    }
    let is_whole = greeting.off >= PREAMBLE_BYTES && (greeting.off | greeting.len) % PAGE == 0 && greeting.len >= ARENA;
    let window = window.filter(|_| is_whole).ok_or("expected a window with a section of whole pages")?;
    Ok((greeting, WindowFile::of(window)?))
}

/// Sends a message that the host waits for. The adapter waits for no host: one that does not take it is lost.
fn answer(socket: &OwnedFd, message: &(impl IntoBytes + zerocopy::Immutable)) -> Result<(), Errno> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::send(socket, message.as_bytes(), flags).map(|_| ())
}

fn serve(
    socket: &OwnedFd,
    page: &Window<Shared>,
    mut engine: Engine<Shared>,
    mut port: Option<Port>,
    epoch: u32,
) -> Result<(), ServeError> {
    let (mut rounds, mut idle) = (0_u32, 0_u32);
    let begin = Instant::now();
    let clock = || u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let mut now = 0;
    loop {
        rounds = rounds.wrapping_add(1);
        if rounds.is_multiple_of(LOOK) {
            // A host that begins another epoch has this program end first; this is for one that breaks the rules.
            if page.word(word::EPOCH)?.load() != epoch || !obey(socket, &mut engine)? {
                return Ok(());
            }
            now = clock();
        }
        let mut work = engine.round(now);
        if let Some(port) = &mut port {
            work += port.serve(&mut engine, clock())?;
        }
        idle = if work == 0 { idle.saturating_add(1) } else { 0 };
        if idle >= PATIENCE {
            std::thread::yield_now();
        } else if idle != 0 {
            std::hint::spin_loop();
        }
    }
}

/// Does what the host asks for, if it does. False: it is gone.
fn obey(socket: &OwnedFd, engine: &mut Engine<Shared>) -> Result<bool, Errno> {
    let mut command = Command::new_zeroed();
    match rustix::net::recv(socket, command.as_mut_bytes(), RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
        Err(Errno::AGAIN | Errno::INTR) => Ok(true),
        Err(e) => Err(e),
        Ok((0, _)) => Ok(false),
        Ok((_, bytes)) => {
            let reply = if bytes == size_of::<Command>() { engine.command(&command) } else { Reply::MALFORMED };
            answer(socket, &reply).map(|()| true)
        }
    }
}
