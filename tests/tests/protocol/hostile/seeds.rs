//! Long runs from fixed seeds, which cost less per message than proptest, so there are many more;
//! and the replies to single messages.

use super::*;
use hamr_comm::abi::ids::Epoch;
use hamr_comm::am::{SlotAccess, Slots};
use hamr_comm::handshake::{HostHandshake, Offer, OfferState};
use hamr_tests::cases::each_case;

/// xorshift64*: good enough to fill a window, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// A small number, a huge one, or any.
    fn number(&mut self) -> u64 {
        match self.below(4) {
            0 => self.below(300),
            1 => self.below(40_000),
            2 => u64::MAX - self.below(300),
            _ => self.next(),
        }
    }
}

#[test]
fn a_hundred_thousand_random_messages_have_replies() {
    in_time(|| {
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let mut bench = Bench::new();
        let handlers = table().len() as u64;
        for round in 0..5_000 {
            let batch: Vec<Message> = (0..20)
                .map(|_| {
                    let hdr = random.next() as u32;
                    let key = if random.below(8) == 0 { random.below(0x1_0000) } else { random.below(handlers) };
                    let mut words = std::array::from_fn(|_| random.number());
                    if random.below(2) == 0 {
                        words[1] = words[1] & !0xFFFF | random.below(u64::from(PLAN.tickets) + 2);
                    }
                    Message {
                        stream: random.below(4) as u32,
                        hot: random.below(4) == 0,
                        hdr: hdr & !0xFFFF | key as u32,
                        words,
                        ticket_hdr: if random.below(2) == 0 { 0 } else { random.next() as u32 },
                    }
                })
                .collect();
            send(&mut bench, &batch);
            if round % 64 == 0 {
                bench.still_serves();
            }
        }
        bench.still_serves();
    });
}

#[test]
fn whatever_a_host_does_a_device_goes_on() {
    in_time(|| each_case("device", any_host));
}

#[test]
fn random_bytes_in_a_serving_window_do_no_harm() {
    in_time(|| {
        let mut random = Random(0xD1B5_4A32_D192_ED03);
        let mut bench = Bench::new();
        for _ in 0..300 {
            for _ in 0..1 + random.below(200) {
                let mut bytes = vec![0; 1 + random.below(64) as usize];
                bytes.fill_with(|| random.next() as u8);
                let off = random.below(bench.window.len() - 64);
                bench.window.write_bytes(off, &bytes).expect("inside the window");
            }
            for _ in 0..100 {
                let _ = bench.device.poll();
            }
            bench.attach();
            bench.still_serves();
        }
    });
}

#[test]
fn a_stream_that_is_garbage_does_not_disturb_the_others() {
    in_time(|| {
        let mut random = Random(0xA076_1D64_78BD_642F);
        for _ in 0..200 {
            let mut bench = Bench::new();
            let d = bench.layout.queue(&bench.window, 1).expect("own descriptor");
            let tag = bench.epoch.tag();
            // Hot and ring slots of stream 1: random, with published words for which the device may
            // be waiting.
            for _ in 0..64 {
                for line in 0..=RING {
                    let slots = bench.streams[1].slots();
                    let line = if line == 0 { slots.hot() } else { slots.ring(line - 1) };
                    let words: [u64; 6] = std::array::from_fn(|_| random.number());
                    line.write_request(&words);
                    let count = 1 + random.below(70) as u32;
                    line.publish_request(random.next() as u32, u32::from(tag) << 24 | count);
                }
                let _ = bench.device.poll();
            }
            let chunk = vec![0xFF; d.req_chunk as usize];
            bench.streams[1].slots().write_request_chunk(0, &[&chunk]).expect("as long as the chunk");
            // Remaining messages may still run, at most one per slot.
            for _ in 0..200 * POLLS_A_ROUND {
                let _ = bench.device.poll();
            }
            bench.streams.remove(1);
            bench.still_serves();
        }
    });
}

#[test]
fn tickets_beyond_the_last_and_a_full_queue_have_their_replies() {
    let mut bench = Bench::new();
    let ticket = |stream, ticket: u64, n: u64| Message {
        stream,
        hot: false,
        hdr: ReqHdr::inline(key(Token::NAME), 24).with(ReqHdr::EXT | ReqHdr::TICKET | ReqHdr::UNORDERED).0,
        words: [(7 + n) << 32, ticket, n, 0, 0, 0],
        ticket_hdr: 0,
    };
    for beyond in [4, 5, 0xFFFF] {
        send(&mut bench, &[ticket(1, beyond, 0)]);
        let line = bench.streams[1].slots().ring(0);
        assert_eq!(RepHdr(line.rep_hdr()).status(), Status::BAD_REQUEST);
        bench.attach();
    }
    // Three streams with eight at once: more than an image queues, and it runs one per round.
    let burst: Vec<Message> = (0..24).map(|n| ticket(1 + n % 3, u64::from(n / 3 % 4), n.into())).collect();
    send(&mut bench, &burst);
    let statuses: Vec<Status> = (1..4)
        .flat_map(|q| (0..8).map(move |i| (q, i)))
        .map(|(q, i)| RepHdr(bench.streams[q].slots().ring(i).rep_hdr()).status())
        .collect();
    assert!(statuses.contains(&Status::QUEUE_FULL) && statuses.contains(&Status::TAKEN), "{statuses:?}");
    bench.still_serves();
}

#[test]
fn malformed_requests_get_their_status() {
    let mut bench = Bench::new();
    let ping = |len| ReqHdr::inline(key(Ping::NAME), len);
    let huge = 1 << 40;
    let many = MAX_MESSAGE as u64 + 1;
    let cases: [(&str, ReqHdr, [u64; 4]); 16] = [
        ("longer than the slot", ping(49), [0; 4]),
        ("the longest length", ping(63), [0; 4]),
        ("a reserved bit", ping(8).with(1 << 29), [0; 4]),
        ("the other reserved bit", ping(8).with(1 << 30), [0; 4]),
        ("the invalid location", ping(8).in_chunk().in_buffer(), [0; 4]),
        ("EXT without room for it", ping(15).with(ReqHdr::EXT), [0; 4]),
        ("TICKET without EXT", ping(8).with(ReqHdr::TICKET), [0; 4]),
        ("a chunk without a descriptor", ping(8).in_chunk(), [0; 4]),
        ("EXT where the descriptor should be", ping(16).in_chunk().with(ReqHdr::EXT), [0; 4]),
        ("a reply buffer without a descriptor", ping(0).with(ReqHdr::REPLY_BUF), [0; 4]),
        ("a chunk longer than the chunk", ping(16).in_chunk(), [0, PLAN.chunk as u64 + 1, 0, 0]),
        ("a chunk longer than everything", ping(16).in_chunk(), [0, u64::MAX, 0, 0]),
        ("a buffer beyond the heap", ping(16).in_buffer(), [huge, 8, 0, 0]),
        ("a buffer that wraps", ping(16).in_buffer(), [u64::MAX - 3, 8, 0, 0]),
        ("a buffer over the heap's end", ping(16).in_buffer(), [PLAN.heap - 7, 8, 0, 0]),
        ("a buffer longer than a message", ping(16).in_buffer(), [0, many, 0, 0]),
    ];
    for (what, hdr, words) in cases {
        let stream = &mut bench.streams[1];
        let x = stream.submit_ring(hdr, &words);
        for _ in 0..POLLS_A_ROUND {
            let _ = bench.device.poll();
        }
        let stream = &mut bench.streams[1];
        let reply = stream.ring_reply(x).unwrap_or_else(|| panic!("no reply: {what}"));
        assert_eq!((reply.status(), reply.len()), (Status::BAD_REQUEST, 0), "{what}");
        stream.release_oldest();
    }
    bench.still_serves();
}

/// A device over windows of another plan, attached, and the requesting end of its first stream.
fn attached(plan: Plan, table: Table) -> (Window<Shared>, Layout, Device<'static, Bare>, Requester<Queue<Shared>>) {
    let layout = Layout::plan(&plan).expect("the plan is allowed");
    let (window, device) = hamr_tests::both_ends::both_ends(layout.window_len());
    let scratch = vec![0; MAX_MESSAGE].leak();
    let mut device =
        Device::new(Bare(Some(device)), table, scratch).expect("the board has a window").with_tasks(slots(), 256 << 10);
    let offer = Offer::new(plan, NODE);
    let (offered, layout) = HostHandshake::offer(&window, &offer, Epoch(1)).expect("long enough");
    let _ = device.poll();
    offered.ready(&window);
    let _ = device.poll();
    assert!(matches!(offered.step(&window), OfferState::Serving));
    window.word(word::OPEN_QUEUES).expect("in the preamble").publish(layout.queues());
    let descriptor = layout.queue(&window, 1).expect("own descriptor");
    let requester = Requester::new(window.queue(&descriptor).expect("own queue"), Epoch(1));
    (window, layout, device, requester)
}

#[test]
fn a_result_without_room_reports_its_length() {
    // No chunks at all, so a result fits the slot or a buffer only.
    let (window, layout, mut device, mut stream) = attached(Plan { chunk: 0, ..PLAN }, table());
    stream.submit_ring(ReqHdr::inline(key(Wide::NAME), 0), &[]);
    let in_buffer = ReqHdr::inline(key(Wide::NAME), 16).with(ReqHdr::REPLY_BUF);
    stream.submit_ring(in_buffer, &[4096, 320]);
    stream.submit_ring(in_buffer, &[4096, 319]);
    stream.submit_ring(in_buffer, &[PLAN.heap, 320]);
    let foreign = WireBuffer::pack(BufferParts { off: 0, index: 0, len: 1, generation: 0, node: NodeId(9) }).words();
    stream.submit_ring(ReqHdr::inline(key(Poll::NAME), 16), &foreign);
    let _ = device.poll();
    let reply = |x: u64| {
        let mut words = [0; 6];
        stream.slots().ring(x as u32).read_reply(&mut words);
        (stream.ring_reply(x).expect("answered"), words)
    };
    for x in [0, 2, 3] {
        let (hdr, words) = reply(x);
        assert_eq!((hdr.status(), hdr.len(), words[0]), (Status::RESULT_TOO_LONG, 8, 320), "message {x}");
    }
    let (hdr, words) = reply(1);
    assert_eq!((hdr.status(), hdr.place(), words[0], words[1]), (Status::OK, Place::Buffer, 4096, 320));
    let mut bytes = [0; 8];
    let heap = layout.section(SectionKind::HEAP).expect("planned");
    window.read_bytes(heap.off + 4096 + 312, &mut bytes).expect("inside the window");
    assert_eq!(u64::from_le_bytes(bytes), 0x5A);
    let (hdr, words) = reply(4);
    assert_eq!((hdr.status(), hdr.len(), &words[..3]), (Status::BAD_BUFFER, 24, &[4, 9, 1][..]));
}

struct Panics;
impl Handler for Panics {
    const NAME: &'static str = "hostile::panics";
    type Kind = Context<'static>;
    type Args = ();
    type Output = ();
    fn run(_: &mut Context<'_>, (): ()) {
        panic!("on purpose");
    }
}
// Not in `table`: the caller must catch the panic, and random messages have no such caller.
static PANICS: Entry = Entry::of::<Panics>();

#[test]
fn a_long_panic_is_cut_to_the_room_there_is() {
    let text = "x".repeat(2 * MAX_MESSAGE);
    for (chunk, place, bytes) in [(0, Place::Inline, 48), (256, Place::Chunk, 256)] {
        let (_window, _, mut device, mut stream) = attached(Plan { chunk, ..PLAN }, Table::of(vec![&PANICS, &PING]));
        stream.submit_ring(ReqHdr::inline(HandlerKey(0), 0), &[]);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| device.poll()));
        assert!(outcome.is_err() && device.is_running());
        device.fail_current(Status::PANIC, &text, &hamr_comm::fault::Trace::NONE);
        let hdr = stream.ring_reply(0).expect("answered");
        assert!(hdr.has(RepHdr::FAULT) && hdr.status() == Status::PANIC && hdr.place() == place, "{hdr:?}");
        let mut words = [0; 6];
        stream.slots().ring(0).read_reply(&mut words);
        let len = if place == Place::Inline { hdr.len() as u64 } else { words[1] };
        assert_eq!(len, bytes);

        stream.submit_ring(ReqHdr::inline(HandlerKey(1), 8), &[1]);
        let _ = device.poll();
        assert_eq!(stream.ring_reply(1).expect("answered").status(), Status::OK);
    }
}
