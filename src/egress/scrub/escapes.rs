//! Text with its escapes undone, byte for byte, as it comes.

/// A byte of text, and the bytes of the original that stand for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) byte: u8,
    /// Where the original begins and ends, in bytes from the very start.
    pub(super) start: u64,
    pub(super) end: u64,
}

/// Longest escape, in bytes.
const LONGEST: usize = 8;

/// Undoes one layer of escapes: of URLs (`%41`), of JSON and scripts (`\u0041`, `\x41`, `\/`) and of
/// HTML (`&#65;`, `&#x41;`, `&amp;`). Line breaks are left out, so that what was folded is whole.
#[derive(Default)]
pub(super) struct Escapes {
    /// What may yet become an escape.
    waiting: Vec<Token>,
}

/// What the first bytes of a text are.
enum Begin {
    /// The first one stands for itself.
    Literal,
    /// More must come to know.
    Unknown,
    /// So many stand for this byte, or for none.
    Escape(usize, Option<u8>),
}

impl Escapes {
    /// Whether a byte that comes now is in no escape, as most are.
    pub(super) fn passes(&self, byte: u8) -> bool {
        self.waiting.is_empty() && !matches!(byte, b'%' | b'\\' | b'&' | b'\r' | b'\n')
    }

    /// Takes a byte, and tells what is known by now.
    pub(super) fn push(&mut self, token: Token, tell: &mut impl FnMut(Token)) {
        self.waiting.push(token);
        self.settle(false, tell);
    }

    /// Tells what waits: no more comes.
    pub(super) fn end(&mut self, tell: &mut impl FnMut(Token)) {
        self.settle(true, tell);
    }

    /// Where what waits begins.
    pub(super) fn waiting_since(&self) -> Option<u64> {
        self.waiting.first().map(|token| token.start)
    }

    fn settle(&mut self, is_end: bool, tell: &mut impl FnMut(Token)) {
        while let Some(first) = self.waiting.first().copied() {
            let mut bytes = [0; LONGEST];
            let length = self.waiting.len().min(LONGEST);
            for (byte, token) in bytes.iter_mut().zip(&self.waiting) {
                *byte = token.byte;
            }
            let (length, byte) = match begin(&bytes[..length]) {
                Begin::Unknown if !is_end => return,
                Begin::Unknown | Begin::Literal => (1, Some(first.byte)),
                Begin::Escape(length, byte) => (length, byte),
            };
            let end = self.waiting[length - 1].end;
            self.waiting.drain(..length);
            if let Some(byte) = byte {
                tell(Token { byte, start: first.start, end });
            }
        }
    }
}

/// What `text`, which is not empty, begins with.
fn begin(text: &[u8]) -> Begin {
    match text {
        [b'\r' | b'\n', ..] => Begin::Escape(1, None),
        [b'%', rest @ ..] => hexadecimal(1, rest, 2),
        [b'\\'] => Begin::Unknown,
        [b'\\', b'u', rest @ ..] => hexadecimal(2, rest, 4),
        [b'\\', b'x', rest @ ..] => hexadecimal(2, rest, 2),
        [b'\\', b'r' | b'n', ..] => Begin::Escape(2, None),
        // No others: a backslash before `%` or `&` stands for itself, and those begin an escape.
        [b'\\', other @ (b'"' | b'\'' | b'/' | b'\\'), ..] => Begin::Escape(2, Some(*other)),
        [b'&', rest @ ..] => reference(rest),
        _ => Begin::Literal,
    }
}

/// An escape of `before` bytes and `digits` hexadecimal ones.
fn hexadecimal(before: usize, rest: &[u8], digits: usize) -> Begin {
    let given = &rest[..rest.len().min(digits)];
    if !given.iter().all(u8::is_ascii_hexdigit) {
        return Begin::Literal;
    }
    if given.len() < digits {
        return Begin::Unknown;
    }
    // What is not ASCII is in no secret.
    number(given, 16).map_or(Begin::Literal, |byte| Begin::Escape(before + digits, Some(byte)))
}

/// A reference of HTML, without its `&`.
fn reference(rest: &[u8]) -> Begin {
    let Some(end) = rest.iter().position(|byte| *byte == b';') else {
        let open = rest.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'#');
        return if open && rest.len() + 1 < LONGEST { Begin::Unknown } else { Begin::Literal };
    };
    let byte = match &rest[..end] {
        b"amp" => Some(b'&'),
        b"lt" => Some(b'<'),
        b"gt" => Some(b'>'),
        b"quot" => Some(b'"'),
        b"apos" => Some(b'\''),
        [b'#', b'x' | b'X', digits @ ..] => number(digits, 16),
        [b'#', digits @ ..] => number(digits, 10),
        _ => None,
    };
    byte.map_or(Begin::Literal, |byte| Begin::Escape(end + 2, Some(byte)))
}

fn number(digits: &[u8], radix: u32) -> Option<u8> {
    let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    u32::from_str_radix(digits, radix).ok().and_then(|number| u8::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undone(text: &str) -> String {
        let (mut escapes, mut plain) = (Escapes::default(), Vec::new());
        for (at, byte) in (0_u64..).zip(text.bytes()) {
            escapes.push(Token { byte, start: at, end: at + 1 }, &mut |token| plain.push(token.byte));
        }
        escapes.end(&mut |token| plain.push(token.byte));
        String::from_utf8(plain).unwrap()
    }

    #[test]
    fn escapes_become_what_they_stand_for_and_the_rest_stays() {
        for (text, plain) in [
            ("plain", "plain"),
            ("%41%62c%2F%2f", "Abc//"),
            (r#"\u0041\x42\/\"\\u"#, r#"AB/"\u"#),
            ("&#65;&#x42;&amp;&quot;", "AB&\""),
            ("a\r\nb\\nc\\r\\nd", "abcd"),
            ("100%", "100%"),
            ("%4", "%4"),
            (r"\%41\&amp;", r"\A\&"),
            ("%4g%%41", "%4g%A"),
            (r"\u004", r"\u004"),
            (r"\q\", r"\q\"),
            ("a&b;&#300;&#;&unknown;&am", "a&b;&#300;&#;&unknown;&am"),
            ("%25%34%31", "%41"),
        ] {
            assert_eq!(undone(text), plain, "{text}");
        }
    }
}
