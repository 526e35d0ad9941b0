//! Owns the file of nodes whose certificate is pinned: one line `HOST:PORT FINGERPRINT` for each node.
//! Contacts no node.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use godwit_api::PORT_DEFAULT;
use godwit_api::host::HostPort;
use thiserror::Error;

use crate::pin::Fingerprint;

/// Name of the file, in a home directory.
const NAME: &str = "known_web";

/// The largest file that is read: ten thousand nodes at a hundred bytes each.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The pinned certificates of a home directory.
#[derive(Clone, Debug)]
pub struct KnownWeb {
    home: PathBuf,
}

/// Reason why the file cannot be used.
#[derive(Debug, Error)]
pub enum KnownWebError {
    /// The file cannot be read or written.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// The operation that failed.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A line cannot be parsed; the whole file is refused until the line is corrected.
    #[error("{}:{line}: write HOST:PORT FINGERPRINT: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// Description of the error.
        reason: String,
    },
}

impl KnownWeb {
    /// The file of this home directory; it may be missing.
    #[must_use]
    pub fn of(home: &Path) -> Self {
        Self {
            home: home.to_owned(),
        }
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.home.join(NAME)
    }

    /// The expected certificate of a node.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn find(&self, node: &HostPort) -> Result<Option<Fingerprint>, KnownWebError> {
        let mut found = None;
        for (index, line) in self.text()?.lines().enumerate() {
            if let Some((known, fingerprint)) = self.entry(index, line)?
                && known == *node
            {
                found = Some(fingerprint);
            }
        }
        Ok(found)
    }

    /// Stores the certificate of a node in place of an earlier one, and returns the earlier one. Other lines
    /// are not changed.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn remember(
        &self,
        node: &HostPort,
        fingerprint: Fingerprint,
    ) -> Result<Option<Fingerprint>, KnownWebError> {
        let mut before = None;
        let mut text = String::new();
        for (index, line) in self.text()?.lines().enumerate() {
            match self.entry(index, line)? {
                Some((known, old)) if known == *node => before = Some(old),
                _ => {
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
        text.push_str(&format!("{node} {fingerprint}\n"));
        self.replace(&text)?;
        Ok(before)
    }

    fn text(&self) -> Result<String, KnownWebError> {
        let file = match File::open(self.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
            other => other.map_err(self.failed("read"))?,
        };
        let mut text = String::new();
        file.take(FILE_BYTES_MAX + 1)
            .read_to_string(&mut text)
            .map_err(self.failed("read"))?;
        if text.len() as u64 > FILE_BYTES_MAX {
            let error = io::Error::other("it is larger than 1 MiB");
            return Err(self.failed("read")(error));
        }
        Ok(text)
    }

    fn entry(
        &self,
        index: usize,
        line: &str,
    ) -> Result<Option<(HostPort, Fingerprint)>, KnownWebError> {
        let wrong = |reason: String| KnownWebError::Line {
            path: self.path(),
            line: index + 1,
            reason,
        };
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => Ok(None),
            [node, fingerprint] => {
                let node = HostPort::parse(node, PORT_DEFAULT).map_err(|e| wrong(e.to_string()))?;
                let fingerprint = fingerprint
                    .parse()
                    .map_err(|error: crate::FingerprintError| wrong(error.to_string()))?;
                Ok(Some((node, fingerprint)))
            }
            _ => Err(wrong(format!("it has {} words", words.len()))),
        }
    }

    /// Replaces the file atomically, also in a power failure: readers see the old or the new content.
    fn replace(&self, text: &str) -> Result<(), KnownWebError> {
        let temporary = self.home.join(format!(".{NAME}.{}", std::process::id()));
        let write = || {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&self.home)?;
            // A file of a killed process must not lend its permissions, and a link must lead nowhere.
            match fs::remove_file(&temporary) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = File::options()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&temporary)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&temporary, self.path())?;
            File::open(&self.home)?.sync_all()
        };
        write().map_err(self.failed("write"))
    }

    fn failed(&self, what: &'static str) -> impl Fn(io::Error) -> KnownWebError {
        let path = self.path();
        move |source| KnownWebError::File {
            what,
            path: path.clone(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(digit: char) -> Fingerprint {
        let text: String = std::iter::repeat_n(digit, 64).collect();
        text.parse().expect("a fingerprint")
    }

    #[test]
    fn a_link_in_place_of_the_draft_leads_nowhere() {
        let home = tempfile::tempdir().expect("a directory");
        let known = KnownWeb::of(home.path());
        let other = home.path().join("other");
        fs::write(&other, "kept").expect("written");
        let draft = format!(".{NAME}.{}", std::process::id());
        std::os::unix::fs::symlink(&other, home.path().join(draft)).expect("linked");
        let node = HostPort::parse("dtn1", PORT_DEFAULT).expect("a host");
        known.remember(&node, fingerprint('a')).expect("written");
        assert_eq!(fs::read(&other).expect("there"), b"kept");
        assert_eq!(known.find(&node).expect("read"), Some(fingerprint('a')));
    }

    #[test]
    fn a_remembered_fingerprint_is_found_and_other_lines_stay() {
        let home = tempfile::tempdir().expect("a directory");
        let known = KnownWeb::of(&home.path().join("made"));
        let node = |text| HostPort::parse(text, PORT_DEFAULT).expect("a host");
        let (first, second) = (node("dtn1"), node("dtn2:443"));
        assert_eq!(known.find(&first).expect("read"), None);
        known.remember(&first, fingerprint('a')).expect("written");
        let text = fs::read_to_string(known.path()).expect("there");
        fs::write(known.path(), format!("# ours\n\n{text}")).expect("written");
        known.remember(&second, fingerprint('b')).expect("written");
        let before = known.remember(&first, fingerprint('c')).expect("written");
        assert_eq!(before, Some(fingerprint('a')));
        assert_eq!(known.find(&first).expect("read"), Some(fingerprint('c')));
        assert_eq!(known.find(&second).expect("read"), Some(fingerprint('b')));
        let text = fs::read_to_string(known.path()).expect("there");
        assert!(text.starts_with("# ours\n\n"), "{text}");
        assert_eq!(
            fs::read_dir(home.path().join("made"))
                .expect("there")
                .count(),
            1
        );
    }

    #[test]
    fn a_line_that_says_nothing_known_is_named() {
        let home = tempfile::tempdir().expect("a directory");
        let known = KnownWeb::of(home.path());
        let node = HostPort::parse("dtn1", PORT_DEFAULT).expect("a host");
        for line in ["dtn1", "dtn1 abc", "a b c"] {
            fs::write(known.path(), format!("# ours\n{line}\n")).expect("written");
            let reported = known.find(&node).expect_err("refused").to_string();
            assert!(reported.contains("known_web:2: "), "{reported}");
        }
    }
}
