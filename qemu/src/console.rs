//! What a machine says: its image over the serial port (QEMU's standard output), QEMU itself on standard error.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Lines that are kept.
const KEPT: usize = 64;
/// A longer line goes on as another one: an image that never ends its line must not fill this process's memory.
const LONGEST: u64 = 1024;
/// How long the last lines of a machine that has ended may take. They are in the pipe; only a process that the machine left
/// behind could hold it open.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Who said a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The image, over its serial port.
    Image,
    /// QEMU itself.
    Qemu,
}

/// The last lines of a machine. A thread per source reads them until the machine ends, so that no image ever waits for room in
/// a pipe; each line is a `tracing` event of level debug too (target `hamr::console`).
#[derive(Clone, Debug)]
pub struct Console {
    shared: Arc<SharedLines>,
}

#[derive(Debug, Default)]
struct SharedLines {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<(Source, String)>,
    /// The last line of QEMU and of the image: neither may push the other's out, however much it says.
    last: [Option<String>; 2],
    /// Sources that may still say something.
    open: usize,
}

impl SharedLines {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Console {
    pub(crate) fn new() -> Self {
        Self { shared: Arc::default() }
    }

    /// Reads what comes from `pipe` in a thread of its own.
    pub(crate) fn listen(&self, device: &str, source: Source, pipe: impl Read + Send + 'static) -> std::io::Result<()> {
        let (device, shared) = (device.to_owned(), self.shared.clone());
        self.shared.state().open += 1;
        let work = move || {
            read(&device, source, pipe, &shared);
            shared.state().open -= 1;
            shared.ended.notify_all();
        };
        let thread = std::thread::Builder::new().name("hamr-console".into()).spawn(work);
        if thread.is_err() {
            self.shared.state().open -= 1;
        }
        thread.map(drop)
    }

    /// The last lines, oldest first.
    pub fn lines(&self) -> Vec<(Source, String)> {
        self.shared.state().lines.iter().cloned().collect()
    }

    /// For a machine that has ended: the last line of each source that said anything, as a phrase for an error message.
    pub fn last_words(&self) -> String {
        self.last_words_within(DRAIN_TIMEOUT)
    }

    fn last_words_within(&self, limit: Duration) -> String {
        let state = self.shared.ended.wait_timeout_while(self.shared.state(), limit, |state| state.open > 0);
        let (state, _) = state.unwrap_or_else(PoisonError::into_inner);
        let names = ["QEMU said", "its image said last"];
        let said = names.iter().zip(&state.last).filter_map(|(name, line)| Some((name, line.as_ref()?)));
        said.map(|(name, line)| format!("; {name} `{line}`")).collect()
    }
}

fn read(device: &str, source: Source, pipe: impl Read, shared: &SharedLines) {
    let mut reader = BufReader::new(pipe);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        match reader.by_ref().take(LONGEST).read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim_end_matches(['\n', '\r']);
        if line.is_empty() {
            continue;
        }
        tracing::debug!(target: "hamr::console", device, ?source, "{line}");
        let mut state = shared.state();
        if state.lines.len() == KEPT {
            state.lines.pop_front();
        }
        state.lines.push_back((source, line.to_owned()));
        state.last[usize::from(source == Source::Image)] = Some(line.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_long_ones_are_cut() {
        let console = Console::new();
        // QEMU first, so that the image's lines come behind and are more than are kept.
        console.listen("device", Source::Qemu, &b"first\nlast without an end"[..]).expect("a thread");
        console.last_words();
        let mut text = (0..100).map(|n| format!("line {n}\r\n\n")).collect::<String>().into_bytes();
        text.extend([b'x'; 1500]);
        console.listen("device", Source::Image, std::io::Cursor::new(text)).expect("a thread");
        let words = console.last_words();
        assert_eq!(words, format!("; QEMU said `last without an end`; its image said last `{}`", "x".repeat(476)));
        let lines = console.lines();
        assert_eq!(lines.len(), KEPT);
        assert!(lines.contains(&(Source::Image, "line 99".into())), "{lines:?}");
    }

    #[test]
    fn a_pipe_that_stays_open_is_not_waited_for_long() {
        let console = Console::new();
        let (reader, writer) = std::io::pipe().expect("a pipe");
        console.listen("device", Source::Qemu, reader).expect("a thread");
        assert_eq!(console.last_words_within(Duration::from_millis(200)), "");
        drop(writer);
    }
}
