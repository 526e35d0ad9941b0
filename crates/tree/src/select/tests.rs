//! Compares the rules with a simple reference that follows rsync's description. Tests of the binary
//! compare with rsync itself.

use proptest::prelude::*;

use godwit_proto::Rule;

use super::*;

/// Whether `pattern` matches all of `text`, by trying all possibilities.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let Some((first, rest)) = pattern.split_first() else {
        return text.is_empty();
    };
    match first {
        b'*' => {
            let crosses = rest.first() == Some(&b'*');
            let stars = rest.iter().take_while(|byte| **byte == b'*').count();
            let rest = &rest[stars..];
            (0..=text.len())
                .take_while(|taken| crosses || !text[..*taken].contains(&b'/'))
                .any(|taken| glob(rest, &text[taken..]))
        }
        b'?' => text.first().is_some_and(|byte| *byte != b'/') && glob(rest, &text[1..]),
        b'[' => {
            let Some((byte, after)) = text.split_first() else {
                return false;
            };
            let negated = rest[0] == b'!';
            let from = usize::from(negated);
            let end = from
                + 1
                + rest[from + 1..]
                    .iter()
                    .position(|byte| *byte == b']')
                    .unwrap();
            let mut held = false;
            let mut at = from;
            while at < end {
                if at + 2 < end && rest[at + 1] == b'-' {
                    held |= (rest[at]..=rest[at + 2]).contains(byte);
                    at += 3;
                } else {
                    held |= rest[at] == *byte;
                    at += 1;
                }
            }
            held != negated && *byte != b'/' && glob(&rest[end + 1..], after)
        }
        b'\\' => text.first() == rest.first() && glob(&rest[1..], &text[1..]),
        byte => text.first() == Some(byte) && glob(rest, &text[1..]),
    }
}

/// Whether a pattern matches a path.
fn matches(pattern: &[u8], path: &[u8], is_directory: bool) -> bool {
    let (pattern, only) = match pattern.strip_suffix(b"/") {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    if only && !is_directory {
        return false;
    }
    let wild = pattern.iter().any(|byte| b"*?[".contains(byte));
    let equal = |pattern: &[u8], text: &[u8]| {
        if wild {
            glob(pattern, text)
        } else {
            pattern == text
        }
    };
    // With three stars at the end, a directory matches like its contents.
    let path = match is_directory && pattern.ends_with(b"***") {
        true => [path, b"/"].concat(),
        false => path.to_vec(),
    };
    if let Some(anchored) = pattern.strip_prefix(b"/") {
        return equal(anchored, &path);
    }
    if pattern.starts_with(b"**") {
        return equal(pattern, &[b"/", &path[..]].concat());
    }
    let after_slashes = (1..path.len()).filter(|at| path[at - 1] == b'/');
    [0].into_iter()
        .chain(after_slashes)
        .any(|start| equal(pattern, &path[start..]))
}

fn reference(rules: &[Rule], path: &[u8], is_directory: bool) -> bool {
    let rule = rules
        .iter()
        .find(|rule| matches(&rule.pattern, path, is_directory));
    rule.is_some_and(|rule| !rule.include)
}

fn select(rules: &[Rule]) -> Select {
    Select::new(&Selection {
        rules: rules.to_vec(),
        ..Selection::default()
    })
    .unwrap()
}

fn rules(rules: &[(bool, &str)]) -> Vec<Rule> {
    let rule = |(include, pattern): &(bool, &str)| Rule {
        include: *include,
        pattern: pattern.as_bytes().to_vec(),
    };
    rules.iter().map(rule).collect()
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(proptest::sample::select(&b"ab.\xff\n\\"[..]), 1..4)
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(name(), 1..5).prop_map(|names| names.join(&b'/'))
}

fn pattern() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => name(),
        3 => Just(b"*".to_vec()),
        2 => Just(b"**".to_vec()),
        1 => Just(b"***".to_vec()),
        2 => Just(b"?".to_vec()),
        4 => Just(b"/".to_vec()),
        1 => Just(b"[ab]".to_vec()),
        1 => Just(b"[!a-b]".to_vec()),
        1 => Just(b"\\a".to_vec()),
    ];
    (
        any::<bool>(),
        proptest::collection::vec(piece, 1..6),
        any::<bool>(),
    )
        .prop_map(|(anchored, pieces, directory)| {
            let mut pattern = pieces.concat();
            if anchored {
                pattern.insert(0, b'/');
            }
            if directory {
                pattern.push(b'/');
            }
            pattern
        })
        .prop_filter("a pattern", |pattern| Pattern::parse(pattern).is_ok())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn rules_do_as_the_reference(
        patterns in proptest::collection::vec((any::<bool>(), pattern()), 1..6),
        paths in proptest::collection::vec((path(), any::<bool>()), 1..20),
    ) {
        let rules: Vec<_> = patterns
            .into_iter()
            .map(|(include, pattern)| Rule { include, pattern })
            .collect();
        let select = select(&rules);
        for (path, is_directory) in paths {
            let expected = reference(&rules, &path, is_directory);
            prop_assert_eq!(select.leaves_out(&path, is_directory), expected, "{:?} {:?}", rules, path);
            let above = (1..path.len()).filter(|at| path[*at] == b'/');
            let with_above = expected || above.into_iter().any(|at| reference(&rules, &path[..at], true));
            prop_assert_eq!(select.excludes(&path, is_directory), with_above);
        }
    }
}

#[test]
fn the_first_of_very_many_rules_decides() {
    let mut many: Vec<_> = (0..8000)
        .map(|number| Rule {
            include: number % 2 == 0,
            pattern: match number % 3 {
                0 => format!("name-{number}"),
                1 => format!("/dir/name-{number}"),
                _ => format!("*-{number}.*"),
            }
            .into_bytes(),
        })
        .collect();
    many.extend(rules(&[(false, "*")]));
    let select = select(&many);
    assert!(!select.leaves_out(b"x/name-6", false));
    assert!(select.leaves_out(b"x/name-3", false));
    assert!(select.leaves_out(b"dir/name-1", false));
    assert!(!select.leaves_out(b"dir/name-4", false));
    assert!(select.leaves_out(b"a/dir/name-4", false));
    assert!(select.leaves_out(b"a-5.b", false));
    assert!(!select.leaves_out(b"a-8.b", false));
    assert!(select.leaves_out(b"other", true));
}

#[test]
fn the_root_is_always_in() {
    let select = select(&rules(&[(false, "*"), (false, "**")]));
    assert!(!select.excludes(b"", true));
    assert!(select.excludes(b"a", true));
}

#[test]
fn the_contents_of_an_excluded_directory_are_excluded() {
    let select = select(&rules(&[(true, "keep"), (false, "cache/")]));
    assert!(!select.leaves_out(b"cache/keep", false));
    assert!(select.excludes(b"cache/keep", false));
    assert!(!select.excludes(b"a/cache", false));
    assert!(select.excludes(b"a/cache", true));
}

#[test]
fn limits() {
    let meta = |kind, bytes, seconds| Meta {
        kind,
        mode: 0,
        bytes,
        sparse: false,
        mtime: Timestamp {
            seconds,
            nanoseconds: 0,
        },
        ctime: Timestamp::default(),
        inode: 1,
        device: 1,
        links: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
    };
    let moment = |seconds| Moment {
        seconds,
        nanoseconds: 0,
    };
    let select = Select::new(&Selection {
        bytes_min: 10,
        bytes_max: Some(20),
        newer: Some(moment(100)),
        older: Some(moment(200)),
        ..Selection::default()
    })
    .unwrap();
    let passed = |kind, bytes, seconds| select.passes_over(&meta(kind, bytes, seconds));
    for (bytes, out) in [(9, true), (10, false), (20, false), (21, true)] {
        assert_eq!(passed(Kind::File, bytes, 150), out, "{bytes}");
        assert!(!passed(Kind::Symlink, bytes, 150));
        assert!(!passed(Kind::Directory, bytes, 0));
    }
    for (seconds, out) in [(100, true), (101, false), (199, false), (200, true)] {
        assert_eq!(passed(Kind::File, 15, seconds), out, "{seconds}");
        assert_eq!(passed(Kind::Symlink, 0, seconds), out);
    }
    assert!(select.has_limits() && !select.has_rules());
    assert!(!Select::default().has_limits());
}
