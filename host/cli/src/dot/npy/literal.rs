//! A parser for the Python literal in an `.npy` header: a dict with three known keys. It accepts
//! only what such a dict contains.

/// Longest shape that is read; NumPy's own limit is 64.
const MAX_DIMENSIONS: usize = 64;

/// The dict.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Raw {
    /// Data type. A structured one, which is a list, reads as its source text.
    pub(super) descr: String,
    /// Sizes of the dimensions.
    pub(super) shape: Vec<u64>,
}

/// A shape as Python writes it.
pub(super) fn tuple(shape: &[u64]) -> String {
    match shape {
        [one] => format!("({one},)"),
        many => format!("({})", many.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Parses the header's text; the error names what was found instead.
pub(super) fn parse(text: &str) -> Result<Raw, String> {
    let mut at = Cursor { rest: text };
    let (mut descr, mut fortran_order, mut shape) = (None, None, None);
    at.expect('{')?;
    while !at.skip('}') {
        let key = at.string()?;
        at.expect(':')?;
        let twice = match key {
            "descr" => descr.replace(at.descr()?).is_some(),
            "fortran_order" => fortran_order.replace(at.boolean()?).is_some(),
            "shape" => shape.replace(at.shape()?).is_some(),
            other => return Err(format!("an unknown key '{}'", super::shown(other))),
        };
        if twice {
            return Err(format!("the key '{key}' twice"));
        }
        if !at.skip(',') && !at.peek('}') {
            return Err(at.found());
        }
    }
    if !at.rest.trim().is_empty() {
        return Err(at.found());
    }
    let missing = |key| format!("no key '{key}'");
    // A vector, which alone is read, has one order.
    fortran_order.ok_or_else(|| missing("fortran_order"))?;
    Ok(Raw { descr: descr.ok_or_else(|| missing("descr"))?, shape: shape.ok_or_else(|| missing("shape"))? })
}

struct Cursor<'t> {
    rest: &'t str,
}

impl<'t> Cursor<'t> {
    fn trim(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn peek(&mut self, c: char) -> bool {
        self.trim();
        self.rest.starts_with(c)
    }

    fn skip(&mut self, c: char) -> bool {
        self.trim();
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, c: char) -> Result<(), String> {
        if self.skip(c) { Ok(()) } else { Err(format!("{} where '{c}' should stand", self.found())) }
    }

    fn found(&mut self) -> String {
        self.trim();
        if self.rest.is_empty() {
            "its end too early".into()
        } else {
            format!("`{}`", super::shown(self.rest.trim_end()))
        }
    }

    /// A string in either kind of quotes, with Python 2's `u` in front or not. No escapes: none of the accepted
    /// strings needs one.
    fn string(&mut self) -> Result<&'t str, String> {
        self.trim();
        if self.rest.starts_with("u'") || self.rest.starts_with("u\"") {
            self.skip('u');
        }
        let quote = self.rest.chars().next().filter(|c| matches!(c, '\'' | '"'));
        let inside = quote.and_then(|q| self.rest.strip_prefix(q)?.split_once(q));
        let Some((text, rest)) = inside else { return Err(format!("{} where a string should stand", self.found())) };
        self.rest = rest;
        Ok(text)
    }

    fn boolean(&mut self) -> Result<bool, String> {
        self.trim();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(format!("{} where True or False should stand", self.found()))
    }

    /// A string, or the list that describes a structured type.
    fn descr(&mut self) -> Result<String, String> {
        if !self.peek('[') {
            return self.string().map(str::to_owned);
        }
        let mut depth = 0usize;
        for (i, c) in self.rest.char_indices() {
            match c {
                '[' | '(' => depth += 1,
                ']' | ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                let (list, rest) = self.rest.split_at(i + 1);
                self.rest = rest;
                return Ok(list.to_owned());
            }
        }
        Err("a list without an end".into())
    }

    fn shape(&mut self) -> Result<Vec<u64>, String> {
        let mut shape = Vec::new();
        self.expect('(')?;
        let mut comma = true;
        while !self.skip(')') {
            if !comma || shape.len() == MAX_DIMENSIONS {
                return Err(format!("{} in the shape", self.found()));
            }
            shape.push(self.number()?);
            comma = self.skip(',');
        }
        // `(3)` is a number in Python, not a tuple.
        if shape.len() == 1 && !comma { Err("a shape that is no tuple".into()) } else { Ok(shape) }
    }

    fn number(&mut self) -> Result<u64, String> {
        self.trim();
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        if digits.is_empty() {
            return Err(format!("{} where a size should stand", self.found()));
        }
        let number = digits.parse().map_err(|_| format!("a size of {} digits", digits.len()))?;
        // Python 2 wrote long integers with this suffix.
        self.rest = rest.strip_prefix('L').unwrap_or(rest);
        Ok(number)
    }
}
