//! Owns the file of grants in a node's home: the rights that the operator of this machine has granted to others.
//! Does not decide (`api::grant`), and does not know the access rules in the node's state.

use std::path::Path;

use godwit_api::grant::{Area, Grant, Subject};
use godwit_api::rest::Timestamp;
use godwit_net::{Line, LineFile, LineFileError};

/// The file `grants` of a home: lines of `SUBJECT EXPORT RIGHTS [until=TIME] [# COMMENT]`.
pub struct Grants {
    file: LineFile,
}

impl Grants {
    /// The grants of `home`; reads nothing yet.
    #[must_use]
    pub fn new(home: &Path) -> Self {
        Self {
            file: LineFile::new(home, FILE_NAME, HEADER),
        }
    }

    /// All grants, also expired ones. Reads the file at each call, so that a change takes effect at once.
    ///
    /// # Errors
    /// The file cannot be read, or has an invalid line: then no peer has any rights.
    pub fn list(&self) -> Result<Vec<Grant>, LineFileError> {
        let lines = self.file.read(parse)?;
        let entries = lines.into_iter().filter_map(|line| match line {
            Line::Entry(grant, comment) => Some(Grant {
                comment: words_of(&comment).to_owned(),
                ..grant
            }),
            Line::Other(_) => None,
        });
        Ok(entries.collect())
    }

    /// Adds a grant; returns whether the file has changed. The new grant replaces a grant of the same place that
    /// has no other rights and ends earlier.
    ///
    /// # Errors
    /// The file cannot be read or written, or has an invalid line.
    pub fn add(&self, new: &Grant) -> Result<bool, LineFileError> {
        self.file.change(parse, |lines| {
            let same = |grant: &Grant| grant.subject == new.subject && grant.area == new.area;
            let has_it = |line: &Line<Grant>| match line {
                Line::Entry(grant, comment) => {
                    same(grant)
                        && grant.rights.contain(new.rights)
                        && !ends_before(grant.expires, new.expires)
                        && (new.comment.is_empty() || words_of(comment) == new.comment)
                }
                Line::Other(_) => false,
            };
            if lines.iter().any(has_it) {
                return false;
            }
            let mut added = new.clone();
            let mut comment = comment_of(&new.comment);
            lines.retain(|line| match line {
                Line::Entry(grant, old) if same(grant) => {
                    let joins = grant.expires == new.expires;
                    let gives_less = new.rights.contain(grant.rights)
                        && !ends_before(new.expires, grant.expires);
                    if joins {
                        added.rights = added.rights.union(grant.rights);
                    }
                    if (joins || gives_less) && comment.is_empty() {
                        comment.clone_from(old);
                    }
                    !joins && !gives_less
                }
                _ => true,
            });
            lines.push(Line::Entry(added, comment));
            true
        })
    }

    /// Revokes the grants of a subject in an area and below it (`None`: everywhere); returns the revoked grants.
    ///
    /// # Errors
    /// As [`Grants::add`].
    pub fn remove(&self, who: &Subject, area: Option<&Area>) -> Result<Vec<Grant>, LineFileError> {
        let mut removed = Vec::new();
        self.file.change(parse, |lines| {
            lines.retain(|line| match line {
                Line::Entry(grant, _)
                    if grant.subject == *who
                        && area.is_none_or(|area| area.contains(&grant.area)) =>
                {
                    removed.push(grant.clone());
                    false
                }
                _ => true,
            });
            !removed.is_empty()
        })?;
        Ok(removed)
    }
}

fn parse(words: &[&str]) -> Result<Grant, String> {
    Grant::of_words(words).map_err(|error| error.to_string())
}

/// Whether the end `ends` is before the end `other`; `None` means never.
fn ends_before(ends: Option<Timestamp>, other: Option<Timestamp>) -> bool {
    match (ends, other) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(ends), Some(other)) => ends < other,
    }
}

/// A comment in the form in which it ends a line.
fn comment_of(words: &str) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    match words.is_empty() {
        true => String::new(),
        false => format!("# {}", words.join(" ")),
    }
}

fn words_of(comment: &str) -> &str {
    comment.trim_start_matches('#').trim()
}

const FILE_NAME: &str = "grants";
const HEADER: &str = "# Rights at this node: SUBJECT EXPORT RIGHTS [until=TIME] [# COMMENT]; * means all exports. \
                      Written by `godwit access allow`.\n";

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn id(sign: char) -> String {
        format!("gw1-{}", sign.to_string().repeat(52))
    }

    fn grant(line: &str) -> Grant {
        let words: Vec<&str> = line.split_whitespace().collect();
        Grant::of_words(&words).unwrap()
    }

    fn lines(grants: &Grants) -> Vec<String> {
        let all = grants.list().unwrap();
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn grants_add_up_and_count_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let (daemon, command) = (Grants::new(directory.path()), Grants::new(directory.path()));
        let one = id('a');
        let add = |line: &str| command.add(&grant(&format!("{one} {line}"))).unwrap();
        assert!(lines(&daemon).is_empty());
        assert!(add("data read"));
        assert!(!add("data read"));
        assert!(add("data write"));
        assert_eq!(lines(&daemon), [format!("{one} data read,write")]);
        assert!(add("data:/a read"));
        assert!(add("* read"));
        assert_eq!(lines(&daemon).len(), 3);
    }

    #[test]
    fn a_longer_grant_replaces_a_shorter_one_and_not_the_other_way_round() {
        let directory = tempfile::tempdir().unwrap();
        let grants = Grants::new(directory.path());
        let one = id('a');
        let add = |line: &str| grants.add(&grant(&format!("{one} data {line}"))).unwrap();
        assert!(add("read until=2026-01-01T00:00:00Z"));
        assert!(add("read until=2027-01-01T00:00:00Z"));
        assert_eq!(
            lines(&grants),
            [format!("{one} data read until=2027-01-01T00:00:00.000Z")]
        );
        assert!(!add("read until=2026-06-01T00:00:00Z"));
        assert!(add("read,write until=2026-06-01T00:00:00Z"));
        assert_eq!(lines(&grants).len(), 2);
        assert!(add("read,write"));
        assert_eq!(lines(&grants), [format!("{one} data read,write")]);
    }

    #[test]
    fn a_revoked_grant_ends_at_once_with_the_grants_below_it() {
        let directory = tempfile::tempdir().unwrap();
        let grants = Grants::new(directory.path());
        let (one, two) = (id('a'), id('b'));
        for who in [&one, &two] {
            for area in ["*", "data", "data:/a", "data:/ab"] {
                grants.add(&grant(&format!("{who} {area} read"))).unwrap();
            }
        }
        let who: Subject = one.parse().unwrap();
        let removed = |area: Option<&str>| {
            let area: Option<Area> = area.map(|area| area.parse().unwrap());
            grants.remove(&who, area.as_ref()).unwrap().len()
        };
        assert_eq!(removed(Some("data:/a")), 1);
        assert_eq!(removed(Some("data:/a")), 0);
        assert_eq!(removed(Some("data")), 2);
        assert_eq!(lines(&grants).len(), 5);
        assert_eq!(removed(None), 1);
        assert_eq!(removed(None), 0);
        assert_eq!(lines(&grants).len(), 4);
    }

    #[test]
    fn comments_stay_and_faults_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("grants");
        let grants = Grants::new(directory.path());
        let (one, two) = (id('a'), id('b'));
        fs::write(&path, format!("# ours\n{one} data write,read # Ada\n")).unwrap();
        assert_eq!(grants.list().unwrap()[0].comment, "Ada");
        let with_comment = Grant {
            comment: "Bob\n  of # B".to_owned(),
            ..grant(&format!("{two} * read"))
        };
        assert!(grants.add(&with_comment).unwrap());
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.contains("data write,read # Ada\n") || text.contains("data read,write # Ada\n"),
            "{text}"
        );
        assert!(
            text.contains(&format!("{two} * read # Bob of # B\n")),
            "{text}"
        );
        assert!(text.starts_with("# ours\n"), "{text}");
        for fault in ["read", "* execute", "a/b read", "data read more"] {
            fs::write(&path, format!("# ours\n\n{one} {fault}\n")).unwrap();
            let error = grants.list().unwrap_err().to_string();
            assert!(error.contains("grants:3: "), "{error}");
            assert!(grants.add(&with_comment).is_err());
        }
    }
}
