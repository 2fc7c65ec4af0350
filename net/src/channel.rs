//! A connection as frames. Nothing here blocks: [`Channel::receive`] gives what has come, [`Channel::push`] collects, and
//! [`Channel::flush`] hands as much as fits to the system, all that was collected in one call.
//!
//! Who waits for the socket has called [`Channel::receive`] until it gave nothing, since bytes that TLS has decrypted wake
//! no `poll`, and asks for [`Channel::interest`]. Memory is one frame each way, what its owner collects in one step, and
//! the PARTs of one message.

#[cfg(test)]
mod tests;

use crate::failure::Broken;
use crate::frame::{
    Bounds, CHUNK, End, Frame, HEAD, LONGEST, LONGEST_OPENING, MOST_TEXT, Malformed, Phase, admit, is_part,
};
use crate::io::{Carrier, Io, Line, Wire};
use crate::key::Key;
use rustix::event::PollFlags;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// One end of a connection.
pub struct Channel {
    io: Io,
    end: End,
    phase: Phase,
    bounds: Bounds,
    /// What has come: `input[start..filled]`, of which `given` bytes at its front are the frame that was given out.
    input: Box<[u8]>,
    start: usize,
    filled: usize,
    given: usize,
    /// What is to go: `output[sent..]`.
    output: Vec<u8>,
    sent: usize,
    parts: Vec<u8>,
    /// `parts` were given out.
    parts_given: bool,
    /// Nothing can be sent any more. What has come counts all the same, and behind it the end is read.
    is_cut: bool,
    /// The system had no room for more at the last try.
    is_full: bool,
    ended: Option<Broken>,
}

/// A child that this process has forked has the socket, too, which does not close then.
impl Drop for Channel {
    fn drop(&mut self) {
        if self.io.is_ours().is_ok() {
            self.end();
        }
    }
}

impl Channel {
    /// Over a connected socket that does not block. `key`: `None` between two ends in one program, whose socket pair
    /// nothing else has.
    ///
    /// # Errors
    /// TLS does not begin.
    pub fn new(socket: OwnedFd, end: End, key: Option<&Key>, silence: Duration) -> Result<Self, Broken> {
        Ok(Self::of(Io::secured(socket, end, key, silence)?, end))
    }

    /// Over another network.
    pub fn over(carrier: impl Carrier + 'static, wire: Arc<dyn Wire>, end: End) -> Self {
        Self::of(Io::carried(carrier, wire), end)
    }

    fn of(io: Io, end: End) -> Self {
        Self {
            io,
            end,
            phase: Phase::Opening,
            bounds: Bounds::default(),
            input: vec![0; LONGEST_OPENING].into(),
            start: 0,
            filled: 0,
            given: 0,
            output: Vec::new(),
            sent: 0,
            parts: Vec::new(),
            parts_given: false,
            is_cut: false,
            is_full: false,
            ended: None,
        }
    }

    /// The connection is granted: other frames come now, with ranges in these bounds.
    pub fn begin(&mut self, phase: Phase, bounds: Bounds) {
        (self.phase, self.bounds) = (phase, bounds);
        let mut input = vec![0; LONGEST].into_boxed_slice();
        self.consume();
        let rest = self.input.get(self.start..self.filled).unwrap_or_default();
        if let Some(front) = input.get_mut(..rest.len()) {
            front.copy_from_slice(rest);
        }
        (self.start, self.filled) = (0, rest.len());
        self.input = input;
    }

    /// The next frame, with ranges that are checked. `None`: no whole one has come.
    ///
    /// # Errors
    /// The connection has ended, or ends here: the other end sent what it may not.
    pub fn receive(&mut self) -> Result<Option<Frame<'_>>, Broken> {
        if let Some(ended) = &self.ended {
            return Err(ended.clone());
        }
        let (number, len) = match self.whole() {
            Ok(None) => return Ok(None),
            Ok(Some(whole)) => whole,
            Err(e) => return Err(self.ended.insert(e).clone()),
        };
        let bytes = self.input.get(self.start..).and_then(|input| input.get(HEAD..HEAD + len)).unwrap_or_default();
        let frame = Frame::decode(number, bytes).and_then(|frame| frame.check(&self.bounds).map(|()| frame));
        let frame = match frame {
            Ok(Frame::Bye(text)) => return Err(self.ended.insert(Broken::Said(text.into())).clone()),
            Err(e) => return Err(self.ended.insert(e.into()).clone()),
            Ok(frame) => frame,
        };
        self.given = HEAD + len;
        if self.parts.is_empty() {
            return Ok(Some(frame));
        }
        self.parts_given = true;
        let (Frame::Offer(last) | Frame::State { bytes: last, .. }) = frame else {
            let e = Malformed::Reserved { name: "PART", field: "what is between it and OFFER or STATE" };
            return Err(self.ended.insert(e.into()).clone());
        };
        self.parts.extend_from_slice(last);
        Ok(Some(match frame {
            Frame::State { acknowledged, state, .. } => Frame::State { acknowledged, state, bytes: &self.parts },
            _ => Frame::Offer(&self.parts),
        }))
    }

    /// Kind and length of a whole frame at the front that is no PART.
    fn whole(&mut self) -> Result<Option<(u8, usize)>, Broken> {
        loop {
            self.consume();
            let came = self.input.get(self.start..self.filled).unwrap_or_default();
            if let Some((head, behind)) = came.split_first_chunk::<HEAD>() {
                let from = if self.end == End::Host { End::Server } else { End::Host };
                let (number, len) = admit(*head, from, self.phase)?;
                if let Some(bytes) = behind.get(..len) {
                    if !is_part(number) {
                        return Ok(Some((number, len)));
                    }
                    let (most, got) = (self.bounds.longest, self.parts.len() + bytes.len());
                    if got > most {
                        let (most, got) = (most as u64, got as u64);
                        return Err(Malformed::Value { name: "PART", field: "bytes in a row", most, got }.into());
                    }
                    self.parts.extend_from_slice(bytes);
                    self.given = HEAD + len;
                    continue;
                }
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Takes away what was given out.
    fn consume(&mut self) {
        self.start += std::mem::take(&mut self.given);
        if std::mem::take(&mut self.parts_given) {
            self.parts.clear();
        }
        if self.start == self.filled {
            (self.start, self.filled) = (0, 0);
        }
    }

    /// Reads what has come. False: nothing.
    fn fill(&mut self) -> Result<bool, Broken> {
        if self.filled == self.input.len() {
            self.input.copy_within(self.start..self.filled, 0);
            (self.start, self.filled) = (0, self.filled - self.start);
        }
        let read = self.io.read(self.input.get_mut(self.filled..).unwrap_or_default())?;
        self.filled += read;
        Ok(read != 0)
    }

    /// Bytes behind a PUT or a DONE, as they are. 0: none have come.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn take_raw(&mut self, to: &mut [u8]) -> Result<usize, Broken> {
        if let Some(ended) = &self.ended {
            return Err(ended.clone());
        }
        self.consume();
        let came = self.input.get(self.start..self.filled).unwrap_or_default();
        let len = came.len().min(to.len());
        if len == 0 {
            return self.io.read(to).map_err(|e| self.ended.insert(e).clone());
        }
        if let (Some(to), Some(from)) = (to.get_mut(..len), came.get(..len)) {
            to.copy_from_slice(from);
        }
        self.start += len;
        Ok(len)
    }

    /// Gives bytes behind a PUT out where they are, at most so many. 0: none have come.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn pass_raw(&mut self, most: usize, mut to: impl FnMut(&[u8])) -> Result<usize, Broken> {
        if let Some(ended) = &self.ended {
            return Err(ended.clone());
        }
        self.consume();
        if self.start == self.filled {
            let passed = self.io.pass(most, &mut to).map_err(|e| self.ended.insert(e).clone())?;
            if let Some(len) = passed {
                return Ok(len);
            }
            self.fill().map_err(|e| self.ended.insert(e).clone())?;
        }
        let came = self.input.get(self.start..self.filled).unwrap_or_default();
        let came = came.get(..most).unwrap_or(came);
        to(came);
        self.start += came.len();
        Ok(came.len())
    }

    /// Collects the bytes of a frame.
    pub(crate) fn with_first(mut self, frame: &[u8]) -> Self {
        self.output.extend_from_slice(frame);
        self
    }

    /// Collects a frame.
    ///
    /// # Errors
    /// The other end would refuse it.
    pub fn push(&mut self, frame: &Frame<'_>) -> Result<(), Malformed> {
        frame.encode(&mut self.output)
    }

    /// Hands bytes behind a PUT or a DONE over, and returns how many. 0: there is no room.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn push_raw(&mut self, from: &[u8]) -> Result<usize, Broken> {
        if !self.flush()? {
            return Ok(0);
        }
        let from = from.get(..CHUNK).unwrap_or(from);
        self.write(from)
    }

    fn write(&mut self, from: &[u8]) -> Result<usize, Broken> {
        let written = self.io.write(from);
        self.is_full = !from.is_empty() && matches!(written, Ok(0));
        match written {
            Err(Broken::Closed) => {
                self.is_cut = true;
                Ok(0)
            }
            written => written.map_err(|e| self.ended.insert(e).clone()),
        }
    }

    /// Hands over what was collected. True: all of it. Until then nothing more is to be collected, so that a peer that
    /// takes nothing costs no memory, and what comes is to be read: the peer may have ended the connection.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn flush(&mut self) -> Result<bool, Broken> {
        if let Some(ended) = &self.ended {
            return Err(ended.clone());
        }
        let output = std::mem::take(&mut self.output);
        let flushed = loop {
            let rest = output.get(self.sent..).unwrap_or_default();
            if self.is_cut {
                break Ok(false);
            }
            match self.write(rest) {
                Ok(0) => break Ok(rest.is_empty() && !self.is_cut),
                Ok(len) => self.sent += len,
                Err(e) => break Err(e),
            }
        };
        self.output = output;
        if self.sent == self.output.len() {
            self.output.clear();
            self.sent = 0;
        }
        let is_all = flushed? && !self.io.has_unsent();
        // Who heard that there is no room is to hear of it, also when a look at what comes has sent the rest.
        self.is_full = !is_all && !self.is_cut;
        Ok(is_all)
    }

    /// Has each end proved the key to the other? Goes on with the handshake.
    ///
    /// # Errors
    /// The other end has another key, or is something else.
    pub fn is_proven(&mut self) -> Result<bool, Broken> {
        self.io.prove().map_err(|e| self.ended.insert(e).clone())
    }

    /// Says why, and ends the connection.
    pub fn bye(&mut self, why: &str) {
        let mut why: String = why.chars().filter(|c| !c.is_control()).collect();
        why.truncate(why.floor_char_boundary(MOST_TEXT));
        let ended = self.ended.take();
        // An error means that the other end is told nothing, and sees the end.
        let _ = self.push(&Frame::Bye(&why)).map(|()| self.flush());
        self.ended = ended;
        self.end();
    }

    /// Ends the connection.
    pub fn end(&mut self) {
        self.ended.get_or_insert(Broken::Closed);
        self.line().end();
    }

    /// What it is over: to be waited for, and to be ended by another thread.
    pub fn line(&self) -> Line {
        self.io.line()
    }

    /// What its socket is to be waited for.
    pub fn interest(&self) -> PollFlags {
        let is_behind = self.sent != self.output.len() || self.is_full || self.io.has_unsent();
        // In the handshake what is collected waits for what comes.
        if is_behind && (self.io.is_proven() || self.io.has_unsent()) {
            return PollFlags::IN | PollFlags::OUT;
        }
        PollFlags::IN
    }

    /// Waits until there may be something to do, at most so long.
    pub fn wait(&self, limit: Duration) {
        self.line().wait(self.interest(), limit);
    }
}
