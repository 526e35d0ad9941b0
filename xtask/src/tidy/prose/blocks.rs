//! Owns the text of documents, comments and messages: which lines of a file are prose, by its language.
//! Does not divide the text into sentences.

use super::strings;
use crate::tidy::tree::File;

/// The lines of one text, and the number of each line.
pub(super) type Block = Vec<(usize, String)>;

/// All prose of a file whose language is known.
pub(super) fn of(file: &File) -> Vec<Block> {
    let text = &file.text;
    match file.path.rsplit('.').next() {
        Some("md") => {
            let mut blocks = markdown(text);
            blocks.extend(cells(text));
            blocks
        }
        Some("rs") => {
            let mut blocks = comments(text, &["///", "//!", "//"]);
            if is_product(&file.path) {
                blocks.extend(strings::messages(text));
            }
            blocks
        }
        Some("ts" | "mjs" | "svelte") => comments(text, &["/**", "//", "* ", "/*"]),
        Some("proto") => comments(text, &["//"]),
        Some("sh" | "toml" | "yml" | "service") => comments(text, &["#"]),
        Some("py") => {
            let mut blocks = comments(text, &["#"]);
            blocks.extend(docstrings(text));
            blocks
        }
        _ => Vec::new(),
    }
}

/// Whether a path is Rust that users run, and no test.
fn is_product(path: &str) -> bool {
    path.starts_with("crates/")
        && path.contains("/src/")
        && !path.starts_with("crates/testkit/")
        && !path.starts_with("crates/worlds/")
        && !path.contains("/tests/")
        && !path.ends_with("tests.rs")
}

/// The paragraphs and list items of a Markdown document, without code, tables and headings.
pub(super) fn markdown(text: &str) -> Vec<Block> {
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

/// The cells of the tables of a Markdown document.
fn cells(text: &str) -> Vec<Block> {
    let mut is_code = false;
    let mut blocks = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        is_code ^= line.starts_with("```");
        if is_code || !line.starts_with('|') {
            continue;
        }
        let row = without_code(&line.replace("\\|", " "));
        blocks.extend(
            row.split('|')
                .map(|cell| vec![(index + 1, cell.to_owned())]),
        );
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

/// The comments whose lines begin with one of the signs.
fn comments(text: &str, signs: &[&str]) -> Vec<Block> {
    let mut blocks = vec![Block::new()];
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        let comment = signs
            .iter()
            .find_map(|sign| line.trim_start().strip_prefix(sign));
        let Some(comment) = comment.map(|comment| comment.trim_end_matches("*/").trim()) else {
            is_code = false;
            blocks.push(Block::new());
            continue;
        };
        let is_fence = comment.starts_with("```");
        is_code ^= is_fence;
        // The first line of a script names its interpreter.
        let is_apart = is_table(comment) || comment.is_empty() || comment.starts_with("!/");
        if is_fence || is_code || is_apart {
            blocks.push(Block::new());
            continue;
        }
        push(&mut blocks, index + 1, comment);
    }
    blocks
}

/// The docstrings of Python source: the texts in three quotation marks that begin a line. Other such texts are data.
fn docstrings(text: &str) -> Vec<Block> {
    const SIGN: &str = "\"\"\"";
    let mut blocks = vec![Block::new()];
    let (mut is_inside, mut is_prose) = (false, false);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let begins = !is_inside && line.starts_with(SIGN);
        is_prose |= begins;
        if begins {
            blocks.push(Block::new());
        }
        let part = line.trim_start_matches(SIGN);
        let part = part.split(SIGN).next().unwrap_or_default().trim();
        if is_prose && !part.is_empty() && !part.ends_with("::") {
            push(&mut blocks, index + 1, part);
        } else {
            blocks.push(Block::new());
        }
        is_inside ^= line.matches(SIGN).count() % 2 == 1;
        is_prose &= is_inside;
    }
    blocks
}

/// A line in which one word replaces each piece of code and each target of a link.
pub(super) fn without_code(line: &str) -> String {
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
