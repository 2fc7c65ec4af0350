//! The hash of source tokens. By it, a host sees that its image was built from another body.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

const START: u64 = 0xCBF2_9CE4_8422_2325;

/// FNV-1a like `hamr_shared_abi::table::hash` (the tests of the workspace compare the two;
/// depending on that crate from here would build it a second time for every cross build).
fn more(state: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(state, |state, byte| (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3))
}

/// Hash of tokens, each followed by a zero byte. Token by token and not of the printed stream,
/// whose spaces depend on the compiler's version and on how the source is laid out.
pub(crate) fn hash(tokens: TokenStream) -> u64 {
    walk(START, tokens)
}

fn walk(mut state: u64, tokens: TokenStream) -> u64 {
    for token in tokens {
        state = match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                one(walk(one(state, open), group.stream()), close)
            }
            other => one(state, &other.to_string()),
        };
    }
    state
}

fn one(state: u64, text: &str) -> u64 {
    if text.is_empty() { state } else { more(more(state, text.as_bytes()), &[0]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_depends_on_tokens_and_not_on_layout() {
        let of = |text: &str| hash(text.parse().expect("tokens"));
        assert_eq!(of("fn f ( ) { a+b }"), of("fn f() {\n    a + b // why\n}"));
        assert_ne!(of("{ a + b }"), of("{ a - b }"));
        assert_ne!(of("{ ab }"), of("{ a b }"));
        assert_ne!(of("(a)"), of("[a]"));
        assert_eq!(more(START, b"foobar"), 0x8594_4171_F739_67E8, "the published FNV-1a");
    }
}
