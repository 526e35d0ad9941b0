//! Owns the bounds of each document: its largest number of words, and the least reading ease. Does not judge single sentences.

use super::tree::File;
use super::{Finding, prose};

/// The bounds of a document.
struct Bounds {
    path: &'static str,
    /// Details belong in the module comments, measurements in `docs/performance/results/`.
    words_max: usize,
    /// The recorded ease by Flesch, 0 to 100. A change of the document keeps or raises it.
    ease_min: u32,
}

const fn document(path: &'static str, words_max: usize, ease_min: u32) -> Bounds {
    Bounds {
        path,
        words_max,
        ease_min,
    }
}

/// All documents for readers; `cargo xtask ease` prints their figures of today.
const DOCUMENTS: [Bounds; 23] = [
    document("README.md", 900, 67),
    document("CONTRIBUTING.md", 1_200, 85),
    document("ARCHITECTURE.md", 2_500, 78),
    document("docs/buffer.md", 1_650, 79),
    document("docs/choosing.md", 1_200, 78),
    document("docs/coming-from.md", 1_700, 72),
    document("docs/decisions.md", 1_200, 50),
    document("docs/evaluate.md", 1_450, 80),
    document("docs/events.md", 1_100, 88),
    document("docs/flow.md", 600, 90),
    document("docs/guide.md", 5_000, 76),
    document("docs/manifest.md", 1_300, 73),
    document("docs/operating.md", 4_000, 80),
    document("docs/page.md", 800, 81),
    document("docs/papers.md", 800, 81),
    document("docs/performance.md", 2_500, 82),
    document("docs/python.md", 1_100, 79),
    document("docs/scaling.md", 1_200, 78),
    document("docs/security.md", 4_900, 73),
    document("docs/several-sites.md", 810, 82),
    document("docs/tuning.md", 2_500, 84),
    document("docs/wire.md", 9_000, 75),
    document("tools/kit/README.md", 1_700, 82),
];

/// Documents that a program writes, and the list of all pages.
const UNBOUNDED: [&str; 3] = ["docs/SUMMARY.md", "docs/failures.md", "docs/settings.md"];

/// Points above the record at which the record is raised.
const EASE_GAIN_MAX: f64 = 3.0;

/// Checks the documents.
pub(crate) fn check(files: &[File], findings: &mut Vec<Finding>) {
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        let mut add = |what: String| findings.push(Finding::new(&file.path, 0, what));
        let Some(bounds) = DOCUMENTS.iter().find(|one| one.path == file.path) else {
            if is_page(&file.path) {
                add("no bounds: add a row to tidy's table of documents".to_owned());
            }
            continue;
        };
        let words = file.text.split_whitespace().count();
        if words > bounds.words_max {
            add(format!("{words} words; at most {}", bounds.words_max));
        }
        let (ease, least) = (prose::ease(&file.text), f64::from(bounds.ease_min));
        if ease < least {
            add(format!(
                "reading ease {ease:.1}; at least {least}: use shorter sentences and words"
            ));
        } else if ease >= least + EASE_GAIN_MAX {
            add(format!(
                "reading ease {ease:.1}: raise the record of {least} in tidy's table"
            ));
        }
    }
}

/// Whether a path is a page of the book, other than an experiment.
fn is_page(path: &str) -> bool {
    path.strip_prefix("docs/")
        .is_some_and(|name| !name.contains('/') && !UNBOUNDED.contains(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let (path, text) = (path.to_owned(), text.to_owned());
        let mut findings = Vec::new();
        check(&[File { path, text }], &mut findings);
        findings.into_iter().map(|finding| finding.what).collect()
    }

    /// A sentence whose ease lies between the record and the bound above it.
    fn sentence(bounds: &Bounds) -> String {
        let is_near = |text: &String| {
            let above = prose::ease(text) - f64::from(bounds.ease_min);
            (0.0..EASE_GAIN_MAX).contains(&above)
        };
        let texts = (0..40).flat_map(|long| (1..40).map(move |short| (long, short)));
        texts
            .map(|(long, short)| {
                format!(
                    "{}{}end.\n",
                    "machinery ".repeat(long),
                    "disk ".repeat(short)
                )
            })
            .find(is_near)
            .unwrap_or_else(|| panic!("no mixture is as easy as {}", bounds.path))
    }

    #[test]
    fn documents_have_a_bounded_number_of_words() {
        for bounds in &DOCUMENTS {
            let sentence = sentence(bounds);
            let count = sentence.split_whitespace().count();
            let fits = sentence.repeat(bounds.words_max / count);
            assert!(found(bounds.path, &fits).is_empty(), "{}", bounds.path);
            let long = sentence.repeat(bounds.words_max / count + 1);
            let what = found(bounds.path, &long);
            assert!(what[0].contains("; at most"), "{what:?}");
        }
    }

    #[test]
    fn a_document_stays_as_easy_as_its_record() {
        let hard = "Administratively heterogeneous infrastructures necessitate authentication.\n";
        let what = found("docs/guide.md", hard);
        assert!(what[0].contains("at least 76"), "{what:?}");
        let what = found("docs/guide.md", "The file is safe.\n");
        assert!(what[0].contains("raise the record of 76"), "{what:?}");
    }

    #[test]
    fn each_page_of_the_book_has_bounds() {
        assert!(found("docs/new.md", "Text.\n")[0].starts_with("no bounds"));
        assert!(found("docs/settings.md", "Text.\n").is_empty());
        assert!(found("docs/decisions/new.md", "Text.\n").is_empty());
    }
}
