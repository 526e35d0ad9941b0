//! Owns the messages in Rust source: its string literals that are sentences. Does not check them.

use super::blocks::{Block, without_code};

/// A literal with fewer words is a name, a format or a part of one.
const WORDS_MIN: usize = 5;

/// Beginning of the tests of a module.
const TESTS: &str = "\n#[cfg(test)]\nmod tests {";

/// First words of a command to the database.
const SQL: [&str; 7] = [
    "SELECT ", "INSERT ", "UPDATE ", "DELETE ", "CREATE ", "WITH ", "PRAGMA ",
];

/// The string literals of a source, outside its tests, that have enough words for a sentence.
pub(super) fn messages(text: &str) -> Vec<Block> {
    let end = text.find(TESTS).unwrap_or(text.len());
    let mut scan = Scan {
        rest: &text[..end],
        line: 1,
    };
    let mut blocks = Vec::new();
    while let Some((line, literal)) = scan.literal() {
        let is_sql = SQL
            .iter()
            .any(|word| literal.trim_start().starts_with(word));
        let words = literal.split_whitespace();
        let words = words.filter(|word| word.starts_with(char::is_alphabetic));
        if is_sql || words.count() < WORDS_MIN {
            continue;
        }
        for (index, part) in literal.split('\n').enumerate() {
            // A line that begins with spaces is an example.
            if !part.starts_with("  ") {
                blocks.push(vec![(line + index, capital(&without_code(part)))]);
            }
        }
    }
    blocks
}

/// A text with a capital first letter: a message begins with a small one, and is a sentence all the same.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters.clone()).collect()
}

/// The source after the last literal.
struct Scan<'a> {
    rest: &'a str,
    line: usize,
}

impl Scan<'_> {
    /// The next string literal: its first line and its text, with a word in place of each value.
    fn literal(&mut self) -> Option<(usize, String)> {
        loop {
            let letter = self.rest.chars().next()?;
            if self.rest.starts_with("//") {
                self.skip(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if let Some(signs) = raw_signs(self.rest) {
                return Some(self.raw(signs));
            } else if letter == '"' {
                return Some(self.plain());
            } else if letter == '\'' {
                self.skip(character_bytes(self.rest));
            } else if letter.is_alphanumeric() || letter == '_' {
                let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
                let word = self.rest.find(|letter| !is_name(letter));
                self.skip(word.unwrap_or(self.rest.len()));
            } else {
                self.skip(letter.len_utf8());
            }
        }
    }

    fn skip(&mut self, bytes: usize) {
        self.line += self.rest[..bytes].matches('\n').count();
        self.rest = &self.rest[bytes..];
    }

    /// A raw literal with a number of signs.
    fn raw(&mut self, signs: usize) -> (usize, String) {
        let line = self.line;
        let open = self.rest.find('"').map_or(self.rest.len(), |at| at + 1);
        self.skip(open);
        let close = format!("\"{}", "#".repeat(signs));
        let bytes = self.rest.find(&close).unwrap_or(self.rest.len());
        let text = self.rest[..bytes].to_owned();
        self.skip(bytes);
        self.skip(close.len().min(self.rest.len()));
        (line, text)
    }

    /// A literal with escapes.
    fn plain(&mut self) -> (usize, String) {
        let line = self.line;
        let mut text = String::new();
        let mut letters = self.rest.char_indices().skip(1).peekable();
        let mut end = self.rest.len();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    end = at + 1;
                    break;
                }
                '\\' => match letters.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, '\n')) => {
                        while letters.next_if(|(_, next)| next.is_whitespace()).is_some() {}
                    }
                    Some((_, 'u')) => {
                        while letters.next_if(|(_, next)| *next != '}').is_some() {}
                        text.push('x');
                        letters.next();
                    }
                    Some((_, other)) => text.push(other),
                    None => {}
                },
                '{' => {
                    while letters.next_if(|(_, next)| *next != '}').is_some() {}
                    letters.next();
                    text.push_str("value");
                }
                other => text.push(other),
            }
        }
        self.skip(end);
        (line, text)
    }
}

/// The number of `#` of a raw literal that begins here.
fn raw_signs(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let signs = rest.len() - rest.trim_start_matches('#').len();
    rest[signs..].starts_with('"').then_some(signs)
}

/// The length of a character literal, or of the sign of a lifetime.
fn character_bytes(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1);
    match (letters.next(), letters.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let from = at + escaped.len_utf8();
            let end = text[from..].find('\'');
            end.map_or(text.len(), |end| from + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(usize, String)> {
        messages(text).into_iter().flatten().collect()
    }

    #[test]
    fn messages_are_the_literals_with_words() {
        let text = "//! Owns \"a text of a comment here\".\n\
            fn f<'a>(x: &'a str, y: char) {\n\
            let a = format!(\"the file {x} has no \\\n   end: {:?}\", 1);\n\
            let b = ['\"', '\\'', '\\u{1b}'];\n\
            let c = r#\"a raw \"text\" of five words\"#;\n\
            let d = \"SELECT a FROM b WHERE c IS NULL\";\n\
            let e = \"two words\";\n\
            #[cfg(test)]\n\
            mod tests {\n\
            let f = \"a text of a test that is long\";\n";
        let first = (3, "The file value has no end: value".to_owned());
        let second = (6, "A raw \"text\" of five words".to_owned());
        assert_eq!(found(text), [first, second]);
    }

    #[test]
    fn each_line_of_a_message_counts_alone() {
        let text = "\"the first line of it\\nthe second line\\n  godwit cp a b\"";
        let lines = [(1, "The first line of it"), (2, "The second line")];
        assert_eq!(
            found(text),
            lines.map(|(line, text)| (line, text.to_owned()))
        );
    }
}
