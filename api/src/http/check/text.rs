//! The text of a query, before it is parsed: its length, its tokens, its strings.

use std::collections::HashSet;

use engine::settings::RequestLimits;
use ranking::shown;

use crate::error::{Error, Result};

/// Checks a text. It follows the lexical grammar of GraphQL as far as counting needs it; the parser
/// judges everything else, but keeps only the last of two fields of an input object with one name.
///
/// # Errors
/// `LIMIT_EXCEEDED` if the text is too long, or has too many tokens or too long a string or name,
/// `BAD_USER_INPUT` if an input object has a field twice.
pub fn check(query: &str, limits: &RequestLimits) -> Result<()> {
    if query.len() > limits.query_bytes_max as usize {
        return Err(Error::limit_exceeded(format!(
            "the query has {} bytes: expected at most {}; send values as variables",
            query.len(),
            limits.query_bytes_max
        )));
    }
    let mut rest = query.as_bytes();
    let mut tokens = 0;
    let mut objects = Objects::default();
    while let Some((length, kind)) = next(rest) {
        if kind == Kind::Token {
            tokens += 1;
            objects.follow(&rest[..length])?;
        }
        if rest[0] == b'"' && length > limits.string_bytes_max as usize {
            return Err(Error::limit_exceeded(format!(
                "a string of the query has {length} bytes: expected at most {}",
                limits.string_bytes_max
            )));
        }
        if is_word(&rest[0]) && length > limits.name_bytes_max as usize {
            return Err(Error::limit_exceeded(format!(
                "a name or number of the query has {length} bytes: expected at most {}",
                limits.name_bytes_max
            )));
        }
        rest = &rest[length..];
    }
    if tokens > limits.tokens_max {
        return Err(Error::limit_exceeded(format!(
            "the query has {tokens} tokens: expected at most {}",
            limits.tokens_max
        )));
    }
    Ok(())
}

/// The input objects around a token. Within parentheses, braces are those of input objects.
#[derive(Default)]
struct Objects<'t> {
    parentheses: usize,
    /// The names of their fields so far.
    fields: Vec<HashSet<&'t [u8]>>,
    /// The token before, if it may be the name of a field.
    name: Option<&'t [u8]>,
}

impl<'t> Objects<'t> {
    fn follow(&mut self, token: &'t [u8]) -> Result<()> {
        let name = self.name.take();
        match token {
            b"(" => self.parentheses += 1,
            b")" => self.parentheses = self.parentheses.saturating_sub(1),
            b"{" if self.parentheses > 0 => self.fields.push(HashSet::new()),
            b"}" => drop(self.fields.pop()),
            b":" => {
                if let (Some(fields), Some(name)) = (self.fields.last_mut(), name)
                    && !fields.insert(name)
                {
                    return Err(Error::bad_input(format!(
                        "an input object has the field {} twice: expected it once",
                        shown(&String::from_utf8_lossy(name))
                    )));
                }
            }
            _ => self.name = Some(token),
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Token,
    /// White space, commas and comments.
    Ignored,
}

/// The length of what comes next, and whether it is a token.
fn next(text: &[u8]) -> Option<(usize, Kind)> {
    let run = |is_part: fn(&u8) -> bool| text.iter().take_while(|byte| is_part(byte)).count();
    let next = match text.first()? {
        b' ' | b'\t' | b'\r' | b'\n' | b',' => (1, Kind::Ignored),
        b'#' => (run(|byte| *byte != b'\n' && *byte != b'\r'), Kind::Ignored),
        b'"' => (string(text), Kind::Token),
        b'.' => (run(|byte| *byte == b'.').min(3), Kind::Token),
        byte if is_word(byte) => (run(is_word), Kind::Token),
        _ => (1, Kind::Token),
    };
    Some(next)
}

/// A part of a name or a number.
fn is_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_'
}

/// The length of a string or block string with its quotes; to the end of the text if it has no end.
fn string(text: &[u8]) -> usize {
    const BLOCK: &[u8] = b"\"\"\"";
    // The only escape of a block is that of its quotes; elsewhere a backslash escapes any sign.
    let (quotes, escaped) = match text.starts_with(BLOCK) {
        true => (BLOCK, BLOCK),
        false => (&BLOCK[..1], &b""[..]),
    };
    let mut at = quotes.len();
    while at < text.len() {
        let rest = &text[at..];
        if rest[0] == b'\\' && rest[1..].starts_with(escaped) {
            at += 1 + escaped.len().max(1);
        } else if rest.starts_with(quotes) {
            return at + quotes.len();
        } else {
            at += 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::check::cost::tests::limits;

    fn tokens(text: &str) -> usize {
        let mut rest = text.as_bytes();
        let mut tokens = 0;
        while let Some((length, kind)) = next(rest) {
            tokens += usize::from(kind == Kind::Token);
            rest = &rest[length..];
        }
        tokens
    }

    #[test]
    fn an_input_object_has_each_field_once() {
        let is_refused = |text: &str| check(text, &limits()).is_err();
        assert!(is_refused("{ a(b: { c: 1, c: 2 }) }"));
        assert!(is_refused("{ a(b: [{ c: 1 }, { d: { e: 1 }, c: 1, d: 2 }]) }"));
        assert!(is_refused("query($b: B = { c: 1, c: 1 }) { a(b: $b) }"));
        assert!(!is_refused(
            "{ a(b: { c: { c: 1 }, d: \"c:\" }) { a: c a: c } b(b: { c: c }) { c } }"
        ));
        assert!(!is_refused(
            "query($a: A = { b: 1 }, $b: A = { b: 1 }) { a(b: [{ c: $a }, { c: $b }]) }"
        ));
    }

    #[test]
    fn tokens_are_counted_as_the_grammar_has_them() {
        assert_eq!(tokens(""), 0);
        assert_eq!(tokens(" , # a b c\n"), 0);
        assert_eq!(tokens("{ a(b: \"x y\", c: -1.5) ...f @d }"), 18);
        assert_eq!(tokens(r#"{ a(b: """one "two" \""" three""") }"#), 8);
        assert_eq!(tokens(r#"{ a(b: "\"") }"#), 8);
        assert_eq!(tokens(r#"{ a(b: """c\""") d }"#), 6);
        assert_eq!(tokens(r#"{ a(b: """c\"" d\\e""") d }"#), 9);
        assert_eq!(tokens("\"no end"), 1);
        assert_eq!(tokens("\"no end\\"), 1);
        assert_eq!(tokens("ä"), 2);
    }
}
