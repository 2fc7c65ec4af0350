//! Numbers and text for people.

use std::str::FromStr;
use std::time::Duration;

/// Bytes with a binary unit, three digits or so: `48 B`, `64.0 MiB`.
pub fn bytes(n: u64) -> String {
    let (unit, shift) = match n {
        0..1024 => return format!("{n} B"),
        1024..0x10_0000 => ("KiB", 10),
        0x10_0000..0x4000_0000 => ("MiB", 20),
        _ => ("GiB", 30),
    };
    format!("{:.1} {unit}", n as f64 / (1u64 << shift) as f64)
}

/// A time with the unit that keeps it short: `812 ns`, `1.24 µs`, `3.10 ms`, `2.00 s`.
pub fn duration(t: Duration) -> String {
    let ns = t.as_nanos() as f64;
    match t.as_nanos() {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.2} µs", ns / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}

/// A number of an argument; clap's own parser says only that a digit is invalid.
///
/// # Errors
/// What was expected.
pub fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "expected a whole number in range".to_string())
}

/// The text as one line: a message may contain a peer's text or a file's name, with any characters
/// in it.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.trim().chars() {
        match c {
            '\n' if line.ends_with(' ') => {}
            '\n' => line.push(' '),
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_short() {
        assert_eq!((bytes(0), bytes(1023), bytes(1024)), ("0 B".into(), "1023 B".into(), "1.0 KiB".into()));
        assert_eq!(bytes(64 << 20), "64.0 MiB");
        assert_eq!(bytes(u64::MAX), "17179869184.0 GiB");
        assert_eq!(duration(Duration::from_nanos(812)), "812 ns");
        assert_eq!(duration(Duration::from_nanos(1_240)), "1.24 µs");
        assert_eq!(duration(Duration::from_millis(3)), "3.00 ms");
        assert_eq!(duration(Duration::from_secs(2)), "2.00 s");
    }

    #[test]
    fn a_message_stays_on_its_line() {
        assert_eq!(one_line("a\nb\u{1b}[2J\r"), "a b\\u{1b}[2J");
    }
}
