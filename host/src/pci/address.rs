//! The address of a function on the bus: domain, bus, device, function.

use std::fmt;
use std::str::FromStr;

/// `0000:00:01.0`, hexadecimal but for the function; the domain may be left out and is then 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

/// The text is no address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotAnAddress;

impl FromStr for Address {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        let (rest, function) = text.rsplit_once('.').ok_or(NotAnAddress)?;
        let (rest, device) = rest.rsplit_once(':').ok_or(NotAnAddress)?;
        let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
        // Domains beyond 16 bits exist: functions behind some storage controllers are numbered from
        // 0x10000.
        let number = |text: &str, digits: usize, limit: u32| {
            let is_hex = !text.is_empty() && text.len() <= digits && text.bytes().all(|b| b.is_ascii_hexdigit());
            let value = u32::from_str_radix(text, 16).ok().filter(|_| is_hex)?;
            (value <= limit).then_some(value)
        };
        Ok(Self {
            domain: number(domain, 8, u32::MAX).ok_or(NotAnAddress)?,
            bus: number(bus, 2, 0xFF).ok_or(NotAnAddress)? as u8,
            device: number(device, 2, 0x1F).ok_or(NotAnAddress)? as u8,
            function: number(function, 1, 7).ok_or(NotAnAddress)? as u8,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_forms_name_the_same_function() {
        for (text, whole) in [
            ("00:01.0", "0000:00:01.0"),
            ("0:1.0", "0000:00:01.0"),
            ("0000:00:01.0", "0000:00:01.0"),
            ("10000:E1:1f.7", "10000:e1:1f.7"),
        ] {
            assert_eq!(text.parse::<Address>().map(|a| a.to_string()), Ok(whole.into()), "{text}");
        }
    }

    #[test]
    fn a_malformed_address_is_refused() {
        for text in
            ["", "1", "01.0", ":1.0", "00:01", "00:01.8", "00:20.0", "100:01.0", "0:0:0:1.0", "00:+1.0", "x:y.z"]
        {
            assert_eq!(text.parse::<Address>(), Err(NotAnAddress), "{text}");
        }
    }
}
