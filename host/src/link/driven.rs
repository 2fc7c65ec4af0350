//! Devices that drive this program's memory (docs/model.md, "Device-driven"): the window is memory of the host's, and the device's heap is
//! its own.

use super::{Capabilities, Decorator, FarHeap, Heap, Link, Peer, Protocol};
use hamr_comm::abi::layout::Layout;
use hamr_comm::abi::preamble::word;
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::staging::Staging;
use hamr_comm::abi::window::{AtomicOp, OutOfWindow, Shared, Window, Word};
use hamr_comm::am::patience;
use hamr_qemu::origin::Origin;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What people look at may take so long to come.
const SHOW_LIMIT: Duration = Duration::from_millis(500);
/// The same of what stands in an error.
const TASKS_LIMIT: Duration = Duration::from_millis(50);
/// How long an answer is polled for, before sleeps of an eighth of the time waited.
const SPIN: Duration = Duration::from_micros(50);
/// Between two looks at an answer, at most.
const LONGEST_NAP: Duration = Duration::from_millis(1);
/// Bytes of the first copy, of which it is not known yet how long its device takes.
const FIRST_PIECE: usize = 4 << 10;
/// Copies become longer while one takes less than this part of what a device may be silent, and shorter behind one that takes more than that
/// part.
const SHORT: u32 = 64;
const LONG: u32 = 8;

/// A link to such a device.
pub(crate) struct DrivenLink {
    driven: Arc<Driven>,
    window_len: u64,
}

struct Driven {
    link: Box<dyn Link>,
    /// The value of ASLEEP that the doorbell rang for last, and its epoch above.
    told: AtomicU64,
    /// Where STAGING is, and bytes of one copy.
    staging: u64,
    most: usize,
    /// Who makes a request there, and the number of the last one.
    lock: FairLock,
    asked: AtomicU32,
    /// Bytes of the next copy: a device whose engine is slow is not silent while its host waits for more than that.
    piece: AtomicUsize,
    /// A device that does not answer for so long is taken for lost.
    silence: Duration,
    origin: Origin,
}

impl DrivenLink {
    /// Over a link whose window has this layout.
    pub(crate) fn new(link: Box<dyn Link>, layout: &Layout, silence: Duration) -> Self {
        let (staging, len) = layout.section(SectionKind::STAGING).map_or((0, 0), |section| (section.off, section.len));
        let (told, asked, origin) = (AtomicU64::new(0), AtomicU32::new(0), Origin::here());
        let (lock, piece) = (FairLock::default(), AtomicUsize::new(FIRST_PIECE));
        let most = len.saturating_sub(Staging::DATA) as usize;
        let driven = Driven { link, told, staging, most, lock, asked, piece, silence, origin };
        Self { driven: Arc::new(driven), window_len: layout.window_len() }
    }
}

/// Threads that make requests, one at a time, in the order in which they come.
#[derive(Default)]
struct FairLock {
    line: Mutex<Line>,
    moved: Condvar,
}

#[derive(Default)]
struct Line {
    /// Who has it, and who waits for it.
    threads: VecDeque<u64>,
    last: u64,
    /// Requests that were done.
    done: u64,
}

/// Of a thread, to make one request.
struct FairGuard<'t>(&'t FairLock);

impl FairLock {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: no request was done for `limit`.
    fn take(&self, limit: Duration) -> Option<FairGuard<'_>> {
        let mut line = self.line();
        line.last += 1;
        let own = line.last;
        line.threads.push_back(own);
        let (mut begin, mut done) = (Instant::now(), line.done);
        while line.threads.front() != Some(&own) {
            let left = limit.saturating_sub(begin.elapsed());
            if left.is_zero() {
                line.threads.retain(|thread| *thread != own);
                return None;
            }
            line = self.moved.wait_timeout(line, left).unwrap_or_else(PoisonError::into_inner).0;
            if done != line.done {
                (begin, done) = (Instant::now(), line.done);
            }
        }
        Some(FairGuard(self))
    }

    /// Where no other thread has one, or waits.
    fn try_take(&self) -> Option<FairGuard<'_>> {
        if self.line().threads.is_empty() { self.take(Duration::ZERO) } else { None }
    }
}

impl FairGuard<'_> {
    fn has_done(&self) {
        self.0.line().done += 1;
    }
}

impl Drop for FairGuard<'_> {
    fn drop(&mut self) {
        self.0.line().threads.pop_front();
        self.0.moved.notify_all();
    }
}

impl Driven {
    fn window(&self) -> &Window<Shared> {
        self.link.window()
    }

    /// Has the device look.
    fn ring(&self) {
        // Behind what was published, and before the look at ASLEEP.
        fence(Ordering::SeqCst);
        let _ = self.window().atomic(word::BELL, AtomicOp::Add(1_u32));
        fence(Ordering::SeqCst);
        let load = |off| u64::from(self.window().word(off).map_or(0, |word| word.load()));
        let asleep = load(word::EPOCH) << 32 | load(word::ASLEEP);
        if asleep & 1 == 1 && self.told.swap(asleep, Ordering::Relaxed) != asleep {
            self.link.notify();
        }
    }

    fn word(&self, off: u64) -> Result<Word<'_>, String> {
        self.window().word(self.staging + off).map_err(|e| e.to_string())
    }

    /// Until the device has done request `number`.
    fn wait(&self, number: u32, begin: Instant, limit: Duration) -> Result<(), String> {
        let done = self.word(Staging::DONE)?;
        while done.observe() != number {
            let waited = begin.elapsed();
            if waited < SPIN {
                patience::rest();
                continue;
            }
            match self.link.peer() {
                Peer::Gone(why) => return Err(why),
                Peer::Alive if waited <= limit => {}
                Peer::Alive => return Err(format!("expected an answer of the device within {limit:?}, none came")),
            }
            std::thread::sleep((waited / 8).min(LONGEST_NAP));
        }
        Ok(())
    }

    /// One request with bytes for it, in the caller's turn. Behind it the device has done what it asks for.
    fn ask(
        &self,
        guard: &FairGuard<'_>,
        kind: u32,
        (off, len): (u64, usize),
        bytes: &[u8],
        limit: Duration,
    ) -> Result<(), String> {
        let (window, staging, begin) = (self.window(), self.staging, Instant::now());
        // The device may be in the middle of one that was given up, and goes by what stands here.
        let last = self.asked.load(Ordering::Relaxed);
        self.wait(last, begin, limit)?;
        let range = [off, len as u64].map(u64::to_le_bytes);
        for (at, bytes) in [(Staging::DATA, bytes), (Staging::OFF, range.as_flattened())] {
            window.write_bytes(staging + at, bytes).map_err(|e| e.to_string())?;
        }
        self.word(Staging::KIND)?.store(kind);
        let number = last.wrapping_add(1).max(1);
        self.asked.store(number, Ordering::Relaxed);
        self.word(Staging::NUMBER)?.publish(number);
        self.ring();
        if let Err(why) = self.wait(number, begin, limit) {
            // Where the device has not taken it, there is nothing to do any more. Its number stays: none is done twice.
            self.word(Staging::KIND)?.publish(Staging::NONE);
            return Err(why);
        }
        guard.has_done();
        match self.word(Staging::STATUS)?.load() {
            Staging::OK => Ok(()),
            _ => Err(format!("expected {len} bytes of heap at {off:#x}, the device has none there")),
        }
    }

    /// To make a request.
    fn guard(&self, limit: Duration) -> Result<FairGuard<'_>, String> {
        let late = || format!("expected one of the copies before this one to end within {limit:?}, none did");
        self.lock.take(limit).ok_or_else(late)
    }

    /// Has `len` bytes copied, some at a time.
    fn in_pieces(
        &self,
        len: usize,
        mut copy: impl FnMut(&FairGuard<'_>, Range<usize>) -> Result<(), String>,
    ) -> Result<(), String> {
        self.check()?;
        let mut at = 0;
        while at < len {
            let piece = self.piece.load(Ordering::Relaxed).min(self.most).max(1);
            let bytes = piece.min(len - at);
            let guard = self.guard(self.silence)?;
            let begin = Instant::now();
            copy(&guard, at..at + bytes)?;
            let took = begin.elapsed();
            if took > self.silence / LONG {
                self.piece.store((bytes / 2).max(FIRST_PIECE), Ordering::Relaxed);
            } else if bytes == piece && took < self.silence / SHORT {
                self.piece.store(piece.saturating_mul(4).min(self.most), Ordering::Relaxed);
            }
            at += bytes;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        if self.origin.is_here() { Ok(()) } else { Err("expected the process that has opened it, got a copy".into()) }
    }

    fn show(&self, kind: SectionKind, limit: Duration) {
        // Who comes beside a copy waits for no look.
        if self.check().is_ok()
            && let Some(guard) = self.lock.try_take()
        {
            // What does not come is not shown.
            let _ = self.ask(&guard, Staging::SHOW, (kind.0.into(), 0), &[], limit);
        }
    }
}

impl FarHeap for Driven {
    fn read(&self, off: u64, to: &mut [u8]) -> Result<(), String> {
        self.in_pieces(to.len(), |guard, range| {
            let at = off + range.start as u64;
            self.ask(guard, Staging::GET, (at, range.len()), &[], self.silence)?;
            let to = to.get_mut(range).unwrap_or_default();
            self.window().read_bytes(self.staging + Staging::DATA, to).map_err(|e| e.to_string())
        })
    }

    fn write(&self, off: u64, from: &[u8]) -> Result<(), String> {
        self.in_pieces(from.len(), |guard, range| {
            let at = off + range.start as u64;
            let from = from.get(range).unwrap_or_default();
            self.ask(guard, Staging::PUT, (at, from.len()), from, self.silence)
        })
    }
}

impl Decorator for DrivenLink {
    fn inner(&self) -> &dyn Link {
        &*self.driven.link
    }
    fn capabilities(&self) -> Capabilities {
        // BELL notifies the device, also where nothing notifies this side.
        Capabilities { doorbell: true, protocol: Protocol::DeviceDriven, ..self.driven.link.capabilities() }
    }
    fn heap(&self, off: u64, len: u64) -> Result<Heap, OutOfWindow> {
        match off.checked_add(len) {
            Some(end) if end <= self.window_len => Heap::far(self.driven.clone(), off),
            _ => Err(OutOfWindow { off, want: len, len: self.window_len }),
        }
    }
    fn notify(&self) {
        self.driven.ring();
    }
    fn refresh(&self, kind: SectionKind) {
        // Callers whose limit has passed ask for task lines.
        self.driven.show(kind, if kind == SectionKind::TASKS { TASKS_LIMIT } else { SHOW_LIMIT });
    }
    fn restart(&self, limit: Duration) -> Result<(), String> {
        if let Peer::Gone(_) = self.driven.link.peer() {
            // What was asked of the last process is not for the next.
            let _guard = self.driven.guard(limit)?;
            self.driven.asked.store(0, Ordering::Relaxed);
            for off in [Staging::NUMBER, Staging::DONE] {
                if let Ok(word) = self.driven.window().word(self.driven.staging + off) {
                    word.publish(0);
                }
            }
        }
        self.driven.link.restart(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hamr_comm::abi::ids::{Epoch, NodeId};
    use hamr_comm::abi::layout::Plan;
    use hamr_comm::handshake::{HostHandshake, Offer};
    use hamr_comm::mirror::{Driver, HostPort};
    use std::sync::atomic::AtomicBool;

    const SILENCE: Duration = Duration::from_millis(400);

    /// The host's memory in this program. The device polls.
    struct Near(Window<Shared>);

    impl Link for Near {
        fn kind(&self) -> &str {
            "near"
        }
        fn capabilities(&self) -> Capabilities {
            Capabilities::default()
        }
        fn window(&self) -> &Window<Shared> {
            &self.0
        }
        fn notify(&self) {}
        fn wait(&self, _: u32) {}
        fn peer(&self) -> Peer {
            Peer::Alive
        }
        fn stop(&self, _: Duration) {}
    }

    /// An engine that takes `time` for a page, and less than that for few bytes.
    struct Engine {
        memory: Window<Shared>,
        time: Duration,
    }

    impl HostPort for Engine {
        fn load(&mut self, off: u64) -> u64 {
            HostPort::load(&mut self.memory, off)
        }
        fn store(&mut self, off: u64, value: u64) {
            HostPort::store(&mut self.memory, off, value);
        }
        fn pull(&mut self, off: u64, to: &mut [u8]) {
            std::thread::sleep(self.time.mul_f64(to.len() as f64 / 4096.0));
            self.memory.pull(off, to);
        }
        fn push(&mut self, off: u64, from: &[u8]) {
            std::thread::sleep(self.time.mul_f64(from.len() as f64 / 4096.0));
            self.memory.push(off, from);
        }
    }

    /// Runs `act` beside a device whose engine takes `time` for a page, with its heap. The device does nothing while the flag is set.
    fn beside_a_device(time: Duration, act: impl FnOnce(&Driven, u64, &AtomicBool)) {
        let plan = Plan { streams: 1, heap: 1 << 20, staging: Staging::BYTES, ..Plan::NO_TASKS };
        let len = Layout::plan(&plan).expect("allowed").window_len();
        let windows = [(); 2].map(|()| Window::private(len).share());
        let all = |of: &Window<Shared>| of.part(0, len).expect("all of it");
        let [near, far] = windows.each_ref().map(all);
        let offer = Offer::new(plan, NodeId(1));
        let layout = HostHandshake::offer(&near, &offer, Epoch(1)).expect("long enough").1;
        let link = DrivenLink::new(Box::new(Near(all(&near))), &layout, SILENCE);
        let [ends, stands] = [(); 2].map(|()| AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let engine = Engine { memory: near, time };
                let mut driver = Driver::new(engine, far, Box::new(|| ()), Box::new(|| ())).expect("both are there");
                while !ends.load(Ordering::Relaxed) {
                    if stands.load(Ordering::Relaxed) || !driver.step() {
                        std::thread::sleep(Duration::from_micros(50));
                    }
                }
            });
            act(&link.driven, layout.heap().start, &stands);
            ends.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_copy_may_take_longer_than_a_device_may_be_silent() {
        beside_a_device(Duration::from_millis(12), |heap, start, _| {
            let bytes: Vec<u8> = (0..300_000).map(|i| (i % 251) as u8).collect();
            let begin = Instant::now();
            heap.write(start + 3, &bytes).expect("it goes on");
            assert!(begin.elapsed() > SILENCE);
            let mut back = vec![0; bytes.len()];
            heap.read(start + 3, &mut back).expect("it goes on");
            assert!(back == bytes);
        });
    }

    /// And long ones where the engine is fast.
    #[test]
    fn copies_are_as_long_as_their_section_has_room_for() {
        beside_a_device(Duration::ZERO, |heap, start, _| {
            let most = (Staging::BYTES - Staging::DATA) as usize;
            let bytes = vec![7; 3 * most];
            let begin = Instant::now();
            while heap.piece.load(Ordering::Relaxed) != most {
                assert!(begin.elapsed() < Duration::from_secs(20), "they become longer");
                heap.write(start, &bytes).expect("taken");
            }
        });
    }

    #[test]
    fn a_short_copy_does_not_wait_for_the_end_of_a_long_one() {
        beside_a_device(Duration::from_millis(12), |heap, start, _| {
            std::thread::scope(|scope| {
                let long = scope.spawn(|| heap.write(start, &vec![1; 400_000]));
                for n in 0..5u8 {
                    std::thread::sleep(Duration::from_millis(20));
                    heap.write(start + 500_000, &[n; 8]).expect("between two pieces");
                }
                assert!(!long.is_finished(), "they were between its pieces");
                long.join().expect("it ends").expect("it goes on");
            });
        });
    }

    #[test]
    fn threads_behind_a_device_that_stands_wait_no_longer_one_behind_the_other() {
        beside_a_device(Duration::ZERO, |heap, start, stands| {
            heap.write(start, &[1; 8]).expect("taken");
            stands.store(true, Ordering::Relaxed);
            let begin = Instant::now();
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| heap.write(start, &[2; 8]).expect_err("nothing takes it"));
                }
            });
            assert!(begin.elapsed() < 4 * SILENCE, "{:?}", begin.elapsed());
            stands.store(false, Ordering::Relaxed);
            heap.write(start, &[3; 8]).expect("taken");
            let mut back = [0; 8];
            heap.read(start, &mut back).expect("given");
            assert_eq!(back, [3; 8], "what was given up is not done later");
        });
    }
}
