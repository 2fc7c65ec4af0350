//! The signature of a handler as text, in the image's file and in no device's memory (abi §10).

use crate::handler::{Entry, Handler, HandlerResult};
use crate::migrate::Migratable;

/// Longest record. A handler whose record is longer has none.
const MAX: usize = 4096;

/// What a program's file has of a handler. One constant, so that the compiler reports once what is
/// wrong with a handler's types.
pub struct Described {
    /// Its entry in the table.
    pub entry: Entry,
    record: [u8; MAX],
    len: usize,
}

impl Described {
    /// That of `H`.
    pub const fn of<H: Handler>() -> Self {
        let parts =
            [H::NAME, H::PARAMETERS, <H::Args as Migratable>::DESCRIPTION, <H::Output as HandlerResult>::DESCRIPTION];
        let mut described = Self { entry: Entry::of::<H>(), record: [0; MAX], len: 1 };
        described.record[0] = 1;
        let mut i = 0;
        while i < parts.len() {
            let part = parts[i].as_bytes();
            if part.len() >= MAX - described.len {
                described.len = 0;
                return described;
            }
            let (_, rest) = described.record.split_at_mut(described.len);
            rest.split_at_mut(part.len()).0.copy_from_slice(part);
            described.len += part.len() + 1;
            i += 1;
        }
        described
    }

    /// Bytes of the record.
    pub const fn record_len(&self) -> usize {
        self.len
    }

    /// The record, `N` bytes: a byte 1, then each part with a zero behind it.
    pub const fn record<const N: usize>(&self) -> [u8; N] {
        let mut record = [0; N];
        record.copy_from_slice(self.record.split_at(N).0);
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_names_and_types() {
        use crate::builtin::ping;
        const PING: Described = Described::of::<ping>();
        const LEN: usize = PING.record_len();
        assert_eq!(&PING.record::<LEN>(), b"\x01hamr_comm::registry::ping\0token\0(u64)\0u64\0");
        assert_eq!(PING.entry.name, "hamr_comm::registry::ping");
    }
}
