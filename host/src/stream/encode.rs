//! Encodes a bound call into the words of its slot.

use super::arguments::Encoded;
use super::queue_end::QueueEnd;
use super::shape::{is_task, longest_result};
use super::uses::Uses;
use super::wait::micros;
use super::{CallOptions, ModuleUse};
use crate::SubmitError;
use crate::device::Device;
use crate::keys::why_not;
use crate::memory::{Block, DeviceMemory};
use hamr_comm::abi::ids::HandlerKey;
use hamr_comm::abi::slot::{Ext, INLINE_BYTES, ReqHdr, TWO_LINE_BYTES, TWO_LINE_WORDS};
use hamr_comm::abi::table::record_flag;
use hamr_comm::migrate::Migratable;
use hamr_comm::{Handler, ValueOf};
use std::sync::atomic::Ordering;

/// A message ready for any slot; long arguments are in their [`Encoded`].
pub(super) struct Message {
    pub(super) hdr: ReqHdr,
    pub(super) words: [u64; TWO_LINE_WORDS],
    pub(super) len: usize,
    /// The arguments go to the slot's request chunk.
    pub(super) in_chunk: bool,
    pub(super) uses: Uses,
}

impl Message {
    /// An empty one, of stream `stream`.
    pub(super) fn of(stream: u32) -> Self {
        Self { hdr: ReqHdr(0), words: [0; TWO_LINE_WORDS], len: 0, in_chunk: false, uses: Uses::of(stream) }
    }

    /// The words with content.
    pub(super) fn used(&self) -> &[u64] {
        self.words.get(..self.len.div_ceil(8)).unwrap_or(&self.words)
    }

    fn push(&mut self, pair: [u64; 2]) {
        if let Some(to) = self.words.get_mut(self.len / 8..self.len / 8 + 2) {
            to.copy_from_slice(&pair);
        }
        self.len += 16;
    }
}

/// What a message needs of its stream.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Number of its queue pair.
    pub(super) stream: u32,
    pub(super) request_chunk: usize,
    pub(super) reply_chunk: usize,
    /// Bytes of the longest arguments that the device takes.
    pub(super) message: usize,
    /// The message goes to a slot that has a second line.
    pub(super) two_lines: bool,
}

/// Finds the key, checks the buffers and begins their use, lays the arguments out in `message`, which is empty.
pub(super) fn prepare<H: Handler>(
    message: &mut Message,
    arguments: &Encoded<'_>,
    end: &QueueEnd,
    limits: Limits,
    device: &Device,
    options: &CallOptions,
) -> Result<(), SubmitError> {
    let site = || device.site::<H>("submitting");
    let key = match options.key {
        Some(known) if known.image != end.image() => return Err(SubmitError::Unloaded { site: site() }),
        Some(known) => Some(known.key),
        None => end.keys.key::<H>(),
    };
    let key = key.ok_or_else(|| why_not::<H>(&device.running().handlers, site()))?;
    let filled = fill::<H>(message, arguments, limits, device, options, key);
    filled.inspect_err(|_| message.uses.release(&device.memory))
}

fn fill<H: Handler>(
    message: &mut Message,
    arguments: &Encoded<'_>,
    limits: Limits,
    device: &Device,
    options: &CallOptions,
    key: HandlerKey,
) -> Result<(), SubmitError> {
    let site = || device.site::<H>("submitting");
    let module = options.key.and_then(|known| known.module);
    if let Some(ModuleUse { epoch, buffer }) = module {
        let unloaded = || SubmitError::Unloaded { site: site() };
        // A message of an epoch that ends meanwhile is not read in the next.
        if device.epoch.load(Ordering::Acquire) != epoch {
            return Err(unloaded());
        }
        message.uses.push(device.memory.begin_use(buffer, 0, limits.stream).map_err(|_| unloaded())?);
    }
    let len = arguments.len();
    let pieces = arguments.pieces().filter(|_| len <= limits.message);
    let pieces = pieces.ok_or_else(|| SubmitError::TooLong { site: site(), len, limit: limits.message })?;
    for named in arguments.named() {
        let index = device.memory.begin_use(named.wire, named.bytes, limits.stream);
        message.uses.push(index.map_err(|why| SubmitError::Buffer { site: site(), why })?);
    }
    let mut flags = 0;
    if is_task::<H>() || options.limit.or(options.deadline).is_some() {
        flags |= ReqHdr::EXT;
        // The ticket is filled in when one is free.
        let time = match options.limit {
            Some(limit) => {
                Ext::enforced(micros(limit)).ok_or_else(|| SubmitError::LongLimit { site: site(), limit })?
            }
            None => options.deadline.map_or(0, |deadline| Ext::deadline(micros(deadline))),
        };
        message.push([u64::from(time), 0]);
    }
    if is_task::<H>() {
        flags |= ReqHdr::TICKET;
    }
    if options.unordered || H::FLAGS & record_flag::UNORDERED != 0 {
        flags |= ReqHdr::UNORDERED;
    }
    let no_room = |e: crate::Error| SubmitError::NoRoom { site: site(), why: e.to_string() };
    let reply = reply_room::<H>(limits, options, &device.memory).map_err(no_room)?;
    message.uses.blocks[1] = reply;
    if reply.is_some() {
        flags |= ReqHdr::REPLY_BUF;
    }
    let reply = reply.map(|block| [block.off, block.bytes]);
    let room = INLINE_BYTES - message.len - if reply.is_some() { 16 } else { 0 };
    let mut hdr = ReqHdr::inline(key, 0);
    if limits.two_lines
        && module.is_none()
        && flags == 0
        && reply.is_none()
        && len > INLINE_BYTES
        && len <= TWO_LINE_BYTES
    {
        let both: &mut [u8] = bytemuck::cast_slice_mut(&mut message.words);
        arguments.copy_to(both);
        (message.hdr, message.len) = (ReqHdr::in_two_lines(key, len), len);
        return Ok(());
    }
    if len <= room {
        if let Some(reply) = reply {
            message.push(reply);
        }
        let at = message.len;
        let inline: &mut [u8] = bytemuck::cast_slice_mut(&mut message.words);
        arguments.copy_to(inline.split_at_mut(at).1);
        message.len += len;
    } else {
        if len <= limits.request_chunk {
            hdr = hdr.in_chunk();
            message.in_chunk = true;
            message.push([0, len as u64]);
        } else {
            hdr = hdr.in_buffer();
            let block = device.memory.allocate(len as u64).map_err(no_room)?;
            message.uses.blocks[0] = Some(block);
            let written = device.memory.write_message(&block, pieces);
            written.map_err(|e| match e {
                crate::BufferError::Unreachable => SubmitError::DeviceLost { site: site(), why: e.to_string() },
                e => SubmitError::NoRoom { site: site(), why: e.to_string() },
            })?;
            message.push([block.off, len as u64]);
        }
        if let Some(reply) = reply {
            message.push(reply);
        }
    }
    message.hdr = ReqHdr(hdr.0 | (message.len as u32) << 16).with(flags);
    Ok(())
}

/// Room in the heap for a result that may be longer than the chunk. Without room, one that has no
/// fixed size and that no option asks it for has the chunk: most are shorter than the longest.
fn reply_room<H: Handler>(
    limits: Limits,
    options: &CallOptions,
    memory: &DeviceMemory,
) -> Result<Option<Block>, crate::Error> {
    let fixed = ValueOf::<H>::SIZE.unwrap_or(0);
    let wanted = options.reply_capacity.unwrap_or(longest_result::<H>()).max(fixed);
    if wanted <= limits.reply_chunk.max(INLINE_BYTES) {
        return Ok(None);
    }
    let block = memory.allocate(wanted as u64);
    if options.reply_capacity.is_none() && fixed == 0 { Ok(block.ok()) } else { block.map(Some) }
}
