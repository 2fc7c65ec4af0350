//! Names built in constants: `my_kernels::fill<f64>` out of a path and the names of type arguments.

/// Longest name of a handler instance or of a composite type.
pub const MAX_NAME: usize = 240;

/// Text put together in a constant.
///
/// A buffer of fixed size, because the length of a generic type's name cannot be an array length on
/// stable Rust. Only names of generic instances and composite types pay for it; plain handlers have
/// string literals.
pub struct Name {
    bytes: [u8; MAX_NAME],
    len: usize,
}

impl Name {
    /// Starts with `text`.
    pub const fn new(text: &str) -> Self {
        Self { bytes: [0; MAX_NAME], len: 0 }.then(text)
    }

    /// Appends text. A name that grows too long stops the build: cut names could be equal.
    pub const fn then(mut self, text: &str) -> Self {
        let text = text.as_bytes();
        assert!(
            self.len + text.len() <= MAX_NAME,
            "the name of this handler instance is longer than 240 bytes: give the handler a shorter one with #[offload(name = \"…\")]"
        );
        let mut i = 0;
        while i < text.len() {
            self.bytes[self.len + i] = text[i];
            i += 1;
        }
        self.len += text.len();
        self
    }

    /// Appends a number in decimal.
    pub const fn then_number(self, n: usize) -> Self {
        let ahead = if n >= 10 { self.then_number(n / 10) } else { self };
        let digit = [b'0' + (n % 10) as u8];
        match core::str::from_utf8(&digit) {
            Ok(text) => ahead.then(text),
            Err(_) => ahead,
        }
    }

    /// Appends names with ", " between them.
    pub const fn then_list(mut self, names: &[&str]) -> Self {
        let mut i = 0;
        while i < names.len() {
            self = if i == 0 { self } else { self.then(", ") };
            self = self.then(names[i]);
            i += 1;
        }
        self
    }

    /// The text.
    pub const fn as_str(&self) -> &str {
        // Only whole strings were appended.
        text_of(self.bytes.split_at(self.len).0)
    }
}

/// The bytes of a text of `N` bytes.
pub const fn bytes_of<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(text.as_bytes());
    bytes
}

/// The text in `bytes`; empty if they are none.
pub const fn text_of(bytes: &[u8]) -> &str {
    match core::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BufferPtr, Migratable};

    #[test]
    fn names_read_like_the_types() {
        assert_eq!(Name::new("a").then_number(0).then_number(1907).as_str(), "a01907");
        assert_eq!(<(u8, [f64; 12])>::TYPE_NAME, "(u8, [f64; 12])");
        assert_eq!(<(u8,)>::TYPE_NAME, "(u8)");
        assert_eq!(Option::<BufferPtr<i32>>::TYPE_NAME, "Option<BufferPtr<i32>>");
        assert_eq!(heapless::Vec::<char, 8>::TYPE_NAME, "Vec<char, 8>");
    }

    #[test]
    fn a_name_survives_without_its_buffer() {
        const NAME: &str = <(u8, [f64; 12])>::TYPE_NAME;
        const BYTES: [u8; NAME.len()] = bytes_of(NAME);
        assert_eq!((text_of(&BYTES), BYTES.len()), ("(u8, [f64; 12])", 15));
        assert_eq!(text_of(&[0xFF]), "");
    }
}
