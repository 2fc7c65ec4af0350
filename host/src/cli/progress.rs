//! A progress bar for long transfers.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Shorter transfers show no bar.
const SHOW_AFTER: Duration = Duration::from_secs(1);

/// A bar on standard error that appears when a transfer has lasted over a second, and only on a
/// terminal.
pub struct Progress {
    what: &'static str,
    total: u64,
    done: u64,
    begin: Instant,
    bar: Option<ProgressBar>,
    wanted: bool,
}

impl Progress {
    /// For `total` bytes.
    pub fn new(what: &'static str, total: u64) -> Self {
        let wanted = std::io::stderr().is_terminal();
        Self { what, total, done: 0, begin: Instant::now(), bar: None, wanted }
    }

    /// Adds bytes that were moved.
    pub fn add(&mut self, bytes: u64) {
        self.done += bytes;
        if self.bar.is_none() && self.wanted && self.begin.elapsed() > SHOW_AFTER {
            self.bar = Some(self.show());
        }
        if let Some(bar) = &self.bar {
            bar.set_position(self.done);
        }
    }

    fn show(&self) -> ProgressBar {
        let template = "{msg} {wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::new(self.total).with_style(style).with_message(self.what).with_elapsed(self.begin.elapsed())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
