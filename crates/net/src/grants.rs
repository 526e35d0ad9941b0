//! Owns what a daemon lets others do: which identity may read or write which export.
//! Enforces nothing itself.

use std::fmt;
use std::path::Path;

use crate::identity::IdentityId;
use crate::linefile::{Line, LineFile, LineFileError, entries};

/// The file `grants` of a home directory: lines of `identity export access`, where `*` means all exports and access
/// is `read`, `write` or `read,write`.
pub struct Grants {
    file: LineFile,
}

/// What someone may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Take data out of the export.
    pub read: bool,
    /// Put data into the export.
    pub write: bool,
}

impl Access {
    /// Nothing.
    pub const NONE: Self = Self {
        read: false,
        write: false,
    };
    /// Reading alone.
    pub const READ: Self = Self {
        read: true,
        write: false,
    };
    /// Writing alone.
    pub const WRITE: Self = Self {
        read: false,
        write: true,
    };
    /// Both.
    pub const BOTH: Self = Self {
        read: true,
        write: true,
    };

    /// What either permits.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            read: self.read || other.read,
            write: self.write || other.write,
        }
    }

    /// Whether nothing is permitted.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.read, self.write) {
            (true, true) => "read,write",
            (true, false) => "read",
            (false, true) => "write",
            (false, false) => "none",
        })
    }
}

/// One line of the grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Who.
    pub id: IdentityId,
    /// The export's name; `None` for all of them.
    pub export: Option<String>,
    /// What they may do there.
    pub access: Access,
}

impl Grants {
    /// The grants of `home`; nothing is read yet.
    #[must_use]
    pub fn new(home: &Path) -> Self {
        Self {
            file: LineFile::new(home, "grants", HEADER),
        }
    }

    /// What `id` may do in `export`. Reads the file at each call, so that a change counts at once.
    ///
    /// # Errors
    /// When the file cannot be read, or a line in it says nothing known: then nobody may do anything.
    pub fn allowed(&self, id: &IdentityId, export: &str) -> Result<Access, LineFileError> {
        let lines = self.file.read(parse)?;
        let access = entries(&lines)
            .filter(|grant| grant.id == *id)
            .filter(|grant| grant.export.as_deref().is_none_or(|name| name == export))
            .fold(Access::NONE, |sum, grant| sum.union(grant.access));
        Ok(access)
    }

    /// Whether `id` is granted anything at all: strangers can be turned away before they name an export.
    ///
    /// # Errors
    /// As [`Grants::allowed`].
    pub fn is_known(&self, id: &IdentityId) -> Result<bool, LineFileError> {
        let lines = self.file.read(parse)?;
        Ok(entries(&lines).any(|grant| grant.id == *id && !grant.access.is_none()))
    }

    /// All grants.
    ///
    /// # Errors
    /// As [`Grants::allowed`].
    pub fn list(&self) -> Result<Vec<Grant>, LineFileError> {
        let lines = self.file.read(parse)?;
        Ok(entries(&lines).cloned().collect())
    }

    /// Adds to what is granted; says whether that changed anything.
    ///
    /// `export`: `None` for all exports.
    ///
    /// # Errors
    /// When the file cannot be read or written, a line in it says nothing known, or the export's name has characters
    /// that no line can hold.
    pub fn add(
        &self,
        id: IdentityId,
        export: Option<&str>,
        access: Access,
    ) -> Result<bool, LineFileError> {
        if let Some(name) = export {
            check_export(name).map_err(LineFileError::Entry)?;
        }
        self.file.change(parse, |lines| {
            let same = |grant: &&mut Grant| grant.id == id && grant.export.as_deref() == export;
            let old = lines.iter_mut().filter_map(|line| match line {
                Line::Entry(grant, _) => Some(grant),
                Line::Other(_) => None,
            });
            let old: Vec<&mut Grant> = old.filter(same).collect();
            let before = old
                .iter()
                .fold(Access::NONE, |sum, grant| sum.union(grant.access));
            if before.union(access) == before {
                return false;
            }
            match old.into_iter().next() {
                Some(grant) => grant.access = grant.access.union(access),
                None => {
                    let export = export.map(str::to_owned);
                    let grant = Grant { id, export, access };
                    lines.push(Line::Entry(grant, String::new()));
                }
            }
            true
        })
    }

    /// Takes back everything granted to `id` in `export` (`None`: in all exports, also in those named); says whether
    /// there was anything.
    ///
    /// A grant for all exports stays when one export is named.
    ///
    /// # Errors
    /// As [`Grants::add`].
    pub fn remove(&self, id: &IdentityId, export: Option<&str>) -> Result<bool, LineFileError> {
        self.file.change(parse, |lines| {
            let before = lines.len();
            lines.retain(|line| match line {
                Line::Entry(grant, _) => {
                    grant.id != *id || (export.is_some() && grant.export.as_deref() != export)
                }
                Line::Other(_) => true,
            });
            lines.len() < before
        })
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let export = self.export.as_deref().unwrap_or(ALL_EXPORTS);
        write!(f, "{} {} {}", self.id, export, self.access)
    }
}

fn parse(words: &[&str]) -> Result<Grant, String> {
    let [id, export, access] = words else {
        return Err(format!(
            "{} words where IDENTITY EXPORT ACCESS is expected",
            words.len()
        ));
    };
    let access = access
        .split(',')
        .try_fold(Access::NONE, |sum, word| match word {
            "read" => Ok(sum.union(Access::READ)),
            "write" => Ok(sum.union(Access::WRITE)),
            "none" => Ok(sum),
            other => Err(format!("{other:?} is no access: read, write or read,write")),
        })?;
    let export = match *export {
        ALL_EXPORTS => None,
        name => {
            check_export(name)?;
            Some(name.to_owned())
        }
    };
    Ok(Grant {
        id: id.parse().map_err(|error| format!("{error}"))?,
        export,
        access,
    })
}

fn check_export(name: &str) -> Result<(), String> {
    let fits = |character: char| !character.is_whitespace() && !"#*/".contains(character);
    if name.is_empty() || !name.chars().all(fits) {
        return Err(format!("{name:?} cannot be the name of an export"));
    }
    Ok(())
}

const ALL_EXPORTS: &str = "*";
const HEADER: &str = "# Who may do what here: identity export access; * means all exports. Written by `godwit authorize`.\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;
    use std::fs;

    fn id() -> IdentityId {
        let home = tempfile::tempdir().unwrap();
        *Identity::load_or_create(home.path()).unwrap().id()
    }

    #[test]
    fn grants_add_up_and_are_obeyed_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let (daemon, command) = (Grants::new(directory.path()), Grants::new(directory.path()));
        let (one, two) = (id(), id());
        assert_eq!(daemon.allowed(&one, "data").unwrap(), Access::NONE);
        assert!(command.add(one, Some("data"), Access::READ).unwrap());
        assert_eq!(daemon.allowed(&one, "data").unwrap(), Access::READ);
        assert!(!command.add(one, Some("data"), Access::READ).unwrap());
        assert!(command.add(one, Some("data"), Access::WRITE).unwrap());
        assert_eq!(daemon.allowed(&one, "data").unwrap(), Access::BOTH);
        assert_eq!(daemon.allowed(&one, "other").unwrap(), Access::NONE);
        assert_eq!(daemon.allowed(&two, "data").unwrap(), Access::NONE);
        assert!(command.add(one, None, Access::READ).unwrap());
        assert_eq!(daemon.allowed(&one, "other").unwrap(), Access::READ);
        assert_eq!(daemon.list().unwrap().len(), 2);
        assert!(daemon.is_known(&one).unwrap() && !daemon.is_known(&two).unwrap());
    }

    #[test]
    fn what_is_taken_back_is_gone_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let grants = Grants::new(directory.path());
        let (one, two) = (id(), id());
        for who in [one, two] {
            grants.add(who, None, Access::READ).unwrap();
            grants.add(who, Some("data"), Access::BOTH).unwrap();
        }
        assert!(grants.remove(&one, Some("data")).unwrap());
        assert!(!grants.remove(&one, Some("data")).unwrap());
        assert_eq!(grants.allowed(&one, "data").unwrap(), Access::READ);
        assert!(grants.remove(&one, None).unwrap());
        assert_eq!(grants.allowed(&one, "data").unwrap(), Access::NONE);
        assert_eq!(grants.allowed(&two, "data").unwrap(), Access::BOTH);
        assert!(grants.remove(&two, None).unwrap());
        assert!(grants.list().unwrap().is_empty());
    }

    #[test]
    fn comments_stay_and_faults_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("grants");
        let grants = Grants::new(directory.path());
        let (one, two) = (id(), id());
        fs::write(&path, format!("# ours\n{one} data write,read # Ada\n")).unwrap();
        assert_eq!(grants.allowed(&one, "data").unwrap(), Access::BOTH);
        grants.add(one, Some("data"), Access::READ).unwrap();
        grants.add(two, None, Access::READ).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("data read,write # Ada\n"), "{text}");
        assert!(text.starts_with("# ours\n"), "{text}");
        for fault in ["data read", "* execute", "a/b read", "data read more"] {
            fs::write(
                &path,
                format!("# ours\n\n{one} {fault}\n").replace(" data read\n", " read\n"),
            )
            .unwrap();
            let error = grants.allowed(&one, "data").unwrap_err().to_string();
            assert!(error.contains("grants:3: "), "{error}");
            assert!(grants.add(two, None, Access::WRITE).is_err());
        }
    }

    #[test]
    fn an_export_that_no_line_can_hold_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let grants = Grants::new(directory.path());
        for name in ["", "a b", "a\nb", "#", "*"] {
            assert!(
                grants.add(id(), Some(name), Access::READ).is_err(),
                "{name:?}"
            );
        }
        assert!(grants.list().unwrap().is_empty());
    }
}
