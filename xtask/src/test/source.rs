//! Rust source with its comments and literals blanked out, so that a search finds code only. A lexer of the few forms
//! that can hide or fake a word; a parser would need the code to be valid, and would skip what a `cfg` turns off.

/// One file, taken apart. Both texts have the lines of the original; what belongs to the other is blank.
pub(crate) struct Source {
    /// Everything but comments and literals.
    pub(crate) code: String,
    /// The comments.
    pub(crate) comments: String,
}

impl Source {
    /// Takes the text of a file apart.
    pub(crate) fn new(text: &str) -> Self {
        let source = Self { code: String::with_capacity(text.len()), comments: String::with_capacity(text.len()) };
        let mut lexer = Lexer { rest: text, source, previous: ' ' };
        while !lexer.rest.is_empty() {
            lexer.step();
        }
        lexer.source
    }
}

/// Whether the character can be part of a word.
pub(crate) fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

struct Lexer<'a> {
    rest: &'a str,
    source: Source,
    /// The character before `rest`: an `r` inside a word opens no raw string.
    previous: char,
}

impl<'a> Lexer<'a> {
    fn step(&mut self) {
        if self.rest.starts_with("//") {
            let length = self.rest.find('\n').unwrap_or(self.rest.len());
            self.comment(length);
        } else if self.rest.starts_with("/*") {
            self.comment(block_comment(self.rest));
        } else if self.rest.starts_with('"') {
            self.literal(string(self.rest));
        } else if let Some(length) = self.raw_string() {
            self.literal(length);
        } else if let Some(length) = character(self.rest) {
            self.literal(length);
        } else if let Some(next) = self.rest.chars().next() {
            self.source.code.push(next);
            self.source.comments.push(blank(next));
            self.previous = next;
            self.rest = &self.rest[next.len_utf8()..];
        }
    }

    fn comment(&mut self, length: usize) {
        let text = self.take(length);
        self.source.code.extend(text.chars().map(blank));
        self.source.comments.push_str(text);
    }

    fn literal(&mut self, length: usize) {
        let text = self.take(length);
        self.source.code.extend(text.chars().map(blank));
        self.source.comments.extend(text.chars().map(blank));
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.previous = ' ';
        self.rest = rest;
        taken
    }

    fn raw_string(&self) -> Option<usize> {
        let prefix = ["r", "br", "cr"].into_iter().find(|&prefix| self.rest.starts_with(prefix))?;
        if is_word(self.previous) {
            return None;
        }
        let after = &self.rest[prefix.len()..];
        let hashes = after.len() - after.trim_start_matches('#').len();
        let body = after[hashes..].strip_prefix('"')?;
        let close = format!("\"{}", "#".repeat(hashes));
        let end = body.find(&close).map_or(body.len(), |at| at + close.len());
        Some(prefix.len() + hashes + 1 + end)
    }
}

fn blank(character: char) -> char {
    if character == '\n' { '\n' } else { ' ' }
}

/// Length of the comment that opens here; they nest.
fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// Length of the string that opens here.
fn string(text: &str) -> usize {
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => drop(characters.next()),
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Length of the character literal that opens here; `None` when the quote opens a lifetime or is no quote.
fn character(text: &str) -> Option<usize> {
    let body = text.strip_prefix('\'')?;
    let first = body.chars().next()?;
    if first == '\\' {
        // What follows the backslash may itself be a quote.
        let escaped = 1 + body[1..].chars().next()?.len_utf8();
        return Some(1 + escaped + body[escaped..].find('\'')? + 1);
    }
    body[first.len_utf8()..].starts_with('\'').then(|| 1 + first.len_utf8() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words that are left.
    fn words(text: &str) -> Vec<String> {
        let Source { code, comments } = Source::new(text);
        assert_eq!(code.lines().count(), text.lines().count(), "lines moved: {code}");
        assert_eq!(comments.lines().count(), text.lines().count(), "lines moved: {comments}");
        code.split(|c| !is_word(c)).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn comments_are_blank() {
        assert_eq!(words("a // b\nc /* d /* e */ f\n */ g /// h\n"), ["a", "c", "g"]);
        assert_eq!(words("a /* never closed"), ["a"]);
    }

    #[test]
    fn comments_are_kept_apart() {
        let source = Source::new("a \"// b\" // c\n/* d */ e");
        assert_eq!(source.comments.split_whitespace().collect::<Vec<_>>(), ["//", "c", "/*", "d", "*/"]);
    }

    #[test]
    fn literals_are_blank() {
        assert_eq!(words(r#"a "b \" c" d"#), ["a", "d"]);
        assert_eq!(words("a r#\"b \" c\"# d"), ["a", "d"]);
        assert_eq!(words("a br\"b\\\" c c\"d\" e"), ["a", "c", "c", "e"]);
        assert_eq!(words("a \"b\nc\" d"), ["a", "d"]);
        assert_eq!(words(r"a '\'' b '\u{1f}' c 'ä' d"), ["a", "b", "c", "d"]);
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        assert_eq!(words("fn f<'a, 'b>(x: &'a u8) {}"), ["fn", "f", "a", "b", "x", "a", "u8"]);
        assert_eq!(words("r#unsafe for_r \"x\" y"), ["r", "unsafe", "for_r", "y"]);
        assert_eq!(words("match c { 'a' => 1, '\"' => 2 } // \""), ["match", "c", "1", "2"]);
    }
}
