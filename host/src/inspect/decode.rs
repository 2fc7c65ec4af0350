//! Makes a report of the bytes of a window. Every field is copied out once; an inconsistent value is
//! reported and not used.

use super::Hex;
use super::report::{Crash, DeviceView, Dump, Host, Offer, Queue, Reply, Request, Ring, SectionEntry, Slot};
use crate::BuildId;
use crate::keys::read_table;
use crate::window::{DeviceWords, HostWords, WindowState};
#[cfg(feature = "device-logs")]
use crate::{
    ImageFile,
    logs::{StringTable, last_lines},
};
use hamr_comm::abi::ids::{Epoch, Isa};
use hamr_comm::abi::layout::Layout;
use hamr_comm::abi::preamble::{
    BYTE_ORDER, DeviceRecord, DeviceState, MAGIC, MAX_SECTIONS, Preamble, SECTIONS, feature,
};
use hamr_comm::abi::rings::{CrashRecord, RingHeader};
use hamr_comm::abi::section::{Section, SectionKind};
use hamr_comm::abi::slot::{INLINE_BYTES, INLINE_WORDS, Place, RepHdr, ReqHdr, seq_count, seq_tag};
use hamr_comm::abi::version::AbiVersion;
use hamr_comm::abi::window::{Shared, Slot as WindowSlot, Window};
use hamr_comm::am::{SlotAccess, Slots};
use hamr_comm::fault::{TRACED_TEXT, Trace};

/// Slots that one dump reads at most: more than any sound window of ordinary size has, few enough
/// that forged descriptors cannot keep the reader busy.
const MAX_SLOTS: u32 = 1 << 18;
/// Bytes of a fault that are read: the longest text, and what comes before it.
const MAX_FAULT: usize = 28 + TRACED_TEXT;
/// Tries to read a slot that changes during the read.
const MAX_POLLS: u32 = 4;

impl Dump {
    /// Reads all that a window shows.
    pub(super) fn of(window: &Window<Shared>, path: &str) -> Self {
        let mut dump = Self::outline(window, path);
        let Ok(preamble) = window.read::<Preamble>(0) else { return dump };
        if dump.preamble.is_none() {
            return dump;
        }
        dump.sections = sections(&preamble, window);
        let layout = match Layout::read(&preamble, window) {
            Ok(layout) => layout,
            Err(why) => {
                dump.problems.push(format!("the section table does not add up: {why:?}"));
                return dump;
            }
        };
        if let Ok(table) = layout.section(SectionKind::TABLE)
            && dump.device.state != DeviceState::ABSENT.text()
        {
            match read_table(window, table) {
                Ok(handlers) => dump.handlers = handlers,
                Err(why) => dump.problems.push(format!("the device shows {why}")),
            }
        }
        dump.read_queues(window, &layout);
        dump.tasks = crate::task_lines::tasks(window, &layout, &dump.handlers);
        dump.log = ring(window, &layout, SectionKind::LOG);
        dump.trace = ring(window, &layout, SectionKind::TRACE);
        dump.crash = crash(window, &layout);
        dump
    }

    /// Decodes the log's last lines with the texts of an image's file, which must be the one that
    /// ran.
    #[cfg(feature = "device-logs")]
    pub(super) fn read_lines(&mut self, window: &Window<Shared>, image: &ImageFile, most: usize) {
        let (file, ran) = (&image.build_id, &self.device.build_id);
        if file != ran {
            let path = image.path.display();
            return self.problems.push(format!(
                "expected the file of the image that ran, build id {ran}, got {path} with build id {file}: log lines are left out"
            ));
        }
        let section = window.read::<Preamble>(0).ok().and_then(|p| Layout::read(&p, window).ok());
        let Some(section) = section.and_then(|layout| layout.section(SectionKind::LOG).ok()) else { return };
        match StringTable::of(image) {
            Ok(string_table) => self.lines = last_lines(window, section, &string_table, most),
            Err(why) => self.problems.push(why.to_string()),
        }
    }

    /// Preamble and live words only.
    fn outline(window: &Window<Shared>, path: &str) -> Self {
        let state = WindowState::read(window);
        let mut problems = Vec::new();
        let preamble = state.preamble().map(|p| offer(p, window.len(), &mut problems));
        match &state.bytes {
            Ok(_) if state.is_laid_out => {}
            Ok(p) => {
                let got = p.magic;
                problems.push(format!(
                    "the magic word is {got:#010x}, expected {MAGIC:#010x}: no host has laid this window out, or this is none"
                ));
            }
            Err(e) => problems.push(e.to_string()),
        }
        let HostWords { state: host_state, epoch, alive, open_queues, wait, doorbell } = state.host;
        let host = Host { state: host_state.text(), epoch, alive, open_queues, wait, doorbell };
        let device = device(&state.device, &state.record);
        Self {
            path: path.into(),
            size: window.len(),
            problems,
            preamble,
            host,
            device,
            sections: Vec::new(),
            queues: Vec::new(),
            slots_skipped: 0,
            tasks: Vec::new(),
            handlers: Vec::new(),
            log: None,
            #[cfg(feature = "device-logs")]
            lines: Vec::new(),
            trace: None,
            crash: None,
        }
    }

    fn read_queues(&mut self, window: &Window<Shared>, layout: &Layout) {
        let limit = hamr_comm::am::MAX_QUEUES as u32;
        if layout.queues() > limit {
            let got = layout.queues();
            self.problems
                .push(format!("{got} queue pairs, of which a device serves at most {limit}; the rest is left out"));
        }
        let mut budget = MAX_SLOTS;
        for index in 0..layout.queues().min(limit) {
            let lines = layout.queue(window, index).map_err(|e| format!("{e:?}"));
            let lines = lines.and_then(|d| window.queue(&d).map(|q| (d, q)).map_err(|e| e.to_string()));
            let (descriptor, lines) = match lines {
                Ok(both) => both,
                Err(why) => {
                    self.problems.push(format!("queue pair {index} does not add up: {why}"));
                    continue;
                }
            };
            let mut queue = Queue {
                index,
                open: index < self.host.open_queues,
                ring: descriptor.ring_len,
                tickets: descriptor.ticket_slots,
                chunks: [descriptor.req_chunk, descriptor.rep_chunk],
                depth: descriptor.depth,
                slots: Vec::new(),
                empty: 0,
            };
            let ring_len = lines.ring_len();
            let hot = std::iter::once(("hot", 0, lines.hot()));
            let ring = (0..lines.ring_len()).map(|i| ("ring", i, lines.ring(i)));
            let tickets = (0..lines.ticket_slots()).filter_map(|i| Some(("ticket", i, lines.ticket_slot(i)?)));
            for (kind, i, line) in hot.chain(ring).chain(tickets) {
                let Some(left) = budget.checked_sub(1) else {
                    self.slots_skipped += 1;
                    continue;
                };
                budget = left;
                let number = match kind {
                    "ring" => 1 + i,
                    "ticket" => 1 + ring_len + i,
                    _ => 0,
                };
                let chunk = |to: &mut [u8]| lines.read_reply_chunk(number, to).is_some();
                match self.slot(kind, i, line, chunk) {
                    Some(slot) => queue.slots.push(slot),
                    None => queue.empty += 1,
                }
            }
            self.queues.push(queue);
        }
    }

    fn slot(
        &self,
        kind: &'static str,
        index: u32,
        line: WindowSlot<'_, hamr_comm::abi::sync::Coherent>,
        chunk: impl Fn(&mut [u8]) -> bool,
    ) -> Option<Slot> {
        let mut seen = Seen::take(line);
        for _ in 0..MAX_POLLS {
            if !seen.moved {
                break;
            }
            seen = Seen::take(line);
        }
        if seen.req_seq == 0 && seen.rep_seq == 0 {
            return None;
        }
        let (hdr, rep) = (ReqHdr(seen.req_hdr), RepHdr(seen.rep_hdr));
        let state = seen.state(Epoch(self.host.epoch).tag());
        let len = if state == "requested" { hdr.len() } else { rep.len() };
        let bytes: &[u8] = bytemuck::cast_slice(&seen.words);
        let payload = bytes.get(..len.min(INLINE_BYTES)).unwrap_or(&[]);
        Some(Slot {
            kind,
            index,
            state,
            request: (seen.req_seq != 0).then(|| Request {
                tag: seq_tag(seen.req_seq),
                count: seq_count(seen.req_seq),
                key: hdr.key().0,
                handler: self.handlers.get(usize::from(hdr.key().0)).map(|h| h.name.clone()),
                len: hdr.args_len(),
                place: place(hdr.place()),
                flags: flags(hdr.0, &REQUEST_FLAGS),
            }),
            reply: (seen.rep_seq != 0).then(|| Reply {
                tag: seq_tag(seen.rep_seq),
                count: seq_count(seen.rep_seq),
                status: rep.status().name(),
                code: rep.status().0,
                len: rep.len(),
                place: place(rep.place()),
                flags: flags(rep.0, &REPLY_FLAGS),
                fault: rep.has(RepHdr::FAULT).then(|| fault(rep, &seen.words, chunk)).flatten(),
            }),
            payload: payload.iter().map(|b| format!("{b:02x}")).collect(),
        })
    }
}

/// The text of a fault, which is behind its numbers (abi §6).
fn fault(rep: RepHdr, words: &[u64; INLINE_WORDS], chunk: impl Fn(&mut [u8]) -> bool) -> Option<String> {
    const NUMBERS: usize = 24;
    let mut long = [0; MAX_FAULT];
    let bytes: &[u8] = match rep.place() {
        Place::Inline => bytemuck::cast_slice::<u64, u8>(words).get(..rep.len().min(INLINE_BYTES))?,
        Place::Chunk => {
            let len = usize::try_from(*words.get(1)?).ok()?.min(MAX_FAULT);
            let long = long.get_mut(..len)?;
            chunk(long).then_some(long)?
        }
        Place::Buffer | Place::TwoLines => return None,
    };
    let text = if rep.status().has_trace() { Trace::decode(bytes).1 } else { bytes.get(NUMBERS..)? };
    Some(String::from_utf8_lossy(text).into_owned()).filter(|text| !text.is_empty())
}

/// A slot's words as one read found them.
struct Seen {
    req_seq: u32,
    rep_seq: u32,
    req_hdr: u32,
    rep_hdr: u32,
    words: [u64; INLINE_WORDS],
    /// A published word changed while the other words were copied.
    moved: bool,
}

impl Seen {
    fn take(line: WindowSlot<'_, hamr_comm::abi::sync::Coherent>) -> Self {
        let (rep_seq, req_seq) = (line.rep_seq(), line.req_seq());
        let (req_hdr, rep_hdr) = (line.req_hdr(), line.rep_hdr());
        let mut words = [0; INLINE_WORDS];
        // The reply overwrites the request: the published words decide whose bytes these are.
        line.read_reply(&mut words);
        if rep_seq != req_seq {
            line.read_request(&mut words);
        }
        let moved = line.rep_seq() != rep_seq || line.req_seq() != req_seq;
        Self { req_seq, rep_seq, req_hdr, rep_hdr, words, moved }
    }

    fn state(&self, tag: u8) -> &'static str {
        let current = |seq| seq != 0 && seq_tag(seq) == tag;
        let taken = RepHdr(self.rep_hdr).has(RepHdr::TAKEN);
        match (current(self.req_seq), current(self.rep_seq)) {
            _ if self.moved => "changing",
            (true, true) if self.req_seq == self.rep_seq => {
                if taken {
                    "taken"
                } else {
                    "answered"
                }
            }
            // A ticket's request is published elsewhere; its ticket slot carries the reply alone.
            (false, true) if self.req_seq == 0 => "answered",
            (true, true) if seq_count(self.rep_seq) == seq_count(self.req_seq.wrapping_sub(1)) => "requested",
            (true, false) if self.rep_seq == 0 || seq_count(self.req_seq) == 1 => "requested",
            (false, false) => "stale epoch",
            _ => "inconsistent",
        }
    }
}

const REQUEST_FLAGS: [(u32, &str); 8] = [
    (ReqHdr::EXT, "EXT"),
    (ReqHdr::ONE_WAY, "ONE_WAY"),
    (ReqHdr::TICKET, "TICKET"),
    (ReqHdr::UNORDERED, "UNORDERED"),
    (ReqHdr::REPLY_BUF, "REPLY_BUF"),
    (ReqHdr::PUT, "PUT"),
    (ReqHdr::RESERVED, "RESERVED"),
    (ReqHdr::CANCEL, "CANCEL"),
];
const REPLY_FLAGS: [(u32, &str); 3] =
    [(RepHdr::FAULT, "FAULT"), (RepHdr::AM_REPLY, "AM_REPLY"), (RepHdr::TAKEN, "TAKEN")];

fn flags(bits: u32, names: &[(u32, &'static str)]) -> Vec<&'static str> {
    names.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect()
}

fn place(place: Place) -> &'static str {
    match place {
        Place::Inline => "inline",
        Place::Chunk => "chunk",
        Place::Buffer => "buffer",
        Place::TwoLines => "two lines",
    }
}

/// Names of feature bits; an unknown one by its number.
fn features(bits: u32) -> Vec<String> {
    let known = |bit: u32| feature::NAMES.iter().find(|(known, _)| *known == 1 << bit);
    let name = |bit: u32| known(bit).map_or_else(|| format!("bit{bit}"), |(_, name)| (*name).into());
    (0..u32::BITS).filter(|bit| bits >> bit & 1 != 0).map(name).collect()
}

fn version(wire: u32) -> String {
    AbiVersion::from_wire(wire).to_string()
}

fn offer(p: &Preamble, size: u64, problems: &mut Vec<String>) -> Offer {
    if p.byte_order != BYTE_ORDER {
        problems.push(format!("the byte order word is {:#010x}, expected {BYTE_ORDER:#010x}", p.byte_order));
    }
    if p.window_len > size {
        problems.push(format!("the host says {} bytes, the window has {size}", p.window_len));
    }
    let (min, max) = (AbiVersion::from_wire(p.abi_min), AbiVersion::from_wire(p.abi_max));
    if AbiVersion::negotiate(min, max).is_none() {
        let (mine, newest) = (AbiVersion::MIN, AbiVersion::CURRENT);
        problems.push(format!("the host speaks ABI {min} to {max}, this program reads {mine} to {newest}"));
    }
    Offer {
        same_byte_order: p.byte_order == BYTE_ORDER,
        abi_min: min.to_string(),
        abi_max: max.to_string(),
        window_len: p.window_len,
        node: p.node,
        queues: p.queues,
        host_pid: p.host_pid,
        fingerprint: Hex(p.fingerprint),
        features_offered: features(p.features_offered),
        features_required: features(p.features_required),
    }
}

fn device(words: &DeviceWords, record: &DeviceRecord) -> DeviceView {
    let &DeviceWords { state, epoch, alive, progress, wait, doorbell, refusal, refusal_detail } = words;
    let refusal = (state == DeviceState::REFUSED).then(|| {
        let [first, second] = refusal_detail;
        format!("{} (details {first:#x}, {second:#x})", refusal.text())
    });
    DeviceView {
        state: state.text(),
        epoch,
        alive,
        progress,
        wait,
        doorbell,
        refusal,
        isa: Isa(record.isa).name(),
        board: record.board_name().into(),
        pid: record.pid,
        memory: record.memory,
        longest_message: record.longest_message,
        abi: version(record.abi),
        features: features(record.features),
        handlers: record.handlers,
        fingerprint: Hex(record.fingerprint),
        build_id: BuildId::of(&record.build_id),
    }
}

/// The table as it is in the window, consistent or not.
fn sections(preamble: &Preamble, window: &Window<Shared>) -> Vec<SectionEntry> {
    let used = (preamble.sections as usize).min(MAX_SECTIONS);
    let entry = |i: usize| window.read::<Section>(SECTIONS + (i * size_of::<Section>()) as u64).ok();
    let entries = (0..used).filter_map(entry);
    let name = |kind: SectionKind| match kind.name() {
        "unknown" => format!("kind {}", kind.0),
        known => known.into(),
    };
    entries.map(|s| SectionEntry { kind: name(s.kind), off: s.off, len: s.len }).collect()
}

fn ring(window: &Window<Shared>, layout: &Layout, kind: SectionKind) -> Option<Ring> {
    let section = layout.section(kind).ok().filter(|s| s.len >= size_of::<RingHeader>() as u64)?;
    let header: RingHeader = window.read(section.off).ok()?;
    let RingHeader { written, consumed, dropped, level, reader, .. } = header;
    Some(Ring { written, consumed, dropped, level, read: reader != 0 })
}

fn crash(window: &Window<Shared>, layout: &Layout) -> Option<Crash> {
    let section = layout.section(SectionKind::CRASH).ok().filter(|s| s.len >= size_of::<CrashRecord>() as u64)?;
    let record: CrashRecord = window.read(section.off).ok().filter(|r: &CrashRecord| r.valid == CrashRecord::VALID)?;
    let text = record.text.get(..record.text_len as usize).unwrap_or(&record.text);
    Some(Crash {
        epoch: record.epoch,
        cause: record.cause,
        pc: Hex(record.pc),
        address: Hex(record.address),
        stack: Hex(record.stack),
        frames: record.frames.iter().take_while(|f| **f != 0).map(|f| Hex(*f)).collect(),
        text: String::from_utf8_lossy(text).into_owned(),
    })
}
