//! Order, reuse, wrap and fullness of one stream inside one epoch (rules 3, 4, 6, 7, 8, 11, 12). Hot messages have two
//! lines.

use hamr_shared_abi::ids::Epoch;
use loom::thread;

use crate::Model;
use crate::ends::{
    Caller, Count, Pick, SecondLine, Server, Want, all_orders, count_late, count_late_by_the_line, pick,
    pick_uncounted, pick_without_second_check,
};
use crate::slots::{Pair, Shape, Shapes};
use Want::{Hot, Ring};

/// One run of a stream.
#[derive(Clone)]
struct Stream<const BITS: u32> {
    shapes: Shapes,
    pick: Pick<BITS>,
    count: Count<BITS>,
    /// Messages exchanged before the responder has its own thread: how a run starts near the wrap.
    before: Vec<Want>,
    /// Messages sent while the responder runs.
    sent: Vec<Want>,
    send: Send<BITS>,
    read_second: SecondLine,
}

/// How the requester sends one message.
type Send<const BITS: u32> = fn(&mut Caller<BITS>, u32, Want);

/// As soon as a line is free.
fn pipelined<const BITS: u32>(caller: &mut Caller<BITS>, k: u32, want: Want) {
    caller.send(k, want);
}

/// One at a time, as a plain call does.
fn in_turn<const BITS: u32>(caller: &mut Caller<BITS>, k: u32, want: Want) {
    caller.send(k, want);
    caller.drain();
}

/// Rule 7 dropped: the hot slot is used whenever it is free.
fn hot_when_free<const BITS: u32>(caller: &mut Caller<BITS>, k: u32, want: Want) {
    if want == Want::Hot && !caller.end.hot_is_busy() { caller.send_hot(k) } else { caller.send(k, want) }
}

impl<const BITS: u32> Stream<BITS> {
    fn sound(sent: &[Want]) -> Self {
        Self {
            shapes: Shapes::SOUND,
            pick,
            count: |_, _| (),
            before: Vec::new(),
            sent: sent.to_vec(),
            send: pipelined,
            read_second: SecondLine::Read,
        }
    }

    fn apart(self) -> Self {
        Self { shapes: Shapes::APART, ..self }
    }

    fn after(self, before: &[Want]) -> Self {
        Self { before: before.to_vec(), ..self }
    }

    fn run(self) {
        let pair = Pair::new(self.shapes);
        let mut server = Server::new(pair.clone(), Epoch::FIRST, self.pick).counting(self.count);
        server.second_line = self.read_second;
        let mut caller = Caller::new(pair, Epoch::FIRST);
        caller.second_line = SecondLine::Read;
        let mut k = 0;
        for want in self.before {
            caller.send(k, want);
            server.serve_all(k, k + 1);
            caller.drain();
            k += 1;
        }
        let (first, end) = (k, k + self.sent.len() as u32);
        thread::spawn(move || {
            server.serve_all(first, end);
            server.expect_nothing();
        });
        for want in self.sent {
            (self.send)(&mut caller, k, want);
            k += 1;
        }
        caller.drain();
    }
}

/// Every order of `n` messages.
fn orders(n: usize) -> Vec<Stream<2>> {
    all_orders(n).iter().map(|sent| Stream::sound(sent)).collect()
}

#[test]
fn three_messages_run_in_their_order() {
    Model::new("order, 3 messages", orders(3), Stream::run).holds();
}

/// In memory where header and published word are two accesses.
#[test]
fn three_messages_run_in_their_order_with_headers_apart() {
    Model::new("order apart", orders(3).into_iter().map(Stream::apart).collect(), Stream::run).holds();
}

#[test]
fn four_messages_run_in_their_order() {
    Model::new("order, 4 messages", orders(4), Stream::run).preempted_at_most(4).holds();
}

#[test]
fn five_messages_run_in_their_order() {
    Model::new("order, 5 messages", orders(5), Stream::run).preempted_at_most(3).holds();
}

/// Messages one at a time and in flight together, answered before they are counted.
#[test]
fn a_reply_may_be_counted_late() {
    let late = |sent: &Vec<Want>| Stream::<2> { pick: pick_uncounted, count: count_late, ..Stream::sound(sent) };
    Model::new("counted late", all_orders(3).iter().map(late).collect(), Stream::run).preempted_at_most(3).holds();
}

#[test]
fn counted_late_by_the_line_messages_are_lost() {
    let case = Stream::<2> { pick: pick_uncounted, count: count_late_by_the_line, ..Stream::sound(&[Hot; 2]) };
    Model::new("counted by the line", vec![case], Stream::run).breaks("exceeded maximum number of branches");
}

/// Four ring messages over two lines: the requester stops at each full ring.
#[test]
fn a_full_ring_loses_nothing() {
    Model::new("full", vec![Stream::<2>::sound(&[Ring; 4])], Stream::run).holds();
}

/// Both counts go from 3 over 0 to 1 while the sides run freely; before that, messages go one at a time.
#[test]
fn counts_wrap() {
    // Ring positions 5..8 carry counts 3, 0, 0; positions 7..10 carry 0, 1, 1. The hot slot goes 3, 0, 1.
    let starts = [[Ring; 5].as_slice(), &[Ring; 7]];
    let starts = starts.map(|ring| [ring, &[Hot; 2]].concat());
    let cases = starts.iter().flat_map(|start| orders(3).into_iter().map(|s| s.after(start))).collect();
    Model::new("wrap, 3 in flight", cases, Stream::run).holds();
}

/// Every count from the first to the one that comes again, with both sides free from the start.
#[test]
fn counts_wrap_from_the_start() {
    let cases = [[Hot; 5].as_slice(), &[Ring; 9]];
    let cases = cases.map(|sent| Stream::<2> { send: in_turn, ..Stream::sound(sent) }).to_vec();
    Model::new("wrap, one at a time", cases, Stream::run).preempted_at_most(3).holds();
}

const MIXED: [Want; 3] = [Hot, Ring, Ring];

#[test]
fn without_the_second_check_order_is_lost() {
    Model::new("no second look, off", vec![Stream::<2>::sound(&MIXED)], Stream::run).holds();
    let case = Stream::<2> { pick: pick_without_second_check, ..Stream::sound(&MIXED) };
    Model::new("no second look", vec![case], Stream::run).breaks("out of order: message 1 ran where 0 was due");
}

#[test]
fn without_rule_7_order_is_lost() {
    let sent = [Ring, Hot, Ring];
    Model::new("hot when free, off", vec![Stream::<2>::sound(&sent)], Stream::run).holds();
    let case = Stream::<2> { send: hot_when_free, ..Stream::sound(&sent) };
    Model::new("hot when free", vec![case], Stream::run).breaks("out of order: message 1 ran where 0 was due");
}

/// The same three messages over lines of which one side is wrong: requests then tear at the responder, answers at the
/// requester. `three_messages_run_in_their_order` and its twin apart have both sides right.
fn shape_breaks(name: &'static str, sound: Shapes, wrong: Shape) {
    let case = |shapes| vec![Stream::<2> { shapes, ..Stream::sound(&MIXED) }];
    Model::new(name, case(sound), Stream::run).holds();
    Model::new(name, case(Shapes { req: wrong, ..sound }), Stream::run).breaks("torn request");
    Model::new(name, case(Shapes { rep: wrong, ..sound }), Stream::run).breaks("torn reply");
}

#[test]
fn without_release_messages_tear() {
    shape_breaks("relaxed publish", Shapes::SOUND, Shape::RelaxedPublish);
    shape_breaks("relaxed publish, apart", Shapes::APART, Shape::ApartRelaxedPublish);
}

#[test]
fn without_acquire_messages_tear() {
    shape_breaks("relaxed observe", Shapes::SOUND, Shape::RelaxedObserve);
    shape_breaks("relaxed observe, apart", Shapes::APART, Shape::ApartRelaxedObserve);
}

#[test]
fn a_header_behind_its_word_tears() {
    shape_breaks("header last", Shapes::APART, Shape::HeaderLast);
}

#[test]
fn a_second_line_behind_the_word_tears() {
    let case = |shapes| vec![Stream::<2> { shapes, ..Stream::sound(&[Hot; 2]) }];
    Model::new("second line last, off", case(Shapes::SOUND), Stream::run).holds();
    let wrong = Shapes { req: Shape::SecondLast, ..Shapes::SOUND };
    Model::new("second line last", case(wrong), Stream::run).breaks("torn request: second line");
}

#[test]
fn a_second_line_read_behind_the_reply_tears() {
    let case = Stream::<2> { read_second: SecondLine::ReadAfterReply, ..Stream::sound(&[Hot; 2]) };
    Model::new("second line read late", vec![case], Stream::run).breaks("torn request: second line");
}

/// The responder loads the header behind the word in any case: only the requester takes both at once.
#[test]
fn a_header_loaded_before_its_word_tears() {
    let case = |rep| vec![Stream::<2> { shapes: Shapes { rep, ..Shapes::APART }, ..Stream::sound(&MIXED) }];
    Model::new("header first", case(Shape::HeaderFirst), Stream::run).breaks("torn reply");
}

#[test]
fn without_a_count_messages_repeat() {
    let case = vec![Stream::<0>::sound(&MIXED)];
    Model::new("no count", case, Stream::run).breaks("torn request");
}
