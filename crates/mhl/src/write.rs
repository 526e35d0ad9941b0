//! Owns the writing of XML: a generation from its parts, and files that replace others when they are complete.
//! Decides nothing about digests.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use chrono::{DateTime, SecondsFormat, Utc};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::Error;
use crate::digest::{Digest, Format};
use crate::generation::{Action, Process, Tool};
use crate::place::open_directory;

/// Text for an element or an attribute.
pub(crate) fn escaped(text: &str) -> String {
    // A reader of XML takes a carriage return for a line feed.
    quick_xml::escape::escape(text).replace('\r', "&#13;")
}

/// Whether XML can have this text.
pub(crate) fn is_writable(text: &str) -> bool {
    text.chars()
        .all(|one| matches!(one, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..))
}

/// Seconds of the first and the last time with four digits for the year, since 1970.
const SECONDS_MIN: i64 = -62_135_596_800;
const SECONDS_MAX: i64 = 253_402_300_799;

/// The time for an attribute. A file system may have times outside the calendar; the nearest valid time replaces them.
pub(crate) fn time(at: SystemTime) -> String {
    let seconds = match at.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(SECONDS_MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(SECONDS_MIN, |past| -past),
    };
    let seconds = seconds.clamp(SECONDS_MIN, SECONDS_MAX);
    let at = DateTime::<Utc>::from_timestamp(seconds, 0).unwrap_or_default();
    at.to_rfc3339_opts(SecondsFormat::Secs, false)
}

/// The digests of a directory.
#[derive(Clone, Debug)]
pub(crate) struct DirectoryDigest {
    pub(crate) format: Format,
    pub(crate) content: Digest,
    pub(crate) structure: Digest,
}

/// A generation that is being written.
pub(crate) struct Writing {
    file: Replacing,
    now: String,
}

impl Writing {
    /// Writes everything that comes before the files.
    pub(crate) fn begin(
        path: &Path,
        (tool, process, now): (&Tool, Process, SystemTime),
        root: &[DirectoryDigest],
        ignored: &[String],
    ) -> Result<Self, Error> {
        let now = time(now);
        let mut file = Replacing::begin(path)?;
        let mut head = || -> io::Result<()> {
            writeln!(file, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
            writeln!(
                file,
                "<hashlist version=\"2.0\" xmlns=\"urn:ASC:MHL:v2.0\">"
            )?;
            writeln!(file, "  <creatorinfo>")?;
            writeln!(file, "    <creationdate>{now}</creationdate>")?;
            writeln!(file, "    <hostname>{}</hostname>", escaped(&tool.host))?;
            let (name, version) = (escaped(&tool.name), escaped(&tool.version));
            writeln!(file, "    <tool version=\"{version}\">{name}</tool>")?;
            writeln!(file, "  </creatorinfo>")?;
            writeln!(file, "  <processinfo>")?;
            writeln!(file, "    <process>{}</process>", process.name())?;
            if !root.is_empty() {
                writeln!(file, "    <roothash>")?;
                directory_digests(&mut file, root, &now)?;
                writeln!(file, "    </roothash>")?;
            }
            writeln!(file, "    <ignore>")?;
            for pattern in ignored {
                writeln!(file, "      <pattern>{}</pattern>", escaped(pattern))?;
            }
            writeln!(file, "    </ignore>")?;
            writeln!(file, "  </processinfo>")?;
            writeln!(file, "  <hashes>")
        };
        head().map_err(Error::io(path))?;
        Ok(Self { file, now })
    }

    /// Adds a file.
    pub(crate) fn file(
        &mut self,
        path: &str,
        (size, modified): (u64, SystemTime),
        digests: &[(Format, Digest, Action)],
    ) -> io::Result<()> {
        let (path, modified) = (escaped(path), time(modified));
        writeln!(self.file, "    <hash>")?;
        writeln!(
            self.file,
            "      <path size=\"{size}\" lastmodificationdate=\"{modified}\">{path}</path>"
        )?;
        for (format, digest, action) in digests {
            let (name, text, action) = (format.name(), format.text(digest), action.name());
            let now = &self.now;
            writeln!(
                self.file,
                "      <{name} action=\"{action}\" hashdate=\"{now}\">{text}</{name}>"
            )?;
        }
        writeln!(self.file, "    </hash>")
    }

    /// Adds a directory.
    pub(crate) fn directory(
        &mut self,
        path: &str,
        modified: SystemTime,
        digests: &[DirectoryDigest],
    ) -> io::Result<()> {
        let (path, modified) = (escaped(path), time(modified));
        writeln!(self.file, "    <directoryhash>")?;
        writeln!(
            self.file,
            "      <path lastmodificationdate=\"{modified}\">{path}</path>"
        )?;
        directory_digests(&mut self.file, digests, &self.now)?;
        writeln!(self.file, "    </directoryhash>")
    }

    /// Ends with references to the generations of histories below: their paths and C4 digests.
    pub(crate) fn finish(mut self, references: &[(String, Digest)]) -> Result<(), Error> {
        let path = self.file.path.clone();
        let mut end = || -> io::Result<()> {
            writeln!(self.file, "  </hashes>")?;
            if !references.is_empty() {
                writeln!(self.file, "  <references>")?;
                for (path, digest) in references {
                    writeln!(self.file, "    <hashlistreference>")?;
                    writeln!(self.file, "      <path>{}</path>", escaped(path))?;
                    writeln!(self.file, "      <c4>{}</c4>", Format::C4.text(digest))?;
                    writeln!(self.file, "    </hashlistreference>")?;
                }
                writeln!(self.file, "  </references>")?;
            }
            writeln!(self.file, "</hashlist>")
        };
        end().map_err(Error::io(&path))?;
        self.file.finish()
    }
}

fn directory_digests(
    file: &mut impl Write,
    digests: &[DirectoryDigest],
    now: &str,
) -> io::Result<()> {
    for (element, is_content) in [("content", true), ("structure", false)] {
        writeln!(file, "      <{element}>")?;
        for one in digests {
            let digest = if is_content {
                &one.content
            } else {
                &one.structure
            };
            let (name, text) = (one.format.name(), one.format.text(digest));
            writeln!(file, "        <{name} hashdate=\"{now}\">{text}</{name}>")?;
        }
        writeln!(file, "      </{element}>")?;
    }
    Ok(())
}

/// A file under a temporary name, which gets its name when it is complete and safe from a power cut.
pub(crate) struct Replacing {
    pub(crate) path: PathBuf,
    /// The opened directory. The handle stays at this directory even if another directory gets its name.
    folder: OwnedFd,
    temporary: String,
    file: BufWriter<File>,
    is_finished: bool,
}

impl Replacing {
    pub(crate) fn begin(path: &Path) -> Result<Self, Error> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = format!(".{name}.godwit");
        let failed = |error: Errno| Error::io(&path.with_file_name(&temporary))(error.into());
        let folder = path.parent().unwrap_or(path);
        let folder = open_directory(folder).map_err(Error::io(folder))?;
        // A killed program may have left one.
        match rustix::fs::unlinkat(&folder, &*temporary, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(failed(error)),
        }
        // The files have the rights of their folder. The mask of the process may be cleared.
        let mode = rustix::fs::fstat(&folder).map_err(failed)?.st_mode & 0o666 | 0o600;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode);
        let file = rustix::fs::openat(&folder, &*temporary, flags, mode).map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            folder,
            temporary,
            file: BufWriter::with_capacity(1 << 16, File::from(file)),
            is_finished: false,
        })
    }

    pub(crate) fn finish(mut self) -> Result<(), Error> {
        let mut all = || -> io::Result<()> {
            self.file.flush()?;
            self.file.get_ref().sync_all()?;
            let name = self.path.file_name().unwrap_or_default();
            rustix::fs::renameat(&self.folder, &*self.temporary, &self.folder, name)?;
            Ok(rustix::fs::fsync(&self.folder)?)
        };
        let done = all();
        self.is_finished = done.is_ok();
        done.map_err(Error::io(&self.path))
    }
}

impl Write for Replacing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Replacing {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = rustix::fs::unlinkat(&self.folder, &*self.temporary, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_that_no_calendar_has_become_the_nearest_one() {
        let at = |seconds: u64| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        let shown = |seconds| at(seconds).map(time);
        assert_eq!(shown(0).as_deref(), Some("1970-01-01T00:00:00+00:00"));
        assert_eq!(shown(1 << 62).as_deref(), Some("9999-12-31T23:59:59+00:00"));
        let early = SystemTime::UNIX_EPOCH.checked_sub(Duration::from_secs(1 << 62));
        assert_eq!(
            early.map(time).as_deref(),
            Some("0001-01-01T00:00:00+00:00")
        );
    }

    #[test]
    fn text_keeps_its_line_ends_and_marks() {
        assert_eq!(escaped("a\r<&>"), "a&#13;&lt;&amp;&gt;");
        assert!(is_writable("a\tb\u{10ffff}"));
        assert!(!is_writable("a\u{1}") && !is_writable("\u{ffff}"));
    }
}
