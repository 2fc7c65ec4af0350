//! Lines from bytes: what images send, and what no image would.

use super::cases::string_table;
use super::lines::{Decoder, Frames};
use super::*;
use crate::log_ring::Taken;
use proptest::prelude::*;
use std::sync::Mutex;

#[derive(Default)]
struct Frame(Vec<u8>);

impl Frame {
    fn of(id: u16, time: u64) -> Self {
        Self::default().and(&id.to_le_bytes()).and(&time.to_le_bytes())
    }
    fn and(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }
    fn id(self, id: u16) -> Self {
        self.and(&id.to_le_bytes())
    }
    fn sized(self, bytes: &[u8]) -> Self {
        self.and(&(bytes.len() as u32).to_le_bytes()).and(bytes)
    }
    fn line(&self) -> Option<(Option<LogLevel>, String)> {
        string_table().line(&self.0).ok().map(|line| (line.level, line.message))
    }
    fn text(&self) -> String {
        self.line().expect("a line").1
    }
}

#[test]
fn values_of_every_kind_are_shown_as_rust_shows_them() {
    let frame = Frame::of(101, 1_000_001).id(2).and(&1.5f32.to_le_bytes()).and(&255u32.to_le_bytes());
    let line = string_table().line(&frame.0).expect("a line");
    assert_eq!((line.time_us, line.message.as_str()), (Some(1_000_001), "1.5 of 0xff, again 1.5"));
    let frame = Frame::of(102, 0).sized(b"a\n\"").sized(&[1, 0xFF]).and(&(-2i16).to_le_bytes()).and(&[1]);
    let frame = frame.and(&u32::from('\'').to_le_bytes()).and(&2f64.to_le_bytes());
    assert_eq!(frame.line(), Some((Some(LogLevel::ERROR), r#"b"a\n\"" [01, ff] fffe true '\'' 2.0"#.into())));
}

#[test]
fn slices_enums_strings_and_sequences_nest() {
    let list = Frame::of(101, 0).id(4).and(&2u32.to_le_bytes()).id(1).and(&[7, 8]).and(&1u32.to_le_bytes());
    assert_eq!(list.text(), "[7, 8] of 0x1, again [7, 8]");
    // An enum in a box of an enum: Box { w: 3, h: Circle(2.5) }.
    let boxed = Frame::of(101, 0).id(5).and(&[2, 3]).id(5).and(&[1]).and(&2.5f32.to_le_bytes()).and(&[0; 4]);
    assert_eq!(boxed.text().split(" of").next(), Some("Box { w: 3, h: Circle(2.5) }"));
    let sequence = Frame::of(101, 0).id(6).id(1).and(&[9]).id(3).sized(b"nine").id(0).and(&[0; 4]);
    assert_eq!(sequence.text().split(" of").next(), Some("9nine"));
    let mixed = Frame::of(104, 0).id(3).sized(b"text").and(b"shown\xFF").id(1).and(&[1, 2]);
    assert_eq!(mixed.text(), "text shown [1, 2]");
}

#[test]
fn bits_of_one_value_travel_once_and_debug_quotes() {
    let frame = Frame::of(103, 0).and(&0x5A03u16.to_le_bytes()).id(3).sized(b"q");
    assert_eq!(frame.text(), "3 and 1010, \"q\"");
}

#[test]
fn what_no_image_sends_is_refused() {
    let bad = [
        Frame::default(),
        Frame::of(99, 0),
        // A format where a statement belongs, a statement where a format belongs.
        Frame::of(1, 0).and(&[1]),
        Frame::of(101, 0).id(100).and(&[0; 4]),
        // Lengths that the frame does not have room for; a list of four billion units, which take
        // no bytes at all.
        Frame::of(102, 0).and(&u32::MAX.to_le_bytes()).and(b"abc"),
        Frame::of(101, 0).id(4).and(&u32::MAX.to_le_bytes()).id(8),
        Frame::of(101, 0).id(5).and(&[9]),
    ];
    for frame in bad {
        assert_eq!(frame.line(), None, "{:?}", frame.0);
    }
    // Formats in formats, as deep as the frame is long.
    let deep = (0..500).fold(Frame::of(101, 0), |frame, _| frame.id(7));
    assert_eq!(deep.line(), None);
}

#[test]
fn what_was_made_and_not_found_is_lost() {
    let mut decoder = Decoder::new(string_table(), true);
    // Frames of another image: found all the same.
    let mut look = |frames: usize, made: Option<u32>, overtaken: bool| {
        let taken = Taken { bytes: b"?\0".repeat(frames), made, overtaken, impossible: false };
        let mut events = Vec::new();
        decoder.decode(taken, LogLevel::TRACE, &mut events);
        events.iter().map(|e| if let LogEvent::Lost(lines) = e { *lines } else { 0 }).sum::<u32>()
    };
    assert_eq!(look(3, Some(3), false), 0);
    // There is more to take: no loss can be reported yet.
    assert_eq!(look(2, None, false), 0);
    assert_eq!(look(2, Some(11), false), 4);
    assert_eq!(look(0, Some(11), false), 0, "said once");
    assert_eq!(look(5, Some(13), false), 0, "the count lags behind");
    assert_eq!(look(0, Some(16), false), 0);
    // The first piece behind a gap is the end of a frame that is lost.
    assert_eq!(look(2, Some(27), true), 10);
    decoder.restart();
    let mut events = Vec::new();
    decoder.decode(Taken { made: Some(u32::MAX / 2), ..Taken::default() }, LogLevel::TRACE, &mut events);
    assert_eq!(events, [LogEvent::Lost(u32::MAX / 2)]);
}

#[test]
fn frames_are_cut_at_zeros_wherever_a_poll_ended() {
    let mut frames = Frames { rest: Vec::new(), is_whole: false };
    assert_eq!(frames.split(b"half\0who"), Vec::<Vec<u8>>::new());
    assert_eq!(frames.split(b"le\0\0next\0"), [b"whole".to_vec(), b"next".to_vec()]);
    // One without an end takes no more memory than the longest there is.
    for _ in 0..1000 {
        assert!(frames.split(&[1; 100]).is_empty() && frames.rest.len() <= 1200);
    }
}

/// Writes each event's level, target and fields as text.
struct Recorder(std::sync::Mutex<Vec<String>>);

impl ::tracing::Subscriber for Recorder {
    fn enabled(&self, _: &::tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &::tracing::span::Attributes<'_>) -> ::tracing::span::Id {
        ::tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &::tracing::span::Id, _: &::tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &::tracing::span::Id, _: &::tracing::span::Id) {}
    fn event(&self, event: &::tracing::Event<'_>) {
        struct Fields(String);
        impl ::tracing::field::Visit for Fields {
            fn record_debug(&mut self, field: &::tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!(" {}={value:?}", field.name());
            }
        }
        let mut fields = Fields(format!("{} {}", event.metadata().level(), event.metadata().target()));
        event.record(&mut fields);
        self.0.lock().expect("one thread").push(fields.0);
    }
    fn enter(&self, _: &::tracing::span::Id) {}
    fn exit(&self, _: &::tracing::span::Id) {}
}

#[test]
fn lines_become_events_of_their_level_with_all_they_say() {
    let line = LogLine {
        level: Some(LogLevel::WARN),
        time_us: Some(12),
        module: "my_kernels::pump".into(),
        message: "dry {again}".into(),
        file: "src/pump.rs".into(),
        line: 7,
    };
    let recorder = Arc::new(Recorder(Mutex::default()));
    ::tracing::subscriber::with_default(recorder.clone(), || {
        LogEvent::Line(line).trace("shm", 3);
        LogEvent::Lost(5).trace("shm", 3);
    });
    let events = recorder.0.lock().expect("one thread");
    for part in [
        "WARN hamr::device",
        "message=dry {again}",
        "time_us=12",
        "my_kernels::pump",
        "src/pump.rs",
        "line=7",
        "node=3",
    ] {
        assert!(events[0].contains(part), "{part} in {events:?}");
    }
    assert!(events[1].contains("WARN hamr::device") && events[1].contains("lines=5"), "{events:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_frames_give_lines_or_nothing(id in 0u16..110, bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let mut frame = id.to_le_bytes().to_vec();
        frame.extend(bytes);
        if let Ok(line) = string_table().line(&frame) {
            prop_assert!(line.message.len() < 100_000);
        }
    }

    #[test]
    fn random_ids_inside_of_formats_too(ids in proptest::collection::vec(0u16..9, 0..300)) {
        let frame = ids.iter().fold(Frame::of(101, 0), |frame, id| frame.id(*id));
        let _ = frame.line();
    }

    #[test]
    fn random_rings_give_events(bytes in proptest::collection::vec(any::<u8>(), 0..4000), cuts in proptest::collection::vec(0usize..4000, 0..8), made: Option<u32>, overtaken: bool) {
        let mut decoder = Decoder::new(string_table(), true);
        let mut cuts = cuts;
        cuts.push(bytes.len());
        cuts.sort_unstable();
        let (mut from, mut events) = (0, Vec::new());
        for cut in cuts.into_iter().map(|cut| cut.min(bytes.len())) {
            let taken = Taken { bytes: bytes[from..cut].to_vec(), made, overtaken, impossible: !overtaken };
            decoder.decode(taken, LogLevel::TRACE, &mut events);
            from = cut;
        }
        prop_assert!(events.len() <= 3 * 9 + bytes.len());
    }
}
