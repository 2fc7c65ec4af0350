//! The adapter's process: it serves until its host closes the socket, ends, or begins another epoch.

use crate::engine::Engine;
use crate::rest::{Next, Rest};
use crate::wire::port::Port;
use hamr::link::WindowFile;
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::preamble::{PREAMBLE_BYTES, word};
use hamr_comm::abi::window::{Shared, Window};
use hamr_verbs::wire::{
    ARENA, Answer, FINGERPRINT, GREETING, Greeting, HCA_EPOCH, HCA_STATE, NO_GREETING, Question, Reply,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg};
use rustix::process::{PidfdFlags, pidfd_open};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};
use zerocopy::{FromZeros, IntoBytes};

/// Rounds and steps between two looks at the socket and the epoch: a look takes as long as a request. A step takes
/// 20 µs at most, a host waits a second.
const LOOK: u32 = 512;
/// A sleep at most: a host that begins another epoch has this program end first, and one that breaks the rules is found by a look.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// A window's pages.
const PAGE: u64 = 4096;

/// Why there is no adapter, for people.
pub type ServeError = Box<dyn std::error::Error>;

/// What is waited for.
struct Ends {
    /// To the host.
    socket: OwnedFd,
    /// Readable when the host's process has ended: a child that it has forked keeps its end of the socket. `None` where the
    /// system has no such descriptors, or this PID namespace no such process.
    host: Option<OwnedFd>,
    /// Readable when the device has notified.
    own: OwnedFd,
    /// Notifies the device.
    device: OwnedFd,
}

/// Serves the section that a host gives on standard input, with a wire to other adapters.
///
/// # Errors
/// No host has started this program; the window cannot be mapped.
pub fn run(port: Option<Port>) -> Result<(), ServeError> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
    let host = socket_peercred(&socket).ok().and_then(|host| pidfd_open(host.pid, PidfdFlags::empty()).ok());
    let (greeting, window, [own, device]) = greet(&socket)?;
    rustix::thread::set_no_new_privs(true)?;
    let page = window.map_to_read(0, PAGE)?;
    let (section, _) = window.map(greeting.off, greeting.len)?;
    // The mappings stay.
    drop(window);
    let words = section.part(0, ARENA)?;
    let rest = Rest::new(&words, &page, Epoch(greeting.epoch), greeting.spin_us)?;
    section.word(HCA_EPOCH)?.store(greeting.epoch);
    section.word(HCA_STATE)?.publish(1);
    answer(&socket, &own_greeting(&greeting))?;
    let mut engine = Engine::new(section);
    port.iter().for_each(|port| engine.use_wire(port.mtu()));
    serve(&Ends { socket, host, own, device }, &page, engine, rest, port, greeting.epoch)
}

/// Tells the host on standard input why there is no adapter. False: there is none that takes it.
pub fn tell(why: &str) -> bool {
    // Whole characters: a host takes text.
    let text = why.get(..why.floor_char_boundary(NO_GREETING)).unwrap_or(why).as_bytes();
    rustix::net::send(std::io::stdin(), text, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).is_ok()
}

fn own_greeting(greeting: &Greeting) -> Greeting {
    Greeting { fingerprint: FINGERPRINT, ..*greeting }
}

/// Takes the host's first message. A host of another build is told what this program has.
fn greet(socket: &OwnedFd) -> Result<(Greeting, WindowFile, [OwnedFd; 2]), ServeError> {
    let mut greeting = Greeting::new_zeroed();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut text = [IoSliceMut::new(greeting.as_mut_bytes())];
    let received = recvmsg(socket, &mut text, &mut ancillary, RecvFlags::CMSG_CLOEXEC).map(|message| message.bytes);
    let descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let mut descriptors = descriptors.flatten();
    let (window, doorbells) = (descriptors.next(), descriptors.next().zip(descriptors.next()));
    if received != Ok(size_of::<Greeting>()) || greeting.magic != GREETING {
        return Err("expected a host to start this program, with a socket as standard input".into());
    }
    if greeting.fingerprint != FINGERPRINT {
        answer(socket, &own_greeting(&greeting))?;
        return Err("the host is of another build".into());
    }
    let is_whole = greeting.off >= PREAMBLE_BYTES && (greeting.off | greeting.len) % PAGE == 0 && greeting.len >= ARENA;
    let window = window.filter(|_| is_whole).ok_or("expected a window with a section of whole pages")?;
    let (own, device) = doorbells.ok_or("expected two doorbells")?;
    Ok((greeting, WindowFile::of(window)?, [own, device]))
}

/// Sends a message that the host waits for. The adapter waits for no host: one that does not take it is lost.
fn answer(socket: &OwnedFd, message: &(impl IntoBytes + zerocopy::Immutable)) -> Result<(), Errno> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::send(socket, message.as_bytes(), flags).map(|_| ())
}

fn serve(
    ends: &Ends,
    page: &Window<Shared>,
    mut engine: Engine<Shared>,
    mut rest: Rest<'_>,
    mut port: Option<Port>,
    epoch: u32,
) -> Result<(), ServeError> {
    let mut unlooked = LOOK;
    let begin = Instant::now();
    let clock = || u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let mut now = 0;
    let notify = || {
        // An error means that it is full, and then the device is being notified already, or gone.
        let _ = rustix::net::send(&ends.device, &1_u64.to_ne_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    };
    loop {
        if unlooked >= LOOK {
            unlooked = 0;
            if page.word(word::EPOCH)?.load() != epoch || !obey(&ends.socket, &mut engine)? {
                return Ok(());
            }
            now = clock();
        }
        let mut steps = engine.round(now);
        if let Some(port) = &mut port {
            now = clock();
            steps = steps.saturating_add(port.serve(&mut engine, now)?);
        }
        // A device that sleeps is notified of that, too.
        steps = steps.saturating_add(engine.told());
        unlooked = unlooked.saturating_add(steps).saturating_add(1);
        match rest.behind(steps, notify) {
            Next::Round => {}
            Next::Sleep => {
                let timer = engine.next_timer().map(|timer| Duration::from_nanos(timer.saturating_sub(clock())));
                if !sleep(ends, port.as_ref(), timer) {
                    return Ok(());
                }
                rest.woken();
                unlooked = LOOK;
            }
        }
    }
}

/// Sleeps until the device or the host notifies, a packet comes, or `timer`. False: the host has ended.
fn sleep(ends: &Ends, port: Option<&Port>, timer: Option<Duration>) -> bool {
    let Ends { socket, host, own, .. } = ends;
    let wire = port.map_or(socket.as_fd(), AsFd::as_fd);
    let events = port.map_or(PollFlags::IN, Port::events);
    let host_or = host.as_ref().unwrap_or(socket).as_fd();
    let mut fds = [own.as_fd(), socket.as_fd(), wire, host_or].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    fds[2] = PollFd::from_borrowed_fd(wire, events);
    let limit = timer.map_or(LONGEST_SLEEP, |timer| timer.min(LONGEST_SLEEP));
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    // A signal ends the sleep early, which is right.
    if poll(&mut fds, Some(&limit)).is_ok_and(|n| n != 0) {
        let [notified, .., ended] = fds.map(|fd| fd.revents().contains(PollFlags::IN));
        if notified {
            // All notifications since the last, as a rule.
            let _ = rustix::net::recv(own, &mut [0; 512], RecvFlags::DONTWAIT);
        }
        return !(ended && host.is_some());
    }
    true
}

/// Does what the host asks for, if it does. False: it is gone.
fn obey(socket: &OwnedFd, engine: &mut Engine<Shared>) -> Result<bool, Errno> {
    let mut question = Question::new_zeroed();
    match rustix::net::recv(socket, question.as_mut_bytes(), RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
        Err(Errno::AGAIN | Errno::INTR) => Ok(true),
        Err(e) => Err(e),
        Ok((0, _)) => Ok(false),
        Ok((_, bytes)) => {
            let is_whole = bytes == size_of::<Question>();
            let reply = if is_whole { engine.command(&question.command) } else { Reply::MALFORMED };
            answer(socket, &Answer { number: question.number, reply }).map(|()| true)
        }
    }
}
