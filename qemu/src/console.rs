//! The output of a machine: its image writes to the serial port (QEMU's standard output), QEMU
//! itself to standard error.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The number of lines that are kept.
const KEPT: usize = 64;
/// The most bytes of one line; what follows counts as the next line. Without a limit, an image that
/// never ends its line would fill this process's memory.
const LONGEST: u64 = 1024;
/// How long the last lines of an ended machine may take. They are in the pipe already; only a
/// process that the machine left behind keeps the pipe open longer.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a line came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The image, over its serial port.
    Image,
    /// QEMU itself.
    Qemu,
}

/// The last lines of a machine. One thread per source reads them until the machine ends, so that no
/// image waits for room in a pipe. Each line is also a `tracing` event of level debug (target
/// `hamr::console`).
#[derive(Clone, Debug)]
pub struct Console {
    shared: Arc<SharedLines>,
    /// What QEMU calls the image's file, and its path.
    names: [String; 2],
}

#[derive(Debug, Default)]
struct SharedLines {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<(Source, String)>,
    /// The last line of QEMU and that of the image, apart: many lines of one must not displace the
    /// other's.
    last: [Option<String>; 2],
    /// Sources that may still write.
    open: usize,
}

impl SharedLines {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Console {
    /// Of a machine that was given the image at `path` as the file `kernel`.
    pub(crate) fn new(kernel: &str, path: &Path) -> Self {
        Self { shared: Arc::default(), names: [kernel.into(), path.display().to_string()] }
    }

    /// Reads `pipe` in a thread of its own.
    pub(crate) fn listen(&self, device: &str, source: Source, pipe: impl Read + Send + 'static) -> std::io::Result<()> {
        let (device, shared, names) = (device.to_owned(), self.shared.clone(), self.names.clone());
        self.shared.state().open += 1;
        let work = move || {
            read(&device, source, pipe, &shared, &names);
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

    /// For a machine that has ended: the last line of each source that wrote any, as a phrase for
    /// an error message.
    pub fn last_words(&self) -> String {
        self.last_words_within(DRAIN_TIMEOUT)
    }

    fn last_words_within(&self, limit: Duration) -> String {
        let state = self.shared.ended.wait_timeout_while(self.shared.state(), limit, |state| state.open > 0);
        let (state, _) = state.unwrap_or_else(PoisonError::into_inner);
        let names = ["QEMU printed", "its image printed last"];
        let said = names.iter().zip(&state.last).filter_map(|(name, line)| Some((name, line.as_ref()?)));
        said.map(|(name, line)| format!("; {name} `{line}`")).collect()
    }
}

fn read(device: &str, source: Source, pipe: impl Read, shared: &SharedLines, [kernel, path]: &[String; 2]) {
    let mut reader = BufReader::new(pipe);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        match reader.by_ref().take(LONGEST).read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim_end_matches(['\n', '\r']).replace(kernel, path);
        if line.is_empty() {
            continue;
        }
        tracing::debug!(target: "hamr::console", device, ?source, "{line}");
        let mut state = shared.state();
        if state.lines.len() == KEPT {
            state.lines.pop_front();
        }
        state.lines.push_back((source, line.clone()));
        state.last[usize::from(source == Source::Image)] = Some(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_long_ones_are_cut() {
        let console = Console::new("/proc/self/fd/9", Path::new("/an/image"));
        // QEMU's lines come first, so that the image's later lines exceed the limit and displace
        // them.
        console.listen("device", Source::Qemu, &b"first\n/proc/self/fd/9 without an end"[..]).expect("a thread");
        console.last_words();
        let mut text = (0..100).map(|n| format!("line {n}\r\n\n")).collect::<String>().into_bytes();
        text.extend([b'x'; 1500]);
        console.listen("device", Source::Image, std::io::Cursor::new(text)).expect("a thread");
        let words = console.last_words();
        assert_eq!(
            words,
            format!("; QEMU printed `/an/image without an end`; its image printed last `{}`", "x".repeat(476))
        );
        let lines = console.lines();
        assert_eq!(lines.len(), KEPT);
        assert!(lines.contains(&(Source::Image, "line 99".into())), "{lines:?}");
    }

    #[test]
    fn console_does_not_wait_long_for_an_open_pipe() {
        let console = Console::new("/proc/self/fd/9", Path::new("/an/image"));
        let (reader, writer) = std::io::pipe().expect("a pipe");
        console.listen("device", Source::Qemu, reader).expect("a thread");
        assert_eq!(console.last_words_within(Duration::from_millis(200)), "");
        drop(writer);
    }
}
