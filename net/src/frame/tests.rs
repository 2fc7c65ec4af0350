use super::*;
use proptest::prelude::*;

/// One frame behind a head, as a receiver reads it.
fn read<'a>(bytes: &'a [u8], from: End, phase: Phase, bounds: &Bounds) -> Result<(usize, Frame<'a>), Malformed> {
    let short = Malformed::Kind(0);
    let (head, rest) = bytes.split_first_chunk::<HEAD>().ok_or(short.clone())?;
    let (kind, len) = admit(*head, from, phase)?;
    let frame = Frame::decode(kind, rest.get(..len).ok_or(short)?)?;
    frame.check(bounds)?;
    Ok((HEAD + len, frame))
}

fn text() -> impl Strategy<Value = String> {
    "[a-zäß€ :/]{0,60}"
}

fn abi() -> impl Strategy<Value = (AbiVersion, AbiVersion)> {
    any::<(u32, u32)>().prop_map(|(min, max)| (AbiVersion::from_wire(min), AbiVersion::from_wire(max)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn frames_come_as_they_went(
        numbers: [u64; 3], words: [u32; 4], link: [u8; 16], flags: [bool; 3], texts in [text(), text()], abi in abi(),
        bytes in proptest::collection::vec(any::<u8>(), 0..3000), counts in [0usize..=INLINE_WORDS, 0..=SECOND_WORDS],
    ) {
        let [a, b, c] = numbers;
        let [name, host] = [0, 1].map(|i: usize| texts[i].as_str());
        let purpose = if flags[0] { Purpose::Messages } else { Purpose::Transfers };
        let (mut payload, mut second) = ([0; INLINE_WORDS], [0; SECOND_WORDS]);
        payload[..counts[0]].fill(a);
        second[..counts[1]].fill(b);
        let slot = Slot {
            queue: (c as u16) & 0x3FFF, of_host: flags[0], header_alone: false, slot: words[0], hdr: words[1],
            word: words[2], payload, second, bytes: &bytes,
        };
        let alone = Slot { header_alone: true, payload: [0; INLINE_WORDS], second: [0; SECOND_WORDS], bytes: &[], ..slot };
        let range = Transfer { off: a, total: b };
        let all = [
            Frame::Hello(Hello { abi, link, attempt: a, purpose, window: b, name, host }),
            Frame::Grant(Grant { abi: abi.1, doorbell: flags[1], window: a, kind: name }),
            Frame::Refuse(Refuse { reason: Reason::Busy, abi, number: a, text: host }),
            Frame::Look { off: a, len: words[0] & 0x7FFF },
            Frame::Seen { off: a, bytes: &bytes },
            Frame::Offer(&bytes),
            Frame::Slot(slot),
            Frame::Slot(alone),
            Frame::State { acknowledged: words[0], state: words[1], bytes: &bytes },
            Frame::Word { off: words[0], value: words[1] },
            Frame::Renew,
            Frame::Renewed,
            Frame::Ended(name),
            Frame::Put(range),
            Frame::Get(range),
            Frame::Done { status: words[3] },
            Frame::Bye(host),
            Frame::Part(&[7]),
        ];
        let mut out = Vec::new();
        for frame in &all {
            frame.encode(&mut out).expect("it fits");
        }
        let mut rest = out.as_slice();
        for frame in &all {
            let (head, behind) = rest.split_first_chunk::<HEAD>().expect("a head");
            let admitted = [End::Host, End::Server].into_iter().find_map(|from| {
                [Phase::Opening, Phase::Messages, Phase::Transfers].into_iter().find_map(|at| admit(*head, from, at).ok())
            });
            let (kind, len) = admitted.expect("someone may send it");
            prop_assert_eq!(&Frame::decode(kind, &behind[..len]), &Ok(*frame));
            rest = &behind[len..];
        }
        prop_assert!(rest.is_empty());
    }
}

#[test]
fn a_frame_is_its_ends_and_its_phases() {
    let mut offer = Vec::new();
    Frame::Offer(&[]).encode(&mut offer).expect("it fits");
    let read = |from, phase| read(&offer, from, phase, &Bounds::default()).map(drop);
    assert_eq!(read(End::Host, Phase::Messages), Ok(()));
    for (from, phase) in [(End::Server, Phase::Messages), (End::Host, Phase::Opening), (End::Host, Phase::Transfers)] {
        assert_eq!(read(from, phase), Err(Malformed::Unexpected { name: "OFFER", from, phase }));
    }
}

#[test]
fn lengths_are_refused_by_the_head_alone() {
    for (kind, len) in [(6u8, u32::MAX), (6, (1 << 16) + 1), (4, 7), (1, 1 << 16), (10, 1), (7, 0), (13, 17)] {
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&len.to_le_bytes());
        head[4] = kind;
        let phase = match kind {
            1 => Phase::Opening,
            13 => Phase::Transfers,
            _ => Phase::Messages,
        };
        let e = admit(head, End::Host, phase).expect_err("a length that the kind has not");
        assert!(matches!(e, Malformed::Length { got, .. } if got == len as usize), "{kind}: {e}");
        head[7] = 1;
        assert!(matches!(admit(head, End::Host, phase), Err(Malformed::Reserved { field: "head", .. })));
    }
    assert_eq!(admit([0; HEAD], End::Host, Phase::Messages), Err(Malformed::Kind(0)));
}

#[test]
fn ranges_are_the_peers() {
    let bounds = Bounds { window: 0x3000, heap: 0x1000..0x2000, longest: 0 };
    let put = |off, total| Frame::Put(Transfer { off, total });
    for good in [
        put(0x1000, 0x1000),
        put(0x2000, 0),
        Frame::Look { off: 0, len: 0x1000 },
        Frame::Look { off: 0x2000, len: 0x1000 },
        Frame::Word { off: 0x84, value: 3 },
    ] {
        assert_eq!(good.check(&bounds), Ok(()), "{good:?}");
    }
    for bad in [
        put(0xff8, 16),
        put(0x1ff1, 16),
        put(u64::MAX - 3, 16),
        put(0x84, 4),
        put(0x1000, 0x1001),
        put(0x1000, u64::MAX),
        put(u64::MAX, u64::MAX),
        Frame::Get(Transfer { off: 0, total: 8 }),
        Frame::Look { off: 0xff8, len: 16 },
        Frame::Look { off: 0x1800, len: 1 },
        Frame::Look { off: 0x2ff8, len: 16 },
        Frame::Look { off: u64::MAX, len: 16 },
        Frame::Seen { off: 0x1000, bytes: &[1] },
        Frame::Word { off: 0x1000, value: 0 },
        Frame::Word { off: 0x85, value: 0 },
        Frame::Word { off: u32::MAX - 3, value: 0 },
    ] {
        assert!(bad.check(&bounds).is_err(), "{bad:?}");
        assert!(bad.check(&Bounds::default()).is_err(), "{bad:?}");
    }
}

#[test]
fn what_a_peer_would_refuse_is_not_sent() {
    let long = "x".repeat(MOST_TEXT + 1);
    let many = vec![1; CHUNK + 1];
    let slot = Slot {
        queue: 0,
        of_host: false,
        header_alone: false,
        slot: 0,
        hdr: 0,
        word: 0,
        payload: [0; INLINE_WORDS],
        second: [0; SECOND_WORDS],
        bytes: &[],
    };
    let mut out = vec![7];
    for bad in [
        Frame::Bye(&long),
        Frame::Bye("two\nlines"),
        Frame::Ended("\u{1b}[2J"),
        Frame::Part(&many),
        Frame::Slot(Slot { bytes: &many, ..slot }),
        Frame::Slot(Slot { queue: 1 << 14, ..slot }),
        Frame::Slot(Slot { header_alone: true, bytes: &[1], ..slot }),
        Frame::Look { off: 0, len: MOST_LOOK + 1 },
    ] {
        bad.encode(&mut out).expect_err("it does not travel");
        assert_eq!(out, [7], "{bad:?}");
    }
}

#[test]
fn an_empty_call_is_24_bytes_each_way() {
    let slot = Slot {
        queue: 1,
        of_host: false,
        header_alone: false,
        slot: 0,
        hdr: 5,
        word: 0x0100_0001,
        payload: [0; INLINE_WORDS],
        second: [0; SECOND_WORDS],
        bytes: &[],
    };
    let mut out = Vec::new();
    Frame::Slot(slot).encode(&mut out).expect("it fits");
    assert_eq!(out.len(), 24);
}

#[test]
fn refusals_name_field_limit_and_value() {
    let bounds = Bounds { window: 0x3000, heap: 0x1000..0x2000, longest: 0 };
    let e = Frame::Put(Transfer { off: 0x1ff8, total: 16 }).check(&bounds).expect_err("it leaves the heap");
    assert_eq!(e.to_string(), "expected a range of PUT inside of the heap, 0x1000 to 0x2000, got 16 bytes at 0x1ff8");
    let e = Malformed::Unexpected { name: "OFFER", from: End::Host, phase: Phase::Opening };
    assert_eq!(e.to_string(), "expected no OFFER from the host before the connection is granted");
    let e = Malformed::Length { name: "RENEW", least: 0, most: 0, got: 4 };
    assert_eq!(e.to_string(), "expected 0 to 0 bytes of RENEW, got 4");
}

/// xorshift64*, so that a failure has the same bytes everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

/// 10^6 frames whose heads are often right and whose fields are at their ends: each is refused, or says what it is again.
#[test]
fn hostile_frames_are_refused_or_mean_what_they_say() {
    const FRAMES: u32 = 1_000_000;
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let bounds = Bounds { window: 1 << 20, heap: 1 << 16..1 << 20, longest: 1 << 16 };
    let (mut bytes, mut again, mut admitted, mut right) = (vec![0; 512], Vec::new(), 0, 0);
    for _ in 0..FRAMES {
        let seed = random.next();
        let len = match seed >> 8 & 7 {
            0 => random.next() as u32,
            1 => u32::MAX - (seed >> 16 & 15) as u32,
            2 => 0,
            _ => [8, 16, 24, 32, 56, 64, 72, 136][(seed >> 16 & 7) as usize] + (seed >> 24 & 3) as u32 * 8,
        };
        bytes[..4].copy_from_slice(&len.to_le_bytes());
        bytes[4] = (seed % 19) as u8;
        bytes[5] = u8::from(seed >> 32 & 63 == 0);
        // Fields: zero, small, at the edges, anything.
        for word in bytes[HEAD..HEAD + 64].chunks_exact_mut(4) {
            let value = match random.next() {
                r if r & 7 < 3 => 0,
                r if r & 7 < 6 => (r >> 8) as u32 & 7,
                r if r & 7 == 6 => [1 << 16, (1 << 20) - 4, u32::MAX, 1 << 31][(r >> 8 & 3) as usize],
                r => (r >> 8) as u32,
            };
            word.copy_from_slice(&value.to_le_bytes());
        }
        if seed >> 40 & 1 == 0 {
            bytes[HEAD..HEAD + 8].copy_from_slice(&MAGIC);
        }
        let from = if seed >> 41 & 1 == 0 { End::Host } else { End::Server };
        let phase = [Phase::Opening, Phase::Messages, Phase::Messages, Phase::Transfers][(seed >> 42 & 3) as usize];
        let head = *bytes.first_chunk::<HEAD>().expect("a head");
        let Ok((kind, len)) = admit(head, from, phase) else { continue };
        assert!(HEAD + len <= LONGEST && (phase != Phase::Opening || HEAD + len <= LONGEST_OPENING));
        admitted += 1;
        if let Some(body) = bytes.get(HEAD..HEAD + len)
            && let Ok(frame) = Frame::decode(kind, body)
            && frame.check(&bounds).is_ok()
        {
            right += 1;
            again.clear();
            frame.encode(&mut again).expect("what is read can be sent");
            let (_, second) = read(&again, from, phase, &bounds).expect("and read again");
            assert_eq!(second, frame);
        }
    }
    // Otherwise the frames are not hostile enough, or all nonsense.
    assert!(admitted > FRAMES / 20 && right > FRAMES / 100 && right < FRAMES / 2, "{admitted} {right}");
}
