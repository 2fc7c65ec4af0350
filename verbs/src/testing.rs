//! A section in private memory with queue pairs, and memory that ends its user.

use crate::ids::Name;
use crate::memory::Memory;
use crate::verbs::Verbs;
use crate::wire::{ARENA, Access, FABRIC_STATE, FabricState, Kind, LINE, Object, QP_STATE, QpState, WORD, word_of};
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};
#[cfg(target_has_atomic = "64")]
use hamr_comm::abi::window::AtomicOp;
use hamr_comm::abi::window::{OutOfWindow, Private, Window};
use hamr_comm::side::WORDS;
use std::boxed::Box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::vec::Vec;
use zerocopy::IntoBytes;

/// The device that sections belong to.
const NODE: u16 = 1;
/// Their epoch.
const EPOCH: u32 = 1;
/// Bytes of the region.
pub const REGION: u64 = 1 << 20;
/// What may be done with it.
const RIGHTS: Access = Access(15);
/// The key of the region.
pub const LKEY: u32 = 0x700;

/// A section: region 0 with all rights, completion queue 0, queue pairs 0 and 1, shared receive queue 0, queue pairs 2
/// and 3, which take from it. All complete in the one queue, and wait for ever for a peer's receive request.
pub struct Section {
    /// All of it.
    pub window: Window<Private>,
    /// What an adapter is told to create, in this order.
    pub objects: Vec<Object>,
    words: Vec<AtomicU32>,
}

impl Section {
    /// Rings of so many entries, as powers of two.
    pub fn new(log2: u8, cq_log2: u8) -> Self {
        let (mut at, mut objects) = (ARENA, Vec::new());
        let mut take = |bytes: u64| {
            at += bytes;
            at - bytes
        };
        let base = Object { generation: 1, ..Object::default() };
        let off = take(REGION);
        let (access, lkey) = (RIGHTS, LKEY);
        objects.push(Object { kind: Kind::REGION, off, len: REGION, iova: off, lkey, access, ..base });
        let ring = take(LINE << cq_log2);
        objects.push(Object { kind: Kind::COMPLETION_QUEUE, off: ring, log2: cq_log2, ..base });
        let mut pair = |index: u16, srq| {
            let (off, receive_off) = (take((2 * LINE) << log2), take(LINE << log2));
            let (kind, receive_log2, qp_number) = (Kind::QUEUE_PAIR, log2, 0x100 + u32::from(index));
            let rnr_retry = Object::FOR_EVER;
            Object { kind, index, log2, receive_log2, off, receive_off, qp_number, srq, rnr_retry, ..base }
        };
        objects.extend([pair(0, 0), pair(1, 0), pair(2, 1), pair(3, 1)]);
        objects.insert(4, Object { kind: Kind::SHARED_RECEIVE_QUEUE, off: take(LINE << log2), log2, ..base });
        let words = (0..WORDS).map(|_| AtomicU32::new(0)).collect();
        let this = Self { window: Window::private(at), objects, words };
        for object in &this.objects {
            let Some(place) = object.kind.place(object.index) else { continue };
            let line = object.as_bytes().get(..WORD as usize).unwrap_or_default();
            let written = this.window.write_bytes(place, line);
            let word = Memory::publish(&this.window, place + WORD, Object::live(object.generation));
            assert_eq!((written, word), (Ok(()), Ok(())));
        }
        this.show(QpState::RESET);
        assert_eq!(Memory::publish(&this.window, FABRIC_STATE, FabricState::ATTACHED.0), Ok(()));
        this
    }

    /// Says what an adapter would: all queue pairs are connected.
    pub fn connect(&self) {
        self.show(QpState::RTS);
    }

    fn show(&self, state: QpState) {
        for index in 0..4 {
            assert_eq!(Memory::publish(&self.window, word_of(QP_STATE, index), state.word(1)), Ok(()));
        }
    }

    /// The state that is shown of a queue pair, of any generation.
    pub fn state(&self, index: u16) -> u32 {
        Memory::observe(&self.window, word_of(QP_STATE, index)).map_or(u32::MAX, |word| word & 0xFFFF)
    }

    /// What the host would tell a handler of an object.
    pub fn id<I: From<Name>>(&self, index: u16) -> I {
        self.id_of(index, 1)
    }

    /// The same of a later generation.
    pub fn id_of<I: From<Name>>(&self, index: u16, generation: u16) -> I {
        Name { index, generation, node: NODE, epoch: EPOCH as u16 }.into()
    }

    /// Does what a host does that replaces the former generation of an object in its place by this one.
    pub fn replace(&self, object: &Object) {
        let (window, &Object { off, log2, receive_off, receive_log2, .. }) = (&self.window, object);
        let is_pair = object.kind == Kind::QUEUE_PAIR;
        let Some(place) = object.kind.place(object.index) else { return };
        let line = object.as_bytes().get(..WORD as usize).unwrap_or_default();
        let done = Memory::publish(window, place + WORD, 0)
            .and_then(|()| window.zero(off, LINE << (log2 + u8::from(is_pair))))
            .and_then(|()| if is_pair { window.zero(receive_off, LINE << receive_log2) } else { Ok(()) })
            .and_then(|()| window.write_bytes(place, line))
            .and_then(|()| Memory::publish(window, place + WORD, Object::live(object.generation)));
        assert_eq!(done, Ok(()));
    }

    /// A device over it.
    pub fn verbs(&self) -> Verbs<'_, Window<Private>> {
        self.over(&self.window)
    }

    /// One over memory that stands for it.
    pub fn over<'a, M: Memory>(&'a self, memory: &'a M) -> Verbs<'a, M> {
        Verbs::over(memory, &self.words, NODE, EPOCH).expect("an adapter is there")
    }

    /// Sets the private words of queue pairs 0 and 1 and of the completion queue, and those of the objects, near to the
    /// end of their numbers.
    pub fn start_at(&self, queue_pairs: u32, completion_queue: u32) {
        let verbs = self.verbs();
        for object in 0..2 {
            let _ = verbs.queue_pair(self.id(object));
            let words = verbs.qp_words(object).into_iter().flatten().skip(1);
            words.for_each(|word| word.store(queue_pairs, Ordering::Relaxed));
        }
        let _ = verbs.completion_queue(self.id(0));
        let words = verbs.cq_words(0).into_iter().flatten().skip(1);
        words.for_each(|word| word.store(completion_queue, Ordering::Relaxed));
    }
}

/// The panic of code that [`Ending`] has ended.
struct Ended;

/// Memory whose user ends at a store: of bytes it makes half of them, of a word none. It stands for a task that is
/// ended there.
pub struct Ending<'w> {
    window: &'w Window<Private>,
    left: Cell<u32>,
    /// Done before the next bytes are read, or a look at the word that is here.
    change: Cell<Option<Change<'w>>>,
}

/// Where it is done, and what.
type Change<'w> = (Option<u64>, Box<dyn FnOnce() + 'w>);

impl<'w> Ending<'w> {
    /// So many stores are made.
    pub fn new(window: &'w Window<Private>, stores: u32) -> Self {
        Self { window, left: Cell::new(stores), change: Cell::new(None) }
    }

    /// Runs `act`, of which so many stores are made. `None`: it was ended at the next one.
    ///
    /// # Panics
    /// `act` panics.
    pub fn run<R>(window: &'w Window<Private>, stores: u32, act: impl FnOnce(&Self) -> R) -> Option<R> {
        let ending = Self::new(window, stores);
        match catch_unwind(AssertUnwindSafe(|| act(&ending))) {
            Ok(result) => Some(result),
            Err(why) if why.is::<Ended>() => None,
            Err(why) => resume_unwind(why),
        }
    }

    /// All stores are made.
    pub fn whole(window: &'w Window<Private>) -> Self {
        Self::new(window, u32::MAX)
    }

    /// Has this done before the next bytes are read, or before the next look at this word: what another side does meanwhile.
    pub fn change_before(&self, look: Option<u64>, change: impl FnOnce() + 'w) {
        self.change.set(Some((look, Box::new(change))));
    }

    fn meanwhile(&self, look: Option<u64>) {
        match self.change.take() {
            Some((of, change)) if of == look => change(),
            other => self.change.set(other),
        }
    }

    fn step(&self, half: impl FnOnce()) {
        match self.left.get().checked_sub(1) {
            Some(left) => self.left.set(left),
            None => {
                half();
                std::panic::panic_any(Ended);
            }
        }
    }
}

impl Memory for Ending<'_> {
    fn bytes(&self) -> u64 {
        self.window.len()
    }
    fn read_bytes(&self, off: u64, to: &mut [u8]) -> Result<(), OutOfWindow> {
        self.meanwhile(None);
        self.window.read_bytes(off, to)
    }
    fn write_bytes(&self, off: u64, from: &[u8]) -> Result<(), OutOfWindow> {
        let (half, _) = from.split_at(from.len() / 2);
        self.step(|| {
            let _ = self.window.write_bytes(off, half);
        });
        self.window.write_bytes(off, from)
    }
    fn store(&self, off: u64, value: u32) -> Result<(), OutOfWindow> {
        self.step(|| ());
        Memory::store(self.window, off, value)
    }
    fn observe(&self, off: u64) -> Result<u32, OutOfWindow> {
        self.meanwhile(Some(off));
        Memory::observe(self.window, off)
    }
    fn publish(&self, off: u64, value: u32) -> Result<(), OutOfWindow> {
        // Of a user that was ended nothing is dropped.
        if std::thread::panicking() {
            return Ok(());
        }
        self.step(|| ());
        Memory::publish(self.window, off, value)
    }
    #[cfg(target_has_atomic = "64")]
    fn atomic(&self, off: u64, op: AtomicOp<u64>) -> Result<u64, OutOfWindow> {
        self.step(|| ());
        self.window.atomic(off, op)
    }
    fn keep(&self, word: &AtomicU32, value: u32) {
        self.step(|| ());
        word.store(value, Ordering::Relaxed);
    }
}
