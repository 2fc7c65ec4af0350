//! Messages that `hamr-gas` has no form of its own for: medium and long ones without payload, whose
//! kind or address would be lost. They travel as medium messages whose payload begins with a mark; a
//! program's payload that begins with it travels so, too.
//!
//! ```text
//! mark: 16 bytes · kind u64 · address u64 · the program's payload
//! ```

/// No text or number of a likely program.
const MARK: [u8; 16] = [0x9d, 0x3e, 0xf1, 0x07, 0x5b, 0xc4, 0x82, 0x6a, 0xe8, 0x11, 0xb7, 0x4f, 0xd5, 0x20, 0x96, 0x7c];
/// Bytes in front of the payload.
pub(crate) const FRONT: usize = 32;

/// What is inside.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Inside {
    /// A medium message, whose payload is behind the front.
    Medium,
    /// A long message without payload, and its address.
    EmptyLong(usize),
}

/// Does a payload of the program need an envelope?
pub(crate) fn needs(payload: &[u8]) -> bool {
    payload.is_empty() || payload.starts_with(&MARK)
}

/// The front of an envelope.
pub(crate) fn front(inside: Inside) -> [u8; FRONT] {
    let (kind, address) = match inside {
        Inside::Medium => (0, 0),
        Inside::EmptyLong(address) => (1u64, address as u64),
    };
    let mut front = [0; FRONT];
    let bytes = MARK.into_iter().chain(kind.to_le_bytes()).chain(address.to_le_bytes());
    front.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    front
}

/// What a payload that came has inside; `None`: it has no envelope.
pub(crate) fn open(payload: &[u8]) -> Option<Inside> {
    let front: &[u8; FRONT] = payload.first_chunk()?;
    if !front.starts_with(&MARK) {
        return None;
    }
    let word = |at: usize| front.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes);
    Some(if word(16) == 0 { Inside::Medium } else { Inside::EmptyLong(word(24) as usize) })
}
