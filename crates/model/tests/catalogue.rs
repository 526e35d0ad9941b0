//! No program text has a code that the catalogue lacks, and no code is compared as text.
//! Reads the source files; the compiler checks the rest by types.

use std::fs;
use std::path::{Path, PathBuf};

use godwit_model::failure::FailureCode;

/// Source text that gives a code as text, or compares a code as text.
const AS_TEXT: [&str; 6] = [
    "of_word(\"",
    "FailureCode::parse(\"",
    "code.as_str() {",
    "code.as_str() ==",
    "code.as_str() !=",
    "code().as_str() ==",
];

/// The same in a source of the page.
const AS_TEXT_ON_PAGE: [&str; 4] = ["code === '", "code !== '", "code == '", "code != '"];

fn sources(directory: &Path, kinds: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, kinds, found);
        } else if path
            .extension()
            .is_some_and(|kind| kinds.iter().any(|known| kind == *known))
        {
            found.push(path);
        }
    }
}

#[test]
fn no_code_is_a_text_outside_the_catalogue() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for entry in fs::read_dir(crates).expect("the crates") {
        let source = entry.expect("a crate").path().join("src");
        if source.is_dir() {
            sources(&source, &["rs"], &mut found);
        }
    }
    assert!(found.len() > 500, "{} files", found.len());
    let mut wrong = Vec::new();
    for path in found.iter().filter(|path| !path.ends_with("tests.rs")) {
        let text = fs::read_to_string(path).expect("a source");
        let program = text.split("#[cfg(test)]\nmod tests {").next();
        for (number, line) in program.unwrap_or_default().lines().enumerate() {
            if AS_TEXT.iter().any(|sign| line.contains(sign)) {
                wrong.push(format!("{}:{}: {line}", path.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_codes_of_the_page_are_in_the_catalogue() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui/src");
    let codes = fs::read_to_string(page.join("lib/codes.ts")).expect("the codes");
    let words: Vec<&str> = codes.split('\'').skip(1).step_by(2).collect();
    assert!(words.contains(&"late_calls"), "{words:?}");
    for word in words {
        assert!(FailureCode::parse(word).is_some(), "{word}");
    }
    let mut found = Vec::new();
    sources(&page, &["ts", "svelte"], &mut found);
    assert!(found.len() > 50, "{} files", found.len());
    let mut wrong = Vec::new();
    for path in found {
        let text = fs::read_to_string(&path).expect("a source");
        for (number, line) in text.lines().enumerate() {
            if AS_TEXT_ON_PAGE.iter().any(|sign| line.contains(sign)) {
                wrong.push(format!("{}:{}: {line}", path.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
