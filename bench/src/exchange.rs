//! Bytes there and back over a loopback connection: the floor of a device across a network. A thread of this program is
//! the other end. Both ends wait in one of two ways, and the floor is the faster one, as in `floors`.

use super::BoxError;
use super::stats::median;
use hamr_comm::am::patience;
use hamr_net::frame::{CHUNK, End};
use hamr_net::key::Key;
use hamr_net::{Broken, Channel};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Exchanges before the first sample. The first one has the handshake.
pub(super) const WARM: u32 = 20;
/// An end that hears nothing for so long looks again.
const LOOK: Duration = Duration::from_secs(1);

/// What is exchanged.
#[derive(Clone, Copy)]
pub(super) struct Exchange<'k> {
    /// Bytes there, and bytes back when all of them have come.
    pub(super) bytes: [usize; 2],
    /// Over TLS, as connections of hamr have it. `None`: over TCP alone.
    pub(super) key: Option<&'k Key>,
    /// The other end makes a cache line's round trip to a third thread in between, as a server to its device.
    pub(super) has_line: bool,
    /// Exchanges of a sample.
    pub(super) times: u32,
}

/// How both ends wait.
#[derive(Clone, Copy)]
enum Wait {
    /// They look again.
    Poll,
    /// They sleep until the socket is ready.
    Sleep,
}

impl Wait {
    fn pause(self, channel: &Channel) {
        match self {
            Self::Poll => patience::rest(),
            Self::Sleep => channel.wait(LOOK),
        }
    }
}

impl Exchange<'_> {
    /// Nanoseconds of one exchange, in so many samples.
    pub(super) fn samples(&self, count: u32) -> Result<Vec<f64>, BoxError> {
        let (polled, slept) = (self.waiting(count, Wait::Poll)?, self.waiting(count, Wait::Sleep)?);
        Ok(if median(&polled) < median(&slept) { polled } else { slept })
    }

    fn waiting(&self, count: u32, wait: Wait) -> Result<Vec<f64>, BoxError> {
        let [near, far] = self.connect()?;
        let line = Line(AtomicU32::new(0));
        std::thread::scope(|scope| {
            if self.has_line {
                scope.spawn(|| line.answer());
            }
            scope.spawn(|| {
                // It ends when the near end does.
                let _ = self.serve(far, &line, wait);
                line.end();
            });
            self.ask(near, count, wait)
        })
    }

    fn connect(&self) -> Result<[Channel; 2], BoxError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let near = TcpStream::connect(listener.local_addr()?)?;
        let (far, _) = listener.accept()?;
        let channel = |stream: TcpStream, end| -> Result<Channel, BoxError> {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok(Channel::new(stream.into(), end, self.key, LOOK)?)
        };
        Ok([channel(near, End::Host)?, channel(far, End::Server)?])
    }

    /// The near end, which is closed behind the last exchange.
    fn ask(&self, mut channel: Channel, count: u32, wait: Wait) -> Result<Vec<f64>, BoxError> {
        let [there, back] = self.bytes;
        let (from, mut piece) = (vec![1; there], vec![0; back.min(CHUNK)]);
        let mut sample = |times: u32| -> Result<f64, BoxError> {
            let begin = Instant::now();
            for _ in 0..times {
                send(&mut channel, &from, wait)?;
                receive(&mut channel, back, &mut piece, wait)?;
            }
            Ok(begin.elapsed().as_nanos() as f64 / f64::from(times))
        };
        sample(WARM)?;
        (0..count).map(|_| sample(self.times)).collect()
    }

    fn serve(&self, mut channel: Channel, line: &Line, wait: Wait) -> Result<(), Broken> {
        let [there, back] = self.bytes;
        let (from, mut piece) = (vec![2; back], vec![0; there.min(CHUNK)]);
        loop {
            receive(&mut channel, there, &mut piece, wait)?;
            if self.has_line {
                line.ask();
            }
            send(&mut channel, &from, wait)?;
        }
    }
}

fn send(channel: &mut Channel, mut bytes: &[u8], wait: Wait) -> Result<(), Broken> {
    while !bytes.is_empty() {
        let len = channel.push_raw(bytes)?;
        bytes = bytes.get(len..).unwrap_or_default();
        if len == 0 {
            wait.pause(channel);
        }
    }
    while !channel.flush()? {
        wait.pause(channel);
    }
    Ok(())
}

/// Receives so many bytes, piece by piece.
fn receive(channel: &mut Channel, mut count: usize, piece: &mut [u8], wait: Wait) -> Result<(), Broken> {
    while count > 0 {
        let most = count.min(piece.len());
        let len = channel.take_raw(piece.get_mut(..most).unwrap_or_default())?;
        count -= len;
        if len == 0 {
            wait.pause(channel);
        }
    }
    Ok(())
}

/// A cache line between two threads: odd while a question is in it.
#[repr(align(128))]
struct Line(AtomicU32);

impl Line {
    /// Nothing is asked any more.
    const END: u32 = u32::MAX;

    fn ask(&self) {
        let question = self.0.load(Ordering::Relaxed) | 1;
        // L0, pairs with L1.
        self.0.store(question, Ordering::Release);
        // L2, pairs with L3.
        while self.0.load(Ordering::Acquire) == question {
            patience::rest();
        }
    }

    fn answer(&self) {
        loop {
            // L1, pairs with L0.
            match self.0.load(Ordering::Acquire) {
                Self::END => return,
                // L3, pairs with L2.
                question if question % 2 == 1 => self.0.store(question + 1, Ordering::Release),
                _ => patience::rest(),
            }
        }
    }

    fn end(&self) {
        self.0.store(Self::END, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_exchanged_with_and_without_tls() {
        let key = Key::random().expect("random bytes");
        for key in [None, Some(&key)] {
            for (bytes, has_line) in [([24, 24], true), ([1 << 20, 16], false), ([16, 1 << 20], true)] {
                let samples = Exchange { bytes, key, has_line, times: 2 }.samples(3).expect("both ends are here");
                assert!(samples.len() == 3 && samples.iter().all(|ns| *ns > 0.0), "{samples:?}");
            }
        }
    }
}
