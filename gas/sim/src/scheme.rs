//! What a flow control decides, and on which links; the network does the rest.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use crate::patterns::splitmix64;

/// A number of a link of [`Links`].
pub(crate) type LinkId = u32;

/// A flow control: which messages may be sent, and what rides on them.
pub(crate) trait Scheme: Sized {
    /// In the table.
    const NAME: &'static str;
    /// Whether a receiver takes messages lane by lane; else in the order in which they came.
    const POLLS_LANES: bool;
    /// What a rank has.
    type Rank;
    /// What a sender has for a receiver.
    type Out;
    /// What a receiver has for a sender.
    type In;
    /// What rides on a message.
    type Head: Copy;
    /// What rides on its reply.
    type Tail: Copy;

    fn rank(&self) -> Self::Rank;
    fn out(&self) -> Self::Out;
    fn lent(&self) -> Self::In;

    /// Credits of a message to the receiver of `link`; `None`, and the message waits.
    fn send(&self, rank: &mut Self::Rank, links: &mut Links<Self>, link: LinkId) -> Option<Self::Head>;
    /// The message that was just refused waits now.
    fn stalled(&self, links: &mut Links<Self>, link: LinkId);
    /// A message is received; what its reply carries.
    fn serve(&self, rank: &mut Self::Rank, links: &mut Links<Self>, link: LinkId, head: Self::Head) -> Self::Tail;
    /// A reply is received by the sender of `link`.
    fn reply(&self, rank: &mut Self::Rank, links: &mut Links<Self>, link: LinkId, head: Self::Head, tail: Self::Tail);
    /// Messages of its own that rank `me` sends after an event.
    fn control(&self, me: u32, rank: &mut Self::Rank, links: &mut Links<Self>, out: &mut Vec<(LinkId, Self::Head)>);
    /// A message of its own: it is no message of the program.
    fn is_control(head: Self::Head) -> bool;
    /// The rank had nothing to do for so long.
    fn idled(&self, _rank: &mut Self::Rank, _nanoseconds: u64) {}
    /// The most records that one event has looked at, or may look at.
    fn most_steps(rank: &Self::Rank) -> u64;
    /// When nothing is under way: every credit that rank `me` lent is at its borrower.
    fn check(&self, me: u32, rank: &Self::Rank, links: &Links<Self>);
}

/// One direction between two ranks.
pub(crate) struct Link<S: Scheme> {
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// The sender's.
    pub(crate) out: S::Out,
    /// The receiver's.
    pub(crate) lent: S::In,
    /// Messages that came and were not taken.
    pub(crate) came: VecDeque<S::Head>,
}

/// All links between which a message went.
pub(crate) struct Links<S: Scheme> {
    links: Vec<Link<S>>,
    index: HashMap<u64, LinkId, BuildHasherDefault<Mix>>,
}

impl<S: Scheme> Links<S> {
    pub(crate) fn new() -> Self {
        Self { links: Vec::new(), index: HashMap::default() }
    }

    /// The link from one rank to another, made by the first message.
    pub(crate) fn open(&mut self, scheme: &S, from: u32, to: u32) -> LinkId {
        let next = self.links.len() as LinkId;
        let id = *self.index.entry(key(from, to)).or_insert(next);
        if id == next {
            let (out, lent) = (scheme.out(), scheme.lent());
            self.links.push(Link { from, to, out, lent, came: VecDeque::new() });
        }
        id
    }

    /// The link from one rank to another, if there is one.
    pub(crate) fn find(&self, from: u32, to: u32) -> Option<LinkId> {
        self.index.get(&key(from, to)).copied()
    }

    pub(crate) fn at(&mut self, id: LinkId) -> &mut Link<S> {
        &mut self.links[id as usize]
    }

    pub(crate) fn get(&self, id: LinkId) -> &Link<S> {
        &self.links[id as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }
}

fn key(from: u32, to: u32) -> u64 {
    u64::from(from) << 32 | u64::from(to)
}

/// One number is hashed by one round of SplitMix64.
#[derive(Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = splitmix64(self.0 ^ value);
    }
}

/// Credits without end.
pub(crate) struct Infinite;

impl Scheme for Infinite {
    const NAME: &'static str = "infinite";
    const POLLS_LANES: bool = true;
    type Rank = ();
    type Out = ();
    type In = ();
    type Head = ();
    type Tail = ();

    fn rank(&self) {}
    fn out(&self) {}
    fn lent(&self) {}
    fn send(&self, (): &mut (), _links: &mut Links<Self>, _link: LinkId) -> Option<()> {
        Some(())
    }
    fn stalled(&self, _links: &mut Links<Self>, _link: LinkId) {}
    fn serve(&self, (): &mut (), _links: &mut Links<Self>, _link: LinkId, (): ()) {}
    fn reply(&self, (): &mut (), _links: &mut Links<Self>, _link: LinkId, (): (), (): ()) {}
    fn control(&self, _me: u32, (): &mut (), _links: &mut Links<Self>, _out: &mut Vec<(LinkId, ())>) {}
    fn is_control((): ()) -> bool {
        false
    }
    fn most_steps((): &()) -> u64 {
        0
    }
    fn check(&self, _me: u32, (): &(), _links: &Links<Self>) {}
}
