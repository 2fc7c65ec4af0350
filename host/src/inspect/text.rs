//! A dump as text.

use super::{Dump, Queue, Ring, Slot};
use hamr_comm::abi::rings::LogLevel;
use std::fmt::{self, Display, Formatter};

impl Display for Dump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "window     {} ({} bytes)", clean(&self.path), self.size)?;
        for problem in &self.problems {
            writeln!(f, "problem    {}", clean(problem))?;
        }
        self.heads(f)?;
        for (i, s) in self.sections.iter().enumerate() {
            let head = if i == 0 { "sections" } else { "" };
            writeln!(f, "{head:<10} {:<8} {:>#12x} + {:#x}", s.kind, s.off, s.len)?;
        }
        // Closed ones, of which there may be many, are one line if they are alike.
        let is_alike = |a: &Queue, b: &Queue| {
            let of = |q: &Queue| (q.ring, q.tickets, q.chunks, q.depth, q.empty);
            !a.open && !b.open && a.slots.is_empty() && b.slots.is_empty() && of(a) == of(b) && a.index > 0
        };
        for queues in self.queues.chunk_by(is_alike) {
            write_queues(f, queues)?;
        }
        if self.slots_skipped > 0 {
            writeln!(f, "           {} slots more were not looked at", self.slots_skipped)?;
        }
        for (i, task) in self.tasks.iter().enumerate() {
            let head = if i == 0 { "tasks" } else { "" };
            writeln!(f, "{head:<10} {task} (queue {}, slot {})", task.queue, task.slot)?;
        }
        for (name, ring) in [("log", &self.log), ("trace", &self.trace)] {
            if let Some(ring) = ring {
                write_ring(f, name, ring)?;
            }
            #[cfg(feature = "device-logs")]
            for line in self.lines.iter().filter(|_| name == "log") {
                writeln!(f, "{line}")?;
            }
        }
        match &self.crash {
            None => writeln!(f, "crash      none recorded")?,
            Some(c) => {
                let super::Crash { epoch, cause, pc, address, stack, .. } = c;
                writeln!(f, "crash      epoch {epoch}, cause {cause}, pc {pc}, address {address}, sp {stack}")?;
                writeln!(f, "           {}", clean(&c.text))?;
                for frame in &c.frames {
                    writeln!(f, "           called from {frame}")?;
                }
            }
        }
        for (i, h) in self.handlers.iter().enumerate() {
            let head = if i == 0 { "handlers" } else { "" };
            let (signature, body) = (super::Hex(h.signature), super::Hex(h.body));
            let flags = h.flag_names().join(" ");
            writeln!(f, "{head:<10} {:>4}  {signature}  {body}  {} ({flags})", h.key, clean(&h.name))?;
        }
        Ok(())
    }
}

impl Dump {
    fn heads(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(p) = &self.preamble {
            writeln!(
                f,
                "preamble   ABI {} to {}, {} byte order, node {}, {} queue pairs, host process {}, fingerprint {}",
                p.abi_min,
                p.abi_max,
                if p.same_byte_order { "our" } else { "the other" },
                p.node,
                p.queues,
                p.host_pid,
                p.fingerprint
            )?;
            let (offered, required) = (list(&p.features_offered), list(&p.features_required));
            writeln!(f, "           features offered: {offered}; required: {required}")?;
        }
        let h = &self.host;
        writeln!(
            f,
            "host       {}, epoch {}, alive {}, {} queue pairs open, {}, doorbell {:#010x}",
            h.state,
            h.epoch,
            h.alive,
            h.open_queues,
            waiting(h.wait),
            h.doorbell
        )?;
        let d = &self.device;
        writeln!(
            f,
            "device     {}, epoch {}, alive {}, progress {}, {}, doorbell {:#010x}",
            d.state,
            d.epoch,
            d.alive,
            d.progress,
            waiting(d.wait),
            d.doorbell
        )?;
        if let Some(refusal) = &d.refusal {
            writeln!(f, "           refused: {}", clean(refusal))?;
        }
        let build = &d.build_id;
        writeln!(
            f,
            "           {} {}, pid {}, ABI {}, {} handlers, fingerprint {}, build id {build}",
            d.isa,
            clean(&d.board),
            d.pid,
            d.abi,
            d.handlers,
            d.fingerprint
        )?;
        writeln!(f, "           features: {}", list(&d.features))?;
        match d.longest_message {
            0 => Ok(()),
            bytes => writeln!(f, "           longest message: {bytes} bytes"),
        }
    }
}

/// One, or several that differ in their numbers only.
fn write_queues(f: &mut Formatter<'_>, queues: &[Queue]) -> fmt::Result {
    let [q, .., last] = queues else {
        return queues.first().map_or(Ok(()), |q| write_queue(f, q, &q.index.to_string()));
    };
    write_queue(f, q, &format!("{}-{}", q.index, last.index))
}

fn write_queue(f: &mut Formatter<'_>, q: &Queue, numbers: &str) -> fmt::Result {
    let what = if q.index == 0 { " (control)" } else { "" };
    let open = if q.open { "open" } else { "closed" };
    writeln!(
        f,
        "queue {numbers:<4} {open}{what}, ring {}, tickets {}, chunks {}+{} bytes, depth {}: {} slots used, {} never",
        q.ring,
        q.tickets,
        q.chunks[0],
        q.chunks[1],
        q.depth,
        q.slots.len(),
        q.empty
    )?;
    for slot in &q.slots {
        write_slot(f, slot)?;
    }
    Ok(())
}

fn write_slot(f: &mut Formatter<'_>, s: &Slot) -> fmt::Result {
    write!(f, "  {:<4} {:>5} {:<9}", s.kind, s.index, s.state)?;
    if let Some(r) = &s.request {
        let name = r.handler.as_deref().map_or_else(|| format!("key {:#06x}", r.key), clean);
        write!(f, "  request {}.{} {name} {} bytes {}", r.tag, r.count, r.len, r.place)?;
        for flag in &r.flags {
            write!(f, " {flag}")?;
        }
    }
    if let Some(r) = &s.reply {
        write!(f, "  reply {}.{} {} {} bytes {}", r.tag, r.count, r.status, r.len, r.place)?;
        for flag in &r.flags {
            write!(f, " {flag}")?;
        }
    }
    if !s.payload.is_empty() {
        write!(f, "  [{}]", s.payload)?;
    }
    writeln!(f)?;
    match s.reply.as_ref().and_then(|r| r.fault.as_deref()) {
        Some(fault) => writeln!(f, "             {}", clean(fault)),
        None => Ok(()),
    }
}

fn write_ring(f: &mut Formatter<'_>, name: &str, r: &Ring) -> fmt::Result {
    let Ring { written, consumed, dropped, level, read } = r;
    let (level, reader) = (LogLevel(*level).name(), if *read { "somebody reads" } else { "nobody reads" });
    writeln!(f, "{name:<10} {written} bytes written, {consumed} read, {dropped} frames lost, level {level}, {reader}")
}

fn waiting(word: u32) -> &'static str {
    if word.is_multiple_of(2) { "polling" } else { "wants a doorbell" }
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(" ") }
}

/// A peer's text must not move the reader's cursor or break a line in two.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
