//! A terminal's other screen, without echo and line editing. The terminal is as before when this is dropped, when a signal
//! ends the program, and while it is stopped.

use super::super::signals::{self, Came, Signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{Result, Write, stdin, stdout};
use std::time::{Duration, Instant};

/// Other screen, no cursor; and the reverse.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// To the first line; the rest of a line; the rest of the screen.
const HOME: &str = "\x1b[H";
const REST_OF_LINE: &str = "\x1b[K\r\n";
const REST_OF_SCREEN: &str = "\x1b[J";
/// What a terminal without a size has.
const SIZE: (usize, usize) = (24, 80);
/// Keys that end: q, Q, and what Ctrl-C is without its signal.
const END: [u8; 3] = [b'q', b'Q', 3];

/// The size and the signals that came are looked at so often.
const STEP: Duration = Duration::from_millis(100);

/// What comes behind a wait.
pub(super) enum Next {
    /// The time is over, or a key was pressed.
    Look,
    /// The terminal has another size.
    Redraw,
    /// One of the keys that end, or a signal that does; the terminal is as before.
    End,
}

pub(super) struct Screen {
    before: Termios,
    signals: Signals,
}

impl Screen {
    pub(super) fn open() -> Result<Self> {
        let before = tcgetattr(stdin())?;
        // Before the terminal changes: no signal comes between.
        let screen = Self { before, signals: Signals::note(signals::ALL) };
        screen.enter()?;
        Ok(screen)
    }

    fn enter(&self) -> Result<()> {
        self.set_raw()?;
        write(ENTER)
    }

    fn set_raw(&self) -> Result<()> {
        let mut raw = self.before.clone();
        raw.make_raw();
        Ok(tcsetattr(stdin(), OptionalActions::Now, &raw)?)
    }

    fn leave(&self) {
        // Without a terminal there is nothing to restore.
        let _ = write(LEAVE);
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }

    /// Acts on a signal; returns what comes then.
    fn act(&self, came: Came) -> Next {
        let back = match came {
            // By a stop that cannot be handled: it has left its screen on, and a shell has set other modes.
            Came::Continue => self.set_raw(),
            Came::Stop => {
                self.leave();
                self.signals.default_of(Signal::TSTP);
                self.enter()
            }
            Came::End(signal) => {
                self.leave();
                self.signals.default_of(signal);
                return Next::End;
            }
        };
        if back.is_ok() { Next::Redraw } else { Next::End }
    }

    /// Rows and columns.
    pub(super) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(stdout()) {
            Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
            _ => SIZE,
        }
    }

    /// Shows these lines, and no others. In one write, so that no half of a frame is seen.
    pub(super) fn show(&self, lines: &[String]) -> Result<()> {
        let mut frame = String::from(HOME);
        // The last line has no end: that would move the screen.
        frame += &lines.join(REST_OF_LINE);
        frame += "\x1b[K";
        frame += REST_OF_SCREEN;
        write(&frame)
    }

    /// Waits until this time, for a key, or for another size than `shown`.
    pub(super) fn wait(&self, until: Instant, shown: (usize, usize)) -> Next {
        loop {
            if let Some(came) = self.signals.next() {
                return self.act(came);
            }
            let left = until.saturating_duration_since(Instant::now());
            if let Some(ends) = key_within(left.min(STEP)) {
                return if ends { Next::End } else { Next::Look };
            }
            if self.size() != shown {
                return Next::Redraw;
            }
            if left <= STEP {
                return Next::Look;
            }
        }
    }
}

/// Was a key pressed within this time, and does it end?
fn key_within(limit: Duration) -> Option<bool> {
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    let input = stdin();
    if !poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&limit)).is_ok_and(|ready| ready > 0) {
        return None;
    }
    let mut keys = [0; 64];
    Some(match rustix::io::read(&input, &mut keys) {
        // The terminal is gone.
        Ok(0) | Err(_) => true,
        Ok(read) => keys.iter().take(read).any(|key| END.contains(key)),
    })
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}

fn write(text: &str) -> Result<()> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
