//! The job that `mpirun` has started: who is in it, and connections between two of its ranks.
//!
//! ```text
//! rank 0   Pipe ── stream ══ messages of one tag, both ways ══ stream ── Pipe   rank 1
//! ```
//!
//! A connection is a [`Pipe`] at each of its ends. All connections between two ranks are messages of one communicator, with a tag
//! for each connection, in whose order they come; tag 0 says that there is another one. MPI is called by the threads that wait, one at a time, and never in a way that waits for the other rank: a receive is
//! always posted, a send is tested.
//!
//! What is sent and not received is bounded: a message behind [`WINDOW`] bytes is a synchronous one, and there are at most two
//! that were not received.

use crate::operation::{Came, Comm, Operation};
use crate::pipe::Pipe;
use mpi::Threading;
use mpi::environment::Universe;
use mpi::topology::Communicator;
use mpi::traits::{Destination, Source};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of the longest message.
pub(crate) const PIECE: usize = 1 << 16;
/// Bytes behind which a message is a synchronous one; each counts as its bytes and [`OVERHEAD`].
const WINDOW: usize = 1 << 16;
const OVERHEAD: usize = 64;
/// Of synchronous messages that were not received, at most.
const MOST_UNRECEIVED: usize = 2;
/// Buffers that a connection keeps for later messages, each of [`PIECE`] bytes.
const SPARE: usize = 2;
/// The tag of what is said about connections.
const CONTROL: i32 = 0;
/// Every implementation of MPI has tags up to this one, which no connection has: that of ping-pongs.
const LAST_TAG: i32 = 32_767;
/// Bytes of a message about connections: kind, tag, another number.
const CONTROL_BYTES: usize = 12;
const OPEN: u32 = 1;
const END: u32 = 2;
/// Asks for a ping-pong: kind, bytes, rounds.
const PING: u32 = 3;
/// Rounds before the first that counts: the other rank may be about to look.
const WARM: u32 = 200;
/// How long the other ranks have to take what is on its way at the job's end.
const END_LIMIT: Duration = Duration::from_secs(5);
/// Longest sleep between two looks.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// Why there is no job.
#[derive(Debug)]
pub enum NoJob {
    /// MPI was started before in this process.
    Again,
    /// The implementation lets one thread alone call it.
    Threads,
}

impl fmt::Display for NoJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Again => "expected to start MPI, it was started before in this process",
            Self::Threads => {
                "expected an MPI whose calls any thread may make (MPI_THREAD_SERIALIZED), this one has not that"
            }
        })
    }
}

impl std::error::Error for NoJob {}

/// This process's place in a job. Threads share it.
pub struct Job {
    rank: i32,
    size: i32,
    /// `None` behind the job's end.
    fabric: Mutex<Option<Fabric>>,
}

/// What ends MPI, in the thread that has started it.
pub struct Membership {
    job: Arc<Job>,
    universe: Option<Universe>,
    /// Which has joined it.
    process: u32,
}

/// What another rank says about connections.
pub enum Said {
    /// It has opened this one.
    Opens(i32, Pipe),
    /// The job is over.
    Ends,
}

struct Fabric {
    comm: Comm,
    streams: BTreeMap<Name, Stream>,
    /// Connections that this rank has opened.
    opened: i32,
    control: Option<Operation>,
    /// Messages about connections.
    going: Vec<Operation>,
    /// Another rank has said so.
    is_over: bool,
}

/// The other rank and the tag of a connection, which no later one has.
pub(crate) type Name = (i32, i32);

/// One end of a connection.
struct Stream {
    name: Name,
    receiving: Option<Operation>,
    /// What has come: `came.bytes[at..came.len]`.
    came: Option<Came>,
    at: usize,
    going: VecDeque<Going>,
    /// Bytes since the last synchronous message.
    sent: usize,
    spare: Vec<Vec<u8>>,
    is_ended: bool,
    /// The other end has ended it, and all that it sent before has come.
    has_gone: bool,
    /// When something was last read or written.
    moved: Instant,
}

struct Going {
    operation: Operation,
    is_synchronous: bool,
}

/// Why nothing can be read or written any more.
pub(crate) struct Ended;

impl Stream {
    fn new(comm: &Comm, name: Name) -> Self {
        let mut stream = Self {
            name,
            receiving: None,
            came: None,
            at: 0,
            going: VecDeque::new(),
            sent: 0,
            spare: Vec::new(),
            is_ended: false,
            has_gone: false,
            moved: Instant::now(),
        };
        stream.post(comm);
        stream
    }

    /// Receives the next message.
    fn post(&mut self, comm: &Comm) {
        let (mut bytes, (peer, tag)) = (self.buffer(), self.name);
        bytes.resize(PIECE, 0);
        self.receiving = Some(Operation::receive(&comm.0.process_at_rank(peer), tag, bytes));
    }

    fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    fn keep(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < SPARE {
            self.spare.push(bytes);
        }
    }

    /// Takes the next message, where it has come and the last one is read.
    fn pull(&mut self, comm: &Comm) {
        if self.came.is_some() {
            return;
        }
        let Some(receiving) = self.receiving.take() else { return };
        match receiving.test() {
            Err(receiving) => self.receiving = Some(receiving),
            Ok(came) if came.len == 0 => self.has_gone = true,
            Ok(came) => {
                (self.came, self.at) = (Some(came), 0);
                self.post(comm);
            }
        }
    }

    fn read(&mut self, comm: &Comm, to: &mut [u8]) -> Result<usize, Ended> {
        if self.is_ended {
            return Err(Ended);
        }
        self.pull(comm);
        let Some(came) = &self.came else { return if self.has_gone { Err(Ended) } else { Ok(0) } };
        let rest = came.bytes.get(self.at..came.len).unwrap_or_default();
        let len = rest.len().min(to.len());
        if let (Some(to), Some(from)) = (to.get_mut(..len), rest.get(..len)) {
            to.copy_from_slice(from);
        }
        self.at += len;
        if len == rest.len()
            && let Some(came) = self.came.take()
        {
            self.keep(came.bytes);
        }
        self.moved = Instant::now();
        Ok(len)
    }

    /// Forgets what the other end has received.
    fn reap(&mut self) {
        while let Some(Going { operation, is_synchronous }) = self.going.pop_front() {
            match operation.test() {
                Ok(Came { bytes, .. }) => self.keep(bytes),
                Err(operation) => return self.going.push_front(Going { operation, is_synchronous }),
            }
        }
    }

    fn write(&mut self, comm: &Comm, from: &[u8]) -> Result<usize, Ended> {
        if self.is_ended || self.has_gone {
            return Err(Ended);
        }
        self.reap();
        if self.going.iter().filter(|going| going.is_synchronous).count() >= MOST_UNRECEIVED {
            return Ok(0);
        }
        let from = from.get(..PIECE).unwrap_or(from);
        self.sent += from.len() + OVERHEAD;
        let is_synchronous = self.sent >= WINDOW;
        if is_synchronous {
            self.sent = 0;
        }
        self.send(comm, from, is_synchronous);
        self.moved = Instant::now();
        Ok(from.len())
    }

    fn send(&mut self, comm: &Comm, from: &[u8], is_synchronous: bool) {
        let (mut bytes, (peer, tag)) = (self.buffer(), self.name);
        bytes.clear();
        bytes.extend_from_slice(from);
        let operation = Operation::send(&comm.0.process_at_rank(peer), tag, bytes, is_synchronous);
        self.going.push_back(Going { operation, is_synchronous });
    }

    /// A message without bytes is the last one.
    fn end(&mut self, comm: &Comm) {
        if !std::mem::replace(&mut self.is_ended, true) {
            self.send(comm, &[], false);
        }
    }

    /// Goes on with one that has ended here. True: at the other end, too.
    fn is_over(&mut self, comm: &Comm) -> bool {
        self.reap();
        // Nobody reads it any more.
        self.came = None;
        self.pull(comm);
        self.has_gone && self.going.is_empty()
    }
}

impl Fabric {
    fn add(&mut self, name: Name) -> Name {
        self.streams.entry(name).or_insert_with(|| Stream::new(&self.comm, name));
        name
    }

    fn listen(&mut self) {
        let any = self.comm.0.any_process();
        self.control = Some(Operation::receive(&any, CONTROL, vec![0; CONTROL_BYTES]));
    }

    fn say(&mut self, to: i32, kind: u32, tag: i32, other: u32) {
        let bytes = [kind.to_le_bytes(), tag.to_le_bytes(), other.to_le_bytes()].concat();
        self.going.push(Operation::send(&self.comm.0.process_at_rank(to), CONTROL, bytes, false));
    }

    /// Messages there and back, by calls that wait.
    fn rounds(&self, peer: i32, bytes: usize, rounds: u32, is_first: bool) {
        let (peer, mut buffer) = (self.comm.0.process_at_rank(peer), vec![0u8; bytes]);
        for _ in 0..rounds {
            if is_first {
                peer.send_with_tag(&buffer[..], LAST_TAG);
            }
            peer.receive_into_with_tag(&mut buffer[..], LAST_TAG);
            if !is_first {
                peer.send_with_tag(&buffer[..], LAST_TAG);
            }
        }
    }

    /// Goes on with what has no thread any more.
    fn sweep(&mut self) {
        let all = std::mem::take(&mut self.going);
        self.going.extend(all.into_iter().filter_map(|going| going.test().err()));
        self.streams.retain(|_, stream| !stream.is_ended || !stream.is_over(&self.comm));
    }

    fn is_quiet(&self) -> bool {
        self.going.is_empty() && self.streams.is_empty()
    }
}

impl Job {
    /// Starts MPI in this thread, which also ends it.
    ///
    /// # Errors
    /// It was started before, or lets no other thread call it.
    pub fn join() -> Result<Membership, NoJob> {
        let (universe, level) = mpi::initialize_with_threading(Threading::Serialized).ok_or(NoJob::Again)?;
        if level < Threading::Serialized {
            return Err(NoJob::Threads);
        }
        let comm = Comm(universe.world().duplicate());
        let (rank, size) = (comm.0.rank(), comm.0.size());
        let mut fabric =
            Fabric { comm, streams: BTreeMap::new(), opened: 0, control: None, going: Vec::new(), is_over: false };
        fabric.listen();
        let job = Arc::new(Self { rank, size, fabric: Mutex::new(Some(fabric)) });
        Ok(Membership { job, universe: Some(universe), process: std::process::id() })
    }

    /// Which of the job's processes this is.
    pub fn rank(&self) -> i32 {
        self.rank
    }

    /// How many there are.
    pub fn size(&self) -> i32 {
        self.size
    }

    fn is_other(&self, rank: i32) -> bool {
        rank != self.rank && (0..self.size).contains(&rank)
    }

    /// Opens a connection to another rank. `None`: there is no such, or the job has ended, or this rank has opened so many that
    /// there is no tag.
    pub fn connect(self: &Arc<Self>, peer: i32) -> Option<Pipe> {
        if !self.is_other(peer) {
            return None;
        }
        let name = self.with(|fabric| {
            // Either end opens some: their tags are apart.
            let tag = fabric.opened.checked_add(1)?.checked_mul(2)?.checked_add(i32::from(self.rank > peer))?;
            if tag >= LAST_TAG {
                return None;
            }
            fabric.opened += 1;
            fabric.sweep();
            fabric.say(peer, OPEN, tag, 0);
            Some(fabric.add((peer, tag)))
        })??;
        Some(Pipe::new(self.clone(), name))
    }

    /// What another rank has said about connections since. Called again and again, it also goes on with what has ended.
    pub fn said(self: &Arc<Self>) -> Option<Said> {
        let (from, [kind, tag, other]) = self.with(|fabric| {
            fabric.sweep();
            match fabric.control.take()?.test() {
                Err(control) => {
                    fabric.control = Some(control);
                    None
                }
                Ok(Came { bytes, from, .. }) => {
                    fabric.listen();
                    let mut words =
                        bytes.chunks_exact(4).filter_map(|word| Some(u32::from_le_bytes(word.try_into().ok()?)));
                    Some((from, [words.next()?, words.next()?, words.next()?]))
                }
            }
        })??;
        match kind {
            OPEN => {
                let tag = i32::try_from(tag).ok().filter(|tag| (CONTROL + 1..LAST_TAG).contains(tag))?;
                let name = self.with(|fabric| fabric.add((from, tag)))?;
                Some(Said::Opens(from, Pipe::new(self.clone(), name)))
            }
            END => {
                self.with(|fabric| fabric.is_over = true);
                Some(Said::Ends)
            }
            PING => {
                self.with(|fabric| fabric.rounds(from, (tag as usize).min(PIECE), other, false));
                None
            }
            _ => None,
        }
    }

    /// The time of so many messages of `bytes` to another rank that [serves](crate::serve()) and back, one after the other: what a
    /// call over MPI is measured beside. Meanwhile no thread of either process has MPI. `None`: there is no such rank, or the job
    /// has ended.
    pub fn ping_pong(&self, peer: i32, bytes: usize, rounds: u32) -> Option<Duration> {
        if !self.is_other(peer) {
            return None;
        }
        let bytes = bytes.clamp(1, PIECE);
        self.with(|fabric| {
            fabric.say(peer, PING, bytes as i32, rounds + WARM);
            fabric.rounds(peer, bytes, WARM, true);
            let begin = Instant::now();
            fabric.rounds(peer, bytes, rounds, true);
            begin.elapsed()
        })
    }

    fn with<R>(&self, act: impl FnOnce(&mut Fabric) -> R) -> Option<R> {
        self.fabric.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(act)
    }

    fn stream<R>(&self, name: Name, act: impl FnOnce(&mut Stream, &Comm) -> R) -> Option<R> {
        self.with(|Fabric { streams, comm, .. }| streams.get_mut(&name).map(|stream| act(stream, comm)))?
    }

    pub(crate) fn read(&self, name: Name, to: &mut [u8]) -> Result<usize, Ended> {
        self.stream(name, |stream, comm| stream.read(comm, to)).unwrap_or(Err(Ended))
    }

    pub(crate) fn write(&self, name: Name, from: &[u8]) -> Result<usize, Ended> {
        self.stream(name, |stream, comm| stream.write(comm, from)).unwrap_or(Err(Ended))
    }

    pub(crate) fn end(&self, name: Name) {
        self.stream(name, Stream::end);
    }

    pub(crate) fn has_gone(&self, name: Name) -> bool {
        let look = |stream: &mut Stream, comm: &Comm| {
            stream.pull(comm);
            stream.is_ended || stream.has_gone
        };
        self.stream(name, look).unwrap_or(true)
    }

    /// An eighth of the time since something moved.
    pub(crate) fn pause(&self, name: Name) -> Duration {
        self.stream(name, |stream, _| stream.moved.elapsed() / 8).unwrap_or_default().min(LONGEST_PAUSE)
    }
}

impl Membership {
    /// This process's place.
    pub fn job(&self) -> &Arc<Job> {
        &self.job
    }
}

/// The job's end for this process, in the thread that has joined it. The other ranks are told, and all wait for each other.
impl Drop for Membership {
    fn drop(&mut self) {
        // A copy of the process is no rank.
        if std::process::id() != self.process {
            return std::mem::forget(self.universe.take());
        }
        let begin = Instant::now();
        self.job.with(|fabric| {
            if !fabric.is_over {
                (0..self.job.size).filter(|rank| *rank != self.job.rank).for_each(|rank| fabric.say(rank, END, 0, 0));
            }
            let Fabric { streams, comm, .. } = fabric;
            streams.values_mut().for_each(|stream| stream.end(comm));
        });
        while self.job.with(|fabric| {
            fabric.sweep();
            !fabric.is_quiet()
        }) == Some(true)
            && begin.elapsed() < END_LIMIT
        {
            std::thread::sleep(Duration::from_micros(50));
        }
        // Threads that look later find that there is none.
        let fabric = self.job.fabric.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Fabric { comm, streams, control, .. }) = fabric {
            let receiving = streams.into_values().filter_map(|stream| stream.receiving);
            receiving.chain(control).for_each(Operation::cancel);
            drop(comm);
        }
    }
}
