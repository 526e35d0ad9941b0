//! Parses patterns into parts, with the meaning of rsync. Does not match paths (`rules`).

/// A parsed pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// Where a match may begin.
    pub(crate) begins: Begins,
    /// Only directories match.
    pub(crate) directories_only: bool,
    /// The pattern ends in `/***` (or more stars), which is not among the parts: entries below a match also match.
    pub(crate) and_below: bool,
    /// The parts of a match, in order.
    pub(crate) parts: Vec<Part>,
}

/// Where in a path a match may begin; it always ends at the end of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begins {
    /// At the beginning of the path.
    AtRoot,
    /// At an imagined slash before the path.
    BeforeRoot,
    /// At the beginning of any component.
    Anywhere,
}

/// A part, which matches some bytes of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// This byte.
    Byte(u8),
    /// One byte of a class; never a slash.
    Class(Class),
    /// Any bytes except slashes.
    Star,
    /// Any bytes.
    Stars,
}

/// Some of the 256 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Class([u64; 4]);

/// Reason why bytes are not a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The pattern is empty without the slash at its end.
    #[error("it names nothing")]
    Empty,
    /// `[` without `]`.
    #[error("the bracket is not closed; for the character itself write \\[")]
    OpenClass,
    /// `[:name:]` with an unknown class name.
    #[error(
        "there is no class of this name; rsync's are alnum, alpha, blank, cntrl, digit, graph, lower, print, punct, space, upper, xdigit"
    )]
    UnknownClass,
    /// `\` at the end.
    #[error("the backslash at the end makes nothing ordinary; for the character itself write \\\\")]
    OpenEscape,
    /// A zero byte.
    #[error("it has a zero byte")]
    Nul,
}

impl Pattern {
    /// Parses a pattern.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, PatternError> {
        if bytes.contains(&0) {
            return Err(PatternError::Nul);
        }
        let (bytes, directories_only) = match bytes.strip_suffix(b"/") {
            Some(rest) => (rest, true),
            None => (bytes, false),
        };
        let (body, anchored) = match bytes.strip_prefix(b"/") {
            Some(rest) => (rest, true),
            None => (bytes, false),
        };
        if body.is_empty() {
            return Err(PatternError::Empty);
        }
        let stars = body.iter().rev().take_while(|byte| **byte == b'*').count();
        let (body, and_below) = match body[..body.len() - stars].strip_suffix(b"/") {
            Some(rest) if stars >= 3 && !rest.is_empty() => (rest, true),
            _ => (body, false),
        };
        let begins = if anchored {
            Begins::AtRoot
        } else if body.starts_with(b"**") {
            Begins::BeforeRoot
        } else {
            Begins::Anywhere
        };
        // As in rsync, a backslash stands for itself in a pattern without wildcards.
        let parts = if and_below || body.iter().any(|byte| b"*?[".contains(byte)) {
            parse_parts(body)?
        } else {
            body.iter().map(|byte| Part::Byte(*byte)).collect()
        };
        Ok(Self {
            begins,
            directories_only,
            and_below,
            parts,
        })
    }

    /// The bytes that the pattern matches, if it matches only one text.
    pub(crate) fn literal(&self) -> Option<Vec<u8>> {
        if self.and_below {
            return None;
        }
        self.parts
            .iter()
            .map(|part| match part {
                Part::Byte(byte) => Some(*byte),
                Part::Class(_) | Part::Star | Part::Stars => None,
            })
            .collect()
    }
}

fn parse_parts(mut rest: &[u8]) -> Result<Vec<Part>, PatternError> {
    let mut parts = Vec::new();
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        parts.push(match byte {
            b'*' => {
                let more = rest.iter().take_while(|byte| **byte == b'*').count();
                rest = &rest[more..];
                if more == 0 { Part::Star } else { Part::Stars }
            }
            b'?' => Part::Class(Class::ALL.without_slash()),
            b'[' => Part::Class(parse_class(&mut rest)?),
            b'\\' => {
                let (byte, tail) = rest.split_first().ok_or(PatternError::OpenEscape)?;
                rest = tail;
                Part::Byte(*byte)
            }
            other => Part::Byte(*other),
        });
    }
    Ok(parts)
}

/// Reads a class from after its `[` to its `]`.
fn parse_class(rest: &mut &[u8]) -> Result<Class, PatternError> {
    let mut class = Class::default();
    let negated = matches!(rest.first(), Some(b'!' | b'^'));
    if negated {
        take(rest)?;
    }
    // The previous byte, if it may begin a range.
    let mut before = None;
    let mut first = true;
    loop {
        let byte = take(rest)?;
        match byte {
            b']' if !first => break,
            b'-' if before.is_some() && rest.first().is_some_and(|next| *next != b']') => {
                let last = match take(rest)? {
                    b'\\' => take(rest)?,
                    last => last,
                };
                (before.take().unwrap_or(last)..=last).for_each(|byte| class.insert(byte));
            }
            b'[' if rest.first() == Some(&b':') => {
                before = match named_class(rest)? {
                    Some(named) => {
                        class.unite(named);
                        None
                    }
                    None => {
                        class.insert(b'[');
                        Some(b'[')
                    }
                };
            }
            byte => {
                let byte = if byte == b'\\' { take(rest)? } else { byte };
                class.insert(byte);
                before = Some(byte);
            }
        }
        first = false;
    }
    if negated {
        class = class.complement();
    }
    Ok(class.without_slash())
}

/// Reads `:name:]`; `None`, with nothing read, if the bracket does not begin a class name.
fn named_class(rest: &mut &[u8]) -> Result<Option<Class>, PatternError> {
    let inside = &rest[1..];
    let end = inside
        .iter()
        .position(|byte| *byte == b']')
        .ok_or(PatternError::OpenClass)?;
    let Some(name) = inside[..end].strip_suffix(b":") else {
        return Ok(None);
    };
    let holds: fn(&u8) -> bool = match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| byte.is_ascii_graphic() || *byte == b' ',
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return Err(PatternError::UnknownClass),
    };
    *rest = &inside[end + 1..];
    let mut class = Class::default();
    (0..=u8::MAX)
        .filter(holds)
        .for_each(|byte| class.insert(byte));
    Ok(Some(class))
}

fn take(rest: &mut &[u8]) -> Result<u8, PatternError> {
    let (byte, tail) = rest.split_first().ok_or(PatternError::OpenClass)?;
    *rest = tail;
    Ok(*byte)
}

impl Class {
    const ALL: Self = Self([u64::MAX; 4]);

    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn unite(&mut self, other: Self) {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word |= other;
        }
    }

    fn complement(self) -> Self {
        Self(self.0.map(|word| !word))
    }

    fn without_slash(mut self) -> Self {
        self.0[usize::from(b'/' >> 6)] &= !(1 << (b'/' & 63));
        self
    }

    pub(crate) fn holds(self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] & (1 << (byte & 63)) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn class(pattern: &str) -> Vec<u8> {
        let pattern = Pattern::parse(pattern.as_bytes()).unwrap();
        let [Part::Class(class)] = pattern.parts[..] else {
            panic!("{pattern:?}");
        };
        (0..=u8::MAX).filter(|byte| class.holds(*byte)).collect()
    }

    #[test]
    fn classes() {
        assert_eq!(class("[abc]"), b"abc");
        assert_eq!(class("[]a]"), b"]a");
        assert_eq!(class("[a-c-]"), b"-abc");
        assert_eq!(class("[a\\]-_]"), b"]^_a");
        assert_eq!(class("[[:digit:]x]"), b"0123456789x");
        assert_eq!(class("[[:]"), b":[");
        assert_eq!(class("[c-a]"), b"c");
        assert_eq!(class("[/]"), b"");
        assert_eq!(class("[!a]").len(), 254);
        assert_eq!(class("[^/]").len(), 255);
        assert_eq!(class("?").len(), 255);
    }

    #[test]
    fn an_invalid_pattern_is_refused_with_its_reason() {
        let cases: [(&[u8], PatternError); 9] = [
            (b"", PatternError::Empty),
            (b"/", PatternError::Empty),
            (b"a[b", PatternError::OpenClass),
            (b"a[", PatternError::OpenClass),
            (b"[]", PatternError::OpenClass),
            (b"[[:digit:]", PatternError::OpenClass),
            (b"[[:digits:]]", PatternError::UnknownClass),
            (b"*\\", PatternError::OpenEscape),
            (b"a\0", PatternError::Nul),
        ];
        for (pattern, error) in cases {
            assert_eq!(Pattern::parse(pattern), Err(error), "{pattern:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..40),
            odd in proptest::collection::vec(proptest::sample::select(&b"[]!^-:\\*?/a\x80"[..]), 0..20),
        ) {
            // Either result is fine; the parser must not panic.
            let _ = (Pattern::parse(&bytes), Pattern::parse(&odd));
        }
    }
}
