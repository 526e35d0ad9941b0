//! Owns the rules for sentences in documents and comments: their length, their first word, and unclear words. Does not judge the meaning of
//! a sentence.

use super::Finding;
use super::tree::File;

/// Largest number of words in a sentence.
const WORDS_MAX: usize = 30;

/// Words and phrases with an unusual meaning; for each there is a common one.
const PRIVATE: [&str; 4] = ["told", "nobody", "anew", concat!("of its", " own")];

/// A clause that begins with these words hides the subject of the sentence.
const FIRST: [&str; 3] = ["What", "Who", "Whoever"];

/// A sentence, and the line in which it begins.
#[derive(Debug, PartialEq, Eq)]
struct Sentence {
    line: usize,
    text: String,
}

/// Checks the sentences of all files.
pub(crate) fn check(files: &[File], findings: &mut Vec<Finding>) {
    for file in files {
        let sentences = if file.path.ends_with(".md") {
            sentences(markdown(&file.text))
        } else if file.is_rust() {
            sentences(comments(&file.text))
        } else {
            continue;
        };
        for Sentence { line, text } in sentences {
            if let Some(what) = fault(&text) {
                findings.push(Finding::new(&file.path, line, format!("{what}: {text}")));
            }
        }
    }
}

/// The rule that a sentence breaks.
fn fault(sentence: &str) -> Option<String> {
    let words: Vec<&str> = sentence
        .split_whitespace()
        .filter(|word| word.chars().any(char::is_alphanumeric))
        .collect();
    if words.len() > WORDS_MAX {
        return Some(format!("{} words; at most {WORDS_MAX}", words.len()));
    }
    let is_question = sentence.trim_end_matches(['*', '_', ')']).ends_with('?');
    if let Some(first) = words.first().filter(|first| FIRST.contains(first))
        && !is_question
    {
        return Some(format!("begins with `{first}`: name the subject"));
    }
    let lower = format!(" {} ", sentence.to_lowercase()).replace(
        |letter: char| !letter.is_alphanumeric() && letter != '\'',
        " ",
    );
    let private = PRIVATE
        .iter()
        .find(|word| lower.contains(&format!(" {word} ")))?;
    Some(format!("`{private}`: use a plain word"))
}

/// The lines of one text, and the number of each line.
type Block = Vec<(usize, String)>;

/// The paragraphs and list items of a Markdown document, without code, tables and headings.
fn markdown(text: &str) -> Vec<Block> {
    let mut blocks = vec![Block::new()];
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let is_fence = trimmed.starts_with("```");
        is_code ^= is_fence;
        let is_indented =
            line.starts_with("    ") && blocks.last().is_none_or(|block| block.is_empty());
        let is_apart = is_fence || is_code || is_indented || is_table(trimmed);
        if is_apart || trimmed.is_empty() || trimmed.starts_with(['<', '#']) {
            blocks.push(Block::new());
            continue;
        }
        push(&mut blocks, index + 1, trimmed);
    }
    blocks
}

/// Whether a line is a row of a table.
fn is_table(line: &str) -> bool {
    line.starts_with('|') || line.contains(" | ")
}

/// Adds a line to the last block, or to a new block if the line is a list item.
fn push(blocks: &mut Vec<Block>, number: usize, line: &str) {
    let item = item(line);
    if item.len() < line.len() {
        blocks.push(Block::new());
    }
    if let Some(block) = blocks.last_mut() {
        block.push((number, without_code(item)));
    }
}

/// A line without the mark of a list item or a quotation.
fn item(line: &str) -> &str {
    let number = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    if number.len() < line.len()
        && let Some(rest) = number.strip_prefix(". ")
    {
        return rest;
    }
    ["- ", "* ", "+ ", "> "]
        .iter()
        .find_map(|sign| line.strip_prefix(sign))
        .unwrap_or(line)
}

/// The comments of Rust source.
fn comments(text: &str) -> Vec<Block> {
    let mut blocks = vec![Block::new()];
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        let comment = ["///", "//!", "//"]
            .iter()
            .find_map(|sign| line.trim_start().strip_prefix(sign));
        let Some(comment) = comment.map(str::trim_start) else {
            is_code = false;
            blocks.push(Block::new());
            continue;
        };
        let is_fence = comment.starts_with("```");
        is_code ^= is_fence;
        if is_fence || is_code || is_table(comment) || comment.is_empty() {
            blocks.push(Block::new());
            continue;
        }
        push(&mut blocks, index + 1, comment);
    }
    blocks
}

/// A line in which one word replaces each piece of code and each target of a link.
fn without_code(line: &str) -> String {
    let mut text = String::new();
    for (index, part) in line.split('`').enumerate() {
        text.push_str(if index % 2 == 0 { part } else { "code" });
    }
    let mut parts = text.split("](");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push(']');
        out.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    out
}

/// The sentences of blocks. A sentence ends at a full stop, a question mark, an exclamation mark or a colon before a space, and with its block.
fn sentences(blocks: Vec<Block>) -> Vec<Sentence> {
    let mut found = Vec::new();
    for block in blocks {
        let mut open: Option<Sentence> = None;
        for (line, text) in block {
            for word in text.split_whitespace() {
                let sentence = open.get_or_insert_with(|| Sentence {
                    line,
                    text: String::new(),
                });
                if !sentence.text.is_empty() {
                    sentence.text.push(' ');
                }
                sentence.text.push_str(word);
                let end = word.trim_end_matches(['*', '_', ')', '"', ']']);
                if end.ends_with(['.', '?', '!', ':', ';']) && !is_abbreviation(end) {
                    found.extend(open.take());
                }
            }
        }
        found.extend(open);
    }
    found
}

fn is_abbreviation(word: &str) -> bool {
    ["e.g.", "i.e.", "etc.", "vs.", "…"].contains(&word.trim_start_matches('('))
}

/// The reading ease of a document by Flesch, from 0 (hard) to 100 (easy): 206.835 − 1.015 × words a sentence − 84.6 × syllables a word.
/// The source is Rudolf Flesch, "A new readability yardstick", Journal of Applied Psychology 32 (1948).
pub(crate) fn ease(text: &str) -> f64 {
    let sentences = sentences(markdown(text));
    let words: Vec<String> = sentences
        .iter()
        .flat_map(|sentence| sentence.text.split_whitespace())
        .map(|word| {
            word.to_lowercase()
                .replace(|letter: char| !letter.is_alphabetic(), "")
        })
        .filter(|word| !word.is_empty())
        .collect();
    let count = |count: usize| count.max(1) as f64;
    let syllables: usize = words.iter().map(|word| syllables(word)).sum();
    206.835
        - 1.015 * words.len() as f64 / count(sentences.len())
        - 84.6 * syllables as f64 / count(words.len())
}

/// Number of vowel groups in a word, without a silent `e` at its end.
fn syllables(word: &str) -> usize {
    let is_vowel = |letter: char| "aeiouy".contains(letter);
    let mut before = false;
    let mut groups = 0;
    for letter in word.chars() {
        groups += usize::from(is_vowel(letter) && !before);
        before = is_vowel(letter);
    }
    let silent = word.ends_with('e') && !word.ends_with("le");
    groups.saturating_sub(usize::from(silent)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<usize> {
        let mut findings = Vec::new();
        let file = File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        check(&[file], &mut findings);
        findings.into_iter().map(|finding| finding.line).collect()
    }

    const NONE: [usize; 0] = [];

    #[test]
    fn a_sentence_has_at_most_thirty_words() {
        let long = "word ".repeat(WORDS_MAX);
        assert_eq!(faults("docs/a.md", &format!("{long}\n")), NONE);
        assert_eq!(
            faults("docs/a.md", &format!("A b.\n\n{long}\nmore.\n")),
            [3]
        );
        assert_eq!(
            faults("docs/a.md", &format!("```\n{long} more\n```\n")),
            NONE
        );
        assert_eq!(faults("docs/a.md", &format!("a | {long} more\n")), NONE);
        assert_eq!(faults("docs/a.md", &format!("- {long}\n- more\n")), NONE);
        assert_eq!(faults("x/a.rs", &format!("// {long}\n// more.\n")), [1]);
    }

    #[test]
    fn a_sentence_names_its_subject() {
        assert_eq!(faults("docs/a.md", "A file. What is left goes.\n"), [1]);
        assert_eq!(faults("docs/a.md", "## What is left\n"), NONE);
        assert_eq!(faults("x/a.rs", "/// Who asks waits.\nfn a() {}\n"), [1]);
        assert_eq!(faults("x/a.rs", "/// Whole files.\nfn a() {}\n"), NONE);
    }

    #[test]
    fn private_words_are_found_outside_code() {
        assert_eq!(faults("docs/a.md", "The node is told.\n"), [1]);
        assert_eq!(faults("docs/a.md", "The function `told` returns.\n"), NONE);
        assert_eq!(faults("x/a.rs", "// Nobody\n// waits.\n"), [1]);
        assert_eq!(faults("x/a.rs", "fn told() {}\n"), NONE);
    }

    #[test]
    fn short_words_in_short_sentences_are_easy() {
        let easy = ease("The node sends the file. The file is safe.\n");
        let hard =
            ease("Administratively heterogeneous infrastructures necessitate authentication.\n");
        assert!(easy > 80.0 && hard < 0.0, "{easy} {hard}");
    }
}
