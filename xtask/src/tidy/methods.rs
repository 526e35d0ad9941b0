//! Owns the bound on the methods of a type. Methods in all inherent `impl` blocks of the crate count. So do free functions of
//! the module that take the type as their first argument.
//! Understands items that begin in the first column, as rustfmt leaves them; types inside other items are not counted.

use std::collections::BTreeMap;

use super::Finding;
use super::tree::File;

/// Methods of one type, and private functions of its module and the modules below that take a reference to it first. A type with more
/// methods has more than one responsibility, even if its methods are in several files.
const METHODS_MAX: usize = 24;

/// Checks all product crates against the bound.
pub(crate) fn check(files: &[File], findings: &mut Vec<Finding>) {
    for ((file, name), methods) in count(files) {
        if methods > METHODS_MAX {
            let what = format!(
                "`{name}` has {methods} methods, at most {METHODS_MAX}: give a part of it a type of its own"
            );
            findings.push(Finding::new(file, 0, what));
        }
    }
}

/// The number of methods of each type, by the file that declares it and its name.
fn count(files: &[File]) -> BTreeMap<(&str, &str), usize> {
    let mut declared: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    let (mut blocks, mut functions) = (Vec::new(), Vec::new());
    for file in files.iter().filter(|file| file.is_rust()) {
        let Some(package) = package_of(&file.path) else {
            continue;
        };
        for line in file.text.lines() {
            if let Some(name) = declaration(line) {
                let places = declared.entry((package, name)).or_default();
                places.push(file.path.as_str());
            }
        }
        for (name, methods) in inherent(&file.text) {
            blocks.push((package, name, file.path.as_str(), methods));
        }
        for name in taken_first(&file.text) {
            functions.push((package, name, file.path.as_str()));
        }
    }
    // If several types have one name, the nearest declaration is meant.
    let nearest = |package, name, path| {
        let places = declared.get(&(package, name)).into_iter().flatten();
        places.copied().max_by_key(|place| common(place, path))
    };
    let mut counts = BTreeMap::new();
    for (package, name, path, methods) in blocks {
        let place = nearest(package, name, path).unwrap_or(path);
        *counts.entry((place, name)).or_default() += methods;
    }
    for (package, name, path) in functions {
        let place = nearest(package, name, path);
        if let Some(place) = place.filter(|place| is_below(path, place)) {
            *counts.entry((place, name)).or_default() += 1;
        }
    }
    counts
}

/// The directory of the crate whose product code includes the file.
fn package_of(path: &str) -> Option<&str> {
    let (package, _) = path.split_once("/src/")?;
    package.starts_with("crates/").then_some(package)
}

/// The closeness of two modules: equal modules are closest, otherwise the number of modules that contain both counts.
fn common(left: &str, right: &str) -> usize {
    fn modules(path: &str) -> impl Iterator<Item = &str> {
        path.trim_end_matches(".rs")
            .trim_end_matches("/mod")
            .split('/')
    }
    if left == right {
        return usize::MAX;
    }
    let pairs = modules(left).zip(modules(right));
    pairs.take_while(|(left, right)| left == right).count()
}

/// Whether a file is the module of another one, or below it.
fn is_below(path: &str, module: &str) -> bool {
    let stem = module.trim_end_matches(".rs");
    let ends = ["/mod", "/lib", "/main"];
    let directory = ends.iter().find_map(|end| stem.strip_suffix(end));
    let below = path.strip_prefix(directory.unwrap_or(stem));
    path == module || below.is_some_and(|below| below.starts_with('/'))
}

/// The types that private free functions take a reference to as their first argument, one for each such function. A function for the module
/// above alone is private, too: that module holds the type. Tests do not count.
fn taken_first(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut lines = text.lines().take_while(|line| *line != "#[cfg(test)]");
    while let Some(line) = lines.next() {
        let item = line.strip_prefix("pub(super) ").unwrap_or(line);
        let mut words = item.split_inclusive(' ');
        let before: usize = words
            .by_ref()
            .take_while(|word| ["const ", "async "].contains(word))
            .map(str::len)
            .sum();
        let Some(rest) = item[before..].strip_prefix("fn ") else {
            continue;
        };
        let rest = &rest[leading_name(rest).len()..];
        let Some(mut first) = after_parameters(rest).strip_prefix('(') else {
            continue;
        };
        if first.is_empty() {
            first = lines.next().unwrap_or_default().trim_start();
        }
        let Some((_, mut kind)) = first.split_once(": &") else {
            continue;
        };
        if first
            .find([',', ')'])
            .is_some_and(|end| end < first.len() - kind.len())
        {
            continue;
        }
        if kind.starts_with('\'') {
            kind = kind.split_once(' ').map_or("", |(_, kind)| kind);
        }
        found.push(last_name(kind.strip_prefix("mut ").unwrap_or(kind)));
    }
    found
}

/// The name of the type that a line declares.
fn declaration(line: &str) -> Option<&str> {
    let item = without_visibility(line);
    let rest = ["struct ", "enum ", "union "]
        .iter()
        .find_map(|keyword| item.strip_prefix(keyword))?;
    Some(leading_name(rest))
}

/// The types of the inherent `impl` blocks of a file, with the number of functions in each block.
fn inherent(text: &str) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(header) = line
            .strip_prefix("impl")
            .filter(|rest| rest.starts_with([' ', '<']))
        else {
            continue;
        };
        let subject = after_parameters(header).trim_start();
        let mut is_of_trait = subject.contains(" for ");
        let mut opened = line.trim_end().ends_with(['{', '}']);
        let mut methods = 0;
        if !line.trim_end().ends_with('}') {
            for line in lines.by_ref() {
                if line.starts_with('}') {
                    break;
                }
                if opened {
                    methods += usize::from(is_function(line));
                } else {
                    is_of_trait |= line.starts_with("    for ") || line.contains(" for ");
                    opened = line.trim_end().ends_with('{');
                }
            }
        }
        if !is_of_trait {
            found.push((last_name(subject), methods));
        }
    }
    found
}

/// Whether a line begins a function of the block, and not a function inside another item.
fn is_function(line: &str) -> bool {
    let Some(item) = line
        .strip_prefix("    ")
        .filter(|item| !item.starts_with(' '))
    else {
        return false;
    };
    let item = without_visibility(item);
    let mut words = item.split(' ');
    let word = words
        .find(|word| !["const", "async", "extern", "\"C\"", concat!("un", "safe")].contains(word));
    word == Some("fn")
}

/// The text after `pub` or `pub(…)`.
fn without_visibility(item: &str) -> &str {
    match item.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest
            .split_once(')')
            .map_or(rest, |(_, rest)| rest.trim_start()),
        Some(rest) if rest.starts_with(' ') => rest.trim_start(),
        _ => item,
    }
}

/// The text after the parameters in angle brackets, if there are any.
fn after_parameters(header: &str) -> &str {
    let Some(inside) = header.strip_prefix('<') else {
        return header;
    };
    let (mut depth, mut before) = (1, ' ');
    for (at, letter) in inside.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &inside[at + 1..];
        }
        before = letter;
    }
    ""
}

/// The name at the beginning.
fn leading_name(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    &text[..end.unwrap_or(text.len())]
}

/// The last name of the path at the beginning: `State` of `super::State<T> {`.
fn last_name(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != ':');
    let path = &text[..end.unwrap_or(text.len())];
    path.rsplit(':').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    fn block(header: &str, methods: usize) -> String {
        let method = "    pub(crate) const fn f(&self) {\n        fn inner() {}\n    }\n";
        format!("{header} {{\n{}}}\n", method.repeat(methods))
    }

    #[test]
    fn methods_of_a_type_are_summed_over_the_files_of_its_crate() {
        let files = [
            file(
                "crates/a/src/lib.rs",
                "pub struct Held<T>(T);\nimpl Held<u8> {}\n",
            ),
            file(
                "crates/a/src/one.rs",
                &block("impl<T: Into<u8>> Held<T>\nwhere\n    T: Copy,\n", 2),
            ),
            file(
                "crates/a/src/one/two.rs",
                &block("impl crate::Held<u16>", 3),
            ),
            file("crates/a/tests/it.rs", &block("impl Held<u32>", 9)),
            file(
                "crates/b/src/lib.rs",
                &format!("enum Held {{\n    A,\n}}\n{}", block("impl Held", 1)),
            ),
        ];
        let expected = [
            (("crates/a/src/lib.rs", "Held"), 5),
            (("crates/b/src/lib.rs", "Held"), 1),
        ];
        assert_eq!(count(&files), BTreeMap::from(expected));
    }

    #[test]
    fn of_two_types_of_one_name_the_nearest_is_meant() {
        let declared = "pub(super) struct State;\n";
        let files = [
            file("crates/a/src/left/mod.rs", declared),
            file("crates/a/src/left/more.rs", &block("impl State", 2)),
            file(
                "crates/a/src/right.rs",
                &format!("{declared}{}", block("impl State", 1)),
            ),
            file("crates/a/src/right/more.rs", &block("impl super::State", 4)),
        ];
        let expected = [
            (("crates/a/src/left/mod.rs", "State"), 2),
            (("crates/a/src/right.rs", "State"), 5),
        ];
        assert_eq!(count(&files), BTreeMap::from(expected));
    }

    #[test]
    fn private_functions_that_take_the_type_first_count_in_its_module() {
        let own = "pub struct Held;\nfn a(held: &Held, more: u8) {}\nasync fn b<F: Fn(u8)>(\n    held: &'a mut crate::Held<u8>,\n) {}\n\
                   fn other(one: u8, held: &Held) {}\nfn by_value(held: Held) {}\npub(crate) fn open(held: &Held) {}\n\
                   fn a_trait(held: &dyn Held) {}\n#[cfg(test)]\nmod tests {}\nfn tested(held: &Held) {}\n";
        let files = [
            file("crates/a/src/held.rs", own),
            file(
                "crates/a/src/held/deep.rs",
                "pub(super) fn c(held: &mut Held) {}\n",
            ),
            file("crates/a/src/held_too.rs", "fn outside(held: &Held) {}\n"),
            file("crates/b/src/lib.rs", "struct All;\n"),
            file("crates/b/src/one.rs", "const fn d(all: &All) {}\n"),
        ];
        let expected = [
            (("crates/a/src/held.rs", "Held"), 3),
            (("crates/b/src/lib.rs", "All"), 1),
        ];
        assert_eq!(count(&files), BTreeMap::from(expected));
    }

    #[test]
    fn methods_of_trait_implementations_do_not_count() {
        let headers = [
            "impl Drop for Held",
            "impl<'a, F: Fn(u8) -> u8> From<F> for Held<'a>",
            "impl<T> std::ops::Deref\n    for Held<T>\nwhere\n    T: Copy,\n",
        ];
        for header in headers {
            let text = format!("struct Held;\n{}", block(header, 3));
            assert_eq!(
                count(&[file("crates/a/src/lib.rs", &text)]),
                BTreeMap::new()
            );
        }
    }

    #[test]
    fn a_type_may_not_pass_the_bound() {
        let findings = |methods| {
            let text = format!("struct Held;\n{}", block("impl Held", methods));
            let mut findings = Vec::new();
            check(&[file("crates/a/src/lib.rs", &text)], &mut findings);
            findings.len()
        };
        assert_eq!(findings(METHODS_MAX), 0);
        assert_eq!(findings(METHODS_MAX + 1), 1);
    }
}
