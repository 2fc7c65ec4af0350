//! Garbage in a live log ring, as a broken image or handler would write it. The test overwrites
//! bytes, lengths and indices of the ring while the image logs, the host reads, and others observe.
//! Calls continue, every poll ends, and lost lines are counted.

use hamr::inspect::{dump, dump_with_lines};
use hamr::logs::{LogEvent, LogLevel, LogTail, Logs};
use hamr::{ImageFile, Options};
use hamr_comm::abi::rings::RingHeader;
use hamr_tests::conformance::Random;
use hamr_tests::devices;
use hamr_tests_kernels::{echo, flood};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SEEDS: u64 = 48;
/// After this time, fewer seeds are enough.
const LONG: Duration = Duration::from_secs(120);
/// After this time, more seeds do not help.
const TOO_LONG: Duration = Duration::from_secs(300);
/// Rounds of a seed: some garbage, then a poll.
const ROUNDS: u32 = 6;
/// The time limit of one poll of a ring with any bytes: milliseconds on a quiet machine.
const POLL_LIMIT: Duration = Duration::from_secs(30);
/// The most memory that the process may gain: 64 KiB of frames of the least length, each with the
/// longest possible text.
const GROWTH: u64 = 256 << 20;

/// A ring, which the test writes through the window's file.
struct Ring {
    file: std::fs::File,
    off: u64,
    len: u64,
    random: Random,
}

impl Ring {
    fn of(window: &Path, seed: u64) -> Self {
        let dump = dump(window).expect("a window");
        let section = dump.sections.iter().find(|s| s.kind == "log").expect("it has a log");
        let file = std::fs::OpenOptions::new().read(true).write(true).open(window).expect("our own window");
        Self { file, off: section.off, len: section.len, random: Random(seed) }
    }

    fn word(&self, off: u64, value: u32) {
        self.file.write_all_at(&value.to_le_bytes(), self.off + off).expect("in the window");
    }

    fn read_word(&self, off: u64) -> u32 {
        let mut bytes = [0; 4];
        self.file.read_exact_at(&mut bytes, self.off + off).expect("in the window");
        u32::from_le_bytes(bytes)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.below(from.len() as u64) as usize]
    }

    /// An index near a meaningful one, or any.
    fn index(&mut self) -> u32 {
        let ring = RingHeader::ring_len(self.len);
        let near = self.random.below(2100) as u32;
        let from = self.pick(&[RingHeader::WRITTEN, RingHeader::CONSUMED]);
        let from = self.read_word(from);
        match self.random.below(7) {
            0 => from.wrapping_add(ring).wrapping_sub(near),
            1 => from.wrapping_add(ring).wrapping_add(near),
            2 => from.wrapping_add(near),
            3 => from.wrapping_sub(near),
            4 => near.wrapping_neg(),
            5 => ring,
            _ => self.random.number() as u32,
        }
    }

    fn bytes(&mut self) {
        let at = RingHeader::BYTES + self.random.below(self.len - RingHeader::BYTES);
        let mut bytes = vec![0; (1 + self.random.below(3000)).min(self.len - at) as usize];
        // The present bytes, slightly changed, are more likely to be decoded than random ones.
        self.file.read_exact_at(&mut bytes, self.off + at).expect("in the window");
        match self.random.below(4) {
            0 => bytes.fill(self.pick(&[0x00, 0x01, 0x7F, 0xFF])),
            1 => bytes.iter_mut().for_each(|b| *b = self.random.number() as u8),
            _ => {
                for _ in 0..1 + bytes.len() / 30 {
                    let i = self.random.below(bytes.len() as u64) as usize;
                    bytes[i] = self.random.number() as u8;
                }
            }
        }
        self.file.write_all_at(&bytes, self.off + at).expect("in the window");
    }

    fn scribble(&mut self) {
        for _ in 0..1 + self.random.below(8) {
            let (index, any) = (self.index(), self.random.number() as u32);
            match self.random.below(10) {
                0..4 => self.bytes(),
                4..6 => self.word(RingHeader::WRITTEN, index),
                6 => self.word(RingHeader::CONSUMED, index),
                7 => {
                    let word = self.pick(&[RingHeader::FRAMES, RingHeader::DROPPED]);
                    self.word(word, any);
                }
                8 => {
                    let word = self.pick(&[RingHeader::LEVEL, RingHeader::READER]);
                    let value = self.pick(&[0, 1, 4, 77, any]);
                    self.word(word, value);
                }
                _ => self.word(24 + 4 * u64::from(any % 10), 0xDEAD_BEEF),
            }
        }
    }
}

/// What polls found; each checks that it is neither too long nor too much.
#[derive(Default)]
struct Found {
    lines: u64,
    lost: u64,
    garbled: u64,
}

impl Found {
    /// Has every kind of event occurred? That depends on what the image was doing when its ring was
    /// overwritten.
    fn is_enough(&self) -> bool {
        self.lines > 1000 && self.lost > 0 && self.garbled > 100
    }

    fn add(&mut self, look: impl FnOnce() -> Vec<LogEvent>) {
        let begin = Instant::now();
        let events = look();
        assert!(begin.elapsed() < POLL_LIMIT, "{:?}", begin.elapsed());
        assert!(events.len() <= (1 << 16) + 2, "{} events of one poll", events.len());
        for event in events {
            match event {
                LogEvent::Line(line) => {
                    // Numbers and names in addition to the limit of a text.
                    assert!(line.message.len() < 20_000, "{}", line.message.len());
                    self.lines += 1;
                }
                LogEvent::Lost(lines) => self.lost += u64::from(lines),
                LogEvent::Garbled(_) => self.garbled += 1,
                LogEvent::Epoch(epoch) => panic!("epoch {epoch}"),
            }
        }
    }
}

/// The most memory that this process has had, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a /proc");
    let kib = status.lines().find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.trim().parse().ok());
    kib.map_or(0, |kib: u64| kib << 10)
}

fn lines_come_again(logs: &mut Logs, flooded: impl Fn()) -> bool {
    let begin = Instant::now();
    let mut sent = Instant::now();
    flooded();
    while begin.elapsed() < Duration::from_secs(60) {
        if logs
            .wait_timeout(Duration::from_millis(20))
            .iter()
            .any(|e| matches!(e, LogEvent::Line(l) if l.message == "line 0"))
        {
            return true;
        }
        if sent.elapsed() > Duration::from_millis(20) {
            sent = Instant::now();
            flooded();
        }
    }
    false
}

#[test]
fn garbage_in_a_live_ring_loses_lines_and_nothing_else() {
    let node = devices::open("shm", Options { log_level: LogLevel::TRACE, ..Options::default() });
    let path: PathBuf = hamr::inspect::windows_of(std::process::id()).pop().expect("one window").path;
    let image = ImageFile::open(&node.info().image.expect("a file")).expect("its file");
    let mut logs = node.logs().expect("an image that logs");
    let before = peak();
    let (mut found, mut seen) = (Found::default(), Found::default());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Another thread inspects all the time.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let begin = Instant::now();
                assert!(dump_with_lines(&path, &image, 50).expect("a window").lines.len() <= 50);
                assert!(begin.elapsed() < POLL_LIMIT, "{:?}", begin.elapsed());
                // Each inspection reads the image's string table, and the other threads need
                // processor time, too.
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let finished = Finished(&over);
        let begin = Instant::now();
        for seed in 0.. {
            let is_enough = found.is_enough() && seen.is_enough();
            if begin.elapsed() >= TOO_LONG || is_enough && (seed >= SEEDS || begin.elapsed() >= LONG) {
                break;
            }
            let mut ring = Ring::of(&path, seed);
            let mut watch = LogTail::open(&path, &image, LogLevel::TRACE).expect("the window's facts are sound");
            for round in 0..ROUNDS {
                let pending = node.offload(flood::with(50 * round)).expect("sent");
                ring.scribble();
                found.add(|| logs.poll());
                ring.scribble();
                pending.wait().expect("a call that logs into garbage ends");
                found.add(|| logs.poll());
                seen.add(|| watch.poll().expect("the build is what it was"));
                let value = seed << 32 | u64::from(round);
                assert_eq!(node.sync(echo::with(value)).expect("calls go on"), value);
            }
            // The log recovers when the garbage ends.
            node.set_log_level(LogLevel::TRACE);
            let flooded = || node.sync(flood::with(1)).expect("a reply");
            assert!(lines_come_again(&mut logs, flooded), "seed {seed}");
        }
        drop(finished);
    });
    for found in [&found, &seen] {
        assert!(found.is_enough(), "{} {} {}", found.lines, found.lost, found.garbled);
    }
    let grown = peak().saturating_sub(before);
    assert!(grown < GROWTH, "grown by {} MiB", grown >> 20);
}

/// Ends the other thread, also when this one fails.
struct Finished<'a>(&'a AtomicBool);

impl Drop for Finished<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
