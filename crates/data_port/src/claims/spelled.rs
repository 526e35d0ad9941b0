//! Decides whether two places are equal, or one lies below the other, even if a file system accepts several spellings of one name.
//! Opens only directories, and follows no links. Uses the file system only when a place is created, never when places are compared.

mod case;
mod directory;
mod folded;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use case::Case;
use directory::Directory;
use folded::Folded;

/// Longest place of a claim in bytes, as in a system call.
const PLACE_BYTES_MAX: usize = 4096;

/// Most names in such a place.
const PLACE_NAMES_MAX: usize = 256;

/// Destinations that are examined one by one. If there are more, their directories count instead.
const PLACES_MAX: usize = 64;

/// Names in all destinations that are examined one by one, about 100 KB of memory. If there are more, their directories count instead.
const STEPS_MAX: usize = 1024;

/// A path has too many bytes or names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the path is too long: at most {PLACE_BYTES_MAX} bytes and {PLACE_NAMES_MAX} names; use a shorter path"
)]
pub(crate) struct TooLong;

/// Whether `inner` is `outer` or lies below it as they are spelled; both are absolute.
pub(super) fn is_within(inner: &[u8], outer: &[u8]) -> bool {
    let path = |bytes| Path::new(OsStr::from_bytes(bytes));
    path(inner).starts_with(path(outer))
}

/// Refuses the path of a claim that is too long to be stored.
pub(crate) fn check(path: &[u8]) -> Result<(), TooLong> {
    match path.len() <= PLACE_BYTES_MAX && names_in(path) <= PLACE_NAMES_MAX {
        true => Ok(()),
        false => Err(TooLong),
    }
}

/// An upper bound of the number of names in the path.
fn names_in(path: &[u8]) -> usize {
    let names = path.split(|byte| *byte == b'/');
    names.filter(|name| !name.is_empty()).count()
}

/// A name on the path to a place: its spelling, its folded form, and its file.
#[derive(Clone, Debug)]
struct Step {
    name: Box<[u8]>,
    folded: Folded,
    /// Device and inode; `None` if no file has the name.
    file: Option<(u64, u64)>,
    /// How the directory treats other letter cases.
    case: Case,
}

impl Step {
    /// A name in `above`. `inherited` is the case of a directory that does not exist yet.
    fn look(above: &Directory, name: &[u8], inherited: Option<Case>) -> Self {
        let file = above.file(name);
        let case = match (file, inherited) {
            (Some(file), _) => Case::of_file(above, name, file),
            (None, Some(case)) => case,
            (None, None) => Case::of_directory(above),
        };
        Self {
            name: name.into(),
            folded: Folded::of(name),
            file,
            case,
        }
    }

    /// Whether both are the same name of one directory. If the directory is known to distinguish letter cases, names that differ in them are
    /// two names. In other directories, letter case and the form of composed letters do not distinguish names if one name is free or the
    /// directory folds names. A file may have been made again meanwhile. In all other cases the files decide.
    fn meets(&self, other: &Self) -> bool {
        if self.name == other.name || (self.file.is_some() && self.file == other.file) {
            return true;
        }
        let (case, others) = (self.case, other.case);
        let are_two = self.file.is_some() && other.file.is_some();
        (!are_two || Case::folds(case, others))
            && !Case::are_two(case, others, &self.name, &other.name)
            && self.folded.meets(&self.name, &other.folded, &other.name)
    }
}

/// An absolute path, in its state when it was examined.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spot(Box<[Step]>);

impl Spot {
    /// Examines each component of the path of a claim.
    ///
    /// # Errors
    /// The path is too long.
    pub(crate) fn look(path: &[u8]) -> Result<Self, TooLong> {
        check(path)?;
        Ok(Self::look_at_first(path))
    }

    /// Examines as many components of the path as a claim may have; more make no difference.
    fn look_at_first(path: &[u8]) -> Self {
        let (mut above, mut last) = (Directory::top(), None);
        let (mut steps, mut bytes) = (Vec::new(), 0);
        let mut missing = None;
        for component in Path::new(OsStr::from_bytes(path)).components() {
            let Component::Normal(name) = component else {
                continue;
            };
            if steps.len() == PLACE_NAMES_MAX || bytes > PLACE_BYTES_MAX {
                break;
            }
            let name = name.as_bytes();
            if let Some(last) = last.replace(name) {
                above = above.below(last);
            }
            let step = Step::look(&above, name, missing);
            // A directory that does not exist yet becomes like the one above it.
            missing = missing.or_else(|| step.file.is_none().then_some(step.case));
            bytes += name.len() + 1;
            steps.push(step);
        }
        Self(steps.into())
    }

    /// Whether the places are equal, or one lies below the other.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let mut steps = self.0.iter().zip(&other.0);
        steps.all(|(one, other)| one.meets(other))
    }

    /// Whether the place needs no memory.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Absolute paths that a transfer writes to, with their examined places.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spots {
    paths: Vec<Vec<u8>>,
    spots: Vec<Spot>,
}

impl Spots {
    /// Examines each path. If there are more than [`PLACES_MAX`] paths, or [`STEPS_MAX`] names in them, their directories count
    /// instead.
    pub(crate) fn look(paths: &[Vec<u8>]) -> Self {
        let names: usize = paths.iter().map(|path| names_in(path)).sum();
        let spots = if paths.len() <= PLACES_MAX && names <= STEPS_MAX {
            paths.iter().map(|path| Spot::look_at_first(path)).collect()
        } else {
            let above = |path: &Vec<u8>| {
                let above = Path::new(OsStr::from_bytes(path)).parent();
                above.map_or_else(Vec::new, |above| above.as_os_str().as_bytes().to_vec())
            };
            let directories: HashSet<Vec<u8>> = paths.iter().map(above).collect();
            directories
                .iter()
                .map(|path| Spot::look_at_first(path))
                .collect()
        };
        Self {
            paths: paths.to_vec(),
            spots,
        }
    }

    /// The original paths.
    pub(crate) fn paths(&self) -> &[Vec<u8>] {
        &self.paths
    }

    /// Whether any of the places overlaps.
    pub(crate) fn overlap(&self, other: &Spot) -> bool {
        self.spots.iter().any(|spot| spot.overlaps(other))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn spot(path: &[u8]) -> Spot {
        Spot::look(path).expect("short enough")
    }

    #[test]
    fn spellings_that_a_file_system_may_take_for_one_name_meet_until_it_shows_two() {
        let directory = tempfile::tempdir().expect("made");
        let path = |below: &str| {
            let path = directory.path().join(below);
            path.into_os_string().into_encoded_bytes()
        };
        let meet = |one: &str, other: &str| spot(&path(one)).overlaps(&spot(&path(other)));
        assert!(meet("a", "a/b") && meet("a/b", "a") && meet("a", "a"));
        assert!(!meet("a", "b") && !meet("a/x", "a/y") && !meet("ab", "a"));
        // Neither name exists, so the two may become one file.
        assert!(meet("Data", "data/run"));
        assert!(meet("caf\u{c9}", "caf\u{e9}"));
        assert!(meet("caf\u{e9}/x", "cafe\u{301}"));
        assert!(!meet("caf\u{e9}", "cafe\u{301}s"));
        fs::create_dir(directory.path().join("Data")).expect("made");
        // The directory shows by the one name whether it distinguishes letter cases, also for names that do not exist.
        let folds = directory.path().join("dATA").exists();
        assert_eq!(meet("Data", "data/run"), folds);
        assert_eq!(meet("new/Team/x", "new/team"), folds);
        assert!(meet("caf\u{e9}/x", "cafe\u{301}"));
        fs::create_dir(directory.path().join("caf\u{e9}")).expect("made");
        let folds = directory.path().join("CAF\u{c9}").exists();
        assert_eq!(meet("caf\u{e9}", "caf\u{c9}"), folds);
        assert_eq!(meet("t\u{e9}", "t\u{c9}/x"), folds);
        fs::create_dir_all(directory.path().join("data")).expect("made");
        let entries = fs::read_dir(directory.path()).expect("read").count();
        assert_eq!(meet("Data", "data/run"), entries == 2);
    }

    /// A peer that may make links must not learn by its claims what is outside of the export.
    #[test]
    fn a_place_below_a_link_does_not_show_what_is_there() {
        let (directory, outside) = (tempfile::tempdir(), tempfile::tempdir());
        let (directory, outside) = (directory.expect("made"), outside.expect("made"));
        fs::create_dir(outside.path().join("Known")).expect("made");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(outside.path(), &link).expect("made");
        let below = |name: &str| spot(link.join(name).as_os_str().as_bytes());
        for (one, other) in [("Known", "known"), ("Free", "free"), ("Known/x", "known/X")] {
            assert!(below(one).overlaps(&below(other)), "{one}, {other}");
        }
        assert!(!below("Known").overlaps(&below("Free")));
    }

    #[test]
    fn of_many_destinations_the_directories_count() {
        let paths = |count: usize| -> Vec<Vec<u8>> {
            let path = |n| format!("/no/such/set/{n}").into_bytes();
            (0..count).map(path).collect()
        };
        let other = spot(b"/no/such/set/other");
        assert!(!Spots::look(&paths(PLACES_MAX)).overlap(&other));
        let many = Spots::look(&paths(PLACES_MAX + 1));
        assert!(many.overlap(&other) && many.spots.len() == 1);
        assert!(!many.overlap(&spot(b"/no/such/copy")));
    }

    #[test]
    fn no_claim_has_a_place_with_very_many_bytes_or_names() {
        let deep = "/n".repeat(PLACE_NAMES_MAX);
        assert_eq!(spot(deep.as_bytes()).0.len(), PLACE_NAMES_MAX);
        let deeper = format!("{deep}/n");
        let long = format!("/{}", "n".repeat(PLACE_BYTES_MAX));
        let longest = "/n".repeat(32_000);
        for path in [deeper, long, longest] {
            let path = path.into_bytes();
            assert_eq!(Spot::look(&path).err(), Some(TooLong));
            // A transfer may write there. It overlaps each claim that contains its place.
            let places = Spots::look(&[path]);
            assert!(places.spots[0].0.len() <= PLACE_NAMES_MAX);
            assert!(!places.overlap(&spot(b"/no")));
            let meets = places.overlap(&spot(deep.as_bytes()));
            assert_eq!(meets, places.spots[0].0.len() == PLACE_NAMES_MAX);
        }
        // Many deep places together are examined no further than one.
        let places: Vec<Vec<u8>> = (0..PLACES_MAX)
            .map(|n| format!("{}/{n}", "/n".repeat(200)).into_bytes())
            .collect();
        assert_eq!(Spots::look(&places).spots.len(), 1);
    }

    #[test]
    fn spellings_meet_where_names_are_folded_even_if_the_file_was_made_again() {
        let step = |name: &str, inode: u64, folds: bool| Step {
            name: name.as_bytes().into(),
            folded: Folded::of(name.as_bytes()),
            file: Some((1, inode)),
            case: Case {
                ascii: Some(folds),
                all: Some(folds),
            },
        };
        let claimed = step("Data", 1, true);
        assert!(claimed.meets(&step("data", 2, true)));
        assert!(claimed.meets(&step("data", 1, true)));
        assert!(!claimed.meets(&step("date", 2, true)));
        // The directory does not fold, so both names can exist.
        assert!(!step("Data", 1, false).meets(&step("data", 2, false)));
        let directory = tempfile::tempdir().expect("made");
        let at = directory.path().join("Data");
        fs::create_dir(&at).expect("made");
        let folds = Some(fs::symlink_metadata(directory.path().join("dATA")).is_ok());
        let found = spot(at.as_os_str().as_bytes());
        assert_eq!(found.0.last().expect("a name").case.ascii, folds);
        let free = Step {
            file: None,
            ..step("data", 1, true)
        };
        assert!(!step("Data", 1, false).meets(&Step {
            case: Case::default(),
            ..free.clone()
        }));
        assert!(free.meets(&step("DATA", 1, true)));
    }
}
