//! Owns the rule for the names of functions, tests included: a name does not begin with a question word.
//! Does not judge other names.

use super::Finding;
use super::tree::File;

/// A name that begins with one of these hides its subject.
const FIRST: [&str; 4] = ["what_", "who_", "whoever_", "whose_"];

/// Checks the functions of Rust and of Python.
pub(crate) fn check(files: &[File], findings: &mut Vec<Finding>) {
    for file in files {
        let keyword = if file.is_rust() {
            "fn "
        } else if file.path.ends_with(".py") {
            "def "
        } else {
            continue;
        };
        for (index, line) in file.text.lines().enumerate() {
            if let Some(name) = name_of(line, keyword)
                && is_riddle(name)
            {
                let what =
                    format!("`{name}`: name the subject, as in `a_killed_node_returns_its_jobs`");
                findings.push(Finding::new(&file.path, index + 1, what));
            }
        }
    }
}

/// The name of the function that a line declares.
fn name_of<'a>(line: &'a str, keyword: &str) -> Option<&'a str> {
    let (before, after) = line.split_once(keyword)?;
    let is_declaration = before
        .chars()
        .all(|letter| letter.is_alphabetic() || " ()".contains(letter));
    let end = after.find(|letter: char| !letter.is_alphanumeric() && letter != '_')?;
    is_declaration.then_some(&after[..end])
}

fn is_riddle(name: &str) -> bool {
    let name = name.strip_prefix("test_").unwrap_or(name);
    FIRST.iter().any(|word| name.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let (path, text) = (path.to_owned(), text.to_owned());
        let mut findings = Vec::new();
        check(&[File { path, text }], &mut findings);
        findings.into_iter().map(|finding| finding.line).collect()
    }

    const NONE: [usize; 0] = [];

    #[test]
    fn a_name_of_a_function_begins_with_its_subject() {
        for word in FIRST {
            let rust = format!("#[test]\nfn {word}waits() {{\n}}\n");
            assert_eq!(lines("crates/a/tests/a.rs", &rust), [2], "{word}");
            let inner = format!("    pub(crate) async fn {word}waits(&self) {{\n");
            assert_eq!(lines("crates/a/src/a.rs", &inner), [1], "{word}");
            let python = format!("def test_{word}waits():\n    pass\n");
            assert_eq!(lines("python/tests/test_a.py", &python), [1], "{word}");
            assert_eq!(lines("docs/a.md", &rust), NONE, "{word}");
        }
        let fine = "fn a_node_that_waits_says_what_it_waits_for() {\nfn whole_files() {\n";
        assert_eq!(lines("crates/a/tests/a.rs", fine), NONE);
        let text = "    let text = \"fn what_is_text() {\";\n// The old fn what_was() {\n";
        assert_eq!(lines("crates/a/tests/a.rs", text), NONE);
    }
}
