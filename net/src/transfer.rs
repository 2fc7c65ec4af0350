//! Long puts and gets, on a connection of their own, so that no call waits behind them: a frame, then bytes as they are.

use crate::channel::Channel;
use crate::failure::Broken;
use crate::frame::{CHUNK, Frame, Malformed, Transfer};
use crate::socket::Limit;
use std::ops::Range;
use std::time::Duration;

/// How long one look at the socket of a server's connection takes; it is shut when there is to be none any more.
const LOOK: Duration = Duration::from_secs(1);

/// The host's end.
pub struct Transfers(Channel);

impl Transfers {
    /// Over a connection that was granted for transfers.
    pub fn new(channel: Channel) -> Self {
        Self(channel)
    }

    /// Its socket: shut, it ends a transfer of another thread.
    pub fn channel(&self) -> &Channel {
        &self.0
    }

    /// Puts bytes into the heap. On return they are there.
    ///
    /// # Errors
    /// The connection ends: by itself, or because `limit` has passed within the transfer, which leaves it of no use. How
    /// much of the range is written is not known then.
    pub fn put(&mut self, off: u64, bytes: &[u8], limit: Duration) -> Result<(), Broken> {
        let outcome = self.try_put(off, bytes, Limit::of(limit));
        self.settled(outcome)
    }

    fn try_put(&mut self, off: u64, bytes: &[u8], limit: Limit) -> Result<(), Broken> {
        self.0.push(&Frame::Put(Transfer { off, total: bytes.len() as u64 }))?;
        let mut rest = bytes;
        while !rest.is_empty() {
            let len = self.0.push_raw(rest)?;
            rest = rest.get(len..).unwrap_or_default();
            if len == 0 {
                quiet(&mut self.0)?;
                self.pause(limit)?;
            }
        }
        self.done(limit)
    }

    /// Gets bytes of the heap.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn get(&mut self, off: u64, to: &mut [u8], limit: Duration) -> Result<(), Broken> {
        let outcome = self.try_get(off, to, Limit::of(limit));
        self.settled(outcome)
    }

    /// What failed leaves a connection that is of no use: the other end hears why.
    fn settled(&mut self, outcome: Result<(), Broken>) -> Result<(), Broken> {
        outcome.inspect_err(|why| self.0.bye(&why.to_string()))
    }

    fn try_get(&mut self, off: u64, to: &mut [u8], limit: Limit) -> Result<(), Broken> {
        self.0.push(&Frame::Get(Transfer { off, total: to.len() as u64 }))?;
        self.done(limit)?;
        let mut rest = to;
        while !rest.is_empty() {
            let len = self.0.take_raw(rest)?;
            rest = rest.get_mut(len..).unwrap_or_default();
            if len == 0 {
                self.pause(limit)?;
            }
        }
        Ok(())
    }

    fn done(&mut self, limit: Limit) -> Result<(), Broken> {
        loop {
            self.0.flush()?;
            match self.0.receive()? {
                Some(Frame::Done { status: 0 }) => return Ok(()),
                Some(Frame::Done { status }) => {
                    let got = status.into();
                    return Err(Malformed::Value { name: "DONE", field: "status", most: 0, got }.into());
                }
                Some(_) | None => self.pause(limit)?,
            }
        }
    }

    fn pause(&mut self, limit: Limit) -> Result<(), Broken> {
        let left = limit.left();
        if left.is_zero() {
            return Err(Broken::Silent(limit.whole));
        }
        self.0.wait(left);
        Ok(())
    }
}

/// Sees the end of a connection whose other end has nothing to say now.
fn quiet(channel: &mut Channel) -> Result<(), Broken> {
    if channel.receive()?.is_none() {
        return Ok(());
    }
    channel.end();
    Err(Malformed::Reserved { name: "transfer", field: "what comes before its end" }.into())
}

/// The heap at the server. Ranges are checked by now.
pub trait Memory {
    /// The heap as it is laid out now, if the connection's bounds may be wider.
    fn heap(&mut self) -> Range<u64> {
        0..u64::MAX
    }
    /// Stores bytes.
    fn write(&mut self, off: u64, bytes: &[u8]);
    /// Loads bytes.
    fn read(&mut self, off: u64, to: &mut [u8]);
    /// What was stored is there for all, before DONE says so.
    fn fence(&mut self);
}

/// Serves transfers until the connection ends, also by a shut socket. Holds [`CHUNK`] bytes.
///
/// # Errors
/// Why it ended.
pub fn serve_transfers(channel: &mut Channel, memory: &mut impl Memory) -> Result<std::convert::Infallible, Broken> {
    let mut piece = vec![0; CHUNK];
    loop {
        serve_transfer(channel, memory, &mut piece)?;
    }
}

/// Serves one, with `piece` for bytes on their way.
///
/// # Errors
/// As [`serve_transfers`].
fn serve_transfer(channel: &mut Channel, memory: &mut impl Memory, piece: &mut [u8]) -> Result<(), Broken> {
    let (range, is_put) = loop {
        match channel.receive()? {
            Some(Frame::Put(range)) => break (range, true),
            Some(Frame::Get(range)) => break (range, false),
            Some(_) | None => channel.wait(LOOK),
        }
    };
    let Transfer { mut off, total } = range;
    let end = off + total;
    let within = memory.heap();
    if off < within.start || end > within.end {
        channel.end();
        let name = if is_put { "PUT" } else { "GET" };
        return Err(Malformed::Range { name, what: "the heap", within, off, len: total }.into());
    }
    if !is_put {
        memory.fence();
        channel.push(&Frame::Done { status: 0 })?;
    }
    while off < end {
        // It may be laid out anew beside a transfer.
        let within = memory.heap();
        if off < within.start || end > within.end {
            channel.end();
            return Err(Broken::Closed);
        }
        let len = usize::try_from(end - off).unwrap_or(usize::MAX).min(piece.len());
        if is_put {
            let len = channel.pass_raw(len, |bytes| memory.write(off, bytes))?;
            if len == 0 {
                channel.wait(LOOK);
            }
            off += len as u64;
            continue;
        }
        let mut rest: &mut [u8] = piece.get_mut(..len).unwrap_or_default();
        memory.read(off, rest);
        while !rest.is_empty() {
            let len = channel.push_raw(rest)?;
            rest = rest.get_mut(len..).unwrap_or_default();
            if len == 0 {
                quiet(channel)?;
                channel.wait(LOOK);
            }
        }
        off += len as u64;
    }
    if is_put {
        memory.fence();
        channel.push(&Frame::Done { status: 0 })?;
    }
    while !channel.flush()? {
        quiet(channel)?;
        channel.wait(LOOK);
    }
    Ok(())
}
