//! What tasks cost a device, for callgrind to count: the host's half is in this thread, too, and is not
//! counted.

use super::BoxError;
use hamr_comm::abi::ids::{Epoch, HandlerKey, NodeId};
use hamr_comm::abi::layout::{Layout, Plan};
use hamr_comm::abi::preamble::{feature, word};
use hamr_comm::abi::slot::{COUNT_BITS, RepHdr, ReqHdr, seq};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::{Queue, Shared};
use hamr_comm::am::{HostResponder, Poller, QueueEnd, Requester, Round, SlotAccess, Slots, TaskSlot, Tasks};
use hamr_comm::handler::{Entry, Handler};
use hamr_comm::handshake::{Accepted, HostHandshake, IdlePolicy, Offer};
use hamr_comm::migrate::MAX_MESSAGE;
use hamr_comm::registry::Table;
use hamr_kernels::bench::{call_host, empty_on_host, empty_task, yields};

const PLACES: usize = 16;
const STACK: usize = 64 << 10;

/// A device that runs tasks, and the host's end of its first stream and of the first place's queue.
struct Bench {
    poller: Poller<'static, Shared>,
    end: Requester<Queue<Shared>>,
    calls: HostResponder<Shared>,
    host_table: Table,
    /// Uses of the ticket.
    count: u32,
}

impl Bench {
    fn new(device_table: Table, host_table: Table) -> Result<Self, BoxError> {
        let plan = Plan { streams: 8, heap: 4096, ..Plan::default() };
        let features = feature::TICKETS | feature::TASKS | feature::HOST_CALLS;
        let idle_policy = IdlePolicy::default();
        let offer = Offer { features, host_handlers: host_table, ..Offer::new(plan, NodeId(1)) };
        let broken = |e| format!("{e:?}");
        let len = Layout::plan(&plan).map_err(|e| format!("{e:?}"))?.window_len();
        let (host, device) = super::both_ends(len)?;
        let (_, layout) = HostHandshake::offer(&host, &offer, Epoch::FIRST).map_err(|e| format!("{e:?}"))?;
        let accepted = Accepted { layout, node: NodeId(1), epoch: Epoch::FIRST, features, idle_policy };
        let mut poller = Poller::new(device, &accepted, device_table, vec![0; MAX_MESSAGE].leak())
            .map_err(|(e, ..)| format!("{e:?}"))?;
        let slots: Vec<_> = (0..PLACES).map(|_| TaskSlot::new(STACK)).collect();
        poller.use_tasks(Tasks::new(slots.leak()));
        host.word(word::OPEN_QUEUES)?.store(2);
        let end = Requester::new(host.queue(&layout.queue(&host, 1).map_err(broken)?)?, Epoch::FIRST);
        let tasks = layout.planned_tasks(&plan).map_err(broken)?;
        let calls = HostResponder::new(host.queue(&tasks.queue(1))?, Epoch::FIRST);
        // Even: the task's caller waits, and polls this queue.
        host.word(tasks.wait_word(1))?.store(2);
        Ok(Self { poller, end, calls, host_table, count: 0 })
    }

    /// Sends the call of a task with so many bytes of arguments; its position in the ring, and the word of
    /// its reply in the ticket slot.
    fn send(&mut self, key: HandlerKey, args: u64, len: usize) -> (u64, u32) {
        self.count += 1;
        let ticket_seq = seq(Epoch::FIRST.tag(), self.count, COUNT_BITS);
        // Fields of `Ext`: no deadline, and ticket 0.
        let words = [u64::from(ticket_seq) << 32, 0, args];
        let hdr = ReqHdr::inline(key, 16 + len).with(ReqHdr::TICKET | ReqHdr::UNORDERED | ReqHdr::EXT);
        let at = self.end.submit_ring(hdr, &words);
        self.end.release_oldest();
        (at, ticket_seq)
    }

    fn has_reply(&self, (at, word): (u64, u32)) -> bool {
        self.end.ring_reply(at).is_some_and(|hdr| !hdr.has(RepHdr::TAKEN))
            || self.end.slots().ticket_slot(0).is_some_and(|slot| slot.rep_seq() == word)
    }
}

/// One step of a serve loop.
#[inline(always)]
fn step(poller: &mut Poller<'static, Shared>) {
    if let Round::TasksDue(served) = poller.serve() {
        std::hint::black_box(poller.run_tasks(served, &mut || 1));
    }
}

/// A round that finds a call, begins its task and ends it.
#[inline(never)]
fn device_task(poller: &mut Poller<'static, Shared>) {
    step(poller);
}

/// A round in which a task that let the others have a turn goes on.
#[inline(never)]
fn device_turn(poller: &mut Poller<'static, Shared>) {
    step(poller);
    // The number keeps the linker from merging this function with its like.
    std::hint::black_box(1_u64);
}

/// A round that finds the host's reply, and in which the task calls the host again.
#[inline(never)]
fn device_host_call(poller: &mut Poller<'static, Shared>) {
    step(poller);
    std::hint::black_box(2_u64);
}

/// A round while a task waits for the host.
#[inline(never)]
fn device_waiting(poller: &mut Poller<'static, Shared>) {
    step(poller);
    std::hint::black_box(3_u64);
}

/// Makes so many of each.
#[inline(never)]
pub(super) fn run(calls: u64) -> Result<(), BoxError> {
    tasks_counted(calls)
}

#[inline(never)]
fn tasks_counted(calls: u64) -> Result<(), BoxError> {
    static DEVICE: [Entry; 3] = [Entry::of::<empty_task>(), Entry::of::<yields>(), Entry::of::<call_host>()];
    static HOST: [Entry; 1] = [Entry::of::<empty_on_host>()];
    let device_table = Table::of(DEVICE.iter().collect());
    let key = |name: &str| {
        let at = device_table.iter().position(|entry| entry.name == name);
        at.map(|at| HandlerKey(at as u16)).ok_or("a handler is missing")
    };
    let mut bench = Bench::new(device_table, Table::of(HOST.iter().collect()))?;
    let lost = || BoxError::from("a task has not ended");
    for _ in 0..calls {
        let word = bench.send(key(empty_task::NAME)?, 0, 0);
        device_task(&mut bench.poller);
        if !bench.has_reply(word) {
            return Err(lost());
        }
    }
    let word = bench.send(key(yields::NAME)?, calls, 4);
    for _ in 0..=calls {
        if bench.has_reply(word) {
            return Err("a task has not yielded".into());
        }
        device_turn(&mut bench.poller);
    }
    if !bench.has_reply(word) {
        return Err(lost());
    }
    let word = bench.send(key(call_host::NAME)?, calls, 8);
    for _ in 0..=calls {
        device_host_call(&mut bench.poller);
        if bench.has_reply(word) {
            break;
        }
        device_waiting(&mut bench.poller);
        let reply = bench.calls.run_next(bench.host_table, |_, _, frame, _| (frame.status(Status::OK), false));
        bench.calls.publish(&reply.ok_or("no call of the host")?);
    }
    if bench.has_reply(word) { Ok(()) } else { Err(lost()) }
}
