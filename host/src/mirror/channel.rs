//! What is at the other end of a connection, as a side of a mirror: messages as frames (`hamr_net`).

use super::carry::{Descriptor, FarSide, PAUSE};
use crate::link::FarHeap;
use hamr_comm::abi::layout::Layout;
use hamr_comm::abi::version::AbiVersion;
use hamr_comm::abi::window::{Shared, Window};
use hamr_comm::mirror::{Body, Half, Lost, Message, Side};
use hamr_net::frame::{CHUNK, Frame, MOST_TEXT, Reason, Refuse, Slot};
use hamr_net::{Broken, Channel, Line, Memory, Transfers};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The other end of a connection for messages.
pub struct ChannelSide {
    channel: Channel,
    /// Bytes collected since all was handed over, about.
    collected: usize,
    /// The other end, for people. Empty: they know.
    peer: String,
}

impl ChannelSide {
    /// Over a connection to `peer` that was granted for messages. Without a name of it, a loss is told by its reason alone.
    pub fn new(channel: Channel, peer: impl Into<String>) -> Self {
        Self { channel, collected: 0, peer: peer.into() }
    }
}

fn lost(peer: &str, why: impl std::fmt::Display) -> Lost {
    if peer.is_empty() {
        return Lost(why.to_string());
    }
    Lost(format!("the connection to {peer} was lost: {why}"))
}

/// A text as frames have it.
fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().filter(|c| !c.is_control()).take(MOST_TEXT / 4).collect()
}

impl Side for ChannelSide {
    fn take(&mut self, message: &mut Message) -> Result<bool, Lost> {
        let peer = &self.peer;
        let Some(frame) = self.channel.receive().map_err(|why| lost(peer, why))? else { return Ok(false) };
        let (body, bytes) = match frame {
            Frame::Offer(bytes) => (Body::Offer, bytes),
            Frame::State { acknowledged, state, bytes, .. } => (Body::State(acknowledged, state), bytes),
            Frame::Slot(Slot { queue, of_host, header_alone, slot, hdr, word, payload, second, bytes, .. }) => {
                let half = Half { queue, of_host, header_alone, slot, hdr, word, payload };
                message.second = second;
                (Body::Half(half), bytes)
            }
            Frame::Word { off, value } => (Body::HostWord(off.into(), value), &[][..]),
            Frame::Look { off, len } => (Body::Look(off, len), &[][..]),
            Frame::Seen { off, bytes } => (Body::Seen(off), bytes),
            Frame::Renew => (Body::Renew, &[][..]),
            Frame::Renewed => (Body::Renewed(true), &[][..]),
            Frame::Refuse(Refuse { text, .. }) => (Body::Renewed(false), text.as_bytes()),
            Frame::Ended(text) => (Body::Ended, text.as_bytes()),
            _ => return Err(lost(peer, "expected a frame of a window in use, got another one")),
        };
        message.body = body;
        message.bytes.clear();
        message.bytes.extend_from_slice(bytes);
        Ok(true)
    }

    fn put(&mut self, message: &Message) -> Result<(), Lost> {
        let (second, bytes) = (message.second, &message.bytes[..]);
        let said;
        let frame = match message.body {
            Body::None => return Ok(()),
            Body::Offer => Frame::Offer(bytes),
            Body::State(acknowledged, state) => Frame::State { acknowledged, state, bytes },
            Body::Half(Half { queue, of_host, header_alone, slot, hdr, word, payload }) => {
                Frame::Slot(Slot { queue, of_host, header_alone, slot, hdr, word, payload, second, bytes })
            }
            Body::HostWord(off, value) => Frame::Word { off: off.try_into().map_err(|e| lost(&self.peer, e))?, value },
            Body::Look(off, len) => Frame::Look { off, len },
            Body::Seen(off) => Frame::Seen { off, bytes },
            Body::Renew => Frame::Renew,
            Body::Renewed(true) => Frame::Renewed,
            Body::Renewed(false) => {
                said = text(bytes);
                let (reason, abi) = (Reason::Other, (AbiVersion::MIN, AbiVersion::CURRENT));
                Frame::Refuse(Refuse { reason, abi, number: 0, text: &said })
            }
            Body::Ended => {
                said = text(bytes);
                Frame::Ended(&said)
            }
        };
        self.collected += size_of::<Message>() + bytes.len();
        self.channel.push(&frame).map_err(|why| lost(&self.peer, why))
    }

    fn has_room(&self) -> bool {
        self.collected < CHUNK
    }

    fn flush(&mut self) -> Result<(), Lost> {
        if self.collected != 0 && self.channel.flush().map_err(|why| lost(&self.peer, why))? {
            self.collected = 0;
        }
        Ok(())
    }

    fn prepare_wait(&mut self) -> bool {
        self.channel.line().descriptor().is_some()
    }

    fn cancel_wait(&mut self) {}
}

impl FarSide for ChannelSide {
    fn descriptors(&self) -> Vec<Descriptor> {
        self.channel.line().descriptor().map(|socket| (socket.clone(), self.channel.interest())).into_iter().collect()
    }
    fn pause(&self) -> Duration {
        self.channel.line().pause().unwrap_or(PAUSE)
    }
    fn is_full(&self) -> bool {
        self.collected != 0
    }
}

/// The heap at the other end of a connection for transfers.
pub struct TransferHeap {
    /// `None` while a thread transfers.
    transfers: Mutex<Option<Transfers>>,
    is_free: Condvar,
    /// The heap is another one, and who has buffers does not know it yet.
    is_other: AtomicBool,
    /// What it is over: ended, it ends a transfer of another thread.
    line: Mutex<Line>,
    limit: Duration,
}

impl TransferHeap {
    /// Over a connection that was granted for transfers. One may take `limit`, and a microsecond for each byte, with the time until
    /// its turn.
    pub fn new(channel: Channel, limit: Duration) -> Self {
        let line = Mutex::new(channel.line());
        Self {
            transfers: Mutex::new(Some(Transfers::new(channel))),
            is_free: Condvar::new(),
            is_other: AtomicBool::new(false),
            line,
            limit,
        }
    }

    /// From now on over this one, to the same heap or to another one.
    pub fn replace(&self, channel: Channel, is_other: bool) {
        self.end();
        let line = channel.line();
        // Behind the last transfer over the old one, which has ended.
        let transfers = self.transfers.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.is_free.wait_while(transfers, |transfers| transfers.is_none());
        let mut free = free.unwrap_or_else(PoisonError::into_inner);
        self.is_other.fetch_or(is_other, Ordering::AcqRel);
        *free = Some(Transfers::new(channel));
        *self.line() = line;
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with(
        &self,
        len: usize,
        transfer: impl FnOnce(&mut Transfers, Duration) -> Result<(), Broken>,
    ) -> Result<(), String> {
        let (begin, limit) = (Instant::now(), self.limit.saturating_add(Duration::from_micros(len as u64)));
        let transfers = self.transfers.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.is_free.wait_timeout_while(transfers, limit, |transfers| transfers.is_none());
        let (mut free, _) = free.unwrap_or_else(PoisonError::into_inner);
        if self.is_other.load(Ordering::Acquire) {
            return Err("expected the heap of before, it is another one".into());
        }
        let Some(mine) = free.take() else {
            return Err(format!("expected its turn within {limit:?}, another transfer of this program took longer"));
        };
        drop(free);
        let mut turn = Turn { of: self, transfers: Some(mine) };
        let Some(mine) = &mut turn.transfers else { return Ok(()) };
        transfer(mine, limit.saturating_sub(begin.elapsed())).map_err(|why| why.to_string())
    }
}

/// A thread's turn. The next one's begins with its end.
struct Turn<'a> {
    of: &'a TransferHeap,
    transfers: Option<Transfers>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.of.transfers.lock().unwrap_or_else(PoisonError::into_inner) = self.transfers.take();
        // Also who replaces the connection waits.
        self.of.is_free.notify_all();
    }
}

impl FarHeap for TransferHeap {
    fn read(&self, off: u64, to: &mut [u8]) -> Result<(), String> {
        self.with(to.len(), |transfers, limit| transfers.get(off, to, limit))
    }
    fn write(&self, off: u64, from: &[u8]) -> Result<(), String> {
        self.with(from.len(), |transfers, limit| transfers.put(off, from, limit))
    }
    fn end(&self) {
        self.line().end();
    }
    fn if_it_is_other(&self, lose: &dyn Fn()) {
        if self.is_other.load(Ordering::Acquire) {
            lose();
            self.is_other.store(false, Ordering::Release);
        }
    }
}

/// The heap of a window that this program serves, where the host has laid it out.
pub struct ServedHeap {
    window: Window<Shared>,
    /// That of the last layout, while the host makes the next one.
    last: Range<u64>,
}

impl ServedHeap {
    /// Of this window.
    pub fn new(window: Window<Shared>) -> Self {
        Self { window, last: 0..0 }
    }
}

impl Memory for ServedHeap {
    fn heap(&mut self) -> Range<u64> {
        // Before a layout there is none.
        if let Ok(layout) = Layout::of_window(&self.window) {
            self.last = layout.heap();
        }
        self.last.clone()
    }
    fn write(&mut self, off: u64, bytes: &[u8]) {
        // What is not in the window any more is nobody's.
        let _ = self.window.write_bytes(off, bytes);
    }
    fn read(&mut self, off: u64, to: &mut [u8]) {
        let _ = self.window.read_bytes(off, to);
    }
    fn fence(&mut self) {
        fence(Ordering::SeqCst);
    }
}
