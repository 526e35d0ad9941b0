//! Owns the rules for sentences in documents, comments and messages: their length, their first word, and unclear words.
//! Does not judge the meaning of a sentence.

mod blocks;
mod strings;

use blocks::{Block, markdown};

use super::Finding;
use super::tree::File;

/// Largest number of words in a sentence.
const WORDS_MAX: usize = 30;

/// Words and phrases with an unusual meaning; for each there is a common one.
const PRIVATE: [&str; 5] = [
    "told",
    "nobody",
    "somebody",
    "anew",
    concat!("of its", " own"),
];

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
        for Sentence { line, text } in sentences(blocks::of(file)) {
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
        assert_eq!(faults("docs/a.md", &format!("| a | {long} |\n")), NONE);
        assert_eq!(faults("docs/a.md", &format!("| a | {long} b |\n")), [1]);
        assert_eq!(faults("docs/a.md", &format!("| {long} | more |\n")), NONE);
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
    fn messages_of_the_product_are_prose_and_those_of_tests_are_not() {
        let text = "fn a() {\n    say(\"what is left of it goes away\");\n}\n";
        assert_eq!(faults("crates/a/src/a.rs", text), [2]);
        assert_eq!(faults("crates/a/tests/a.rs", text), NONE);
        assert_eq!(faults("crates/a/src/a/tests.rs", text), NONE);
        let few = "fn a() {\n    say(\"what is left\");\n}\n";
        assert_eq!(faults("crates/a/src/a.rs", few), NONE);
    }

    #[test]
    fn comments_of_python_and_typescript_are_prose() {
        let text = "\"\"\"Owns a.\n\nWhat is left goes.\n\"\"\"\n# Nobody waits.\nx = \"\"\"\nWho asks waits.\n\"\"\"\n";
        assert_eq!(faults("python/a.py", text), [5, 3]);
        let text = "// Owns a.\n/** What is left. */\nconst told = 1;\n";
        assert_eq!(faults("ui/src/a.ts", text), [2]);
        assert_eq!(faults("ui/src/a.svelte", text), [2]);
    }

    #[test]
    fn comments_of_scripts_and_manifests_are_prose() {
        let text =
            "#!/usr/bin/env bash\n# What is left goes.\necho \"What is left\" # Nobody waits.\n";
        assert_eq!(faults("scripts/a.sh", text), [2]);
        for path in ["crates/a/Cargo.toml", "a/alerts.yml", "a/a.service"] {
            assert_eq!(faults(path, "# Who asks waits.\n"), [1], "{path}");
        }
        assert_eq!(faults("docs/a.proto", "// Who asks waits.\n"), [1]);
    }

    #[test]
    fn private_words_are_found_outside_code() {
        assert_eq!(faults("docs/a.md", "The node is told.\n"), [1]);
        assert_eq!(faults("docs/a.md", "The function `told` returns.\n"), NONE);
        assert_eq!(faults("x/a.rs", "// Nobody\n// waits.\n"), [1]);
        assert_eq!(faults("x/a.rs", "// Somebody waits.\n"), [1]);
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
