//! Owns the making of a generation: the digests of all files, compared with those of earlier generations, and written down.
//! Changes no file of the data set.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use chrono::{DateTime, Utc};
use rustix::fs::Mode;
use rustix::io::Errno;

use crate::chain::{self, Link};
use crate::digest::{Digest, Format};
use crate::generation::{Action, Process, Tool};
use crate::history::{History, Record};
use crate::place::open_directory;
use crate::tree::{Directory, Entry, scan, take_digests};
use crate::write::{DirectoryDigest, Writing, is_writable};
use crate::{Difference, Error, FOLDER, Watch, to_the_end};

/// The result of [`seal`].
#[derive(Debug)]
pub struct Sealed {
    /// The file of the new generation.
    pub generation: PathBuf,
    /// The C4 identifier of that file.
    pub identifier: String,
    /// Files with digests in it, those of histories below included.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files whose digests are equal to earlier ones.
    pub verified: u64,
    /// Links, devices, sockets and FIFOs, which no history has.
    pub others: u64,
    /// Files that differ from the history, by path.
    pub differences: Vec<(String, Difference)>,
}

/// Adds a generation to the history of a directory, and to each history below it. Makes the first one if there is none.
///
/// Takes the digests of the kinds `formats`, and also those of the first kind that the history has of a file.
/// Memory grows by some hundred bytes a file.
///
/// # Errors
/// The history is damaged, a name cannot be written as XML, or the system refuses something. The directory then has no new generation,
/// but a history below may have one. Files that differ or cannot be read are no error: they are in the result.
pub fn seal(
    root: &Path,
    formats: &[Format],
    (process, tool): (Process, &Tool),
    threads: usize,
    watch: &Watch<'_>,
) -> Result<Sealed, Error> {
    let root = fs::canonicalize(root).map_err(Error::io(root))?;
    seal_real(&root, formats, (process, tool), threads, watch)
}

/// The same for an absolute path without links, where others may write: no link that they put there is followed.
///
/// # Errors
/// As for [`seal`]; also if a part of the path is a link.
pub fn seal_real(
    root: &Path,
    formats: &[Format],
    (process, tool): (Process, &Tool),
    threads: usize,
    watch: &Watch<'_>,
) -> Result<Sealed, Error> {
    let mut formats = formats.to_vec();
    formats.sort_unstable();
    formats.dedup();
    let mut top = scan(History::load(root, watch)?, watch)?;
    choose(&mut top, None, "", &formats);
    let mut work = Vec::new();
    top.each_file(root, &mut |path, entry| work.push((path, entry)));
    take_digests(work, threads, watch)?;
    let mut sealing = Sealing {
        formats,
        process,
        tool,
        now: SystemTime::now(),
        sealed: Sealed {
            generation: PathBuf::new(),
            identifier: String::new(),
            files: 0,
            bytes: 0,
            verified: 0,
            others: 0,
            differences: Vec::new(),
        },
    };
    sealing.history(&top, "")?;
    sealing.sealed.differences.sort();
    Ok(sealing.sealed)
}

/// Decides which digests are taken of each file.
fn choose(directory: &mut Directory, above: Option<&History>, path: &str, formats: &[Format]) {
    let Directory {
        history,
        files,
        directories,
        ..
    } = directory;
    let (history, path) = match history {
        Some(history) => (Some(&*history), ""),
        None => (above, path),
    };
    for file in files {
        let record = history.and_then(|history| history.files.get(&join(path, &file.name)));
        let original = record.and_then(Record::original);
        let more = original.filter(|format| !formats.contains(format));
        file.formats = formats.iter().copied().chain(more).collect();
        file.formats.sort_unstable();
    }
    for child in directories {
        let path = join(path, &child.name);
        choose(child, history, &path, formats);
    }
}

fn join(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        _ => format!("{path}/{name}"),
    }
}

struct Sealing<'a> {
    formats: Vec<Format>,
    process: Process,
    tool: &'a Tool,
    now: SystemTime,
    sealed: Sealed,
}

/// A generation that was written: its path below the top, and its C4 digest.
type Reference = (String, Digest);

/// A line of a generation.
enum Line<'a> {
    File(String, &'a Entry),
    Directory(String, SystemTime, Vec<DirectoryDigest>),
}

/// The lines of a history, and what belongs to histories below.
#[derive(Default)]
struct Lines<'a> {
    lines: Vec<Line<'a>>,
    /// Patterns for names that no history has.
    others: Vec<String>,
    /// Paths below the directory of this history.
    references: Vec<Reference>,
}

impl Sealing<'_> {
    /// Writes the generation of a directory with a history, and before it those of the histories below.
    fn history(
        &mut self,
        directory: &Directory,
        shown: &str,
    ) -> Result<(Vec<DirectoryDigest>, Reference), Error> {
        let Some(history) = &directory.history else {
            unreachable!("the walk gives a history to each of these directories");
        };
        let mut lines = Lines::default();
        let digests = self.lines(directory, "", shown, &mut lines)?;
        let folder = history.root.join(FOLDER);
        make_folder(&folder, directory)?;
        let file = self.name(history)?;
        let path = folder.join(&file);
        let mut ignored = history.patterns.clone();
        ignored.extend(
            lines
                .others
                .drain(..)
                .filter(|one| !history.patterns.contains(one)),
        );
        let head = (self.tool, self.process, self.now);
        let mut writing = Writing::begin(&path, head, &digests, &ignored)?;
        self.missing(history, &lines, shown)?;
        for line in &lines.lines {
            let written = match line {
                Line::Directory(path, modified, digests) => {
                    writing.directory(path, *modified, digests)
                }
                Line::File(path, entry) => {
                    let judged = self.judge(history.files.get(path), entry, &join(shown, path));
                    match judged.is_empty() {
                        true => Ok(()),
                        false => writing.file(path, (entry.size, entry.modified), &judged),
                    }
                }
            };
            written.map_err(Error::io(&path))?;
        }
        writing.finish(&lines.references)?;
        // A generation that is not in the chain would keep others from following.
        let digest = chain::digest_of(&path, &to_the_end())?;
        let mut links = history.links.clone();
        links.push(Link {
            number: history.next(),
            file: file.clone(),
            digest: digest.clone(),
        });
        chain::store(&folder, &links)?;
        self.sealed.generation = path;
        self.sealed.identifier = Format::C4.text(&digest);
        Ok((digests, (format!("{FOLDER}/{file}"), digest)))
    }

    /// The name of the next generation.
    fn name(&self, history: &History) -> Result<String, Error> {
        let name = history.root.file_name().unwrap_or_default();
        let name = name.to_str().filter(|name| is_writable(name));
        let name = name.ok_or_else(|| {
            Error::malformed(
                &history.root,
                "has a name that an ASC MHL history cannot have",
            )
        })?;
        // A file name has 255 bytes, and the temporary one has a few more.
        let name = &name[..name.floor_char_boundary(NAME_MAX)];
        let now = DateTime::<Utc>::from(self.now).format("%Y-%m-%d_%H%M%SZ");
        Ok(format!("{:04}_{name}_{now}.mhl", history.next()))
    }

    /// Collects the lines of a directory, after the lines of the directories below it. Returns its digests: none if a file
    /// below has none.
    fn lines<'a>(
        &mut self,
        directory: &'a Directory,
        path: &str,
        shown: &str,
        into: &mut Lines<'a>,
    ) -> Result<Vec<DirectoryDigest>, Error> {
        let mut below = Vec::new();
        for child in &directory.directories {
            let (at, shown) = (join(path, &child.name), join(shown, &child.name));
            let digests = match &child.history {
                None => self.lines(child, &at, &shown, into)?,
                Some(_) => {
                    let (digests, (file, digest)) = self.history(child, &shown)?;
                    into.references.push((join(&at, &file), digest));
                    digests
                }
            };
            if !digests.is_empty() {
                into.lines
                    .push(Line::Directory(at, child.modified, digests.clone()));
            }
            below.push((&child.name, digests));
        }
        for name in &directory.others {
            into.others.push(pattern(&join(path, name)));
            self.sealed.others += 1;
        }
        for file in &directory.files {
            into.lines.push(Line::File(join(path, &file.name), file));
        }
        let all = self.formats.iter();
        let made = all.map(|format| digest_of(*format, &below, &directory.files));
        Ok(made.collect::<Option<Vec<_>>>().unwrap_or_default())
    }

    /// The digests of a file with their actions. None if the file could not be read.
    fn judge(
        &mut self,
        record: Option<&Record>,
        entry: &Entry,
        shown: &str,
    ) -> Vec<(Format, Digest, Action)> {
        let digests = match &entry.digests {
            Ok(digests) => digests,
            Err(reason) => {
                let difference = Difference::Unread(reason.clone());
                self.sealed.differences.push((shown.to_owned(), difference));
                return Vec::new();
            }
        };
        self.sealed.files += 1;
        self.sealed.bytes += entry.size;
        let taken = entry.formats.iter().copied().zip(digests);
        let recorded = |format| record.and_then(|record| record.digest(format));
        let wrong = taken
            .clone()
            .find_map(|(format, digest)| match recorded(format) {
                Some(recorded) if recorded != digest => Some((format, recorded, digest)),
                _ => None,
            });
        if let Some((format, recorded, digest)) = wrong {
            let difference = Difference::Content {
                format,
                recorded: recorded.clone(),
                found: digest.clone(),
            };
            self.sealed.differences.push((shown.to_owned(), difference));
        }
        let is_known = record.is_some_and(|record| record.original().is_some());
        self.sealed.verified += u64::from(is_known && wrong.is_none());
        taken
            .filter_map(|(format, digest)| {
                let action = match recorded(format) {
                    _ if !is_known => Action::Original,
                    Some(recorded) if recorded != digest => Action::Failed,
                    None if wrong.is_some() => return None,
                    _ => Action::Verified,
                };
                Some((format, digest.clone(), action))
            })
            .collect()
    }

    /// Notes the files that only the history has.
    fn missing(&mut self, history: &History, lines: &Lines<'_>, shown: &str) -> Result<(), Error> {
        let found: std::collections::HashSet<&str> = lines
            .lines
            .iter()
            .filter_map(|line| match line {
                Line::File(path, _) => Some(path.as_str()),
                Line::Directory(..) => None,
            })
            .collect();
        let ignored = history.ignored()?;
        for path in history.files.keys() {
            let is_ignored = ignored.matched_path_or_any_parents(path, false).is_ignore();
            if !is_ignored && !found.contains(path.as_str()) {
                let missing = (join(shown, path), Difference::Missing);
                self.sealed.differences.push(missing);
            }
        }
        Ok(())
    }
}

/// Largest number of bytes of a directory's name in the name of a generation.
const NAME_MAX: usize = 180;

/// Makes the folder of a history, with the rights of the directory. The time of the directory stays the one of the data.
fn make_folder(folder: &Path, directory: &Directory) -> Result<(), Error> {
    let above = folder.parent().unwrap_or(folder);
    let opened = open_directory(above).map_err(Error::io(above))?;
    let failed = |error: Errno| Error::io(folder)(error.into());
    let mode = rustix::fs::fstat(&opened).map_err(failed)?.st_mode & 0o777 | 0o700;
    match rustix::fs::mkdirat(&opened, FOLDER, Mode::from_raw_mode(mode)) {
        Ok(()) => {
            // Another owner of the directory keeps this from working, and the history is good without it.
            let _ = File::from(opened).set_modified(directory.modified);
            Ok(())
        }
        Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

/// The two digests of a directory. One is made of the digests below it, in the order of their texts; the other also of the names.
fn digest_of(
    format: Format,
    below: &[(&String, Vec<DirectoryDigest>)],
    files: &[Entry],
) -> Option<DirectoryDigest> {
    let (mut contents, mut structures) = (Vec::new(), Vec::new());
    let mut add = |name: &str, content: &Digest, structure: &Digest| {
        contents.push(content.clone());
        structures.push(Digest::of(
            format,
            &[name.as_bytes(), structure.bytes()].concat(),
        ));
    };
    for (name, digests) in below {
        let digest = digests.iter().find(|digest| digest.format == format)?;
        add(name, &digest.content, &digest.structure);
    }
    for file in files {
        let position = file.formats.iter().position(|known| *known == format)?;
        let digest = file.digests.as_ref().ok()?.get(position)?;
        add(&file.name, digest, digest);
    }
    let whole = |mut digests: Vec<Digest>| {
        digests.sort();
        let bytes: Vec<u8> = digests
            .iter()
            .flat_map(|one| one.bytes().iter().copied())
            .collect();
        Digest::of(format, &bytes)
    };
    Some(DirectoryDigest {
        format,
        content: whole(contents),
        structure: whole(structures),
    })
}

/// The pattern that matches this path alone.
fn pattern(path: &str) -> String {
    let mut made = "/".to_owned();
    for one in path.chars() {
        if matches!(one, '*' | '?' | '[' | ']' | '\\' | '!' | '#' | ' ') {
            made.push('\\');
        }
        made.push(one);
    }
    made
}

#[cfg(test)]
mod tests;
