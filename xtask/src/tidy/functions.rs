//! Owns the bound on the length of a function, outside tests.
//! Understands functions as rustfmt leaves them: the last line of a function is a brace with the indentation of its first line.

use super::Finding;
use super::tree::File;

/// Lines of a body, without empty lines and comments.
const LINES_MAX: usize = 100;

/// Functions that are one table.
const TABLES: [(&str, &str); 1] = [("tools/wanlink/src/options.rs", "command")];

/// Checks all sources but tests.
pub(crate) fn check(files: &[File], findings: &mut Vec<Finding>) {
    let sources = files.iter().filter(|file| file.is_rust());
    for file in sources.filter(|file| is_source(&file.path)) {
        for found in functions(&file.text) {
            let is_table = TABLES.contains(&(file.path.as_str(), found.name));
            if found.lines > LINES_MAX && !is_table {
                let Function { name, lines, .. } = found;
                let what = format!("`{name}` has {lines} lines, at most {LINES_MAX}: split it");
                findings.push(Finding::new(&file.path, found.at, what));
            }
        }
    }
}

fn is_source(path: &str) -> bool {
    path.contains("/src/") && !path.contains("/tests/") && !path.ends_with("/tests.rs")
}

struct Function<'a> {
    name: &'a str,
    /// Line of its first line, counted from 1.
    at: usize,
    lines: usize,
}

fn functions(text: &str) -> Vec<Function<'_>> {
    let lines = text.lines().take_while(|line| *line != "#[cfg(test)]");
    let lines: Vec<&str> = lines.collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = name_of(line) else {
            continue;
        };
        let indent = &line[..line.len() - line.trim_start().len()];
        let rest = lines[at..].iter();
        let is_last = |line: &&str| line.strip_prefix(indent) == Some("}");
        let body = rest.skip_while(|line| !line.ends_with('{')).skip(1);
        let body = body.take_while(|line| !is_last(line));
        let is_code = |line: &&&str| {
            let line = line.trim_start();
            !line.is_empty() && !line.starts_with("//")
        };
        found.push(Function {
            name,
            at: at + 1,
            lines: body.filter(is_code).count(),
        });
    }
    found
}

/// The name of the function that begins in a line.
fn name_of(line: &str) -> Option<&str> {
    let (before, after) = line.trim_start().split_once("fn ")?;
    let is_qualifier = |word: &str| {
        let words = ["pub", "const", "async", "unsafe", "extern", "\"C\"", "in"];
        words.contains(&word) || word.starts_with("pub(") || word.ends_with(')')
    };
    let ends_here = line.ends_with(';') || line.ends_with('}');
    if ends_here || !before.split_whitespace().all(is_qualifier) {
        return None;
    }
    let end = after.find(|sign: char| !sign.is_alphanumeric() && sign != '_')?;
    Some(&after[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, lines: usize) -> File {
        let body = "        step();\n\n        // why\n".repeat(lines);
        let text = format!(
            "impl Long {{\n    pub(crate) fn long(\n        &self,\n    ) -> u32 {{\n{body}    }}\n\n    fn short(&self) {{\n    }}\n}}\n"
        );
        File {
            path: path.to_owned(),
            text,
        }
    }

    fn found(files: &[File]) -> Vec<String> {
        let mut findings = Vec::new();
        check(files, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_long_function_is_a_finding_outside_tests() {
        let long = file("crates/a/src/lib.rs", LINES_MAX + 1);
        let what = "crates/a/src/lib.rs:2: `long` has 101 lines, at most 100: split it";
        assert_eq!(found(&[long]), [what]);
        let fits = file("crates/a/src/lib.rs", LINES_MAX);
        let test = file("crates/a/src/b/tests.rs", LINES_MAX + 1);
        assert!(found(&[fits, test]).is_empty());
    }
}
