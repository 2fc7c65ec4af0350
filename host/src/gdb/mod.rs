//! Boards with nothing but a debugger's stub: `gdb:HOST:PORT`. Their memory is read and written through it, host-driven; they need
//! no card and no driver.

mod stub;

use crate::launcher::{LaunchRequest, Launcher};
use crate::link::{FarHeap, Link, Protocol};
use crate::mirror::{Descriptor, FarSide, MirrorLink};
use crate::{Error, ImageFile, Target};
use hamr_comm::mirror::{Body, DeviceSide, DrivenCopy, DrivenMemory, Lost, Message, Promises, Side};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stub::Stub;

/// Opens devices behind a debugger's stub: `gdb` in every runtime.
#[derive(Clone, Copy, Default, Debug)]
pub struct GdbLauncher;

/// `HOST:PORT[,base=ADDRESS]`.
struct Place<'a> {
    at: &'a str,
    base: Option<u64>,
}

impl<'a> Place<'a> {
    fn parse(argument: &'a str) -> Option<Self> {
        let (at, base) = match argument.split_once(',') {
            None => (argument, None),
            Some((at, base)) => {
                let base = base.strip_prefix("base=")?;
                let base =
                    base.strip_prefix("0x").map_or_else(|| base.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok());
                (at, Some(base?))
            }
        };
        let (host, port) = at.rsplit_once(':')?;
        let is_place = !host.is_empty() && port.parse::<u16>().is_ok();
        is_place.then_some(Self { at, base })
    }

    fn of(argument: &'a str) -> Result<Self, Error> {
        let known = || "gdb:HOST:PORT, or gdb:HOST:PORT,base=ADDRESS".into();
        Self::parse(argument).ok_or_else(|| Error::UnknownDevice { name: format!("gdb:{argument}"), known: known() })
    }
}

/// Bytes of the longest access: the processor stands meanwhile, and calls wait.
const PIECE: usize = 1 << 13;

/// The note of a build, and where it is in memory.
struct Identity {
    path: PathBuf,
    at: u64,
    note: Vec<u8>,
}

impl Identity {
    /// Before anything is written: what runs there may be another program.
    fn check(&self, stub: &mut Stub) -> Result<(), String> {
        let Self { path, at, note } = self;
        let mut there = vec![0; note.len()];
        stub.read(*at, &mut there)?;
        if there == *note {
            return Ok(());
        }
        Err(format!("expected the build of {} in its memory, got another at {at:#x}: load that image", path.display()))
    }
}

/// The stub, which messages and transfers share.
struct Board {
    /// Where it may be, the best first.
    at: Vec<SocketAddr>,
    name: String,
    base: u64,
    /// What the image has there, of which each build has another: none where `base=` says where the window is.
    identity: Option<Identity>,
    limit: Duration,
    /// `None`: the connection was lost.
    stub: Mutex<Option<Stub>>,
}

impl Board {
    fn connect(&self, limit: Duration) -> Result<(), String> {
        let mut guard = self.stub.lock().unwrap_or_else(PoisonError::into_inner);
        // A stub serves one connection.
        *guard = None;
        let (begin, mut first) = (Instant::now(), None);
        for at in &self.at {
            let left = limit.saturating_sub(begin.elapsed()).min(self.limit);
            let stub = Stub::connect(*at, left).and_then(|mut stub| {
                self.identity.as_ref().map_or(Ok(()), |identity| identity.check(&mut stub))?;
                Ok(stub)
            });
            match stub {
                Ok(stub) => {
                    *guard = Some(stub);
                    return Ok(());
                }
                Err(why) => first = first.or_else(|| Some(format!("the stub at {at}: {why}"))),
            }
        }
        Err(first.unwrap_or_else(|| "expected an address, got none".into()))
    }

    fn access(&self, off: u64, what: impl FnOnce(&mut Stub, u64) -> Result<(), String>) -> Result<(), String> {
        let mut guard = self.stub.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = |why: &str| format!("the connection to the stub at {} was lost: {why}", self.name);
        let stub = guard.as_mut().ok_or_else(|| lost("it has ended"))?;
        let address =
            self.base.checked_add(off).ok_or_else(|| format!("expected an address, got {off:#x} behind the base"))?;
        what(stub, address).map_err(|why| {
            // Whatever comes now answers something else.
            *guard = None;
            lost(&why)
        })
    }
}

impl FarHeap for Board {
    fn read(&self, off: u64, to: &mut [u8]) -> Result<(), String> {
        let mut pieces = to.chunks_mut(PIECE).zip((off..).step_by(PIECE));
        pieces.try_for_each(|(to, off)| self.access(off, |stub, address| stub.read(address, to)))
    }
    fn write(&self, off: u64, from: &[u8]) -> Result<(), String> {
        let mut pieces = from.chunks(PIECE).zip((off..).step_by(PIECE));
        pieces.try_for_each(|(from, off)| self.access(off, |stub, address| stub.write(address, from)))
    }
}

struct BoardMemory(Arc<Board>);

impl DrivenMemory for BoardMemory {
    fn promises(&self) -> Promises {
        // The processor stands meanwhile.
        Promises { write_ascends: true, line_is_whole: true }
    }
    fn read(&mut self, off: u64, to: &mut [u8]) -> Result<(), Lost> {
        FarHeap::read(&*self.0, off, to).map_err(Lost)
    }
    fn write(&mut self, off: u64, from: &[u8]) -> Result<(), Lost> {
        FarHeap::write(&*self.0, off, from).map_err(Lost)
    }
}

/// The board as a side of the mirror. It runs whether a host is there or not.
struct BoardSide {
    copy: DrivenCopy<BoardMemory>,
    /// It is to be told that the board runs outside of any epoch, or does not.
    renewed: Option<bool>,
}

impl Side for BoardSide {
    fn take(&mut self, message: &mut Message) -> Result<bool, Lost> {
        if let Some(is_free) = self.renewed.take() {
            message.body = Body::Renewed(is_free);
            message.bytes.clear();
            if !is_free {
                message.bytes.extend(b"expected that the board leaves its epoch, it has not: reset it");
            }
            return Ok(true);
        }
        self.copy.take(message)
    }
    fn put(&mut self, message: &Message) -> Result<(), Lost> {
        if let Body::Renew = message.body {
            self.renewed = Some(self.copy.has_left());
            return Ok(());
        }
        self.copy.put(message)
    }
    fn flush(&mut self) -> Result<(), Lost> {
        self.copy.flush()
    }
    fn prepare_wait(&mut self) -> bool {
        self.copy.prepare_wait();
        // Nothing tells of a lost connection but an access.
        false
    }
    fn cancel_wait(&mut self) {
        self.copy.cancel_wait();
    }
}

impl FarSide for BoardSide {
    const BLOCKS: bool = true;

    fn descriptors(&self) -> Vec<Descriptor> {
        Vec::new()
    }
    fn is_asked(&self) -> bool {
        true
    }
    fn pause(&self) -> Duration {
        self.copy.pause().unwrap_or_default()
    }
}

impl Launcher for GdbLauncher {
    fn describe(&self) -> String {
        "a board behind a debugger's stub, whose image has a window of its own: gdb:HOST:PORT[,base=ADDRESS]".into()
    }

    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        Place::of(argument).map(|_| None)
    }

    fn protocols(&self) -> &'static [Protocol] {
        &[Protocol::HostDriven]
    }

    fn reads_image(&self) -> bool {
        true
    }

    fn window_of(&self, _: &str, image: &ImageFile, _: Option<Protocol>) -> Result<Option<u64>, Error> {
        let window = image.reserved_window()?;
        Ok(Some(window.end - window.start).filter(|bytes| *bytes != 0))
    }

    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        let &LaunchRequest { device, argument, image, window_len, start_deadline: limit, silence, .. } = request;
        let fail = |why: String| Error::Launch { device: device.into(), why };
        let place = Place::of(argument)?;
        let (base, identity) = match (place.base, image) {
            (Some(base), _) => (base, None),
            (None, None) => {
                let why = "expected an image with a window of its own (--image FILE), or base=ADDRESS, got neither";
                return Err(fail(why.into()));
            }
            (None, Some(image)) => {
                let std::ops::Range { start, end } = image.reserved_window()?;
                if end - start < window_len {
                    let expected = format!("expected a window of at least {window_len} bytes");
                    return Err(fail(format!("{expected}, {} has {}", image.path.display(), end - start)));
                }
                let note = image.build_note()?;
                (start, note.map(|(at, note)| Identity { path: image.path.clone(), at, note }))
            }
        };
        if base.checked_add(window_len).is_none() {
            return Err(fail(format!("expected {window_len} bytes of memory, got a base of {base:#x}")));
        }
        let at = place.at.to_socket_addrs().map_err(|e| fail(format!("{}: {e}", place.at)))?.collect();
        let name = place.at.to_owned();
        let board = Arc::new(Board { at, name, base, identity, limit: silence.min(limit), stub: Mutex::new(None) });
        let heap = board.clone();
        let far = move |limit: Duration| {
            board.connect(limit)?;
            let copy = DrivenCopy::new(BoardMemory(board.clone()), window_len).map_err(|Lost(why)| why)?;
            Ok(BoardSide { copy, renewed: None })
        };
        Ok(Box::new(MirrorLink::start(("gdb", place.at, Protocol::HostDriven), window_len, far, heap, limit)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_a_port_and_perhaps_an_address() {
        let parse = |text| Place::parse(text).map(|place| (place.at.to_owned(), place.base));
        assert_eq!(parse("localhost:1234"), Some(("localhost:1234".into(), None)));
        assert_eq!(parse("[::1]:1234,base=0x80000000"), Some(("[::1]:1234".into(), Some(0x8000_0000))));
        assert_eq!(parse("h:1,base=4096"), Some(("h:1".into(), Some(4096))));
        for bad in ["", "h", ":1", "h:x", "h:70000", "h:1,base=", "h:1,base=zz", "h:1,0x10"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
