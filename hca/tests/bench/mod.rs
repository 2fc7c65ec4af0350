//! The adapter and a device in one thread, over one section, for tests.
#![allow(dead_code, reason = "each binary of tests uses a part")]

pub(crate) mod packets;

use hamr_comm::abi::window::{Private, Window};
use hamr_hca::Engine;
use hamr_verbs::ring::Ring;
use hamr_verbs::testing::Section;
use hamr_verbs::wire::{Command, Kind, Object, RemoteEnd, Reply, SQ_CI, SendEntry, Sge, Verb, WcStatus, word_of};
use hamr_verbs::{Completion, Name, QpId, Remote, SendWr, Verbs, VerbsError};
use zerocopy::IntoBytes;

/// A section with its adapter, whose queue pairs 0 and 1 are connected, and 2 with 3.
pub(crate) struct Bench {
    pub(crate) section: Section,
    pub(crate) engine: Engine<Private>,
}

pub(crate) fn create(object: Object) -> Command {
    Command { verb: Verb::CREATE, peer: 0, object, remote: RemoteEnd::default() }
}

pub(crate) fn connect(index: u16, peer: u32) -> Command {
    Command { verb: Verb::CONNECT, peer, object: Object { index, ..Object::default() }, remote: RemoteEnd::default() }
}

/// The front of a section's region, before an adapter does something.
pub(crate) struct Before(Vec<u8>);

impl Before {
    pub(crate) fn of(section: &Section, bytes: u64) -> Self {
        let mut front = vec![0; bytes as usize];
        section.verbs().region(section.id(0)).and_then(|region| region.copy_out(0, &mut front)).expect("inside");
        Self(front)
    }

    /// What the adapter has written since is what a request of the device's that has no completion yet may write, or
    /// a peer's, as `is_peers` says of a place. Looks at the first and the last such byte of each line.
    pub(crate) fn check(&self, section: &Section, is_peers: impl Fn(u64) -> bool) {
        let Self(after) = Self::of(section, self.0.len() as u64);
        let verbs = section.verbs();
        let region = verbs.region(section.id(0)).expect("there");
        for (line, (before, after)) in self.0.chunks(64).zip(after.chunks(64)).enumerate() {
            if before != after {
                let places = before.iter().zip(after).enumerate().filter(|(_, (before, after))| before != after);
                let mut places = places.map(|(at, _)| 64 * line as u64 + at as u64).filter(|at| !is_peers(*at));
                for at in places.next().into_iter().chain(places.last()) {
                    assert_eq!(region.is_written(at..at + 1), Ok(true), "byte {at}: no request writes it");
                }
            }
        }
    }
}

impl Bench {
    pub(crate) fn new(log2: u8, cq_log2: u8) -> Self {
        let section = Section::new(log2, cq_log2);
        let window = section.window.part(0, section.window.len()).expect("all of it");
        let mut engine = Engine::new(window);
        for object in &section.objects {
            assert_eq!(engine.command(&create(*object)), Reply::DONE);
        }
        for (a, b) in [(0, 1), (2, 3)] {
            assert_eq!(engine.command(&connect(a, b)), Reply::DONE);
        }
        Self { section, engine }
    }

    pub(crate) fn verbs(&self) -> Verbs<'_, Window<Private>> {
        self.section.verbs()
    }

    pub(crate) fn post(&self, qp: u16, request: &SendWr<'_>) -> Result<(), VerbsError> {
        self.verbs().queue_pair(self.pair(qp))?.post(request)
    }

    pub(crate) fn receive(&self, qp: u16, id: u64, into: &[Sge]) -> Result<(), VerbsError> {
        self.verbs().queue_pair(self.pair(qp))?.receive(id, into)
    }

    pub(crate) fn poll(&self) -> Result<Option<Completion>, VerbsError> {
        self.verbs().completion_queue(self.section.id(0))?.poll()
    }

    pub(crate) fn part(&self, from: u64, len: u64) -> Sge {
        let verbs = self.verbs();
        verbs.region(self.section.id(0)).and_then(|region| region.part(from..from + len)).expect("inside")
    }

    pub(crate) fn remote(&self, at: u64) -> Remote {
        let verbs = self.verbs();
        verbs.region(self.section.id(0)).and_then(|region| region.remote(at)).expect("inside")
    }

    pub(crate) fn receive_shared(&self, id: u64, into: &[Sge]) -> Result<(), VerbsError> {
        self.verbs().shared_receive_queue(self.section.id(0))?.receive(id, into)
    }

    pub(crate) fn fill(&self, at: u64, bytes: &[u8]) {
        self.verbs().region(self.section.id(0)).and_then(|region| region.copy_in(at, bytes)).expect("inside");
    }

    pub(crate) fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let verbs = self.verbs();
        verbs.region(self.section.id(0)).and_then(|region| region.copy_out(at, &mut bytes)).expect("inside");
        bytes
    }

    pub(crate) fn idle(&mut self) {
        for _ in 0..10_000 {
            if self.engine.round(0) == 0 {
                return;
            }
        }
        panic!("the adapter is never idle");
    }

    /// The outcomes that are there, by number.
    pub(crate) fn outcomes(&mut self) -> Vec<(u64, WcStatus)> {
        self.idle();
        std::iter::from_fn(|| self.poll().expect("no overrun")).map(|found| (found.id, found.status)).collect()
    }

    /// What the host would tell a handler of an object.
    pub(crate) fn id_of<I: From<Name>>(&self, object: Object) -> I {
        self.section.id_of(object.index, object.generation)
    }

    /// A queue pair of the generation that it has.
    fn pair(&self, index: u16) -> QpId {
        let is_it = |object: &&Object| object.kind == Kind::QUEUE_PAIR && object.index == index;
        self.id_of(*self.section.objects.iter().find(is_it).expect("a queue pair"))
    }

    /// Resets a queue pair as a host does, with other attributes; the new object.
    pub(crate) fn reset(&mut self, index: u16, change: impl FnOnce(Object) -> Object) -> Object {
        let is_it = |object: &&mut Object| object.kind == Kind::QUEUE_PAIR && object.index == index;
        let place = self.section.objects.iter_mut().find(is_it).expect("a queue pair");
        let object = change(Object { generation: place.generation + 1, ..*place });
        *place = object;
        assert_eq!(self.engine.command(&Command { verb: Verb::RESET, ..create(object) }), Reply::DONE);
        self.section.replace(&object);
        object
    }

    /// Writes a request where the adapter looks next.
    pub(crate) fn write_entry(&self, object: Object, entry: &SendEntry) {
        let ring = Ring::new(object.off, object.log2, 2, object.tag());
        let x = self.word(word_of(SQ_CI, object.index));
        self.section.window.write_bytes(ring.entry(x), entry.as_bytes()).expect("inside");
        self.section.window.word(ring.word(x)).expect("inside").publish(ring.expected(x));
    }

    pub(crate) fn word(&self, at: u64) -> u32 {
        self.section.window.word(at).expect("inside").load()
    }
}

/// Numbers by a seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// More in a night: `HAMR_SEEDS`.
pub(crate) fn seeds() -> u64 {
    std::env::var("HAMR_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(50)
}
