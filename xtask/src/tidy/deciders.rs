//! Owns the rule that each source file in the tables of `docs/security.md` exists. Does not check that the
//! file really decides the matter in the table.

use std::collections::BTreeSet;

use super::Finding;
use super::tree::File;

const DOCUMENT: &str = "docs/security.md";

/// Checks the names of source files in the document. The names are code spans, so renderers do not turn
/// them into links.
pub(crate) fn check(files: &[File], findings: &mut Vec<Finding>) {
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    for file in files.iter().filter(|file| file.path == DOCUMENT) {
        for (index, line) in file.text.lines().enumerate() {
            for name in line.split('`').skip(1).step_by(2) {
                if name.ends_with(".rs") && !ways(name).iter().any(|way| paths.contains(&**way)) {
                    let what = format!("no such source file: {name}");
                    findings.push(Finding::new(&file.path, index + 1, what));
                }
            }
        }
    }
}

/// The files that a name may stand for: the document omits `crates`, and `src` after the name of the crate.
fn ways(name: &str) -> Vec<String> {
    let below = name
        .split_once('/')
        .map(|(of, path)| format!("crates/{of}/src/{path}"));
    let mut ways = vec![name.to_owned(), format!("crates/{name}")];
    ways.extend(below);
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decider_is_a_file_that_exists() {
        let file = |path: &str, text: &str| File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let text =
            "1 | may | `web/logins.rs`, `web/gone.rs`\n2 | `a` | `web/tests/api/rights.rs`\n";
        let files = [
            file(DOCUMENT, text),
            file("crates/web/src/logins.rs", ""),
            file("crates/web/tests/api/rights.rs", ""),
        ];
        let mut findings = Vec::new();
        check(&files, &mut findings);
        let wanted = Finding::new(DOCUMENT, 1, "no such source file: web/gone.rs");
        assert_eq!(findings, [wanted]);
    }

    /// Without its table the document would name no file, and the rule would find no fault.
    #[test]
    fn every_decider_of_the_table_is_numbered_and_named() {
        let path = godwit_kit::bench::workspace().join(DOCUMENT);
        let text = std::fs::read_to_string(path).expect("the document");
        let mut rows = text
            .lines()
            .skip_while(|line| *line != "no. | decides | in");
        rows.nth(1).expect("a table");
        let rows = rows.take_while(|line| line.contains(" | "));
        let mut count = 0;
        for (row, number) in rows.zip(1..) {
            let cells: Vec<&str> = row.split(" | ").collect();
            assert_eq!(cells[0], number.to_string(), "{row}");
            assert!(cells[2].contains(".rs`"), "{row}");
            count = number;
        }
        assert!(count > 0, "no decider");
        let subjects = text
            .lines()
            .skip_while(|line| !line.starts_with("subject | "));
        let subjects: String = subjects
            .skip(2)
            .take_while(|line| line.contains(" | "))
            .collect();
        for number in subjects
            .split(['(', ')'])
            .skip(1)
            .step_by(2)
            .flat_map(|cell| cell.split(", "))
        {
            let is_there = number
                .parse::<i32>()
                .is_ok_and(|number| (1..=count).contains(&number));
            assert!(is_there, "no decider {number}");
        }
    }
}
