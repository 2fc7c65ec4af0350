//! How values of options are written.

use crate::WaitMode;
use crate::link::Protocol;
use hamr_comm::abi::rings::LogLevel;
use std::time::Duration;

/// `64M`: bytes, or with K, M or G.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let units = [('K', 10), ('M', 20), ('G', 30)];
    let unit = units.into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
    let (number, shift) = unit.unwrap_or((text, 0));
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A type of fields.
pub(super) trait Value: Sized {
    const VALUES: &'static str;
    fn parse(text: &str) -> Option<Self>;
    fn show(&self) -> String;
}

impl Value for u32 {
    const VALUES: &'static str = "a number";
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

/// Streams.
impl Value for Option<u32> {
    const VALUES: &'static str = "a number, or auto: one for each processor, from 8 on";
    fn parse(text: &str) -> Option<Self> {
        if text == "auto" { Some(None) } else { Value::parse(text).map(Some) }
    }
    fn show(&self) -> String {
        self.map_or_else(|| "auto".into(), |number| number.show())
    }
}

impl Value for usize {
    const VALUES: &'static str = "a number";
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for u64 {
    const VALUES: &'static str = "bytes, or with K, M or G";
    fn parse(text: &str) -> Option<Self> {
        bytes(text)
    }
    fn show(&self) -> String {
        match self.trailing_zeros() {
            20..30 => format!("{}M", self >> 20),
            30..64 => format!("{}G", self >> 30),
            _ => self.to_string(),
        }
    }
}

impl Value for bool {
    const VALUES: &'static str = "true or false";
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for Duration {
    const VALUES: &'static str = "a time such as 300us, 50ms or 1.5s";
    fn parse(text: &str) -> Option<Self> {
        let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
        let (number, unit) = units.into_iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
        Self::try_from_secs_f64(number.parse::<f64>().ok()? * unit).ok()
    }
    fn show(&self) -> String {
        format!("{self:?}").replace('µ', "u")
    }
}

impl Value for Option<Duration> {
    const VALUES: &'static str = "a time such as 300us, 50ms or 1.5s, or none";
    fn parse(text: &str) -> Option<Self> {
        if text == "none" { Some(None) } else { Value::parse(text).map(Some) }
    }
    fn show(&self) -> String {
        self.map_or_else(|| "none".into(), |time| time.show())
    }
}

/// A processor.
impl Value for Option<usize> {
    const VALUES: &'static str = crate::process::PROCESSORS;
    fn parse(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(None);
        }
        Value::parse(text).filter(|cpu| crate::process::is_processor(*cpu)).map(Some)
    }
    fn show(&self) -> String {
        self.map_or_else(|| "none".into(), |number| number.show())
    }
}

impl Value for LogLevel {
    const VALUES: &'static str = "error, warn, info, debug or trace";
    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == text)
    }
    fn show(&self) -> String {
        self.name().into()
    }
}

/// Those that a program chooses among.
impl Value for Option<Protocol> {
    const VALUES: &'static str = "auto, mapped, split, host-driven or device-driven";
    fn parse(text: &str) -> Option<Self> {
        if text == "auto" {
            return Some(None);
        }
        text.parse().ok().map(Some)
    }
    fn show(&self) -> String {
        self.map_or_else(|| "auto".into(), |protocol| protocol.to_string())
    }
}

impl Value for WaitMode {
    const VALUES: &'static str = "spin, adaptive or sleep";
    fn parse(text: &str) -> Option<Self> {
        [Self::Spin, Self::Adaptive, Self::Sleep].into_iter().find(|mode| mode.show() == text)
    }
    fn show(&self) -> String {
        format!("{self:?}").to_lowercase()
    }
}
