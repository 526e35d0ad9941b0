//! Owns the rules for a single file: its length, its first line, forbidden words. Does not compare files.

use super::Finding;
use super::tree::File;

/// Largest number of lines in a Rust file.
const LINES_MAX: usize = 500;

/// The only directory that may have unsafe code.
const UNSAFE_IN: &str = "crates/sys/";

/// Marks of unfinished work; each is written in two parts, so that this file passes.
const LEFT_FOR_LATER: [&str; 3] = [
    concat!("to", "do!("),
    concat!("unimpl", "emented!("),
    concat!("FIX", "ME"),
];

/// Home directories of people; the names in examples are allowed.
const HOMES: [&str; 3] = [
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
];
const EXAMPLE_USERS: [&str; 3] = ["alice", "bob", "user"];

/// The only allowed source of crates.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// Settings in cargo's files that select another registry.
const OTHER_REGISTRIES: [&str; 3] = ["[source.", "[registries.", "replace-with"];

/// Checks one file.
pub(crate) fn check(file: &File, findings: &mut Vec<Finding>) {
    if file.is_rust() {
        check_rust(file, findings);
    }
    let mut add = |line, what: String| findings.push(Finding::new(&file.path, line, what));
    for (index, line) in file.text.lines().enumerate() {
        for word in LEFT_FOR_LATER.iter().filter(|word| line.contains(**word)) {
            add(index + 1, format!("`{word}` was left behind"));
        }
        for home in HOMES {
            let mut homes = line.match_indices(home);
            if homes.any(|(at, _)| !is_example(&line[at + home.len()..])) {
                add(index + 1, format!("a path of one machine: `{home}…`"));
            }
        }
    }
    if file.path.ends_with("Cargo.lock") {
        for (index, line) in file.text.lines().enumerate() {
            let source = line.strip_prefix("source = ");
            if source.is_some_and(|source| source.trim_matches('"') != REGISTRY) {
                add(
                    index + 1,
                    "a crate from somewhere else than crates.io".to_owned(),
                );
            }
        }
    }
    if file.path.starts_with(".cargo/") || file.path.ends_with("Cargo.toml") {
        for (index, line) in file.text.lines().enumerate() {
            if OTHER_REGISTRIES
                .iter()
                .any(|sign| line.trim_start().starts_with(sign))
            {
                add(index + 1, "names a registry of its own".to_owned());
            }
        }
    }
}

fn is_example(rest: &str) -> bool {
    let name = rest
        .split(|next: char| !next.is_ascii_alphanumeric())
        .next()
        .unwrap_or_default();
    EXAMPLE_USERS.contains(&name)
}

fn check_rust(file: &File, findings: &mut Vec<Finding>) {
    let count = file.text.lines().count();
    if count > LINES_MAX {
        let what = format!("{count} lines; at most {LINES_MAX}");
        findings.push(Finding::new(&file.path, 0, what));
    }
    if !file.text.starts_with("//!") {
        let what = "the first line must say what the module owns: `//! Owns …`";
        findings.push(Finding::new(&file.path, 1, what));
    }
    if !file.path.starts_with(UNSAFE_IN) {
        for (index, line) in file.text.lines().enumerate() {
            if is_unsafe(line) {
                let what = format!("unsafe code belongs into {UNSAFE_IN}");
                findings.push(Finding::new(&file.path, index + 1, what));
            }
        }
    }
}

/// Whether a line of Rust has unsafe code, or allows it.
fn is_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let allows = ["allow(", "expect("].iter().any(|how| code.contains(how));
    let word = concat!("un", "safe");
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let rest = &code[at + word.len()..];
        let starts =
            !before.is_some_and(|before| before.is_alphanumeric() || "_\"`".contains(before));
        let follows = [" {", " fn", " impl", " extern", " trait", "("];
        starts
            && (follows.iter().any(|next| rest.starts_with(next))
                || (allows && rest.starts_with("_code")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn findings(path: &str, text: &str) -> Vec<(usize, String)> {
        let mut findings = Vec::new();
        check(
            &File {
                path: path.to_owned(),
                text: text.to_owned(),
            },
            &mut findings,
        );
        findings
            .into_iter()
            .map(|finding| (finding.line, finding.what))
            .collect()
    }

    fn lines(path: &str, text: &str) -> Vec<usize> {
        findings(path, text)
            .into_iter()
            .map(|(line, _)| line)
            .collect()
    }

    #[test]
    fn a_module_needs_its_first_line() {
        assert_eq!(lines("crates/a/src/lib.rs", "//! Owns a.\n"), NONE);
        assert_eq!(lines("crates/a/src/lib.rs", "\n//! Owns a.\n"), [1]);
        assert_eq!(lines("crates/a/src/lib.rs", ""), [1]);
        assert_eq!(lines("README.md", "# A\n"), NONE);
    }

    #[test]
    fn a_module_has_at_most_five_hundred_lines() {
        let full = format!("//! Owns a.\n{}", "\n".repeat(LINES_MAX - 1));
        assert_eq!(lines("crates/a/src/lib.rs", &full), NONE);
        assert_eq!(lines("crates/a/src/lib.rs", &format!("{full}\n")), [0]);
    }

    #[test]
    fn unsafe_code_is_found_and_words_are_not() {
        let word = concat!("un", "safe");
        for code in [
            format!("{word} {{ f() }}"),
            format!("pub {word} fn f() {{}}"),
            format!("#[{word}(no_mangle)]"),
            format!("#![allow({word}_code)]"),
        ] {
            let text = format!("//! Owns a.\n{code}\n");
            assert_eq!(lines("crates/a/src/lib.rs", &text), [2], "{code}");
            assert_eq!(lines("crates/sys/src/lib.rs", &text), NONE, "{code}");
        }
        for words in [
            format!("// {word} fn"),
            format!("deny({word}_code)"),
            format!("not_{word}("),
        ] {
            let text = format!("//! Owns a.\n{words}\n");
            assert_eq!(lines("crates/a/src/lib.rs", &text), NONE, "{words}");
        }
    }

    #[test]
    fn marks_of_unfinished_work_are_found_in_every_text() {
        for word in LEFT_FOR_LATER {
            assert_eq!(lines("docs/a.md", &format!("x\n{word}\n")), [2], "{word}");
        }
    }

    #[test]
    fn homes_are_found_unless_they_are_examples() {
        for home in HOMES {
            assert_eq!(
                lines("docs/a.md", &format!("see {home}carol/x\n")),
                [1],
                "{home}"
            );
            assert_eq!(
                lines("docs/a.md", &format!("see {home}alice/x\n")),
                NONE,
                "{home}"
            );
        }
    }

    #[test]
    fn crates_come_from_one_registry() {
        assert_eq!(
            lines("Cargo.lock", &format!("source = \"{REGISTRY}\"\n")),
            NONE
        );
        assert_eq!(
            lines("Cargo.lock", "source = \"git+https://example.org/a\"\n"),
            [1]
        );
        assert_eq!(
            lines(
                ".cargo/config.toml",
                "[source.crates-io]\nreplace-with = \"a\"\n"
            ),
            [1, 2]
        );
    }
}
