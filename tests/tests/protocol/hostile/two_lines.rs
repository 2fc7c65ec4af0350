//! Messages in two lines that break a rule (abi §4.7), and what is written where.

use super::*;

/// The status of one message in the hot slot of stream `q`; `words` beyond six go to its second
/// line.
fn hot_status(bench: &mut Bench, q: usize, hdr: ReqHdr, words: &[u64]) -> Status {
    let stream = &mut bench.streams[q];
    assert!(stream.hot_is_open());
    stream.submit_hot(hdr, words);
    for _ in 0..POLLS_A_ROUND {
        let _ = bench.device.poll();
    }
    let stream = &mut bench.streams[q];
    let reply = stream.hot_reply().unwrap_or_else(|| panic!("no reply: stream {q}, {hdr:?}"));
    stream.release_hot();
    assert!(reply.status() != Status::BAD_REQUEST || reply.is_empty(), "{reply:?}");
    reply.status()
}

fn heap(bench: &Bench) -> Vec<u8> {
    let section = bench.layout.section(SectionKind::HEAP).expect("planned");
    let mut bytes = vec![0; section.len as usize];
    bench.window.read_bytes(section.off, &mut bytes).expect("inside the window");
    bytes
}

/// What `pieces` comes to with these arguments, when they decode.
const RAN: Status = Status::HANDLER_ERROR;

/// A text of `len` characters behind the other two arguments of `pieces`, as words: 6 more bytes.
fn pieces_of(len: usize) -> Vec<u64> {
    let mut bytes = vec![0, 1];
    bytes.extend((len as u32).to_le_bytes());
    bytes.extend(vec![b'x'; len]);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))).collect()
}

/// A put of `len` bytes at `off`, before a `ping`.
fn put(off: u64, len: u64) -> [u64; 14] {
    std::array::from_fn(|i| match i {
        0 => 0x1234,
        4 => off,
        5 => len,
        i if i >= 6 => 0x0101_0101_0101_0101 * i as u64,
        _ => 0,
    })
}

#[test]
fn arguments_in_two_lines_need_the_hot_slot_of_a_stream() {
    let mut bench = Bench::new();
    let hdr = ReqHdr::in_two_lines(key(Pieces::NAME), 50);
    let words = pieces_of(44);
    for _ in 0..3 {
        assert_eq!(hot_status(&mut bench, 1, hdr, &words), RAN);
        // The control stream has one line, and so has a ring slot, also where the same header was
        // accepted before.
        assert_eq!(hot_status(&mut bench, 0, hdr, &words), Status::BAD_REQUEST);
        let x = bench.streams[1].submit_ring(hdr, &words);
        for _ in 0..POLLS_A_ROUND {
            let _ = bench.device.poll();
        }
        assert_eq!(bench.streams[1].ring_reply(x).map(|reply| reply.status()), Some(Status::BAD_REQUEST));
        bench.streams[1].release_oldest();
    }
    bench.still_serves();
}

#[test]
fn without_the_feature_no_slot_has_a_second_line() {
    let mut bench = Bench::new();
    for features in [0, feature::TWO_LINES, 0] {
        bench.features = feature::TICKETS | features;
        bench.attach();
        let (two, put_hdr) = if features == 0 { (Status::BAD_REQUEST, Status::BAD_REQUEST) } else { (RAN, Status::OK) };
        let hdr = ReqHdr::in_two_lines(key(Pieces::NAME), 50);
        let before = heap(&bench);
        for q in 1..4 {
            assert_eq!(hot_status(&mut bench, q, hdr, &pieces_of(44)), two);
            let hdr = ReqHdr::inline(key(Ping::NAME), 8).with(ReqHdr::PUT);
            assert_eq!(hot_status(&mut bench, q, hdr, &put(q as u64 * 64, 8)), put_hdr);
        }
        assert_eq!(heap(&bench) == before, features == 0, "data was copied as the feature says");
        bench.still_serves();
    }
}

#[test]
fn other_flags_beside_a_second_line_are_refused() {
    let mut bench = Bench::new();
    let two_lines = ReqHdr::in_two_lines(key(Pieces::NAME), 50);
    let with_put = ReqHdr::inline(key(Ping::NAME), 8).with(ReqHdr::PUT);
    let words = pieces_of(44);
    let before = heap(&bench);
    for bit in 24..31 {
        assert_eq!(hot_status(&mut bench, 1, two_lines.with(1 << bit), &words), Status::BAD_REQUEST, "bit {bit}");
        if 1 << bit != ReqHdr::PUT {
            assert_eq!(
                hot_status(&mut bench, 1, with_put.with(1 << bit), &put(0, 8)),
                Status::BAD_REQUEST,
                "bit {bit}"
            );
        }
    }
    for long in [with_put.in_chunk(), with_put.in_buffer(), ReqHdr::inline(key(Ping::NAME), 33).with(ReqHdr::PUT)] {
        assert_eq!(hot_status(&mut bench, 1, long, &put(0, 8)), Status::BAD_REQUEST, "{long:?}");
    }
    for cancelled in [two_lines, with_put] {
        assert_eq!(hot_status(&mut bench, 1, cancelled.with(ReqHdr::CANCEL), &put(0, 8)), Status::CANCELLED);
    }
    let missing = HandlerKey(0xFFE);
    for hdr in [ReqHdr::in_two_lines(missing, 50), ReqHdr::inline(missing, 8).with(ReqHdr::PUT)] {
        assert_eq!(hot_status(&mut bench, 1, hdr, &put(0, 8)), Status::NO_HANDLER);
    }
    assert!(heap(&bench) == before, "a refused message copies nothing");
    bench.still_serves();
}

/// Also behind a good one, whose header the device need not check again.
#[test]
fn data_that_leaves_its_line_or_the_heap_is_refused() {
    let mut bench = Bench::new();
    let hdr = ReqHdr::inline(key(Ping::NAME), 8).with(ReqHdr::PUT);
    let end = PLAN.heap;
    for (off, len) in [
        (0, 65),
        (0, 1 << 32),
        (0, u64::MAX),
        (end - 63, 64),
        (end + 1, 0),
        (u64::MAX, 1),
        (u64::MAX - 63, 64),
        (1 << 63, 8),
    ] {
        let good = 128 + off % 64;
        assert_eq!(hot_status(&mut bench, 2, hdr, &put(good, len % 65)), Status::OK);
        let before = heap(&bench);
        assert_eq!(hot_status(&mut bench, 2, hdr, &put(off, len)), Status::BAD_REQUEST, "{off:#x}, {len:#x}");
        assert!(heap(&bench) == before, "{off:#x}, {len:#x}");
    }
    for len in 0..=64 {
        let before = heap(&bench);
        let off = end - len;
        assert_eq!(hot_status(&mut bench, 3, hdr, &put(off, len)), Status::OK);
        let data: Vec<u8> = put(0, 0)[6..].iter().flat_map(|word| word.to_le_bytes()).collect();
        let after = [&before[..off as usize], &data[..len as usize]].concat();
        assert!(heap(&bench) == after, "{len} bytes at {off:#x}");
    }
    bench.still_serves();
}

/// Every length that place 3 can say, of arguments with a length of their own inside.
#[test]
fn every_length_in_two_lines_is_checked() {
    let mut bench = Bench::new();
    for len in 49..=112 {
        for text in [len - 7, len - 6, len - 5] {
            let hdr = ReqHdr::in_two_lines(key(Pieces::NAME), len);
            let good = text + 6 == len && text <= 64;
            let expected = if good { RAN } else { Status::BAD_ARGUMENTS };
            assert_eq!(hot_status(&mut bench, 1, hdr, &pieces_of(text)), expected, "{len} bytes, text of {text}");
        }
    }
    // A handler whose arguments always have another length.
    assert_eq!(hot_status(&mut bench, 1, ReqHdr::in_two_lines(key(Ping::NAME), 56), &[0; 8]), Status::BAD_ARGUMENTS);
    bench.still_serves();
}
