//! Follows the ranks of a world, and ends all of them when one has left or was lost.

use super::WorldError;
use super::stall::Stall;
use crate::Node;
use crate::link::Peer;
use hamr_comm::abi::ids::RankId;
use hamr_comm::abi::window::{Shared, Window, Word};
use hamr_comm::abi::world::{JobState, RankState, WorldLayout, word};
use hamr_comm::fault::cut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two checks of all ranks.
const PERIOD: Duration = Duration::from_millis(20);
/// The same while they end.
const ENDING_PERIOD: Duration = Duration::from_millis(2);
/// Tasks have so long to learn which rank was lost,
const INFORM: Duration = Duration::from_millis(500);
/// before ENDING. There a rank leaves by itself; after this time its process is asked to end,
const TERMINATE: Duration = Duration::from_secs(1);
/// and after this time it is killed.
const KILL: Duration = Duration::from_secs(2);

type Outcome = Result<u8, WorldError>;

/// What a world and its watching thread share.
pub(super) struct Watched {
    nodes: Vec<Node>,
    /// Header, job words and directory.
    front: Window<Shared>,
    layout: WorldLayout,
    /// How long a rank may do nothing.
    stall: Option<Duration>,
    state: Mutex<State>,
    ended: Condvar,
    /// The program drops the world.
    closed: AtomicBool,
}

#[derive(Default)]
struct State {
    outcome: Option<Outcome>,
    /// No rank is left.
    has_ended: bool,
}

impl Watched {
    /// All ranks serve.
    pub(super) fn new(nodes: Vec<Node>, front: Window<Shared>, layout: WorldLayout, stall: Option<Duration>) -> Self {
        publish(&front, word::JOB_STATE, JobState::RUNNING.0);
        Self {
            nodes,
            front,
            layout,
            stall,
            state: Mutex::default(),
            ended: Condvar::new(),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(super) fn outcome(&self) -> Option<Outcome> {
        self.state().outcome.clone()
    }

    pub(super) fn wait(&self) -> Outcome {
        let ended = self.ended.wait_while(self.state(), |state| !state.has_ended);
        let state = ended.unwrap_or_else(PoisonError::into_inner);
        // The outcome is set before the end.
        state.outcome.clone().unwrap_or(Ok(0))
    }

    /// The words that ranks write for each other are zero again, and ranks count anew. A rank that goes on
    /// meanwhile, as calls of one rank alone do, writes numbers of the run that it has read: those of before, behind
    /// the zeros too, are no partner's (`has_come`), and those of the new one are behind the step, so no zero is over
    /// them.
    pub(super) fn restart_words(&self) {
        for words in (0..self.nodes.len() as u32).filter_map(|rank| self.layout.peers().words(RankId(rank))) {
            // In the front, which the layout was made for.
            if let Ok(words) = self.front.words(words.off, words.len / 4) {
                (0..words.len()).filter_map(|i| words.get(i)).for_each(|word| word.store(0));
            }
        }
        let run = self.front.word(word::RUN).map_or(0, Word::load);
        publish(&self.front, word::RUN, run.wrapping_add(1));
    }

    /// Calls to all ranks are under way from now on, or none is.
    pub(super) fn say_in_run(&self, in_run: bool) {
        publish(&self.front, word::IN_RUN, in_run.into());
    }

    /// What each rank has counted outside of runs.
    pub(super) fn outside(&self) -> Vec<u32> {
        let ranks = (0..self.nodes.len() as u32).map(RankId);
        ranks.map(|rank| self.front.word(self.layout.outside_word(rank)).map_or(0, Word::observe)).collect()
    }

    /// The watching thread returns soon.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// What the watching thread does.
    pub(super) fn watch(&self) {
        let mut stalls = vec![Stall::default(); self.nodes.len()];
        let mut looked = Instant::now();
        while !self.closed.load(Ordering::Relaxed) {
            let passed = looked.elapsed();
            looked += passed;
            for ((rank, node), stall) in (0..).map(RankId).zip(&self.nodes).zip(&mut stalls) {
                // In this order: a rank publishes its code before it ends.
                let is_alive = node.is_alive();
                let lost = |why| Err(WorldError { rank, name: node.device().name.clone(), why, code: code_of(node) });
                let outcome = match (self.exit_code(rank), self.stall) {
                    (Some(code), _) => Ok(code),
                    (None, _) if !is_alive => {
                        self.foretold(rank, node).map_or_else(|| lost(node.device().loss_reason()), Ok)
                    }
                    // A thread has nothing that steps `alive` beside its handlers.
                    (None, Some(limit)) if !node.is_thread() && stall.check(&*node.device().link, passed, limit) => {
                        lost(format!("it hangs: it has not stepped its word `alive` for {limit:?}"))
                    }
                    _ => continue,
                };
                return self.end(rank, node, outcome);
            }
            std::thread::park_timeout(PERIOD);
        }
    }

    /// The code that a rank has left with.
    fn exit_code(&self, rank: RankId) -> Option<u8> {
        let has_left = self.observe(self.layout.state_word(rank)) == RankState::LEFT.0;
        has_left.then(|| self.observe(self.layout.exit_word(rank)).saturating_sub(1) as u8)
    }

    /// The code that a rank was going to leave with when it ended in another way, if not by a trap.
    fn foretold(&self, rank: RankId, node: &Node) -> Option<u8> {
        let code = self.observe(self.layout.exit_word(rank)).checked_sub(1)?;
        node.last_crash().is_none().then_some(code as u8)
    }

    fn observe(&self, at: u64) -> u32 {
        self.front.word(at).map_or(0, |word| word.observe())
    }

    /// Ends all ranks because of one.
    fn end(&self, rank: RankId, cause: &Node, outcome: Outcome) {
        let why = match &outcome {
            Ok(code) => format!("the world ended: {} left with code {code}", cause.device().name),
            Err(lost) => format!("the world ended: {lost}"),
        };
        tracing::debug!(why, "ending a world");
        // Calls in flight end with this reason, and not with how their own ranks ended for it.
        self.nodes.iter().for_each(|node| node.device().give_up(&why));
        let begin = Instant::now();
        self.state().outcome = Some(outcome.clone());
        match outcome {
            Ok(code) => publish(&self.front, word::EXIT_CODE, code.into()),
            Err(lost) => self.inform(rank, &lost.to_string()),
        }
        publish(&self.front, word::JOB_STATE, JobState::ENDING.0);
        // A rank that sleeps reads the words when it wakes.
        self.nodes.iter().for_each(|node| node.device().link.notify());
        self.await_ends(begin);
        self.nodes.iter().for_each(|node| node.device().stop_finally(&why));
        self.state().has_ended = true;
        self.ended.notify_all();
    }

    /// Tells the ranks which of them was lost, so that waits of their tasks end by that name. Returns when
    /// no task is left, or none may take longer.
    fn inform(&self, lost: RankId, why: &str) {
        let (text, _) = cut(why, word::LOST_TEXT_BYTES);
        // In the header, which the front begins with.
        let _ = self.front.write_bytes(word::LOST_TEXT, text.as_bytes());
        publish(&self.front, word::FAILED_RANK, lost.0 + 1);
        self.nodes.iter().for_each(|node| node.device().link.notify());
        let begin = Instant::now();
        let is_informed = |(rank, node): (u32, &Node)| {
            let state = self.front.word(self.layout.state_word(RankId(rank))).map_or(0, Word::observe);
            rank == lost.0 || state == RankState::INFORMED.0 || node.device().link.peer() != Peer::Alive
        };
        while begin.elapsed() < INFORM
            && !self.closed.load(Ordering::Relaxed)
            && !(0..).zip(&self.nodes).all(is_informed)
        {
            std::thread::park_timeout(ENDING_PERIOD);
        }
    }

    /// Returns when every rank has left by itself, or none may stay any longer.
    fn await_ends(&self, begin: Instant) {
        let mut is_asked = false;
        while begin.elapsed() < KILL && !self.closed.load(Ordering::Relaxed) {
            let mut left = self.nodes.iter().map(|node| &node.device().link).filter(|link| link.peer() == Peer::Alive);
            if begin.elapsed() >= TERMINATE && !is_asked {
                left.for_each(|link| link.terminate());
                is_asked = true;
            } else if left.next().is_none() {
                return;
            }
            std::thread::park_timeout(ENDING_PERIOD);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The code for the end of a rank that has left none: a trap was a signal, before the image ended by itself.
fn code_of(node: &Node) -> Option<u8> {
    let link = &node.device().link;
    let trap = node.last_crash().filter(|_| link.kind() == "shm").and_then(|crash| crash.exit_code());
    trap.or_else(|| link.exit_code())
}

fn publish(front: &Window<Shared>, at: u64, value: u32) {
    // In the header, which the front begins with.
    if let Ok(word) = front.word(at) {
        word.publish(value);
    }
}
