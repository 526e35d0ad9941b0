//! Owns the words in braces that definitions may use, and replaces them by values. Does not depend on peers.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};

/// All words, so that definitions can be checked before anything runs.
const KNOWN: [&str; 25] = [
    "source",
    "parent",
    "name",
    "into",
    "bytes",
    "files",
    "file_bytes",
    "host",
    "host_name",
    "hosts",
    "port",
    "port2",
    "scratch",
    "cores",
    "streams",
    "user",
    "certificate",
    "key",
    "authorities",
    "ssh",
    "ssh_options",
    "ssh_port",
    "ssh_key",
    "ssh_known",
    "ssh_user",
];

/// Values by word.
#[derive(Debug, Default)]
pub(crate) struct Words(BTreeMap<&'static str, String>);

impl Words {
    /// Sets the value of a word.
    pub(crate) fn set(&mut self, word: &str, value: impl Into<String>) {
        let known = KNOWN.iter().find(|known| **known == word);
        debug_assert!(known.is_some(), "{word} is not in the list");
        if let Some(known) = known {
            self.0.insert(known, value.into());
        }
    }
}

/// Replaces all words in `line` by their values.
///
/// # Errors
/// A word has no value in this case.
pub(crate) fn fill(line: &str, words: &Words) -> anyhow::Result<String> {
    let mut filled = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, word, after)) = next(rest) {
        let value = words
            .0
            .get(word)
            .with_context(|| format!("{{{word}}} means nothing in this case"))?;
        filled.push_str(before);
        filled.push_str(value);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

/// Checks that all words are known.
pub(super) fn check(line: &str) -> anyhow::Result<()> {
    let mut rest = line;
    while let Some((_, word, after)) = next(rest) {
        if !KNOWN.contains(&word) {
            bail!("{{{word}}} is none of {}", KNOWN.join(", "));
        }
        rest = after;
    }
    ensure!(!line.trim().is_empty(), "an empty line");
    Ok(())
}

/// The text before the first word in braces, the word, and the rest. Braces around anything but lower-case letters, digits and underscores
/// belong to the shell or to a configuration.
fn next(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(open) = text[from..].find('{').map(|at| from + at) {
        let inner = &text[open + 1..];
        let of_word =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        let end = inner.find(|letter| !of_word(letter))?;
        if end > 0 && inner[end..].starts_with('}') {
            return Some((&text[..open], &inner[..end], &inner[end + 1..]));
        }
        from = open + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_filled_and_other_braces_stay() {
        let mut words = Words::default();
        words.set("host", "h");
        words.set("port", "1");
        let line = "x {host}:{port} { a; } ${PATH} {} http { server {port} }{host}";
        let filled = fill(line, &words).expect("filled");
        assert_eq!(filled, "x h:1 { a; } ${PATH} {} http { server 1 }h");
        assert!(fill("{into}", &words).is_err());
        assert!(check("{host} {nowhere}").is_err());
        assert!(check("{host} {").is_ok());
    }
}
