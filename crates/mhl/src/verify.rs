//! Owns the comparison of a copy with a history. Writes nothing.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::history::{History, Record};
use crate::tree::{Directory, Entry, scan, take_digests};
use crate::{Difference, Error, FOLDER, Watch};

/// A history that was read for a check: a folder `ascmhl` with the histories below it, or the file of one generation.
#[derive(Debug)]
pub struct Recorded {
    /// The paths below the top, each with its record.
    wanted: Vec<(String, Record)>,
    /// The history of the top, without its files.
    top: History,
}

/// The result of [`Recorded::check`].
#[derive(Debug, Default)]
pub struct Checked {
    /// Bytes read.
    pub bytes: u64,
    /// The differences, by path.
    pub differences: Vec<(String, Difference)>,
}

impl Recorded {
    /// Reads a history. It need not lie in the copy.
    ///
    /// # Errors
    /// The history is missing or damaged, or the caller stops the work.
    pub fn read(history: &Path, watch: &Watch<'_>) -> Result<Self, Error> {
        let about = fs::metadata(history).map_err(Error::io(history))?;
        if !about.is_dir() {
            let generation = fs::canonicalize(history).map_err(Error::io(history))?;
            let mut top = History::of_generation(&generation, watch)?;
            let wanted = std::mem::take(&mut top.files).into_iter().collect();
            return Ok(Self { wanted, top });
        }
        let history = fs::canonicalize(history).map_err(Error::io(history))?;
        if history.file_name().is_none_or(|name| name != FOLDER) {
            return Err(Error::malformed(
                &history,
                "is no folder of the name ascmhl",
            ));
        }
        let loaded = History::load(history.parent().unwrap_or(&history), watch)?;
        if loaded.links.is_empty() {
            return Err(Error::malformed(&history, "has no generation"));
        }
        let mut wanted = Vec::new();
        let mut tree = scan(loaded, watch)?;
        collect(&tree, "", &mut wanted)?;
        let Some(mut top) = tree.history.take() else {
            unreachable!("the top of a walk has a history");
        };
        top.files.clear();
        Ok(Self { wanted, top })
    }

    /// Number of files in the history.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.wanted.len() as u64
    }

    /// The sum of the sizes that the history names.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let sizes = self.wanted.iter().filter_map(|(_, record)| record.size);
        sizes.fold(0, u64::saturating_add)
    }

    /// Compares a copy with the history.
    ///
    /// Each file counts by the first digest that the history has of it. Files that the history does not have are differences only
    /// with `extra`.
    ///
    /// # Errors
    /// The copy cannot be listed, or the caller stops the check.
    pub fn check(
        mut self,
        copy: &Path,
        extra: bool,
        threads: usize,
        watch: &Watch<'_>,
    ) -> Result<Checked, Error> {
        let root = fs::canonicalize(copy).map_err(Error::io(copy))?;
        let mut checked = Checked::default();
        if extra {
            let wanted = self.wanted.iter();
            let known: HashSet<&str> = wanted.map(|(path, _)| path.as_str()).collect();
            self.top.root.clone_from(&root);
            scan(self.top, watch)?.each_file(&root, &mut |path, _| {
                let path = below(&root, &path);
                if !known.contains(path.as_str()) {
                    checked.differences.push((path, Difference::Extra));
                }
            });
        }
        compare(self.wanted, &root, threads, watch, &mut checked)?;
        checked.differences.sort();
        Ok(checked)
    }
}

fn below(root: &Path, path: &Path) -> String {
    let rest = path.strip_prefix(root).unwrap_or(path);
    rest.to_string_lossy().into_owned()
}

/// The records of all histories of a tree, by their paths below the top. Leaves out files that their history now ignores.
fn collect(
    directory: &Directory,
    path: &str,
    into: &mut Vec<(String, Record)>,
) -> Result<(), Error> {
    let join = |name: &str| match path {
        "" => name.to_owned(),
        _ => format!("{path}/{name}"),
    };
    if let Some(history) = &directory.history {
        let ignored = history.ignored()?;
        for (name, record) in &history.files {
            let matched = ignored.matched_path_or_any_parents(name, false);
            if !matched.is_ignore() {
                into.push((join(name), record.clone()));
            }
        }
    }
    for child in &directory.directories {
        collect(child, &join(&child.name), into)?;
    }
    Ok(())
}

/// A file of the copy whose digest decides.
struct Compared {
    path: String,
    record: Record,
    at: PathBuf,
    entry: Entry,
}

fn compare(
    wanted: Vec<(String, Record)>,
    root: &Path,
    threads: usize,
    watch: &Watch<'_>,
    checked: &mut Checked,
) -> Result<(), Error> {
    let mut work: Vec<Compared> = Vec::new();
    for (path, record) in wanted {
        let at = root.join(&path);
        match entry_of(&at, &record) {
            Ok(entry) => work.push(Compared {
                path,
                record,
                at,
                entry,
            }),
            Err(difference) => checked.differences.push((path, difference)),
        }
    }
    let files = work.iter_mut();
    let files = files.map(|one| (one.at.clone(), &mut one.entry));
    take_digests(files.collect(), threads, watch)?;
    for one in work {
        checked.bytes += one.entry.size;
        let recorded = one.record.digests.first();
        let difference = match (one.entry.digests, recorded) {
            (Err(reason), _) => Difference::Unread(reason),
            (Ok(digests), Some((format, recorded))) => match digests.into_iter().next() {
                Some(found) if found != *recorded => Difference::Content {
                    format: *format,
                    recorded: recorded.clone(),
                    found,
                },
                _ => continue,
            },
            // The history has only kinds of digest that this program does not know.
            (Ok(_), None) => {
                Difference::Unread("the history has no digest of a known kind".to_owned())
            }
        };
        checked.differences.push((one.path, difference));
    }
    Ok(())
}

/// The file of the copy, or a difference that needs no digest.
fn entry_of(at: &Path, record: &Record) -> Result<Entry, Difference> {
    let about = match fs::symlink_metadata(at) {
        Ok(about) => about,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err(Difference::Unread(error.to_string()));
        }
        Err(_) => return Err(Difference::Missing),
    };
    let (Ok(modified), true) = (about.modified(), about.is_file()) else {
        return Err(Difference::Type);
    };
    if let Some(recorded) = record.size.filter(|size| *size != about.len()) {
        let found = about.len();
        return Err(Difference::Size { recorded, found });
    }
    Ok(Entry {
        name: String::new(),
        size: about.len(),
        modified,
        formats: record.original().into_iter().collect(),
        digests: Ok(Vec::new()),
    })
}
