//! What each side refuses, and how it reports it.

use super::*;

#[test]
fn a_foreign_byte_order_is_refused() {
    let mut b = Bench::new();
    b.preamble(|p| p.byte_order = BYTE_ORDER.swap_bytes());
    b.refuses(Refusal::BYTE_ORDER, BYTE_ORDER, BYTE_ORDER.swap_bytes());
}

#[test]
fn an_abi_range_without_a_common_version_is_refused() {
    let current = AbiVersion::CURRENT;
    let newer = AbiVersion { major: current.major, minor: current.minor + 1 }.to_wire();
    let older = AbiVersion { major: 0, minor: 0 }.to_wire();
    let mut b = Bench::new();
    b.preamble(|p| (p.abi_min, p.abi_max) = (newer, newer + 5));
    b.refuses(Refusal::ABI, current.to_wire(), newer + 5);
    let mut b = Bench::new();
    b.preamble(|p| (p.abi_min, p.abi_max) = (older, older));
    b.refuses(Refusal::ABI, current.to_wire(), older);
    let mut b = Bench::new();
    b.preamble(|p| (p.abi_min, p.abi_max) = (newer, older));
    assert_eq!(b.refusal().reason, Refusal::ABI, "an empty range");
    let mut b = Bench::new();
    b.preamble(|p| (p.abi_min, p.abi_max) = (older, u32::MAX));
    b.step();
    let DeviceHandshake::Accepted(_) = b.state else { panic!("{:?}", b.state) };
    let facts: DeviceRecord = b.host.read(DEVICE_RECORD).expect("in the window");
    assert_eq!(facts.abi, current.to_wire(), "the newest of the common versions");
}

#[test]
fn epoch_zero_is_refused() {
    let mut b = Bench::new();
    b.say(word::EPOCH, 0);
    b.step();
    let DeviceHandshake::Refused(why, _) = b.state else { panic!("{:?}", b.state) };
    assert_eq!(why, Refused { reason: Refusal::EPOCH, expected: 1, got: 0 });
}

#[test]
fn a_window_shorter_than_its_length_word_is_refused() {
    let mut b = Bench::new();
    let len = b.host.len() as u32;
    b.preamble(|p| p.window_len += 64);
    b.refuses(Refusal::WINDOW_LEN, len + 64, len);
    let mut b = Bench::new();
    b.preamble(|p| p.window_len = 0x3FF);
    assert_eq!(b.refusal().reason, Refusal::WINDOW_LEN);
}

#[test]
fn a_missing_section_is_refused_by_kind() {
    for kind in [SectionKind::QUEUES, SectionKind::LINES, SectionKind::CHUNKS, SectionKind::TABLE, SectionKind::HEAP] {
        let mut b = Bench::new();
        // An unknown kind is skipped, so the section that it replaced is missing.
        b.section(kind, |s| s.kind = SectionKind(1000 + kind.0));
        b.refuses(Refusal::SECTION, kind.0, 0);
    }
    for kind in [SectionKind::LOG, SectionKind::TRACE, SectionKind::CRASH] {
        let mut b = Bench::new();
        b.section(kind, |s| s.kind = SectionKind(1000 + kind.0));
        b.step();
        assert!(matches!(b.state, DeviceHandshake::Accepted(_)), "{} may be absent", kind.name());
    }
    let mut b = Bench::new();
    b.preamble(|p| p.sections = 0);
    b.refuses(Refusal::SECTION, SectionKind::QUEUES.0, 0);
    let mut b = Bench::new();
    b.preamble(|p| p.sections = 17);
    b.refuses(Refusal::SECTION, SectionKind::NONE.0, 0);
}

#[test]
fn a_misplaced_section_is_refused_by_kind() {
    type Change = fn(&mut Section);
    let changes: [(&str, Change); 6] = [
        ("misaligned", |s| s.off += 4),
        ("over the preamble", |s| s.off = 0x3C0),
        ("past the end", |s| s.off = 1 << 40),
        ("longer than the window", |s| s.len = 1 << 40),
        ("past every end", |s| s.len = u64::MAX),
        ("wraps", |s| (s.off, s.len) = (u64::MAX - 63, 128)),
    ];
    for kind in (1..=8).map(SectionKind) {
        for (what, change) in changes {
            let mut b = Bench::new();
            b.section(kind, change);
            let why = b.refusal();
            // Of two that overlap, the later one is named, so a section that grew is refused by its
            // neighbour's kind.
            assert_eq!(why.reason, Refusal::SECTION, "{} {what}", kind.name());
            assert!(why.expected >= kind.0 || what == "over the preamble", "{} {what}: {why:?}", kind.name());
        }
    }
}

#[test]
fn sections_that_overlap_are_refused() {
    for kind in (2..=8).map(SectionKind) {
        let mut b = Bench::new();
        let before = b.layout.section(SectionKind(kind.0 - 1)).expect("planned");
        b.section(kind, |s| s.off = before.off);
        assert_eq!(b.refusal().reason, Refusal::SECTION, "{} over the one before", kind.name());
    }
    let mut b = Bench::new();
    b.section(SectionKind::LOG, |s| s.kind = SectionKind::TRACE);
    b.refuses(Refusal::SECTION, SectionKind::TRACE.0, 0);
}

#[test]
fn the_heap_must_be_last() {
    let mut b = Bench::new();
    let crash = b.layout.section(SectionKind::CRASH).expect("planned");
    let heap = b.layout.section(SectionKind::HEAP).expect("planned");
    b.section(SectionKind::HEAP, |s| (s.off, s.len) = (crash.off, 64));
    b.section(SectionKind::CRASH, |s| s.off = heap.off);
    b.refuses(Refusal::SECTION, SectionKind::HEAP.0, 0);

    // An empty heap overlaps nothing, but views begin at its start, which must not be among the
    // slots.
    let mut b = Bench::new();
    let lines = b.layout.section(SectionKind::LINES).expect("planned");
    for kind in [SectionKind::CHUNKS, SectionKind::TABLE, SectionKind::LOG, SectionKind::TRACE, SectionKind::CRASH] {
        b.section(kind, |s| (s.off, s.len) = (lines.off, 0));
    }
    b.section(SectionKind::HEAP, |s| (s.off, s.len) = (lines.off + 64, 0));
    b.refuses(Refusal::SECTION, SectionKind::HEAP.0, 0);
}

#[test]
fn a_malformed_queue_pair_is_refused_by_index() {
    type Change = fn(&mut QueueDescriptor);
    let changes: [(&str, Change); 16] = [
        ("ring of one", |d| d.ring_len = 1),
        ("ring of no power of two", |d| d.ring_len = 3),
        ("ring too long", |d| d.ring_len = 1 << 17),
        ("ring past its section", |d| d.ring_len = 1 << 16),
        ("ring offset", |d| d.ring = !63),
        ("ring misaligned", |d| d.ring += 4),
        ("hot misaligned", |d| d.hot += 32),
        ("hot past its section", |d| d.hot = 1 << 20),
        ("ticket slots past their section", |d| d.ticket_slots = 60_000),
        ("request lines outside", |d| d.req_base = 0),
        ("reply lines outside", |d| d.rep_base = 1 << 40),
        ("a base that wraps", |d| d.req_base = u64::MAX - 63),
        ("chunks outside", |d| d.chunks = 0),
        ("chunks that wrap", |d| d.chunks = u64::MAX - 63),
        ("request chunk misaligned", |d| d.req_chunk = 100),
        ("reply chunk too long", |d| d.rep_chunk = QueueDescriptor::MAX_CHUNK + 64),
    ];
    for index in 0..3 {
        for (what, change) in changes {
            let mut b = Bench::new();
            b.queue(index, change);
            let why = b.refusal();
            assert_eq!(why, Refused { reason: Refusal::QUEUE, expected: index, got: 0 }, "{what}");
        }
    }
}

#[test]
fn an_image_refuses_more_than_it_was_built_for() {
    let mut b = Bench::new();
    b.profile.max_queues = 2;
    b.refuses(Refusal::QUEUE_COUNT, 2, 3);
    let mut b = Bench::new();
    b.preamble(|p| p.queues = u32::MAX);
    b.refuses(Refusal::SECTION, SectionKind::QUEUES.0, 0);
    let mut b = Bench::new();
    b.preamble(|p| p.queues = 0);
    b.refuses(Refusal::SECTION, SectionKind::QUEUES.0, 0);
    let mut b = Bench::new();
    b.profile.max_chunk = 128;
    b.refuses(Refusal::CHUNK, 128, 256);
}

/// The last stream's hot slot at the end of the slots: it has a second line with TWO_LINES only.
#[test]
fn a_second_line_outside_of_the_slots_is_refused_with_the_feature() {
    for (offered, available) in
        [(0, feature::TWO_LINES), (feature::TWO_LINES, 0), (feature::TWO_LINES, feature::TWO_LINES)]
    {
        let mut b = Bench::new();
        let lines = b.layout.section(SectionKind::LINES).expect("planned").len as u32;
        b.profile.features |= available;
        b.preamble(|p| p.features_offered |= offered);
        b.queue(2, |d| d.hot = lines - 64);
        if offered & available == 0 {
            b.step();
            assert!(matches!(b.state, DeviceHandshake::Accepted(_)), "{:?}", b.state);
        } else {
            b.refuses(Refusal::QUEUE, 2, 0);
        }
    }
}

#[test]
fn features_that_the_host_requires_and_the_image_lacks_are_refused() {
    let mut b = Bench::new();
    b.preamble(|p| p.features_required = feature::DOORBELL | feature::TICKETS);
    b.refuses(Refusal::FEATURES, feature::DOORBELL | feature::TICKETS, PROFILE.features);
    assert_eq!(b.refusal_text(), "features: required 0x5, available 0x3; the image has no doorbell");
}

impl Bench {
    fn refusal_text(&self) -> String {
        match self.state {
            DeviceHandshake::Refused(why, _) => why.to_string(),
            other => panic!("not refused: {other:?}"),
        }
    }
}

#[test]
fn a_table_that_does_not_fit_is_refused_with_both_sizes() {
    let mut b = Bench::with(Plan { table: 64, ..PLAN });
    let need = size_of::<TableHeader>() + size_of::<TableRecord>() + Nothing::NAME.len();
    b.refuses(Refusal::TABLE, need as u32, 64);
}

#[test]
fn two_handlers_of_one_name_are_refused() {
    let mut b = Bench::new();
    b.table = Table::of(vec![&NOTHING, &NOTHING_AGAIN]);
    b.refuses(Refusal::DUPLICATE, 0, 0);
}

#[test]
fn a_plan_or_window_that_cannot_work_is_the_hosts_own_error() {
    let host = Window::private(4096);
    let offer = |plan| HostHandshake::offer(&host, &Offer { plan, ..OFFER }, FIRST).map(|_| ());
    let need = Layout::plan(&PLAN).expect("the plan is allowed").window_len();
    assert_eq!(offer(PLAN), Err(OfferError::Window(need, 4096)));
    for plan in [
        Plan { ring: 3, ..PLAN },
        Plan { ring: 0, ..PLAN },
        Plan { streams: 0, ..PLAN },
        Plan { chunk: 100, ..PLAN },
        Plan { heap: u64::MAX, ..PLAN },
        Plan { streams: u32::MAX, ..PLAN },
    ] {
        assert!(matches!(offer(plan), Err(OfferError::Plan(_))), "{plan:?}");
    }
    let mut bytes = vec![0; 4096];
    host.read_bytes(0, &mut bytes).expect("the whole window");
    assert!(bytes.iter().all(|b| *b == 0), "an offer that failed wrote something");
}
