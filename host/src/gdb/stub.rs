//! A client of gdb's remote serial protocol, as far as memory goes: QEMU's stub, and servers of debug probes.
//!
//! An access stops the processor, and lets it go on behind it: no stub here reads the memory of one that runs.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Interrupts what runs.
const INTERRUPT: u8 = 0x03;
/// Bytes of the longest packet that is read: more is no answer of a stub.
const MOST_PACKET: usize = 1 << 20;
/// Bytes of a packet, where the stub does not say.
const PACKET: usize = 1024;
/// The time of an answer, at most.
const LONGEST_LIMIT: Duration = Duration::from_secs(60);
/// That of the last one.
const FAREWELL: Duration = Duration::from_millis(500);
/// Answers in a row that are none to what was asked, such as text of the program.
const MOST_OTHERS: usize = 1000;

/// A connection to a stub whose processor runs between calls.
pub(super) struct Stub {
    stream: TcpStream,
    /// Bytes that came and were not read yet.
    input: Vec<u8>,
    /// Bytes of memory in a packet.
    most: usize,
    /// It takes bytes as they are.
    takes_binary: bool,
    /// It confirms packets, and wants its own confirmed.
    confirms: bool,
    /// The processor stands; or was told to stop, and has not answered.
    stands: bool,
    stops: bool,
    /// When the answer that is waited for has to have come.
    until: Instant,
    limit: Duration,
}

/// One packet, between `$` and its sum.
fn framed(body: &[u8]) -> Vec<u8> {
    let sum = body.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    let mut packet = vec![b'$'];
    packet.extend(body);
    packet.extend(format!("#{sum:02x}").bytes());
    packet
}

/// Bytes that a packet would end at are marked.
fn escaped(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.iter().flat_map(|byte| {
        let special = matches!(byte, b'#' | b'$' | b'}' | b'*');
        let marked = if special { [Some(b'}'), Some(byte ^ 0x20)] } else { [Some(*byte), None] };
        marked.into_iter().flatten()
    })
}

fn from_hex(text: &[u8], to: &mut [u8]) -> Option<()> {
    let digit = |c: u8| char::from(c).to_digit(16);
    let (pairs, rest) = text.as_chunks::<2>();
    if pairs.len() != to.len() || !rest.is_empty() {
        return None;
    }
    for ([high, low], byte) in pairs.iter().zip(to) {
        *byte = (digit(*high)? << 4 | digit(*low)?) as u8;
    }
    Some(())
}

/// What a packet says, for people.
fn shown(packet: &[u8]) -> String {
    let text = String::from_utf8_lossy(packet.get(..packet.len().min(64)).unwrap_or_default()).into_owned();
    text.chars().map(|c| if c.is_control() { '.' } else { c }).collect()
}

impl Stub {
    /// Connects, and lets the processor run. An answer may take `limit`.
    ///
    /// # Errors
    /// No stub there.
    pub(super) fn connect(at: SocketAddr, limit: Duration) -> Result<Self, String> {
        let limit = limit.clamp(Duration::from_millis(1), LONGEST_LIMIT);
        let until = Instant::now() + limit;
        let stream = TcpStream::connect_timeout(&at, limit).map_err(|e| match e.kind() {
            ErrorKind::ConnectionRefused => {
                format!("expected one, the connection was refused; QEMU has one with `-gdb tcp:{at}`")
            }
            _ => format!("expected one, {e}"),
        })?;
        let set = stream.set_nodelay(true);
        set.and_then(|()| stream.set_write_timeout(Some(limit))).map_err(|e| e.to_string())?;
        let mut stub = Self {
            stream,
            input: Vec::new(),
            most: PACKET,
            takes_binary: false,
            confirms: true,
            stands: true,
            stops: false,
            until,
            limit,
        };
        let features = stub.ask(b"qSupported")?;
        let features = String::from_utf8_lossy(&features).into_owned();
        let size = features.split(';').find_map(|feature| feature.strip_prefix("PacketSize="));
        let size = size.and_then(|size| usize::from_str_radix(size, 16).ok()).unwrap_or(PACKET).clamp(128, MOST_PACKET);
        // As hexadecimal digits, beside what asks for them.
        stub.most = (size - 64) / 2;
        if features.split(';').any(|feature| feature == "QStartNoAckMode+") && stub.ask(b"QStartNoAckMode")? == b"OK" {
            stub.confirms = false;
        }
        // Addresses are those of the bus, where it can: a window has no other.
        stub.ask(b"Qqemu.PhyMemMode:1")?;
        // A stub stops the processor when somebody connects, unless it had stopped before.
        stub.ask(b"?")?;
        stub.takes_binary = stub.ask(b"X0,0:")? == b"OK";
        stub.go()?;
        Ok(stub)
    }

    /// Another answer may take the limit again: a slow stub that answers is there.
    fn allow(&mut self) {
        self.until = Instant::now().checked_add(self.limit).unwrap_or(self.until);
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).map_err(|e| lost(&e, self.limit))
    }

    fn byte(&mut self, at: usize) -> Result<u8, String> {
        while self.input.len() <= at {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(late(self.limit));
            }
            self.stream.set_read_timeout(Some(left)).map_err(|e| e.to_string())?;
            let mut piece = [0; 4096];
            match self.stream.read(&mut piece) {
                Ok(0) => return Err("it has ended the connection".into()),
                Ok(len) => self.input.extend(piece.get(..len).unwrap_or_default()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(lost(&e, self.limit)),
            }
        }
        Ok(self.input.get(at).copied().unwrap_or_default())
    }

    /// The next packet.
    fn receive(&mut self) -> Result<Vec<u8>, String> {
        let mut begin = 0;
        while self.byte(begin)? != b'$' {
            begin += 1;
            if begin > MOST_PACKET {
                return Err("expected a packet of gdb's protocol, got other bytes".into());
            }
        }
        let mut end = begin + 1;
        while self.byte(end)? != b'#' {
            end += 1;
            if end - begin > MOST_PACKET {
                return Err(format!("expected a packet of at most {MOST_PACKET} bytes, got a longer one"));
            }
        }
        self.byte(end + 2)?;
        let body = self.input.get(begin + 1..end).unwrap_or_default().to_vec();
        let mut sum = [0];
        let is_whole = from_hex(self.input.get(end + 1..end + 3).unwrap_or_default(), &mut sum).is_some();
        self.input.drain(..end + 3);
        if !is_whole || sum != [body.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte))] {
            return Err(format!("expected a packet with its sum, got `{}`", shown(&body)));
        }
        if self.confirms {
            self.send(b"+")?;
        }
        Ok(expanded(&body))
    }

    /// A packet, and its answer.
    fn ask(&mut self, body: &[u8]) -> Result<Vec<u8>, String> {
        self.send(&framed(body))?;
        for _ in 0..MOST_OTHERS {
            let answer = self.receive()?;
            // Text of the program; or it has stopped for the connection, which older stubs say unasked.
            let is_other = match answer.first() {
                Some(b'O') => answer != b"OK",
                Some(b'T' | b'S') => body != b"?",
                _ => false,
            };
            if !is_other {
                return Ok(answer);
            }
        }
        Err("expected an answer, got text of the program and no end of it".into())
    }

    fn stop(&mut self) -> Result<(), String> {
        if !std::mem::replace(&mut self.stops, true) {
            self.send(&[INTERRUPT])?;
        }
        for _ in 0..MOST_OTHERS {
            let answer = self.receive()?;
            match answer.first() {
                Some(b'T' | b'S') => {
                    (self.stands, self.stops) = (true, false);
                    return Ok(());
                }
                Some(b'W' | b'X') => return Err("its program has ended".into()),
                _ => {}
            }
        }
        Err("expected that the processor stops, it did not".into())
    }

    fn go(&mut self) -> Result<(), String> {
        self.stands = false;
        self.send(&framed(b"c"))
    }

    /// Runs `access` while the processor stands.
    fn standing(&mut self, access: impl FnOnce(&mut Self) -> Result<(), String>) -> Result<(), String> {
        self.allow();
        self.stop()?;
        // The processor goes on whatever came of it.
        let outcome = access(self);
        self.go().and(outcome)
    }

    /// Fills `to` from an address.
    pub(super) fn read(&mut self, address: u64, to: &mut [u8]) -> Result<(), String> {
        self.standing(|stub| {
            for (piece, address) in to.chunks_mut(stub.most).zip((address..).step_by(stub.most)) {
                stub.allow();
                let answer = stub.ask(format!("m{address:x},{:x}", piece.len()).as_bytes())?;
                from_hex(&answer, piece).ok_or_else(|| refused("memory", address, &answer))?;
            }
            Ok(())
        })
    }

    /// Stores `from` at an address, one byte behind the other.
    pub(super) fn write(&mut self, address: u64, from: &[u8]) -> Result<(), String> {
        self.standing(|stub| {
            for (piece, address) in from.chunks(stub.most).zip((address..).step_by(stub.most)) {
                let len = piece.len();
                let packet = if stub.takes_binary {
                    let mut packet = format!("X{address:x},{len:x}:").into_bytes();
                    packet.extend(escaped(piece));
                    packet
                } else {
                    let digits: String = piece.iter().map(|byte| format!("{byte:02x}")).collect();
                    format!("M{address:x},{len:x}:{digits}").into_bytes()
                };
                stub.allow();
                let answer = stub.ask(&packet)?;
                if answer != b"OK" {
                    return Err(refused("memory that can be written", address, &answer));
                }
            }
            Ok(())
        })
    }
}

impl Drop for Stub {
    /// The processor goes on without a debugger, also one that stops only later.
    fn drop(&mut self) {
        self.limit = self.limit.min(FAREWELL);
        self.allow();
        let _ = self.stream.set_write_timeout(Some(self.limit));
        if !self.stands {
            let _ = self.stop();
        }
        let _ = self.send(&framed(b"D"));
    }
}

fn refused(what: &str, address: u64, answer: &[u8]) -> String {
    format!("expected {what} at {address:#x}, the stub answered `{}`", shown(answer))
}

fn lost(e: &std::io::Error, limit: Duration) -> String {
    match e.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => late(limit),
        _ => e.to_string(),
    }
}

fn late(limit: Duration) -> String {
    format!("no answer within {limit:?}; does another debugger have it?")
}

/// A body with its runs written out: `*` and a byte that counts.
fn expanded(body: &[u8]) -> Vec<u8> {
    let mut all: Vec<u8> = Vec::with_capacity(body.len());
    let mut bytes = body.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, all.last().copied()) {
            (b'*', Some(last)) => {
                let count = bytes.next().map_or(0, |count| usize::from(count).saturating_sub(29));
                all.extend(std::iter::repeat_n(last, count));
            }
            (b'}', _) => all.extend(bytes.next().map(|byte| byte ^ 0x20)),
            _ => all.push(byte),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn packets_are_framed_and_their_bytes_marked() {
        assert_eq!(framed(b"m0,8"), b"$m0,8#01");
        let bytes: Vec<u8> = (0..=255).collect();
        let marked: Vec<u8> = escaped(&bytes).collect();
        assert!(!marked.iter().any(|byte| matches!(byte, b'#' | b'$')));
        let mut body = marked.clone();
        assert_eq!(expanded(&body), bytes);
        body.extend(b"0* ");
        assert_eq!(expanded(&body)[256..], *b"0000");
    }

    /// A stub that answers each packet by one of these, some of them changed or cut.
    fn answers(listener: &TcpListener, mut random: u64, answers: &[&[u8]]) {
        let Ok((mut stream, _)) = listener.accept() else { return };
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize
        };
        let mut bytes = [0; 256];
        for _ in 0..40 {
            match stream.read(&mut bytes) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let mut answer = framed(answers[next() % answers.len()]);
            match next() % 8 {
                0 => answer.truncate(next() % answer.len()),
                1 => {
                    let at = next() % answer.len();
                    answer[at] ^= 1 << (next() % 8);
                }
                _ => {}
            }
            if stream.write_all(&answer).is_err() {
                return;
            }
        }
    }

    /// What a stub says is an access or an error in one line, and soon.
    #[test]
    fn hostile_stubs_are_errors() {
        let said: [&[u8]; 10] = [
            b"OK",
            b"T05thread:01;",
            b"PacketSize=1000",
            b"PacketSize=ffffffffffffffffff",
            b"00*~11",
            b"E14",
            b"",
            b"O41",
            b"W00",
            b"}",
        ];
        for seed in 0..200 {
            let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
            let at = listener.local_addr().expect("an address");
            std::thread::scope(|scope| {
                scope.spawn(|| answers(&listener, seed, &said));
                let begin = Instant::now();
                let outcome = Stub::connect(at, Duration::from_millis(50)).and_then(|mut stub| {
                    let mut bytes = [0; 16];
                    (0..8).try_for_each(|_| stub.read(0, &mut bytes).and_then(|()| stub.write(0, &bytes)))
                });
                assert!(outcome.err().is_none_or(|why| !why.contains('\n')));
                assert!(begin.elapsed() < Duration::from_secs(10));
                // The listener's thread ends with its connection, or for want of one.
                let _ = TcpStream::connect(at);
            });
        }
    }

    /// A stub over memory of `memory`, which answers each packet behind a pause, and each stop but the first behind another. What it
    /// was told comes back.
    fn stub(listener: &TcpListener, memory: u8, [packet, stop]: [u64; 2]) -> Vec<String> {
        let (mut said, mut input, mut stops) = (Vec::new(), Vec::new(), 0);
        let Ok((mut stream, _)) = listener.accept() else { return said };
        let mut piece = [0; 4096];
        while let Ok(len @ 1..) = stream.read(&mut piece) {
            input.extend_from_slice(&piece[..len]);
            loop {
                let (told, wait, answer): (String, _, _) = match input.first() {
                    Some(&INTERRUPT) => {
                        stops += 1;
                        input.remove(0);
                        ("^C".into(), if stops == 1 { 0 } else { stop }, b"T05".to_vec())
                    }
                    Some(b'$') => {
                        let Some(end) = input.iter().position(|b| *b == b'#').filter(|end| input.len() > end + 2)
                        else {
                            break;
                        };
                        let body: Vec<u8> = input.drain(..end + 3).take(end).skip(1).collect();
                        let text = String::from_utf8_lossy(&body).into_owned();
                        let len = || text.split_once(',').and_then(|(_, len)| usize::from_str_radix(len, 16).ok());
                        let answer = match body.first() {
                            Some(b'q') => b"PacketSize=1000;QStartNoAckMode+".to_vec(),
                            Some(b'?') => b"T05".to_vec(),
                            Some(b'm') => format!("{memory:02x}").repeat(len().expect("a length")).into_bytes(),
                            Some(b'c' | b'D') => Vec::new(),
                            _ => b"OK".to_vec(),
                        };
                        (text.chars().take(1).collect(), packet, answer)
                    }
                    Some(_) => {
                        input.remove(0);
                        continue;
                    }
                    None => break,
                };
                std::thread::sleep(Duration::from_millis(wait));
                if !matches!(&told[..], "c" | "D") {
                    // It reads on where nobody takes its answers.
                    let _ = stream.write_all(&framed(&answer));
                }
                said.push(told);
            }
        }
        said
    }

    /// With a stub's answers and their pauses, in milliseconds.
    fn with_stub(memory: u8, pauses: [u64; 2], limit: u64, act: impl FnOnce(Stub)) -> Vec<String> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let at = listener.local_addr().expect("an address");
        std::thread::scope(|scope| {
            let said = scope.spawn(|| stub(&listener, memory, pauses));
            act(Stub::connect(at, Duration::from_millis(limit)).expect("a stub"));
            said.join().expect("it has ended")
        })
    }

    #[test]
    fn a_stub_that_answers_each_packet_soon_is_not_lost() {
        with_stub(7, [20, 0], 500, |mut stub| {
            let mut bytes = vec![0; 1 << 16];
            stub.read(0, &mut bytes).expect("each packet is answered in time");
            assert!(bytes.iter().all(|byte| *byte == 7));
        });
    }

    #[test]
    fn a_processor_that_stops_too_late_goes_on() {
        let said = with_stub(0, [0, 900], 300, |mut stub| {
            stub.read(0, &mut [0; 16]).expect("in time");
            stub.read(0, &mut [0; 16]).expect_err("late");
        });
        assert_eq!(said.last().map(String::as_str), Some("D"), "{said:?}");
    }

    #[test]
    fn digits_are_bytes_or_nothing() {
        let mut bytes = [0; 2];
        assert_eq!(from_hex(b"00fF", &mut bytes), Some(()));
        assert_eq!(bytes, [0, 0xFF]);
        for text in [&b"00f"[..], b"00fg", b"", b"E14"] {
            assert_eq!(from_hex(text, &mut bytes), None);
        }
    }
}
