//! What stock RDMA tools tell each other over TCP before they use their adapters, and behind that: as two stock ends
//! were seen to do (`ibv_*_pingpong` of rdma-core 44, perftest 4.5). In each step the client sends first, and the
//! server answers with as many bytes ([`hamr_hca::exchange`]).

use hamr_hca::exchange::{Role, Talk};
use hamr_verbs::Remote;
use hamr_verbs::host::Endpoint;
use std::error::Error;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

pub(crate) type Failed = Box<dyn Error>;

/// The wait for one answer.
const ANSWER: Duration = Duration::from_secs(25);
/// The wait for a tool to be there: the guest starts first, and runs tools whose ends are both there.
const START: Duration = Duration::from_secs(300);

/// A role's name in arguments.
pub(crate) fn name(role: Role) -> &'static str {
    match role {
        Role::Client => "client",
        Role::Server => "server",
    }
}

/// Where the other end is.
pub(crate) struct Meeting {
    pub(crate) listener: TcpListener,
    pub(crate) connect: String,
}

impl Meeting {
    /// Meets a tool, and takes the first step, in which a server answers by [`Talk::answer`] when it is ready.
    pub(crate) fn begin(&self, role: Role, first: &[u8]) -> Result<(Talk, Vec<u8>), Failed> {
        let end = Instant::now() + START;
        loop {
            let tried = match role {
                Role::Server => self.accept(end),
                Role::Client => TcpStream::connect(&self.connect),
            };
            let met = tried.and_then(|stream| {
                let mut talk = Talk::over(stream, role, ANSWER)?;
                let theirs = talk.ask(first)?;
                Ok((talk, theirs))
            });
            match met {
                Ok(met) => return Ok(met),
                // Until a tool listens a connection ends without a byte.
                Err(_) if role == Role::Client && Instant::now() < end => std::thread::sleep(Duration::from_millis(50)),
                Err(why) => return Err(format!("no tool: {why}").into()),
            }
        }
    }

    fn accept(&self, end: Instant) -> std::io::Result<TcpStream> {
        self.listener.set_nonblocking(true)?;
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => return stream.set_nonblocking(false).map(|()| stream),
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock && Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Waits until the machine with the tools has ended: a tool may still need an answer of the adapter's.
    pub(crate) fn end(&self) {
        let end = Instant::now() + START;
        while TcpStream::connect(&self.connect).is_ok() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// What perftest's ends exchange.
#[derive(Clone, Copy)]
pub(crate) struct Perftest {
    /// Times of the keys before the run.
    pub(crate) before: u32,
    pub(crate) behind: Behind,
}

/// The same behind the run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behind {
    Nothing,
    Keys,
    /// The client's figures, and then the keys.
    Reports,
}

/// Bytes of each first step: the version, bytes of a message's cycle and of a cache line.
const VERSION: &[u8; 16] = b"6.06\0\0\0\0\0\0\0\0\0\0\0\0";
const CYCLE: [u8; 4] = 4096_u32.to_be_bytes();
const CACHE_LINE: [u8; 4] = 64_u32.to_be_bytes();
pub(crate) const DONE: &[u8; 5] = b"done\0";
/// Numbers of a client's figures.
const REPORTS: usize = 5;

impl Perftest {
    /// The steps before keys, of a path with so many bytes in a packet.
    pub(crate) fn begin(meeting: &Meeting, role: Role, mtu: u16) -> Result<Talk, Failed> {
        let (mut talk, version) = meeting.begin(role, VERSION)?;
        talk.answer(VERSION)?;
        if version != VERSION {
            return Err(format!("expected perftest 6.06, got {:?}", String::from_utf8_lossy(&version)).into());
        }
        talk.trade(&CYCLE)?;
        talk.trade(&CACHE_LINE)?;
        // 1 for 256 bytes, 5 for 4096.
        let code = format!("{}\0", mtu.max(256).ilog2() - 7);
        let theirs = talk.trade(code.as_bytes())?;
        if theirs != code.as_bytes() {
            let theirs = String::from_utf8_lossy(&theirs);
            return Err(format!("expected packets of {mtu} bytes ({code:?}), got {theirs:?}").into());
        }
        Ok(talk)
    }

    /// The steps behind the run.
    pub(crate) fn end(self, talk: &mut Talk, own: &Keys) -> Result<(), Failed> {
        if self.behind == Behind::Nothing {
            return Ok(());
        }
        own.trade(talk)?;
        if self.behind == Behind::Reports {
            for _ in 0..REPORTS {
                talk.trade(&[0; 8])?;
            }
            own.trade(talk)?;
        }
        talk.trade(DONE)?;
        Ok(())
    }
}

/// What perftest tells of a queue pair and of its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Keys {
    pub(crate) endpoint: Endpoint,
    pub(crate) memory: Remote,
    /// READ and atomic requests at once.
    pub(crate) reads: u16,
}

/// Bytes of their text.
const KEYS: usize = 108;

impl Keys {
    /// A step.
    pub(crate) fn trade(&self, talk: &mut Talk) -> Result<Self, Failed> {
        Ok(Self::parse(&talk.trade(self.text().as_bytes())?)?)
    }

    /// `LID:READS:QPN:PSN:RKEY:ADDRESS:` hexadecimal, 16 bytes of the GID, and the number of a shared receive queue.
    fn text(&self) -> String {
        let Self { endpoint: Endpoint { address, qp_number, psn }, memory: Remote { addr, rkey }, reads } = *self;
        let gid: String = address.to_ipv6_mapped().octets().iter().map(|byte| format!("{byte:02x}:")).collect();
        let text = format!("0000:{reads:04x}:{qp_number:06x}:{psn:06x}:{rkey:08x}:{addr:016x}:{gid}00000000:\0");
        debug_assert_eq!(text.len(), KEYS);
        text
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = String::from_utf8_lossy(bytes);
        let wrong = || format!("expected keys of perftest, got {text:?}");
        let numbers: Option<Vec<u64>> =
            text.trim_end_matches([':', '\0']).split(':').map(|field| u64::from_str_radix(field, 16).ok()).collect();
        let numbers = numbers.filter(|numbers| numbers.len() == 23).ok_or_else(wrong)?;
        let [_, reads, qp_number, psn, rkey, addr, rest @ ..] = numbers.as_slice() else { return Err(wrong()) };
        let gid: Option<Vec<u8>> = rest.iter().take(16).map(|byte| u8::try_from(*byte).ok()).collect();
        let gid = gid.and_then(|gid| <[u8; 16]>::try_from(gid).ok()).map(Ipv6Addr::from);
        let address: Ipv4Addr = gid.and_then(|gid| gid.to_ipv4_mapped()).ok_or_else(wrong)?;
        let number = |value: &u64| u32::try_from(*value).map_err(|_| wrong());
        let endpoint = Endpoint { address, qp_number: number(qp_number)?, psn: number(psn)? };
        let reads = u16::try_from(*reads).map_err(|_| wrong())?;
        Ok(Self { endpoint, memory: Remote { addr: *addr, rkey: number(rkey)? }, reads })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_text_of_perftest() {
        let text = "0000:0080:000036:e7f59a:000008e6:00005613ed242000:\
                    00:00:00:00:00:00:00:00:00:00:ff:ff:7f:00:00:01:00000000:\0";
        let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST, qp_number: 0x36, psn: 0xE7_F59A };
        let keys = Keys { endpoint, memory: Remote { addr: 0x5613_ED24_2000, rkey: 0x8E6 }, reads: 128 };
        assert_eq!((keys.text().as_str(), Keys::parse(text.as_bytes())), (text, Ok(keys)));
        for wrong in [&text[5..], &text[..60], "", ":::", &text.replace("ff:ff", "ff:fe"), &text.replace(":7f", ":17f")]
        {
            assert!(Keys::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
