//! Owns files with one entry per line that users may edit: keeps comments, and reports faults with file and line.
//! Does not interpret entries.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::home::{HomeError, HomeLock, make_home, write_atomically};

/// Reason why the file could not be used.
#[derive(Debug, Error)]
pub enum LineFileError {
    /// The directory or the file could not be read or written.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// An invalid line; the whole file is ignored until the line is corrected.
    #[error("{}:{line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The fault in the line.
        what: String,
    },
    /// An entry that does not fit into a line.
    #[error("{0}")]
    Entry(String),
}

/// One kind of file in a home directory.
pub struct LineFile {
    home: PathBuf,
    name: &'static str,
    header: &'static str,
}

/// A line: an entry with its trailing comment, or text that is kept unchanged (comments, empty lines).
pub enum Line<E> {
    /// An entry, and its trailing comment.
    Entry(E, String),
    /// A comment, or an empty line.
    Other(String),
}

/// Parses the words of a line into an entry, or returns the fault.
pub(crate) type Parse<E> = fn(&[&str]) -> Result<E, String>;

impl LineFile {
    /// The file `name` in `home`, which begins with `header`; reads nothing yet.
    #[must_use]
    pub fn new(home: &Path, name: &'static str, header: &'static str) -> Self {
        Self {
            home: home.to_owned(),
            name,
            header,
        }
    }

    /// All lines; none if the file does not exist.
    ///
    /// # Errors
    /// The file cannot be read, or has an invalid line.
    pub fn read<E>(&self, parse: Parse<E>) -> Result<Vec<Line<E>>, LineFileError> {
        let path = self.home.join(self.name);
        let mut text = String::new();
        let read = std::fs::File::open(&path)
            .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
        match read {
            Ok(bytes) if bytes as u64 > FILE_BYTES_MAX => {
                let error = io::Error::new(io::ErrorKind::FileTooLarge, "longer than 16 MiB");
                return Err(HomeError::new("read", &path, error).into());
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(HomeError::new("read", &path, error).into()),
        }
        let lines = text.lines().enumerate().map(|(index, line)| {
            let (entry, comment) = line.split_at(line.find('#').unwrap_or(line.len()));
            let words: Vec<&str> = entry.split_whitespace().collect();
            if words.is_empty() {
                return Ok(Line::Other(line.to_owned()));
            }
            parse(&words)
                .map(|entry| Line::Entry(entry, comment.to_owned()))
                .map_err(|what| LineFileError::Line {
                    path: path.clone(),
                    line: index + 1,
                    what,
                })
        });
        lines.collect()
    }

    /// Changes the lines under a lock; writes only if `change` reports a change.
    ///
    /// # Errors
    /// As [`LineFile::read`], or the file cannot be written.
    pub fn change<E: ToString>(
        &self,
        parse: Parse<E>,
        change: impl FnOnce(&mut Vec<Line<E>>) -> bool,
    ) -> Result<bool, LineFileError> {
        make_home(&self.home)?;
        let _lock = HomeLock::take(&self.home)?;
        let mut lines = self.read(parse)?;
        let is_new = lines.is_empty();
        if !change(&mut lines) {
            return Ok(false);
        }
        let mut text = String::new();
        if is_new {
            text.push_str(self.header);
        }
        for line in lines {
            match line {
                Line::Entry(entry, comment) => {
                    text.push_str(&entry.to_string());
                    if !comment.is_empty() {
                        text.push(' ');
                        text.push_str(&comment);
                    }
                }
                Line::Other(kept) => text.push_str(&kept),
            }
            text.push('\n');
        }
        write_atomically(&self.home, self.name, text.as_bytes())?;
        Ok(true)
    }
}

/// The entries among lines.
pub(crate) fn entries<E>(lines: &[Line<E>]) -> impl Iterator<Item = &E> {
    lines.iter().filter_map(|line| match line {
        Line::Entry(entry, _) => Some(entry),
        Line::Other(_) => None,
    })
}

/// Enough for a hundred thousand entries of the longest kind.
const FILE_BYTES_MAX: u64 = 16 << 20;
