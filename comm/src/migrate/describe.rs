//! Types as text, built in constants: what a program needs that calls a handler which it does not
//! link (abi §10).
//!
//! Grammar: `u8` … `f64`, `bool`, `char`, `[T; N]`, `(T, U)`, `Option<T>`, `String<N>`, `Vec<T, N>`,
//! `BufferPtr<T>`, `Bits<N bytes>`; a struct `Name{a: T, b: U}`, its fields numbered where they have
//! no names; an enum `enum Name{A{}, B{0: T}}`; `?Name` is a type that only its own code encodes.

/// Longest description of a type.
const MAX: usize = 1024;

/// Text put together in a constant. One that grows too long becomes `?`: its handlers can be called
/// by all programs that link them.
pub struct Description {
    bytes: [u8; MAX],
    len: usize,
    is_cut: bool,
}

impl Description {
    /// Starts with `text`.
    pub const fn new(text: &str) -> Self {
        Self { bytes: [0; MAX], len: 0, is_cut: false }.then(text)
    }

    /// Appends text.
    pub const fn then(mut self, text: &str) -> Self {
        let text = text.as_bytes();
        if self.is_cut || text.len() > MAX - self.len {
            self.is_cut = true;
            return self;
        }
        let (_, rest) = self.bytes.split_at_mut(self.len);
        rest.split_at_mut(text.len()).0.copy_from_slice(text);
        self.len += text.len();
        self
    }

    /// Appends a number in decimal.
    pub const fn then_number(self, n: usize) -> Self {
        let ahead = if n >= 10 { self.then_number(n / 10) } else { self };
        match core::str::from_utf8(&[b'0' + (n % 10) as u8]) {
            Ok(text) => ahead.then(text),
            Err(_) => ahead,
        }
    }

    /// Appends texts with ", " between them.
    pub const fn then_list(mut self, texts: &[&str]) -> Self {
        let mut i = 0;
        while i < texts.len() {
            self = if i == 0 { self } else { self.then(", ") };
            self = self.then(texts[i]);
            i += 1;
        }
        self
    }

    /// Appends `{name: type, …}`; the texts are names and types in turn.
    pub const fn then_fields(mut self, names_and_types: &[&str]) -> Self {
        self = self.then("{");
        let mut i = 0;
        while i + 1 < names_and_types.len() {
            self = if i == 0 { self } else { self.then(", ") };
            self = self.then(names_and_types[i]).then(": ").then(names_and_types[i + 1]);
            i += 2;
        }
        self.then("}")
    }

    /// The text.
    pub const fn as_str(&self) -> &str {
        if self.is_cut {
            return "?";
        }
        super::text_of(self.bytes.split_at(self.len).0)
    }
}

#[cfg(test)]
mod tests {
    use crate::{BufferPtr, Migratable};

    #[derive(crate::Migratable)]
    #[allow(dead_code)]
    struct Pair<T> {
        left: T,
        right: [BufferPtr<f32>; 2],
    }
    #[derive(crate::Migratable)]
    #[allow(dead_code)]
    enum Shape {
        Point,
        Circle(f64),
        Text { of: heapless::String<8> },
    }
    #[derive(crate::Migratable)]
    struct Unit;

    fn of<T: Migratable>() -> &'static str {
        T::DESCRIPTION
    }

    #[test]
    fn descriptions_show_fields_and_variants() {
        assert_eq!(of::<Pair<(u8, bool)>>(), "Pair{left: (u8, bool), right: [BufferPtr<f32>; 2]}");
        assert_eq!(of::<Shape>(), "enum Shape{Point{}, Circle{0: f64}, Text{of: String<8>}}");
        assert_eq!(of::<(Unit, Option<heapless::Vec<char, 3>>)>(), "(Unit{}, Option<Vec<char, 3>>)");
    }

    #[test]
    fn a_description_that_is_too_long_is_opaque() {
        type Wide = (Pair<u8>, Pair<u8>, Pair<u8>, Pair<u8>, Pair<u8>, Pair<u8>, Pair<u8>, Pair<u8>);
        assert!(of::<Wide>().len() > 300);
        assert_eq!(of::<(Wide, Wide, Wide, Wide)>(), "?");
    }
}
