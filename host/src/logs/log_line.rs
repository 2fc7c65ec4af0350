//! One line of a device's log.

use super::LogLevel;
use crate::text::Clean;
use serde::Serialize;

/// One line of a device's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogLine {
    /// How severe it is; `None` for lines without a level (`println`).
    #[serde(serialize_with = "level_name")]
    pub level: Option<LogLevel>,
    /// Device time in microseconds since its reset or start; 0 until the device knows its clock.
    /// `None` for images without time.
    pub time_us: Option<u64>,
    /// The module of the statement; the crate when the file has no debug information.
    pub module: String,
    /// The text of the message.
    pub message: String,
    /// Source file; empty when the image's file has no debug information.
    pub file: String,
    /// Line in it.
    pub line: u32,
}

impl LogLine {
    /// Time, level, message, module, for a narrow screen: what does not fit is the module.
    #[cfg(feature = "cli")]
    pub(crate) fn brief(&self) -> String {
        format!("{}  {}  ({})", self.head(), Clean(&self.message), Clean(&self.module))
    }

    /// Time and level.
    fn head(&self) -> String {
        let time = self.time_us.map_or_else(String::new, |us| format!("{}.{:06}", us / 1_000_000, us % 1_000_000));
        format!("{time:>12}  {:<5}", self.level.map_or("", LogLevel::name).to_uppercase())
    }
}

/// A row: time, level, module, message, location, aligned so that rows form columns. A device's
/// text cannot move the reader's cursor.
impl std::fmt::Display for LogLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { module, message, file, line, .. } = self;
        let clean = |text: &str| Clean(text).to_string();
        let (module, message, file) = (clean(module), clean(message), clean(file));
        let location = if file.is_empty() { String::new() } else { format!("  {file}:{line}") };
        write!(f, "{}  {module:<30}  {message:<56}{location}", self.head())
    }
}

fn level_name<S: serde::Serializer>(level: &Option<LogLevel>, to: S) -> Result<S::Ok, S::Error> {
    level.map(LogLevel::name).serialize(to)
}
