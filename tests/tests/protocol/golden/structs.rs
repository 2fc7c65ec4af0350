//! Words and structs as they are in memory.

use super::*;

#[test]
fn version() {
    let words = [AbiVersion::CURRENT.to_wire().to_le_bytes(), AbiVersion::MIN.to_wire().to_le_bytes()];
    golden("version", "ABI version (abi §1)", &[("newest spoken", &words[0]), ("oldest spoken", &words[1])]);
}

#[test]
fn preamble() {
    let preamble = Preamble {
        magic: MAGIC,
        byte_order: BYTE_ORDER,
        abi_max: 0x0001_0002,
        abi_min: 0x0003_0004,
        window_len: 0x1122_3344_5566_7788,
        sections: 8,
        node: 9,
        features_offered: 0x0A0B_0C0D,
        features_required: 0x0102_0304,
        queues: 10,
        host_pid: 11,
        fingerprint: 0xFEDC_BA98_7654_3210,
        spin_us: 12,
        sleep_us: 13,
        split: 14,
        reserved: [0; 7],
    };
    golden("preamble", "Preamble (abi §3.1)", &[("", &wire!(preamble))]);
}

#[test]
fn device_record() {
    let mut build_id = [0; 20];
    for (i, byte) in build_id.iter_mut().enumerate() {
        *byte = 0xA0 + i as u8;
    }
    let record = DeviceRecord {
        byte_order: BYTE_ORDER,
        abi: AbiVersion { major: 1, minor: 2 }.to_wire(),
        features: feature::TICKETS
            | feature::DEADLINES
            | feature::DOORBELL
            | feature::LOGS
            | feature::CONTAIN
            | feature::TASKS
            | feature::HOST_CALLS
            | feature::WORLD
            | feature::TWO_LINES
            | feature::LONG_VALUES,
        isa: Isa::RISCV64.0,
        fingerprint: 0xFEDC_BA98_7654_3210,
        handlers: 3,
        pid: 4,
        build_id,
        board: DeviceRecord::board_field("a-board-of-24-characters-and-more"),
        memory: 0x1122_3344_5566_7788,
        tasks: 16,
        task_stack: 256 << 10,
        guards: 15,
        longest_message: 1 << 20,
        reserved: [0; 7],
    };
    golden("device_record", "DeviceRecord (abi §3.3), all features of §3.6", &[("", &wire!(record))]);
}

#[test]
fn section() {
    let entry = |kind| {
        let section = Section { kind, off: 0x1122_3344_5566_7740, len: 0x0099_AABB_CC00, ..Section::EMPTY };
        (kind.name().to_owned(), wire!(section))
    };
    let parts: Vec<_> = (1..=11).chain([13]).map(|kind| entry(SectionKind(kind))).collect();
    golden("section", "Entries of the section table, one of each kind (abi §3.5)", &borrowed(&parts));
}

#[test]
fn world() {
    let header = WorldHeader {
        magic: hamr_comm::abi::world::MAGIC,
        version: 1,
        byte_order: BYTE_ORDER,
        ranks: 3,
        world_len: 0x1122_3344_5566_7788,
        directory: 0x1000,
        job: 0xFEDC_BA98_7654_3210,
        peers: 0x2122_2324_2526_2728,
        signal_lines: 0x292a_2b2c,
        lane_ring: 0x2d2e_2f30,
        gas: 0,
        gas_ring: 0,
        gas_chunk: 0,
        interest: 0,
        reserved: [0; 6],
    };
    let large = WorldHeader { version: 2, ranks: 4095, interest: 0x3132_3334_3536_3738, ..header };
    let entry = RankEntry {
        home: 0x1122_3344_5566_0000,
        home_len: 0x99AA_BBCC_D000,
        kind: RankKind::BARE.0,
        maps: 1,
        doorbell: 4,
        node: 5,
        state: RankState::LEFT.0,
        exit: 6,
        outside: 0,
        reserved: 0,
        seg_off: 0x0102_0304_0506_0708,
        seg_len: 0x0A0B_0C0D_0E0F,
    };
    golden(
        "world",
        "WorldHeader and RankEntry (abi §13)",
        &[("header", &wire!(header)), ("entry", &wire!(entry)), ("header of a large world", &wire!(large))],
    );
}

#[test]
fn gas() {
    let header = WorldHeader {
        gas: 0x1122_3344_5566_7780,
        gas_ring: 0x2122_2324,
        gas_chunk: 0x2526_2728,
        ..Window::private(128).read(0).expect("inside")
    };
    let head = GasHead { fingerprint: 0x0102_0304_0506_0708, medium: 16320, ..GasHead::default() };
    let mut name = GasName { hash: 0x1112_1314_1516_1718, kinds: 9, len: 4, name: [0; 54] };
    name.name[..4].copy_from_slice(b"ping");
    let words = [
        AmWord::new(Category::Short, 11, false, false, 0).0,
        AmWord::new(Category::Medium, 1, false, true, 40).0,
        AmWord::new(Category::Medium, 16, true, false, 16320).0,
        AmWord::new(Category::Long, 8, false, false, 0).0,
    ];
    let parts = [
        ("header", wire!(header)),
        ("head", wire!(head)),
        ("name", wire!(name)),
        ("first words", words.map(u32::to_le_bytes).as_flattened().to_vec()),
    ];
    let parts: Vec<_> = parts.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    golden("gas", "The header's words of GAS, GasHead, GasName, first words of messages (abi §14)", &borrowed(&parts));
}

#[test]
fn task_line() {
    let line = TaskLine {
        state: TaskLine::WAITS,
        wait: WaitKind::SIGNAL,
        key: 0x0304,
        queue: 0x0506,
        slot: 0x0708,
        of: 0x090A,
        word: 0x0B0C,
        line: 0x0D0E_0F10,
        since: 0x1112_1314_1516_1718,
        seen: 0x191A_1B1C_1D1E_1F20,
        file: TaskLine::tail("/home/user/project/my-kernels/src/solver.rs"),
    };
    let states = [TaskLine::FREE, TaskLine::WAITS];
    let waits = ["turn", "condition", "time", "host", "signal", "barrier"];
    let kinds = [
        WaitKind::TURN.0,
        WaitKind::CONDITION.0,
        WaitKind::TIME.0,
        WaitKind::HOST.0,
        WaitKind::SIGNAL.0,
        WaitKind::BARRIER.0,
    ];
    let of_kinds = format!("waits for: {}", waits.join(", "));
    let parts: [(&str, &[u8]); 3] = [("", &wire!(line)), ("states: free, waits", &states), (&of_kinds, &kinds)];
    golden("task_line", "Task line (abi §12.1)", &parts);
}

#[test]
fn queue_descriptor() {
    let descriptor = QueueDescriptor {
        req_base: 0x1122_3344_5566_7740,
        rep_base: 0x99AA_BBCC_DDEE_FF00,
        chunks: 0x0000_0001_0000_0040,
        hot: 0x80,
        ring: 0x100,
        ring_len: 8,
        tickets: 0x300,
        ticket_slots: 2,
        req_chunk: 0x400,
        rep_chunk: 0x800,
        depth: 3,
        poller: 4,
        reserved: 0,
    };
    golden("queue_descriptor", "QueueDescriptor (abi §4.5)", &[("", &wire!(descriptor))]);
}

#[test]
fn image_note() {
    let note = ImageNote {
        name_size: 5,
        desc_size: 16,
        note_type: NOTE_TYPE,
        name: NOTE_NAME,
        abi_min: AbiVersion { major: 1, minor: 2 }.to_wire(),
        abi_max: AbiVersion { major: 3, minor: 4 }.to_wire(),
        isa: Isa::AARCH64.0,
        kind: ImageKind::BARE.0,
    };
    let ours = ImageNote::of_this_build();
    assert_eq!((ours.name_size, ours.desc_size, ours.name), (note.name_size, note.desc_size, note.name));
    golden("image_note", "ImageNote (abi §10)", &[("", &wire!(note))]);
}

#[test]
fn wire_buffer() {
    let wire = WireBuffer::pack(BufferParts {
        off: 0x12_3456_7890,
        index: 0xAB_CDEF,
        len: 0x9_8765_4321,
        generation: 0xFEDC,
        node: NodeId(0xBA9),
    });
    golden("wire_buffer", "WireBuffer (abi §5.6)", &[("", &wire!(wire))]);
}

#[test]
fn encoding() {
    let buffer = WireBuffer::from_words([0x1122_3344_5566_7788, 0x99AA_BBCC_DDEE_FF00]);
    let text = heapless::String::<8>::try_from("hämr").expect("five bytes");
    let parts = [
        ("u8, u16, u32, u64, u128", encoded(&(1u8, 2u16, 3u32, 4u64, 5u128))),
        ("i8, i16, i32, i64, i128: -1 to -5", encoded(&(-1i8, -2i16, -3i32, -4i64, -5i128))),
        ("f32 1.5, f64 -2.25", encoded(&(1.5f32, -2.25f64))),
        ("true, false, 'ä'", encoded(&(true, false, 'ä'))),
        ("None, Some(7u16)", encoded(&(None::<u16>, Some(7u16)))),
        ("[u16; 3]", encoded(&[1u16, 2, 3])),
        ("String \"hämr\"", encoded(&text)),
        ("Vec<u16>, two elements", encoded(&(0..2).collect::<heapless::Vec<u16, 4>>())),
        ("BufferPtr<f64>", encoded(&BufferPtr::<f64>::from_wire(buffer))),
        ("Bits<[u32; 2]>", encoded(&Bits([1u32, 2]))),
    ]
    .map(|(label, bytes)| (label.to_owned(), bytes));
    golden("encoding", "Values as they travel (abi §11)", &borrowed(&parts));
}

/// Code and name, so that a code that changes its meaning shows.
fn named(codes: impl Iterator<Item = (u32, &'static str)>) -> Vec<(String, Vec<u8>)> {
    codes.map(|(code, name)| (format!("{code} {name}"), [&code.to_le_bytes()[..], name.as_bytes()].concat())).collect()
}

fn borrowed(parts: &[(String, Vec<u8>)]) -> Vec<(&str, &[u8])> {
    parts.iter().map(|(label, bytes)| (label.as_str(), bytes.as_slice())).collect()
}

/// The numbers of the faults that a refused view makes, one of each kind (abi §6).
#[test]
fn bad_buffer() {
    let parts = [
        ("outside: end, limit", ClaimError::Outside { end: 0x30, heap: 0x18 }),
        ("overlap: first, second", ClaimError::Overlap { first: 2, second: 3 }),
        ("misaligned: off, alignment", ClaimError::Misaligned { off: 0x11, align: 8 }),
        ("read only: off, 0", ClaimError::ReadOnly { off: 0x12 }),
    ]
    .map(|(label, e)| {
        let fault = Fault::from(e);
        assert_eq!(fault.status, Status::BAD_BUFFER);
        (label.to_owned(), fault.numbers.map(u64::to_le_bytes).concat())
    });
    golden("bad_buffer", "Numbers of BAD_BUFFER faults (abi §6)", &borrowed(&parts));
}

#[test]
fn status() {
    let known = (0..=u16::MAX).map(Status).filter(|s| s.name() != "UNKNOWN");
    let parts = named(known.map(|s| (s.0.into(), s.name())));
    golden("status", "Status codes (abi §6): the code and its name", &borrowed(&parts));
}

/// Constants of one type or module by name: their texts are for people and may change.
macro_rules! constants {
    ($($at:ident: $($name:ident)*;)*) => { [$($((stringify!($name), constants!(@ $at $name))),*),*] };
    (@ feature $name:ident) => { feature::$name };
    (@ record_flag $name:ident) => { record_flag::$name };
    (@ ReqHdr $name:ident) => { ReqHdr::$name };
    (@ RepHdr $name:ident) => { RepHdr::$name };
    (@ Ext $name:ident) => { u32::from(Ext::$name) };
    (@ $type:ident $name:ident) => { $type::$name.0 };
}

#[test]
fn states() {
    let parts = named(
        constants! {
            HostState: RESET OFFERED READY CLOSING;
            DeviceState: ABSENT CHECKING ACCEPTED SERVING REFUSED STOPPED CRASHED;
            Refusal: NONE MAGIC BYTE_ORDER ABI WINDOW_LEN SECTION QUEUE FEATURES TABLE QUEUE_COUNT EPOCH DUPLICATE CHUNK;
            Isa: X86_64 AARCH64 RISCV64 ARM32;
            ImageKind: HOSTED BARE;
            JobState: FORMING RUNNING ENDING;
            RankKind: PROGRAM HOSTED BARE;
            RankState: ABSENT JOINED INFORMED LEFT;
        }
        .into_iter()
        .map(|(name, value)| (value, name)),
    );
    golden(
        "states",
        "States and refusals (abi §3.4), ISAs (§2), image kinds (§10), jobs and ranks (§13): value, name",
        &borrowed(&parts),
    );
}

#[test]
fn flags() {
    let parts = named(
        constants! {
            ReqHdr: EXT ONE_WAY TICKET UNORDERED REPLY_BUF PUT RESERVED CANCEL;
            RepHdr: FAULT AM_REPLY TAKEN;
            feature: TICKETS DEADLINES DOORBELL LOGS CONTAIN TASKS HOST_CALLS WORLD TWO_LINES LONG_VALUES VERBS;
            Ext: CHAINED;
            record_flag: HAS_BODY TASK UNORDERED HOST;
        }
        .into_iter()
        .map(|(name, value)| (value, name)),
    );
    golden(
        "flags",
        "Flags of headers (abi §4.2, §4.3), features (§3.6), EXT.chain (§4.4), table records (§3.7)",
        &borrowed(&parts),
    );
}
