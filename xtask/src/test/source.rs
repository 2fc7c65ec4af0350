//! Rust source with its comments and literals blanked out, so that a search finds code only. The
//! text is split into tokens and not parsed: a parser would skip the bodies of macros, and the
//! compiler skips code that a `cfg` disables.

use proc_macro2::{LexError, Span, TokenStream, TokenTree};

/// One file, split in two texts. Both have the lines of the original; each is blank where the other
/// has text.
pub(crate) struct Source {
    /// Everything but comments and literals.
    pub(crate) code: String,
    /// The comments.
    pub(crate) comments: String,
}

impl Source {
    /// Splits the text of a file.
    pub(crate) fn new(text: &str) -> Result<Self, LexError> {
        let mut parts = Parts { text, code: text.as_bytes().to_vec(), comments: text.as_bytes().to_vec() };
        blank(&mut parts.code);
        parts.take(text.parse()?);
        // Tokens begin and end between characters, so neither text has a part of a character.
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Self { code: text(parts.code), comments: text(parts.comments) })
    }
}

/// Whether the character can be part of a word.
pub(crate) fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

struct Parts<'a> {
    text: &'a str,
    code: Vec<u8>,
    comments: Vec<u8>,
}

impl Parts<'_> {
    fn take(&mut self, tokens: TokenStream) {
        for token in tokens {
            let range = token.span().byte_range();
            // To the compiler, documentation is an attribute, and each of its tokens has the
            // position of the comment.
            if self.text[range.clone()].starts_with("//") || self.text[range.clone()].starts_with("/*") {
                continue;
            }
            match token {
                TokenTree::Group(group) => {
                    self.code(group.span_open());
                    self.take(group.stream());
                    self.code(group.span_close());
                }
                TokenTree::Literal(_) => blank(&mut self.comments[range]),
                TokenTree::Ident(_) | TokenTree::Punct(_) => self.code(token.span()),
            }
        }
    }

    fn code(&mut self, span: Span) {
        let range = span.byte_range();
        self.code[range.clone()].copy_from_slice(self.text[range.clone()].as_bytes());
        blank(&mut self.comments[range]);
    }
}

fn blank(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().filter(|byte| **byte != b'\n') {
        *byte = b' ';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words that are left.
    fn words(text: &str) -> Vec<String> {
        let Source { code, comments } = Source::new(text).expect("tokens");
        assert_eq!(code.lines().count(), text.lines().count(), "lines moved: {code}");
        assert_eq!(comments.lines().count(), text.lines().count(), "lines moved: {comments}");
        code.split(|c| !is_word(c)).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn comments_are_blank() {
        assert_eq!(words("a // b\nc /* d /* e */ f\n */ g /// h\n"), ["a", "c", "g"]);
        assert_eq!(words("//! a\n/** b */ c /*! d */"), ["c"]);
    }

    #[test]
    fn comments_are_kept_apart() {
        let source = Source::new("/// f\na \"// b\" // c\n/* d */ e").expect("tokens");
        assert_eq!(source.comments.split_whitespace().collect::<Vec<_>>(), ["///", "f", "//", "c", "/*", "d", "*/"]);
    }

    #[test]
    fn bodies_of_macros_are_code() {
        assert_eq!(words("macro_rules! m { ($e:expr) => { unsafe { $e } } }")[3..], ["expr", "unsafe", "e"]);
    }

    #[test]
    fn text_that_is_no_rust_is_an_error() {
        for text in ["a /* never closed", "a \"b", "fn f() {", "'"] {
            assert!(Source::new(text).is_err(), "{text}");
        }
    }

    #[test]
    fn literals_are_blank() {
        assert_eq!(words(r#"a "b \" c" d"#), ["a", "d"]);
        assert_eq!(words("a r#\"b \" c\"# d"), ["a", "d"]);
        assert_eq!(words("a br\"b\\\" c c\"d\" e"), ["a", "c", "e"]);
        assert_eq!(words("a \"b\nc\" d"), ["a", "d"]);
        assert_eq!(words(r"a '\'' b '\u{1f}' c 'ä' d"), ["a", "b", "c", "d"]);
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        assert_eq!(words("fn f<'a, 'b>(x: &'a u8) {}"), ["fn", "f", "a", "b", "x", "a", "u8"]);
        assert_eq!(words("r#unsafe for_r \"x\" y"), ["r", "unsafe", "for_r", "y"]);
        assert_eq!(words("match c { 'a' => 1, '\"' => 2 } // \""), ["match", "c"]);
    }
}
