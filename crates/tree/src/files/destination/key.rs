//! Computes the key of a transfer's journal, from which the tag of its temporary files is derived. Does not open the journal.

use godwit_store::journal::{JournalDirectory, JournalKey};

use super::DestinationRequest;

impl DestinationRequest {
    /// The journal's key: the same sender, sources, names and destination have the same key.
    ///
    /// A later attempt on another node has a different key, and therefore different temporary names. A call that hangs at an earlier node
    /// takes effect late, and must not change a file of this attempt.
    pub fn key(&self) -> JournalKey {
        let key = self.key_for(&self.sender);
        let is_later = self.earlier.into.is_some() && self.member.is_none();
        if !is_later || self.node.is_empty() {
            return key;
        }
        match JournalDirectory::header_of(&self.journals, key) {
            Some(_) => key,
            None => self.key_for(&[&self.sender, LATER, &self.node].concat()),
        }
    }

    fn key_for(&self, sender: &[u8]) -> JournalKey {
        let is_directory = [u8::from(self.place.is_directory)];
        let mut parts: Vec<&[u8]> = vec![
            b"godwit transfer 1",
            sender,
            &self.place.storage_path,
            self.place.base.as_bytes(),
            &is_directory,
        ];
        if self.comparison().counterpart {
            parts.push(COUNTERPART);
        }
        // A transfer that only deletes resumes nothing, and must not touch the files that another run may resume.
        if self.comparison().existing && self.comparison().ignore_existing {
            parts.push(MAKES_NOTHING);
        }
        parts.extend(self.sources.iter().map(Vec::as_slice));
        if self.has_names_of_its_own() {
            parts.push(NAMES_FOLLOW);
            parts.extend(self.names.iter().map(Vec::as_slice));
        }
        self.member_key(parts)
    }

    /// Whether the names are not determined by the sources. In a usual transfer each source keeps its name, and the key contains no
    /// names, so that journals of earlier versions stay valid. For a counterpart the name is not used.
    fn has_names_of_its_own(&self) -> bool {
        let own = self.sources.iter().map(|source| own_name(source));
        // A source with the same name as the mark of a counterpart must not be mistaken for that mark.
        let is_like_the_mark = self
            .sources
            .first()
            .is_some_and(|first| first == COUNTERPART);
        !self.comparison().counterpart
            && (is_like_the_mark || !own.eq(self.names.iter().map(Vec::as_slice)))
    }
}

/// Precedes the node in the key of a later attempt of a job. No path contains a zero byte.
const LATER: &[u8] = b"\0later";

/// Marks a key whose destination is the counterpart of the source.
const COUNTERPART: &[u8] = b"counterpart";

/// Marks a key of a transfer that makes and replaces nothing.
const MAKES_NOTHING: &[u8] = b"\0makes nothing";

/// Separates sources and names in a key. No path contains a zero byte.
const NAMES_FOLLOW: &[u8] = b"\0names";

/// The last component of a path; empty for a root, `.` and `..`.
fn own_name(path: &[u8]) -> &[u8] {
    let mut components = path.rsplit(|byte| *byte == b'/');
    match components.find(|component| !component.is_empty()) {
        Some(b"." | b"..") | None => b"",
        Some(name) => name,
    }
}
