//! From a bound call to the words of its slot, and from a reply back to a value.

use super::CallOptions;
use super::submitter::Submitter;
use super::table::Uses;
use crate::device::Device;
use crate::keys::why_not;
use crate::memory::DeviceMemory;
use crate::{BufferError, CallError, FaultReport, SubmitError};
use hamr_comm::abi::ids::HandlerKey;
use hamr_comm::abi::slot::{Ext, INLINE_BYTES, INLINE_WORDS, Place, RepHdr, ReqHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::table::record_flag;
use hamr_comm::migrate::{Decoder, Encoder, MAX_MESSAGE, Migratable};
use hamr_comm::{Call, ErrorOf, Handler, HandlerResult, ValueOf};

/// Is every call of `H` short, without buffers, and run in its stream? Decided by the compiler.
pub(super) const fn is_plain<H: Handler>() -> bool {
    is_short::<H>() && !H::Args::HAS_BUFFERS
}

/// Is a call of `H` queued on the device, and so in need of a ticket?
pub(super) const fn is_queued<H: Handler>() -> bool {
    H::FLAGS & record_flag::QUEUED != 0
}

/// The same, with or without buffers.
pub(super) const fn is_short<H: Handler>() -> bool {
    let short = match H::Args::SIZE {
        Some(n) => n <= INLINE_BYTES,
        None => false,
    };
    // A result that is always longer than the slot may need a reply buffer; one of variable size has the chunk.
    let short_result = match <ValueOf<H> as Migratable>::SIZE {
        Some(n) => n <= INLINE_BYTES,
        None => true,
    };
    short && short_result && H::FLAGS & (record_flag::QUEUED | record_flag::UNORDERED) == 0
}

/// The buffers of a short call: three at most fit into a slot.
#[derive(Clone, Copy)]
pub(super) struct InlineUses {
    records: [u32; 3],
    count: u32,
}

impl InlineUses {
    /// No buffers.
    pub(super) const NONE: Self = Self { records: [0; 3], count: 0 };

    /// Checks and holds them; `None` when one is not usable (the long way round says why).
    #[inline(always)]
    pub(super) fn of<H: Handler>(device: &Device, stream: u32, call: &Call<H>) -> Option<Self> {
        let mut uses = Self { records: [0; 3], count: 0 };
        if !H::Args::HAS_BUFFERS {
            return Some(uses);
        }
        let mut all = true;
        call.args.visit_buffers(&mut |named| match (
            uses.records.get_mut(uses.count as usize),
            device.memory.begin_use(named.wire, named.bytes, stream),
        ) {
            (Some(place), Ok(record)) => {
                *place = record;
                uses.count += 1;
            }
            (None, Ok(record)) => {
                device.memory.end_use(record, stream);
                all = false;
            }
            (_, Err(_)) => all = false,
        });
        if all {
            return Some(uses);
        }
        uses.release::<H>(device, stream);
        None
    }

    /// The call was answered, or never sent.
    #[inline(always)]
    pub(super) fn release<H: Handler>(self, device: &Device, stream: u32) {
        if !H::Args::HAS_BUFFERS {
            return;
        }
        for record in self.records.iter().take(self.count as usize) {
            device.memory.end_use(*record, stream);
        }
    }

    /// For a call that outlives the fast path.
    pub(super) fn into_uses(self, stream: u32) -> Uses {
        let mut uses = Uses::of(stream);
        self.records.iter().take(self.count as usize).for_each(|record| uses.push(*record));
        uses
    }
}

/// Bytes of the arguments of a plain handler.
pub(super) const fn plain_len<H: Handler>() -> usize {
    match H::Args::SIZE {
        Some(n) => n,
        None => 0,
    }
}

/// The words of a plain call.
#[inline(always)]
pub(super) fn plain_words<H: Handler>(call: &Call<H>) -> [u64; INLINE_WORDS] {
    let mut words = [0u64; INLINE_WORDS];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    call.args.encode(&mut Encoder::new(bytes.split_at_mut(plain_len::<H>()).0));
    words
}

/// A message ready for any slot; long arguments are in [`Submitter::scratch`].
pub(super) struct Message {
    pub(super) hdr: ReqHdr,
    pub(super) words: [u64; INLINE_WORDS],
    pub(super) len: usize,
    /// Bytes in scratch memory that go to the slot's request chunk.
    pub(super) chunk: usize,
    pub(super) uses: Uses,
}

impl Message {
    /// The words that carry something.
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

/// Looks the key up, checks and holds the buffers, encodes.
pub(super) fn prepare<H: Handler>(
    scratch: &mut Vec<u8>,
    (chunk_len, stream): ((usize, usize), u32),
    device: &Device,
    call: &Call<H>,
    options: &CallOptions,
) -> Result<Message, SubmitError> {
    let site = || device.site::<H>("submitting");
    let key = device.keys.key::<H>().ok_or_else(|| why_not::<H>(&device.handlers, site()))?;
    let mut message =
        Message { hdr: ReqHdr::inline(key, 0), words: [0; INLINE_WORDS], len: 0, chunk: 0, uses: Uses::of(stream) };
    let filled = fill(&mut message, scratch, chunk_len, device, call, options, key);
    filled.inspect_err(|_| message.uses.release(&device.memory))?;
    Ok(message)
}

fn fill<H: Handler>(
    message: &mut Message,
    scratch: &mut Vec<u8>,
    (req_chunk, rep_chunk): (usize, usize),
    device: &Device,
    call: &Call<H>,
    options: &CallOptions,
    key: HandlerKey,
) -> Result<(), SubmitError> {
    let site = || device.site::<H>("submitting");
    if H::Args::HAS_BUFFERS {
        use_buffers(&call.args, &device.memory, &mut message.uses)
            .map_err(|why| SubmitError::Buffer { site: site(), why })?;
    }
    let mut flags = 0;
    let limit = options.limit.or(options.deadline);
    if is_queued::<H>() || limit.is_some() {
        flags |= ReqHdr::EXT;
        // The ticket is filled in when one is free.
        let longest = u128::from(!Ext::ENFORCED);
        let mut micros = limit.map_or(0, |limit| limit.as_micros().min(longest) as u32);
        if options.limit.is_some() {
            // The shortest there is: zero would mean none.
            micros = micros.max(1) | Ext::ENFORCED;
        }
        message.push([u64::from(micros), 0]);
    }
    if is_queued::<H>() {
        flags |= ReqHdr::TICKET;
    }
    if options.unordered || H::FLAGS & record_flag::UNORDERED != 0 {
        flags |= ReqHdr::UNORDERED;
    }
    let no_room = |e: crate::Error| SubmitError::NoRoom { site: site(), why: e.to_string() };
    let wanted = options.reply_capacity.unwrap_or(0).max(ValueOf::<H>::SIZE.unwrap_or(0));
    let reply = if wanted > rep_chunk.max(INLINE_BYTES) {
        flags |= ReqHdr::REPLY_BUF;
        let block = device.memory.allocate(wanted as u64).map_err(no_room)?;
        message.uses.blocks[1] = Some(block);
        Some([block.off, block.bytes])
    } else {
        None
    };
    let room = INLINE_BYTES - message.len - if reply.is_some() { 16 } else { 0 };
    scratch.resize(MAX_MESSAGE, 0);
    let mut out = Encoder::new(scratch);
    call.args.encode(&mut out);
    let len = out.needed();
    if !out.fits() {
        return Err(SubmitError::TooLong { site: site(), len, limit: MAX_MESSAGE });
    }
    let bytes = scratch.get(..len).unwrap_or(&[]);
    let mut hdr = ReqHdr::inline(key, 0);
    if len <= room {
        if let Some(reply) = reply {
            message.push(reply);
        }
        let at = message.len;
        let inline: &mut [u8] = bytemuck::cast_slice_mut(&mut message.words);
        if let Some(to) = inline.get_mut(at..at + len) {
            to.copy_from_slice(bytes);
        }
        message.len += len;
    } else {
        if len <= req_chunk {
            hdr = hdr.in_chunk();
            message.chunk = len;
            message.push([0, len as u64]);
        } else {
            hdr = hdr.in_buffer();
            let block = device.memory.allocate(len as u64).map_err(no_room)?;
            message.uses.blocks[0] = Some(block);
            let at = device.memory.heap_off() + block.off;
            let written = device.link.window().write_bytes(at, bytes);
            written.map_err(|e| SubmitError::NoRoom { site: site(), why: e.to_string() })?;
            message.push([block.off, len as u64]);
        }
        if let Some(reply) = reply {
            message.push(reply);
        }
    }
    message.hdr = ReqHdr(hdr.0 | (message.len as u32) << 16).with(flags);
    Ok(())
}

fn use_buffers<A: Migratable>(args: &A, memory: &DeviceMemory, uses: &mut Uses) -> Result<(), BufferError> {
    let mut outcome = Ok(());
    args.visit_buffers(&mut |named| {
        if outcome.is_ok() {
            outcome = memory.begin_use(named.wire, named.bytes, uses.stream()).map(|index| uses.push(index));
        }
    });
    outcome
}

/// A reply, copied out of its slot.
pub(super) struct ReplyCopy {
    pub(super) hdr: RepHdr,
    pub(super) words: [u64; INLINE_WORDS],
    /// What the slot's descriptor names; nothing where it names nothing that the slot has.
    pub(super) long: Vec<u8>,
}

impl ReplyCopy {
    /// What about it breaks abi §4.3. Not asked of the reply that says that a queued call was taken.
    pub(super) fn broken(&self) -> Option<&'static str> {
        let hdr = self.hdr;
        if hdr.has(RepHdr::RESERVED) {
            return Some("reserved bits");
        }
        if hdr.has(RepHdr::AM_REPLY) {
            return Some("the number of a reply handler");
        }
        if hdr.has(RepHdr::TAKEN) {
            return Some("a second slot, of a call that has none");
        }
        match hdr.place() {
            Place::Inline => (hdr.len() > INLINE_BYTES).then_some("a length past the slot"),
            Place::Chunk | Place::Buffer => self.long.is_empty().then_some("a result where none can be"),
            Place::Invalid => Some("a place that does not exist"),
        }
    }
}

/// Turns a reply into what the caller gets.
#[cold]
pub(super) fn decode<H: Handler>(device: &Device, reply: &ReplyCopy) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    let site = || device.site::<H>("reading the reply");
    let corrupt = |what: &str| CallError::Corrupt(site(), format!("{what} ({:?})", reply.hdr).into());
    match reply.broken() {
        None => {}
        Some(_) if device.heap_is_released() => {
            return Err(CallError::DeviceLost(site(), device.loss_reason().into()));
        }
        Some(what) => return Err(corrupt(what)),
    }
    let inline: &[u8] = bytemuck::cast_slice(&reply.words);
    let bytes = match reply.hdr.place() {
        Place::Inline => inline.split_at(reply.hdr.len()).0,
        _ => &*reply.long,
    };
    let mut from = Decoder::new(bytes);
    let status = reply.hdr.status();
    if reply.hdr.has(RepHdr::FAULT) {
        if status.has_trace() {
            device.check_after_fault();
        }
        let report = FaultReport::read(*site(), status, bytes, device.symbols());
        return Err(CallError::Fault(Box::new(report)));
    }
    match status {
        Status::OK => match Migratable::decode(&mut from) {
            Ok(value) if from.is_done() => Ok(value),
            _ => Err(corrupt(from.refused().unwrap_or("a result that does not decode"))),
        },
        Status::HANDLER_ERROR => match <H::Output as HandlerResult>::decode_error(&mut from) {
            Ok(error) => Err(CallError::Handler(error)),
            Err(_) => Err(corrupt(from.refused().unwrap_or("an error that does not decode"))),
        },
        // The end of the device's epoch cancelled it: see `Submitter::complete`.
        Status::CANCELLED if device.is_lost() => Err(CallError::DeviceLost(site(), device.loss_reason().into())),
        Status::CANCELLED => Err(CallError::Cancelled(site())),
        Status::DEADLINE => Err(CallError::Deadline(site())),
        Status::RESULT_TOO_LONG => {
            let needed = Migratable::decode(&mut from).unwrap_or(0);
            Err(CallError::ResultTooLong { site: site(), needed })
        }
        Status::NO_BODY => Err(SubmitError::NoBody { site: site() }.into()),
        Status::NO_HANDLER => Err(SubmitError::MissingHandler { site: site() }.into()),
        Status::QUEUE_FULL => Err(SubmitError::QueueFull { site: site() }.into()),
        other => Err(CallError::Corrupt(site(), format!("status {other}").into())),
    }
}

impl Submitter {
    /// What a message must know of its stream: bytes of request and reply chunks, and the stream's number.
    pub(super) fn limits(&self) -> ((usize, usize), u32) {
        let slots = self.req.slots();
        ((slots.req_chunk_len(), slots.rep_chunk_len()), self.number)
    }
}
