//! What the programs of two adapters tell each other over TCP before they use them, as `ibv_*_pingpong` does: in each step
//! the client sends first, and the server answers with as many bytes.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Which end this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It connects.
    Client,
    /// It is connected to.
    Server,
}

/// A connection with another program.
pub struct Talk {
    stream: TcpStream,
    role: Role,
    limit: Duration,
}

impl Talk {
    /// Over a connection, of which what the other end says in a step comes within `limit`.
    ///
    /// # Errors
    /// The limit is zero.
    pub fn over(stream: TcpStream, role: Role, limit: Duration) -> Result<Self> {
        stream.set_write_timeout(Some(limit))?;
        Ok(Self { stream, role, limit })
    }

    /// The connection.
    pub const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The first half of a step: the other end's bytes. A server answers by [`Self::answer`] when it is ready.
    ///
    /// # Errors
    /// The connection has ended; the bytes come too late.
    pub fn ask(&mut self, own: &[u8]) -> Result<Vec<u8>> {
        if self.role == Role::Client {
            self.stream.write_all(own)?;
        }
        self.read(own.len())
    }

    /// The answer of a server.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn answer(&mut self, own: &[u8]) -> Result<()> {
        if self.role == Role::Server { self.stream.write_all(own) } else { Ok(()) }
    }

    /// A step: the other end's bytes.
    ///
    /// # Errors
    /// As of [`Self::ask`].
    pub fn trade(&mut self, own: &[u8]) -> Result<Vec<u8>> {
        let theirs = self.ask(own)?;
        self.answer(own)?;
        Ok(theirs)
    }

    /// The client says that it knows all.
    ///
    /// # Errors
    /// As of [`Self::ask`].
    pub fn tell(&mut self, word: &[u8]) -> Result<()> {
        match self.role {
            Role::Client => self.stream.write_all(word),
            Role::Server => self.read(word.len()).map(drop),
        }
    }

    /// So many bytes, all of them within the limit: one that sends a byte now and then keeps nobody.
    fn read(&mut self, length: usize) -> Result<Vec<u8>> {
        let (begin, mut theirs, mut at) = (Instant::now(), vec![0; length], 0);
        while at < length {
            let left = self.limit.saturating_sub(begin.elapsed());
            if left.is_zero() {
                let limit = self.limit;
                return Err(Error::other(format!(
                    "expected {length} bytes of the other end within {limit:?}: one that serves another is late"
                )));
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut theirs[at..]) {
                Ok(0) => return Err(Error::other(format!("expected {length} bytes of the other end, it sent {at}"))),
                Ok(read) => at += read,
                Err(why)
                    if [ErrorKind::Interrupted, ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&why.kind()) => {}
                Err(why) => return Err(Error::other(format!("expected {length} bytes of the other end: {why}"))),
            }
        }
        Ok(theirs)
    }
}
